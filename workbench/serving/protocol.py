"""Limits, JSON schemas and errors of requests; middleware that checks and logs each request; and Prometheus metrics.

Text format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import json
import logging
import re
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, get_args
from uuid import uuid4

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, create_model, model_validator
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

RENAMED = {  # earlier names of options
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
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
_HELP = {
    "mrc_requests_total": "Requests by path, method and status; 499: the client closed the connection.",
    "mrc_refusals_total": "Refused requests, by the code in their JSON.",
    "mrc_request_duration_seconds": "Seconds from the head of a request to the end of its answer, by path.",
    "mrc_queries_total": "Questions that were answered, by retriever.",
    "mrc_search_duration_seconds": "Seconds that a search request waited and was searched, by retriever.",
    "mrc_connections_refused_total": "Connections closed because too many were open.",
    "mrc_connections_timed_out_total": "Connections closed because no head of a request arrived in time.",
    "mrc_connections": "Open connections.",
    "mrc_requests_in_progress": "Requests to /search that wait or are answered now.",
    "mrc_ready": "1 if /readyz answers 200, else 0.",
    "mrc_info": "1, labelled with the version and the corpus that is served.",
    "process_start_time_seconds": "Start time of the process since the Unix epoch, in seconds.",
    "process_resident_memory_bytes": "Resident memory in bytes.",
}
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
MetricLabels = tuple[tuple[str, str], ...]
logger = logging.getLogger(__name__)
access_logger = logging.getLogger(f"{__package__}.access")
CLIENT_CLOSED_REQUEST = 499  # only for logs: no client receives it
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_OWN_HOSTS = ("127.0.0.1", "localhost", "[::1]")
LogFields = dict[str, Any]


def _option(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class RequestLimits:
    """Limits of requests. Raises `ValueError` for a value that is not a positive number."""

    max_query_length: int = _option(2000, "characters of a question")
    max_queries: int = _option(64, "questions of a request")
    max_k: int = _option(100, "passages of a question, those that `offset` skips included")
    max_request_bytes: int = _option(1_000_000, "bytes of a request's body")
    max_concurrency: int = _option(256, "requests that wait or are answered at one time; more get 429")
    max_connections: int = _option(1000, "open connections; more are closed at once")
    timeout: float = _option(30.0, "seconds that a request's body may take to arrive, and then to be answered")
    header_timeout: float = _option(10.0, "seconds that a connection may take to send the head of a request")
    max_batch_size: int = _option(32, "questions that are searched together")
    batch_wait_ms: float = _option(2.0, "milliseconds that a batch stays open for others to join it")

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} is {value}: a limit is a positive number")


class AccessLog(StrEnum):
    """The access log on standard error."""

    NONE = "none"
    JSON = "json"


@dataclass(frozen=True)
class Logging:
    """Options of the access log, which never has the text of questions. Raises `ValueError` for a negative time."""

    access_log: AccessLog = field(
        default=AccessLog.NONE, metadata={"help": "log each request as a line of JSON, or none"}
    )
    slow_query_ms: float = _option(0.0, "log requests that took this many milliseconds or more; 0: none")

    def __post_init__(self) -> None:
        if not self.slow_query_ms >= 0:
            raise ValueError(f"slow_query_ms is {self.slow_query_ms}: a time is 0 or more")


class ResponseHit(BaseModel):
    """A passage; higher scores are better. A request with `fields` receives only these."""

    rank: int
    id: str
    title: str = ""
    text: str = ""
    score: float = 0.0


HitField = Literal["rank", "id", "title", "text", "score"]  # fields of `ResponseHit`
_Fields = Annotated[list[HitField], Field(min_length=1, max_length=len(get_args(HitField)))]


class QuestionHits(BaseModel):
    """The passages of a question, best first."""

    question: str
    hits: list[ResponseHit]


class SearchResponse(BaseModel):
    """The passages of each question, in the order of the request."""

    retriever: str
    results: list[QuestionHits]


class ErrorResponse(BaseModel):
    """Why a request was refused: a code for programs, and a message."""

    code: str
    error: str


class RequestError(Exception):
    """A refused request: the HTTP status, the fields of `ErrorResponse`, and further headers."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers


