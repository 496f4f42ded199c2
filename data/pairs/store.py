"""Sets of pairs kept in the workspace, one folder each, and how a command line names one.

A user reads those of the shelf as well, and can neither change nor remove them.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from data.collection import Collection, KeptSet
from data.formats.tables import shown
from data.pairs.apart import read_pair_files_apart
from data.pairs.records import PairKind, PairSet, open_pairs, write_pairs
from data.problems import DataError, ProblemCode
from data.store import PAIR_CATALOG, read_pair_entry
from data.workspace import require_few_pairs


@dataclass(frozen=True, kw_only=True)
class StoredPairs(KeptSet):
    """One kept set of pairs, with the lowest and the highest score there can be (0 and 0 where there are none)."""

    kind: PairKind
    rows: int
    scale: tuple[float, float] = (0.0, 0.0)


_SETS = Collection("pairs", StoredPairs)


def keep(pairs: PairSet, *, source: str = "") -> StoredPairs:
    """Keep a set in the workspace; the same content is kept once, under its newest name.

    Raises `LimitError` where it is more than the user may keep; nothing of it is kept then.
    """
    require_few_pairs(len(pairs))
    kept = StoredPairs(
        key=pairs.fingerprint[:16],
        name=pairs.name,
        source=source,
        fingerprint=pairs.fingerprint,
        created=datetime.now(UTC).isoformat(),
        kind=pairs.kind,
        rows=len(pairs),
        scale=pairs.scale,
    )
    with _SETS.keeping(kept) as folder:
        write_pairs(folder, pairs)
    return kept


def stored() -> list[StoredPairs]:
    """Return the kept sets, the newest first, and then those of the shelf that are not among them.

    A folder that cannot be read is passed over.
    """
    return _SETS.stored()


def damaged() -> list[str]:
    """Return the keys of the sets whose `set.json` cannot be read."""
    return _SETS.damaged()


def load(key: str) -> PairSet:
    """Load a kept set, mapped into memory. Raises `DataError` where there is none, or its content has changed since."""
    kept = _SETS.known(key)
    if kept is None:
        raise _unknown(key)
    try:
        pairs = open_pairs(_SETS.folder(key), kept.name)
        changed = pairs.fingerprint != kept.fingerprint
    except (OSError, TypeError, ValueError, KeyError, pa.ArrowException) as error:
        reason = str(error).split("\n")[0][:200]
        raise DataError.of(ProblemCode.BROKEN_PAIRS, key=key, reason=reason) from error
    if changed:
        raise DataError.of(ProblemCode.BROKEN_PAIRS, key=key, reason="its content is not what was kept")
    return pairs


def remove(key: str) -> None:
    """Remove a kept set, readable or not; one of the shelf is none. Raises `DataError` where there is none."""
    if not _SETS.remove(key):
        raise _unknown(key)


def find(reference: str, base: Path | None = None) -> PairSet:
    """Return the set a person names: a file (its path from `base`), a catalog id, a stored key or name.

    Raises `DataError`, which lists what exists where nothing has that name.
    """
    path = (base or Path.cwd()) / reference
    if reference and os.path.isfile(path):  # noqa: PTH113 - a name may be too long for the file system
        return read_pair_files_apart([path]).pairs
    if reference in PAIR_CATALOG:
        return read_pair_entry(PAIR_CATALOG[reference]).pairs
    for kept in stored():
        if reference in (kept.key, kept.name):
            return load(kept.key)
    raise _unknown(reference)


def _unknown(reference: str) -> DataError:
    known = [*PAIR_CATALOG, *(f"{kept.name} ({kept.key})" for kept in stored())]
    return DataError.of(ProblemCode.UNKNOWN_PAIRS, reference=shown(reference, 80), known=", ".join(known))
