"""Question sets kept in the workspace, one folder each, and how a command line names one.

A user reads those of the shelf as well, and can neither change nor remove them.
"""

import os
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pydantic import TypeAdapter

from data.apart.reading import read_file_apart
from data.catalog import CATALOG, read_entry
from data.files.cells import shown
from data.limits import require_few_passages, require_room
from data.passage_file import open_passages, write_passages
from data.passages import Passages
from data.problems import DataError, ProblemCode
from data.question_file import open_questions, write_questions
from data.records import QuestionSet
from data.workspace import remove_folder, replacing, shelf, workspace

_KEY = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True)
class StoredSet:
    """One kept question set. `key` names its folder, `created` is an ISO 8601 time in UTC.

    `made` counts the questions that were made of passages. `shared` says that it lies on the shelf.
    """

    key: str
    name: str
    source: str
    passages: int
    questions: int
    fingerprint: str
    created: str
    made: int = 0
    shared: bool = False


_NOTE = TypeAdapter(StoredSet)


def keep(question_set: QuestionSet, *, source: str = "") -> StoredSet:
    """Keep a question set in the workspace; the same content is kept once, under its newest name.

    Raises `LimitError` where it is more than the user may keep; nothing of it is kept then.
    """
    require_few_passages(len(question_set.passages))
    kept = StoredSet(
        key=question_set.fingerprint[:16],
        name=question_set.name,
        source=source,
        passages=len(question_set.passages),
        questions=len(question_set.questions),
        fingerprint=question_set.fingerprint,
        created=datetime.now(UTC).isoformat(),
        made=sum(question_set.made.values()),
    )
    with replacing(_own(kept.key)) as new:
        new.mkdir()
        write_passages(new, question_set.passages)
        write_questions(new, question_set.questions)
        (new / "set.json").write_bytes(_NOTE.dump_json(kept, indent=1, exclude={"shared"}))
        require_room()
    return kept


def stored() -> list[StoredSet]:
    """Return the kept sets, the newest first, and then those of the shelf that are not among them.

    A folder that cannot be read is passed over.
    """
    own = _sets_in(workspace())
    keys = {kept.key for kept in own}
    place = shelf()
    return [*own, *(replace(kept, shared=True) for kept in (_sets_in(place) if place else []) if kept.key not in keys)]


def damaged() -> list[str]:
    """Return the keys of the sets whose `set.json` cannot be read."""
    folders = sorted(path.parent for path in (workspace() / "datasets").glob("*/set.json"))
    return [path.name for path in folders if _KEY.fullmatch(path.name) and _read_note(path) is None]


def load(key: str) -> QuestionSet:
    """Load a kept set. Raises `DataError` where there is none, or its content has changed since."""
    kept = _known(key)
    folder = _folder(key)
    try:
        question_set = QuestionSet(kept.name, open_passages(folder), open_questions(folder))
        changed = question_set.fingerprint != kept.fingerprint
    except (OSError, TypeError, ValueError, KeyError, pa.ArrowException) as error:
        reason = str(error).split("\n")[0][:200]
        raise DataError.of(ProblemCode.BROKEN_SET, key=key, reason=reason) from error
    if changed:
        raise DataError.of(ProblemCode.BROKEN_SET, key=key, reason="its content is not what was kept")
    return question_set


def passages_of(key: str) -> Passages:
    """Open the passages of a kept set alone. Raises `DataError` as `load` does."""
    return open_passages(_folder(_known(key).key))


def remove(key: str) -> None:
    """Remove a kept set, readable or not; one of the shelf is none. Raises `DataError` where there is none."""
    if not _KEY.fullmatch(key) or not _own(key).is_dir():
        raise _unknown(key)
    remove_folder(_own(key))


def find(reference: str, base: Path | None = None) -> QuestionSet:
    """Return the set a person names: a file (its path from `base`), a catalog id, a stored key or name.

    Raises `DataError`, which lists what exists where nothing has that name.
    """
    path = (base or Path.cwd()) / reference
    if reference and os.path.isfile(path):  # noqa: PTH113 - a name may be too long for the file system
        return read_file_apart(path).question_set
    if reference in CATALOG:
        return read_entry(CATALOG[reference]).question_set
    for kept in stored():
        if reference in (kept.key, kept.name):
            return load(kept.key)
    raise _unknown(reference)


def _own(key: str) -> Path:
    return workspace() / "datasets" / key


def _folder(key: str) -> Path:
    """Return where a set is, on the shelf where the user has none of this key."""
    place = shelf()
    return place / "datasets" / key if place and _read_note(_own(key)) is None else _own(key)


def _sets_in(place: Path) -> list[StoredSet]:
    folder = place / "datasets"
    paths = [path for path in folder.glob("*") if _KEY.fullmatch(path.name)] if folder.is_dir() else []
    found = [kept for path in paths if (kept := _read_note(path)) is not None]
    return sorted(found, key=lambda kept: kept.created, reverse=True)


def _read_note(folder: Path) -> StoredSet | None:
    try:
        kept = _NOTE.validate_json((folder / "set.json").read_bytes())
        datetime.fromisoformat(kept.created)
    except (OSError, ValueError):
        return None
    return replace(kept, shared=False) if kept.key == folder.name else None


def _known(key: str) -> StoredSet:
    """The note of a kept set. A key that is none, such as a path, never reaches the file system."""
    kept = _read_note(_folder(key)) if _KEY.fullmatch(key) else None
    if kept is None:
        raise _unknown(key)
    return kept


def _unknown(reference: str) -> DataError:
    known = [*CATALOG, *(f"{kept.name} ({kept.key})" for kept in stored())]
    return DataError.of(ProblemCode.UNKNOWN_SET, reference=shown(reference, 80), known=", ".join(known))
