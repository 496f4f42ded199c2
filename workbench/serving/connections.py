"""Connections: how many may be open, how long each may take to send the head of a request, and how the server ends."""

import asyncio
import logging
import os
import resource
import socket
import time
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from mrc_workbench.workbench.serving.app import Service

logger = logging.getLogger(__name__)
_SPARE_FILES = 32  # descriptors beside those of connections and those that are open at the start
_SECONDS_BETWEEN_LINES = 1.0
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n"
    b'\r\n{"code":"busy","error":"too many connections are open: ask again in a moment"}'
)


class Lines:
    """Logs at most one line a second of each kind, with the number of those left out."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def warn(self, words: str) -> None:
        now = time.monotonic()
        if now - self._last.get(words, -_SECONDS_BETWEEN_LINES) < _SECONDS_BETWEEN_LINES:
            self._left_out[words] = self._left_out.get(words, 0) + 1
            return
        self._last[words] = now
        more = self._left_out.pop(words, 0)
        logger.warning("%s%s", words, f" ({more} more since the last line)" if more else "")


def connections_allowed(wanted: int) -> int:
    """Return how many connections may be open: as many as wanted, or as the process's file descriptors allow."""
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most_files == resource.RLIM_INFINITY:
        return wanted
    open_files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 64  # noqa: PTH112, PTH208
    return max(1, min(wanted, most_files - open_files - _SPARE_FILES))


def serve_until_ended(app: FastAPI, listening: socket.socket) -> None:
    """Answer at a socket until SIGTERM or SIGINT, and then answer the requests that were let in before."""
    service: Service = app.state.service
    limits, lines = service.limits, Lines()
    most = connections_allowed(limits.max_connections)

    class Protocol(H11Protocol):
        """HTTP/1.1 with a limit of connections, and a time within which the head of a request must arrive."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)  # type: ignore[arg-type]
            service.connections = len(self.connections)
            if len(self.connections) > most:
                service.metrics.count("mrc_connections_refused_total")
                lines.warn(f"more than {most} connections: new ones are closed")
                self.transport.write(_FULL)
                self.transport.close()
                return
            self._wait_for_head()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            service.connections = len(self.connections)
            self._stop_waiting()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:  # a head has arrived
                self._stop_waiting()
            elif self.cycle is not None and self.cycle.response_complete and self._deadline is None:
                self._wait_for_head()  # of the next request of this connection, which has begun

        def _wait_for_head(self) -> None:
            self._deadline = self.loop.call_later(limits.header_timeout, self._no_head_came)

        def _stop_waiting(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _no_head_came(self) -> None:
            self._deadline = None
            service.metrics.count("mrc_connections_timed_out_total")
            self.transport.close()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            asyncio.get_running_loop().set_exception_handler(log_shortly)
            await super().startup(sockets)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            service.is_ending = True
            loop = asyncio.get_running_loop()
            for one in (one for server in self.servers for one in server.sockets):
                loop.remove_reader(one.fileno())  # who comes now waits for whoever has the socket, too
            await asyncio.sleep(0.5)  # who was let in a moment ago has not said yet what is asked
            await super().shutdown(sockets)

    def log_shortly(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log a failure to accept a connection as one line a second, everything else as usual."""
        if isinstance(context.get("exception"), OSError) and "socket" in context:
            lines.warn("no connection can be accepted: the process has too many open files")
            return
        loop.default_exception_handler(context)

    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=Protocol,
        ws="none",
        log_config=None,  # the handlers of `mrc serve` write what it logs
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=None,  # each request has its own limit
    )
    logging.getLogger("uvicorn.error").addFilter(_Seldom())
    Server(config).run([listening])


class _Seldom(logging.Filter):
    """Passes the same warning of the HTTP parser once a second: anyone may cause it as often as they like."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        now, words = time.monotonic(), str(record.msg)
        if now - self._last.get(words, -_SECONDS_BETWEEN_LINES) < _SECONDS_BETWEEN_LINES:
            return False
        self._last[words] = now
        return True
