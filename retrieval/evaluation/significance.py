"""How sure a figure is, and how sure a difference.

Questions about the same passage stand or fall together, so what is drawn and what is swapped is never a question alone
but the group of all questions about the same passages. Everything is seeded: the same rankings give the same figures.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import bdtr

from data.records import QuestionSet
from retrieval.evaluation.measures import Scores

LEVEL = 0.95
RESAMPLES = 2000
PERMUTATIONS = 10_000
_CELLS = 4_000_000  # of the random matrix that is in memory at a time


@dataclass(frozen=True)
class PairTest:
    """Two retrievers over the same questions, by one measure.

    `difference` is the mean of a less that of b, a share, with its interval `low` to `high`; `p_holm` is the p-value
    after Holm's correction over all pairs tested together. a `wins` where its value of a question is higher.
    """

    a: str
    b: str
    measure: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    wins: int
    ties: int
    losses: int

    @property
    def sure(self) -> bool:
        """Whether the two can be told apart, all pairs considered."""
        return self.p_holm < 1 - LEVEL


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
    """95 % percentile bootstrap intervals `(m, 2)` of the column means of `values` `(n_questions, m)`.

    Groups are drawn with replacement, as many as there are, and the mean is over the questions of those drawn (the
    cluster bootstrap: Davison & Hinkley 1997, 3.8); without `groups` every question is its own. Columns are drawn
    together, so the intervals of differences are those of the paired bootstrap (Sakai 2006).
    """
    sums, counts = _by_group(values, groups)
    rng = np.random.default_rng(seed)
    means = [
        (drawn @ sums) / (drawn @ counts)[:, None]
        for drawn in _blocks(resamples, len(counts), lambda rows: _draws(rng, rows, len(counts)))
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
    """95 % interval of the mean of per-question values `(n_questions,)`; see `mean_intervals`.

    Given the differences of two retrievers it is the interval of their difference.
    """
    ((low, high),) = mean_intervals(values[:, None], groups)
    return float(low), float(high)


def pair_tests(
    scores: Mapping[str, Scores], measures: Sequence[str], groups: np.ndarray | None = None
) -> list[PairTest]:
    """Test every pair of retrievers by every measure, Holm-corrected over the pairs of a measure.

    Means are tested by randomization (Smucker, Allan & Carterette 2007): were there no difference, the two could be
    swapped within any group. Hit@K is tested by McNemar's exact test over the questions that only one of the two hits.
    A retriever without a score of a measure (it failed, or was not deep enough) is in no test of it.
    """
    known = [
        (measure, a, b)
        for measure in measures
        for a, b in combinations([name for name, of in scores.items() if measure in of.per_question], 2)
    ]
    if not known:
        return []
    columns = [scores[a].per_question[measure] - scores[b].per_question[measure] for measure, a, b in known]
    differences = np.stack(columns, axis=1)
    intervals = difference_intervals(differences, groups)
    wins, losses = (differences > 0).sum(axis=0), (differences < 0).sum(axis=0)
    is_hit = np.array([measure.startswith("hit@") for measure, _, _ in known])
    p = np.where(is_hit, _mcnemar(wins, losses), _randomization(differences, groups))
    of_measure = np.array([measures.index(measure) for measure, _, _ in known])
    corrected = np.empty_like(p)
    for place in np.unique(of_measure):
        corrected[of_measure == place] = holm(p[of_measure == place])
    return [
        PairTest(
            a,
            b,
            measure,
            difference=float(differences[:, place].mean()),
            low=float(intervals[place, 0]),
            high=float(intervals[place, 1]),
            p=float(p[place]),
            p_holm=float(corrected[place]),
            wins=int(wins[place]),
            ties=int(len(differences) - wins[place] - losses[place]),
            losses=int(losses[place]),
        )
        for place, (measure, a, b) in enumerate(known)
    ]


def holm(p: np.ndarray) -> np.ndarray:
    """Correct p-values `(n,)` of tests made together: 95 of 100 such families then hold no false alarm (Holm 1979)."""
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(raised, 1.0)
    return corrected


def _mcnemar(wins: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Two-sided exact p-values: of wins + losses, each would fall to either side by a fair coin."""
    p: np.ndarray = np.minimum(1.0, 2 * bdtr(np.minimum(wins, losses), wins + losses, 0.5))
    return p


def _randomization(differences: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Two-sided p-values of the column means: every swap is tried where there are few groups, else random ones."""
    sums, _ = _by_group(differences, groups)
    seen = np.abs(sums.sum(axis=0)) * (1 - 1e-9) - 1e-12  # what is equal but for rounding counts as equal
    n_groups = len(sums)
    rng = np.random.default_rng(0)
    if 2**n_groups <= PERMUTATIONS:
        every = (np.arange(2**n_groups)[:, None] >> np.arange(n_groups)) & 1
        return (np.abs((1.0 - 2.0 * every) @ sums) >= seen).mean(axis=0)  # type: ignore[no-any-return]
    extreme = np.zeros(sums.shape[1])
    for signs in _blocks(PERMUTATIONS, n_groups, lambda rows: _signs(rng, rows, n_groups)):
        extreme += (np.abs(signs @ sums) >= seen).sum(axis=0)
    return (extreme + 1) / (PERMUTATIONS + 1)  # what was seen is one of the swaps


def _by_group(values: np.ndarray, groups: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    if groups is None:
        return values.astype(np.float64), np.ones(len(values))
    size = int(groups.max(initial=-1)) + 1
    members = coo_array((np.ones(len(groups)), (groups, np.arange(len(groups)))), shape=(size, len(groups)))
    counts = np.bincount(groups, minlength=size).astype(np.float64)
    return np.asarray(members @ values), counts


def _blocks(rows: int, columns: int, make: Callable[[int], np.ndarray]) -> Iterator[np.ndarray]:
    step = max(1, _CELLS // max(1, columns))
    return (make(min(step, rows - start)) for start in range(0, rows, step))


def _draws(rng: np.random.Generator, rows: int, n_groups: int) -> np.ndarray:
    """How often each group is drawn, `(rows, n_groups)` float64."""
    drawn = rng.integers(n_groups, size=(rows, n_groups)) + np.arange(rows)[:, None] * n_groups
    return np.bincount(drawn.ravel(), minlength=rows * n_groups).reshape(rows, n_groups).astype(np.float64)


def _signs(rng: np.random.Generator, rows: int, n_groups: int) -> np.ndarray:
    return rng.integers(0, 2, size=(rows, n_groups), dtype=np.int8) * 2.0 - 1.0
