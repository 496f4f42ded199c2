"""How sure it is that two models differ: every two of them by one measure, as a table."""

import streamlit as st

from views.embeddings.evaluation_view import SHARES, EvaluationView
from views.embeddings.figures import difference_table
from views.ui import tables
from views.ui.words import word


def draw_differences(view: EvaluationView, measure: str, *, expanded: bool = False) -> None:
    """Draw the differences by a measure, foldable; nothing where fewer than two models have a figure."""
    table = difference_table(view, measure)
    if table.empty:
        return
    form, unit = ("%+.2f", "difference") if measure in SHARES else ("%+.4f", "difference_plain")
    with st.expander(word("embeddings.differences", measure=word(f"embeddings.{measure}")), expanded=expanded):
        columns = {
            "a": tables.text("embeddings.higher", "", width="medium"),
            "b": tables.text("embeddings.lower", "", width="medium"),
            "verdict": tables.text("compare.verdict", ""),
            "difference": tables.number(f"embeddings.{unit}", form),
            **tables.interval(form),
            "p_family": tables.number("embeddings.p_family", "%.4f"),
        }
        tables.draw(table, columns)
        st.caption(word("embeddings.differences_help"))
