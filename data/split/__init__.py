"""Splits a question set into train, validation and test parts, as published or at random."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from scipy.sparse import csr_array

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import partition
from mrc_workbench.data.split.partition import MIN_QUESTIONS, passage_groups

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MIN_QUESTIONS", "PARTS", "Part", "Split", "SplitMethod", "SplitOptions", "few_questions", "parts_table",
    "passage_groups", "split", "split_table",
]  # fmt: skip

Sampler = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]  # takes rows and a count, returns positions


class Part(StrEnum):
    """A part of the questions. The corpus is always complete."""

    ALL = "all"
    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


PARTS = (Part.TRAIN, Part.VALIDATION, Part.TEST)
Rows = dict[Part, np.ndarray]


class SplitMethod(StrEnum):
    """How a split is made: published, by group of passages, with few shared passages, or question by question."""

    PUBLISHED = "published"
    GROUPED = "grouped"
    MINIMUM_LEAKAGE = "minimum_leakage"
    BY_QUESTION = "by_question"


@dataclass(frozen=True)
class SplitOptions:
    """Fractions for validation and test. A `strict` split is always by group, also if a part gets few questions."""

    validation: float = 0.1
    test: float = 0.2
    seed: int = 0
    strict: bool = False

    def __post_init__(self) -> None:
        # this form also rejects NaN
        if not (self.validation >= 0 and self.test >= 0 and self.validation + self.test < 1):
            raise ValueError("validation and test must each be a fraction of 0 or more, with a sum below 1")
        if self.seed < 0:
            raise ValueError(f"the seed must be 0 or more, not {self.seed}")


@dataclass(frozen=True)
class Split:
    """Rows of a set's answerable questions by part, and the group of every passage.

    `published_as` maps published parts to their use; it is empty for other splits. `leaks` counts the test questions
    that share a relevant passage with a training question.
    """

    options: SplitOptions
    group_of_passage: np.ndarray = field(repr=False)  # (n_passages,) int32
    rows: Rows = field(repr=False)  # ascending question rows
    group_counts: dict[Part, int] = field(default_factory=dict)
    by_article: bool = False  # some passages have a title; else groups are passages linked by questions
    method: SplitMethod = SplitMethod.GROUPED
    leaks: int = 0
    published_as: Mapping[str, Part] = field(default_factory=dict)

    @property
    def is_published(self) -> bool:
        return self.method is SplitMethod.PUBLISHED

    @property
    def draws_validation(self) -> bool:
        """Whether the validation questions of a published split come from its training questions."""
        has_validation = Part.VALIDATION in self.published_as.values()
        return self.is_published and not has_validation and len(self.rows[Part.VALIDATION]) > 0

    @property
    def tests_on_validation(self) -> bool:
        return self.published_as.get(Part.VALIDATION) is Part.TEST

    @property
    def description(self) -> str:
        """The method in words, for the terminal and files."""
        seed = self.options.seed
        tested = len(self.rows[Part.TEST])
        described = {
            SplitMethod.PUBLISHED: "as published",
            SplitMethod.GROUPED: f"drawn by {'article' if self.by_article else 'passage'}, seed {seed}",
            SplitMethod.MINIMUM_LEAKAGE: f"drawn so that parts share few passages, seed {seed}",
            SplitMethod.BY_QUESTION: f"drawn question by question, seed {seed}",
        }[self.method]
        if self.tests_on_validation:
            described += ", the validation part as test part"
        if self.draws_validation:
            described += f", validation questions drawn from the training questions, seed {seed}"
        if self.method is not SplitMethod.GROUPED:
            shared = "share a relevant passage with a training question"
            described += f"; {self.leaks:,} of {tested:,} test questions {shared}"
        return described

    def summary(self) -> dict[str, object]:
        return {
            "method": self.method.value,
            "published": self.is_published,
            "description": self.description,
            "questions": {part.value: len(rows) for part, rows in self.rows.items()},
            "shared_test_questions": self.leaks,
        }

    def questions(self, question_set: QuestionSet, part: Part) -> QuestionSet:
        return question_set.with_questions(self.rows[part])


def few_questions(count: int, what: str) -> str:
    """Return an English warning for fewer than `MIN_QUESTIONS` questions, else ""."""
    if count >= MIN_QUESTIONS:
        return ""
    return f"Too few {what}: {count}. With fewer than {MIN_QUESTIONS}, most differences are chance."


def split(question_set: QuestionSet, options: SplitOptions | None = None) -> Split:
    """Split the answerable questions as published, else by passage group, seeded.

    Two or more published parts (`Question.part`) are used; other questions are for training. Without a test part, the
    validation part is the test part. A missing validation part is drawn from the training questions.

    Otherwise a group is an article (passages with the same title), or a passage without a title; groups that share a
    question are merged. Groups are shuffled with `numpy.random.default_rng(seed).permutation`; the first go to test,
    the next to validation. If a part gets fewer than `min_questions`, groups are drawn by their number of questions,
    then parts with few shared passages (`data.split.partition`), then single questions.
    """
    options = options or SplitOptions()
    answerable = question_set.answerable
    published_as = _published_parts({question_set.questions[int(row)].part for row in answerable})
    if published_as:
        return _split_as_published(question_set, options, published_as)
    groups = passage_groups(question_set)
    first_relevant = question_set.relevance.indices[question_set.relevance.indptr[answerable]]
    group_of_question = groups[first_relevant]
    order = np.random.default_rng(options.seed).permutation(int(groups.max(initial=-1)) + 1)
    n_test, n_validation = (round(fraction * len(order)) for fraction in (options.test, options.validation))
    test, validation, train = np.split(order, [n_test, n_test + n_validation])
    groups_by_part = {Part.ALL: order, Part.TEST: test, Part.VALIDATION: validation, Part.TRAIN: train}
    grouped = Split(
        options=options,
        group_of_passage=groups,
        rows={part: answerable[np.isin(group_of_question, selected)] for part, selected in groups_by_part.items()},
        group_counts={part: len(selected) for part, selected in groups_by_part.items()},
        by_article=bool(pc.any(pc.not_equal(question_set.passages.titles.column, "")).as_py()),
    )
    target_counts = _target_counts(len(answerable), {Part.TEST: options.test, Part.VALIDATION: options.validation})
    if options.strict or len(answerable) < MIN_QUESTIONS:  # no part of so few questions has enough
        return grouped
    if _has_enough_questions({part: len(grouped.rows[part]) for part in PARTS}, target_counts):
        return grouped
    return _resample_split(question_set, grouped, target_counts)


def _target_counts(n_questions: int, fractions: Mapping[Part, float]) -> dict[Part, int]:
    counts = {part: round(fraction * n_questions) for part, fraction in fractions.items()}
    return {**counts, Part.TRAIN: n_questions - sum(counts.values())}


def _has_enough_questions(counts: Mapping[Part, int], target_counts: Mapping[Part, int]) -> bool:
    return all(counts[part] >= partition.min_questions(count) for part, count in target_counts.items())


def _resample_split(question_set: QuestionSet, grouped: Split, target_counts: Mapping[Part, int]) -> Split:
    """Sample a split with too small parts again: by groups if their sizes allow this, else without groups."""
    answerable = question_set.answerable
    groups = grouped.group_of_passage
    method, parts = _sample_parts(question_set, answerable, groups, target_counts, grouped.options.seed)
    rows = {Part.ALL: answerable, **{part: answerable[selected] for part, selected in parts.items()}}
    if method is not SplitMethod.GROUPED:
        return _ungrouped_split(question_set, grouped.options, rows, method)
    relevance = question_set.relevance
    held_out = {part: len(np.unique(groups[relevance[rows[part]].indices])) for part in (Part.TEST, Part.VALIDATION)}
    n_groups = grouped.group_counts[Part.ALL]
    counts = {Part.ALL: n_groups, Part.TRAIN: n_groups - sum(held_out.values()), **held_out}
    return replace(grouped, rows=rows, group_counts=counts)


def _sample_parts(
    question_set: QuestionSet,
    question_rows: np.ndarray,
    groups: np.ndarray,
    target_counts: Mapping[Part, int],
    seed: int,
) -> tuple[SplitMethod, Rows]:
    """Sample parts of the questions at `question_rows` with the least leakage; returns positions in these rows."""
    relevance = question_set.relevance[question_rows]
    first = relevance.indices[relevance.indptr[:-1]]
    order = np.random.default_rng(seed).permutation(len(question_set.passages))
    linked = partition.linked_passages(relevance)

    def sample(sampler: Sampler) -> Rows:
        return _sample_in_order(target_counts, len(question_rows), sampler, seed)

    for labels, method in ((groups, SplitMethod.GROUPED), (linked, SplitMethod.MINIMUM_LEAKAGE)):
        parts = sample(_group_sampler(labels[first], order))
        if _has_enough_questions({part: len(rows) for part, rows in parts.items()}, target_counts):
            return method, parts
    grown = sample(lambda rows, n, rng: partition.select_least_shared(relevance[rows], n, rng))
    single = sample(lambda rows, n, rng: np.sort(rng.permutation(len(rows))[:n]))
    if _count_held_out_leaks(relevance, grown) < _count_held_out_leaks(relevance, single):
        return SplitMethod.MINIMUM_LEAKAGE, grown
    return SplitMethod.BY_QUESTION, single


def _group_sampler(groups: np.ndarray, order: np.ndarray) -> Sampler:
    return lambda rows, n, _: np.flatnonzero(np.isin(groups[rows], partition.select_groups(groups[rows], n, order)))


def _sample_in_order(target_counts: Mapping[Part, int], n_questions: int, sampler: Sampler, seed: int) -> Rows:
    """Sample each part from the remaining questions, the training part last; returns positions."""
    rng = np.random.default_rng(seed)
    remaining = np.arange(n_questions)
    parts: Rows = {}
    for part, count in target_counts.items():
        if part is not Part.TRAIN:
            parts[part] = remaining[sampler(remaining, count, rng)]
            remaining = np.setdiff1d(remaining, parts[part])
    return {**parts, Part.TRAIN: remaining}


def _count_held_out_leaks(relevance: csr_array, parts: Mapping[Part, np.ndarray]) -> int:
    held_out = [rows for part, rows in parts.items() if part is not Part.TRAIN]
    return sum(partition.count_shared_questions(relevance, rows, parts[Part.TRAIN]) for rows in held_out)


def _ungrouped_split(question_set: QuestionSet, options: SplitOptions, rows: Rows, method: SplitMethod) -> Split:
    relevance = question_set.relevance
    return Split(
        options=options,
        group_of_passage=np.arange(len(question_set.passages), dtype=np.int32),
        rows=rows,
        group_counts={part: len(np.unique(relevance[part_rows].indices)) for part, part_rows in rows.items()},
        method=method,
        leaks=partition.count_shared_questions(relevance, rows[Part.TEST], rows[Part.TRAIN]),
    )


def _published_parts(labels: set[str]) -> dict[str, Part]:
    """Map published parts, and "", to the parts of a split; empty for fewer than two parts."""
    parts = {label: Part(label) if label else Part.TRAIN for label in sorted(labels)}
    if labels == {""} or len(set(parts.values())) < 2:
        return {}
    if Part.TEST not in parts.values():
        parts[Part.VALIDATION] = Part.TEST
    return parts


def _split_as_published(question_set: QuestionSet, options: SplitOptions, published_as: Mapping[str, Part]) -> Split:
    answerable = question_set.answerable
    part_of = np.array([published_as[question_set.questions[int(row)].part].value for row in answerable])
    rows = {Part.ALL: answerable, **{part: answerable[part_of == part.value] for part in PARTS}}
    train = rows[Part.TRAIN]
    if Part.VALIDATION not in published_as.values() and len(train):
        fraction = options.validation / (1 - options.test)  # of the training questions
        target_counts = _target_counts(len(train), {Part.VALIDATION: fraction})
        sampled = _sample_parts(question_set, train, passage_groups(question_set), target_counts, options.seed)[1]
        rows |= {part: train[selected] for part, selected in sampled.items()}
    return replace(_ungrouped_split(question_set, options, rows, SplitMethod.PUBLISHED), published_as=published_as)


def parts_table(question_split: Split) -> "pd.DataFrame":
    """Return a row per part of a split: columns "part", "groups", "share" of the groups, and "questions"."""
    import pandas as pd  # only tables need pandas

    all_groups = max(1, question_split.group_counts[Part.ALL])
    counts = [(part, question_split.group_counts[part], len(question_split.rows[part])) for part in PARTS]
    rows = [(part.value, groups, groups / all_groups, questions) for part, groups, questions in counts]
    return pd.DataFrame(rows, columns=["part", "groups", "share", "questions"])


def split_table(question_set: QuestionSet, question_split: Split) -> "pd.DataFrame":
    """Return a row per answerable question, in the set's order: columns "question_id" and "part"."""
    import pandas as pd

    parts = sorted((int(row), part.value) for part in PARTS for row in question_split.rows[part])
    rows = [(question_set.questions[row].id, part) for row, part in parts]
    return pd.DataFrame(rows, columns=["question_id", "part"])
