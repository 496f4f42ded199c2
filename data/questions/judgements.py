"""What a person says of a set: passages and answers that are right or not, hard negatives, and notes.

Judgements are how documents become a test set: kept in `workspace/judgements/<fingerprint>.json`, a file for each
corpus, so that sets that share their passages share them. `data.generate.judge` stores what models judge beside it.
Earlier versions read the file as if only what is right had been judged. Remarks are kept in
`workspace/remarks/<fingerprint>.json`, a file for each content a set has had.

A damaged file is kept beside the new one before anything is written: see `data.files.user_files`."""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from filelock import FileLock
from pydantic import BaseModel, TypeAdapter, ValidationError

from mrc_workbench.data.files import damaged_copies, read_user_file, set_aside
from mrc_workbench.data.records import RELEVANT_GRADE, Question, QuestionSet, composed
from mrc_workbench.data.workspace import workspace, write_json

_FINGERPRINT = re.compile("[0-9a-f]{16,64}")
LONGEST_QUESTION = 2000  # characters
R = TypeVar("R")


class Verdict(StrEnum):
    """What somebody says of a passage: whether it answers the question, or that they cannot tell."""

    RIGHT = "right"
    WRONG = "wrong"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Judged:
    """A question in a person's words, the ids of the passages that answer it, in the order they were marked, and the
    answers that were judged right; then the ids of those that do not answer it, and of those nobody can tell of.
    """

    question: str
    passages: tuple[str, ...]
    answers: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """What was said of each passage, by its id."""
        return {id_: verdict for verdict, name in _FIELDS.items() for id_ in getattr(self, name)}

    def judging(self, passage: str, verdict: Verdict | None) -> "Judged":
        """Return the same with a passage judged so, whatever was said of it before; None takes that back."""
        lists: dict[str, Any] = {
            name: tuple(id_ for id_ in getattr(self, name) if id_ != passage) for name in _FIELDS.values()
        }
        if verdict:
            lists[_FIELDS[verdict]] += (passage,)
        return replace(self, **lists)


_FIELDS = {Verdict.RIGHT: "passages", Verdict.WRONG: "wrong", Verdict.UNSURE: "unsure"}


@dataclass(frozen=True)
class JudgedAnswer:
    """A question in a person's words, a text that somebody or something answered it with, and whether it is right."""

    question: str
    answer: str
    right: bool


class _File(BaseModel):
    questions: list[Judged] = []
    answers: list[JudgedAnswer] = []


_ENTRIES: dict[str, TypeAdapter[Any]] = {"questions": TypeAdapter(Judged), "answers": TypeAdapter(JudgedAnswer)}


def judgements_of(corpus: str) -> tuple[Judged, ...]:
    """Return the questions that a person judged passages of, with the right answers to them, oldest first.

    Over the corpus of this fingerprint; what cannot be read is passed over.
    """
    file = _read(corpus)

    def right(question: str) -> tuple[str, ...]:
        return tuple(one.answer for one in file.answers if one.right and composed(one.question) == composed(question))

    return tuple(replace(one, answers=right(one.question)) for one in file.questions)


def judged_answers(corpus: str) -> tuple[JudgedAnswer, ...]:
    """Return the answers that were judged over the corpus of this fingerprint, oldest first."""
    return tuple(_read(corpus).answers)


def judged_answer(judged: Sequence[JudgedAnswer], question: str, answer: str) -> bool | None:
    """Return whether an answer was judged right for a question, however both are spaced; None where nobody judged."""
    return next((one.right for one in judged if _same(one, question, answer)), None)


def judged_passages(judged: Sequence[Judged], question: str) -> tuple[str, ...]:
    """Return the ids of the passages that were judged right for a question, however it is spaced."""
    same = (one.passages for one in judged if composed(one.question) == composed(question))
    return next(same, ())


def verdicts_of(judged: Sequence[Judged]) -> dict[tuple[str, str], Verdict]:
    """Return what was said of each passage, by the question as `composed` has it and the passage's id."""
    return {(composed(one.question), id_): verdict for one in judged for id_, verdict in one.verdicts.items()}


