"""Searchers over HTTP: what may be asked, by whom and how much at once; a refusal is JSON in plain words, too."""

import asyncio
import hmac
import logging
import re
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response, Security
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from data.problems import Failure
from serving.searcher import Batches, Searcher

logger = logging.getLogger(__name__)


def _limit(default: float, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Limits:
    """How much may be asked. Raises `ValueError` for one that is no positive number."""

    most_letters: int = _limit(2000, "of a question")
    most_questions: int = _limit(64, "of a request")
    most_k: int = _limit(100, "passages of a question")
    most_bytes: int = _limit(1_000_000, "of a request")
    most_requests: int = _limit(256, "that wait or are answered at one time: others are asked to come again")
    seconds: float = _limit(30.0, "that a request may take to arrive, and then to be answered")
    batch: int = _limit(32, "questions that are searched together")
    wait: float = _limit(2.0, "milliseconds that a batch stays open for others to join it")

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} is {value}: a limit is a positive number")


HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
_AGAIN = {"Retry-After": "1"}  # seconds


class Found(BaseModel):
    """A passage; higher scores are better."""

    rank: int
    id: str
    title: str
    text: str
    score: float


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


class Refused(Exception):  # noqa: N818 - it is told as a `Refusal`
    """Why a request is not answered: its status, the `Refusal`, and headers that say more."""

    def __init__(self, status: int, code: str, words: str, **headers: str) -> None:
        super().__init__(words)
        self.status, self.code, self.headers = status, code, headers


class Asked(BaseModel):
    """A question or several, and how many passages of each are wanted; of which retriever, where several are served."""

    model_config = ConfigDict(extra="forbid", strict=True)
    question: str | None = None
    questions: list[str] | None = None
    k: int = 10
    retriever: str | None = Field(default=None, max_length=1000)

    @model_validator(mode="after")
    def _one_of_both(self) -> "Asked":
        if (self.question is None) == (self.questions is None):
            raise ValueError("give either question or questions")
        return self

    @property
    def all(self) -> list[str]:
        return self.questions if self.questions is not None else [self.question or ""]


def _asked_within(limits: Limits) -> type[Asked]:
    """Return what may be asked, its schema telling the limits."""
    text: Any = Annotated[str, Field(min_length=1, max_length=limits.most_letters)]
    several: Any = Annotated[list[text], Field(min_length=1, max_length=limits.most_questions)]
    return create_model(
        "Asked",
        __base__=Asked,
        question=(text | None, Field(None, description="a question")),
        questions=(several | None, Field(None, description="or several")),
        k=(int, Field(10, description="passages of each", ge=1, le=limits.most_k)),
    )


