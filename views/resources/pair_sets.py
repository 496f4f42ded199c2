"""Cached functions about sets of sentence pairs: read, split and audited once for all sessions."""

import numpy as np

from data.pairs.audit import PairAudit, audit_pairs
from data.pairs.records import PairSet
from data.pairs.split import split_pairs
from data.pairs.store import load
from data.split import Part
from views.resources.cached import cached


@cached(max_entries=4)
def pair_set(key: str) -> PairSet:
    """Load a kept set."""
    return load(key)


@cached(max_entries=8)
def pair_rows(key: str) -> dict[Part, np.ndarray]:
    """Return the rows of every part of a kept set."""
    return split_pairs(pair_set(key))


@cached(max_entries=8)
def pair_audit(key: str) -> PairAudit:
    """Return the audit of a kept set."""
    return audit_pairs(pair_set(key), pair_rows(key))