def judge(corpus: str, question: str, passage: str, verdict: Verdict | None) -> None:
    """Judge a passage (an id) of a question, or, by None, take it back; a question without any is forgotten.

    Raises `ValueError` where this is no fingerprint: a path never reaches the file system.
    """
    text = _cut(question)

    def judged(file: _File) -> _File:
        known = {composed(one.question): one for one in file.questions}
        of = replace(known.get(composed(text), Judged(text, ())), question=text)
        known[composed(text)] = of.judging(passage, verdict)
        return file.model_copy(update={"questions": [one for one in known.values() if one.verdicts]})

    _change(corpus, judged)


def judge_answer(corpus: str, question: str, answer: str, right: bool | None) -> None:
    """Judge an answer to a question right or wrong, or, by None, take the judgement back.

    Raises `ValueError` where this is no fingerprint: a path never reaches the file system.
    """

    def judged(file: _File) -> _File:
        others = [one for one in file.answers if not _same(one, question, answer)]
        new = [] if right is None else [JudgedAnswer(_cut(question), _cut(answer), right)]
        return file.model_copy(update={"answers": [*others, *new]})

    _change(corpus, judged)


def forget(corpus: str, question: str) -> None:
    """Take everything back that was judged of a question."""

    def without(file: _File) -> _File:
        wanted = composed(question)
        questions = [one for one in file.questions if composed(one.question) != wanted]
        return _File(questions=questions, answers=[one for one in file.answers if composed(one.question) != wanted])

    _change(corpus, without)


def with_judged(question_set: QuestionSet, judged: Sequence[Judged], name: str, *, alone: bool) -> QuestionSet:
    """Return the same corpus under a name, with the judged questions after the set's own, or `alone`.

    A question that the set asks gets what was judged of it besides what the set knows: what both know stays as it is in
    the set. Passages that were judged wrong are of grade 0 there; unsure ones stay unjudged. Of a question that the set
    does not ask, one passage must be right. Raises `ValueError` where that leaves no question.
    """
    by_text = {composed(one.question): one for one in judged}
    asked = {composed(question.text) for question in question_set.questions}
    known = [(one, by_text.get(composed(one.text))) for one in question_set.questions]
    merged = tuple(_with(one, of) if of else one for one, of in known if of or not alone)
    new = [one for text, one in by_text.items() if text not in asked and one.passages]
    if not (by_text and (merged or new)):
        raise ValueError("no question was judged")
    taken = {question.id for question in merged}
    numbers = (f"judged-{number}" for number in range(1, len(new) + len(taken) + 1))
    ids = (id_ for id_ in numbers if id_ not in taken)
    added = tuple(_with(Question(id_, one.question), one) for id_, one in zip(ids, new, strict=False))
    return replace(question_set, name=name, questions=merged + added)


def _with(question: Question, judged: Judged) -> Question:
    new = tuple(answer for answer in judged.answers if answer not in question.answers)
    starts = question.starts + (-1,) * len(new) if question.starts else ()
    grades = dict.fromkeys(judged.wrong, 0) | question.grade_of
    grades |= {id_: max(grades.get(id_, 0), RELEVANT_GRADE) for id_ in judged.passages}
    relevant = tuple(dict.fromkeys(question.relevant + judged.passages))
    answers = question.answers + new
    return replace(question, relevant=relevant, grades=tuple(grades.items()), answers=answers, starts=starts)


def _same(one: JudgedAnswer, question: str, answer: str) -> bool:
    return (composed(one.question), composed(one.answer)) == (composed(_cut(question)), composed(_cut(answer)))


def _cut(text: str) -> str:
    return " ".join(text.split())[:LONGEST_QUESTION]


def _read(corpus: str) -> _File:
    if not _FINGERPRINT.fullmatch(corpus):
        return _File()
    try:
        return _read_judgements(path_of("judgements", corpus))[0]
    except OSError:
        return _File()


def _read_judgements(path: Path) -> tuple[_File, bool]:
    """Return what a file holds, without the entries that cannot be read, and whether it is damaged."""
    content, is_damaged = read_user_file(path)
    found: dict[str, list[Any]] = {}
    for name, entry in _ENTRIES.items():
        found[name], are_damaged = _valid(content.get(name, []), entry)
        is_damaged = is_damaged or are_damaged
    return _File(**found), is_damaged