class Service:
    """The searchers at work: what is under way, and whether it is to end. Its methods answer requests."""

    def __init__(self, searchers: Mapping[str, Searcher], limits: Limits, key: str) -> None:
        self.searchers, self.limits, self._key = searchers, limits, key.encode()
        self.asked, self.under_way, self.is_ending = _asked_within(limits), 0, False
        self._batches: dict[str, Batches] = {}

    @asynccontextmanager
    async def at_work(self, app: FastAPI) -> AsyncIterator[None]:
        """Search in one thread, whatever is asked: models and indexes use the cores by themselves."""
        del app
        limits = self.limits
        with ThreadPoolExecutor(1, "search") as thread:
            self._batches = {
                name: Batches(searcher, thread, most=limits.batch, seconds=limits.wait / 1000)
                for name, searcher in self.searchers.items()
            }
            works = [asyncio.create_task(batches.work()) for batches in self._batches.values()]
            try:
                yield
            finally:
                for work in works:
                    work.cancel()

    async def health(self) -> Response:
        """Tell whether questions are answered here."""
        if self.is_ending:
            raise Refused(503, "ending", "this server is about to end", **_AGAIN)
        return self.json({"status": "ready"})

    async def search(self, request: Request) -> Response:
        """Return the best passages of each question."""
        self._let_in(request)
        if self.under_way >= self.limits.most_requests:
            raise Refused(429, "busy", "too many requests wait already: ask again in a moment", **_AGAIN)
        self.under_way += 1
        try:
            asked = await self._read(request)
            name = self._name(asked)
            async with asyncio.timeout(self.limits.seconds):
                hits = await self._batches[name].search(asked.all, asked.k)
        except TimeoutError:
            words = f"no answer was found within {self.limits.seconds:g} seconds: ask again in a moment"
            raise Refused(503, "too_slow", words, **_AGAIN) from None
        except Failure as error:  # of an engine that others serve, mostly: what it says may name places
            logger.warning("%s cannot search: %s", name, error)
            words = "what searches here cannot be asked now: ask again in a moment"
            raise Refused(503, error.code, words, **_AGAIN) from error
        finally:
            self.under_way -= 1
        results = []
        for question, found in zip(asked.all, hits, strict=True):
            ranked = [{"rank": rank, **hit._asdict()} for rank, hit in enumerate(found, start=1)]
            results.append({"question": question, "hits": ranked})
        return self.json({"retriever": name, "results": results})

    def json(self, content: object, status: int = 200, **headers: str) -> JSONResponse:
        """Answer; the last one of a connection says so once this is about to end."""
        closing = {"Connection": "close"} if self.is_ending else {}
        return JSONResponse(content, status, {**HEADERS, **headers, **closing})

    def _let_in(self, request: Request) -> None:
        given = request.headers.get("authorization", "").encode("latin-1").removeprefix(b"Bearer ")
        if self._key and not hmac.compare_digest(given, self._key):
            words = "the key of this server is missing or wrong: send it as Authorization: Bearer KEY"
            raise Refused(401, "no_key", words, **{"WWW-Authenticate": "Bearer"})
        # without a key a page of elsewhere, whose name leads here, could ask in the name of who looks at it
        host = re.sub(r":\d+$", "", request.headers.get("host", ""))
        if not self._key and host not in _OWN_NAMES:
            raise Refused(421, "other_host", "without a key this server answers to 127.0.0.1 and localhost alone")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "no_json", "send JSON, with Content-Type: application/json")

    async def _read(self, request: Request) -> Asked:
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > self.limits.most_bytes:
                        words = f"a request may hold {self.limits.most_bytes:,} bytes"
                        raise Refused(413, "too_large", words, Connection="close")
        except TimeoutError:
            raise Refused(408, "too_late", "the request did not arrive in time", Connection="close") from None
        except ClientDisconnect:
            raise Refused(400, "gone", "the connection ended before the request did") from None
        try:
            return self.asked.model_validate_json(bytes(body))
        except ValidationError as error:
            raise Refused(422, "not_understood", "; ".join(_told(one) for one in error.errors()[:3])) from None

    def _name(self, asked: Asked) -> str:
        name = asked.retriever or (next(iter(self.searchers)) if len(self.searchers) == 1 else "")
        if name not in self.searchers:
            there = f"served here: {', '.join(self.searchers)}"
            words = f"there is no retriever of that name; {there}" if name else f"name a retriever; {there}"
            raise Refused(404, "unknown_retriever", words)
        return name


def app_of(searchers: Mapping[str, Searcher], limits: Limits | None = None, key: str = "") -> FastAPI:
    """Return the application over searchers by name; where there is a `key`, nobody searches without it.

    Its `state.service` is the `Service`.
    """
    service = Service(searchers, limits or Limits(), key)
    app = FastAPI(
        title="Passages for questions",
        description="Retrievers as they were compared: the same passages, in the same order.",
        version="1",
        lifespan=service.at_work,
        openapi_url=None,  # it is given below, with the headers of all answers
        docs_url=None,  # pages that would ask other hosts for their scripts
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.service = service
    refusals = {status: {"model": Refusal} for status in (401, 404, 408, 413, 415, 421, 422, 429, 500, 503)}
    content = {"application/json": {"schema": service.asked.model_json_schema(), "examples": _examples(searchers)}}
    app.add_api_route(
        "/search",
        service.search,
        methods=["POST"],
        response_model=Answer,
        responses=refusals,  # type: ignore[arg-type]
        dependencies=[Security(HTTPBearer(auto_error=False))] if key else [],
        openapi_extra={"requestBody": {"required": True, "content": content}},
    )
    app.add_api_route("/healthz", service.health, response_model=dict[str, str], responses={503: {"model": Refusal}})
    app.add_api_route("/openapi.json", lambda: service.json(app.openapi()), include_in_schema=False)

    async def refused(_: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):  # the framework's own
            codes = {404: "no_such_place", 405: "other_method"}
            error = Refused(error.status_code, codes.get(error.status_code, "refused"), error.detail)
        elif not isinstance(error, Refused):
            error = Refused(500, "failed", "something went wrong here, and is told in this server's log")
        return service.json({"code": error.code, "error": str(error)}, error.status, **error.headers)

    for kind in (Refused, HTTPException, Exception):
        app.add_exception_handler(kind, refused)
    return app


def _told(error: Any) -> str:
    """Say in words what is wrong, without repeating what was given."""
    if error["type"] == "extra_forbidden":
        return "a field that is not known; there are question, questions, k and retriever"
    place = ".".join(map(str, error["loc"]))
    return f"{place}: {error['msg']}" if place else str(error["msg"])


def _examples(searchers: Mapping[str, Searcher]) -> dict[str, Any]:
    named = {"retriever": next(iter(searchers))} if len(searchers) > 1 else {}
    return {
        "a question": {"value": {"question": "자격루는 누가 만들었는가?", "k": 3, **named}},
        "several": {"value": {"questions": ["자격루는 누가 만들었는가?", "측우기는 무엇을 재는가?"], **named}},
    }
