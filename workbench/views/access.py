"""Sign-in, the workspace of each user, and the middleware before Streamlit's server.

Sign-in is Streamlit's with an OpenID provider, if `.streamlit/secrets.toml` has a section `[auth]`. Callbacks and
fragments run without the rest of the script, so each looks up the user. Streamlit holds uploaded files in memory:
the middleware refuses too large ones before they are stored, and counts those without a length as they arrive.
"""

import asyncio
import hashlib
import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode, urlsplit

import streamlit as st
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.auth_util import get_cookie_with_chunks
from streamlit.cli_util import open_browser
from streamlit.web.server.server_util import get_cookie_secret, get_display_address, get_url
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from mrc_workbench.data import workspace as workspaces
from mrc_workbench.data.files import remove_leftovers
from mrc_workbench.data.jobs.processes import prepare_fork_server
from mrc_workbench.data.workspace import LimitError, limits, shared_workspace, workspace
from mrc_workbench.models.files import forget_tokens
from mrc_workbench.workbench.views.navigation import MISSING, UPLOADS, preload_first_page
from mrc_workbench.workbench.views.ui.words import plain, word

_DAYS_OF_A_COOKIE = 32  # Streamlit accepts a cookie for 31 days
_LOCAL = {"localhost", "127.0.0.1", "::1"}
_FILE = re.compile(r"/_stcore/upload_file/([^/]+)/[^/]+$")
_STREAMLIT_PATHS = ("/_stcore/", "/app/static/", "/auth/login", "/auth/logout", "/component/", "/media/", "/static/")
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
_UPLOAD_CHECK_SECONDS = 5.0


def configure() -> None:
    """Give each signed-in user a workspace. Raises `ValueError` for invalid limits."""
    workspaces.set_user_provider(_current_user)
    limits()
    if is_sign_in_enabled():
        forget_tokens()


def is_sign_in_enabled() -> bool:
    """Whether users sign in. Raises Streamlit's error if its secrets are not readable."""
    return any(Path(path).exists() for path in st.get_option("secrets.files")) and "auth" in st.secrets


def is_granted() -> bool:
    """Whether the user may see the pages; draw the sign-in if not."""
    if not is_sign_in_enabled():
        reached_at = urlsplit(st.context.url or "").hostname or "localhost"
        if st.get_option("server.address") not in _LOCAL or reached_at not in _LOCAL:
            st.warning(word("access.everybody"), icon=":material/lock_open:")
        UPLOADS.register_session("")
        return True
    try:
        UPLOADS.register_session(workspaces.user())
    except workspaces.NotSignedInError:
        UPLOADS.unregister_session()
        _draw_sign_in()
        return False
    return True


def user_from_cookies(cookies: Mapping[str, str]) -> str | None:
    """Return the folder name of the user that the cookies of a request sign in."""
    content = _signed_claims(cookies)
    return None if not content or _sign_out_marker(content).exists() else _user_from_claims(json.loads(content))


def sign_in_redirect_uri() -> str:
    """Return the address to which the provider sends users back; "" without sign-in."""
    return str(st.secrets["auth"].get("redirect_uri", "")) if is_sign_in_enabled() else ""


def draw_user(*, is_running: bool) -> None:
    """Draw the user, the size of the workspace, and buttons to sign out and to clear caches, unless a job runs."""
    st.divider()
    st.markdown(f":material/person: {plain(_name())}")
    used = workspaces.used_bytes() / workspaces.MEGABYTE
    limit = limits().megabytes
    st.progress(min(1.0, used / limit), word("access.held", held=f"{used:,.0f}", limit=f"{limit:,}"))
    with st.container(horizontal=True):
        st.button(word("access.sign_out"), icon=":material/logout:", on_click=_sign_out, key="sign_out")
        with st.popover(word("access.clear"), icon=":material/mop:"):
            st.markdown(word("access.clear_about"))
            st.button(word("access.clear_yes"), on_click=_clear_cache, disabled=is_running, key="clear_cache")


def _current_user() -> str | None:
    """Return the folder name of the signed-in user; None without sign-in. Raises `NotSignedInError`."""
    if not is_sign_in_enabled():
        return None
    name = _user_from_claims(st.user)
    if not name or _has_signed_out():
        raise workspaces.NotSignedInError("nobody is signed in")
    return name