def _valid(entries: object, entry: TypeAdapter[Any]) -> tuple[list[Any], bool]:
    """Return the entries of a list that are what they must be, and whether anything else is in it."""
    if not isinstance(entries, list):
        return [], True
    found = []
    for given in entries:
        try:
            found.append(entry.validate_python(given))
        except ValidationError:
            continue
    return found, len(found) < len(entries)


def path_of(folder: str, fingerprint: str, ending: str = ".json") -> Path:
    """Return a file of what was said of a corpus or a set. Raises `ValueError` where this is no fingerprint."""
    if not _FINGERPRINT.fullmatch(fingerprint):
        raise ValueError(f"{fingerprint[:80]!r} is no fingerprint of a corpus or a question set")
    return workspace() / folder / f"{fingerprint}{ending}"


def damaged_files(corpus: str, fingerprint: str) -> list[Path]:
    """Return the files with judgements of a corpus, or remarks of a set, of which something cannot be read.

    These are the files in use, and those that were set aside when something new was written.
    """
    found = []
    for path, read in (
        (path_of("judgements", corpus), _read_judgements),
        (path_of("remarks", fingerprint), _read_remarks),
    ):
        found += damaged_copies(path)
        if read(path)[1]:
            found.append(path)
    return found


def _rewrite(path: Path, read: Callable[[Path], tuple[R, bool]], content: Callable[[R], object]) -> None:
    """Replace the content of a file by what `content` makes of it; a damaged file is set aside first.

    Nobody else changes it between reading and writing: two pages may be open.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        known, is_damaged = read(path)
        if is_damaged:
            set_aside(path)
        write_json(path, content(known))


def _change(corpus: str, change: Callable[[_File], _File]) -> None:
    # the answers of a question stand for themselves
    unwritten = {"questions": {"__all__": {"answers"}}}

    def changed(file: _File) -> dict[str, Any]:
        return change(file).model_dump(exclude=unwritten)

    _rewrite(path_of("judgements", corpus), _read_judgements, changed)


COLUMNS = ("question_id", "question", "note", "passage_id", "title", "passage")
LONGEST_NOTE = 2000  # characters
_PAIR: TypeAdapter[tuple[str, str]] = TypeAdapter(tuple[str, str])


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
    if not _FINGERPRINT.fullmatch(fingerprint):
        return Remarks()
    try:
        return _read_remarks(path_of("remarks", fingerprint))[0]
    except OSError:
        return Remarks()


def _read_remarks(path: Path) -> tuple[Remarks, bool]:
    """Return what a file holds, without the entries that cannot be read, and whether it is damaged."""
    content, is_damaged = read_user_file(path)
    negatives, are_negatives_damaged = _valid(content.get("negatives", []), _PAIR)
    notes, are_notes_damaged = _valid(content.get("notes", []), _PAIR)
    return Remarks(tuple(negatives), tuple(notes)), is_damaged or are_negatives_damaged or are_notes_damaged


def mark_negative(fingerprint: str, question: str, passage: str) -> None:
    """Mark a passage (an id) as a hard negative of a question (an id); marked again it stays where it is.

    Raises `ValueError`, as every change does, where this is no fingerprint: a path never reaches the file system.
    """

    def marked(known: Remarks) -> Remarks:
        return replace(known, negatives=tuple(dict.fromkeys((*known.negatives, (question, passage)))))

    _change_remarks(fingerprint, marked)


def unmark_negative(fingerprint: str, question: str, passage: str) -> None:
    """Take a mark away; one that is not there stays away."""

    def without(known: Remarks) -> Remarks:
        return replace(known, negatives=tuple(pair for pair in known.negatives if pair != (question, passage)))

    _change_remarks(fingerprint, without)


def write_note(fingerprint: str, question: str, text: str) -> None:
    """Replace the note of a question (an id); an empty one takes it away."""

    def noted(known: Remarks) -> Remarks:
        others = tuple(note for note in known.notes if note[0] != question)
        return replace(known, notes=(*others, (question, text.strip()[:LONGEST_NOTE])) if text.strip() else others)

    _change_remarks(fingerprint, noted)


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


def _change_remarks(fingerprint: str, change: Callable[[Remarks], Remarks]) -> None:
    def changed(remarks: Remarks) -> dict[str, Any]:
        return asdict(change(remarks))

    _rewrite(path_of("remarks", fingerprint), _read_remarks, changed)
