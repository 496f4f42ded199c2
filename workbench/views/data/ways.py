"""The ways to a question set: files and folders to upload, the sample, and a known set to download."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import streamlit as st

from mrc_workbench.data.apart import Report
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.store import CATALOG, CatalogEntry, Progress, obtain
from mrc_workbench.workbench.views.data import preview
from mrc_workbench.workbench.views.data.preview import Preview, preview_of, preview_with
from mrc_workbench.workbench.views.resources.sets import SAMPLE
from mrc_workbench.workbench.views.ui.words import duration, language, word
from mrc_workbench.workbench.views.uploads import translate_field

MEGABYTE = 10**6  # bytes
_FOLDER = "folder_upload"  # whether the field takes a folder
_SAMPLE_CSV = Path(__file__).parents[1] / "locales"  # with a `sample.csv` for each language


def draw() -> None:
    """Draw the field for a file and, while none is looked at, the sets that are known; each ends in a preview."""
    _upload(is_large=preview.current() is None)
    if preview.current() is not None:
        return
    korquad = CATALOG["korquad-v1-dev"]
    size = f"{korquad.size / MEGABYTE:.1f}"
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
        preview.show(Preview(entry.path.name, entry.id, title, error=error))
        st.rerun()
    bar.empty()
    with reading_progress() as progress:
        preview.show(preview_of([(content, entry.path.name)], source=entry.id, title=entry.title, progress=progress))
    st.rerun()


def _upload(*, is_large: bool) -> None:
    is_folder = bool(st.session_state.get(_FOLDER)) and is_large
    key = f"upload_{preview.upload_round()}{'_folder' if is_folder else ''}"
    translate_field(key, is_large=is_large, is_folder=is_folder)
    limit = f"{st.get_option('server.maxUploadSize'):,}"
    files = st.file_uploader(
        word("data_page.upload"),
        accept_multiple_files="directory" if is_folder else True,
        key=key,
        help=word("data_page.upload_help", megabytes=limit),
    )
    if is_large:
        _formats()
    if files:
        new = [(file.getvalue(), file.name) for file in files]
        preview.empty_field()  # the files are held by the preview
        with reading_progress() as progress:
            preview.show(preview_with(new, preview.current(), progress))
        st.rerun()


@contextmanager
def reading_progress() -> Iterator[Report]:
    """Show that files are being read and for how long; of many files, how many are read."""
    bar = st.empty()

    def report(done: int, total: int) -> None:
        if total > 1:
            bar.progress(done / total, word("data_page.reading_files", done=f"{done:,}", total=f"{total:,}"))

    with st.spinner(word("data_page.reading"), show_time=True):
        yield report
    bar.empty()


def _formats() -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(word("data_page.formats"), width="content")
        st.toggle(word("data_page.folder"), key=_FOLDER, help=word("data_page.folder_help"))
        st.download_button(
            word("data_page.sample_csv"),
            sample_csv(language()),
            word("data_page.sample_csv_name"),
            "text/csv",
            key="sample_csv",
            type="tertiary",
            icon=":material/download:",
            help=word("data_page.sample_csv_help"),
            on_click="ignore",
        )


def sample_csv(language: str) -> bytes:
    """Return a small file to start from, as UTF-8 with a byte order mark: spreadsheets read it as such then."""
    return (_SAMPLE_CSV / language / "sample.csv").read_text(encoding="utf-8").encode("utf-8-sig")


def following(draw_bar: Callable[..., object]) -> Progress:
    """Return what draws a download's bar, with the time left at the pace so far."""
    started = time.monotonic()

    def follow(done: int, total: int) -> None:
        left = duration((time.monotonic() - started) * (total - done) / done)
        megabytes = {"done": f"{done / MEGABYTE:.1f}", "total": f"{total / MEGABYTE:.1f}"}
        draw_bar(done / total, text=word("data_page.downloading", **megabytes, left=left))

    return follow
