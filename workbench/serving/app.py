"""Searchers over HTTP: authentication, request checks and batches. Every error is JSON with a code and a message.

POST /search                        the best passages of questions
GET  /livez, /readyz, /healthz      probes; /healthz is an older name of /readyz
GET  /info, /metrics, /openapi.json corpus and retrievers, Prometheus metrics, API description
"""

import asyncio
import hmac
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, get_args

import psutil
from fastapi import FastAPI, Request, Response, Security
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from mrc_workbench.data.problems import Failure
from mrc_workbench.retrieval.searcher import Searcher, SearchHit
from mrc_workbench.workbench.serving import protocol
from mrc_workbench.workbench.serving.protocol import Logging, RequestError, RequestLimits, SearchRequest

logger = logging.getLogger(__name__)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_RETRY_LATER = {"Retry-After": "1"}  # seconds
_PROBES = ("/livez", "/readyz", "/healthz")
_READ = ("GET", "HEAD")
METHODS: dict[str, tuple[str, ...]] = {
    "/search": ("POST",),
    **dict.fromkeys((*_PROBES, "/info", "/metrics", "/openapi.json"), _READ),
}
_SECONDS_BETWEEN_CHECKS = 2.0  # of the search engines, for any number of probes
Hits = list[list[SearchHit]]  # of each question


@dataclass(frozen=True, eq=False)
class _PendingSearch:
    questions: Sequence[str]
    k: int
    answer: "asyncio.Future[Hits]"


@dataclass(eq=False)
class Batches:
    """Searches questions that arrive together as one batch, in a thread.

    A batch starts when it has `max_questions`, or `seconds` after its first request. A request with more questions is a
    separate batch: requests are never divided. Neither results nor errors depend on the other requests of a batch.
    """

    searcher: Searcher
    thread: Executor
    _: KW_ONLY
    max_questions: int
    seconds: float

    def __post_init__(self) -> None:
        self.search_started: float | None = None  # start of the current search, in monotonic seconds
        self._waiting: deque[_PendingSearch] = deque()
        self._has_waiting = asyncio.Event()
        self._is_full = asyncio.Event()

    async def search(self, questions: Sequence[str], k: int) -> Hits:
        """Search as `Searcher.search` does, with its errors. Batches skip cancelled requests."""
        request = _PendingSearch(questions, k, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        self._update_events()
        return await request.answer

    async def work(self) -> None:
        while True:
            await self._has_waiting.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.seconds):
                    await self._is_full.wait()
            if batch := self._take_batch():
                loop = asyncio.get_running_loop()
                for request, result in await loop.run_in_executor(self.thread, self._search_waiting, batch):
                    if request.answer.done():  # the client has disconnected
                        continue
                    if isinstance(result, Exception):
                        request.answer.set_exception(result)
                    else:
                        request.answer.set_result(result)

    def _take_batch(self) -> list[_PendingSearch]:
        batch: list[_PendingSearch] = []
        count = 0
        while self._waiting and (not batch or count + len(self._waiting[0].questions) <= self.max_questions):
            request = self._waiting.popleft()
            if not request.answer.done():
                batch.append(request)
                count += len(request.questions)
        self._update_events()
        return batch

    def _update_events(self) -> None:
        count = sum(len(request.questions) for request in self._waiting)
        for event, least in ((self._has_waiting, 1), (self._is_full, self.max_questions)):
            if count >= least:
                event.set()
            else:
                event.clear()

    def _search_waiting(self, batch: Sequence[_PendingSearch]) -> list[tuple[_PendingSearch, Hits | Exception]]:
        """Search a batch in the thread, without requests that were cancelled meanwhile."""
        self.search_started = time.monotonic()
        try:
            waiting = [request for request in batch if not request.answer.done()]
            return list(zip(waiting, self._search(waiting), strict=True)) if waiting else []
        finally:
            self.search_started = None

    def _search(self, batch: Sequence[_PendingSearch]) -> list[Hits | Exception]:
        try:
            questions = [text for request in batch for text in request.questions]
            hits = iter(self.searcher.search(questions, max(request.k for request in batch)))
        except Exception as error:
            return [error] if len(batch) == 1 else [self._search([request])[0] for request in batch]
        return [[next(hits)[: request.k] for _ in request.questions] for request in batch]


