"""The sets of the workspace, and taking one away."""

import streamlit as st

from data.store import StoredSet, damaged, remove
from views.names import set_name
from views.resources.sets import stored_sets, use_set
from views.ui.problems import draw_damaged, errors_told
from views.ui.words import moment, plain, word

_WIDTHS = [4, 3, 2, 3]


def draw(in_use: str) -> None:
    """Draw the list of stored sets; `in_use` is the key of the one that cannot be removed."""
    sets = stored_sets()
    with st.expander(word("data_page.sets", count=f"{len(sets):,}"), icon=":material/folder:"):
        st.caption(word("data_page.sets_about"))
        for kept in sets:
            with st.container(border=True):
                _row(kept, kept.key == in_use)
    draw_damaged(damaged(), remove)


def _row(kept: StoredSet, is_used: bool) -> None:
    name, counts, created, buttons = st.columns(_WIDTHS, vertical_alignment="center")
    with name.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{plain(set_name(kept.name))}**", width="content")
        if kept.shared:
            st.badge(word("data_page.shared"), icon=":material/group:", help=word("data_page.shared_help"))
    counts.text(word("sidebar.counts", passages=f"{kept.passages:,}", questions=f"{kept.questions:,}"))
    created.text(moment(kept.created))
    with buttons.container(horizontal=True, horizontal_alignment="right"):
        if is_used:
            st.badge(word("data_page.is_used"), icon=":material/check:", color="green")
            return
        if st.button(word("data_page.use_stored"), key=f"use_{kept.key}"):
            use_set(kept.key)
            st.rerun()
        if kept.shared:
            return
        with st.popover(word("data_page.remove"), icon=":material/delete:", key=f"remove_{kept.key}"):
            _confirm(kept)


def _confirm(kept: StoredSet) -> None:
    st.markdown(word("data_page.remove_sure", name=plain(set_name(kept.name))))
    if st.button(word("data_page.remove_yes"), icon=":material/delete:", key=f"remove_yes_{kept.key}"):
        with errors_told():
            remove(kept.key)
            st.toast(word("data_page.removed", name=plain(set_name(kept.name))), icon=":material/delete:")
            st.rerun()
