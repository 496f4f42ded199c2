"""Datasets of the catalog and of the workspace. Signed-in users also read those of the shared workspace."""

import hashlib
import os
import re
import tomllib
import urllib.request
from collections.abc import Callable
from collections.abc import Collection as Container
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa
from pydantic import TypeAdapter

from mrc_workbench.data.files import accept_earlier_names
from mrc_workbench.data.formats.opening import file_content
from mrc_workbench.data.formats.tables import display_text
from mrc_workbench.data.passages import Passages, open_passages
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import QuestionSetReading, read, read_paths_in_subprocess
from mrc_workbench.data.records import QuestionSet, open_question_set, write_question_set
from mrc_workbench.data.workspace import (
    read_json,
    read_only_workspace,
    remove_folder,
    replacing,
    require_set_size,
    require_storage,
    workspace,
    write_json,
)

NOTE = "set.json"
MAX_NAME_CHARACTERS = 100
_KEY = re.compile("[0-9a-f]{16}")
_FINGERPRINT = re.compile("[0-9a-f]{8,64}")  # or its beginning


@dataclass(frozen=True, kw_only=True)
class StoredItem:
    """The note of a stored set. `key` names its folder, `created` is in UTC (ISO 8601), `shared`: of all users."""

    key: str
    name: str
    source: str
    fingerprint: str
    created: str
    shared: bool = False
    prefix: ClassVar[str] = ""

    @property
    def reference(self) -> str:
        """The name of the set in commands and experiments; it does not change when the set is renamed."""
        return f"{self.prefix}{self.key}"


class _Fingerprinted(Protocol):
    @property
    def fingerprint(self) -> str: ...


N = TypeVar("N", bound=StoredItem)
S = TypeVar("S", bound=_Fingerprinted)


