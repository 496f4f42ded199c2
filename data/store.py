"""Question sets kept in the workspace, one folder each, and how a command line names one.

A user reads those of the shelf as well, and can neither change nor remove them.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from data.apart.reading import read_file_apart
from data.catalog import CATALOG, read_entry
from data.collection import Collection, KeptSet
from data.files.cells import shown
from data.passages import Passages, open_passages, write_passages
from data.problems import DataError, ProblemCode
from data.records import QuestionSet, open_questions, write_questions
from data.workspace import read_json, require_few_passages, workspace, write_json


@dataclass(frozen=True, kw_only=True)
class StoredSet(KeptSet):
    """One kept question set. `made` counts the questions that were made of passages."""

    passages: int
    questions: int
    made: int = 0


_SETS = Collection("datasets", StoredSet)
_LAST_USED = "last_used.json"


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
    with _SETS.keeping(kept) as folder:
        write_passages(folder, question_set.passages)
        write_questions(folder, question_set.questions)
    return kept


def stored() -> list[StoredSet]:
    """Return the kept sets, the newest first, and then those of the shelf that are not among them.

    A folder that cannot be read is passed over.
    """
    return _SETS.stored()


def damaged() -> list[str]:
    """Return the keys of the sets whose `set.json` cannot be read."""
    return _SETS.damaged()


def load(key: str) -> QuestionSet:
    """Load a kept set. Raises `DataError` where there is none, or its content has changed since."""
    kept = _known(key)
    folder = _SETS.folder(key)
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
    return open_passages(_SETS.folder(_known(key).key))


def remove(key: str) -> None:
    """Remove a kept set, readable or not; one of the shelf is none. Raises `DataError` where there is none."""
    if not _SETS.remove(key):
        raise _unknown(key)


def note_used(key: str) -> None:
    """Note that a set is the one in use. A note that cannot be written stops nobody: it is a convenience."""
    with suppress(OSError):
        write_json(workspace() / _LAST_USED, {"set": key})


def last_used() -> str:
    """Return the key that was noted last, empty where none can be read; its set may be gone."""
    return str(read_json(workspace() / _LAST_USED).get("set", ""))


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


def _known(key: str) -> StoredSet:
    kept = _SETS.known(key)
    if kept is None:
        raise _unknown(key)
    return kept


def _unknown(reference: str) -> DataError:
    known = [*CATALOG, *(f"{kept.name} ({kept.key})" for kept in stored())]
    return DataError.of(ProblemCode.UNKNOWN_SET, reference=shown(reference, 80), known=", ".join(known))
