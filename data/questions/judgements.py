"""What a person says of a set: passages and answers that are right or not, hard negatives, and notes.

Judgements are stored in `workspace/judgements/<fingerprint>.json` by corpus, remarks by dataset in
`workspace/remarks/`. `data.generate.judge` stores what models judge beside them. Earlier versions read the file as if
only what is right had been judged. A damaged file is kept beside the new one: see `data.files.user_files`.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd
from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from mrc_workbench.data.files import damaged_copies, read_user_file, set_aside
from mrc_workbench.data.records import RELEVANT_GRADE, Question, QuestionSet, composed
from mrc_workbench.data.workspace import workspace, write_json

_FINGERPRINT = re.compile("[0-9a-f]{16,64}")
LONGEST_QUESTION = 2000  # characters
C = TypeVar("C")
_PAIR: TypeAdapter[tuple[str, str]] = TypeAdapter(tuple[str, str])
COLUMNS = ("question_id", "question", "note", "passage_id", "title", "passage")
LONGEST_NOTE = 2000  # characters


class Verdict(StrEnum):
    """What somebody says of a passage: whether it answers the question, or that they cannot tell."""

    RIGHT = "right"
    WRONG = "wrong"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Judged:
    """A question, the ids of its right passages, its right answers, and the ids of wrong and unsure passages."""

    question: str
    passages: tuple[str, ...]
    answers: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()

    @property
    def verdicts(self) -> dict[str, Verdict]:
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


@dataclass(frozen=True)
class _Content:
    questions: tuple[Judged, ...] = ()
    answers: tuple[JudgedAnswer, ...] = ()


@dataclass(frozen=True)
class Remarks:
    """Hard negatives as pairs of a question's and a passage's id, and notes by question id, the oldest first."""

    negatives: tuple[tuple[str, str], ...] = ()
    notes: tuple[tuple[str, str], ...] = ()

    def __len__(self) -> int:
        return len(self.negatives) + len(self.notes)

    def note(self, question: str) -> str:
        return dict(self.notes).get(question, "")


@dataclass(frozen=True)
class _Files(Generic[C]):
    """The files of a folder, one for each fingerprint. `entries` are the types of the tuples in `content`."""

    folder: str
    content: type[C]
    entries: Mapping[str, TypeAdapter[Any]]

    def read(self, fingerprint: str) -> C:
        """Return what a file holds; what cannot be read is skipped."""
        try:
            return self.parse(path_of(self.folder, fingerprint))[0]
        except (OSError, ValueError):
            return self.content()

    def parse(self, path: Path) -> tuple[C, bool]:
        """Return what a file holds, without the entries that cannot be read, and whether it is damaged."""
        given, is_damaged = read_user_file(path)
        valid: dict[str, list[Any]] = {name: [] for name in self.entries}
        for name, entry in self.entries.items():
            values = given.get(name, [])
            is_damaged |= not isinstance(values, list)
            for value in values if isinstance(values, list) else []:
                try:
                    valid[name].append(entry.validate_python(value))
                except ValidationError:
                    is_damaged = True
        return self.content(**{name: tuple(entries) for name, entries in valid.items()}), is_damaged

    def change(self, fingerprint: str, change: Callable[[C], C]) -> None:
        """Replace the content of a file, locked; a damaged one is set aside. Raises `ValueError` for no fingerprint."""
        path = path_of(self.folder, fingerprint)
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            known, is_damaged = self.parse(path)
            if is_damaged:
                set_aside(path)
            # the answers of a question are entries of their own
            unwritten = {"questions": {"__all__": {"answers"}}}
            write_json(path, TypeAdapter(self.content).dump_python(change(known), exclude=unwritten))


_JUDGEMENTS = _Files("judgements", _Content, {"questions": TypeAdapter(Judged), "answers": TypeAdapter(JudgedAnswer)})
_REMARKS = _Files("remarks", Remarks, {"negatives": _PAIR, "notes": _PAIR})


def path_of(folder: str, fingerprint: str, ending: str = ".json") -> Path:
    """Return a file of what was said of a corpus or a set. Raises `ValueError` if this is no fingerprint."""
    if not _FINGERPRINT.fullmatch(fingerprint):
        raise ValueError(f"{fingerprint[:80]!r} is no fingerprint of a corpus or a question set")
    return workspace() / folder / f"{fingerprint}{ending}"


def damaged_files(corpus: str, fingerprint: str) -> list[Path]:
    """Return the files with judgements of a corpus, or remarks of a set, that are damaged, or were when set aside."""
    found = []
    for files, name in ((_JUDGEMENTS, corpus), (_REMARKS, fingerprint)):
        path = path_of(files.folder, name)
        found += damaged_copies(path)
        found += [path] if files.parse(path)[1] else []
    return found


def judgements_of(corpus: str) -> tuple[Judged, ...]:
    """Return the questions with judged passages of a corpus (a fingerprint), with right answers, oldest first."""
    file = _JUDGEMENTS.read(corpus)
    right: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for one in file.answers:
        right[composed(one.question)] += (one.answer,) if one.right else ()
    return tuple(replace(one, answers=right[composed(one.question)]) for one in file.questions)


def judged_answers(corpus: str) -> tuple[JudgedAnswer, ...]:
    """Return the answers that were judged over the corpus of this fingerprint, oldest first."""
    return _JUDGEMENTS.read(corpus).answers


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
    """Judge a passage (an id) of a question, or, by None, take it back; a question without any is forgotten."""
    text = _cut(question)

    def judged(file: _Content) -> _Content:
        known = {composed(one.question): one for one in file.questions}
        of = replace(known.get(composed(text), Judged(text, ())), question=text)
        known[composed(text)] = of.judging(passage, verdict)
        return replace(file, questions=tuple(one for one in known.values() if one.verdicts))

    _JUDGEMENTS.change(corpus, judged)


def judge_answer(corpus: str, question: str, answer: str, right: bool | None) -> None:
    """Judge an answer to a question right or wrong, or, by None, take the judgement back."""
    new = () if right is None else (JudgedAnswer(_cut(question), _cut(answer), right),)

    def judged(file: _Content) -> _Content:
        others = tuple(one for one in file.answers if not _same(one, question, answer))
        return replace(file, answers=others + new)

    _JUDGEMENTS.change(corpus, judged)


def forget(corpus: str, question: str) -> None:
    """Take everything back that was judged of a question."""
    forgotten = composed(question)

    def without(file: _Content) -> _Content:
        questions = tuple(one for one in file.questions if composed(one.question) != forgotten)
        return _Content(questions, tuple(one for one in file.answers if composed(one.question) != forgotten))

    _JUDGEMENTS.change(corpus, without)


def with_judged(question_set: QuestionSet, judged: Sequence[Judged], name: str, *, alone: bool) -> QuestionSet:
    """Return the same corpus under a name, with the judged questions after the set's own, or `alone`.

    Questions of the set gain what was judged. Wrong passages get grade 0, unsure ones none. A new question needs a
    right passage. Raises `ValueError` if no question is left.
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


def remarks_of(fingerprint: str) -> Remarks:
    """Return the remarks about the set with this fingerprint; what cannot be read is skipped."""
    return _REMARKS.read(fingerprint)


def mark_negative(fingerprint: str, question: str, passage: str) -> None:
    """Mark a passage (an id) as a hard negative of a question (an id); marked again it stays where it is."""
    pair = (question, passage)
    _REMARKS.change(fingerprint, lambda known: replace(known, negatives=tuple(dict.fromkeys((*known.negatives, pair)))))


def unmark_negative(fingerprint: str, question: str, passage: str) -> None:
    """Take a mark away; one that is not there stays away."""
    pair = (question, passage)
    _REMARKS.change(
        fingerprint, lambda known: replace(known, negatives=tuple(old for old in known.negatives if old != pair))
    )


def write_note(fingerprint: str, question: str, text: str) -> None:
    """Replace the note of a question (an id); an empty one takes it away."""
    new = ((question, text.strip()[:LONGEST_NOTE]),) if text.strip() else ()
    _REMARKS.change(
        fingerprint, lambda known: replace(known, notes=(*(note for note in known.notes if note[0] != question), *new))
    )


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
