"""The way from a number of the Where view to the questions it counts."""

from collections.abc import Mapping

import streamlit as st

from views.state import remember


def show_why(filters: Mapping[str, str]) -> None:
    """Have the page show the Why view with these filters and no others."""
    from views.compare_why_filters import clear_filters  # which names slices by the words of the Where view

    clear_filters()
    st.query_params.pop("question", None)
    st.query_params.update(filters)
    remember("view", "why")
    st.session_state["compare_view"] = "why"
