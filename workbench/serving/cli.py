"""`mrc serve KEY`: retrievers over HTTP, until a signal ends it."""

import json
import logging
import os
import socket
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mrc_workbench.data.commands import takes
from mrc_workbench.data.terminal import report_progress, tell
from mrc_workbench.workbench.serving.app import app_of
from mrc_workbench.workbench.serving.connections import serve_until_ended
from mrc_workbench.workbench.serving.gate import access
from mrc_workbench.workbench.serving.limits import RENAMED, AccessLog, Limits, Logging
from mrc_workbench.workbench.serving.searcher import open_all

KEY = "MRC_SERVE_KEY"
_SHORTEST_KEY = 16
_HERE = "127.0.0.1"
_MOST_PORT = 65535


@takes(Logging)
@takes(Limits, renamed=RENAMED)
def serve(
    key: Annotated[
        str, Parameter(help="key of a stored comparison, its experiment file, or a folder of compare --out")
    ],
    /,
    *,
    retriever: Annotated[tuple[str, ...], Parameter(help="names of the retrievers to serve; by default all")] = (),
    host: Annotated[
        str, Parameter(help="address to listen at; any but this machine's own needs an access key")
    ] = _HERE,
    port: Annotated[int, Parameter(help="port to listen at; 0: a free one")] = 8700,
    fd: Annotated[int | None, Parameter(help="number of an open socket, instead of host and port")] = None,
    key_file: Annotated[Path | None, Parameter(help=f"file with the access key, instead of {KEY}")] = None,
    **chosen: Any,
) -> int:
    """Serve retrievers over HTTP.

    Endpoints: POST /search, GET /readyz, /info, /metrics and /openapi.json. After SIGTERM or SIGINT the server answers
    the open requests, accepts no new ones and ends.
    """
    of_logging = {field.name for field in fields(Logging)}
    logs = Logging(**{name: value for name, value in chosen.items() if name in of_logging})
    limits = Limits(**{RENAMED.get(name, name): value for name, value in chosen.items() if name not in of_logging})
    access_key = read_key(key_file)
    listening = _listening(host, port, fd, has_key=bool(access_key))
    with listening:
        opened = open_all(key, retriever, report_progress)
        _log_to_standard_error(as_json=logs.access_log is AccessLog.JSON)
        tell(f"serving {', '.join(opened.searchers)} at {_shown(listening)}")
        app = app_of(opened.searchers, limits, access_key, logs=logs, information=opened.information)
        try:
            serve_until_ended(app, listening)
        except KeyboardInterrupt:
            tell("ended")
    return 0


class JsonLines(logging.Formatter):
    """Formats a warning as JSON on one line, as the access log is written."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return json.dumps({"time": time, "event": record.levelname.lower(), "message": super().format(record)})


def _log_to_standard_error(*, as_json: bool) -> None:
    """Write the lines about requests as they are: each is JSON of its own. Warnings are JSON if `as_json`."""
    requests, warnings = logging.StreamHandler(), logging.StreamHandler()
    requests.setFormatter(logging.Formatter("%(message)s"))
    warnings.setFormatter(JsonLines() if as_json else logging.Formatter("%(levelname)s: %(message)s"))
    access.handlers, access.propagate = [requests], False
    for name in (__package__, "uvicorn"):
        logging.getLogger(name).handlers = [warnings]


def read_key(file: Path | None) -> str:
    """Return the key of a file, or of the environment; empty where there is none. Raises `ValueError`, `OSError`."""
    key = (file.read_text(encoding="utf-8") if file else os.environ.get(KEY, "")).strip()
    if (key or file) and len(key) < _SHORTEST_KEY:
        raise ValueError(f"a key has {_SHORTEST_KEY} letters or more; this makes one: openssl rand -hex 32")
    if not key.isascii():
        raise ValueError("a key is of ASCII letters alone: it is sent in a header")
    return key


def _listening(host: str, port: int, fd: int | None, *, has_key: bool) -> socket.socket:
    """Return the socket, bound and not listening yet: a port that is taken is told before anything is built."""
    if fd is not None:
        given = socket.socket(fileno=fd)
        address = given.getsockname()
        host = address[0] if isinstance(address, tuple) else _HERE  # of a file system: who may write to it
    if host not in (_HERE, "::1", "localhost") and not has_key:
        raise ValueError(f"at {host} others can ask: set {KEY} or --key-file, or listen at {_HERE}")
    if fd is not None:
        return given
    if not 0 <= port <= _MOST_PORT:
        raise ValueError(f"port {port} does not exist: a port is a number from 0 to {_MOST_PORT}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ValueError(f"this machine has no address {host!r} to listen at: use {_HERE}, or 0.0.0.0") from error
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ValueError(f"cannot listen at {host}, port {port}: {error.strerror}") from error
    return bound


def _shown(listening: socket.socket) -> str:
    address = listening.getsockname()
    if not isinstance(address, tuple):
        return str(address)
    return f"http://{f'[{address[0]}]' if ':' in address[0] else address[0]}:{address[1]}"
