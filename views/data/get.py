"""The three ways to a question set: the sample, KorQuAD, a file of one's own."""

import time
from collections.abc import Callable

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from data.catalog import CATALOG, CatalogEntry, Progress, obtain
from data.problems import DataError
from views.data import preview
from views.resources.sets import SAMPLE
from views.words import duration, word

KORQUAD = "korquad-v1-dev"
_MEGABYTE = 10**6


def draw() -> None:
    """Draw the three ways; each ends in a preview."""
    sample, korquad, own = st.columns(3, border=True)
    with sample:
        _from_catalog(CATALOG[SAMPLE], word("data_page.sample"), word("data_page.sample_about"))
    with korquad:
        entry = CATALOG[KORQUAD]
        about = word("data_page.korquad_about", size=f"{entry.size / _MEGABYTE:.1f}")
        _from_catalog(entry, word("data_page.korquad"), about)
    with own:
        _upload()


def _from_catalog(entry: CatalogEntry, title: str, about: str) -> None:
    st.markdown(f"**{title}**")
    st.caption(f"{about}  \n{word('data_page.licence', licence=entry.licence)}")
    pressed = st.button(word("data_page.look"), key=f"look_{entry.id}", icon=":material/visibility:")
    if not pressed:
        return
    preview.drop()
    bar = st.empty()
    try:
        content = obtain(entry, following(bar.progress))
    except DataError as error:
        preview.show(preview.Preview(entry.path.name, entry.id, title, error=error))
        st.rerun()
    bar.empty()
    _open(content, entry.path.name, entry.id, entry.title)


def _upload() -> None:
    key = f"upload_{preview.upload_round()}"
    st.markdown(f"**{word('data_page.upload')}**")
    file = st.file_uploader(
        word("data_page.upload"),
        key=key,
        label_visibility="collapsed",
        on_change=_forget_if_emptied,
        args=(key,),
    )
    st.caption(word("data_page.upload_about"))
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
