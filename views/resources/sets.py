"""Cached functions about question sets: read, audited and split once for all sessions."""

import numpy as np

from data.audit.audit import Audit, audit
from data.audit.browse import passages_with
from data.catalog import CATALOG, read_entry
from data.records import QuestionSet
from data.split import Split, SplitOptions, split
from data.store import StoredSet, keep, load, stored
from views.resources.cached import cached

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
    """Load a stored set."""
    return load(key)


@cached(max_entries=8)
def audit_of(key: str) -> Audit:
    """Return the audit of a stored set."""
    return audit(question_set(key))


@cached(max_entries=16)
def split_of(key: str, validation: float, test: float, seed: int) -> Split:
    """Return the split of a stored set."""
    return split(question_set(key), SplitOptions(validation, test, seed))


@cached(max_entries=16, hash_funcs={QuestionSet: lambda one: one.fingerprint})
def passages_found(questions: QuestionSet, wanted: str) -> np.ndarray:
    """Return the rows of the passages that hold what is wanted, in a set that may not be stored."""
    return passages_with(questions, wanted)