class Service:
    """The searchers with their batches, the requests in progress, and the endpoints as methods."""

    def __init__(
        self, searchers: Mapping[str, Searcher], limits: RequestLimits, key: str, information: Mapping[str, Any]
    ) -> None:
        self.searchers = searchers
        self.limits = limits
        self._key = key.encode()
        self.request_model = protocol.search_request_model(limits)
        self.in_progress = 0
        self.is_ending = False
        self.metrics = protocol.Metrics()
        self.connections = 0
        self.max_connections = limits.max_connections
        self.started = time.time()
        self.information = dict(information)
        self._batches: dict[str, Batches] = {}
        self._last_check = -_SECONDS_BETWEEN_CHECKS
        self._unreachable = ""
        self._check_lock = asyncio.Lock()

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Search in a single thread: models and indexes use several cores themselves."""
        del app
        most = self.limits.max_batch_size
        wait = self.limits.batch_wait_ms / 1000
        with ThreadPoolExecutor(1, "search") as thread:
            for name, searcher in self.searchers.items():
                self._batches[name] = Batches(searcher, thread, max_questions=most, seconds=wait)
            tasks = [asyncio.create_task(batches.work()) for batches in self._batches.values()]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def live(self) -> Response:
        """Return whether the process answers."""
        return self.json({"status": "live"})

    async def ready(self) -> Response:
        """Return whether the server can answer questions."""
        if code := await self._not_ready():
            messages = {
                "ending": "this server is about to end",
                "hanging": f"a search has taken more than {self.limits.timeout:g} seconds",
                "engine_unreachable": f"the engine that {self._unreachable!r} searches in does not answer",
            }
            raise RequestError(503, code, messages[code], **_RETRY_LATER)
        return self.json({"status": "ready"})

    async def info(self, request: Request) -> Response:
        """Return the corpus, the retrievers, their models and the version."""
        self._require_key(request)
        names = [{"name": name} for name in self.searchers]
        content = {"retrievers": names, **self.information, "started": self.started, "limits": vars(self.limits)}
        return self.json(content)

    async def metrics_text(self, request: Request) -> Response:
        """Return metrics in the text format of Prometheus."""
        self._require_key(request)
        labels = {name: str(self.information.get(name, "")) for name in ("version", "corpus_fingerprint")}
        gauges: dict[str, tuple[float, Mapping[str, str]]] = {
            "mrc_connections": (self.connections, {}),
            "mrc_requests_in_progress": (self.in_progress, {}),
            "mrc_ready": (int(not await self._not_ready()), {}),
            "mrc_info": (1, labels),
            "process_start_time_seconds": (self.started, {}),
            "process_resident_memory_bytes": (psutil.Process().memory_info().rss, {}),
        }
        return Response(self.metrics.text(gauges), headers={**HEADERS, "Content-Type": protocol.CONTENT_TYPE})

    async def search(self, request: Request) -> Response:
        """Return the best passages of each question."""
        self._require_key(request)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise RequestError(415, "no_json", "send JSON, with Content-Type: application/json")
        if self.in_progress >= self.limits.max_concurrency:
            raise RequestError(429, "busy", "too many requests wait already: ask again in a moment", **_RETRY_LATER)
        self.in_progress += 1
        try:
            search_request = await self._read(request)
            name = self._retriever_name(search_request)
            request.state.log_fields |= {"retriever": name, "questions": len(search_request.all), "k": search_request.k}
            hits = await self._search_hits(request, name, search_request)
        except TimeoutError:
            message = f"no answer was found within {self.limits.timeout:g} seconds: ask again in a moment"
            raise RequestError(503, "too_slow", message, **_RETRY_LATER) from None
        except Failure as error:  # usually of a search engine; its message may contain addresses
            logger.warning("%s cannot search: %s", name, error)
            message = "the retriever cannot search now: ask again in a moment"
            raise RequestError(503, error.code, message, **_RETRY_LATER) from error
        finally:
            self.in_progress -= 1
        results = [
            {"question": question, "hits": _as_json(question_hits, search_request)}
            for question, question_hits in zip(search_request.all, hits, strict=True)
        ]
        return self.json({"retriever": name, "results": results})

    def json(self, content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> JSONResponse:
        """Return a JSON response; while the server is ending, it closes the connection."""
        closing = {"Connection": "close"} if self.is_ending else {}
        return JSONResponse(content, status, {**HEADERS, **(headers or {}), **closing})

    async def _search_hits(self, request: Request, name: str, search_request: SearchRequest) -> list[list[SearchHit]]:
        """Search; cancels the search if the client closes the connection or the time is over."""
        depth = search_request.k + search_request.offset
        search = asyncio.create_task(self._batches[name].search(search_request.all, depth))
        disconnected = asyncio.create_task(_wait_until_closed(request))
        try:
            async with asyncio.timeout(self.limits.timeout):
                await asyncio.wait((search, disconnected), return_when=asyncio.FIRST_COMPLETED)
            if not search.done():
                raise RequestError(protocol.CLIENT_CLOSED_REQUEST, "gone", "the client closed the connection")
            return search.result()
        finally:
            search.cancel()
            disconnected.cancel()

    async def _not_ready(self) -> str:
        """Return a code for why the server cannot answer questions; empty if it can."""
        if self.is_ending:
            return "ending"
        starts = [start for batches in self._batches.values() if (start := batches.search_started) is not None]
        if starts and min(starts) < time.monotonic() - self.limits.timeout:
            return "hanging"
        async with self._check_lock:  # concurrent probes share a check
            if time.monotonic() - self._last_check >= _SECONDS_BETWEEN_CHECKS:
                unreachable = (
                    name
                    for name, searcher in self.searchers.items()
                    if searcher.is_engine_reachable and not searcher.is_engine_reachable()
                )
                self._unreachable = await asyncio.to_thread(next, unreachable, "")
                self._last_check = time.monotonic()
        return "engine_unreachable" if self._unreachable else ""

    def _require_key(self, request: Request) -> None:
        """Raise `RequestError` without the key (RFC 6750); the name of the scheme has any case (RFC 7235)."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(token.strip(" ").encode("latin-1"), self._key)
        if self._key and not (is_right and scheme.lower() == "bearer"):
            message = "the key of this server is missing or wrong: send it as Authorization: Bearer KEY"
            raise RequestError(401, "no_key", message, **{"WWW-Authenticate": "Bearer"})

    async def _read(self, request: Request) -> SearchRequest:
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.timeout):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > self.limits.max_request_bytes:
                        message = f"a request may hold {self.limits.max_request_bytes:,} bytes"
                        raise RequestError(413, "too_large", message, Connection="close")
        except TimeoutError:
            raise RequestError(408, "too_late", "the request did not arrive in time", Connection="close") from None
        except ClientDisconnect:
            raise RequestError(protocol.CLIENT_CLOSED_REQUEST, "gone", "the connection ended too early") from None
        try:
            return self.request_model.model_validate_json(bytes(body))
        except ValidationError as error:
            message = "; ".join(protocol.problem_text(detail) for detail in error.errors()[:3])
            raise RequestError(422, "not_understood", message) from None

    def _retriever_name(self, search_request: SearchRequest) -> str:
        name = search_request.retriever or (next(iter(self.searchers)) if len(self.searchers) == 1 else "")
        if name not in self.searchers:
            available = f"served here: {', '.join(self.searchers)}"
            message = f"there is no retriever of that name; {available}" if name else f"name a retriever; {available}"
            raise RequestError(404, "unknown_retriever", message)
        return name


