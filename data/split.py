"""Splits and folds by passage group, so that no passage of a test question is ever trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np
import pyarrow.compute as pc
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from data.records import QuestionSet, composed

FOLDS = 5


class Part(StrEnum):
    """Which questions are asked. The corpus searched is always whole."""

    ALL = "all"
    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


PARTS = (Part.TRAIN, Part.VALIDATION, Part.TEST)  # what a set is divided into


@dataclass(frozen=True)
class SplitOptions:
    """Shares of the passage groups (0 to 1) for validation and test; the rest is for training."""

    validation: float = 0.1
    test: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        # written this way round, a share that is not a number is refused too
        if not (self.validation >= 0 and self.test >= 0 and self.validation + self.test < 1):
            raise ValueError("validation and test must be shares of 0 or more that leave something to train on")
        if self.seed < 0:
            raise ValueError(f"the seed must be 0 or more, not {self.seed}")


@dataclass(frozen=True)
class Split:
    """Rows of a set's answerable questions by part, and the group every passage belongs to."""

    options: SplitOptions
    group_of_passage: np.ndarray = field(repr=False)  # (n_passages,) int32
    rows: dict[Part, np.ndarray] = field(repr=False)  # ascending question rows
    group_counts: dict[Part, int] = field(default_factory=dict)
    by_article: bool = False  # whether any title is known; else a group is a passage, or those that share a question

    def questions(self, question_set: QuestionSet, part: Part) -> QuestionSet:
        return question_set.with_questions(self.rows[part])


def split(question_set: QuestionSet, options: SplitOptions | None = None) -> Split:
    """Split the answerable questions by passage group, seeded.

    A group is an article (passages with one title), or a passage alone where no title is known; groups that share
    a question are one. Groups are shuffled with `numpy.random.default_rng(seed).permutation`; the first go to test,
    the next to validation.
    """
    options = options or SplitOptions()
    groups = passage_groups(question_set)
    asked = question_set.answerable
    first_relevant = question_set.relevance.indices[question_set.relevance.indptr[asked]]
    group_of_question = groups[first_relevant]
    order = np.random.default_rng(options.seed).permutation(int(groups.max(initial=-1)) + 1)
    n_test, n_validation = (round(share * len(order)) for share in (options.test, options.validation))
    members = {
        Part.ALL: order,
        Part.TEST: order[:n_test],
        Part.VALIDATION: order[n_test : n_test + n_validation],
        Part.TRAIN: order[n_test + n_validation :],
    }
    return Split(
        options=options,
        group_of_passage=groups,
        rows={part: asked[np.isin(group_of_question, chosen)] for part, chosen in members.items()},
        group_counts={part: len(chosen) for part, chosen in members.items()},
        by_article=bool(pc.any(pc.not_equal(question_set.passages.titles.column, "")).as_py()),
    )


def passage_groups(question_set: QuestionSet) -> np.ndarray:
    """Number the groups of the passages, `(n_passages,)` int32, in order of first appearance."""
    n = len(question_set.passages)
    titles = question_set.passages.titles
    number = np.asarray(titles.column.combine_chunks().dictionary_encode().indices)
    _, first_of_title = np.unique(number, return_index=True)
    is_known = np.asarray(pc.not_equal(titles.column, ""))
    same_title = np.where(is_known, first_of_title[number], np.arange(n))
    relevance = question_set.relevance
    lengths = np.diff(relevance.indptr)
    starts = np.repeat(relevance.indptr[:-1][lengths > 0], lengths[lengths > 0])
    sources = np.concatenate([np.arange(n), relevance.indices[starts]])
    targets = np.concatenate([same_title, relevance.indices])
    links = coo_array((np.ones(len(sources), dtype=np.int8), (sources, targets)), shape=(n, n))
    labels = connected_components(links, directed=False)[1]
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first)).astype(np.int32)[inverse]


@dataclass(frozen=True)
class Lessons:
    """Questions whose relevant passages are known, and the fold of each, `(n_questions,)`, 0 to `FOLDS` - 1.

    Questions with one text are in one fold, and so are all whose passages are of one group, unless there is but one.
    `known` `(n_questions,)` bool are those that signals were trained on.
    """

    question_set: QuestionSet
    folds: np.ndarray
    known: np.ndarray

    @classmethod
    def of(cls, question_set: QuestionSet, rows: np.ndarray, known: np.ndarray | None = None) -> "Lessons":
        """Teach with the questions at `rows`, answerable ones; signals were trained on those at the rows `known`."""
        taught = question_set.with_questions(rows)
        groups = passage_groups(question_set) if len(rows) else np.zeros(0, dtype=np.int64)
        relevance = taught.relevance
        first = relevance.indices[relevance.indptr[:-1]] if len(rows) else np.zeros(0, dtype=np.int64)
        of_question = groups[first]
        if len(np.unique(of_question)) < FOLDS:
            of_question = first  # one article, or few: a fold is of passages then
        folds = _folds(of_question, [composed(question.text) for question in taught.questions])
        return cls(taught, folds, np.isin(rows, [] if known is None else known))

    def some(self, rows: np.ndarray) -> "Lessons":
        return Lessons(self.question_set.with_questions(rows), self.folds[rows], self.known[rows])

    @cached_property
    def texts(self) -> list[str]:
        return [question.text for question in self.question_set.questions]

    @cached_property
    def fold_of(self) -> Mapping[str, int]:
        """The fold of each text, as `composed` tells texts apart."""
        return dict(zip(map(composed, self.texts), self.folds.tolist(), strict=True))


def _folds(groups: np.ndarray, texts: Sequence[str]) -> np.ndarray:
    """Number the folds: groups, drawn in a fixed order, each into the fold with the fewest questions."""
    names, number, counts = np.unique(groups, return_inverse=True, return_counts=True)
    fold_of_group, sizes = np.zeros(len(names), dtype=np.int64), np.zeros(FOLDS, dtype=np.int64)
    for group in np.random.default_rng(0).permutation(len(names)):
        fold_of_group[group] = sizes.argmin()
        sizes[fold_of_group[group]] += counts[group]
    folds = fold_of_group[number]
    first: dict[str, int] = {}
    return np.array(
        [first.setdefault(text, int(fold)) for text, fold in zip(texts, folds, strict=True)], dtype=np.int64
    )
