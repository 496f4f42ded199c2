"""The choice of analyzers to try, and what each of them makes of a text."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.lexical.terms import OF_ANY_LANGUAGE, OF_ONE_LANGUAGE, readings
from mrc_workbench.workbench.views.compare.tune.bench import Bench
from mrc_workbench.workbench.views.names import analyzer_words
from mrc_workbench.workbench.views.resources.retrieval import analyzers_of
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.state import choose_several
from mrc_workbench.workbench.views.ui.words import word


def choose_analyzers(key: str) -> list[Analyzer]:
    """Draw the choice of analyzers for a stored dataset: first those that suit it, then those of other languages.

    They are returned in the order of `Analyzer`, so that the same choice is the same lab in whatever order it was made.
    """
    suited = [analyzer.value for analyzer in analyzers_of(key)]
    chosen = choose_several(
        _draw_analyzers,
        "analyzers",
        word("tune.analyzers"),
        _all_analyzers(suited),
        suited,
        format_func=lambda value: analyzer_words(Analyzer(value)),
        help=word("tune.analyzers_help"),
        key="lab_analyzers",
    )
    return [analyzer for analyzer in Analyzer if analyzer.value in chosen]


def _draw_analyzers(label: str, options: Sequence[str], *, selection_mode: str, **look: Any) -> list[str]:
    """Draw a choice of several analyzers as a list to search in: there are too many for pills."""
    del selection_mode
    return st.multiselect(label, options, **look)


def _all_analyzers(suited: Sequence[str]) -> list[str]:
    """Return all analyzers: those that suit the dataset, those of no single language, and other languages by name."""
    languages = sorted(OF_ONE_LANGUAGE, key=analyzer_words)
    return list(dict.fromkeys([*suited, *(one.value for one in (*OF_ANY_LANGUAGE, *languages))]))


def draw_readings(bench: Bench) -> None:
    with st.expander(word("tune.readings"), icon=":material/segment:"):
        text = st.text_area(
            word("tune.text"),
            question_set(bench.view.data.key).questions[0].text[:2000],
            max_chars=2000,
            height=80,
            help=word("tune.text_help"),
            key="lab_text",
        )
        with st.spinner(word("tune.reading")):
            found = readings(text, analyzers_of(bench.view.data.key)[0])
        rows = [(analyzer_words(analyzer), len(tokens), tokens) for analyzer, tokens in found.items()]
        columns = {
            "analyzer": tables.text("tune.analyzer", width="medium", pinned=True),
            "count": tables.number("tune.token_count", width="small"),
            "tokens": st.column_config.ListColumn(word("tune.tokens"), width="large"),
        }
        tables.draw(pd.DataFrame(rows, columns=[*columns]), columns, row_height=44)
