"""Widgets of the Data page for questions and sentence pairs: progress bars, lists of stored sets, previews."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data import store
from mrc_workbench.data.formats.encodings import EncodingCandidate
from mrc_workbench.data.formats.rows import FileReading
from mrc_workbench.data.formats.tables import column_names
from mrc_workbench.data.pairs import store as pair_store
from mrc_workbench.data.pairs.store import PairFileReading, StoredPairs
from mrc_workbench.data.problems import Problem
from mrc_workbench.data.questions.read import QuestionSetReading
from mrc_workbench.data.store import MAX_NAME_CHARACTERS, Progress, StoredItem, display_name
from mrc_workbench.data.subprocess_reader import OnFilesRead
from mrc_workbench.workbench.views.names import pairs_name, set_name
from mrc_workbench.workbench.views.resources.sets import Cached, pair_set, question_set, stored_sets, use_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.state import remember, remembered
from mrc_workbench.workbench.views.ui.words import (
    catalog,
    draw_damaged,
    draw_remove,
    duration,
    label_and_help,
    language,
    moment,
    plain,
    problem_text,
    reason_text,
    show_errors,
    word,
)

MEGABYTE = 10**6  # bytes
PAIRS_IN_ADDRESS = "pairs"  # the displayed set
_MAX_ROWS = 1000
_STORE_CLICK = "store_click"  # session key: the name of the set to store
_MAX_COLUMNS = 30  # of the first rows


@contextmanager
def reading_progress() -> Iterator[OnFilesRead]:
    bar = st.empty()

    def report(done: int, total: int) -> None:
        if total > 1:
            bar.progress(done / total, word("data_page.reading_files", done=f"{done:,}", total=f"{total:,}"))

    with st.spinner(word("data_page.reading"), show_time=True):
        yield report
    bar.empty()


def download_progress(draw_bar: Callable[..., object]) -> Progress:
    """Return a callback that draws the bar of a download, with the remaining time."""
    started = time.monotonic()

    def follow(done: int, total: int) -> None:
        left = duration((time.monotonic() - started) * (total - done) / done)
        megabytes = {"done": f"{done / MEGABYTE:.1f}", "total": f"{total / MEGABYTE:.1f}"}
        draw_bar(done / total, text=word("data_page.downloading", **megabytes, left=left))

    return follow


def draw_sets(in_use: str) -> None:
    """Draw the list of stored question sets; users cannot remove the one with the key `in_use`."""
    sets = stored_sets()
    with st.expander(word("data_page.sets", count=f"{len(sets):,}"), icon=":material/folder:"):
        st.caption(word("data_page.sets_about"))
        for dataset in sets:
            counts = word("sidebar.counts", passages=f"{dataset.passages:,}", questions=f"{dataset.questions:,}")
            is_used = dataset.key == in_use
            with _row(dataset, set_name(dataset.name), counts, store, question_set, is_removable=not is_used):
                if is_used:
                    st.badge(word("data_page.is_used"), icon=":material/check:", color="green")
                elif st.button(word("data_page.use_stored"), key=f"use_{dataset.key}"):
                    use_set(dataset.key)
                    st.rerun()
    draw_damaged(store.damaged(), store.remove)


def draw_pairs(displayed_key: str) -> None:
    sets = pair_store.stored()
    if not sets:
        st.caption(word("pairs_page.no_sets"))
    else:
        with st.expander(word("pairs_page.sets", count=f"{len(sets):,}"), icon=":material/folder:"):
            st.caption(word("pairs_page.sets_about"))
            for pairs in sets:
                counts = word("pairs_page.counts", kind=word(f"pair_kind.{pairs.kind}"), rows=f"{pairs.rows:,}")
                with _row(pairs, pairs_name(pairs.name), counts, pair_store, pair_set):
                    if pairs.key == displayed_key:
                        st.badge(word("pairs_page.is_shown"), icon=":material/visibility:")
                    elif st.button(word("data_page.look"), key=f"see_{pairs.key}"):
                        remember(PAIRS_IN_ADDRESS, pairs.key)
                        st.rerun()
    draw_damaged(pair_store.damaged(), pair_store.remove)


@contextmanager
def _row(
    stored_set: StoredItem,
    label: str,
    counts: str,
    store_module: ModuleType,
    cached_loader: Cached[[str], Any],
    *,
    is_removable: bool = True,
) -> Iterator[None]:
    """Draw a set with its buttons to rename and remove it; the `with` block draws the button that selects it."""
    with st.container(border=True):
        name, about, created, buttons = st.columns([3, 3, 2, 5], vertical_alignment="center")
        with name.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{plain(label)}**", width="content")
            if stored_set.shared:
                st.badge(word("data_page.shared"), icon=":material/group:", help=word("data_page.shared_help"))
        about.text(counts)
        created.text(moment(stored_set.created))
        with buttons.container(horizontal=True, horizontal_alignment="right", vertical_alignment="center"):
            yield
            if stored_set.shared:
                return
            with st.popover(word("data_page.rename"), icon=":material/edit:", key=f"rename_{stored_set.key}"):
                new_name = _draw_name_field(label, f"name_{stored_set.key}")
                key = f"rename_yes_{stored_set.key}"
                if st.button(word("data_page.rename_yes"), key, type="primary", disabled=not new_name):
                    with show_errors():
                        if new_name != label:  # a translated name stays as stored
                            store_module.rename(stored_set.key, new_name)
                            cached_loader.clear(stored_set.key)
                        st.toast(word("data_page.renamed", name=plain(new_name)), icon=":material/edit:")
                        st.rerun()
            if is_removable:
                confirmation = word("data_page.remove_sure", name=plain(label))
                message = word("data_page.removed", name=plain(label))
                draw_remove(stored_set.key, store_module.remove, confirmation=confirmation, message=message)


def _draw_name_field(name: str, key: str, **kwargs: Any) -> str:
    kwargs |= {"max_chars": MAX_NAME_CHARACTERS, "key": key}
    return display_name(st.text_input(**label_and_help("data_page.name"), value=name, **kwargs) or "")


def selected_pairs() -> StoredPairs | None:
    """Return the displayed pair set: the selected one, which other pages use too, or else the newest."""
    sets = {pairs.key: pairs for pairs in pair_store.stored()}
    return sets.get(remembered(PAIRS_IN_ADDRESS, next(iter(sets), ""), [*sets]))


def draw_store_button(stored_name: str, displayed_name: str, preview_key: str, **button: Any) -> str | None:
    """Draw a field for the name of a set and a button; returns the name to store on a click, else None.

    A changed column reads the files again, and the page is drawn again before it reaches this button. A callback notes
    the click, so that it counts all the same.
    """
    name = _draw_name_field(displayed_name, f"set_name_{preview_key}", width=320)
    note_click = partial(st.session_state.__setitem__, _STORE_CLICK, stored_name)
    st.button(type="primary", icon=":material/check:", on_click=note_click, **button)
    if st.session_state.pop(_STORE_CLICK, None) != stored_name:
        return None
    return stored_name if name == displayed_name else name or stored_name


def forget_store_click() -> None:
    """Forget a click on a preview that turned out to be unusable."""
    st.session_state.pop(_STORE_CLICK, None)


def draw_discard_button(key: str, forget: Callable[[], None]) -> None:
    st.button(word("data_page.discard"), icon=":material/close:", key=key, on_click=forget)


def draw_status(understood: str, warnings: Sequence[str], notes: Sequence[str], *, is_clean: bool) -> None:
    """Draw a box of Markdown with the icon of its most serious point; `is_clean`: the reading has no problems."""
    points = [*warnings, *notes] or ([word("data_page.no_problem")] if is_clean else [])
    text = "\n".join([understood, "", *(f"- {point}" for point in points)])
    if warnings:
        st.warning(text, icon=":material/warning:")
    elif notes or not is_clean:
        st.info(text, icon=":material/info:")
    else:
        st.success(text, icon=":material/check_circle:")


def pick_column(
    container: DeltaGenerator, role: str, current: str | None, available: Sequence[str], key: str
) -> str | None:
    options = [None, *available]
    index = options.index(current) if current in options else 0
    kwargs: dict[str, Any] = {"format_func": lambda name: word("column.none") if name is None else name, "key": key}
    column: str | None = container.selectbox(**label_and_help(f"column.{role}"), options=options, index=index, **kwargs)
    return column


def draw_first_rows(
    first_rows: Sequence[Mapping[str, str]], available: Sequence[str], column_by_role: Mapping[str, str | None]
) -> None:
    """Draw the first rows; columns that have a role come first, with the role in their titles."""
    if not first_rows:
        return
    roles = {name: role for role, name in column_by_role.items() if name is not None}
    names = sorted(available, key=lambda name: (name not in roles, available.index(name)))[:_MAX_COLUMNS]
    titles = {name: f"{name} ({word(f'column.{roles[name]}')})" if name in roles else name for name in names}
    table = pd.DataFrame([[row.get(name, "") for name in names] for row in first_rows], columns=names)
    columns = {name: st.column_config.TextColumn(title) for name, title in titles.items()}
    st.dataframe(table, hide_index=True, column_config=columns)


def left_out_words(readings: Sequence[FileReading]) -> list[str]:
    """Return, as Markdown, the count of skipped rows by file."""
    texts = []
    for reading in readings:
        if any(problem.leaves_out_row for problem in reading.problems):
            text = word("data_page.left_out", left_out=f"{reading.left_out:,}", rows=f"{reading.row_count:,}")
            if isinstance(reading, PairFileReading) and len(readings) > 1:
                text = f"{plain(reading.name)}: {text}"
            texts.append(text)
    return texts


def draw_problems(readings: Sequence[FileReading], title: str) -> None:
    """Draw the skipped and repaired rows by file; the report has the notices about whole files."""
    for index, reading in enumerate(readings):
        if isinstance(reading, PairFileReading) and reading.problems and len(readings) > 1:
            st.markdown(f"**{plain(reading.name)}**")
        _draw_problems(reading, title if len(readings) == 1 else f"{title}_{index + 1}")


def _draw_problems(reading: FileReading, title: str) -> None:
    left_out = [problem for problem in reading.problems if problem.leaves_out_row]
    notices: list[Problem] = []
    if isinstance(reading, QuestionSetReading):
        notices = [problem for problem in reading.problems if problem.row is None]
    others = [problem for problem in reading.problems if not problem.leaves_out_row and problem not in notices]
    if left_out:
        whole = partial(_problem_table, reading.rejected, left_out, texts := catalog(language()))
        with st.expander(word("data_page.see_left_out")):
            if len(left_out) > _MAX_ROWS:
                st.caption(word("data_page.first_rows", count=f"{_MAX_ROWS:,}"))
            wide = {texts["data_page.problem_column"]: st.column_config.TextColumn(width="large")}
            first = _problem_table(reading.rejected.head(_MAX_ROWS), left_out, texts)
            st.dataframe(first, hide_index=True, column_config=wide)
            if len(left_out) < reading.left_out:
                st.caption(word("data_page.first_left_out", count=f"{len(left_out):,}"))
            tables.draw_csv("data_page.download_left_out", whole, f"{title}_left_out.csv")
    if others:
        count = f"{reading.problem_count - reading.left_out - len(notices):,}"
        with st.expander(word("data_page.see_others", count=count), icon=":material/info:"):
            for problem in others[:_MAX_ROWS]:
                st.text(problem_text(problem))


def _problem_table(table: pd.DataFrame, problems: list[Problem], texts: Mapping[str, str]) -> pd.DataFrame:
    words = [reason_text(problem, texts) for problem in problems[: len(table)]]
    table = table.assign(problem=words)
    table.columns = column_names([texts["data_page.row_column"], texts["data_page.problem_column"], *table.columns[2:]])
    return table


def pick_encoding(
    encodings: Sequence[EncodingCandidate], used: str, key: str, *, is_folded: bool = False
) -> str | None:
    """Draw the possible encodings with a sample of each; returns the selected one on a click, else None."""
    if not encodings:
        return None
    samples = {encoding.name: encoding.sample for encoding in encodings}
    index = [*samples].index(used) if used in samples else 0
    fold = st.expander(word("data_page.other_encoding"), icon=":material/translate:") if is_folded else st.container()
    with fold:
        words = label_and_help("data_page.encoding")
        selected = st.selectbox(**words, options=[*samples], index=index, key=f"{key}_name")
        st.caption(word("data_page.encoding_sample"))
        st.code(samples[selected], language=None, wrap_lines=True)
        is_clicked = st.button(word("data_page.read_in_encoding"), icon=":material/translate:", key=key)
    return selected if is_clicked else None
