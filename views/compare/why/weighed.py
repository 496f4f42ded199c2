"""The terms that a sparse encoder weighs in a question and in two passages, also those that stand in none of them."""

import streamlit as st

from retrieval.comparison.first_stage import SparseSpec
from retrieval.explain.duel import Duel, weighed_table
from retrieval.explain.sparse import SparseExplanation
from views.compare.why.loading import once_asked
from views.compare.why.parts import draw_parts_of_words, draw_sums, draw_texts
from views.compare.why.questions import QuestionCase
from views.resources.explanations import explained_sparse
from views.ui.words import word


def draw(case: QuestionCase, spec: SparseSpec, of: Duel) -> None:
    """Draw the button that loads the model and, once it was pressed, what the scores are made of."""
    st.caption(word("why.weighed_help"))

    def tell() -> list[SparseExplanation]:
        rows = (of.right, of.wrong or 0)
        return [explained_sparse(case.view.data.key, spec.model_dump_json(), case.question.text, row) for row in rows]

    found = once_asked(spec.name, word("why.weighed_ask"), tell)
    if found is None:
        return
    right, wrong = found
    draw_sums(of, right.score, wrong.score, spec.digits)
    expansion = {"right": right.by_expansion, "wrong": wrong.by_expansion}
    st.markdown(word("why.by_expansion", **{side: f"{value:.{spec.digits}f}" for side, value in expansion.items()}))
    draw_parts_of_words(weighed_table(right, wrong))
    draw_texts(right, wrong)
