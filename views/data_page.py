"""The data page."""

import streamlit as st

from views.words import word


def draw() -> None:
    """Draw the page."""
    st.title(word("page.data"))