def create_app(
    searchers: Mapping[str, Searcher],
    limits: RequestLimits | None = None,
    key: str = "",
    *,
    logs: Logging | None = None,
    information: Mapping[str, Any] | None = None,
) -> FastAPI:
    """Return the app that serves searchers by name, to clients with the `key` if set; `/info` has `information`."""
    service = Service(searchers, limits or RequestLimits(), key, information or {})
    app = FastAPI(
        title="Passages for questions",
        description="Retrievers as they were compared: the same passages, in the same order.",
        version="1",
        lifespan=service.lifespan,
        openapi_url=None,  # a route below has the headers of all responses
        docs_url=None,  # these pages would load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,  # a redirect would name the host that the client sent
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.service = service
    _add_routes(app, service, has_key=bool(key))

    async def error_response(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):  # from Starlette
            code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
            headers = dict(error.headers or {})
            if methods := METHODS.get(request.url.path):
                headers["Allow"] = ", ".join((*methods, "OPTIONS"))
            error = RequestError(error.status_code, code, error.detail, **headers)
        if not isinstance(error, RequestError):
            raise error
        request.state.log_fields["code"] = error.code
        return service.json({"code": error.code, "error": str(error)}, error.status, error.headers)

    for kind in (RequestError, HTTPException):
        app.add_exception_handler(kind, error_response)
    gate: dict[str, Any] = {"methods": METHODS, "metrics": service.metrics, "logs": logs or Logging()}
    app.add_middleware(protocol.ServingMiddleware, answer=service.json, any_host=bool(key), **gate)
    return app


def _add_routes(app: FastAPI, service: Service, *, has_key: bool) -> None:
    secured = [Security(HTTPBearer(auto_error=False))] if has_key else []
    schema = protocol.schema_of(service.request_model, service.searchers)
    content = {"application/json": {"schema": schema, "examples": protocol.examples_of(service.searchers)}}
    search: dict[str, Any] = {"response_model": protocol.SearchResponse, "dependencies": secured}
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
        "/metrics": (service.metrics_text, {"response_class": Response, **by_key}),
        "/openapi.json": (lambda: service.json(app.openapi()), {"include_in_schema": False}),
    }
    for path, (endpoint, options) in routes.items():
        app.add_api_route(path, endpoint, **options)
        app.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": protocol.ErrorResponse} for status in statuses}


def _as_json(hits: list[SearchHit], search_request: SearchRequest) -> list[dict[str, Any]]:
    """Return the hits after `offset` as JSON, with the requested fields and at least `min_score`."""
    names = search_request.fields or get_args(protocol.HitField)
    rows = [{"rank": rank, **hit._asdict()} for rank, hit in enumerate(hits, start=1)][search_request.offset :]
    if search_request.min_score is not None:
        rows = [row for row in rows if row["score"] >= search_request.min_score]
    return [{name: row[name] for name in names} for row in rows]


async def _wait_until_closed(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
