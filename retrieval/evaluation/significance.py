"""How sure a figure is, and how sure a difference.

Questions about the same passage stand or fall together, so what is drawn and what is swapped is never a question alone
but the group of all questions about the same passages. Everything is seeded: the same rankings give the same figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from data.records import QuestionSet
from retrieval.evaluation.families import LEVEL, blocks, family_tests
from retrieval.evaluation.measures import Scores

RESAMPLES = 2000


@dataclass(frozen=True)
class PairTest:
    """Two retrievers over the same questions, by one measure.

    `difference` is the mean of a less that of b, a share. `p` is that of this pair alone. `p_family` and the interval
    `low` to `high` allow for all pairs tested together, and agree: the interval leaves 0 out where `p_family` is below
    .05. a `wins` where its value of a question is higher.
    """

    a: str
    b: str
    measure: str
    difference: float
    low: float
    high: float
    p: float
    p_family: float
    wins: int
    ties: int
    losses: int

    @property
    def sure(self) -> bool:
        """Whether the two can be told apart, all pairs considered."""
        return self.p_family < 1 - LEVEL


class Pair(NamedTuple):
    """Two retrievers by name, and their values of a measure, question by question, `(n_questions,)`."""

    a: str
    b: str
    measure: str
    of_a: np.ndarray
    of_b: np.ndarray


def question_groups(question_set: QuestionSet) -> np.ndarray:
    """Number the groups of questions that share a relevant passage, `(n_questions,)` int32, from 0 without gaps."""
    relevance = question_set.relevance.tocoo()
    rows, columns = relevance.coords
    n_questions, n_passages = relevance.shape
    size = n_questions + n_passages
    links = coo_array((np.ones(len(rows), dtype=np.int8), (rows, n_questions + columns)), shape=(size, size))
    labels = connected_components(links, directed=False)[1][:n_questions]
    numbers: np.ndarray = np.unique(labels, return_inverse=True)[1].astype(np.int32)
    return numbers


def mean_intervals(
    values: np.ndarray, groups: np.ndarray | None = None, *, resamples: int = RESAMPLES, seed: int = 0
) -> np.ndarray:
    """95% percentile bootstrap intervals `(m, 2)` of the column means of `values` `(n_questions, m)`.

    Groups are drawn with replacement, as many as there are, and the mean is over the questions of those drawn (the
    cluster bootstrap: Davison & Hinkley 1997, 3.8); without `groups` every question is its own. Columns are drawn
    together, so the intervals of differences are those of the paired bootstrap (Sakai 2006).
    """
    sums, counts = _by_group(values, groups)
    rng = np.random.default_rng(seed)
    means = [
        (drawn @ sums) / (drawn @ counts)[:, None]
        for drawn in blocks(resamples, len(counts), lambda rows: _draws(rng, rows, len(counts)))
    ]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail], axis=0)
    return np.stack([low, high], axis=1)


def share_intervals(values: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """`mean_intervals` of shares between 0 and 1, honest where every question has all, or every one nothing.

    There the bootstrap knows no spread, so the end that is open is the exact one of Clopper & Pearson (1934) over the
    groups: 300 groups without a miss still leave room for 1.2 %. A part of all in one group alone says nothing.
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
    """`mean_intervals` of differences of shares, -1 to 1: one group alone knows no spread and leaves all of it open."""
    n_groups = len(values) if groups is None else len(np.unique(groups))
    return mean_intervals(values, groups) if n_groups > 1 else np.tile([-1.0, 1.0], (values.shape[1], 1))


def intervals_of(scores: Scores, groups: np.ndarray | None = None) -> dict[str, tuple[float, float]]:
    """Return the `share_intervals` of every measure, by its name."""
    values = np.stack(list(scores.per_question.values()), axis=1)
    pairs = share_intervals(values, groups).tolist()
    return {measure: (low, high) for measure, (low, high) in zip(scores.per_question, pairs, strict=True)}


def mean_interval(values: np.ndarray, groups: np.ndarray | None = None) -> tuple[float, float]:
    """95% interval of the mean of per-question values `(n_questions,)`; see `mean_intervals`.

    Given the differences of two retrievers it is the interval of their difference.
    """
    ((low, high),) = mean_intervals(values[:, None], groups)
    return float(low), float(high)


def pair_tests(
    scores: Mapping[str, Scores],
    measures: Sequence[str],
    groups: np.ndarray | None = None,
    *,
    baseline: str | None = None,
) -> list[PairTest]:
    """Test every pair of retrievers by every measure, or every other one against the baseline; a measure is a family.

    Tested is by randomization (Smucker, Allan & Carterette 2007): were there no difference, the two could be swapped
    within any group. See `families` for what being tested together means. A retriever without a score of a measure (it
    failed, or was not deep enough) is in no test of it.
    """
    return paired_tests(
        [
            Pair(a, b, measure, scores[a].per_question[measure], scores[b].per_question[measure])
            for measure in measures
            for a, b in _pairs([name for name, of in scores.items() if measure in of.per_question], baseline)
        ],
        groups,
    )


def paired_tests(pairs: Sequence[Pair], groups: np.ndarray | None = None) -> list[PairTest]:
    """Test these pairs as `pair_tests` does; those of a measure are a family."""
    if not pairs:
        return []
    differences = np.stack([pair.of_a - pair.of_b for pair in pairs], axis=1)
    measures = [*dict.fromkeys(pair.measure for pair in pairs)]
    found = family_tests(*_by_group(differences, groups), np.array([measures.index(pair.measure) for pair in pairs]))
    wins, losses = (differences > 0).sum(axis=0), (differences < 0).sum(axis=0)
    return [
        PairTest(
            pair.a,
            pair.b,
            pair.measure,
            difference=float(differences[:, place].mean()),
            low=float(found.low[place]),
            high=float(found.high[place]),
            p=float(found.p[place]),
            p_family=float(found.p_family[place]),
            wins=int(wins[place]),
            ties=int(len(differences) - wins[place] - losses[place]),
            losses=int(losses[place]),
        )
        for place, pair in enumerate(pairs)
    ]


def _pairs(names: Sequence[str], baseline: str | None) -> list[tuple[str, str]]:
    if baseline is None:
        return [*combinations(names, 2)]
    return [(name, baseline) for name in names if name != baseline] if baseline in names else []


def holm(p: np.ndarray) -> np.ndarray:
    """Correct p-values `(n,)` of tests made together: 95 of 100 such families then hold no false alarm (Holm 1979)."""
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(raised, 1.0)
    return corrected


def _by_group(values: np.ndarray, groups: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    if groups is None:
        return values.astype(np.float64), np.ones(len(values))
    size = int(groups.max(initial=-1)) + 1
    members = coo_array((np.ones(len(groups)), (groups, np.arange(len(groups)))), shape=(size, len(groups)))
    counts = np.bincount(groups, minlength=size).astype(np.float64)
    return np.asarray(members @ values), counts


def _draws(rng: np.random.Generator, rows: int, n_groups: int) -> np.ndarray:
    """How often each group is drawn, `(rows, n_groups)` float64."""
    drawn = rng.integers(n_groups, size=(rows, n_groups)) + np.arange(rows)[:, None] * n_groups
    return np.bincount(drawn.ravel(), minlength=rows * n_groups).reshape(rows, n_groups).astype(np.float64)
