"""The ways to a question set: a file of one's own first, and for who has none the sample and KorQuAD."""

import time
from collections.abc import Callable

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from data.problems import DataError
from data.store import CATALOG, CatalogEntry, Progress, obtain
from views.data import preview
from views.resources.sets import SAMPLE
from views.ui.words import duration, word
from views.uploads import translate_field

KORQUAD = "korquad-v1-dev"
_MEGABYTE = 10**6


def draw() -> None:
    """Draw the field for a file and, while none is looked at, the sets that are known; each ends in a preview."""
    _upload(is_large=preview.current() is None)
    if preview.current() is None:
        _draw_catalog()


def _draw_catalog() -> None:
    korquad = CATALOG[KORQUAD]
    size = f"{korquad.size / _MEGABYTE:.1f}"
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(word("data_page.no_file"), width="content")
        is_sample = _button(CATALOG[SAMPLE], word("data_page.sample"), word("data_page.sample_about"), "visibility")
        title = word("data_page.korquad_download", size=size)
        is_korquad = _button(korquad, title, word("data_page.korquad_about"), "download")
    if is_sample:
        _look(CATALOG[SAMPLE], word("data_page.sample"))
    if is_korquad:
        _look(korquad, korquad.title)


def _button(entry: CatalogEntry, label: str, about: str, icon: str) -> bool:
    explained = f"{about}  \n{word('data_page.licence', licence=entry.licence)}"
    return st.button(label, key=f"look_{entry.id}", type="tertiary", icon=f":material/{icon}:", help=explained)


def _look(entry: CatalogEntry, title: str) -> None:
    preview.drop()
    bar = st.empty()
    try:
        content = obtain(entry, following(bar.progress))
    except DataError as error:
        preview.show(preview.Preview(entry.path.name, entry.id, title, error=error))
        st.rerun()
    bar.empty()
    _open(content, entry.path.name, entry.id, entry.title)


def _upload(*, is_large: bool) -> None:
    key = f"upload_{preview.upload_round()}"
    translate_field(key, is_large=is_large)
    limit = f"{st.get_option('server.maxUploadSize'):,}"
    file = st.file_uploader(
        word("data_page.upload"),
        key=key,
        help=word("data_page.upload_help", megabytes=limit),
        on_change=_forget_if_emptied,
        args=(key,),
    )
    # the field keeps its file on every rerun: only a new one is read
    if isinstance(file, UploadedFile) and st.session_state.get("upload_read") != file.file_id:
        _open(file.getvalue(), file.name, file.name, "", file.file_id)


def _open(content: bytes, name: str, source: str, title: str, file_id: str = "") -> None:
    with st.spinner(word("data_page.reading"), show_time=True):
        preview.show(preview.preview_of(content, name, source=source, title=title))
    st.session_state["upload_read"] = file_id
    st.rerun()


def _forget_if_emptied(key: str) -> None:
    if st.session_state.get(key) is None:
        preview.put_aside()  # another file may come into the same field: one that replaces this one


def following(draw_bar: Callable[..., object]) -> Progress:
    """Return what draws a download's bar, with the time left at the pace so far."""
    started = time.monotonic()

    def follow(done: int, total: int) -> None:
        left = (time.monotonic() - started) * (total - done) / done
        text = word(
            "data_page.downloading",
            done=f"{done / _MEGABYTE:.1f}",
            total=f"{total / _MEGABYTE:.1f}",
            left=duration(left),
        )
        draw_bar(done / total, text=text)

    return follow
