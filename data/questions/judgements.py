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

from mrc_workbench.data.files import back_up_damaged_file, damaged_copies, read_user_file
from mrc_workbench.data.records import RELEVANT_GRADE, Question, QuestionSet, composed
from mrc_workbench.data.workspace import workspace, write_json

_FINGERPRINT = re.compile("[0-9a-f]{16,64}")
MAX_QUESTION_LENGTH = 2000  # characters
C = TypeVar("C")
_PAIR: TypeAdapter[tuple[str, str]] = TypeAdapter(tuple[str, str])
COLUMNS = ("question_id", "question", "note", "passage_id", "title", "passage")
MAX_NOTE_LENGTH = 2000  # characters


class RelevanceVerdict(StrEnum):
    """What somebody says of a passage: whether it answers the question, or that they cannot tell."""

    RIGHT = "right"
    WRONG = "wrong"
    UNSURE = "unsure"


@dataclass(frozen=True)
class JudgedQuestion:
    """A question, the ids of its right passages, its right answers, and the ids of wrong and unsure passages."""

    question: str
    passages: tuple[str, ...]
    answers: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()

    @property
    def verdicts(self) -> dict[str, RelevanceVerdict]:
        return {id_: verdict for verdict, name in _FIELDS.items() for id_ in getattr(self, name)}

    def with_verdict(self, passage: str, verdict: RelevanceVerdict | None) -> "JudgedQuestion":
        """Return the same with a passage judged so, whatever was said of it before; None takes that back."""
        lists: dict[str, Any] = {
            name: tuple(id_ for id_ in getattr(self, name) if id_ != passage) for name in _FIELDS.values()
        }
        if verdict:
            lists[_FIELDS[verdict]] += (passage,)
        return replace(self, **lists)


_FIELDS = {RelevanceVerdict.RIGHT: "passages", RelevanceVerdict.WRONG: "wrong", RelevanceVerdict.UNSURE: "unsure"}


@dataclass(frozen=True)
class JudgedAnswer:
    """A question in a person's words, a text that somebody or something answered it with, and whether it is right."""

    question: str
    answer: str
    right: bool


@dataclass(frozen=True)
class _StoredJudgements:
    questions: tuple[JudgedQuestion, ...] = ()
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
class _FileStore(Generic[C]):
    """The files of a folder, one for each fingerprint. `entries` are the types of the tuples in `content`."""

    folder: str
    content: type[C]
    entries: Mapping[str, TypeAdapter[Any]]

    def read(self, fingerprint: str) -> C:
        """Return what a file holds; what cannot be read is skipped."""
        try:
            return self.parse(annotation_path(self.folder, fingerprint))[0]
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

    def update(self, fingerprint: str, transform: Callable[[C], C]) -> None:
        """Replace the content of a file, locked; a damaged one is set aside. Raises `ValueError` for no fingerprint."""
        path = annotation_path(self.folder, fingerprint)
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            known, is_damaged = self.parse(path)
            if is_damaged:
                back_up_damaged_file(path)
            # the answers of a question are entries of their own
            excluded = {"questions": {"__all__": {"answers"}}}
            write_json(path, TypeAdapter(self.content).dump_python(transform(known), exclude=excluded))


_JUDGEMENTS = _FileStore(
    "judgements", _StoredJudgements, {"questions": TypeAdapter(JudgedQuestion), "answers": TypeAdapter(JudgedAnswer)}
)
_REMARKS = _FileStore("remarks", Remarks, {"negatives": _PAIR, "notes": _PAIR})


def annotation_path(folder: str, fingerprint: str, ending: str = ".json") -> Path:
    """Return a file of what was said of a corpus or a set. Raises `ValueError` if this is no fingerprint."""
    if not _FINGERPRINT.fullmatch(fingerprint):
        raise ValueError(f"{fingerprint[:80]!r} is no fingerprint of a corpus or a question set")
    return workspace() / folder / f"{fingerprint}{ending}"


