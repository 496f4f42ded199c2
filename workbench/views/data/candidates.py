"""The choice for files that can be read in several ways: possible readings with their first rows, and encodings."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import pandas as pd
import streamlit as st

from mrc_workbench.data.formats.encodings import EncodingCandidate
from mrc_workbench.workbench.views.ui.headings import draw_heading
from mrc_workbench.workbench.views.ui.words import plain, word

_ROLE_KEYS = {"label": "relevance", "part": "question_part"}  # sentence pairs have other words for these roles
_MOST_READINGS = 5  # with a preview each; the others can be chosen by column
Cells = Mapping[str, str]
Roles = Mapping[str, str | None]
R = TypeVar("R", bound=Roles)


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
        with st.container(border=True):
            st.markdown(
                " · ".join(f"{word(f'column.{role_key(role)}')} ← {plain(name)}" for role, name in columns.items())
            )
            st.dataframe(_table(columns, first_rows), hide_index=True)
            searches_answers = answers is not None and columns.get("context") == answers
            label = "search_answers" if searches_answers else "read_so"
            if st.button(word(f"data_page.{label}"), icon=":material/check:", key=f"{key}_{number}"):
                selected = roles
    if len(readings) > _MOST_READINGS:
        st.caption(word("data_page.more_readings", count=f"{len(readings) - _MOST_READINGS:,}"))
    return selected


def _table(columns: Mapping[str, str], first_rows: Sequence[Cells]) -> pd.DataFrame:
    """The first rows, a column for each role; two roles may have one column."""
    titles = {role: f"{word(f'column.{role_key(role)}')} ({name})" for role, name in columns.items()}
    rows = [{titles[role]: row.get(name, "") for role, name in columns.items()} for row in first_rows]
    return pd.DataFrame(rows, columns=[*titles.values()])


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
    selected = st.selectbox(
        word("data_page.encoding"),
        names,
        index=names.index(used) if used in names else 0,
        help=word("data_page.encoding_help"),
        key=f"{key}_name",
    )
    st.caption(word("data_page.encoding_sample"))
    st.code(samples[selected], language=None, wrap_lines=True)
    if st.button(word("data_page.read_in_encoding"), icon=":material/translate:", key=key):
        return selected
    return None
