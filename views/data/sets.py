"""The sets of the workspace, and taking one away."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from data.problems import DataError
from data.store import StoredSet, remove
from views.problem_words import error_text
from views.resources.sets import stored_sets
from views.state import use_set
from views.words import plain, word

_WIDTHS = [4, 3, 2, 3]


def draw(in_use: str) -> None:
    """Draw the list of stored sets; `in_use` is the key of the one that cannot be removed."""
    st.subheader(word("data_page.sets"), anchor=False)
    st.caption(word("data_page.sets_about"))
    for kept in stored_sets():
        with st.container(border=True):
            _row(kept, kept.key == in_use)


def _row(kept: StoredSet, is_used: bool) -> None:
    name, counts, created, buttons = st.columns(_WIDTHS, vertical_alignment="center")
    name.markdown(f"**{plain(kept.name)}**")
    counts.text(word("sidebar.counts", passages=f"{kept.passages:,}", questions=f"{kept.questions:,}"))
    created.text(_local(kept.created))
    with buttons.container(horizontal=True, horizontal_alignment="right"):
        if is_used:
            st.badge(word("data_page.is_used"), icon=":material/check:", color="green")
            return
        if st.button(word("data_page.use_stored"), key=f"use_{kept.key}"):
            use_set(kept.key)
            st.rerun()
        with st.popover(word("data_page.remove"), icon=":material/delete:", key=f"remove_{kept.key}"):
            _confirm(kept)


def _confirm(kept: StoredSet) -> None:
    st.markdown(word("data_page.remove_sure", name=plain(kept.name)))
    if st.button(word("data_page.remove_yes"), icon=":material/delete:", key=f"remove_yes_{kept.key}"):
        try:
            remove(kept.key)
        except DataError as error:
            st.error(plain(error_text(error)))
        else:
            st.toast(word("data_page.removed", name=plain(kept.name)), icon=":material/delete:")
            st.rerun()


def _local(created: str) -> str:
    """The time as the person's clock shows it, or as it was kept where it is no time."""
    try:
        zone = ZoneInfo(st.context.timezone) if st.context.timezone else UTC
        return datetime.fromisoformat(created).astimezone(zone).strftime("%Y-%m-%d %H:%M")
    except (ValueError, ZoneInfoNotFoundError):
        return created
