"""Cached functions about sets of sentence pairs: kept, read, split and audited once for all sessions."""

from pathlib import Path

import numpy as np

from data.pairs.audit import PairAudit, audit_pairs, split_pairs
from data.pairs.records import PairSet
from data.pairs.store import PAIR_CATALOG, StoredPairs, keep, load, read_pair_entry, stored
from data.split import Part
from embeddings.encoder import Distinct
from embeddings.results import Evaluation
from embeddings.results import load as load_evaluation
from views.resources.cached import cached, opened

SAMPLES = ("sample-nli", "sample-sts")  # the last one kept is the one that a first visit opens


def stored_pairs() -> list[StoredPairs]:
    """Return the sets of the workspace, newest first; the samples are put there on the first visit."""
    if not (found := stored()):
        _keep_samples()
        found = stored()
    return found


def _are_stored(kept: tuple[str, ...]) -> bool:
    return set(kept) <= {known.key for known in stored()}


@cached(validate=_are_stored)
def _keep_samples() -> tuple[str, ...]:
    return tuple(keep(read_pair_entry(PAIR_CATALOG[name]).pairs, source=name).key for name in SAMPLES)


@cached(max_entries=4)
def pair_set(key: str) -> PairSet:
    return load(key)


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
