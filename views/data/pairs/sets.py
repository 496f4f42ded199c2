"""The kept sets of sentence pairs: looking at one, and taking one away."""

import streamlit as st

from data.pairs.store import StoredPairs, damaged, remove, stored
from views.names import pairs_name
from views.ui.problems import draw_damaged, errors_told
from views.ui.state import remember, remembered
from views.ui.words import moment, plain, word

_WIDTHS = [4, 3, 2, 3]
_IN_ADDRESS = "pairs"


def chosen() -> StoredPairs | None:
    """Return the kept set to look at, if there is one: the one in use on other pages too, else the newest."""
    sets = {kept.key: kept for kept in stored()}
    return sets.get(remembered(_IN_ADDRESS, next(iter(sets), ""), [*sets]))


def choose(key: str) -> None:
    """Make a kept set the one to look at."""
    remember(_IN_ADDRESS, key)


def draw(shown: str) -> None:
    """Draw the list of kept sets; `shown` is the key of the one that is looked at."""
    sets = stored()
    if sets:
        with st.expander(word("pairs_page.sets", count=f"{len(sets):,}"), icon=":material/folder:"):
            st.caption(word("pairs_page.sets_about"))
            for kept in sets:
                with st.container(border=True):
                    _draw_row(kept, kept.key == shown)
    else:
        st.caption(word("pairs_page.no_sets"))
    draw_damaged(damaged(), remove)


def _draw_row(kept: StoredPairs, is_shown: bool) -> None:
    name, counts, created, buttons = st.columns(_WIDTHS, vertical_alignment="center")
    with name.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{plain(pairs_name(kept.name))}**", width="content")
        if kept.shared:
            st.badge(word("data_page.shared"), icon=":material/group:", help=word("data_page.shared_help"))
    kind = word(f"pair_kind.{kept.kind}")
    counts.text(word("pairs_page.counts", kind=kind, rows=f"{kept.rows:,}"))
    created.text(moment(kept.created))
    with buttons.container(horizontal=True, horizontal_alignment="right"):
        if is_shown:
            st.badge(word("pairs_page.is_shown"), icon=":material/visibility:")
        elif st.button(word("data_page.look"), key=f"see_{kept.key}"):
            choose(kept.key)
            st.rerun()
        if kept.shared:
            return
        with st.popover(word("data_page.remove"), icon=":material/delete:", key=f"remove_{kept.key}"):
            _confirm(kept)


def _confirm(kept: StoredPairs) -> None:
    name = plain(pairs_name(kept.name))
    st.markdown(word("data_page.remove_sure", name=name))
    if st.button(word("data_page.remove_yes"), icon=":material/delete:", key=f"remove_yes_{kept.key}"):
        with errors_told():
            remove(kept.key)
            st.toast(word("data_page.removed", name=name), icon=":material/delete:")
            st.rerun()
