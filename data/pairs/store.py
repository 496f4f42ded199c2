"""Sets of pairs by name: those of the catalog, and those kept in the workspace, one folder each.

A user reads those of the shelf as well, and can neither change nor remove them.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from data.collection import Collection, KeptSet, file_named
from data.pairs.apart import read_pair_files_apart
from data.pairs.reading import PairOptions, PairReading, read_pairs
from data.pairs.records import PairKind, PairSet, open_pairs, write_pairs
from data.problems import DataError, ProblemCode
from data.split import Part
from data.store import KNOWN, CatalogEntry, Progress, broken_told, catalog_entry, obtain, require_same
from data.workspace import require_few_pairs


@dataclass(frozen=True)
class PairEntry:
    """One public set: its files, and how they are read. One without an address comes with the program."""

    id: str
    title: str
    licence: str
    files: tuple[CatalogEntry, ...]
    options: PairOptions

    @property
    def size(self) -> int:
        """Bytes to be downloaded."""
        return sum(file.size for file in self.files)


def _pair_entry(told: dict[str, Any]) -> PairEntry:
    parts = tuple(map(Part, told.get("parts", ())))
    scale = tuple(told["scale"]) if "scale" in told else None
    options = PairOptions(kind=PairKind(told["kind"]), scale=scale, parts=parts)
    return PairEntry(told["id"], told["title"], told["licence"], tuple(map(catalog_entry, told["files"])), options)


PAIR_CATALOG = {entry.id: entry for entry in map(_pair_entry, KNOWN["pairs"])}


def read_pair_entry(entry: PairEntry, on_progress: Progress | None = None) -> PairReading:
    """Obtain the files of a set of the catalog and read them; it is named by its title. Raises `DataError`."""
    reading = read_pairs(obtain_files(entry, on_progress), entry.options)
    return replace(reading, pairs=replace(reading.pairs, name=entry.title))


def obtain_files(entry: PairEntry, on_progress: Progress | None = None) -> list[tuple[bytes, str]]:
    """Return the content of the files of a set of the catalog, each with its name. Raises `DataError`.

    `on_progress` is told the bytes of all files so far, and those of the set.
    """
    files, before = [], 0
    for file in entry.files:
        files.append((obtain(file, _within(entry, before, on_progress)), file.path.name))
        before += file.size
    return files


def _within(entry: PairEntry, before: int, on_progress: Progress | None) -> Progress | None:
    """Progress of one file as that of the whole set."""
    if on_progress is None:
        return None
    return lambda done, _: on_progress(before + done, entry.size)


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
