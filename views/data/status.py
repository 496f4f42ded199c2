"""What became of files, in one place: what was understood, and what is to be looked at before the set is used."""

from collections.abc import Sequence

import streamlit as st

from views.ui.words import word


def draw_status(understood: str, warnings: Sequence[str], notes: Sequence[str], *, is_clean: bool) -> None:
    """Draw one box, as grave as the gravest that it tells; all texts are Markdown.

    `is_clean` says that there is nothing at all to tell of the reading.
    """
    points = [*warnings, *notes]
    if not points and is_clean:
        points = [word("data_page.no_problem")]
    told = "\n".join([understood, "", *(f"- {point}" for point in points)])
    if warnings:
        st.warning(told, icon=":material/warning:")
    elif notes or not is_clean:
        st.info(told, icon=":material/info:")
    else:
        st.success(told, icon=":material/check_circle:")