class SearchRequest(BaseModel):
    """One or several questions, the number of passages of each, and the retriever if there are several."""

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


def search_request_model(limits: RequestLimits) -> type[SearchRequest]:
    """Return the model of requests with the limits in its schema; `query`, `queries` and `top_k` are aliases."""
    text: Any = Annotated[str, Field(min_length=1, max_length=limits.max_query_length)]
    question_list: Any = Annotated[list[text], Field(min_length=1, max_length=limits.max_queries)]
    alias = {name: AliasChoices(name, other) for name, other in _ALIASES.items()}

    class Checked(SearchRequest):
        @model_validator(mode="after")
        def _check(self) -> "Checked":
            if (self.question is None) == (self.questions is None):
                raise ValueError("give either question or questions")
            if self.k + self.offset > limits.max_k:
                raise ValueError(f"k and offset together are at most {limits.max_k}")
            return self

    k = Field(min(10, limits.max_k), description="passages of each", ge=1, le=limits.max_k, validation_alias=alias["k"])
    return create_model(
        "SearchRequest",
        __base__=Checked,
        question=(text | None, Field(None, description="a question", validation_alias=alias["question"])),
        questions=(question_list | None, Field(None, description="or several", validation_alias=alias["questions"])),
        k=(int, k),
        offset=(int, Field(0, description="passages to skip, the best first", ge=0, lt=limits.max_k)),
    )


def schema_of(model: type[SearchRequest], retrievers: Collection[str]) -> dict[str, Any]:
    """Return the JSON schema of a request to the `retrievers`, with either question or questions."""
    schema = model.model_json_schema()
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


def problem_text(error: Mapping[str, Any]) -> str:
    """Return the message of a validation error, without content of the request."""
    if error["type"] == "extra_forbidden":
        return (
            "an unknown or repeated field; the fields are question or questions (also query, queries), "
            "k (also top_k), offset, min_score, fields and retriever"
        )
    location = ".".join(map(str, error["loc"]))
    message = str(error["msg"]).removeprefix("Value error, ")  # added by pydantic
    return f"{location}: {message}" if location else message


def examples_of(retrievers: Collection[str]) -> dict[str, Any]:
    """Return valid requests for the API description."""
    named = {"retriever": next(iter(retrievers))} if len(retrievers) > 1 else {}
    return {
        "a question": {"value": {"question": "자격루는 누가 만들었는가?", "k": 3, **named}},
        "several": {"value": {"questions": ["자격루는 누가 만들었는가?", "측우기는 무엇을 재는가?"], **named}},
    }


@dataclass
class _Histogram:
    counts: list[int] = field(default_factory=lambda: [0] * (len(_BUCKETS) + 1))
    total: float = 0.0


class Metrics:
    """Counters and histograms by name and labels. Not thread-safe."""

    def __init__(self) -> None:
        self._counters: dict[str, dict[MetricLabels, float]] = defaultdict(lambda: defaultdict(float))
        self._histograms: dict[str, dict[MetricLabels, _Histogram]] = defaultdict(lambda: defaultdict(_Histogram))

    def count(self, name: str, value: float = 1, /, **labels: str) -> None:
        self._counters[name][_key(labels)] += value

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        histogram = self._histograms[name][_key(labels)]
        histogram.counts[bisect_left(_BUCKETS, seconds)] += 1
        histogram.total += seconds

    def text(self, gauges: Mapping[str, tuple[float, Mapping[str, str]]]) -> str:
        """Return all metrics in the text format; `gauges` are current values with their labels."""
        lines: list[str] = []
        for name, counters in sorted(self._counters.items()):
            lines += [*_head(name, "counter"), *(_sample(name, key, value) for key, value in sorted(counters.items()))]
        for name, histograms in sorted(self._histograms.items()):
            lines += _head(name, "histogram")
            for key, histogram in sorted(histograms.items()):
                below = 0
                for bound, count in zip((*map(repr, _BUCKETS), "+Inf"), histogram.counts, strict=True):
                    below += count
                    lines.append(_sample(f"{name}_bucket", (*key, ("le", bound)), below))
                lines += [_sample(f"{name}_sum", key, histogram.total), _sample(f"{name}_count", key, below)]
        for name, (value, labels) in sorted(gauges.items()):
            lines += [*_head(name, "gauge"), _sample(name, _key(labels), value)]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str) -> list[str]:
    return [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} {kind}"]


