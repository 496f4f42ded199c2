"""Judgements and remarks of people: right and wrong passages and answers, hard negatives, and notes.

Judgements are stored by corpus in `workspace/judgements/<fingerprint>.json`, remarks by dataset in
`workspace/remarks/`. `data.generate.judge` stores judgements of models. Earlier versions can read the file, but only
its right passages. A damaged file is backed up before it is replaced.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
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
COLUMNS = ("question_id", "question", "note", "passage_id", "title", "passage")
MAX_NOTE_LENGTH = 2000  # characters


class RelevanceVerdict(StrEnum):
    """A person's judgement of whether a passage answers a question."""

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
        """Return a copy with a new verdict for a passage, or with None without any verdict for it."""
        names = _FIELDS.values()
        lists: dict[str, Any] = {name: tuple(id_ for id_ in getattr(self, name) if id_ != passage) for name in names}
        if verdict:
            lists[_FIELDS[verdict]] += (passage,)
        return replace(self, **lists)


_FIELDS = {RelevanceVerdict.RIGHT: "passages", RelevanceVerdict.WRONG: "wrong", RelevanceVerdict.UNSURE: "unsure"}


@dataclass(frozen=True)
class JudgedAnswer:
    """A person's question, an answer to it, and whether the answer is right."""

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
    """The files of a folder, named by fingerprint. `entries` are the types of the tuples in `content`."""

    folder: str
    content: type[C]
    entries: Mapping[str, TypeAdapter[Any]]

    def read(self, fingerprint: str) -> C:
        """Return the readable content of a file."""
        try:
            return self.parse(annotation_path(self.folder, fingerprint))[0]
        except (OSError, ValueError):
            return self.content()

    def parse(self, path: Path) -> tuple[C, bool]:
        """Return the readable content of a file, and whether the file is damaged."""
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

    def update(self, fingerprint: str, **transforms: Callable[[tuple[Any, ...]], Iterable[Any]]) -> None:
        """Transform tuples of a file under a lock, and back up a damaged file. Raises as `annotation_path`."""
        path = annotation_path(self.folder, fingerprint)
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            known, is_damaged = self.parse(path)
            if is_damaged:
                back_up_damaged_file(path)
            changed = {name: tuple(transform(getattr(known, name))) for name, transform in transforms.items()}
            # answers are stored as separate entries
            excluded = {"questions": {"__all__": {"answers"}}}
            content = self.content(**vars(known) | changed)
            write_json(path, TypeAdapter(self.content).dump_python(content, exclude=excluded))


_JUDGEMENTS = _FileStore(
    "judgements", _StoredJudgements, {"questions": TypeAdapter(JudgedQuestion), "answers": TypeAdapter(JudgedAnswer)}
)
_REMARKS = _FileStore("remarks", Remarks, dict.fromkeys(("negatives", "notes"), TypeAdapter(tuple[str, str])))


def annotation_path(folder: str, fingerprint: str, ending: str = ".json") -> Path:
    """Return the path of the judgements or remarks of a corpus or set. Raises `ValueError` for no fingerprint."""
    if not _FINGERPRINT.fullmatch(fingerprint):
        raise ValueError(f"{fingerprint[:80]!r} is no fingerprint of a corpus or a question set")
    return workspace() / folder / f"{fingerprint}{ending}"


def damaged_files(corpus: str, fingerprint: str) -> list[Path]:
    """Return the damaged files of judgements of a corpus and remarks of a set, and backups of such files."""
    paths = []
    for files, name in ((_JUDGEMENTS, corpus), (_REMARKS, fingerprint)):
        path = annotation_path(files.folder, name)
        paths += damaged_copies(path)
        paths += [path] if files.parse(path)[1] else []
    return paths


def load_judgements(corpus: str) -> tuple[JudgedQuestion, ...]:
    """Return the judged questions of a corpus (a fingerprint) with their right answers, oldest first."""
    file = _JUDGEMENTS.read(corpus)
    right: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for entry in file.answers:
        right[composed(entry.question)] += (entry.answer,) if entry.right else ()
    return tuple(replace(entry, answers=right[composed(entry.question)]) for entry in file.questions)


def load_judged_answers(corpus: str) -> tuple[JudgedAnswer, ...]:
    """Return the judged answers of a corpus (a fingerprint), oldest first."""
    return _JUDGEMENTS.read(corpus).answers


def find_answer_judgement(judged_answers: Sequence[JudgedAnswer], question: str, answer: str) -> bool | None:
    """Return whether an answer was judged right for a question, ignoring spaces; None without a judgement."""
    return next((entry.right for entry in judged_answers if _is_same_answer(entry, question, answer)), None)


def find_right_passages(judged_questions: Sequence[JudgedQuestion], question: str) -> tuple[str, ...]:
    """Return the ids of the passages that were judged right for a question, ignoring spaces."""
    matches = (entry.passages for entry in judged_questions if composed(entry.question) == composed(question))
    return next(matches, ())


def collect_verdicts(judged_questions: Sequence[JudgedQuestion]) -> dict[tuple[str, str], RelevanceVerdict]:
    """Return the verdict of each passage, by the `composed` question and the passage's id."""
    verdicts: dict[tuple[str, str], RelevanceVerdict] = {}
    for entry in judged_questions:
        verdicts |= {(composed(entry.question), id_): verdict for id_, verdict in entry.verdicts.items()}
    return verdicts


