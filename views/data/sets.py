"""The kept sets of questions and of pairs: using or looking at one, and taking one away."""

from collections.abc import Callable

import streamlit as st

from data import store
from data.collection import KeptSet
from data.pairs import store as pair_store
from data.pairs.store import StoredPairs
from views.names import pairs_name, set_name
from views.resources.sets import stored_sets, use_set
from views.ui.problems import draw_damaged, draw_remove
from views.ui.state import remember, remembered
from views.ui.words import moment, plain, word

_WIDTHS = [4, 3, 2, 3]
_IN_ADDRESS = "pairs"


def draw(in_use: str) -> None:
    """Draw the list of stored question sets; `in_use` is the key of the one that cannot be removed."""
    sets = stored_sets()
    with st.expander(word("data_page.sets", count=f"{len(sets):,}"), icon=":material/folder:"):
        st.caption(word("data_page.sets_about"))
        for kept in sets:
            counts = word("sidebar.counts", passages=f"{kept.passages:,}", questions=f"{kept.questions:,}")
            is_used = kept.key == in_use

            def choice(kept: KeptSet = kept, is_used: bool = is_used) -> None:
                if is_used:
                    st.badge(word("data_page.is_used"), icon=":material/check:", color="green")
                elif st.button(word("data_page.use_stored"), key=f"use_{kept.key}"):
                    use_set(kept.key)
                    st.rerun()

            _row(kept, set_name(kept.name), counts, choice, None if is_used else store.remove)
    draw_damaged(store.damaged(), store.remove)


def chosen_pairs() -> StoredPairs | None:
    """Return the kept pairs to look at, if there are some: those in use on other pages too, else the newest."""
    sets = {kept.key: kept for kept in pair_store.stored()}
    return sets.get(remembered(_IN_ADDRESS, next(iter(sets), ""), [*sets]))


def choose_pairs(key: str) -> None:
    """Make kept pairs those to look at."""
    remember(_IN_ADDRESS, key)


def draw_pairs(shown: str) -> None:
    """Draw the list of kept sets of pairs; `shown` is the key of the one that is looked at."""
    sets = pair_store.stored()
    if not sets:
        st.caption(word("pairs_page.no_sets"))
    else:
        with st.expander(word("pairs_page.sets", count=f"{len(sets):,}"), icon=":material/folder:"):
            st.caption(word("pairs_page.sets_about"))
            for kept in sets:
                counts = word("pairs_page.counts", kind=word(f"pair_kind.{kept.kind}"), rows=f"{kept.rows:,}")

                def choice(kept: KeptSet = kept) -> None:
                    if kept.key == shown:
                        st.badge(word("pairs_page.is_shown"), icon=":material/visibility:")
                    elif st.button(word("data_page.look"), key=f"see_{kept.key}"):
                        choose_pairs(kept.key)
                        st.rerun()

                _row(kept, pairs_name(kept.name), counts, choice, pair_store.remove)
    draw_damaged(pair_store.damaged(), pair_store.remove)


def _row(
    kept: KeptSet, called: str, told: str, draw_choice: Callable[[], None], remove: Callable[[str], None] | None
) -> None:
    """Draw a set: what it is called, what is told of it, the button that chooses it, and one that takes it away."""
    with st.container(border=True):
        name, counts, created, buttons = st.columns(_WIDTHS, vertical_alignment="center")
        with name.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{plain(called)}**", width="content")
            if kept.shared:
                st.badge(word("data_page.shared"), icon=":material/group:", help=word("data_page.shared_help"))
        counts.text(told)
        created.text(moment(kept.created))
        with buttons.container(horizontal=True, horizontal_alignment="right"):
            draw_choice()
            if remove is None or kept.shared:
                return
            sure = word("data_page.remove_sure", name=plain(called))
            draw_remove(kept.key, remove, sure=sure, removed=word("data_page.removed", name=plain(called)))
