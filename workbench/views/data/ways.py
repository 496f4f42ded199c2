"""The ways to a dataset: uploads, the sample, a download, and the lists of stored sets, where a set is selected,
renamed or removed."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import streamlit as st

from mrc_workbench.data import store
from mrc_workbench.data.apart import Report
from mrc_workbench.data.collection import LONGEST_NAME, KeptSet, display_name
from mrc_workbench.data.pairs import store as pair_store
from mrc_workbench.data.pairs.store import StoredPairs
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.store import CATALOG, CatalogEntry, Progress, obtain
from mrc_workbench.workbench.views.data import preview
from mrc_workbench.workbench.views.data.preview import Preview, preview_of, preview_with
from mrc_workbench.workbench.views.names import pairs_name, set_name
from mrc_workbench.workbench.views.resources.sets import SAMPLE, pair_set, question_set, stored_sets, use_set
from mrc_workbench.workbench.views.ui.state import remember, remembered
from mrc_workbench.workbench.views.ui.words import (
    draw_damaged,
    draw_remove,
    duration,
    errors_told,
    label_and_help,
    language,
    moment,
    plain,
    word,
)
from mrc_workbench.workbench.views.uploads import translate_field

MEGABYTE = 10**6  # bytes
_FOLDER = "folder_upload"  # whether the field takes a folder
_SAMPLE_CSV = Path(__file__).parents[1] / "locales"  # with a `sample.csv` for each language
_PAIRS = "pairs"  # in the address: those to look at


def draw() -> None:
    """Draw the upload field and, without a preview, the sample and the download; each ends in a preview."""
    _upload(is_large=preview.current() is None)
    if preview.current() is not None:
        return
    korquad = CATALOG["korquad-v1-dev"]
    size = f"{korquad.size / MEGABYTE:.1f}"
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(word("data_page.no_file"), width="content")
        sample = word("data_page.sample")
        is_sample = _button(CATALOG[SAMPLE], sample, word("data_page.sample_about"), ":material/visibility:")
        download = word("data_page.korquad_download", size=size)
        is_korquad = _button(korquad, download, word("data_page.korquad_about"), ":material/download:")
    if is_sample:
        _look(CATALOG[SAMPLE], sample)
    if is_korquad:
        _look(korquad, korquad.title)


def _button(entry: CatalogEntry, label: str, about: str, icon: str) -> bool:
    help_text = f"{about}  \n{word('data_page.licence', licence=entry.licence)}"
    return st.button(label, key=f"look_{entry.id}", type="tertiary", icon=icon, help=help_text)


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
    words = label_and_help("data_page.upload", megabytes=f"{st.get_option('server.maxUploadSize'):,}")
    files = st.file_uploader(**words, accept_multiple_files="directory" if is_folder else True, key=key)
    if is_large:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(word("data_page.formats"), width="content")
            st.toggle(**label_and_help("data_page.folder"), key=_FOLDER)
            look: dict[str, Any] = {"type": "tertiary", "icon": ":material/download:", "on_click": "ignore"}
            look |= {"file_name": word("data_page.sample_csv_name"), "mime": "text/csv", "key": "sample_csv"}
            st.download_button(**label_and_help("data_page.sample_csv"), data=sample_csv(language()), **look)
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


def draw_sets(in_use: str) -> None:
    """Draw the list of kept question sets; `in_use` is the key of the one that cannot be removed."""
    sets = stored_sets()
    with st.expander(word("data_page.sets", count=f"{len(sets):,}"), icon=":material/folder:"):
        st.caption(word("data_page.sets_about"))
        for kept in sets:
            counts = word("sidebar.counts", passages=f"{kept.passages:,}", questions=f"{kept.questions:,}")
            is_used = kept.key == in_use
            with _row(kept, set_name(kept.name), counts, _rename_set, None if is_used else store.remove):
                if is_used:
                    st.badge(word("data_page.is_used"), icon=":material/check:", color="green")
                elif st.button(word("data_page.use_stored"), key=f"use_{kept.key}"):
                    use_set(kept.key)
                    st.rerun()
    draw_damaged(store.damaged(), store.remove)


def draw_pairs(shown: str) -> None:
    """Draw the list of kept sets of pairs; `shown` is the key of the one that is looked at."""
    sets = pair_store.stored()
    if not sets:
        st.caption(word("pairs_page.no_sets"))
    else:
        with st.expander(word("pairs_page.sets", count=f"{len(sets):,}"), icon=":material/folder:"):
            st.caption(word("pairs_page.sets_about"))
            for kept in sets:
                counts = word("pairs_page.counts", kind=word(f"pair_kind.{kept.kind}"), rows=f"{kept.rows:,}")
                with _row(kept, pairs_name(kept.name), counts, _rename_pairs, pair_store.remove):
                    if kept.key == shown:
                        st.badge(word("pairs_page.is_shown"), icon=":material/visibility:")
                    elif st.button(word("data_page.look"), key=f"see_{kept.key}"):
                        choose_pairs(kept.key)
                        st.rerun()
    draw_damaged(pair_store.damaged(), pair_store.remove)


@contextmanager
def _row(
    kept: KeptSet, called: str, counts: str, rename: Callable[[str, str], None], remove: Callable[[str], None] | None
) -> Iterator[None]:
    """Draw a set: its name, its counts, what the block draws to select it, and what renames or removes it."""
    with st.container(border=True):
        name, about, created, buttons = st.columns([3, 3, 2, 5], vertical_alignment="center")
        with name.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{plain(called)}**", width="content")
            if kept.shared:
                st.badge(word("data_page.shared"), icon=":material/group:", help=word("data_page.shared_help"))
        about.text(counts)
        created.text(moment(kept.created))
        with buttons.container(horizontal=True, horizontal_alignment="right", vertical_alignment="center"):
            yield
            if not kept.shared:
                _draw_rename(kept.key, called, rename)
            if remove is not None and not kept.shared:
                sure = word("data_page.remove_sure", name=plain(called))
                draw_remove(kept.key, remove, sure=sure, removed=word("data_page.removed", name=plain(called)))


def _draw_rename(key: str, called: str, rename: Callable[[str, str], None]) -> None:
    with st.popover(word("data_page.rename"), icon=":material/edit:", key=f"rename_{key}"):
        look: dict[str, Any] = {"max_chars": LONGEST_NAME, "key": f"name_{key}"}
        entered = st.text_input(**label_and_help("data_page.name"), value=called, **look)
        name = display_name(entered or "")
        if st.button(word("data_page.rename_yes"), type="primary", disabled=not name, key=f"rename_yes_{key}"):
            with errors_told():
                if name != called:  # a name that the page translates stays as it is stored
                    rename(key, name)
                st.toast(word("data_page.renamed", name=plain(name)), icon=":material/edit:")
                st.rerun()


def _rename_set(key: str, name: str) -> None:
    store.rename(key, name)
    question_set.clear(key)


def _rename_pairs(key: str, name: str) -> None:
    pair_store.rename(key, name)
    pair_set.clear(key)


def chosen_pairs() -> StoredPairs | None:
    """Return the kept pairs to look at, if there are some: those in use on other pages too, else the newest."""
    sets = {kept.key: kept for kept in pair_store.stored()}
    return sets.get(remembered(_PAIRS, next(iter(sets), ""), [*sets]))


def choose_pairs(key: str) -> None:
    remember(_PAIRS, key)
