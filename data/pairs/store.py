"""Sets of pairs kept in the workspace, one folder each, and how a command line names one.

A user reads those of the shelf as well, and can neither change nor remove them.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from data.collection import Collection, KeptSet, file_named
from data.pairs.apart import read_pair_files_apart
from data.pairs.records import PairKind, PairSet, open_pairs, write_pairs
from data.problems import DataError, ProblemCode
from data.store import PAIR_CATALOG, broken_told, read_pair_entry, require_same
from data.workspace import require_few_pairs


@dataclass(frozen=True, kw_only=True)
class StoredPairs(KeptSet):
    """One kept set of pairs, with the lowest and the highest score there can be (0 and 0 where there are none)."""

    kind: PairKind
    rows: int
    scale: tuple[float, float] = (0.0, 0.0)


def _unknown(reference: str, known: str) -> DataError:
    return DataError.of(ProblemCode.UNKNOWN_PAIRS, reference=reference, known=known)


_PAIRS = Collection("pairs", StoredPairs, _unknown, PAIR_CATALOG)
stored, damaged, remove = _PAIRS.stored, _PAIRS.damaged, _PAIRS.remove


def keep(pairs: PairSet, *, source: str = "") -> StoredPairs:
    """Keep a set in the workspace; see `Collection.keep`. Raises `LimitError` also for too many pairs."""
    require_few_pairs(len(pairs))
    figures = {"kind": pairs.kind, "rows": len(pairs), "scale": pairs.scale}
    return _PAIRS.keep(partial(write_pairs, pairs=pairs), pairs.name, pairs.fingerprint, source, **figures)


def load(key: str) -> PairSet:
    """Load a kept set, mapped into memory. Raises `DataError` where there is none, or its content has changed since."""
    kept = _PAIRS.known(key)
    with broken_told(ProblemCode.BROKEN_PAIRS, key):
        pairs = open_pairs(_PAIRS.folder(key), kept.name)
        require_same(pairs.fingerprint, kept)
    return pairs


def find(reference: str, base: Path | None = None) -> PairSet:
    """Return the set a person names: a file (its path from `base`), a catalog id, a name, a key or a fingerprint.

    Raises `DataError`, which lists what exists where nothing has that name.
    """
    if path := file_named(reference, base):
        return read_pair_files_apart([path]).pairs
    if reference in PAIR_CATALOG:
        return read_pair_entry(PAIR_CATALOG[reference]).pairs
    return load(_PAIRS.named(reference).key)
