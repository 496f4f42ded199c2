"""The answer of a comparison in one sentence: whether anything beats the baseline, and how sure that is."""

import streamlit as st

from views.compare.comparison_view import ComparisonView
from views.state import remember
from views.words import plain, signed, word

_SATURATED = 0.99
_FINER = ("ndcg", "10")  # the measure and the K that still tell apart what all find


def draw(view: ComparisonView) -> None:
    """Say in one sentence whether anything beats the baseline, by how much, and how sure that is."""
    if not view.against:
        return
    surely_above = [test for test in view.against if test.sure and test.difference > 0]
    best = max(surely_above or view.against, key=lambda test: test.difference)
    values = {
        "best": plain(best.a),
        "first": plain(best.b),
        "points": f"{abs(best.difference) * 100:.1f}",
        "low": signed(best.low),
        "high": signed(best.high),
        "figure": view.figure.long,
        "questions": f"{len(view.comparison.question_set.questions):,}",
    }
    sure = ("more" if best.difference > 0 else "less") if best.sure else "unsure"
    sure = sure if best.wins or best.losses else "same"
    st.markdown(word(f"compare.answer_{sure}", **values))
    _draw_finer(view)


def _draw_finer(view: ComparisonView) -> None:
    """Where all find nearly everything, say so and offer what still tells them apart."""
    figures = [one.scores.means()[str(view.figure)] for one in view.scored if one.scores]
    if min(figures) < _SATURATED or (view.measure, str(view.k)) == _FINER:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(word("compare.saturated", figure=view.figure.long), width="content")
        st.button(word("compare.look_finer"), on_click=_look_finer, type="tertiary", key="finer")


def _look_finer() -> None:
    measure, k = _FINER
    remember("measure", measure)
    remember("k", k)
