"""What a person remarks about the questions of a set: notes, and passages marked as hard negatives.

Kept in `workspace/remarks/<fingerprint>.json`, a file for each content a set has had.
"""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pandas as pd
from filelock import FileLock

from data.records import QuestionSet
from data.workspace import read_json, workspace, write_json

_FINGERPRINT = re.compile("[0-9a-f]{16,64}")
COLUMNS = ("question_id", "question", "note", "passage_id", "title", "passage")
LONGEST_NOTE = 2000  # characters


@dataclass(frozen=True)
class Remarks:
    """Hard negatives as pairs of a question's and a passage's id, and notes by question id, the oldest first."""

    negatives: tuple[tuple[str, str], ...] = ()
    notes: tuple[tuple[str, str], ...] = ()

    def __len__(self) -> int:
        return len(self.negatives) + len(self.notes)

    def note(self, question: str) -> str:
        """Return the note of a question, empty where there is none."""
        return dict(self.notes).get(question, "")


def remarks_of(fingerprint: str) -> Remarks:
    """Return what was remarked about the set with this fingerprint; what cannot be read is passed over."""
    raw = read_json(_path(fingerprint)) if _FINGERPRINT.fullmatch(fingerprint) else {}
    return Remarks(_pairs(raw.get("negatives")), _pairs(raw.get("notes")))


def mark_negative(fingerprint: str, question: str, passage: str) -> None:
    """Mark a passage (an id) as a hard negative of a question (an id); marked again it stays where it is.

    Raises `ValueError`, as every change does, where this is no fingerprint: a path never reaches the file system.
    """
    marked = (question, passage)
    _change(fingerprint, lambda known: replace(known, negatives=tuple(dict.fromkeys((*known.negatives, marked)))))


def unmark_negative(fingerprint: str, question: str, passage: str) -> None:
    """Take a mark away; one that is not there stays away."""

    def without(known: Remarks) -> Remarks:
        return replace(known, negatives=tuple(pair for pair in known.negatives if pair != (question, passage)))

    _change(fingerprint, without)


def write_note(fingerprint: str, question: str, text: str) -> None:
    """Replace the note of a question (an id); an empty one takes it away."""

    def noted(known: Remarks) -> Remarks:
        others = tuple(note for note in known.notes if note[0] != question)
        return replace(known, notes=(*others, (question, text.strip()[:LONGEST_NOTE])) if text.strip() else others)

    _change(fingerprint, noted)


def as_table(remarks: Remarks, question_set: QuestionSet) -> pd.DataFrame:
    """One row a remark, with the columns `COLUMNS`: notes, then hard negatives; ids the set lacks are left out."""
    questions = {question.id: question for question in question_set.questions}
    row_of = question_set.row_of_passage
    rows = [(id_, questions[id_].text, note, "", "", "") for id_, note in remarks.notes if id_ in questions]
    for id_, passage_id in remarks.negatives:
        if id_ in questions and passage_id in row_of:
            passage = question_set.passages[row_of[passage_id]]
            rows.append((id_, questions[id_].text, "", passage_id, passage.title, passage.text))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _path(fingerprint: str) -> Path:
    if not _FINGERPRINT.fullmatch(fingerprint):
        raise ValueError(f"{fingerprint[:80]!r} is no fingerprint of a question set")
    return workspace() / "remarks" / f"{fingerprint}.json"


def _change(fingerprint: str, change: Callable[[Remarks], Remarks]) -> None:
    """Let nobody else change them between reading and writing: two pages may be open."""
    path = _path(fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        write_json(path, asdict(change(remarks_of(fingerprint))))


def _pairs(raw: object) -> tuple[tuple[str, str], ...]:
    listed = raw if isinstance(raw, list) else []
    return tuple((one[0], one[1]) for one in listed if isinstance(one, list) and [*map(type, one)] == [str, str])
