"""Which part of a long passage gave it its score, where a model reads it in windows."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from retrieval.comparison.multistage import RerankSpec
from retrieval.explain.duel import Duel
from retrieval.explain.token_windows import WindowExplanation
from text.located import weighted_pieces
from views.compare.why.questions import QuestionCase
from views.compare.why.terms import once_asked
from views.resources.explanations import explained_reranking
from views.ui import tables
from views.ui.passages import weighed_html
from views.ui.words import word


def draw_reranked(case: QuestionCase, spec: RerankSpec, of: Duel, read: Sequence[bool]) -> None:
    """Draw the button that loads the reranker and, once it was pressed, the windows of what it `read`."""
    st.caption(word("why.windows_help"))
    key, json, question = case.view.data.key, spec.model_dump_json(), case.question.text

    def tell() -> list[WindowExplanation | None]:
        rows = zip((of.right, of.wrong or 0), read, strict=True)
        return [explained_reranking(key, json, question, row) if is_read else None for row, is_read in rows]

    found = once_asked(spec.name, word("why.windows_ask"), tell)
    if found is None:
        return
    for place, one, side, is_read in zip(st.columns(2), found, ("right", "wrong"), read, strict=True):
        with place:
            st.markdown(f"**{word(f'why.{side}')}**")
            if one:
                draw(one, gold=side == "right")
            elif is_read:
                st.caption(word("why.windows_whole"))


def draw(one: WindowExplanation, *, gold: bool) -> None:
    """Draw a passage with its best window shaded, and the scores of all windows."""
    st.caption(word("why.windows_best", place=one.best + 1, count=len(one.windows)))
    best = one.windows[one.best].window
    spans = [((best.start, best.end), 1.0), ((0, best.head), 1.0)]
    pieces = weighted_pieces(one.text, spans, 0, len(one.text))
    st.html(weighed_html([], pieces, gold=gold))
    texts = [one.text[scored.window.start : scored.window.end] for scored in one.windows]
    table = pd.DataFrame({"window": texts, "score": [scored.score for scored in one.windows]})
    columns = {"window": tables.text("why.window", width="large"), "score": tables.number("why.score", "%.3f")}
    st.dataframe(table, hide_index=True, column_config=columns)
