"""The train, validation and test parts of a question set, as published or drawn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from scipy.sparse import csr_array

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split.partition import (
    FEWEST_QUESTIONS,
    draw_groups,
    least_questions,
    least_shared,
    linked_passages,
    passage_groups,
    shared_questions,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FEWEST_QUESTIONS", "PARTS", "Part", "Split", "SplitMethod", "SplitOptions", "few_questions", "parts_table",
    "passage_groups", "split", "split_table",
]  # fmt: skip

Draw = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]  # of rows, so many: positions among them


class Part(StrEnum):
    """Which questions are asked. The corpus searched is always whole."""

    ALL = "all"
    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


PARTS = (Part.TRAIN, Part.VALIDATION, Part.TEST)  # what a set is divided into
Rows = dict[Part, np.ndarray]


class SplitMethod(StrEnum):
    """How the parts came about: published, by group of passages, with few shared passages, or question by question."""

    PUBLISHED = "published"
    GROUPED = "grouped"
    MINIMUM_LEAKAGE = "minimum_leakage"
    BY_QUESTION = "by_question"


@dataclass(frozen=True)
class SplitOptions:
    """Fractions for validation and test; a `strict` split is by group whatever that leaves in a part."""

    validation: float = 0.1
    test: float = 0.2
    seed: int = 0
    strict: bool = False

    def __post_init__(self) -> None:
        # written this way round, a share that is not a number is refused too
        if not (self.validation >= 0 and self.test >= 0 and self.validation + self.test < 1):
            raise ValueError("validation and test must each be a fraction of 0 or more, with a sum below 1")
        if self.seed < 0:
            raise ValueError(f"the seed must be 0 or more, not {self.seed}")


@dataclass(frozen=True)
class Split:
    """Rows of a set's answerable questions by part, and the group every passage belongs to.

    `published_as` is the part that each published part is used as; empty if the split is drawn. `leaks` counts the test
    questions that share a relevant passage with a training question.
    """

    options: SplitOptions
    group_of_passage: np.ndarray = field(repr=False)  # (n_passages,) int32
    rows: Rows = field(repr=False)  # ascending question rows
    group_counts: dict[Part, int] = field(default_factory=dict)
    by_article: bool = False  # whether any title is known; else a group is a passage, or those that share a question
    method: SplitMethod = SplitMethod.GROUPED
    leaks: int = 0
    published_as: Mapping[str, Part] = field(default_factory=dict)

    @property
    def is_published(self) -> bool:
        return self.method is SplitMethod.PUBLISHED

    @property
    def draws_validation(self) -> bool:
        """Whether the validation questions of a published split are drawn from its training questions."""
        has_validation = Part.VALIDATION in self.published_as.values()
        return self.is_published and not has_validation and len(self.rows[Part.VALIDATION]) > 0

    @property
    def tests_on_validation(self) -> bool:
        return self.published_as.get(Part.VALIDATION) is Part.TEST

    @property
    def description(self) -> str:
        """How the parts came about, for the terminal and files; pages have words of their own."""
        seed, tested = self.options.seed, len(self.rows[Part.TEST])
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
    """Return the warning that so few questions are too few, in English; empty if they are enough."""
    if count >= FEWEST_QUESTIONS:
        return ""
    return f"Too few {what}: {count}. With fewer than {FEWEST_QUESTIONS}, most differences are chance."


def split(question_set: QuestionSet, options: SplitOptions | None = None) -> Split:
    """Split the answerable questions as published, else by passage group, seeded.

    Published parts (`Question.part`, two or more) are used, questions without one for training. Without a test part,
    the validation part is the test part. A missing validation part is drawn from the training questions.

    Otherwise a group is an article (passages with one title), or a passage if no title is known; groups that share a
    question are one. Groups are shuffled with `numpy.random.default_rng(seed).permutation`; the first go to test, the
    next to validation. If a part gets fewer questions than `least_questions`, groups are drawn by their number of
    questions, then parts with few shared passages (`data.split.partition`), then single questions.
    """
    options = options or SplitOptions()
    asked = question_set.answerable
    published_as = _published_parts({question_set.questions[int(row)].part for row in asked})
    if published_as:
        return _published(question_set, options, published_as)
    groups = passage_groups(question_set)
    first_relevant = question_set.relevance.indices[question_set.relevance.indptr[asked]]
    group_of_question = groups[first_relevant]
    order = np.random.default_rng(options.seed).permutation(int(groups.max(initial=-1)) + 1)
    n_test, n_validation = (round(share * len(order)) for share in (options.test, options.validation))
    test, validation, train = np.split(order, [n_test, n_test + n_validation])
    members = {Part.ALL: order, Part.TEST: test, Part.VALIDATION: validation, Part.TRAIN: train}
    grouped = Split(
        options=options,
        group_of_passage=groups,
        rows={part: asked[np.isin(group_of_question, chosen)] for part, chosen in members.items()},
        group_counts={part: len(chosen) for part, chosen in members.items()},
        by_article=bool(pc.any(pc.not_equal(question_set.passages.titles.column, "")).as_py()),
    )
    wanted = _wanted(len(asked), {Part.TEST: options.test, Part.VALIDATION: options.validation})
    if options.strict or len(asked) < FEWEST_QUESTIONS:  # of so few questions no part has enough
        return grouped
    if _is_enough({part: len(grouped.rows[part]) for part in PARTS}, wanted):
        return grouped
    return _redrawn(question_set, grouped, wanted)


def _wanted(n_questions: int, shares: Mapping[Part, float]) -> dict[Part, int]:
    """Return how many questions each part has by its share of the questions; the training part has the rest."""
    wanted = {part: round(share * n_questions) for part, share in shares.items()}
    return {**wanted, Part.TRAIN: n_questions - sum(wanted.values())}


def _is_enough(counts: Mapping[Part, int], wanted: Mapping[Part, int]) -> bool:
    return all(counts[part] >= least_questions(count) for part, count in wanted.items())


def _redrawn(question_set: QuestionSet, grouped: Split, wanted: Mapping[Part, int]) -> Split:
    """Draw a split again that grouping leaves too few questions in: by groups if their sizes allow, else without."""
    asked = question_set.answerable
    method, parts = _drawn(question_set, asked, grouped.group_of_passage, wanted, grouped.options.seed)
    rows = {Part.ALL: asked, **{part: asked[chosen] for part, chosen in parts.items()}}
    if method is not SplitMethod.GROUPED:
        return _without_groups(question_set, grouped.options, rows, method)
    groups = grouped.group_of_passage
    relevance = question_set.relevance
    held = {part: len(np.unique(groups[relevance[rows[part]].indices])) for part in (Part.TEST, Part.VALIDATION)}
    n_groups = grouped.group_counts[Part.ALL]
    counts = {Part.ALL: n_groups, Part.TRAIN: n_groups - sum(held.values()), **held}
    return replace(grouped, rows=rows, group_counts=counts)


def _drawn(
    question_set: QuestionSet, asked: np.ndarray, groups: np.ndarray, wanted: Mapping[Part, int], seed: int
) -> tuple[SplitMethod, Rows]:
    """Draw parts of the questions at rows `asked` with the least leakage; returns how, and positions in `asked`."""
    relevance = question_set.relevance[asked]
    first = relevance.indices[relevance.indptr[:-1]]
    order = np.random.default_rng(seed).permutation(len(question_set.passages))
    linked = linked_passages(relevance)
    for labels, method in ((groups, SplitMethod.GROUPED), (linked, SplitMethod.MINIMUM_LEAKAGE)):
        parts = _in_turn(wanted, len(asked), _by_groups(labels[first], order), seed)
        if _is_enough({part: len(rows) for part, rows in parts.items()}, wanted):
            return method, parts
    grown = _in_turn(wanted, len(asked), lambda rows, n, rng: least_shared(relevance[rows], n, rng), seed)
    single = _in_turn(wanted, len(asked), lambda rows, n, rng: np.sort(rng.permutation(len(rows))[:n]), seed)
    if _held_out_leaks(relevance, grown) < _held_out_leaks(relevance, single):
        return SplitMethod.MINIMUM_LEAKAGE, grown
    return SplitMethod.BY_QUESTION, single


def _by_groups(groups: np.ndarray, order: np.ndarray) -> Draw:
    return lambda rows, n, _: np.flatnonzero(np.isin(groups[rows], draw_groups(groups[rows], n, order)))


def _in_turn(wanted: Mapping[Part, int], n_questions: int, draw: Draw, seed: int) -> Rows:
    """Draw each part from what the parts before it left, the training part last; returns positions."""
    rng, left = np.random.default_rng(seed), np.arange(n_questions)
    parts: Rows = {}
    for part, count in wanted.items():
        if part is not Part.TRAIN:
            parts[part] = left[draw(left, count, rng)]
            left = np.setdiff1d(left, parts[part])
    return {**parts, Part.TRAIN: left}


def _held_out_leaks(relevance: csr_array, parts: Mapping[Part, np.ndarray]) -> int:
    held_out = [rows for part, rows in parts.items() if part is not Part.TRAIN]
    return sum(shared_questions(relevance, rows, parts[Part.TRAIN]) for rows in held_out)


def _without_groups(question_set: QuestionSet, options: SplitOptions, rows: Rows, method: SplitMethod) -> Split:
    """Return a split whose parts may share passages: each passage is a group, and shared ones are counted."""
    relevance = question_set.relevance
    return Split(
        options=options,
        group_of_passage=np.arange(len(question_set.passages), dtype=np.int32),
        rows=rows,
        group_counts={part: len(np.unique(relevance[of].indices)) for part, of in rows.items()},
        method=method,
        leaks=shared_questions(relevance, rows[Part.TEST], rows[Part.TRAIN]),
    )


def _published_parts(labels: set[str]) -> dict[str, Part]:
    """Return the part that each published part is used as, "" included; empty if there are fewer than two."""
    parts = {label: Part(label) if label else Part.TRAIN for label in sorted(labels)}
    if labels == {""} or len(set(parts.values())) < 2:
        return {}
    if Part.TEST not in parts.values():
        parts[Part.VALIDATION] = Part.TEST
    return parts


def _published(question_set: QuestionSet, options: SplitOptions, published_as: Mapping[str, Part]) -> Split:
    """Return the parts as published, with validation questions from the training questions if none are published."""
    asked = question_set.answerable
    part_of = np.array([published_as[question_set.questions[int(row)].part].value for row in asked])
    rows = {Part.ALL: asked, **{part: asked[part_of == part.value] for part in PARTS}}
    train = rows[Part.TRAIN]
    if Part.VALIDATION not in published_as.values() and len(train):
        share = options.validation / (1 - options.test)  # of the training questions
        wanted = _wanted(len(train), {Part.VALIDATION: share})
        drawn = _drawn(question_set, train, passage_groups(question_set), wanted, options.seed)[1]
        rows |= {part: train[chosen] for part, chosen in drawn.items()}
    found = _without_groups(question_set, options, rows, SplitMethod.PUBLISHED)
    return replace(found, published_as=published_as)


def parts_table(found: Split) -> "pd.DataFrame":
    """Tell the parts of a split: columns "part", "groups", "share" of the groups, and "questions"."""
    import pandas as pd  # only tables need it

    all_groups = max(1, found.group_counts[Part.ALL])
    counts = [(part, found.group_counts[part], len(found.rows[part])) for part in PARTS]
    rows = [(part.value, groups, groups / all_groups, questions) for part, groups, questions in counts]
    return pd.DataFrame(rows, columns=["part", "groups", "share", "questions"])


def split_table(question_set: QuestionSet, found: Split) -> "pd.DataFrame":
    """Tell the part of every answerable question, in the set's order: columns "question_id" and "part"."""
    import pandas as pd

    parts = sorted((int(row), part.value) for part in PARTS for row in found.rows[part])
    rows = [(question_set.questions[row].id, part) for row, part in parts]
    return pd.DataFrame(rows, columns=["question_id", "part"])
