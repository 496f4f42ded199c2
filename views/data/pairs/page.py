"""Sentence pairs: get a set, see what was understood of it and what it is like, and keep it."""

import streamlit as st

from data.pairs.store import StoredPairs
from data.store import StoredSet
from training.options.sentences import SENTENCES
from views.data import sets
from views.data.pairs import audit, get, preview, reading
from views.data.pairs.preview import Preview
from views.names import pairs_name
from views.navigation import way_to
from views.resources.pairs import pair_audit, pair_set, parts_of
from views.ui.problems import errors_told
from views.ui.state import show_top
from views.ui.words import plain, word


def draw(used: StoredSet) -> None:
    """Draw the part of the page; `used` is the question set in use."""
    shown = preview.current()
    chosen = sets.chosen_pairs()
    if chosen is not None and shown is None and preview.kept_now() == chosen.key:
        _draw_kept(chosen)
    get.draw(used)
    if shown is None:
        sets.draw_pairs(chosen.key if chosen is not None else "")
        if chosen is not None:
            _draw_stored(chosen)
    else:
        reading.draw(shown)
        _draw_preview(shown)


def _draw_kept(kept: StoredPairs) -> None:
    """Say that the set is kept, and what can be done with it now."""
    show_top(f"kept {kept.key}")
    st.success(word("pairs_page.kept_now", name=plain(pairs_name(kept.name))), icon=":material/check_circle:")
    _draw_next(kept)


def _draw_next(kept: StoredPairs) -> None:
    """Draw what can be done with a set."""
    with st.container(horizontal=True):
        way_to("embeddings", word("pairs_page.to_embeddings"), pairs=kept.key)
        way_to("train", word("pairs_page.to_train"), train=SENTENCES, pairs=kept.key)


def _draw_preview(shown: Preview) -> None:
    found = shown.read or (shown.before.read if shown.before else None)
    if found is not None:
        audit.draw(found.pairs, found.rows, found.audit)


def _draw_stored(kept: StoredPairs) -> None:
    st.header(word("pairs_page.shown", name=plain(pairs_name(kept.name))), anchor=False)
    if preview.kept_now() != kept.key:
        _draw_next(kept)
    with errors_told():
        with st.spinner(word("data_page.auditing"), show_time=True):
            pairs, rows, figures = pair_set(kept.key), parts_of(kept.key), pair_audit(kept.key)
        audit.draw(pairs, rows, figures)
