"""How much a client may ask for, and how long the server waits."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


def _limit(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Limits:
    """How much may be asked. Raises `ValueError` for a value that is not a positive number."""

    max_query_length: int = _limit(2000, "characters of a question")
    max_queries: int = _limit(64, "questions of a request")
    max_k: int = _limit(100, "passages of a question, those that `offset` skips included")
    max_request_bytes: int = _limit(1_000_000, "bytes of a request's body")
    max_concurrency: int = _limit(256, "requests that wait or are answered at one time; more get 429")
    max_connections: int = _limit(1000, "open connections; more are closed at once")
    timeout: float = _limit(30.0, "seconds that a request's body may take to arrive, and then to be answered")
    header_timeout: float = _limit(10.0, "seconds that a connection may take to send the head of a request")
    max_batch_size: int = _limit(32, "questions that are searched together")
    batch_wait_ms: float = _limit(2.0, "milliseconds that a batch stays open for others to join it")

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} is {value}: a limit is a positive number")


# names of earlier versions, still accepted on the command line
RENAMED = {
    "most_letters": "max_query_length",
    "most_questions": "max_queries",
    "most_k": "max_k",
    "most_bytes": "max_request_bytes",
    "most_requests": "max_concurrency",
    "seconds": "timeout",
    "batch": "max_batch_size",
    "wait": "batch_wait_ms",
}


class AccessLog(StrEnum):
    """What is logged of each request, to the standard error."""

    NONE = "none"
    JSON = "json"


@dataclass(frozen=True)
class Logging:
    """What is logged of requests: never the text of a question. Raises `ValueError` for a negative time."""

    access_log: AccessLog = field(
        default=AccessLog.NONE, metadata={"help": "log each request as a line of JSON, or none"}
    )
    slow_query_ms: float = _limit(0.0, "log requests that took this many milliseconds or more; 0: none")

    def __post_init__(self) -> None:
        if not self.slow_query_ms >= 0:
            raise ValueError(f"slow_query_ms is {self.slow_query_ms}: a time is 0 or more")
