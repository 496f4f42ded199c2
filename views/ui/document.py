"""The document around the app: its language, its history, and a button that copies its address."""

from functools import cache
from pathlib import Path

import streamlit as st

from views.ui.words import language, word

_SCRIPT = Path(__file__).with_name("document.js")
_KEY = "document"  # of the container without a height, see `look.css`


@cache
def _script() -> str:
    return _SCRIPT.read_text(encoding="utf-8")


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
