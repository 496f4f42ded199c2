"""Where retrievers win and lose: on which questions, in which step, and what their candidates would allow."""

import streamlit as st

from views.compare import slices as compare_slices
from views.compare.scores import ComparisonView
from views.compare.where import ceilings as compare_ceilings
from views.compare.where import stages as compare_lost
from views.ui.words import word


def draw(view: ComparisonView) -> None:
    """Draw the slices of the questions, the steps that lose them, and the ceilings."""
    if not any(one.rankings for one in view.results):  # all failed: no K would help
        st.info(word("why.no_rankings"), icon=":material/info:")
        return
    compare_slices.draw(view)
    compare_lost.draw(view)
    compare_ceilings.draw(view)
