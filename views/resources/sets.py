"""Cached functions about question sets: read, audited and split once for all sessions."""

import numpy as np
import streamlit as st

from data.questions.audit import Audit, audit, passages_with
from data.records import QuestionSet
from data.split import Split, SplitOptions, split
from data.store import CATALOG, StoredSet, keep, last_used, load, note_used, read_entry, stored
from views.resources.cached import cached
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
