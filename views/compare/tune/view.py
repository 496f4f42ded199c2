"""Tune: laboratories that find the values which suit these data, on questions that the test part never shows."""

from collections.abc import Callable

import streamlit as st

from data.split import Part
from retrieval.comparison.experiment import Lab
from retrieval.evaluation.measures import Measure, measures
from retrieval.evaluation.significance import question_groups
from views.compare.scores import ComparisonView
from views.compare.tune import bm25, lexical, models
from views.compare.tune.bench import Bench
from views.resources.sets import question_set, split_of
from views.ui.state import choose
from views.ui.words import word

LABS: dict[Lab, Callable[[Bench], None]] = {
    Lab.BM25: bm25.draw,
    Lab.LEXICAL: lexical.draw,
    Lab.HYBRID: models.draw_hybrid,
    Lab.RERANK: models.draw_reranking,
    Lab.INDEX: models.draw_index,
}
_FEW = 200  # questions whose interval is wider than what tuning usually gains
_FIRST_AIM = "ndcg@10"


@st.fragment
def draw(view: ComparisonView) -> None:
    """Draw the choice of a lab and what to tune for, and the lab."""
    options = view.comparison.experiment.split_options
    parts = split_of(view.data.key, options.validation, options.test, options.seed)
    asked = parts.questions(question_set(view.data.key), Part.VALIDATION)
    if not asked.questions:
        st.warning(word("tune.no_validation"), icon=":material/warning:")
        return
    questions, passages = len(asked.questions), int(question_groups(asked).max()) + 1
    lab, measure = _pick(view)
    st.caption(word("tune.about", questions=f"{questions:,}", passages=f"{passages:,}"))
    if questions < _FEW:
        st.warning(word("tune.few", questions=f"{questions:,}"), icon=":material/warning:")
    LABS[lab](Bench(view, measure, questions))


def _pick(view: ComparisonView) -> tuple[Lab, Measure]:
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    labs = [lab.value for lab in LABS]
    lab = choose(
        left.segmented_control,
        "lab",
        word("tune.lab"),
        labs,
        labs[0],
        format_func=lambda value: word(f"tune.lab_{value}"),
    )
    aims = list(reversed(measures(view.comparison.experiment.ks)))
    aim = choose(
        right.selectbox,
        "aim",
        word("tune.aim"),
        aims,
        _FIRST_AIM,
        format_func=lambda text: Measure.parse(text).long,
        help=word("tune.aim_help"),
    )
    return Lab(lab), Measure.parse(aim)