def damaged_files(corpus: str, fingerprint: str) -> list[Path]:
    """Return the files with judgements of a corpus, or remarks of a set, that are damaged, or were when set aside."""
    paths = []
    for files, name in ((_JUDGEMENTS, corpus), (_REMARKS, fingerprint)):
        path = annotation_path(files.folder, name)
        paths += damaged_copies(path)
        paths += [path] if files.parse(path)[1] else []
    return paths


def load_judgements(corpus: str) -> tuple[JudgedQuestion, ...]:
    """Return the questions with judged passages of a corpus (a fingerprint), with right answers, oldest first."""
    file = _JUDGEMENTS.read(corpus)
    right: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for entry in file.answers:
        right[composed(entry.question)] += (entry.answer,) if entry.right else ()
    return tuple(replace(entry, answers=right[composed(entry.question)]) for entry in file.questions)


def load_judged_answers(corpus: str) -> tuple[JudgedAnswer, ...]:
    """Return the answers that were judged over the corpus of this fingerprint, oldest first."""
    return _JUDGEMENTS.read(corpus).answers


def find_answer_judgement(judged_answers: Sequence[JudgedAnswer], question: str, answer: str) -> bool | None:
    """Return whether an answer was judged right for a question, however both are spaced; None where nobody judged."""
    return next((entry.right for entry in judged_answers if _is_same_answer(entry, question, answer)), None)


def find_right_passages(judged_questions: Sequence[JudgedQuestion], question: str) -> tuple[str, ...]:
    """Return the ids of the passages that were judged right for a question, however it is spaced."""
    matches = (entry.passages for entry in judged_questions if composed(entry.question) == composed(question))
    return next(matches, ())


def collect_verdicts(judged_questions: Sequence[JudgedQuestion]) -> dict[tuple[str, str], RelevanceVerdict]:
    """Return what was said of each passage, by the question as `composed` has it and the passage's id."""
    return {
        (composed(entry.question), id_): verdict
        for entry in judged_questions
        for id_, verdict in entry.verdicts.items()
    }


def judge_passage(corpus: str, question: str, passage: str, verdict: RelevanceVerdict | None) -> None:
    """Judge a passage (an id) of a question, or, by None, take it back; a question without any is forgotten."""
    text = _normalize_text(question)

    def update(file: _StoredJudgements) -> _StoredJudgements:
        known = {composed(entry.question): entry for entry in file.questions}
        current = replace(known.get(composed(text), JudgedQuestion(text, ())), question=text)
        known[composed(text)] = current.with_verdict(passage, verdict)
        return replace(file, questions=tuple(entry for entry in known.values() if entry.verdicts))

    _JUDGEMENTS.update(corpus, update)


def judge_answer(corpus: str, question: str, answer: str, right: bool | None) -> None:
    """Judge an answer to a question right or wrong, or, by None, take the judgement back."""
    new = () if right is None else (JudgedAnswer(_normalize_text(question), _normalize_text(answer), right),)

    def update(file: _StoredJudgements) -> _StoredJudgements:
        others = tuple(entry for entry in file.answers if not _is_same_answer(entry, question, answer))
        return replace(file, answers=others + new)

    _JUDGEMENTS.update(corpus, update)


def forget_question(corpus: str, question: str) -> None:
    """Take everything back that was judged of a question."""
    forgotten = composed(question)

    def remove_question(file: _StoredJudgements) -> _StoredJudgements:
        questions = tuple(entry for entry in file.questions if composed(entry.question) != forgotten)
        return _StoredJudgements(
            questions, tuple(entry for entry in file.answers if composed(entry.question) != forgotten)
        )

    _JUDGEMENTS.update(corpus, remove_question)


