"""What the analyzers make of a text, and the questions that BM25 cannot answer whatever its values."""

import pandas as pd
import streamlit as st

from retrieval.analysis.labs import tried
from retrieval.comparison.first_stage import BM25Spec, WindowedBM25Spec
from retrieval.lexical.terms import readings
from text.analyzers import Analyzer
from views.compare.tune.bench import Bench, LabResult
from views.resources.sets import question_set
from views.ui import tables
from views.ui.words import word

_LONGEST_TEXT = 2000


def draw_readings(bench: Bench) -> None:
    """Draw the box for a text, at first a question, and its tokens under every analyzer."""
    with st.expander(word("tune.readings"), icon=":material/segment:"):
        text = st.text_area(
            word("tune.text"),
            question_set(bench.view.data.key).questions[0].text[:_LONGEST_TEXT],
            max_chars=_LONGEST_TEXT,
            height=80,
            help=word("tune.text_help"),
            key="lab_text",
        )
        with st.spinner(word("tune.reading")):
            found = readings(text)
        rows = [(str(analyzer), len(tokens), tokens) for analyzer, tokens in found.items()]
        columns = {
            "analyzer": tables.text("tune.analyzer", width="small", pinned=True),
            "count": tables.number("tune.token_count", width="small"),
            "tokens": st.column_config.ListColumn(word("tune.tokens"), width="large"),
        }
        st.dataframe(pd.DataFrame(rows, columns=[*columns]), hide_index=True, row_height=44, column_config=columns)


def draw_unmatched(found: LabResult) -> None:
    """Draw, for every analyzer of a lab, the questions none of whose terms is in a passage, or in their own."""
    specs = [spec for spec in tried(found.experiment) if isinstance(spec, BM25Spec | WindowedBM25Spec)]
    analyzers = list(dict.fromkeys(spec.analyzer for spec in specs))
    with st.expander(word("tune.unmatched"), icon=":material/search_off:"):
        st.caption(word("tune.unmatched_help"))
        counts = {analyzer: found.opened.unmatched(analyzer) for analyzer in analyzers}
        table = [(str(analyzer), len(rows.own), len(rows.anywhere)) for analyzer, rows in counts.items()]
        labels = [word(f"tune.{name}") for name in ("analyzer", "not_in_own", "not_anywhere")]
        columns = dict(zip(("analyzer", "own", "anywhere"), labels, strict=True))
        st.dataframe(pd.DataFrame(table, columns=[*columns]), hide_index=True, column_config=columns)
        with_some = [str(analyzer) for analyzer, rows in counts.items() if len(rows.own)]
        if not with_some:
            st.markdown(word("tune.all_matched"))
            return
        chosen = st.segmented_control(word("tune.analyzer"), with_some, default=with_some[0], key="lab_unmatched")
        _draw_questions(found, Analyzer(chosen or with_some[0]))


def _draw_questions(found: LabResult, analyzer: Analyzer) -> None:
    opened = found.opened
    rows = opened.unmatched(analyzer)
    nowhere = set(rows.anywhere.tolist())
    questions = [opened.question_set.questions[row] for row in rows.own]
    passages = [opened.question_set.passages[opened.question_set.row_of_passage[one.relevant[0]]] for one in questions]
    table = pd.DataFrame(
        {
            "question": [one.text for one in questions],
            "passage": [" · ".join(part for part in (one.title, one.text) if part) for one in passages],
            "anywhere": [row not in nowhere for row in rows.own.tolist()],
        }
    )
    columns = {
        "question": tables.text("column.question", "", width="medium"),
        "passage": tables.text("tune.own_passage", width="large"),
        "anywhere": tables.checkbox("tune.in_others"),
    }
    st.dataframe(table, hide_index=True, column_config=columns)
