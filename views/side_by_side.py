"""What retrievers found, side by side; on a narrow screen one at a time, so that rank can be held against rank."""

from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from retrieval.report.colours import colour_of, shape_of
from views.highlight import switch_html

MOST = 4  # that fit side by side, and that `found.css` knows


def side_by_side(
    names: Sequence[str], every: Sequence[str], ranks: Sequence[int | None], key: str, *, wide: int = 0
) -> list[DeltaGenerator]:
    """Return a column for each of a few retrievers, each as narrow as one of `wide` where that is more.

    `every` are all names in their fixed order; `ranks` tell where each has its first answer passage, None if nowhere.
    """
    marks = [(colour_of(name, every), shape_of(name, every)) for name in names]
    with st.container(key=f"beside_{key}"):
        st.html(switch_html(key, names, marks, ranks))
        return st.columns(max(wide, len(names)))[: len(names)]


def card(key: str) -> DeltaGenerator:
    """Return the place of one passage found, and of a small button in its lower corner."""
    return st.container(key=f"card_{key}", gap=None)