def _user_from_claims(claims: Mapping[str, Any]) -> str | None:
    """Return the folder name of the user in a provider's claims, if the user is signed in and admitted."""
    issuer = claims.get("iss")
    subject = claims.get("sub")
    if claims.get("is_logged_in") is not True or not issuer or not subject:
        return None
    # Anybody may claim an address that is not verified
    verified = claims.get("email_verified") in (True, "true")
    is_admitted = limits().allows_email(str(claims.get("email") or "") if verified else "")
    return workspaces.user_of(str(issuer), str(subject)) if is_admitted else None


def _signed_claims(cookies: Mapping[str, str]) -> bytes | None:
    """Return a provider's claims from Streamlit's cookie, if this server signed it."""
    session_cookies = tuple((name, value) for name, value in cookies.items() if name.startswith(USER_COOKIE_NAME))
    return _content(session_cookies, get_cookie_secret()) if session_cookies else None


@lru_cache(maxsize=256)  # a page looks up its workspace many times
def _content(cookies: tuple[tuple[str, str], ...], secret: str) -> bytes | None:
    values = {name: value.encode("latin-1", errors="replace") for name, value in cookies}

    def decode(name: str) -> bytes | None:
        return decode_signed_value(secret, name, values.get(name, b""))

    return get_cookie_with_chunks(decode, USER_COOKIE_NAME)


def _sign_out() -> None:
    """Sign out, and mark the cookie as ended, so that a copy of it no longer signs in."""
    if content := _signed_claims(st.context.cookies):
        marker = _sign_out_marker(content)
        marker.parent.mkdir(parents=True, exist_ok=True)
        for old_marker in marker.parent.iterdir():
            if time.time() - old_marker.stat().st_mtime > _DAYS_OF_A_COOKIE * 86_400:
                old_marker.unlink(missing_ok=True)
        marker.touch()
    st.logout()


def _has_signed_out() -> bool:
    content = _signed_claims(st.context.cookies)
    return content is not None and _sign_out_marker(content).exists()


def _sign_out_marker(content: bytes) -> Path:
    """Return the file that marks a sign-in as ended. Its claims have a nonce, so each sign-in has its own file."""
    return shared_workspace() / "users" / ".signed_out" / hashlib.sha256(content).hexdigest()


def _name() -> str:
    return str(st.user.get("name") or st.user.get("email") or st.user.get("sub"))


def _draw_sign_in() -> None:
    _, middle, _ = st.columns([1, 2, 1])
    with middle:
        st.title(word("app.title"), anchor=False)
        st.markdown(word("access.about"))
        if st.user.get("is_logged_in") is True and not _has_signed_out():
            st.error(word("access.not_let_in", name=plain(_name())), icon=":material/block:")
            st.button(word("access.sign_out"), icon=":material/logout:", on_click=_sign_out, key="sign_out")
            return
        section = st.secrets["auth"]  # `[auth]` may itself be a provider, without a name
        names = [name for name in section if hasattr(section[name], "keys") and "client_id" in section[name]]
        for name in ["", *names] if "client_id" in section else names:
            label = word("access.sign_in_by", provider=plain(name)) if name else word("access.sign_in")
            kwargs: dict[str, Any] = {"type": "primary", "icon": ":material/login:", "key": f"sign_in_{name}"}
            st.button(label, on_click=st.login, args=(name or None,), **kwargs)


def _clear_cache() -> None:
    folder = workspace() / "cache"
    if folder.is_dir() and workspace() != shared_workspace():
        workspaces.remove_folder(folder)


