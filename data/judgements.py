"""Which passages a person judged right for questions of their own: how plain documents become a test set.

Kept in `workspace/judgements/<fingerprint>.json`, a file for each corpus: sets that share their passages share them.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from filelock import FileLock
from pydantic import BaseModel, ValidationError

from data.records import Question, QuestionSet, composed
from data.workspace import read_json, workspace, write_json

_FINGERPRINT = re.compile("[0-9a-f]{16,64}")
LONGEST_QUESTION = 2000  # characters


@dataclass(frozen=True)
class Judged:
    """A question in a person's words, and the ids of the passages that answer it, in the order they were marked."""

    question: str
    passages: tuple[str, ...]


class _File(BaseModel):
    questions: list[Judged] = []


def judgements_of(corpus: str) -> tuple[Judged, ...]:
    """Return what was judged over the corpus of this fingerprint, oldest first; what cannot be read is passed over."""
    if not _FINGERPRINT.fullmatch(corpus):
        return ()
    try:
        return tuple(_File.model_validate(read_json(_path(corpus))).questions)
    except ValidationError:
        return ()


def judged_passages(judged: Sequence[Judged], question: str) -> tuple[str, ...]:
    """Return the ids of the passages that were judged right for a question, however it is spaced."""
    same = (one.passages for one in judged if composed(one.question) == composed(question))
    return next(same, ())


def judge(corpus: str, question: str, passage: str, *, right: bool) -> None:
    """Mark a passage (an id) as right for a question, or take the mark away; a question without any is forgotten.

    Raises `ValueError` where this is no fingerprint: a path never reaches the file system.
    """
    text = " ".join(question.split())[:LONGEST_QUESTION]

    def judged(known: tuple[Judged, ...]) -> tuple[Judged, ...]:
        passages = tuple(id_ for id_ in judged_passages(known, text) if id_ != passage)
        now = Judged(text, (*passages, passage) if right else passages)
        if all(composed(one.question) != composed(text) for one in known):
            known = (*known, now)
        known = tuple(now if composed(one.question) == composed(text) else one for one in known)
        return tuple(one for one in known if one.passages)

    _change(corpus, judged)


def forget(corpus: str, question: str) -> None:
    """Take everything back that was judged of a question."""
    _change(corpus, lambda known: tuple(one for one in known if composed(one.question) != composed(question)))


def with_judged(question_set: QuestionSet, judged: Sequence[Judged], name: str, *, alone: bool) -> QuestionSet:
    """Return the same corpus under a name, with the judged questions after the set's own, or `alone`.

    A question that the set asks already gets the passages that were judged right for it besides its own. Raises
    `ValueError` where nothing was judged.
    """
    if not judged:
        raise ValueError("no question was judged")
    own = () if alone else question_set.questions
    asked = {composed(question.text) for question in own}
    merged = tuple(_with_passages(question, judged_passages(judged, question.text)) for question in own)
    new = [one for one in judged if composed(one.question) not in asked]
    taken = {question.id for question in own}
    numbers = (f"judged-{number}" for number in range(1, len(new) + len(taken) + 1))
    ids = (id_ for id_ in numbers if id_ not in taken)
    added = tuple(Question(id_, one.question, (), one.passages) for id_, one in zip(ids, new, strict=False))
    return replace(question_set, name=name, questions=merged + added)


def _with_passages(question: Question, passages: tuple[str, ...]) -> Question:
    return replace(question, relevant=tuple(dict.fromkeys(question.relevant + passages))) if passages else question


def _path(corpus: str) -> Path:
    if not _FINGERPRINT.fullmatch(corpus):
        raise ValueError(f"{corpus[:80]!r} is no fingerprint of a corpus")
    return workspace() / "judgements" / f"{corpus}.json"


def _change(corpus: str, change: Callable[[tuple[Judged, ...]], tuple[Judged, ...]]) -> None:
    """Let nobody else change them between reading and writing: two pages may be open."""
    path = _path(corpus)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        write_json(path, {"questions": [asdict(one) for one in change(judgements_of(corpus))]})
