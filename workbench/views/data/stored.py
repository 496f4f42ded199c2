"""The lists of stored sets, of questions and of pairs: one is chosen, renamed or removed there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import streamlit as st

from mrc_workbench.data import store
from mrc_workbench.data.collection import LONGEST_NAME, KeptSet, display_name
from mrc_workbench.data.pairs import store as pair_store
from mrc_workbench.data.pairs.store import StoredPairs
from mrc_workbench.workbench.views.names import pairs_name, set_name
from mrc_workbench.workbench.views.resources.sets import pair_set, question_set, stored_sets, use_set
from mrc_workbench.workbench.views.ui.state import remember, remembered
from mrc_workbench.workbench.views.ui.words import draw_damaged, draw_remove, errors_told, moment, plain, word

_PAIRS = "pairs"  # in the address: those to look at


def draw_sets(in_use: str) -> None:
    """Draw the list of kept question sets; `in_use` is the key of the one that cannot be removed."""
    sets = stored_sets()
    with st.expander(word("data_page.sets", count=f"{len(sets):,}"), icon=":material/folder:"):
        st.caption(word("data_page.sets_about"))
        for kept in sets:
            counts = word("sidebar.counts", passages=f"{kept.passages:,}", questions=f"{kept.questions:,}")
            is_used = kept.key == in_use
            with _row(kept, set_name(kept.name), counts, _rename_set, None if is_used else store.remove):
                if is_used:
                    st.badge(word("data_page.is_used"), icon=":material/check:", color="green")
                elif st.button(word("data_page.use_stored"), key=f"use_{kept.key}"):
                    use_set(kept.key)
                    st.rerun()
    draw_damaged(store.damaged(), store.remove)


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
                with _row(kept, pairs_name(kept.name), counts, _rename_pairs, pair_store.remove):
                    if kept.key == shown:
                        st.badge(word("pairs_page.is_shown"), icon=":material/visibility:")
                    elif st.button(word("data_page.look"), key=f"see_{kept.key}"):
                        choose_pairs(kept.key)
                        st.rerun()
    draw_damaged(pair_store.damaged(), pair_store.remove)


@contextmanager
def _row(
    kept: KeptSet,
    called: str,
    told: str,
    rename: Callable[[str, str], None],
    remove: Callable[[str], None] | None,
) -> Iterator[None]:
    """Draw a set: its name, what is `told` of it, what the block draws to choose it, and what changes or removes it."""
    with st.container(border=True):
        name, counts, created, buttons = st.columns([3, 3, 2, 5], vertical_alignment="center")
        with name.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{plain(called)}**", width="content")
            if kept.shared:
                st.badge(word("data_page.shared"), icon=":material/group:", help=word("data_page.shared_help"))
        counts.text(told)
        created.text(moment(kept.created))
        with buttons.container(horizontal=True, horizontal_alignment="right", vertical_alignment="center"):
            yield
            if not kept.shared:
                _draw_rename(kept.key, called, rename)
            if remove is not None and not kept.shared:
                sure = word("data_page.remove_sure", name=plain(called))
                draw_remove(kept.key, remove, sure=sure, removed=word("data_page.removed", name=plain(called)))


def _draw_rename(key: str, called: str, rename: Callable[[str, str], None]) -> None:
    """Draw the button that gives a stored set another name; only what it is called changes."""
    with st.popover(word("data_page.rename"), icon=":material/edit:", key=f"rename_{key}"):
        entered = st.text_input(
            word("data_page.name"), called, max_chars=LONGEST_NAME, help=word("data_page.name_help"), key=f"name_{key}"
        )
        name = display_name(entered or "")
        if st.button(word("data_page.rename_yes"), type="primary", disabled=not name, key=f"rename_yes_{key}"):
            with errors_told():
                if name != called:  # a name that the page translates stays as it is stored
                    rename(key, name)
                st.toast(word("data_page.renamed", name=plain(name)), icon=":material/edit:")
                st.rerun()


def _rename_set(key: str, name: str) -> None:
    store.rename(key, name)
    question_set.clear(key)


def _rename_pairs(key: str, name: str) -> None:
    pair_store.rename(key, name)
    pair_set.clear(key)


def chosen_pairs() -> StoredPairs | None:
    """Return the kept pairs to look at, if there are some: those in use on other pages too, else the newest."""
    sets = {kept.key: kept for kept in pair_store.stored()}
    return sets.get(remembered(_PAIRS, next(iter(sets), ""), [*sets]))


def choose_pairs(key: str) -> None:
    remember(_PAIRS, key)
