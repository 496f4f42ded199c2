"""The answer of a comparison in one sentence: whether anything beats the first retriever, and how sure that is."""

import streamlit as st

from views.compare.comparison_view import ComparisonView
from views.words import plain, signed, word


def draw(view: ComparisonView) -> None:
    """Say in one sentence whether anything beats the first retriever, by how much, and how sure that is."""
    names = view.scored_names
    if len(names) < 2:
        return
    with_first = [test for test in view.opened.tests(names, str(view.figure)) if test.a == names[0]]
    surely_above = [test for test in with_first if test.sure and test.difference < 0]
    best = min(surely_above or with_first, key=lambda test: test.difference)  # of the first less the other
    values = {
        "best": plain(best.b),
        "first": plain(best.a),
        "points": f"{abs(best.difference) * 100:.1f}",
        "low": signed(-best.high),
        "high": signed(-best.low),
        "figure": view.figure.long,
        "questions": f"{len(view.comparison.question_set.questions):,}",
    }
    sure = ("more" if best.difference < 0 else "less") if best.sure else "unsure"
    sure = sure if best.wins or best.losses else "same"
    st.markdown(word(f"compare.answer_{sure}", **values))
