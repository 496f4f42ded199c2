"""The carriers every room shares: a passage, a question, and the set that binds them."""

import hashlib
import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from data.passages import Passage, Passages, RowOfId

__all__ = ["Passage", "Passages", "Question", "QuestionSet", "composed"]


def composed(text: str) -> str:
    """Return a text as questions are told apart: its letters composed, single spaces between words."""
    return " ".join(unicodedata.normalize("NFC", text).split())  # a box of one line keeps no line breaks


@dataclass(frozen=True, slots=True)
class Question:
    """One question, the texts that answer it, and the ids of the passages that hold an answer.

    `relevant` is empty for an unanswerable question. `kind` is the question type where the data names one. `made` says
    how a question was made of its passages (see `data.made`) and is empty where a person asked it. A `hidden` one asks
    with words of its passages, or with their title: training takes them out there.

    `starts` says of each answer at which letter of the first relevant passage it begins, -1 where nobody does; empty
    where that is so of all. `rejected` are passages of which the file says that they hold no answer, as of SQuAD 2.0's
    impossible questions. Both are for who reads passages, not for who searches them, and no content; where an answer
    begins is a claim that may be wrong.
    """

    id: str
    text: str
    answers: tuple[str, ...] = ()
    relevant: tuple[str, ...] = ()
    kind: str = ""
    made: str = ""
    hidden: bool = False
    starts: tuple[int, ...] = ()
    rejected: tuple[str, ...] = ()

    @property
    def content(self) -> tuple[object, ...]:
        """What a fingerprint is made of; that of a question that a person asked is as old as the project."""
        asked = (self.id, self.text, self.answers, self.relevant, self.kind)
        return (*asked, self.made, self.hidden) if self.made else asked


@dataclass(frozen=True)
class QuestionSet:
    """Questions over a corpus. Ids are unique, passage texts differ, every relevant id exists.

    Raises `ValueError` where that does not hold: readers mend or reject rows before they build a set.
    """

    name: str
    passages: Passages  # any sequence of passages may be given
    questions: tuple[Question, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "passages", Passages.of(self.passages))
        if repeated := self.passages.repeated:
            raise ValueError(f"{repeated} occurs twice")
        _all_different((question.id for question in self.questions), "question id")
        if (self._relevant_rows < 0).any():
            raise ValueError(self._unknown_passages())

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hexadecimal) of passages and questions, in order; the name is not content."""
        return _sha256(self.corpus_fingerprint, *(question.content for question in self.questions))

    @property
    def corpus_fingerprint(self) -> str:
        """sha256 (hexadecimal) of the passages alone, the key of everything built from the corpus."""
        return self.passages.fingerprint

    @property
    def row_of_passage(self) -> RowOfId:
        """Row of the corpus by passage id."""
        return self.passages.row_of

    @cached_property
    def relevance(self) -> csr_array:
        """Boolean `(n_questions, n_passages)`: which passages are relevant to which question."""
        lengths = [len(question.relevant) for question in self.questions]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        shape = (len(self.questions), len(self.passages))
        columns = self._relevant_rows
        matrix = csr_array((np.ones(len(columns), dtype=bool), columns, indptr), shape=shape)
        matrix.sum_duplicates()
        return matrix

    @cached_property
    def answerable(self) -> np.ndarray:
        """Rows of the questions with at least one relevant passage, `(n,)` int64."""
        return np.flatnonzero(np.diff(self.relevance.indptr))

    @cached_property
    def made(self) -> dict[str, int]:
        """How many questions were made of passages, by how, the most frequent first; empty where people asked all."""
        return dict(Counter(question.made for question in self.questions if question.made).most_common())

    def with_questions(self, rows: Sequence[int] | np.ndarray) -> "QuestionSet":
        """Return the same corpus with only the questions at `rows`, in that order."""
        return replace(self, questions=tuple(self.questions[int(row)] for row in rows))

    @cached_property
    def _relevant_rows(self) -> np.ndarray:
        """Rows of the relevant passages of one question after the other, -1 where there is no such passage."""
        return self.passages.row_of.rows([id_ for question in self.questions for id_ in question.relevant])

    def _unknown_passages(self) -> str:
        for question in self.questions:
            if unknown := [id_ for id_ in question.relevant if id_ not in self.row_of_passage]:
                return f"question {question.id!r} names unknown passages {unknown}"
        return ""


def _all_different(values: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{what} {value[:80]!r} occurs twice")
        seen.add(value)


def _sha256(*parts: object) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(json.dumps(part, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()
