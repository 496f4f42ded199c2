"""The carriers every room shares: a passage, a question, and the set that binds them."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array


@dataclass(frozen=True, slots=True)
class Passage:
    """One text that can be found. `title` is the article it comes from, empty where unknown."""

    id: str
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One question, the texts that answer it, and the ids of the passages that hold an answer.

    `relevant` is empty for an unanswerable question. `kind` is the question type where the data names one.
    """

    id: str
    text: str
    answers: tuple[str, ...] = ()
    relevant: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True)
class QuestionSet:
    """Questions over a corpus. Ids are unique, passage texts differ, every relevant id exists.

    Raises `ValueError` where that does not hold: readers mend or reject rows before they build a set.
    """

    name: str
    passages: tuple[Passage, ...]
    questions: tuple[Question, ...]

    def __post_init__(self) -> None:
        _all_different((passage.id for passage in self.passages), "passage id")
        _all_different((passage.text for passage in self.passages), "passage text")
        _all_different((question.id for question in self.questions), "question id")
        for question in self.questions:
            if unknown := [id_ for id_ in question.relevant if id_ not in self.row_of_passage]:
                raise ValueError(f"question {question.id!r} names unknown passages {unknown}")

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hexadecimal) of passages and questions, in order; the name is not content."""
        return _sha256(
            self.corpus_fingerprint,
            *((q.id, q.text, q.answers, q.relevant, q.kind) for q in self.questions),
        )

    @cached_property
    def corpus_fingerprint(self) -> str:
        """sha256 (hexadecimal) of the passages alone, the key of everything built from the corpus."""
        return _sha256(*((p.id, p.text, p.title) for p in self.passages))

    @cached_property
    def row_of_passage(self) -> dict[str, int]:
        """Row of the corpus by passage id."""
        return {passage.id: row for row, passage in enumerate(self.passages)}

    @cached_property
    def relevance(self) -> csr_array:
        """Boolean `(n_questions, n_passages)`: which passages are relevant to which question."""
        lengths = [len(question.relevant) for question in self.questions]
        columns = [self.row_of_passage[id_] for question in self.questions for id_ in question.relevant]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        shape = (len(self.questions), len(self.passages))
        matrix = csr_array((np.ones(len(columns), dtype=bool), columns, indptr), shape=shape)
        matrix.sum_duplicates()
        return matrix

    @cached_property
    def answerable(self) -> np.ndarray:
        """Rows of the questions with at least one relevant passage, `(n,)` int64."""
        return np.flatnonzero(np.diff(self.relevance.indptr))

    def with_questions(self, rows: Sequence[int] | np.ndarray) -> "QuestionSet":
        """Return the same corpus with only the questions at `rows`, in that order."""
        return replace(self, questions=tuple(self.questions[int(row)] for row in rows))


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
