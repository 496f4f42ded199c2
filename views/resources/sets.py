"""Cached functions about sets of questions and of sentence pairs: read, audited and split once for
all sessions."""

from pathlib import Path

import numpy as np
import streamlit as st

from data.pairs import store as pair_store
from data.pairs.audit import PairAudit, audit_pairs, split_pairs
from data.pairs.records import PairSet
from data.pairs.store import PAIR_CATALOG, StoredPairs, read_pair_entry
from data.questions.audit import Audit, audit, passages_with
from data.records import QuestionSet
from data.split import Part, Split, SplitOptions, split
from data.store import CATALOG, StoredSet, keep, last_used, load, note_used, read_entry, stored
from embeddings.encoder import Distinct
from embeddings.results import Evaluation
from embeddings.results import load as load_evaluation
from views.resources.cached import cached, opened
from views.ui.state import PAGE_OF_LIST

SAMPLE = "sample"


def stored_sets() -> list[StoredSet]:
    """Return the sets of the workspace, newest first; the sample is put there on the first visit."""
    return stored() or [_keep_sample()]


def _is_stored(kept: StoredSet) -> bool:
    return any(known.key == kept.key for known in stored())


@cached(validate=_is_stored)
def _keep_sample() -> StoredSet:
    return keep(read_entry(CATALOG[SAMPLE]).question_set, source=SAMPLE)


@cached(max_entries=4)
def question_set(key: str) -> QuestionSet:
    return load(key)


@cached(max_entries=8)
def audit_of(key: str) -> Audit:
    return audit(question_set(key))


@cached(max_entries=16)
def split_of(key: str, validation: float, test: float, seed: int) -> Split:
    return split(question_set(key), SplitOptions(validation, test, seed))


@cached(max_entries=16, hash_funcs={QuestionSet: lambda one: one.fingerprint})
def passages_found(questions: QuestionSet, wanted: str) -> np.ndarray:
    """Return the rows of the passages that hold what is wanted, in a set that may not be stored."""
    return passages_with(questions, wanted)


def chosen_set() -> StoredSet:
    """Return the question set in use: the one in the address, else the session's, else the last used, else the newest.

    One that is there no more is passed over.
    """
    sets = {kept.key: kept for kept in stored_sets()}
    wanted = (st.query_params.get("data"), st.session_state.get("data"))
    key = next((key for key in wanted if key in sets), None) or last_used()
    return sets[key if key in sets else next(iter(sets))]


def use_set(key: str) -> None:
    """Make a set the one in use: on every page, and where the app is opened without an address."""
    before = st.session_state.get("data")
    address = {"data": key}
    if before != key:
        note_used(key)
        if before and PAGE_OF_LIST in st.query_params:
            address[PAGE_OF_LIST] = "1"  # in one step with the set: one entry to go back by
    st.session_state["data"] = key
    st.query_params.update(address)


SAMPLES = ("sample-nli", "sample-sts")  # the last one kept is the one that a first visit opens


def stored_pairs() -> list[StoredPairs]:
    """Return the sets of the workspace, newest first; the samples are put there on the first visit."""
    if not (found := pair_store.stored()):
        _keep_samples()
        found = pair_store.stored()
    return found


def _are_stored(kept: tuple[str, ...]) -> bool:
    return set(kept) <= {known.key for known in pair_store.stored()}


@cached(validate=_are_stored)
def _keep_samples() -> tuple[str, ...]:
    return tuple(pair_store.keep(read_pair_entry(PAIR_CATALOG[name]).pairs, source=name).key for name in SAMPLES)


@cached(max_entries=4)
def pair_set(key: str) -> PairSet:
    return pair_store.load(key)


@cached(max_entries=8)
def parts_of(key: str) -> dict[Part, np.ndarray]:
    return split_pairs(pair_set(key))


@cached(max_entries=8)
def pair_audit(key: str) -> PairAudit:
    return audit_pairs(pair_set(key), parts_of(key))


@cached(max_entries=8)
def distinct_of(key: str, part: Part) -> Distinct:
    return Distinct.of(pair_set(key).at(parts_of(key)[part]))


def open_evaluation(folder: Path) -> Evaluation | None:
    return opened(load_evaluation, folder)