@dataclass(frozen=True)
class StoredCollection(Generic[N]):
    """The stored datasets of one kind: the folder `name` of the user's and of the shared workspace."""

    name: str
    note_type: type[N]
    unknown_error: Callable[..., Exception] = field(repr=False)  # makes the error for an unknown reference
    other_references: Container[str] = ()  # also valid, and listed in that error

    def save(self, fill: Callable[[Path], object], name: str, fingerprint: str, source: str, **details: object) -> N:
        """Store the files that `fill` writes, once per content, under the newest name. Raises `LimitError`."""
        named = {"key": fingerprint[:16], "name": name, "source": source, "fingerprint": fingerprint}
        note = self.note_type(**named, created=datetime.now(UTC).isoformat(), **details)  # type: ignore[arg-type]
        with replacing(self._own_folder(note.key)) as new:
            new.mkdir()
            fill(new)
            (new / NOTE).write_bytes(self._note_adapter.dump_json(note, indent=1, exclude={"shared"}))
            require_storage()
        return note

    def stored(self) -> list[N]:
        """Return the readable notes of the user, the newest first, then the other notes of the shared workspace."""
        own = self._read_notes(workspace())
        folder = read_only_workspace()
        keys = {note.key for note in own}
        others = self._read_notes(folder) if folder else []
        return [*own, *(replace(note, shared=True) for note in others if note.key not in keys)]

    def damaged(self) -> list[str]:
        folders = sorted(path.parent for path in (workspace() / self.name).glob(f"*/{NOTE}"))
        return [path.name for path in folders if _KEY.fullmatch(path.name) and self._read_note(path) is None]

    def get_note(self, key: str) -> N:
        """Return the note of a stored set. Raises the error of `unknown_error`, also for a path."""
        note = self._read_note(self.folder(key)) if _KEY.fullmatch(key) else None
        if note is None:
            raise self.error(key)
        return note

    def load(self, key: str, open_content: Callable[[Path, N], S], broken: ProblemCode) -> S:
        """Open a folder. Raises the error of `unknown_error`, or `DataError` with `broken` if its content changed."""
        note = self.get_note(key)
        try:
            content = open_content(self.folder(key), note)
            if content.fingerprint != note.fingerprint:
                raise ValueError("its content differs from the stored one")
        except (OSError, TypeError, ValueError, KeyError, pa.ArrowException) as error:
            raise DataError.from_code(broken, key=key, reason=str(error).split("\n")[0][:200]) from error
        return content

    def find_note(self, reference: str) -> N:
        """Return the note of a set by name or fingerprint (8 digits or more). Raises the error of `unknown_error`."""
        is_beginning = _FINGERPRINT.fullmatch(reference) is not None
        for note in self.stored():
            if reference == note.name or (is_beginning and note.fingerprint.startswith(reference)):
                return note
        raise self.error(reference)

    def folder(self, key: str) -> Path:
        """Return the folder of a set: of the shared workspace if the user has no set with this key."""
        shared_folder = read_only_workspace()
        if shared_folder and self._read_note(self._own_folder(key)) is None:
            return shared_folder / self.name / key
        return self._own_folder(key)

    def rename(self, key: str, name: str) -> None:
        """Rename a set of the user. Raises the error of `unknown_error`, and `ValueError` for a blank name."""
        note = self._read_note(self._own_folder(key)) if _KEY.fullmatch(key) else None
        if note is None:
            raise self.error(key)
        if not (tidy := display_name(name)):
            raise ValueError("a name needs a character that can be displayed")
        with replacing(self._own_folder(key) / NOTE) as new:
            new.write_bytes(self._note_adapter.dump_json(replace(note, name=tidy), indent=1, exclude={"shared"}))

    def remove(self, key: str) -> None:
        """Remove a set of the user, also a damaged one. Raises the error of `unknown_error`, also for a shared set."""
        if not _KEY.fullmatch(key) or not self._own_folder(key).is_dir():
            raise self.error(key)
        remove_folder(self._own_folder(key))

    def error(self, reference: str) -> Exception:
        known = [*self.other_references, *(f"{note.name} ({note.reference})" for note in self.stored())]
        return self.unknown_error(reference=display_text(reference, 80), known=", ".join(known) or "none")

    def _own_folder(self, key: str) -> Path:
        return workspace() / self.name / key

    def _read_notes(self, root: Path) -> list[N]:
        notes = [self._read_note(path) for path in (root / self.name).glob("*") if _KEY.fullmatch(path.name)]
        return sorted(filter(None, notes), key=lambda note: note.created, reverse=True)

    def _read_note(self, folder: Path) -> N | None:
        try:
            note = self._note_adapter.validate_json((folder / NOTE).read_bytes())
            datetime.fromisoformat(note.created)
        except (OSError, ValueError):
            return None
        return replace(note, shared=False) if note.key == folder.name else None

    @cached_property
    def _note_adapter(self) -> Any:
        return TypeAdapter(self.note_type)


