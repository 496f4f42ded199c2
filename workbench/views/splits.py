"""How a dataset is split, and warnings that parts have too few questions, in the words of the report."""

from collections.abc import Iterable
from typing import Any

import streamlit as st

from mrc_workbench.data.split import Part, Split
from mrc_workbench.retrieval.report.words import catalog, few_taught_words, few_words, split_words
from mrc_workbench.workbench.views.ui.words import language


def draw_split(parts: Split) -> None:
    st.caption(f":material/call_split: {split_text(parts)}")


def split_text(parts: Split) -> str:
    return split_words(parts, _say)


def few_text(count: int, of: str) -> str:
    """Return the warning that so few questions are too few for `of`, empty if they are enough."""
    return few_words(count, of, _say)


def draw_few(count: int, of: str) -> None:
    """Draw the warning that so few questions are too few for `of`: "compared" or the value of a part."""
    _draw_warning(few_text(count, of))


def draw_few_taught(name: str, count: int) -> None:
    """Draw the warning that too few questions taught a mix; `name` is Markdown."""
    _draw_warning(few_taught_words(name, count, _say))


def draw_few_of(parts: Split, of: Iterable[Part]) -> None:
    """Draw a warning for each of the parts that has too few questions."""
    for part in of:
        draw_few(len(parts.rows[part]), part.value)


def _draw_warning(text: str) -> None:
    if text:
        st.warning(text, icon=":material/warning:")


def _say(key: str, /, **values: Any) -> str:
    return catalog(language())[key].format(**values)
