"""`mrc serve KEY`: serves retrievers over HTTP until a signal, with limits for connections and request heads."""

import asyncio
import json
import logging
import os
import resource
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import psutil
import uvicorn
from cyclopts import Parameter
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from mrc_workbench.data.commands import add_options
from mrc_workbench.data.passages import Passages
from mrc_workbench.data.terminal import print_line, report_progress
from mrc_workbench.data.workspace import project_version
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import find_experiment
from mrc_workbench.retrieval.searcher import Searcher, open_searchers
from mrc_workbench.workbench.serving.app import Service, create_app
from mrc_workbench.workbench.serving.protocol import RENAMED, AccessLog, Logging, RequestLimits, access_logger

logger = logging.getLogger(__name__)
_SPARE_FILES = 32  # file descriptors that connections leave free
_SECONDS_BETWEEN_LINES = 1.0
_TOO_MANY_CONNECTIONS = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n"
    b'\r\n{"code":"busy","error":"too many connections are open: ask again in a moment"}'
)
KEY = "MRC_SERVE_KEY"
_SHORTEST_KEY = 16
_LOOPBACK = "127.0.0.1"
_MOST_PORT = 65535


@add_options(Logging)
@add_options(RequestLimits, earlier_names=RENAMED)
def serve(
    key: Annotated[str, Parameter(help="key of a comparison, its experiment file, or a folder of compare --out")],
    /,
    *,
    retriever: Annotated[tuple[str, ...], Parameter(help="names of the retrievers to serve; by default all")] = (),
    host: Annotated[str, Parameter(help="address to listen at; others than localhost need an access key")] = _LOOPBACK,
    port: Annotated[int, Parameter(help="port to listen at; 0: a free one")] = 8700,
    fd: Annotated[int | None, Parameter(help="number of an open socket, instead of host and port")] = None,
    key_file: Annotated[Path | None, Parameter(help=f"file with the access key, instead of {KEY}")] = None,
    **options: Any,
) -> int:
    """Serve retrievers over HTTP.

    Endpoints: POST /search, GET /readyz, /info, /metrics and /openapi.json. After SIGTERM or SIGINT the server answers
    the open requests, accepts no new ones and ends.
    """
    logging_options = {field.name for field in fields(Logging)} & options.keys()
    logs = Logging(**{name: options.pop(name) for name in logging_options})
    limits = RequestLimits(**{RENAMED.get(name, name): value for name, value in options.items()})
    access_key = read_key(key_file)
    with _open_socket(host, port, fd, has_key=bool(access_key)) as listening:
        searchers = open_searchers(key, retriever, report_progress)
        app = create_app(searchers, limits, access_key, logs=logs, information=describe_searchers(key, searchers))
        _log_to_standard_error(as_json=logs.access_log is AccessLog.JSON)
        address = listening.getsockname()
        if isinstance(address, tuple):
            url_host = f"[{address[0]}]" if ":" in address[0] else address[0]
            address = f"http://{url_host}:{address[1]}"
        print_line(f"serving {', '.join(searchers)} at {address}")
        try:
            serve_until_ended(app, listening)
        except KeyboardInterrupt:
            print_line("ended")
    return 0


def describe_searchers(reference: str | Path, searchers: Mapping[str, Searcher]) -> dict[str, Any]:
    """Return the corpus, experiment and models of searchers; equal for two servers on the same index."""
    experiment, base = find_experiment(reference)
    passages = next(iter(searchers.values())).passages
    specs = {spec.name: spec for spec in experiment.retriever}
    retrievers = []
    for name in searchers:
        models = _models_of(experiment.with_dependencies([name]), base, passages)
        retrievers.append({"name": name, "kind": specs[name].kind, "models": models})
    return {
        "version": project_version(),
        "data": _without_folders(experiment.data),
        "corpus_fingerprint": passages.fingerprint,
        "passages": len(passages),
        "experiment": _without_folders(experiment.model_dump(mode="json", exclude_none=True)),
        "retrievers": retrievers,
    }


def _models_of(specs: Sequence[Spec], base: Path, passages: Passages) -> dict[str, str]:
    """Return the fingerprint of each model that retrievers use, by its reference; empty if unavailable."""
    models = {}
    for reference in filter(None, (str(getattr(spec, "model", "")) for spec in specs)):
        models[_without_folders(reference)] = ""
        with suppress(ModelError):
            models[_without_folders(reference)] = find_model(reference, base).fingerprint(passages.fingerprint)
    return models


