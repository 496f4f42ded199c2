"""The limits of the server; what clients send and get: JSON with its schema, and refusals in words."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, create_model, model_validator

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
_ALIASES = {"question": "query", "questions": "queries", "k": "top_k"}


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


class Found(BaseModel):
    """A passage; higher scores are better. With `fields`, an answer holds those alone."""

    rank: int
    id: str
    title: str = ""
    text: str = ""
    score: float = 0.0


class HitField(StrEnum):
    """A field of a passage that was found, as `fields` names it."""

    RANK = "rank"
    ID = "id"
    TITLE = "title"
    TEXT = "text"
    SCORE = "score"


_Fields = Annotated[list[Annotated[HitField, Field(strict=False)]], Field(min_length=1, max_length=len(HitField))]


class Answered(BaseModel):
    """What was found for a question, best first."""

    question: str
    hits: list[Found]


class Answer(BaseModel):
    """What was found, for each question in the order asked."""

    retriever: str
    results: list[Answered]


class Refusal(BaseModel):
    """Why a request was not answered: a word for programs, a sentence for people."""

    code: str
    error: str


class Refused(Exception):  # noqa: N818 - it is answered as a `Refusal`
    """Why a request is not answered: its status, the `Refusal`, and headers that say more."""

    def __init__(self, status: int, code: str, words: str, **headers: str) -> None:
        super().__init__(words)
        self.status, self.code, self.headers = status, code, headers


class Asked(BaseModel):
    """A question or several, how many passages of each to return, and the retriever if several are served."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)
    question: str | None = None
    questions: list[str] | None = None
    k: int = 10
    offset: int = 0
    min_score: float | None = Field(None, description="leave out passages with a lower score", allow_inf_nan=False)
    fields: _Fields | None = Field(None, description="fields of each passage; all, if not given")
    retriever: str | None = Field(None, max_length=1000)

    @property
    def all(self) -> list[str]:
        return self.questions if self.questions is not None else [self.question or ""]


def asked_within(limits: Limits) -> type[Asked]:
    """Return the model of requests, with the limits in its schema; `query`, `queries` and `top_k` are aliases."""
    text: Any = Annotated[str, Field(min_length=1, max_length=limits.max_query_length)]
    several: Any = Annotated[list[text], Field(min_length=1, max_length=limits.max_queries)]
    alias = {name: AliasChoices(name, other) for name, other in _ALIASES.items()}

    class Checked(Asked):
        @model_validator(mode="after")
        def _check(self) -> "Checked":
            if (self.question is None) == (self.questions is None):
                raise ValueError("give either question or questions")
            if self.k + self.offset > limits.max_k:
                raise ValueError(f"k and offset together are at most {limits.max_k}")
            return self

    k = Field(min(10, limits.max_k), description="passages of each", ge=1, le=limits.max_k, validation_alias=alias["k"])
    return create_model(
        "Asked",
        __base__=Checked,
        question=(text | None, Field(None, description="a question", validation_alias=alias["question"])),
        questions=(several | None, Field(None, description="or several", validation_alias=alias["questions"])),
        k=(int, k),
        offset=(int, Field(0, description="passages to skip, the best first", ge=0, lt=limits.max_k)),
    )


def schema_of(asked: type[Asked], retrievers: Collection[str]) -> dict[str, Any]:
    """Return the JSON schema of a request to the `retrievers`, with either question or questions."""
    schema = asked.model_json_schema()
    properties: dict[str, Any] = schema["properties"]
    for name, alias in _ALIASES.items():
        properties[alias] = {**properties[name], "description": f"the same as {name}", "deprecated": False}
    properties["retriever"] = {"type": "string", "enum": list(retrievers), "title": "Retriever"}
    required = ["retriever"] if len(retrievers) > 1 else []
    names = [name for field in ("question", "questions") for name in (field, _ALIASES[field])]
    schema["oneOf"] = [{"required": [name, *required]} for name in names]
    if required:
        schema["required"] = required
    return schema


def problem_in(error: Mapping[str, Any]) -> str:
    """Return what is wrong with a request, without repeating what was sent."""
    if error["type"] == "extra_forbidden":
        return (
            "a field that is not known, or given twice; there are question or questions (also query, queries), "
            "k (also top_k), offset, min_score, fields and retriever"
        )
    place = ".".join(map(str, error["loc"]))
    message = str(error["msg"]).removeprefix("Value error, ")  # which pydantic puts before a check of ours
    return f"{place}: {message}" if place else message


def examples_of(retrievers: Collection[str]) -> dict[str, Any]:
    """Return requests that are answered, for the description."""
    named = {"retriever": next(iter(retrievers))} if len(retrievers) > 1 else {}
    return {
        "a question": {"value": {"question": "자격루는 누가 만들었는가?", "k": 3, **named}},
        "several": {"value": {"questions": ["자격루는 누가 만들었는가?", "측우기는 무엇을 재는가?"], **named}},
    }
