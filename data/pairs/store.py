"""Sets of pairs by name: those of the catalog, and those kept in the workspace, one folder each.

A user reads those of the shelf as well, and can neither change nor remove them.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mrc_workbench.data.collection import Collection, KeptSet, file_named
from mrc_workbench.data.pairs.reading import PairOptions, PairReading, read_pair_files_apart, read_pairs
from mrc_workbench.data.pairs.records import PairKind, PairSet, open_pairs, write_pairs
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import KNOWN, CatalogEntry, Progress, catalog_entry, obtain
from mrc_workbench.data.workspace import require_few


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
        return sum(file.size for file in self.files)


def _pair_entry(told: dict[str, Any]) -> PairEntry:
    parts = tuple(map(Part, told.get("parts", ())))
    scale = tuple(told["scale"]) if "scale" in told else None
    options = PairOptions(kind=PairKind(told["kind"]), scale=scale, parts=parts)
    return PairEntry(told["id"], told["title"], told["licence"], tuple(map(catalog_entry, told["files"])), options)


PAIR_CATALOG = {entry.id: entry for entry in map(_pair_entry, KNOWN["pairs"])}


def read_pair_entry(entry: PairEntry, on_progress: Progress = lambda _, __: None) -> PairReading:
    """Obtain the files of a set of the catalog and read them; it is named by its title. Raises `DataError`."""
    reading = read_pairs(obtain_files(entry, on_progress), entry.options)
    return replace(reading, pairs=replace(reading.pairs, name=entry.title))


def obtain_files(entry: PairEntry, on_progress: Progress = lambda _, __: None) -> list[tuple[bytes, str]]:
    """Return the content and name of each file of a catalog entry; `on_progress` gets bytes. Raises `DataError`."""
    files, before = [], 0

    def follow(done: int, _: int) -> None:
        on_progress(before + done, entry.size)

    for file in entry.files:
        files.append((obtain(file, follow), file.path.name))
        before += file.size
    return files


@dataclass(frozen=True, kw_only=True)
class StoredPairs(KeptSet):
    """One kept set of pairs, with the lowest and the highest score there can be (0 and 0 where there are none)."""

    kind: PairKind
    rows: int
    scale: tuple[float, float] = (0.0, 0.0)


_PAIRS = Collection("pairs", StoredPairs, partial(DataError.of, ProblemCode.UNKNOWN_PAIRS), PAIR_CATALOG)
stored, damaged, remove, rename = _PAIRS.stored, _PAIRS.damaged, _PAIRS.remove, _PAIRS.rename


def keep(pairs: PairSet, *, source: str = "") -> StoredPairs:
    """Keep a set in the workspace; see `Collection.keep`. Raises `LimitError` also for too many pairs."""
    require_few("pairs", len(pairs))
    figures = {"kind": pairs.kind, "rows": len(pairs), "scale": pairs.scale}
    return _PAIRS.keep(partial(write_pairs, pairs=pairs), pairs.name, pairs.fingerprint, source, **figures)


def load(key: str) -> PairSet:
    """Load a kept set, mapped into memory. Raises `DataError` where there is none, or its content has changed since."""
    return _PAIRS.load(key, lambda folder, kept: open_pairs(folder, kept.name), ProblemCode.BROKEN_PAIRS)


def find(reference: str, base: Path | None = None) -> PairSet:
    """Return a set by file (its path from `base`), catalog id, name, key or fingerprint. Raises `DataError` with all
    names."""
    if path := file_named(reference, base):
        return read_pair_files_apart([path]).pairs
    if reference in PAIR_CATALOG:
        return read_pair_entry(PAIR_CATALOG[reference]).pairs
    return load(_PAIRS.named(reference).key)
