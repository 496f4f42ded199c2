"""Searchers over HTTP: who may send which requests, which are searched in batches; every refusal is JSON with a reason.

POST /search                        the best passages of questions
GET  /livez, /readyz, /healthz      probes; /healthz is /readyz by its older name
GET  /info, /metrics, /openapi.json what is served, counts for Prometheus, the description
"""

import asyncio
import hmac
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, get_args

import psutil
from fastapi import FastAPI, Request, Response, Security
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from mrc_workbench.data.problems import Failure
from mrc_workbench.retrieval.searcher import Hit, Searcher
from mrc_workbench.workbench.serving.protocol import (
    CONTENT_TYPE,
    GONE,
    Answer,
    Asked,
    Gate,
    HitField,
    Limits,
    Logging,
    Metrics,
    Refusal,
    Refused,
    asked_within,
    examples_of,
    problem_in,
    schema_of,
)

logger = logging.getLogger(__name__)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_AGAIN = {"Retry-After": "1"}  # seconds
_PROBES = ("/livez", "/readyz", "/healthz")
_READ = ("GET", "HEAD")
METHODS: dict[str, tuple[str, ...]] = {
    "/search": ("POST",),
    **dict.fromkeys((*_PROBES, "/info", "/metrics", "/openapi.json"), _READ),
}
_SECONDS_BETWEEN_CHECKS = 2.0  # of the engines behind the searchers, however often a probe asks


@dataclass(frozen=True, eq=False)
class _Request:
    questions: Sequence[str]
    k: int
    answer: "asyncio.Future[list[list[Hit]]]"