def judge_passage(corpus: str, question: str, passage: str, verdict: RelevanceVerdict | None) -> None:
    """Store or, with None, remove the verdict of a passage (an id); questions without any verdict are removed."""
    text = _normalize_text(question)

    def judge(questions: Iterable[JudgedQuestion]) -> list[JudgedQuestion]:
        known = {composed(entry.question): entry for entry in questions}
        current = replace(known.get(composed(text), JudgedQuestion(text, ())), question=text)
        known[composed(text)] = current.with_verdict(passage, verdict)
        return [entry for entry in known.values() if entry.verdicts]

    _JUDGEMENTS.update(corpus, questions=judge)


def judge_answer(corpus: str, question: str, answer: str, right: bool | None) -> None:
    """Store or, with None, remove the judgement of an answer to a question."""
    new = () if right is None else (JudgedAnswer(_normalize_text(question), _normalize_text(answer), right),)

    def judge(answers: Iterable[JudgedAnswer]) -> list[JudgedAnswer]:
        return [*(entry for entry in answers if not _is_same_answer(entry, question, answer)), *new]

    _JUDGEMENTS.update(corpus, answers=judge)


def forget_question(corpus: str, question: str) -> None:
    """Remove all judgements of a question."""
    removed = composed(question)

    def other_entries(entries: Iterable[Any]) -> list[Any]:
        return [entry for entry in entries if composed(entry.question) != removed]

    _JUDGEMENTS.update(corpus, questions=other_entries, answers=other_entries)


def merge_judgements(
    question_set: QuestionSet, judged_questions: Sequence[JudgedQuestion], name: str, *, only_judged: bool
) -> QuestionSet:
    """Return a set of the same corpus with the questions of the set, then new judged questions, or `only_judged` ones.

    Questions of the set gain their judgements. Wrong passages get grade 0, unsure passages no grade. A new question
    needs a right passage. Raises `ValueError` if no question is left.
    """
    by_text = {composed(entry.question): entry for entry in judged_questions}
    existing_texts = {composed(question.text) for question in question_set.questions}
    merged: list[Question] = []
    for question in question_set.questions:
        judgement = by_text.get(composed(question.text))
        if judgement is not None:
            merged.append(_add_judgement(question, judgement))
        elif not only_judged:
            merged.append(question)
    new = [entry for text, entry in by_text.items() if text not in existing_texts and entry.passages]
    if not (by_text and (merged or new)):
        raise ValueError("no question was judged")
    taken = {question.id for question in merged}
    numbers = (f"judged-{number}" for number in range(1, len(new) + len(taken) + 1))
    ids = (id_ for id_ in numbers if id_ not in taken)
    merged += [_add_judgement(Question(id_, entry.question), entry) for id_, entry in zip(ids, new, strict=False)]
    return replace(question_set, name=name, questions=tuple(merged))


def _add_judgement(question: Question, judged: JudgedQuestion) -> Question:
    new = tuple(answer for answer in judged.answers if answer not in question.answers)
    starts = question.starts + (-1,) * len(new) if question.starts else ()
    grades = dict.fromkeys(judged.wrong, 0) | question.grade_of
    grades |= {id_: max(grades.get(id_, 0), RELEVANT_GRADE) for id_ in judged.passages}
    relevant = tuple(dict.fromkeys(question.relevant + judged.passages))
    answers = question.answers + new
    return replace(question, relevant=relevant, grades=tuple(grades.items()), answers=answers, starts=starts)


def _is_same_answer(entry: JudgedAnswer, question: str, answer: str) -> bool:
    is_same_question = composed(entry.question) == composed(_normalize_text(question))
    return is_same_question and composed(entry.answer) == composed(_normalize_text(answer))


def _normalize_text(text: str) -> str:
    return " ".join(text.split())[:MAX_QUESTION_LENGTH]


def load_remarks(fingerprint: str) -> Remarks:
    """Return the readable remarks about the set with a fingerprint."""
    return _REMARKS.read(fingerprint)


def mark_negative(fingerprint: str, question: str, passage: str) -> None:
    """Mark a passage (an id) as a hard negative of a question (an id); an existing mark keeps its position."""
    pair = (question, passage)
    _REMARKS.update(fingerprint, negatives=lambda pairs: dict.fromkeys((*pairs, pair)))


def unmark_negative(fingerprint: str, question: str, passage: str) -> None:
    """Remove the mark of a hard negative, if there is one."""
    removed = (question, passage)
    _REMARKS.update(fingerprint, negatives=lambda pairs: [pair for pair in pairs if pair != removed])


def write_note(fingerprint: str, question: str, text: str) -> None:
    """Replace the note of a question (an id); an empty text removes it."""
    new = ((question, text.strip()[:MAX_NOTE_LENGTH]),) if text.strip() else ()
    _REMARKS.update(fingerprint, notes=lambda notes: [*(note for note in notes if note[0] != question), *new])


def remarks_table(remarks: Remarks, question_set: QuestionSet) -> pd.DataFrame:
    """Return a row per remark, with the columns `COLUMNS`: notes, then hard negatives; unknown ids are skipped."""
    questions = {question.id: question for question in question_set.questions}
    row_of = question_set.row_of_passage
    rows = [(id_, questions[id_].text, note, "", "", "") for id_, note in remarks.notes if id_ in questions]
    for id_, passage_id in remarks.negatives:
        if id_ in questions and passage_id in row_of:
            passage = question_set.passages[row_of[passage_id]]
            rows.append((id_, questions[id_].text, "", passage_id, passage.title, passage.text))
    return pd.DataFrame(rows, columns=list(COLUMNS))