def _without_folders(content: Any) -> Any:
    """Return JSON content with absolute paths reduced to their last parts, which clients may see."""
    if isinstance(content, dict):
        return {name: _without_folders(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_without_folders(value) for value in content]
    return Path(content).name if isinstance(content, str) and Path(content).is_absolute() else content


class JsonLines(logging.Formatter):
    """Formats a warning as a line of JSON, like the access log."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return json.dumps({"time": time, "event": record.levelname.lower(), "message": super().format(record)})


def _log_to_standard_error(*, as_json: bool) -> None:
    """Log requests, which are JSON lines, and warnings, which are JSON lines if `as_json`."""
    requests = logging.StreamHandler()
    warnings = logging.StreamHandler()
    requests.setFormatter(logging.Formatter("%(message)s"))
    warnings.setFormatter(JsonLines() if as_json else logging.Formatter("%(levelname)s: %(message)s"))
    access_logger.handlers = [requests]
    access_logger.propagate = False
    for name in (__package__, "uvicorn"):
        logging.getLogger(name).handlers = [warnings]


def read_key(file: Path | None) -> str:
    """Return the key from a file or the environment, empty if unset. Raises `ValueError` and `OSError`."""
    key = (file.read_text(encoding="utf-8") if file else os.environ.get(KEY, "")).strip()
    if (key or file) and len(key) < _SHORTEST_KEY:
        raise ValueError(f"a key has {_SHORTEST_KEY} characters or more; create one: openssl rand -hex 32")
    if not key.isascii():
        raise ValueError("a key may only have ASCII characters, because clients send it in a header")
    return key


def _open_socket(host: str, port: int, fd: int | None, *, has_key: bool) -> socket.socket:
    """Return a bound socket that does not listen yet; a port in use is an error before retrievers are built."""
    if fd is not None:
        given_socket = socket.socket(fileno=fd)
        address = given_socket.getsockname()
        host = address[0] if isinstance(address, tuple) else _LOOPBACK  # a Unix socket has file permissions
    if host not in (_LOOPBACK, "::1", "localhost") and not has_key:
        raise ValueError(f"other machines can use {host}: set {KEY} or --key-file, or listen at {_LOOPBACK}")
    if fd is not None:
        return given_socket
    if not 0 <= port <= _MOST_PORT:
        raise ValueError(f"port {port} does not exist: a port is a number from 0 to {_MOST_PORT}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ValueError(f"this machine has no address {host!r} to listen at: use {_LOOPBACK}, or 0.0.0.0") from error
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ValueError(f"cannot listen at {host}, port {port}: {error.strerror}") from error
    return bound


class _OncePerSecond(logging.Filter):
    """Passes each warning once a second, because clients can cause it; counts the dropped ones of this module."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}
        self._dropped: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        now = time.monotonic()
        text = str(record.msg)
        if now - self._last.get(text, -_SECONDS_BETWEEN_LINES) < _SECONDS_BETWEEN_LINES:
            self._dropped[text] += 1
            return False
        self._last[text] = now
        dropped = self._dropped.pop(text, 0)
        if dropped and record.name == logger.name:
            record.msg = f"{text} ({dropped} more since the last line)"
        return True


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 with a limit of connections, and a time limit for the head of each request."""

    _deadline: asyncio.TimerHandle | None = None

    @property
    def _service(self) -> Service:
        service: Service = self.config.app.state.service  # type: ignore[union-attr]
        return service

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        service = self._service
        service.connections = len(self.connections)
        if service.connections > service.max_connections:
            service.metrics.count("mrc_connections_refused_total")
            logger.warning(f"more than {service.max_connections} connections: new ones are closed")
            self.transport.write(_TOO_MANY_CONNECTIONS)
            self.transport.close()
            return
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._service.connections = len(self.connections)
        self._stop_waiting()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:  # a request has begun
            self._stop_waiting()
        elif self.cycle is not None and self.cycle.response_complete and self._deadline is None:
            self._wait_for_head()  # of the next request

    def _wait_for_head(self) -> None:
        self._deadline = self.loop.call_later(self._service.limits.header_timeout, self._close_without_head)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_without_head(self) -> None:
        self._deadline = None
        self._service.metrics.count("mrc_connections_timed_out_total")
        self.transport.close()


class Server(uvicorn.Server):
    """Ends after the accepted requests, and logs each failure to accept a connection in a line."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(_log_shortly)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.app.state.service.is_ending = True  # type: ignore[union-attr]
        loop = asyncio.get_running_loop()
        for listener in (listener for server in self.servers for listener in server.sockets):
            loop.remove_reader(listener.fileno())  # another process with the socket accepts new clients
        await asyncio.sleep(0.5)  # time for accepted clients to send their requests
        await super().shutdown(sockets)


def _log_shortly(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if isinstance(context.get("exception"), OSError) and "socket" in context:
        logger.warning("no connection can be accepted: the process has too many open files")
        return
    loop.default_exception_handler(context)


def serve_until_ended(app: FastAPI, listening: socket.socket) -> None:
    """Serve at a socket until SIGTERM or SIGINT, and then answer the accepted requests."""
    service: Service = app.state.service
    max_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if max_files != resource.RLIM_INFINITY:
        free_files = max_files - psutil.Process().num_fds() - _SPARE_FILES
        service.max_connections = max(1, min(service.max_connections, free_files))
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=LimitedProtocol,
        ws="none",
        log_config=None,  # `mrc serve` has its own handlers
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=None,  # each request has its own limit
    )
    for name in (__name__, "uvicorn.error"):
        logging.getLogger(name).addFilter(_OncePerSecond())
    Server(config).run([listening])
