"""The document around the app: its language, its history, and a button that copies its address."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from streamlit.file_util import get_static_dir

from mrc_workbench.workbench.views.ui.words import language, word

_SCRIPT = Path(__file__).with_name("document.js")
_KEY = "document"  # of the container without a height, see `look.css`


@cache
def _script() -> str:
    return _SCRIPT.read_text(encoding="utf-8")


def document_routes(pages: Sequence[str]) -> list[Route]:
    """Return the routes of these pages' document: Streamlit's own, but the script that keeps the history runs first.

    Drawn with the page alone, it would run after the app has written into the address, and after a first click.
    """
    document = Path(get_static_dir(), "index.html").read_text(encoding="utf-8")
    document = document.replace("<head>", f"<head><script>{_script()}</script>", 1)
    base = st.get_option("server.baseUrlPath").strip("/")

    async def answer(_: Request) -> HTMLResponse:
        return HTMLResponse(document, headers={"Cache-Control": "no-cache"})

    return [Route("/" + "/".join(filter(None, (base, page))), answer) for page in ("", *pages)]


def draw_document() -> None:
    """Set the document's language to that of the page, and have a click make one entry in the browser's history."""
    body = f"<script>document.documentElement.lang = '{language()}';\n{_script()}</script>"
    with st.container(key=_KEY):
        st.html(body, unsafe_allow_javascript=True)


def draw_copy_link() -> None:
    """Draw the button that copies the address of what is displayed; the browser copies it (`document.js`)."""
    with st.container(width="content"):
        _draw_copy_button()


@st.fragment
def _draw_copy_button() -> None:
    if st.button(word("app.copy_link"), icon=":material/link:", help=word("app.copy_link_help"), key="copy_link"):
        st.toast(word("app.link_copied"), icon=":material/check:")
