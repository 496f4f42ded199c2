"""Which words of the questions were cut wrongly: a table to take words from."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from views.compare.tune.bench import Bench
from views.resources.explanations import CutWords, is_read, words_cut_wrongly
from views.ui import tables
from views.ui.words import duration, word

_ASKED = "cut_words_asked"  # of the session
_TELLING = 0.02  # share of the work from which on the time left is told
_PARTS = " / "  # between morphemes


def draw(bench: Bench, reference: str) -> list[str]:
    """Draw the words cut wrongly, or the button that looks for them; returns those picked.

    They are read with the dictionary named, or with none. Raises `DictionaryError`.
    """
    data, shares = bench.view.data, bench.view.comparison.experiment.split_options
    known = st.session_state.setdefault(_ASKED, set())
    what = (data.key, reference)
    if not is_read(data, shares, reference) and what not in known:
        st.caption(word("dictionary_page.cut_about"))
        label, icon = word("dictionary_page.cut_find"), ":material/content_cut:"
        st.button(label, icon=icon, key="find_cut_words", on_click=known.add, args=(what,))
        return []
    with _progress() as tell:
        found = words_cut_wrongly(data, shares, reference, tell)
    if not found.words:
        st.info(word("dictionary_page.cut_none", questions=f"{len(found.questions):,}"), icon=":material/check:")
        return []
    st.caption(word("dictionary_page.cut_found", count=f"{len(found.words):,}", questions=f"{len(found.questions):,}"))
    rows = tables.draw_choice(
        _table(found), _columns(), f"cut_words_{data.key}_{reference}", mode="multi-row", height=_height(found)
    )
    return [found.words[row].word for row in rows]


def _table(found: CutWords) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "word": [one.word for one in found.words],
            "in_question": [_PARTS.join(one.in_questions) for one in found.words],
            "in_passage": [_PARTS.join(one.in_passages) or "–" for one in found.words],
            "count": [len(one.questions) for one in found.words],
            "evidence": [word(f"dictionary_page.evidence_{one.evidence.value}") for one in found.words],
            "question": [found.questions[one.questions[0]] for one in found.words],
        }
    )


def _columns() -> dict[str, ColumnConfig]:
    return {
        "word": tables.text("dictionary_page.word", pinned=True),
        "in_question": tables.text("dictionary_page.in_question"),
        "in_passage": tables.text("dictionary_page.in_passage"),
        "count": tables.number("dictionary_page.questions"),
        "evidence": tables.text("dictionary_page.evidence"),
        "question": tables.text("dictionary_page.example", width="large"),
    }


def _height(found: CutWords) -> int:
    return min(38 + 35 * len(found.words), 360)


@contextmanager
def _progress() -> Iterator[Callable[[float], None]]:
    """Yield what is told the share done, 0 to 1: a bar with the time left is drawn then, and taken away at the end."""
    place, began = st.empty(), time.monotonic()
    at_work = word("dictionary_page.cut_reading")

    def tell(share: float) -> None:
        left = (time.monotonic() - began) * (1 - share) / share if share > _TELLING else 0.0
        text = word("job.left", at_work=at_work, left=duration(left)) if left else at_work
        place.progress(min(1.0, share), text=text)

    try:
        yield tell
    finally:
        place.empty()
