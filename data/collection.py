"""Datasets stored in the workspace, one folder each, named by a key, with a note of what it holds.

A user also reads those of the shelf, and can neither change nor remove them.
"""

import os
import re
from collections.abc import Callable
from collections.abc import Collection as Container
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
from pydantic import TypeAdapter

from mrc_workbench.data.formats.tables import shown
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.workspace import remove_folder, replacing, require_room, shelf, workspace

NOTE = "set.json"
LONGEST_NAME = 100  # characters
_KEY = re.compile("[0-9a-f]{16}")
_FINGERPRINT = re.compile("[0-9a-f]{8,64}")  # the beginning of one


@dataclass(frozen=True, kw_only=True)
class KeptSet:
    """The note of a stored set. `key` names its folder, `created` is in UTC (ISO 8601), `shared`: on the shelf."""

    key: str
    name: str
    source: str
    fingerprint: str
    created: str
    shared: bool = False

    @property
    def reference(self) -> str:
        """What a command line or an experiment finds it by, whatever it is called."""
        return self.key


class _Content(Protocol):
    @property
    def fingerprint(self) -> str: ...


N = TypeVar("N", bound=KeptSet)
S = TypeVar("S", bound=_Content)


@dataclass(frozen=True)
class Collection(Generic[N]):
    """The stored datasets of one kind: the folder `name` of the workspace and of the shelf."""

    name: str
    note: type[N]
    unknown: Callable[..., Exception] = field(repr=False)  # the error for a reference that names none
    others: Container[str] = ()  # further names that a reference may be

    def keep(self, fill: Callable[[Path], object], name: str, fingerprint: str, source: str, **figures: object) -> N:
        """Store what `fill` writes, once per content, under its newest name. Raises `LimitError`."""
        named = {"key": fingerprint[:16], "name": name, "source": source, "fingerprint": fingerprint}
        note = self.note(**named, created=datetime.now(UTC).isoformat(), **figures)  # type: ignore[arg-type]
        with replacing(self._own(note.key)) as new:
            new.mkdir()
            fill(new)
            (new / NOTE).write_bytes(self._notes.dump_json(note, indent=1, exclude={"shared"}))
            require_room()
        return note

    def stored(self) -> list[N]:
        """Return the readable notes of the user, the newest first, then those of the shelf that the user lacks."""
        own, folder = self._notes_in(workspace()), shelf()
        keys = {note.key for note in own}
        others = self._notes_in(folder) if folder else []
        return [*own, *(replace(note, shared=True) for note in others if note.key not in keys)]

    def damaged(self) -> list[str]:
        """Return the keys of the user's own sets whose note cannot be read."""
        folders = sorted(path.parent for path in (workspace() / self.name).glob(f"*/{NOTE}"))
        return [path.name for path in folders if _KEY.fullmatch(path.name) and self._read(path) is None]

    def known(self, key: str) -> N:
        """Return the note of a kept set; a path is no key, and never looked for. Raises the error of `unknown`."""
        note = self._read(self.folder(key)) if _KEY.fullmatch(key) else None
        if note is None:
            raise self.error(key)
        return note

    def load(self, key: str, opened: Callable[[Path, N], S], broken: ProblemCode) -> S:
        """Return what `opened` makes of a folder. Raises the error of `unknown`, or of `broken` if it has changed."""
        kept = self.known(key)
        try:
            found = opened(self.folder(key), kept)
            if found.fingerprint != kept.fingerprint:
                raise ValueError("its content is not what was kept")
        except (OSError, TypeError, ValueError, KeyError, pa.ArrowException) as error:
            raise DataError.of(broken, key=key, reason=str(error).split("\n")[0][:200]) from error
        return found

    def named(self, reference: str) -> N:
        """Return the note of a set by name or fingerprint (8 digits or more). Raises the error of `unknown`."""
        is_beginning = _FINGERPRINT.fullmatch(reference) is not None
        for kept in self.stored():
            if reference == kept.name or (is_beginning and kept.fingerprint.startswith(reference)):
                return kept
        raise self.error(reference)

    def folder(self, key: str) -> Path:
        """Return where a set is, on the shelf where the user has none of this key."""
        place = shelf()
        return place / self.name / key if place and self._read(self._own(key)) is None else self._own(key)

    def rename(self, key: str, name: str) -> None:
        """Rename a set of the user. Raises the error of `unknown`, and `ValueError` for a blank name."""
        note = self._read(self._own(key)) if _KEY.fullmatch(key) else None
        if note is None:
            raise self.error(key)
        if not (tidy := display_name(name)):
            raise ValueError("a name needs a character that can be displayed")
        with replacing(self._own(key) / NOTE) as new:
            new.write_bytes(self._notes.dump_json(replace(note, name=tidy), indent=1, exclude={"shared"}))

    def remove(self, key: str) -> None:
        """Remove a set of the user's, readable or not; one of the shelf is none. Raises the error of `unknown`."""
        if not _KEY.fullmatch(key) or not self._own(key).is_dir():
            raise self.error(key)
        remove_folder(self._own(key))

    def error(self, reference: str) -> Exception:
        known = [*self.others, *(f"{kept.name} ({kept.reference})" for kept in self.stored())]
        return self.unknown(reference=shown(reference, 80), known=", ".join(known) or "none")

    def _own(self, key: str) -> Path:
        return workspace() / self.name / key

    def _notes_in(self, place: Path) -> list[N]:
        notes = [self._read(path) for path in (place / self.name).glob("*") if _KEY.fullmatch(path.name)]
        return sorted(filter(None, notes), key=lambda note: note.created, reverse=True)

    def _read(self, folder: Path) -> N | None:
        try:
            kept = self._notes.validate_json((folder / NOTE).read_bytes())
            datetime.fromisoformat(kept.created)
        except (OSError, ValueError):
            return None
        return replace(kept, shared=False) if kept.key == folder.name else None

    @cached_property
    def _notes(self) -> Any:
        return TypeAdapter(self.note)


def display_name(text: str) -> str:
    """Return a name as it is stored: on one line, of printable characters, no longer than `LONGEST_NAME`."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())[:LONGEST_NAME].strip()


def file_named(reference: str, base: Path | None = None) -> Path | None:
    """Return the file that a reference is, its path from `base` or from where the process is; None where it is none."""
    path = (base or Path.cwd()) / reference
    # a name may be too long for the file system
    return path if reference and os.path.isfile(path) else None  # noqa: PTH113


def folder_named(reference: str, base: Path | None = None) -> Path | None:
    """Return the folder that a reference names, as `file_named` does a file; one that only goes up names none."""
    path = (base or Path.cwd()) / reference
    is_named = Path(reference).name not in ("", "..")
    return path if is_named and os.path.isdir(path) else None  # noqa: PTH112