class Batches:
    """Searches questions that arrive together as one batch, in a thread.

    A batch is closed once it has `most` questions, or `seconds` after the first request since the previous batch. A
    request is never divided: one with more questions is a batch of its own. Neither results nor errors depend on the
    other requests of a batch.
    """

    def __init__(self, searcher: Searcher, thread: Executor, *, most: int, seconds: float) -> None:
        self._searcher, self._thread, self._most, self._seconds = searcher, thread, most, seconds
        self._waiting: deque[_Request] = deque()
        self._somebody, self._enough = asyncio.Event(), asyncio.Event()
        self.began: float | None = None  # when the search of now began, of any batch

    async def search(self, questions: Sequence[str], k: int) -> list[list[Hit]]:
        """Return what `Searcher.search` does, and raise what it raises. Cancelled in time, it is not searched."""
        request = _Request(questions, k, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        self._note()
        return await request.answer

    async def work(self) -> None:
        """Answer until cancelled."""
        while True:
            await self._somebody.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._enough.wait()
            if batch := self._take():
                loop = asyncio.get_running_loop()
                for request, result in await loop.run_in_executor(self._thread, self._search_waiting, batch):
                    if request.answer.done():  # the client has given up
                        continue
                    if isinstance(result, Exception):
                        request.answer.set_exception(result)
                    else:
                        request.answer.set_result(result)

    def _take(self) -> list[_Request]:
        batch: list[_Request] = []
        held = 0
        while self._waiting and (not batch or held + len(self._waiting[0].questions) <= self._most):
            request = self._waiting.popleft()
            if not request.answer.done():
                batch.append(request)
                held += len(request.questions)
        self._note()
        return batch

    def _note(self) -> None:
        held = sum(len(request.questions) for request in self._waiting)
        for event, is_set in ((self._somebody, held > 0), (self._enough, held >= self._most)):
            (event.set if is_set else event.clear)()

    def _search_waiting(self, batch: Sequence[_Request]) -> list[tuple[_Request, list[list[Hit]] | Exception]]:
        """Search a batch in the thread, without the requests that were given up while it waited for the thread."""
        self.began = time.monotonic()
        try:
            waiting = [request for request in batch if not request.answer.done()]
            return list(zip(waiting, self._search(waiting), strict=True)) if waiting else []
        finally:
            self.began = None

    def _search(self, batch: Sequence[_Request]) -> list[list[list[Hit]] | Exception]:
        try:
            questions = [text for request in batch for text in request.questions]
            hits = iter(self._searcher.search(questions, max(request.k for request in batch)))
        except Exception as error:
            return [error] if len(batch) == 1 else [self._search([request])[0] for request in batch]
        return [[next(hits)[: request.k] for _ in request.questions] for request in batch]


class Service:
    """The searchers at work: what is in progress, and whether the server is ending. Its methods answer requests."""

    def __init__(
        self, searchers: Mapping[str, Searcher], limits: Limits, key: str, information: Mapping[str, Any]
    ) -> None:
        self.searchers, self.limits, self._key = searchers, limits, key.encode()
        self.asked, self.in_progress, self.is_ending = asked_within(limits), 0, False
        self.metrics, self.connections, self.started = Metrics(), 0, time.time()
        self.information = dict(information)
        self._batches: dict[str, Batches] = {}
        self._checked, self._unreachable = -_SECONDS_BETWEEN_CHECKS, ""
        self._checking = asyncio.Lock()

    @asynccontextmanager
    async def at_work(self, app: FastAPI) -> AsyncIterator[None]:
        """Search in one thread, whatever is asked: models and indexes use the cores by themselves."""
        del app
        limits = self.limits
        with ThreadPoolExecutor(1, "search") as thread:
            self._batches = {
                name: Batches(searcher, thread, most=limits.max_batch_size, seconds=limits.batch_wait_ms / 1000)
                for name, searcher in self.searchers.items()
            }
            works = [asyncio.create_task(batches.work()) for batches in self._batches.values()]
            try:
                yield
            finally:
                for work in works:
                    work.cancel()

    async def live(self) -> Response:
        """Return whether the process answers."""
        return self.json({"status": "live"})

    async def ready(self) -> Response:
        """Return whether questions can be answered now."""
        if code := await self._not_ready():
            words = {
                "ending": "this server is about to end",
                "hanging": f"a search has taken more than {self.limits.timeout:g} seconds",
                "engine_unreachable": f"the engine that {self._unreachable!r} searches in does not answer",
            }
            raise Refused(503, code, words[code], **_AGAIN)
        return self.json({"status": "ready"})

    async def info(self, request: Request) -> Response:
        """Return what is served: the corpus, the retrievers, their models and the version."""
        self._require_key(request)
        names = [{"name": name} for name in self.searchers]
        content = {"retrievers": names, **self.information, "started": self.started, "limits": vars(self.limits)}
        return self.json(content)

    async def measured(self, request: Request) -> Response:
        """Return counts and times in Prometheus's text format."""
        self._require_key(request)
        is_ready = not await self._not_ready()
        of_info = {name: str(self.information.get(name, "")) for name in ("version", "corpus_fingerprint")}
        gauges: dict[str, tuple[float, Mapping[str, str]]] = {
            "mrc_connections": (self.connections, {}),
            "mrc_requests_in_progress": (self.in_progress, {}),
            "mrc_ready": (int(is_ready), {}),
            "mrc_info": (1, of_info),
            "process_start_time_seconds": (self.started, {}),
            "process_resident_memory_bytes": (psutil.Process().memory_info().rss, {}),
        }
        return Response(self.metrics.text(gauges), headers={**HEADERS, "Content-Type": CONTENT_TYPE})

    async def search(self, request: Request) -> Response:
        """Return the best passages of each question."""
        self._require_key(request)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "no_json", "send JSON, with Content-Type: application/json")
        if self.in_progress >= self.limits.max_concurrency:
            raise Refused(429, "busy", "too many requests wait already: ask again in a moment", **_AGAIN)
        self.in_progress += 1
        try:
            asked = await self._read(request)
            name = self._name(asked)
            request.state.noted |= {"retriever": name, "questions": len(asked.all), "k": asked.k}
            hits = await self._found(request, name, asked)
        except TimeoutError:
            words = f"no answer was found within {self.limits.timeout:g} seconds: ask again in a moment"
            raise Refused(503, "too_slow", words, **_AGAIN) from None
        except Failure as error:  # of an engine that others serve, mostly: what it says may name places
            logger.warning("%s cannot search: %s", name, error)
            words = "what searches here cannot be asked now: ask again in a moment"
            raise Refused(503, error.code, words, **_AGAIN) from error
        finally:
            self.in_progress -= 1
        results = [
            {"question": question, "hits": _as_json(found, asked)}
            for question, found in zip(asked.all, hits, strict=True)
        ]
        return self.json({"retriever": name, "results": results})

    def json(self, content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> JSONResponse:
        """Answer; while the server is ending, the connection is closed after it."""
        closing = {"Connection": "close"} if self.is_ending else {}
        return JSONResponse(content, status, {**HEADERS, **(headers or {}), **closing})

    async def _found(self, request: Request, name: str, asked: Asked) -> list[list[Hit]]:
        """Search, and give up when the client closes the connection: what waits in line is then not searched."""
        search = asyncio.create_task(self._batches[name].search(asked.all, asked.k + asked.offset))
        gone = asyncio.create_task(_closed(request))
        try:
            async with asyncio.timeout(self.limits.timeout):
                await asyncio.wait((search, gone), return_when=asyncio.FIRST_COMPLETED)
            if not search.done():
                raise Refused(GONE, "gone", "the client closed the connection")
            return search.result()
        finally:
            search.cancel()
            gone.cancel()

    async def _not_ready(self) -> str:
        """Return why no question can be answered now: a code, empty if they can."""
        if self.is_ending:
            return "ending"
        latest = time.monotonic() - self.limits.timeout
        if any(batches.began is not None and batches.began < latest for batches in self._batches.values()):
            return "hanging"
        async with self._checking:  # probes that come meanwhile wait for the same check
            if time.monotonic() - self._checked >= _SECONDS_BETWEEN_CHECKS:
                unreachable = (name for name, one in self.searchers.items() if one.reaches and not one.reaches())
                self._unreachable = await asyncio.to_thread(next, unreachable, "")
                self._checked = time.monotonic()
        return "engine_unreachable" if self._unreachable else ""

    def _require_key(self, request: Request) -> None:
        """Raise `Refused` without the key, sent as RFC 6750 says; the scheme's name in any case (RFC 7235)."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip(" ").encode("latin-1"), self._key)
        if self._key and not (is_right and scheme.lower() == "bearer"):
            words = "the key of this server is missing or wrong: send it as Authorization: Bearer KEY"
            raise Refused(401, "no_key", words, **{"WWW-Authenticate": "Bearer"})

    async def _read(self, request: Request) -> Asked:
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.timeout):
                async for part in request.stream():
                    body += part
                    if len(body) > self.limits.max_request_bytes:
                        words = f"a request may hold {self.limits.max_request_bytes:,} bytes"
                        raise Refused(413, "too_large", words, Connection="close")
        except TimeoutError:
            raise Refused(408, "too_late", "the request did not arrive in time", Connection="close") from None
        except ClientDisconnect:
            raise Refused(GONE, "gone", "the connection ended before the request did") from None
        try:
            return self.asked.model_validate_json(bytes(body))
        except ValidationError as error:
            raise Refused(422, "not_understood", "; ".join(problem_in(one) for one in error.errors()[:3])) from None

    def _name(self, asked: Asked) -> str:
        name = asked.retriever or (next(iter(self.searchers)) if len(self.searchers) == 1 else "")
        if name not in self.searchers:
            there = f"served here: {', '.join(self.searchers)}"
            words = f"there is no retriever of that name; {there}" if name else f"name a retriever; {there}"
            raise Refused(404, "unknown_retriever", words)
        return name


def app_of(
    searchers: Mapping[str, Searcher],
    limits: Limits | None = None,
    key: str = "",
    *,
    logs: Logging | None = None,
    information: Mapping[str, Any] | None = None,
) -> FastAPI:
    """Return the app that serves searchers by name, to clients with the `key` if any; `information` is for `/info`."""
    service = Service(searchers, limits or Limits(), key, information or {})
    app = FastAPI(
        title="Passages for questions",
        description="Retrievers as they were compared: the same passages, in the same order.",
        version="1",
        lifespan=service.at_work,
        openapi_url=None,  # it is given below, with the headers of all answers
        docs_url=None,  # pages that would ask other hosts for their scripts
        redoc_url=None,
        redirect_slashes=False,  # a redirect would name the host that the client sent
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.service = service
    _add_routes(app, service, has_key=bool(key))

    async def refused(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):  # the framework's own
            codes = {404: "not_found", 405: "method_not_allowed"}
            code = codes.get(error.status_code, "refused")
            headers = dict(error.headers or {})
            if methods := METHODS.get(request.url.path):
                headers["Allow"] = ", ".join((*methods, "OPTIONS"))
            error = Refused(error.status_code, code, error.detail, **headers)
        if not isinstance(error, Refused):
            raise error
        request.state.noted["code"] = error.code
        return service.json({"code": error.code, "error": str(error)}, error.status, error.headers)

    for kind in (Refused, HTTPException):
        app.add_exception_handler(kind, refused)
    gate: dict[str, Any] = {"methods": METHODS, "metrics": service.metrics, "logs": logs or Logging()}
    app.add_middleware(Gate, answer=service.json, any_host=bool(key), **gate)
    return app


def _add_routes(app: FastAPI, service: Service, *, has_key: bool) -> None:
    secured = [Security(HTTPBearer(auto_error=False))] if has_key else []
    schema = schema_of(service.asked, service.searchers)
    content = {"application/json": {"schema": schema, "examples": examples_of(service.searchers)}}
    search: dict[str, Any] = {"response_model": Answer, "dependencies": secured}
    search["responses"] = _refusals(401, 404, 405, 408, 413, 415, 421, 422, 429, 500, 503)
    search["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
    app.add_api_route("/search", service.search, methods=["POST"], **search)
    probe = {"response_model": dict[str, str], "responses": _refusals(405, 421, 500, 503)}
    by_key = {"responses": _refusals(405, 421, 500, 503, 401), "dependencies": secured}
    routes: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "/livez": (service.live, probe),
        "/readyz": (service.ready, probe),
        "/healthz": (service.ready, probe),
        "/info": (service.info, {"response_model": dict[str, Any], **by_key}),
        "/metrics": (service.measured, {"response_class": Response, **by_key}),
        "/openapi.json": (lambda: service.json(app.openapi()), {"include_in_schema": False}),
    }
    for path, (endpoint, options) in routes.items():
        app.add_api_route(path, endpoint, **options)
        app.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": Refusal} for status in statuses}


def _as_json(hits: list[Hit], asked: Asked) -> list[dict[str, Any]]:
    """Return the JSON of the hits after those that `offset` skips, with the requested fields and scores."""
    names = asked.fields or get_args(HitField)
    rows = [{"rank": rank, **hit._asdict()} for rank, hit in enumerate(hits, start=1)][asked.offset :]
    if asked.min_score is not None:
        rows = [row for row in rows if row["score"] >= asked.min_score]
    return [{name: row[name] for name in names} for row in rows]


async def _closed(request: Request) -> None:
    """Return when the client closes the connection. The body of the request has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
