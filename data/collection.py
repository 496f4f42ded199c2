"""Sets kept in the workspace, one folder each, which lies under a key and tells in a note what it holds.

A user reads those of the shelf as well, and can neither change nor remove them.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from data.workspace import remove_folder, replacing, require_room, shelf, workspace

NOTE = "set.json"
_KEY = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True, kw_only=True)
class KeptSet:
    """What the note of every kept set says. `key` names its folder, `created` is an ISO 8601 time in UTC.

    `shared` says that it lies on the shelf.
    """

    key: str
    name: str
    source: str
    fingerprint: str
    created: str
    shared: bool = False


N = TypeVar("N", bound=KeptSet)


@dataclass(frozen=True)
class Collection(Generic[N]):
    """The kept sets of one kind: those in the folder `name` of the workspace, and of the shelf."""

    name: str
    note: type[N]

    @contextmanager
    def keeping(self, note: N) -> Iterator[Path]:
        """Yield an empty folder to be filled; when the block ends well, it is kept under the note's key.

        Raises `LimitError` where it is more than the user may keep; nothing of it is kept then.
        """
        with replacing(self._own(note.key)) as new:
            new.mkdir()
            yield new
            (new / NOTE).write_bytes(self._notes.dump_json(note, indent=1, exclude={"shared"}))
            require_room()

    def stored(self) -> list[N]:
        """Return the notes of the kept sets, the newest first, then those of the shelf that are not among them.

        A folder that cannot be read is passed over.
        """
        own, place = self._notes_in(workspace()), shelf()
        keys = {kept.key for kept in own}
        others = self._notes_in(place) if place else []
        return [*own, *(replace(kept, shared=True) for kept in others if kept.key not in keys)]

    def damaged(self) -> list[str]:
        """Return the keys of the user's own sets whose note cannot be read."""
        folders = sorted(path.parent for path in (workspace() / self.name).glob(f"*/{NOTE}"))
        return [path.name for path in folders if _KEY.fullmatch(path.name) and self._read(path) is None]

    def known(self, key: str) -> N | None:
        """Return the note of a kept set, None where there is none. A path is no key, and never looked for."""
        return self._read(self.folder(key)) if _KEY.fullmatch(key) else None

    def folder(self, key: str) -> Path:
        """Return where a set is, on the shelf where the user has none of this key."""
        place = shelf()
        return place / self.name / key if place and self._read(self._own(key)) is None else self._own(key)

    def remove(self, key: str) -> bool:
        """Remove a set of the user's, readable or not; return whether there was one."""
        if not _KEY.fullmatch(key) or not self._own(key).is_dir():
            return False
        remove_folder(self._own(key))
        return True

    def _own(self, key: str) -> Path:
        return workspace() / self.name / key

    def _notes_in(self, place: Path) -> list[N]:
        folder = place / self.name
        paths = [path for path in folder.glob("*") if _KEY.fullmatch(path.name)] if folder.is_dir() else []
        found = [kept for path in paths if (kept := self._read(path)) is not None]
        return sorted(found, key=lambda kept: kept.created, reverse=True)

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