class AccessMiddleware:
    """The ASGI application that every request reaches first."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and not _has_app_origin(scope):
            await receive()
            await send({"type": "websocket.close", "code": 1008})  # the server answers 403
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_safe_cookies(scope, send)
        session = match[1] if (match := _FILE.search(scope["path"])) else ""
        if not _is_allowed(scope, session):
            await PlainTextResponse("Sign in first", status_code=403)(scope, receive, send)
        elif redirect_url := _missing_page_url(scope):
            await RedirectResponse(redirect_url, status_code=302)(scope, receive, send)
        elif session and scope["method"] == "PUT":
            await self._receive_upload(session, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _receive_upload(self, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Let Streamlit take a file as long as there is room for it."""
        try:
            with UPLOADS.track_upload(session) as upload:

                async def counted() -> Message:
                    message = await receive()
                    UPLOADS.add(upload, len(message.get("body", b"")))
                    return message

                async def answered(message: Message) -> None:
                    if message["type"] == "http.response.start":  # from now on Streamlit counts the file, if it took it
                        UPLOADS.end(upload)
                    await send(message)

                declared = HTTPConnection(scope).headers.get("content-length", "")  # may be wrong or missing
                UPLOADS.require_room(upload, int(declared) if declared.isdecimal() else 0)
                await self._app(scope, counted, answered)
        except LimitError as error:
            UPLOADS.refuse(session, error)
            await PlainTextResponse(str(error), status_code=413)(scope, receive, send)


def _missing_page_url(scope: Scope) -> str:
    """Return the redirect for an address of several levels, which no page has; "" for others.

    Streamlit would answer with the app, and the browser would request its scripts one level too deep: a blank page.
    """
    path = scope["path"]
    base = st.get_option("server.baseUrlPath").strip("/")
    page_path = path.removeprefix(f"/{base}") if base else path
    accepted = HTTPConnection(scope).headers.get("accept", "")
    is_page_request = scope["method"] in _SAFE_METHODS and "text/html" in accepted
    if not is_page_request or "/" not in page_path.strip("/") or page_path.startswith(("//", *_STREAMLIT_PATHS)):
        return ""
    query = scope.get("query_string", b"").decode("latin-1")
    parent_path = "../" * (page_path.count("/") - 1)  # relative: a proxy may remove a prefix
    return f"{parent_path}{MISSING}?{query}{'&' * bool(query)}{urlencode({'address': page_path})}"


def _has_app_origin(scope: Scope) -> bool:
    """Whether a page of the app opens a websocket: Streamlit also accepts those of other pages on this machine.

    Every browser sends the origin of its page; a program without an origin has no cookies of a user.
    """
    if not is_sign_in_enabled():
        return True
    own = urlsplit(sign_in_redirect_uri())
    origin = HTTPConnection(scope).headers.get("origin")
    return origin is None or origin.lower() == f"{own.scheme}://{own.netloc}".lower()


def _is_allowed(scope: Scope, session: str) -> bool:
    """Whether the sender may make this request: with sign-in, only signed-in users may change data."""
    is_safe = scope["method"] in _SAFE_METHODS
    if session and not is_safe and not UPLOADS.owner(session):
        return False
    if not is_sign_in_enabled() or (is_safe and not scope["path"].endswith("/_stcore/metrics")):
        return True
    user = user_from_cookies(HTTPConnection(scope).cookies)
    return bool(user) and (is_safe or UPLOADS.owner(session) == user)


def _with_safe_cookies(scope: Scope, send: Send) -> Send:
    """Mark cookies as secure if the app is served over TLS."""
    if scope["scheme"] != "https" and urlsplit(sign_in_redirect_uri()).scheme != "https":
        return send

    def safe(name: bytes, value: bytes) -> bytes:
        parts = [part.strip().lower() for part in value.split(b";")]
        return value + b"; Secure" if name.lower() == b"set-cookie" and b"secure" not in parts else value

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [(name, safe(name, value)) for name, value in message["headers"]]
        await send(message)

    return sent


@asynccontextmanager
async def app_lifespan(_: st.App) -> AsyncIterator[None]:
    """Prepare the first page and job, open a browser, and release the uploads of closed pages while the server runs."""
    prepare_fork_server()
    Thread(target=preload_first_page, daemon=True).start()
    Thread(target=remove_leftovers, args=[shared_workspace()], daemon=True).start()
    release_task = asyncio.create_task(_release_uploads())
    if not st.get_option("server.headless"):
        address = get_url(get_display_address(st.get_option("server.address") or "localhost"))
        asyncio.get_running_loop().call_soon(open_browser, address)
    yield
    release_task.cancel()


async def _release_uploads() -> None:
    while True:
        await asyncio.sleep(_UPLOAD_CHECK_SECONDS)
        UPLOADS.release_disconnected()
