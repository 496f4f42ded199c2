"""The folds of cross-validation."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.records import QuestionSet, composed
from mrc_workbench.data.split.partition import least_shared, shared_questions
from mrc_workbench.data.split.parts import least_questions, linked_passages, passage_groups

FOLDS = 5


@dataclass(frozen=True)
class Lessons:
    """Questions whose relevant passages are known, and the fold of each, `(n_questions,)`, 0 to `FOLDS` - 1.

    Questions with one text are in one fold, and so are all whose passages are of one group. If groups leave too few
    questions outside a fold, folds share as few passages as possible, or questions are drawn one by one, as in `split`.
    `known` `(n_questions,)` bool are those that signals were trained on.
    """

    question_set: QuestionSet
    folds: np.ndarray
    known: np.ndarray

    @classmethod
    def of(cls, question_set: QuestionSet, rows: np.ndarray, known: np.ndarray | None = None) -> "Lessons":
        """Teach with the questions at `rows`, answerable ones; signals were trained on those at the rows `known`."""
        taught = question_set.with_questions(rows)
        folds = _folds(taught) if len(rows) else np.zeros(0, dtype=np.int64)
        return cls(taught, folds, np.isin(rows, [] if known is None else known))

    def some(self, rows: np.ndarray) -> "Lessons":
        return Lessons(self.question_set.with_questions(rows), self.folds[rows], self.known[rows])

    @cached_property
    def texts(self) -> list[str]:
        return [question.text for question in self.question_set.questions]

    @property
    def leaks(self) -> int:
        """How many questions share a relevant passage with a question of another fold."""
        return _fold_leaks(self.question_set.relevance, self.folds)

    @cached_property
    def fold_of(self) -> Mapping[str, int]:
        """The fold of each text, as `composed` tells texts apart."""
        return dict(zip(map(composed, self.texts), self.folds.tolist(), strict=True))


def _folds(taught: QuestionSet) -> np.ndarray:
    """Number the folds of answerable questions."""
    relevance, n_questions = taught.relevance, len(taught.questions)
    first = relevance.indices[relevance.indptr[:-1]]
    groups = passage_groups(taught)[first]
    if len(np.unique(groups)) < FOLDS:
        groups = linked_passages(relevance)[first]  # one article, or few: a fold is of passages then
    folds = _grouped_folds(groups)
    if n_questions - int(np.bincount(folds).max()) < least_questions(n_questions - n_questions // FOLDS):
        folds = _ungrouped_folds(relevance)
    first_of_text: dict[str, int] = {}
    texts = [composed(question.text) for question in taught.questions]
    return np.array([first_of_text.setdefault(text, int(fold)) for text, fold in zip(texts, folds, strict=True)])


def _grouped_folds(groups: np.ndarray) -> np.ndarray:
    """Put groups, drawn in a fixed order, each into the fold with the fewest questions."""
    names, number, counts = np.unique(groups, return_inverse=True, return_counts=True)
    fold_of_group, sizes = np.zeros(len(names), dtype=np.int64), np.zeros(FOLDS, dtype=np.int64)
    for group in np.random.default_rng(0).permutation(len(names)):
        fold_of_group[group] = sizes.argmin()
        sizes[fold_of_group[group]] += counts[group]
    folds: np.ndarray = fold_of_group[number]
    return folds


def _ungrouped_folds(relevance: csr_array) -> np.ndarray:
    """Draw folds that share few passages; if that leaks no less, draw questions one by one."""
    n_questions = relevance.shape[0]
    drawn = np.zeros(n_questions, dtype=np.int64)
    drawn[np.random.default_rng(0).permutation(n_questions)] = np.arange(n_questions) % FOLDS
    grown = np.full(n_questions, FOLDS - 1, dtype=np.int64)
    left, rng = np.arange(n_questions), np.random.default_rng(0)
    for fold in range(FOLDS - 1):
        rows = left[least_shared(relevance[left], len(left) // (FOLDS - fold), rng)]
        grown[rows] = fold
        left = np.setdiff1d(left, rows)
    return grown if _fold_leaks(relevance, grown) < _fold_leaks(relevance, drawn) else drawn


def _fold_leaks(relevance: csr_array, folds: np.ndarray) -> int:
    inside = (np.flatnonzero(folds == fold) for fold in range(FOLDS))
    return sum(shared_questions(relevance, rows, np.setdiff1d(np.arange(len(folds)), rows)) for rows in inside)
