"""How the files under preview are read: the readings and encodings to choose from, the role and use of every column or
key, the split, and notices for whole files."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TypeVar

import pandas as pd
import streamlit as st

from mrc_workbench.data.formats.encodings import EncodingCandidate
from mrc_workbench.data.questions.read import CollectionFile, Reading
from mrc_workbench.data.split import PARTS, SplitMethod
from mrc_workbench.workbench.views.data.preview import Read
from mrc_workbench.workbench.views.names import few_text, split_text
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.tables import draw_heading
from mrc_workbench.workbench.views.ui.words import label_and_help, plain, problem_text, word

_ROLE_KEYS = {"label": "relevance", "part": "question_part"}  # sentence pairs have other words for these roles
_MOST_READINGS = 5  # with a preview each; the others can be chosen by column
Cells = Mapping[str, str]
Roles = Mapping[str, str | None]
R = TypeVar("R", bound=Roles)
_SHOWN_COLUMNS = 50  # of each use
_SHOWN_FILES = 1000
_FILES_WITH_ROWS = 12  # whose first rows are shown


def role_key(role: str) -> str:
    """Return the locale key of a role of question sets, whose help is `column.KEY_help`."""
    return _ROLE_KEYS.get(role, role)


def pick_reading(
    readings: Sequence[R], first_rows: Sequence[Cells], key: str, *, answers: str | None = None
) -> R | None:
    """Draw the possible readings, each with its first rows; return the one whose button is clicked.

    A reading maps roles to columns. `answers` is the column of answers, which a reading may search as passages.
    """
    if not readings:
        return None
    draw_heading(word("data_page.readings"))
    selected = None
    for number, roles in enumerate(readings[:_MOST_READINGS]):
        columns = {role: name for role, name in roles.items() if name is not None}
        labels = {role: word(f"column.{role_key(role)}") for role in columns}
        titles = {role: f"{labels[role]} ({name})" for role, name in columns.items()}  # two roles may have one column
        rows = [{titles[role]: row.get(name, "") for role, name in columns.items()} for row in first_rows]
        with st.container(border=True):
            st.markdown(" · ".join(f"{labels[role]} ← {plain(name)}" for role, name in columns.items()))
            st.dataframe(pd.DataFrame(rows, columns=[*titles.values()]), hide_index=True)
            searches_answers = answers is not None and columns.get("context") == answers
            label = "search_answers" if searches_answers else "read_so"
            if st.button(word(f"data_page.{label}"), icon=":material/check:", key=f"{key}_{number}"):
                selected = roles
    if len(readings) > _MOST_READINGS:
        st.caption(word("data_page.more_readings", count=f"{len(readings) - _MOST_READINGS:,}"))
    return selected


def pick_other_encoding(encodings: Sequence[EncodingCandidate], used: str, key: str) -> str | None:
    """Draw the encodings to choose from, if any, beside text that was read in another one; return the choice."""
    if not encodings:
        return None
    with st.expander(word("data_page.other_encoding"), icon=":material/translate:"):
        return pick_encoding(encodings, used, key)


def pick_encoding(encodings: Sequence[EncodingCandidate], used: str, key: str) -> str | None:
    """Draw the possible encodings with the first line each; return the one to read the file in, if one is chosen."""
    if not encodings:
        return None
    samples = {encoding.name: encoding.sample for encoding in encodings}
    names = [*samples]
    index = names.index(used) if used in names else 0
    selected = st.selectbox(**label_and_help("data_page.encoding"), options=names, index=index, key=f"{key}_name")
    st.caption(word("data_page.encoding_sample"))
    st.code(samples[selected], language=None, wrap_lines=True)
    is_clicked = st.button(word("data_page.read_in_encoding"), icon=":material/translate:", key=key)
    return selected if is_clicked else None


def draw(found: Read) -> None:
    """Draw the report of a reading below its status and buttons."""
    _draw_columns(found.reading)
    _draw_files(found.reading.files)
    _draw_split(found)
    # notices about whole files, such as merged passages; problems of rows have their own lists
    if notices := [problem for problem in found.reading.problems if problem.row is None]:
        draw_heading(word("data_page.notices"))
        st.markdown("\n".join(f"- {plain(problem_text(problem))}" for problem in notices))


def _draw_columns(reading: Reading) -> None:
    roles: dict[str, list[str]] = {}
    for role, name in (asdict(reading.columns) if reading.columns is not None else {}).items():
        if name is not None:
            roles.setdefault(name, []).append(word(f"column.{role_key(role)}"))
    uses = {"used": reading.used_columns, "metadata": reading.metadata_columns, "unused": reading.unused_columns}
    lines = []
    for use, names in uses.items():
        if names:
            listed = [f"{plain(name)} ({', '.join(roles[name])})" if name in roles else plain(name) for name in names]
            del listed[_SHOWN_COLUMNS:]
            if len(names) > _SHOWN_COLUMNS:
                listed.append(word("data_page.more_columns", count=f"{len(names) - _SHOWN_COLUMNS:,}"))
            lines.append(f"- **{word(f'data_page.columns_{use}')}**: {', '.join(listed)}")
    if lines:
        draw_heading(word("data_page.columns_report"), help=word("data_page.columns_report_help"))
        st.markdown("\n".join(lines))


def _draw_files(files: Sequence[CollectionFile]) -> None:
    if not files:
        return
    # as people sort names: file 2 before file 10
    parts = {file.name: re.findall(r"(\D*)(\d*)", file.name.casefold()) for file in files}
    files = sorted(files, key=lambda file: [(int(number or -1), text) for text, number in parts[file.name]])
    draw_heading(word("data_page.files_report", count=f"{len(files):,}"))
    rows = [
        (
            file.name,
            word(f"role.{file.role}"),
            file.row_count,
            file.left_out,
            word(f"format.{file.format}"),
            file.encoding,
        )
        for file in files[:_SHOWN_FILES]
    ]
    columns = {
        "file": tables.text("data_page.file"),
        "role": tables.text("data_page.file_role"),
        "rows": tables.number("data_page.file_rows", "localized", width=100),
        "left_out": tables.number("data_page.file_rows_left_out", "localized", width=110),
        "format": tables.text("data_page.file_format"),
        "encoding": tables.text("data_page.file_encoding"),
    }
    table = pd.DataFrame(rows, columns=[*columns])
    for optional in ("encoding", "left_out"):
        if not table[optional].any():
            del columns[optional]
    if len(files) > _SHOWN_FILES:
        st.caption(word("data_page.first_rows", shown=f"{_SHOWN_FILES:,}"))
    tables.draw(table, columns)
    with_rows = [file for file in files[:_FILES_WITH_ROWS] if file.first_rows]
    if with_rows:
        with st.expander(word("data_page.first_of_files"), icon=":material/table_rows:"):
            for file in with_rows:
                st.markdown(f"**{plain(file.name)}** · {word(f'role.{file.role}')}")
                st.dataframe(pd.DataFrame(list(file.first_rows)), hide_index=True)


def _draw_split(found: Read) -> None:
    if not found.reading.question_set.questions:
        return
    counts = ", ".join(f"{word(f'part.{part}')} {len(found.split.rows[part]):,}" for part in PARTS)
    source = "published" if found.split.is_published else "drawn"
    draw_heading(word("data_page.split_report"))
    st.markdown(word(f"data_page.split_{source}", counts=counts))
    if found.split.method is not SplitMethod.GROUPED:
        st.caption(split_text(found.split))
    parts = [part for part in PARTS if len(found.split.rows[part]) or not found.split.is_published]
    if few := [text for part in parts if (text := few_text(len(found.split.rows[part]), part))]:
        st.markdown(f":material/warning: {' '.join(few)}")