def _sample(name: str, key: MetricLabels, value: float) -> str:
    labels = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in key)
    number = repr(value) if isinstance(value, int) or not value.is_integer() else str(int(value))
    return f"{name}{{{labels}}} {number}" if labels else f"{name} {number}"


def _key(labels: Mapping[str, str]) -> MetricLabels:
    return tuple(sorted(labels.items()))


@dataclass(eq=False)
class ServingMiddleware:
    """Adds request ids, metrics and logs, and checks hosts. `methods` are those of each path of the app."""

    app: ASGIApp
    methods: dict[str, tuple[str, ...]]
    metrics: Metrics
    logs: Logging
    answer: Callable[[object, int, dict[str, str]], JSONResponse]
    any_host: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        started = time.perf_counter()
        header_id = headers.get("x-request-id", "")
        request_id = header_id if _REQUEST_ID.fullmatch(header_id) else uuid4().hex
        log_fields: LogFields = {"request_id": request_id}
        scope.setdefault("state", {})["log_fields"] = log_fields
        status = 500
        size = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)

        try:
            if response := self._early_response(scope, headers):
                await response(scope, receive, send_with_id)
            else:
                await self.app(scope, receive, send_with_id)
        except Exception:
            logger.exception("request %s failed", request_id)
            error_text = "something went wrong here; the log of this server has the details of this request id"
            log_fields["code"] = "failed"
            await self.answer({"code": "failed", "error": error_text}, 500, {})(scope, receive, send_with_id)
        finally:
            self._log_request(scope, log_fields, status, size, time.perf_counter() - started)

    def _early_response(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the response to a wrong host or to OPTIONS, else None."""
        # against DNS rebinding: without a key, a website with a name for this address could read responses
        host = re.sub(r":\d+$", "", headers.get("host", "")).lower()
        if not self.any_host and host not in _OWN_HOSTS:
            error = RequestError(421, "other_host", "without a key this server answers only to 127.0.0.1 and localhost")
            scope["state"]["log_fields"]["code"] = error.code
            return self.answer({"code": error.code, "error": str(error)}, error.status, {})
        if scope["method"] == "OPTIONS" and scope["path"] in self.methods:
            return Response(status_code=204, headers={"Allow": ", ".join((*self.methods[scope["path"]], "OPTIONS"))})
        return None

    def _log_request(self, scope: Scope, log_fields: LogFields, status: int, size: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self.methods else "other"
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "OPTIONS", "POST") else "other"
        self.metrics.count("mrc_requests_total", path=path, method=method, status=str(status))
        self.metrics.observe("mrc_request_duration_seconds", seconds, path=path)
        if "code" in log_fields:
            self.metrics.count("mrc_refusals_total", code=log_fields["code"])
        if retriever := log_fields.get("retriever"):
            self.metrics.observe("mrc_search_duration_seconds", seconds, retriever=retriever)
            if status < 300:
                self.metrics.count("mrc_queries_total", log_fields["questions"], retriever=retriever)
        is_slow = 0 < self.logs.slow_query_ms <= seconds * 1000
        if self.logs.access_log is AccessLog.NONE and not is_slow:
            return
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "event": "slow_query" if is_slow else "request",
            **log_fields,
            "client": (scope.get("client") or ("",))[0],
            "method": scope["method"],
            "path": scope["path"][:200],
            "status": status,
            "bytes": size,
            "ms": round(seconds * 1000, 2),
        }
        access_logger.warning(json.dumps(line))
