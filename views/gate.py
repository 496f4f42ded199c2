"""What stands before Streamlit's server: whose files are taken and how much of them, and cookies for TLS alone.

Streamlit takes files of every session, whether its page has a field for them or not, and holds them in memory. What is
refused here is refused before a byte is kept, and what has no length is counted as it arrives.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from threading import Thread
from urllib.parse import urlsplit

import streamlit as st
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.cli_util import open_browser
from streamlit.web.server.server_util import get_display_address, get_url

from data.limits import LimitError
from jobs.detached import make_ready
from views import access
from views.navigation import read_first_page
from views.uploads import UPLOADS

_FILE = re.compile(r"/_stcore/upload_file/([^/]+)/[^/]+$")
_HARMLESS = {"GET", "HEAD", "OPTIONS"}
_SECONDS_BETWEEN_LOOKS = 5.0


class Gate:
    """The ASGI application that every request reaches first."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer that it is refused."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_safe_cookies(scope, send)
        session = found[1] if (found := _FILE.search(scope["path"])) else ""
        if not _may_pass(scope, session):
            await PlainTextResponse("Sign in first", status_code=403)(scope, receive, send)
        elif session and scope["method"] == "PUT":
            await self._take(session, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _take(self, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Let Streamlit take a file as long as there is room for what comes of it."""
        try:
            with UPLOADS.arriving(session) as upload:

                async def counted() -> Message:
                    message = await receive()
                    UPLOADS.add(upload, len(message.get("body", b"")))
                    return message

                async def answered(message: Message) -> None:
                    if message["type"] == "http.response.start":  # from here on Streamlit holds it, or nobody does
                        UPLOADS.end(upload)
                    await send(message)

                UPLOADS.require_room(upload, _declared(scope))
                await self._app(scope, counted, answered)
        except LimitError as error:
            UPLOADS.refuse(session, error)
            await PlainTextResponse(str(error), status_code=413)(scope, receive, send)


def _may_pass(scope: Scope, session: str) -> bool:
    """Whether its sender may make this request: where people sign in, only who is signed in changes anything."""
    reads = scope["method"] in _HARMLESS
    if session and not reads and not UPLOADS.whose(session):
        return False
    if not access.is_on() or (reads and not scope["path"].endswith("/_stcore/metrics")):
        return True
    user = access.user_told_by(HTTPConnection(scope).cookies)
    return bool(user) and (reads or UPLOADS.whose(session) == user)


def _declared(scope: Scope) -> int:
    """The length that a request says it has, which may be wrong or missing."""
    with suppress(ValueError):
        return int(HTTPConnection(scope).headers.get("content-length", 0))
    return 0


def _with_safe_cookies(scope: Scope, send: Send) -> Send:
    """Have browsers send cookies back over TLS alone, where they came by it."""
    if scope["scheme"] != "https" and urlsplit(access.address_of_sign_in()).scheme != "https":
        return send

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [(name, _safe(name, value)) for name, value in message["headers"]]
        await send(message)

    return sent


def _safe(name: bytes, value: bytes) -> bytes:
    is_open = name.lower() == b"set-cookie" and b"secure" not in [part.strip().lower() for part in value.split(b";")]
    return value + b"; Secure" if is_open else value


@asynccontextmanager
async def serving(_: st.App) -> AsyncIterator[None]:
    """While the server runs, let go what was handed in to pages that are open no more; a browser is shown the app.

    What the first page and the first job need is begun before any page is asked for.
    """
    make_ready()
    Thread(target=read_first_page, daemon=True).start()  # while the browser is on its way
    looking = asyncio.create_task(_let_go())
    if not st.get_option("server.headless"):
        address = get_url(get_display_address(st.get_option("server.address") or "localhost"))
        asyncio.get_running_loop().call_soon(open_browser, address)
    yield
    looking.cancel()


async def _let_go() -> None:
    while True:
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
        UPLOADS.let_go()
