"""Which piece of a passage found by late interaction answered which piece of the question."""

import streamlit as st

from retrieval.comparison.first_stage import LateSpec
from retrieval.explain.encoders import LateExplanation
from views.resources.retrieval import explained_late
from views.search.answer import SearchAnswer
from views.ui.job import once_asked
from views.ui.passages import draw_matches, matches_html
from views.ui.words import plain, word


@st.fragment
def draw_pieces(answer: SearchAnswer, spec: LateSpec) -> None:
    """Draw the pieces of one of the passages shown, once somebody wants to see them."""
    found = answer.found[spec.name].rows
    compared = found[: spec.depth] if spec.first else found  # below them another retriever's order stays
    rows = [row for row in answer.shown(spec.name) if row in compared]
    if not rows:
        return
    with st.expander(word("search.pieces", name=plain(spec.name)), icon=":material/join_inner:", expanded=True):
        st.caption(word("why.matches_help"))
        row = _pick(answer, spec, rows)

        def tell() -> LateExplanation:
            return explained_late(answer.data.key, spec.model_dump_json(), answer.question, row)

        explained = once_asked(spec.name, word("search.pieces_ask"), tell)
        if explained is None:
            return
        left, right = st.columns([3, 2])
        with left:
            st.html(matches_html(explained, gold=row in answer.right))
        with right:
            draw_matches({"answered": explained})


def _pick(answer: SearchAnswer, spec: LateSpec, rows: list[int]) -> int:
    passages, found = answer.questions.passages, answer.found[spec.name]

    def label(row: int) -> str:
        return " · ".join(filter(None, (str(found.rank_of(row)), passages[row].title, passages[row].id)))

    key = f"pieces {spec.name} {answer.question}"
    picked: int = st.selectbox(word("search.pieces_of"), rows, format_func=lambda row: plain(label(row)), key=key)
    return picked