def display_name(text: str) -> str:
    """Return a name as it is stored: printable characters on one line, at most `MAX_NAME_CHARACTERS`."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())[:MAX_NAME_CHARACTERS].strip()


def existing_file(reference: str, base: Path | None = None) -> Path | None:
    """Return the file at a path relative to `base` (default: the current folder); None if there is no such file."""
    path = (base or Path.cwd()) / reference
    # unlike `Path.is_file`, this is False for a name that is too long
    return path if reference and os.path.isfile(path) else None  # noqa: PTH113


def existing_folder(reference: str, base: Path | None = None) -> Path | None:
    """Return the folder at a path, as `existing_file` does; None for paths such as `.` and `..`."""
    path = (base or Path.cwd()) / reference
    is_named = Path(reference).name not in ("", "..")
    return path if is_named and os.path.isdir(path) else None  # noqa: PTH112


TIMEOUT_SECONDS = 30
_CHUNK_BYTES = 1 << 16

Progress = Callable[[int, int], None]  # bytes so far, bytes in all
_LAST_USED = "last_used.json"


@dataclass(frozen=True)
class CatalogEntry:
    """One public set: downloaded from `address`, or, without an address, shipped with the program at `path`."""

    id: str
    title: str
    licence: str
    path: Path  # the file name of a download
    address: str = ""
    sha256: str = ""
    size: int = 0  # bytes


_FOLDER = Path(__file__).parent
CATALOG_DATA = tomllib.loads((_FOLDER / "catalog.toml").read_text(encoding="utf-8"))


def catalog_entry(fields: dict[str, Any]) -> CatalogEntry:
    """Return an entry of `catalog.toml`; the path of a shipped set is relative to this folder."""
    path = Path(fields["path"])
    return CatalogEntry(**fields | {"path": path if "address" in fields else _FOLDER / path})


CATALOG = {entry.id: entry for entry in map(catalog_entry, CATALOG_DATA["questions"])}


def read_entry(entry: CatalogEntry, on_progress: Progress | None = None) -> QuestionSetReading:
    """Fetch and read a set of the catalog; its title becomes the name. Raises `DataError`."""
    reading = read(fetch(entry, on_progress), entry.path.name)
    return replace(reading, question_set=replace(reading.question_set, name=entry.title))


def fetch(entry: CatalogEntry, on_progress: Progress | None = None) -> bytes:
    """Return the bytes of an entry from the folder `MRC_DATA`, the downloads, or its address. Raises `DataError`."""
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
        reason = display_text(str(getattr(error, "reason", None) or error), 200)
        raise DataError.from_code(ProblemCode.DOWNLOAD_FAILED, **source, reason=reason) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != entry.sha256:
        sums = {"expected": entry.sha256[:12], "found": digest[:12]}
        raise DataError.from_code(ProblemCode.ALTERED_DOWNLOAD, **source, size=f"{len(content):,}", **sums)
    with replacing(stored) as new:
        new.write_bytes(content)
    return bytes(content)


@dataclass(frozen=True, kw_only=True)
class StoredSet(StoredItem):
    """The note of a stored question set; `generated` counts its generated questions."""

    _earlier = accept_earlier_names({"made": "generated"})

    passages: int
    questions: int
    generated: int = 0


_SETS = StoredCollection("datasets", StoredSet, partial(DataError.from_code, ProblemCode.UNKNOWN_SET), CATALOG)
stored = _SETS.stored
damaged = _SETS.damaged
remove = _SETS.remove
rename = _SETS.rename


def save_question_set(question_set: QuestionSet, *, source: str = "") -> StoredSet:
    """Store a question set in the workspace. Raises `LimitError`, also for too many passages."""
    require_set_size("passages", len(question_set.passages))
    counts = {"passages": len(question_set.passages), "questions": len(question_set.questions)}
    counts["generated"] = sum(question_set.generated_counts.values())
    fill = partial(write_question_set, question_set=question_set)
    return _SETS.save(fill, question_set.name, question_set.fingerprint, source, **counts)


def load(key: str) -> QuestionSet:
    """Load a stored set. Raises `DataError` if it is unknown or its content changed."""
    return _SETS.load(key, lambda folder, note: open_question_set(folder, note.name), ProblemCode.BROKEN_SET)


def passages_of(key: str) -> Passages:
    """Open only the passages of a stored set. Raises `DataError` if it is unknown."""
    return open_passages(_SETS.folder(_SETS.get_note(key).key))


def record_last_used(key: str) -> None:
    """Store the key of the set in use, if the disk is writable."""
    with suppress(OSError):
        write_json(workspace() / _LAST_USED, {"set": key})


def last_used() -> str:
    """Return the key of the set used last, empty if unknown; the set may have been removed."""
    return str(read_json(workspace() / _LAST_USED).get("set", ""))


def find(reference: str, base: Path | None = None) -> QuestionSet:
    """Return a set by file or folder (from `base`), catalog id, name or fingerprint. Raises `DataError`."""
    if path := existing_file(reference, base):
        return read_paths_in_subprocess([path]).question_set
    if reference in CATALOG:
        return read_entry(CATALOG[reference]).question_set
    try:
        return load(_SETS.find_note(reference).key)
    except DataError as error:
        if error.problem.code is ProblemCode.UNKNOWN_SET and (folder := existing_folder(reference, base)):
            return read_paths_in_subprocess([folder]).question_set
        raise
