"""The set of sentence pairs that a training learns from, and the one that judges it."""

import streamlit as st

from data.pairs.records import PairKind
from data.pairs.store import StoredPairs
from views.names import pair_set_name
from views.resources.pairs import parts_of, stored_pairs
from views.ui.state import choose
from views.ui.words import word

_JUDGING = (PairKind.SCORED, PairKind.LABELLED)


def pick_pairs() -> StoredPairs:
    """Draw the choice of a set; it lies in the address, and the Embeddings page has the same."""
    sets = {kept.key: kept for kept in stored_pairs()}
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        key = choose(
            st.selectbox,
            "pairs",
            word("train.pairs"),
            list(sets),
            next(iter(sets)),
            format_func=lambda key: pair_set_name(sets[key]),
            help=word("train.pairs_help"),
        )
    counts = {part.value: f"{len(rows):,}" for part, rows in parts_of(key).items()}
    right.caption(word("train.pairs_about", kind=word(f"pair_kind.{sets[key].kind.value}"), **counts))
    return sets[key]


def judging_sets() -> dict[str, str]:
    """Return the names, by key, of the sets whose scores or labels can judge a training on others."""
    return {kept.key: pair_set_name(kept) for kept in stored_pairs() if kept.kind in _JUDGING}