def merge_judgements(
    question_set: QuestionSet, judged_questions: Sequence[JudgedQuestion], name: str, *, only_judged: bool
) -> QuestionSet:
    """Return the same corpus under a name, with the judged questions after the set's own, or `alone`.

    Questions of the set gain what was judged. Wrong passages get grade 0, unsure ones none. A new question needs a
    right passage. Raises `ValueError` if no question is left.
    """
    by_text = {composed(entry.question): entry for entry in judged_questions}
    existing_texts = {composed(question.text) for question in question_set.questions}
    known = [(entry, by_text.get(composed(entry.text))) for entry in question_set.questions]
    merged = tuple(
        _add_judgement(entry, judgement) if judgement else entry
        for entry, judgement in known
        if judgement or not only_judged
    )
    new = [entry for text, entry in by_text.items() if text not in existing_texts and entry.passages]
    if not (by_text and (merged or new)):
        raise ValueError("no question was judged")
    taken = {question.id for question in merged}
    numbers = (f"judged-{number}" for number in range(1, len(new) + len(taken) + 1))
    ids = (id_ for id_ in numbers if id_ not in taken)
    added = tuple(_add_judgement(Question(id_, entry.question), entry) for id_, entry in zip(ids, new, strict=False))
    return replace(question_set, name=name, questions=merged + added)


def _add_judgement(question: Question, judged: JudgedQuestion) -> Question:
    new = tuple(answer for answer in judged.answers if answer not in question.answers)
    starts = question.starts + (-1,) * len(new) if question.starts else ()
    grades = dict.fromkeys(judged.wrong, 0) | question.grade_of
    grades |= {id_: max(grades.get(id_, 0), RELEVANT_GRADE) for id_ in judged.passages}
    relevant = tuple(dict.fromkeys(question.relevant + judged.passages))
    answers = question.answers + new
    return replace(question, relevant=relevant, grades=tuple(grades.items()), answers=answers, starts=starts)


def _is_same_answer(entry: JudgedAnswer, question: str, answer: str) -> bool:
    return (composed(entry.question), composed(entry.answer)) == (
        composed(_normalize_text(question)),
        composed(_normalize_text(answer)),
    )


def _normalize_text(text: str) -> str:
    return " ".join(text.split())[:MAX_QUESTION_LENGTH]


def load_remarks(fingerprint: str) -> Remarks:
    """Return the remarks about the set with this fingerprint; what cannot be read is skipped."""
    return _REMARKS.read(fingerprint)


def mark_negative(fingerprint: str, question: str, passage: str) -> None:
    """Mark a passage (an id) as a hard negative of a question (an id); marked again it stays where it is."""
    pair = (question, passage)
    _REMARKS.update(fingerprint, lambda known: replace(known, negatives=tuple(dict.fromkeys((*known.negatives, pair)))))


def unmark_negative(fingerprint: str, question: str, passage: str) -> None:
    """Take a mark away; one that is not there stays away."""
    pair = (question, passage)
    _REMARKS.update(
        fingerprint, lambda known: replace(known, negatives=tuple(old for old in known.negatives if old != pair))
    )


def write_note(fingerprint: str, question: str, text: str) -> None:
    """Replace the note of a question (an id); an empty one takes it away."""
    new = ((question, text.strip()[:MAX_NOTE_LENGTH]),) if text.strip() else ()
    _REMARKS.update(
        fingerprint, lambda known: replace(known, notes=(*(note for note in known.notes if note[0] != question), *new))
    )


def remarks_table(remarks: Remarks, question_set: QuestionSet) -> pd.DataFrame:
    """One row a remark, with the columns `COLUMNS`: notes, then hard negatives; ids the set lacks are left out."""
    questions = {question.id: question for question in question_set.questions}
    row_of = question_set.row_of_passage
    rows = [(id_, questions[id_].text, note, "", "", "") for id_, note in remarks.notes if id_ in questions]
    for id_, passage_id in remarks.negatives:
        if id_ in questions and passage_id in row_of:
            passage = question_set.passages[row_of[passage_id]]
            rows.append((id_, questions[id_].text, "", passage_id, passage.title, passage.text))
    return pd.DataFrame(rows, columns=list(COLUMNS))
