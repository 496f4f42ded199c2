"""Headings of the parts of a page: real ones, so that a screen reader can jump from one to the next."""

import streamlit as st


def draw_heading(text: str, *, help: str | None = None) -> None:
    """Draw the heading of a chart or a block below a section's heading; `text` is Markdown."""
    st.markdown(f"#### {text}", help=help)
