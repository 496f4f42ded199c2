"""Question sets by name: those of the catalog, and those kept in the workspace, one folder each."""

import hashlib
import os
import tomllib
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

from mrc_workbench.data.collection import Collection, KeptSet, file_named, folder_named
from mrc_workbench.data.formats.opening import file_content
from mrc_workbench.data.formats.tables import shown
from mrc_workbench.data.passages import Passages, open_passages
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import Reading, read, read_paths_apart
from mrc_workbench.data.records import QuestionSet, open_question_set, write_question_set
from mrc_workbench.data.workspace import read_json, replacing, require_few, workspace, write_json

TIMEOUT_SECONDS = 30
_CHUNK_BYTES = 1 << 16

Progress = Callable[[int, int], None]  # bytes so far, bytes in all
_LAST_USED = "last_used.json"


@dataclass(frozen=True)
class CatalogEntry:
    """One public set. `address` is its publisher's; a set without one comes with the program, as `path`."""

    id: str
    title: str
    licence: str
    path: Path  # a file name where it is downloaded
    address: str = ""
    sha256: str = ""
    size: int = 0  # bytes


_FOLDER = Path(__file__).parent
KNOWN = tomllib.loads((_FOLDER / "catalog.toml").read_text(encoding="utf-8"))


def catalog_entry(given: dict[str, Any]) -> CatalogEntry:
    """Return an entry of `catalog.toml`; the path of a set that comes with the program is in this folder."""
    path = Path(given["path"])
    return CatalogEntry(**given | {"path": path if "address" in given else _FOLDER / path})


CATALOG = {entry.id: entry for entry in map(catalog_entry, KNOWN["questions"])}


def read_entry(entry: CatalogEntry, on_progress: Progress | None = None) -> Reading:
    """Obtain and read a set of the catalog; it is named by its title. Raises `DataError`."""
    reading = read(obtain(entry, on_progress), entry.path.name)
    return replace(reading, question_set=replace(reading.question_set, name=entry.title))


def obtain(entry: CatalogEntry, on_progress: Progress | None = None) -> bytes:
    """Return the bytes of an entry's file. Raises `DataError` if the download fails or has another checksum.

    Looks in the folder `MRC_DATA`, then in the workspace's downloads, else downloads and stores it.
    """
    if not entry.address:
        return file_content(entry.path).whole
    stored = workspace() / "downloads" / entry.path.name
    source = {"title": entry.title, "address": entry.address}
    folder = os.environ.get("MRC_DATA")
    for path in ([Path(folder) / entry.path.name] if folder else []) + [stored]:
        with suppress(OSError):
            known = path.read_bytes()
            if hashlib.sha256(known).hexdigest() == entry.sha256:
                return known
    content = bytearray()
    try:
        # The address is the catalog's own, never a user's.
        with urllib.request.urlopen(entry.address, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310
            while len(content) <= entry.size and (chunk := response.read(_CHUNK_BYTES)):
                content += chunk
                if on_progress is not None:
                    on_progress(min(len(content), entry.size), entry.size)
    except (OSError, HTTPException, ValueError) as error:
        reason = shown(str(getattr(error, "reason", None) or error), 200)
        raise DataError.of(ProblemCode.DOWNLOAD_FAILED, **source, reason=reason) from error
    found = hashlib.sha256(content).hexdigest()
    if found != entry.sha256:
        sums = {"expected": entry.sha256[:12], "found": found[:12]}
        raise DataError.of(ProblemCode.ALTERED_DOWNLOAD, **source, size=f"{len(content):,}", **sums)
    with replacing(stored) as new:
        new.write_bytes(content)
    return bytes(content)


@dataclass(frozen=True, kw_only=True)
class StoredSet(KeptSet):
    """One kept question set. `made` counts the questions that were made of passages."""

    passages: int
    questions: int
    made: int = 0


_SETS = Collection("datasets", StoredSet, partial(DataError.of, ProblemCode.UNKNOWN_SET), CATALOG)
stored, damaged, remove, rename = _SETS.stored, _SETS.damaged, _SETS.remove, _SETS.rename


def keep(question_set: QuestionSet, *, source: str = "") -> StoredSet:
    """Keep a question set in the workspace; see `Collection.keep`. Raises `LimitError` also for too many passages."""
    require_few("passages", len(question_set.passages))
    counts = {"passages": len(question_set.passages), "questions": len(question_set.questions)}
    counts["made"] = sum(question_set.made.values())
    fill = partial(write_question_set, question_set=question_set)
    return _SETS.keep(fill, question_set.name, question_set.fingerprint, source, **counts)


def load(key: str) -> QuestionSet:
    """Load a stored set. Raises `DataError` if there is none, or its content has changed since."""
    return _SETS.load(key, lambda folder, kept: open_question_set(folder, kept.name), ProblemCode.BROKEN_SET)


def passages_of(key: str) -> Passages:
    """Open the passages of a kept set alone. Raises `DataError` as `load` does."""
    return open_passages(_SETS.folder(_SETS.known(key).key))


def note_used(key: str) -> None:
    """Note that a set is the one in use. A note that cannot be written stops nobody: it is a convenience."""
    with suppress(OSError):
        write_json(workspace() / _LAST_USED, {"set": key})


def last_used() -> str:
    """Return the key that was noted last, empty where none can be read; its set may be gone."""
    return str(read_json(workspace() / _LAST_USED).get("set", ""))


def find(reference: str, base: Path | None = None) -> QuestionSet:
    """Return a set by file or folder (from `base`), catalog id, name or fingerprint. Raises `DataError`."""
    if path := file_named(reference, base):
        return read_paths_apart([path]).question_set
    if reference in CATALOG:
        return read_entry(CATALOG[reference]).question_set
    try:
        return load(_SETS.named(reference).key)
    except DataError as error:
        if error.problem.code is ProblemCode.UNKNOWN_SET and (folder := folder_named(reference, base)):
            return read_paths_apart([folder]).question_set
        raise
