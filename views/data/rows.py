"""What became of files: what is to be looked at, the first rows, and those that cannot be used, with the reason."""

from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.formats.rows import FileReading
from data.formats.tables import column_names
from data.pairs.reading import PairFileReading
from data.problems import Problem
from views.ui import tables
from views.ui.problems import problem_text, reason_text
from views.ui.words import catalog, language, plain, word


def draw_status(understood: str, warnings: Sequence[str], notes: Sequence[str], *, is_clean: bool) -> None:
    """Draw one box, as grave as the gravest that it tells; all texts are Markdown.

    `is_clean` says that there is nothing at all to tell of the reading.
    """
    points = [*warnings, *notes]
    if not points and is_clean:
        points = [word("data_page.no_problem")]
    told = "\n".join([understood, "", *(f"- {point}" for point in points)])
    if warnings:
        st.warning(told, icon=":material/warning:")
    elif notes or not is_clean:
        st.info(told, icon=":material/info:")
    else:
        st.success(told, icon=":material/check_circle:")


_SHOWN_ROWS = 1000
_SHOWN_COLUMNS = 30  # of the first rows


def pick_column(place: DeltaGenerator, role: str, given: str | None, available: Sequence[str], key: str) -> str | None:
    """Draw the field for the column of a role, and return what is chosen; None where there is to be none."""
    options = [None, *available]
    return place.selectbox(
        word(f"column.{role}"),
        options,
        index=options.index(given) if given in options else 0,
        format_func=lambda name: word("column.none") if name is None else name,
        help=word(f"column.{role}_help"),
        key=key,
    )


def draw_first(
    first_rows: Sequence[Mapping[str, str]], available: Sequence[str], chosen: Mapping[str, str | None]
) -> None:
    """Draw what is in the columns: first those that are `chosen`, by role, named by their role too."""
    if not first_rows:
        return
    roles = {name: role for role, name in chosen.items() if name is not None}
    names = sorted(available, key=lambda name: (name not in roles, available.index(name)))[:_SHOWN_COLUMNS]
    titles = {name: f"{name} ({word(f'column.{roles[name]}')})" if name in roles else name for name in names}
    table = pd.DataFrame([[row.get(name, "") for name in names] for row in first_rows], columns=names)
    st.dataframe(
        table,
        hide_index=True,
        column_config={name: st.column_config.TextColumn(title) for name, title in titles.items()},
    )


def left_out_words(readings: Sequence[FileReading]) -> list[str]:
    """Return, as Markdown, how many rows of which file were left out; one of several is named."""
    found = []
    for reading in readings:
        if any(problem.leaves_out_row for problem in reading.problems):
            told = word("data_page.left_out", left_out=f"{reading.left_out:,}", rows=f"{reading.row_count:,}")
            if isinstance(reading, PairFileReading) and len(readings) > 1:
                told = f"{plain(reading.name)}: {told}"
            found.append(told)
    return found


def draw_problems(readings: Sequence[FileReading], title: str) -> None:
    """Draw the rows of a set of this title that were left out or mended; one of several files is named."""
    for place, reading in enumerate(readings):
        if isinstance(reading, PairFileReading) and reading.problems and len(readings) > 1:
            st.markdown(f"**{plain(reading.name)}**")
        _draw_problems(reading, title if len(readings) == 1 else f"{title}_{place + 1}")


def _draw_problems(reading: FileReading, title: str) -> None:
    left_out = [problem for problem in reading.problems if problem.leaves_out_row]
    others = [problem for problem in reading.problems if not problem.leaves_out_row]
    if left_out:
        with st.expander(word("data_page.see_left_out")):
            _draw_left_out(reading, left_out, title)
    if others:
        count = f"{reading.problem_count - reading.left_out:,}"
        with st.expander(word("data_page.see_others", count=count), icon=":material/info:"):
            for problem in others[:_SHOWN_ROWS]:
                st.text(problem_text(problem))


def _draw_left_out(reading: FileReading, left_out: list[Problem], title: str) -> None:
    texts = catalog(language())
    if len(left_out) > _SHOWN_ROWS:
        st.caption(word("data_page.first_rows", shown=f"{_SHOWN_ROWS:,}"))
    st.dataframe(
        _in_words(reading.rejected.head(_SHOWN_ROWS), left_out, texts),
        hide_index=True,
        column_config={texts["data_page.problem_column"]: st.column_config.TextColumn(width="large")},
    )
    whole = partial(_in_words, reading.rejected, left_out, texts)
    if len(left_out) < reading.left_out:
        st.caption(word("data_page.first_kept", kept=f"{len(left_out):,}"))
    tables.draw_csv("data_page.download_left_out", whole, f"{title}_left_out.csv")


def _in_words(table: pd.DataFrame, problems: list[Problem], texts: Mapping[str, str]) -> pd.DataFrame:
    """The table with the reader's English problems in the person's words; there is one problem a row."""
    words = [reason_text(problem, texts) for problem in problems[: len(table)]]
    table = table.assign(problem=words)
    table.columns = column_names([texts["data_page.row_column"], texts["data_page.problem_column"], *table.columns[2:]])
    return table
