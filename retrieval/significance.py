"""Confidence intervals of metrics, and tests of differences, over groups of questions about the same passages.

The statistic of a difference is t = |sum over groups| / root of the sum of squares over groups. Under the null
hypothesis the two retrievers can be swapped within any group, which flips the sign of the group's sum and keeps the
denominator (Smucker, Allan & Carterette 2007). Whole groups are resampled (the cluster bootstrap: Davison & Hinkley
1997, 3.8). Differences of a family share the null distribution of its largest statistic (the single-step maxT procedure
of Westfall & Young 1993). All random numbers are seeded.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.measures import Scores

LEVEL = 0.95
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
RESAMPLES = 2000
_ROUNDING = 1e-12


def blocks(count: int, columns: int, cells: int) -> Iterator[int]:
    """Yield the sizes of blocks of a matrix's `count` rows with at most so many `cells`, at least a row each."""
    step = max(1, cells // max(1, columns))
    return (min(step, count - start) for start in range(0, count, step))


def group_draws(n_groups: int, sizes: Iterator[int], seed: int = 0, *, by_group: bool = False) -> Iterator[np.ndarray]:
    """Yield counts of groups in bootstrap resamples, `(size, n_groups)`; `by_group` draws resamples together."""
    rng = np.random.default_rng(seed)
    for size in sizes:
        samples = rng.integers(n_groups, size=(n_groups, size) if by_group else (size, n_groups))
        cells = (samples.T if by_group else samples) + np.arange(size)[:, None] * n_groups
        yield np.bincount(cells.ravel(), minlength=size * n_groups).reshape(size, n_groups).astype(np.float64)


def max_t(observed: np.ndarray, largest: np.ndarray, itself: int = 1) -> tuple[np.ndarray, float]:
    """Return the p-values `(m,)` of a family's statistics, and the critical value of its intervals.

    `largest` `(n_permutations,)`, ascending, is the largest statistic of the family in each permutation. `itself` is 1
    if the observed statistics are not among them, else 0. A statistic above the critical value has p below 5 %; with
    few permutations the value is infinite.
    """
    tries = len(largest) + itself
    p = (len(largest) - np.searchsorted(largest, observed) + itself) / tries
    allowed = math.ceil((1 - LEVEL) * tries - itself - _ROUNDING) - 1  # exceedances at p < 5 %
    return p, float(largest[-1 - allowed]) if allowed >= 0 else math.inf


PERMUTATIONS = 10_000
_CELLS = 4_000_000  # of the random matrix in memory
_NEARLY_ONE = 1 - 1e-9  # tolerance of equality


class Interval(NamedTuple):
    """A value and its 95% interval; all NaN if undefined."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PairedTest:
    """The difference a - b with its 95% interval; interval and `p_family` are corrected for the family, `p` is not."""

    a: str
    b: str
    difference: float
    low: float
    high: float
    p: float
    p_family: float

    @property
    def is_significant(self) -> bool:
        return self.p_family < 1 - LEVEL

    @property
    def reversed(self) -> "PairedTest":
        return PairedTest(self.b, self.a, -self.difference, -self.high, -self.low, self.p, self.p_family)


@dataclass(frozen=True, kw_only=True)
class PairTest(PairedTest):
    """The test of two retrievers by a measure, 0 to 1; `wins` counts questions with a higher value of a."""

    measure: str
    wins: int
    ties: int
    losses: int


class Pair(NamedTuple):
    """Two retrievers by name, and their per-question values of a measure, `(n_questions,)`."""

    a: str
    b: str
    measure: str
    values_a: np.ndarray
    values_b: np.ndarray


def question_groups(question_set: QuestionSet) -> np.ndarray:
    """Number the groups of dependent questions, `(n_questions,)` int32, from 0 without gaps.

    A group is all questions that are linked by relevant passages. If more than half of all questions are linked, as in
    TREC collections, a group is the questions with the same relevant passages: tests there are by topic (Sakai 2006;
    Smucker, Allan & Carterette 2007).
    """
    relevance = question_set.relevance
    n_questions, n_passages = relevance.shape
    rows, columns = relevance.tocoo().coords
    size = n_questions + n_passages
    links = coo_array((np.ones(len(rows), dtype=np.int8), (rows, n_questions + columns)), shape=(size, size))
    linked_groups = _renumber(connected_components(links, directed=False)[1][:n_questions])
    is_mostly_linked = n_questions and 2 * np.bincount(linked_groups).max() > n_questions
    return _groups_of_equal_passages(relevance) if is_mostly_linked else linked_groups


def _groups_of_equal_passages(relevance: csr_array) -> np.ndarray:
    """Number the distinct sets of relevant passages; each question without any is a separate group."""
    n_questions = relevance.shape[0]
    group_numbers: dict[bytes, int] = {}
    groups = np.arange(n_questions)
    for row, passages in enumerate(np.split(relevance.indices, relevance.indptr[1:-1])):
        if len(passages):
            groups[row] = group_numbers.setdefault(np.sort(passages).tobytes(), row)
    return _renumber(groups)


def _renumber(labels: np.ndarray) -> np.ndarray:
    numbers: np.ndarray = np.unique(labels, return_inverse=True)[1].astype(np.int32)
    return numbers


def mean_intervals(
    values: np.ndarray, groups: np.ndarray | None = None, *, resamples: int = RESAMPLES, seed: int = 0
) -> np.ndarray:
    """Return 95% percentile bootstrap intervals `(m, 2)` of the column means of `values` `(n_questions, m)`.

    Groups are resampled (the cluster bootstrap: Davison & Hinkley 1997, 3.8), by default single questions. All columns
    share the resamples, so intervals of differences are those of the paired bootstrap (Sakai 2006).
    """
    sums, counts = _sum_by_group(values, groups)
    draws = group_draws(len(counts), blocks(resamples, len(counts), _CELLS), seed)
    means = [(times @ sums) / (times @ counts)[:, None] for times in draws]
    low, high = np.quantile(np.concatenate(means), TAILS, axis=0)
    return np.stack([low, high], axis=1)


def proportion_intervals(values: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """Return `mean_intervals` of values between 0 and 1, corrected if all values are 0 or all are 1.

    There the bootstrap has no variance, so the open end is the exact one of Clopper & Pearson (1934) over the groups:
    300 groups without a miss leave 1.2 %. A single group gives the interval 0 to 1.
    """
    n_groups = len(values) if groups is None else len(np.unique(groups))
    intervals = mean_intervals(values, groups)
    if n_groups == 1:
        intervals[:] = 0, 1
    most_missed = 1 - ((1 - LEVEL) / 2) ** (1 / n_groups)
    intervals[(values == 1).all(axis=0), 0] = 1 - most_missed
    intervals[(values == 0).all(axis=0), 1] = most_missed
    return intervals


def difference_intervals(values: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """Return `mean_intervals` of differences of proportions; a single group gives the interval -1 to 1."""
    n_groups = len(values) if groups is None else len(np.unique(groups))
    return mean_intervals(values, groups) if n_groups > 1 else np.tile([-1.0, 1.0], (values.shape[1], 1))


def intervals_of(scores: Scores, groups: np.ndarray | None = None) -> dict[str, tuple[float, float]]:
    """Return the `proportion_intervals` of every measure by name."""
    values = np.stack(list(scores.per_question.values()), axis=1)
    pairs = proportion_intervals(values, groups).tolist()
    return {measure: (low, high) for measure, (low, high) in zip(scores.per_question, pairs, strict=True)}


def mean_interval(values: np.ndarray, groups: np.ndarray | None = None) -> tuple[float, float]:
    """Return the 95% interval of the mean of per-question values `(n_questions,)`; see `mean_intervals`."""
    ((low, high),) = mean_intervals(values[:, None], groups).tolist()
    return low, high


def pair_tests(
    scores: Mapping[str, Scores],
    measures: Sequence[str],
    groups: np.ndarray | None = None,
    *,
    baseline: str | None = None,
) -> list[PairTest]:
    """Test all pairs of retrievers with scores, or each against the baseline; a measure is a family."""
    pairs = []
    for measure in measures:
        values = {
            name: retriever_scores.per_question[measure]
            for name, retriever_scores in scores.items()
            if measure in retriever_scores.per_question
        }
        name_pairs = combinations(values, 2) if baseline is None else ((name, baseline) for name in values)
        pairs += [Pair(a, b, measure, values[a], values[b]) for a, b in name_pairs if a != b and b in values]
    return paired_tests(pairs, groups)


def paired_tests(pairs: Sequence[Pair], groups: np.ndarray | None = None) -> list[PairTest]:
    """Test these pairs; pairs of a measure are a family."""
    if not pairs:
        return []
    differences = np.stack([pair.values_a - pair.values_b for pair in pairs], axis=1)
    measures = [*dict.fromkeys(pair.measure for pair in pairs)]
    families = np.array([measures.index(pair.measure) for pair in pairs])
    tests = family_tests(*_sum_by_group(differences, groups), families)
    signs = [sign(differences, 0).sum(axis=0) for sign in (np.greater, np.equal, np.less)]
    means = np.array([column.mean() for column in differences.T])
    columns = [column.tolist() for column in (means, tests.low, tests.high, tests.p, tests.p_family, *signs)]
    return [
        PairTest(pair.a, pair.b, *numbers, measure=pair.measure, wins=wins, ties=ties, losses=losses)
        for pair, *numbers, wins, ties, losses in zip(pairs, *columns, strict=True)
    ]


def holm(p: np.ndarray) -> np.ndarray:
    """Correct p-values `(n,)` of a family of tests: the family-wise error rate is 5 % (Holm 1979)."""
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(raised, 1.0)
    return corrected


def _sum_by_group(values: np.ndarray, groups: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    if groups is None:
        return values.astype(np.float64), np.ones(len(values))
    size = int(groups.max(initial=-1)) + 1
    members = coo_array((np.ones(len(groups)), (groups, np.arange(len(groups)))), shape=(size, len(groups)))
    counts = np.bincount(groups, minlength=size).astype(np.float64)
    return np.asarray(members @ values), counts


@dataclass(frozen=True)
class FamilyTests:
    """All `(m,)`: uncorrected and family p-values, and intervals, which exclude 0 exactly if `p_family` < .05."""

    p: np.ndarray
    p_family: np.ndarray
    low: np.ndarray
    high: np.ndarray


def family_tests(sums: np.ndarray, sizes: np.ndarray, families: np.ndarray) -> FamilyTests:
    """Test columns of differences, summed by group `(n_groups, m)`, of groups with `sizes` `(n_groups,)`.

    `families` `(m,)` int numbers the family of each column. Few groups are permuted exhaustively, others by random
    swaps, the same for all columns.
    """
    scale = np.sqrt((sums**2).sum(axis=0))
    scaled = np.divide(sums, scale, out=np.zeros_like(sums), where=scale > 0)
    observed = np.abs(scaled.sum(axis=0))
    members = [np.flatnonzero(families == family) for family in np.unique(families)]
    extreme = np.zeros(len(observed))
    largest = []
    for signs in _sign_flips(len(sums)):
        permuted = np.abs(signs @ scaled)
        extreme += (permuted >= observed * _NEARLY_ONE - 1e-12).sum(axis=0)
        largest.append(np.stack([permuted[:, columns].max(axis=1) for columns in members], axis=1))
    # only the exhaustive permutations include the observed statistics
    n_observed = 0 if _is_enumerable(len(sums)) else 1
    highest = np.sort(np.concatenate(largest), axis=0)
    p_family, low, high = (np.empty(len(observed)) for _ in range(3))
    for index, columns in enumerate(members):
        p_family[columns], critical = max_t(observed[columns] * _NEARLY_ONE - 1e-12, highest[:, index], n_observed)
        low[columns], high[columns] = _intervals(sums[:, columns], sizes, max(critical / _NEARLY_ONE, 1.0))
    tries = len(highest) + n_observed
    return FamilyTests((extreme + n_observed) / tries, p_family, low, high)


def _intervals(sums: np.ndarray, sizes: np.ndarray, critical: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of all d with t(`sums` - d * `sizes`) <= critical: a quadratic in d, limited to -1 and 1."""
    n = sizes.sum()
    total = sums.sum(axis=0)
    square = critical**2
    leading = n**2 - square * (sizes**2).sum()
    if not leading > 0:  # too few groups
        return np.full(sums.shape[1], -1.0), np.full(sums.shape[1], 1.0)
    middle = total * n - square * (sizes @ sums)
    last = total**2 - square * (sums**2).sum(axis=0)
    root = np.sqrt(np.maximum(middle**2 - leading * last, 0.0))
    return np.maximum((middle - root) / leading, -1.0), np.minimum((middle + root) / leading, 1.0)


def _is_enumerable(n_groups: int) -> bool:
    return n_groups < 64 and 1 << n_groups <= PERMUTATIONS


def _sign_flips(n_groups: int) -> Iterator[np.ndarray]:
    """Yield signs of swaps, `(rows, n_groups)` of 1 and -1: all of them if they are enumerable, else random ones."""
    if _is_enumerable(n_groups):
        yield 1.0 - 2.0 * ((np.arange(2**n_groups)[:, None] >> np.arange(n_groups)) & 1)
        return
    rng = np.random.default_rng(0)
    for rows in blocks(PERMUTATIONS, n_groups, _CELLS):
        yield rng.integers(0, 2, size=(rows, n_groups), dtype=np.int8) * 2.0 - 1.0
