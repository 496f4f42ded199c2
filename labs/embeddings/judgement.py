"""Vectors compared with human ratings: correlations, densities, misplaced pairs, and a probe of labels.

A model's metric is Spearman's correlation of cosines and gold scores over all pairs ("all" in Gao et al. 2021, appendix
B), next to Pearson's. The probe is a linear classifier on the frozen vectors of two sentences (Conneau & Kiela 2018),
with SBERT's features (u, v, |u - v|). Intervals and tests use a bootstrap over groups of pairs: a resample is a weight
per pair, so a metric of 2,000 resamples is a product of matrices. See `retrieval.significance` for groups and families.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from mrc_workbench.data.pairs import Label
from mrc_workbench.retrieval.significance import RESAMPLES, TAILS, Interval, PairedTest, blocks, group_draws, max_t

_ROUNDING = 1e-12  # metrics that differ by less are equal
_CELLS = 300_000  # cells of a block of weights, which fits a processor's cache


UNDEFINED = Interval(math.nan, math.nan, math.nan)
BANDS = 5  # of a scale from 0 to 5: 0-1, 1-2, 2-3, 3-4 and 4-5
_POINTS = 201
_GOLD_ROUNDING = 1e-6  # of gold scores in float32
MAX_TRAINING_PAIRS = 10_000  # more hardly improve a linear classifier of some thousand features
_STRENGTHS = (0.001, 0.01, 0.1)  # inverse of regularization, selected on the training pairs
_FOLDS = 3


def resample_weights(groups: np.ndarray, count: int = RESAMPLES, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield how often each row is drawn, `(n_rows, n_resamples)` float64 in blocks; draws are of whole groups."""
    n_groups = int(groups.max(initial=-1)) + 1
    for times in group_draws(n_groups, blocks(count, len(groups), _CELLS), seed, by_group=True):
        yield np.ascontiguousarray(times.T)[groups]


def resampled_means(values: np.ndarray, groups: np.ndarray, count: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """Means of the columns of `values` `(n_rows, m)` in each resample, `(count, m)`, ignoring NaN cells."""
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    present = known.astype(np.float64)
    means = []
    for weights in resample_weights(groups, count, seed):
        sums = weights.T @ filled
        sizes = weights.T @ present
        means.append(np.divide(sums, sizes, out=np.full_like(sums, np.nan), where=sizes > 0))
    return np.concatenate(means)


def bootstrap_interval(value: float, draws: np.ndarray, ends: tuple[float, float]) -> Interval:
    """A metric with the 95% percentile interval of its resamples `(count,)`, ignoring NaN.

    If all resamples are equal, as with a single group, the spread is unknown: the interval is the range `ends`.
    """
    if not math.isfinite(value):
        return UNDEFINED
    known = draws[np.isfinite(draws)]
    if not len(known) or np.ptp(known) < _ROUNDING:
        return Interval(value, *ends)
    low, high = np.quantile(known, TAILS)
    return Interval(value, float(low), float(high))


def compare_means(
    values: Mapping[str, np.ndarray], groups: np.ndarray, ends: tuple[float, float], seed: int = 0
) -> tuple[dict[str, Interval], list[PairedTest]]:
    """Return the means of each model's values `(n_rows,)`, NaN ignored, and the tests; `ends` is a mean's range."""
    names = [*values]
    columns = np.stack([*values.values()], axis=1)
    draws = resampled_means(columns, groups, seed=seed)
    known = np.isfinite(columns)
    sizes = known.sum(axis=0)
    sums = np.where(known, columns, 0.0).sum(axis=0)
    means = [float(total / size) if size else math.nan for total, size in zip(sums, sizes, strict=True)]
    intervals = {name: bootstrap_interval(means[column], draws[:, column], ends) for column, name in enumerate(names)}
    return intervals, paired_bootstrap_tests(means, draws, names)


def paired_bootstrap_tests(values: Sequence[float], draws: np.ndarray, names: Sequence[str]) -> list[PairedTest]:
    """Test every pair of models by their metrics `(m,)` and those of the same resamples, `draws` `(count, m)`.

    With D a difference, s its standard deviation over the resamples D*, t = |D| / s and t* = |D* - D| / s: `p` is the
    fraction of t* that reach t, `p_family` that of the largest t* of all pairs in each resample, and an interval is
    D -+ c s with c the 95% quantile of the largest t* (the bootstrap form of the single-step maxT procedure, Westfall &
    Young 1993; Romano & Wolf 2005). The metrics themselves count as one resample (Davison & Hinkley 1997, 4.2).

    Models with a NaN metric are not tested. If all resamples are equal, as with a single group, p is 1.
    """
    pairs = [*combinations(np.flatnonzero(np.isfinite(values)).tolist(), 2)]
    if not pairs:
        return []
    first, second = np.array(pairs).T
    observed = np.array(values, dtype=np.float64)[first] - np.array(values, dtype=np.float64)[second]
    resampled = draws[:, first] - draws[:, second]
    resampled = resampled[np.isfinite(resampled).all(axis=1)]
    is_identical = (np.abs(resampled) < _ROUNDING).all(axis=0) & (np.abs(observed) < _ROUNDING)
    scale = resampled.std(axis=0) if len(resampled) else np.zeros(len(pairs))
    varies = scale > _ROUNDING
    t = np.divide(np.abs(observed), scale, out=np.zeros_like(observed), where=varies)
    null = np.divide(np.abs(resampled - observed), scale, out=np.zeros_like(resampled), where=varies)
    p = (1 + (null >= t).sum(axis=0)) / (1 + len(resampled))
    p_family, critical = max_t(t, np.sort(null.max(axis=1)))
    half = np.where(varies, critical * np.where(varies, scale, 1.0), np.where(is_identical, 0.0, math.inf))
    p = np.where(varies, p, 1.0)
    p_family = np.where(varies, p_family, 1.0)
    return [
        PairedTest(names[a], names[b], *map(float, numbers))
        for (a, b), *numbers in zip(pairs, observed, observed - half, observed + half, p, p_family, strict=True)
    ]


def cosines(first_vectors: np.ndarray, second_vectors: np.ndarray) -> np.ndarray:
    """Cosines of the rows of two `(n, dimensions)` arrays, `(n,)` float32 in -1 to 1; 0 for vectors of zeros."""
    products = np.einsum("ij,ij->i", first_vectors, second_vectors)
    squares = [np.einsum("ij,ij->i", vectors, vectors) for vectors in (first_vectors, second_vectors)]
    lengths = np.sqrt(squares[0]) * np.sqrt(squares[1])
    values = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return np.asarray(np.clip(values, -1, 1).astype(np.float32))


def spearman(cosines: np.ndarray, gold: np.ndarray) -> float:
    """Spearman's rank correlation of `(n,)` and `(n,)`, ties with mid-ranks; NaN if either is constant."""
    from scipy.stats import spearmanr

    return float(spearmanr(cosines, gold).statistic) if _all_vary(cosines, gold) else math.nan


def pearson(cosines: np.ndarray, gold: np.ndarray) -> float:
    """Pearson's correlation of `(n,)` and `(n,)`; NaN if either is constant."""
    from scipy.stats import pearsonr

    if not _all_vary(cosines, gold):
        return math.nan
    return float(pearsonr(cosines.astype(np.float64), gold.astype(np.float64)).statistic)


@dataclass(frozen=True)
class Correlations:
    """Both correlations of each model by name, and by correlation the tests of every pair of models."""

    spearman: dict[str, Interval]
    pearson: dict[str, Interval]
    differences: dict[str, list[PairedTest]]


def correlate(cosines: Mapping[str, np.ndarray], gold: np.ndarray, groups: np.ndarray, seed: int = 0) -> Correlations:
    """Correlate each model's cosines `(n_pairs,)` with gold scores, and test the models by a paired bootstrap."""
    columns = {name: column.astype(np.float64) for name, column in cosines.items()}
    draws = resampled_correlations([*columns.values()], gold.astype(np.float64), groups, seed)
    intervals: dict[str, dict[str, Interval]] = {}
    tests: dict[str, list[PairedTest]] = {}
    measures = {"spearman": spearman, "pearson": pearson}
    for (measure, correlation), resampled in zip(measures.items(), draws, strict=True):
        values = [correlation(column, gold) for column in columns.values()]
        intervals[measure] = {
            name: bootstrap_interval(value, draws_of_model, (-1.0, 1.0))
            for name, value, draws_of_model in zip(columns, values, resampled.T, strict=True)
        }
        tests[measure] = paired_bootstrap_tests(values, resampled, [*columns])
    return Correlations(intervals["spearman"], intervals["pearson"], tests)


def resampled_correlations(
    columns: list[np.ndarray], gold: np.ndarray, groups: np.ndarray, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return both correlations of m columns with gold by resample, `(resamples, m)` each; NaN if constant."""
    ranks_by_column = [_Ranks(column) for column in columns]
    gold_ranks = _Ranks(gold)
    centred = np.stack([(column - column.mean()) / (column.std() or 1.0) for column in (*columns, gold)], axis=1)
    by_rank = []
    by_value = []
    for weights in resample_weights(groups, seed=seed):
        resampled_gold = gold_ranks.resampled_ranks(weights)
        weighted = weights * resampled_gold
        spread = (weighted * resampled_gold).sum(axis=0)
        correlations = []
        for column_ranks in ranks_by_column:
            ranks = column_ranks.resampled_ranks(weights)
            variances = spread * (weights * ranks * ranks).sum(axis=0)
            correlations.append(_correlation_from_moments((weighted * ranks).sum(axis=0), variances))
        by_rank.append(np.stack(correlations, axis=1))
        sizes = weights.sum(axis=0)[:, None]
        means = weights.T @ centred / sizes
        squares = weights.T @ centred**2 / sizes - means**2
        products = weights.T @ (centred[:, :-1] * centred[:, -1:]) / sizes - means[:, :-1] * means[:, -1:]
        by_value.append(_correlation_from_moments(products, squares[:, :-1] * squares[:, -1:]))
    return np.concatenate(by_rank), np.concatenate(by_value)


class _Ranks:
    """The ranks of a column's values in resamples of its rows; sorts once."""

    def __init__(self, column: np.ndarray) -> None:
        self._order = np.argsort(column, kind="stable")
        ordered = column[self._order]
        new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        self._value = np.empty(len(column), dtype=np.int64)  # index of each row's value among the distinct values
        self._value[self._order] = np.cumsum(new) - 1
        self._last = np.concatenate([np.flatnonzero(new)[1:], [len(column)]]) - 1

    def resampled_ranks(self, weights: np.ndarray) -> np.ndarray:
        """Mid-ranks minus their mean, `(n_rows, resamples)`; `weights` is how often each row is drawn."""
        up_to = np.cumsum(weights[self._order], axis=0)[self._last]
        before = np.concatenate([np.zeros((1, weights.shape[1])), up_to[:-1]])
        return np.asarray(((before + up_to - up_to[-1]) / 2)[self._value])


def _correlation_from_moments(covariance: np.ndarray, variances: np.ndarray) -> np.ndarray:
    varies = variances > 1e-20
    return np.where(varies, covariance / np.sqrt(np.where(varies, variances, 1.0)), np.nan)


def _all_vary(*columns: np.ndarray) -> bool:
    return all(len(column) > 1 and np.ptp(column) > 0 for column in columns)


@dataclass(frozen=True)
class Densities:
    """The density of each model's cosines by band, `(BANDS, n_points)` over `grid` `(n_points,)`.

    Zero for a band with fewer than two different cosines. `counts` `(BANDS,)` are the pairs of each band.
    """

    grid: np.ndarray
    counts: np.ndarray
    values: dict[str, np.ndarray]


def assign_bands(gold: np.ndarray) -> np.ndarray:
    """The band of gold scores from 0 to 1, `(n_pairs,)` int64 from 0; a score on a border is in the higher band."""
    return np.clip(np.floor(gold.astype(np.float64) * BANDS + _GOLD_ROUNDING), 0, BANDS - 1).astype(np.int64)


def band_labels(scale: tuple[float, float]) -> list[str]:
    """Return the ends of each band of a scale, the lowest first."""
    return [f"{low:g} – {high:g}" for low, high in pairwise(np.linspace(*scale, BANDS + 1))]


def estimate_densities(cosines: Mapping[str, np.ndarray], gold: np.ndarray) -> Densities:
    """Estimate the density of each model's cosines `(n_pairs,)` by band, by normal kernels (width: Scott 1992)."""
    from scipy.stats import gaussian_kde

    band = assign_bands(gold)
    every = np.concatenate([*cosines.values()] or [np.zeros(0)])
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    grid = np.linspace(low, high, _POINTS)
    values = {name: np.zeros((BANDS, _POINTS)) for name in cosines}
    for name, column in cosines.items():
        for number in range(BANDS):
            inside = column[band == number].astype(np.float64)
            if len(inside) > 1 and np.ptp(inside) > 0:
                values[name][number] = gaussian_kde(inside)(grid)
    return Densities(grid, np.bincount(band, minlength=BANDS), values)


@dataclass(frozen=True)
class WrongPairs:
    """The `rows` `(n,)` of pairs, the worst first, how far each is `misplaced`, and every model's cosines.

    `misplaced` is from -1 to 1; above 0, the model rates the two sentences as more similar than people do.
    """

    rows: np.ndarray
    misplaced: np.ndarray
    cosines: dict[str, np.ndarray]


def find_wrong_pairs(cosines: Mapping[str, np.ndarray], gold: np.ndarray, model: str, limit: int = 50) -> WrongPairs:
    """Return at most `limit` pairs with the largest difference between their ranks by a model's cosine and by gold.

    `misplaced` is the difference of Spearman's ranks over the number of pairs. Ties are in the set's order.
    """
    from scipy.stats import rankdata

    misplaced = (rankdata(cosines[model]) - rankdata(gold)) / max(1, len(gold))
    rows = np.argsort(-np.abs(misplaced), kind="stable")[:limit]
    return WrongPairs(rows, misplaced[rows], {name: column[rows] for name, column in cosines.items()})


@dataclass(frozen=True)
class Probe:
    """A probe's results: which test pairs are `correct`, `(n_pairs,)`, and the `confusion` counts `(3, 3)`.

    Rows of `confusion` are gold labels, columns predictions, numbered as `Label`. `chance` is the fraction of the most
    frequent label.
    """

    correct: np.ndarray
    confusion: np.ndarray
    trained_on: np.ndarray  # training pairs of each label, (3,)
    chance: float
    strength: float


def pair_features(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(u, v, |u - v|) of the rows, `(n, 3 dimensions)` float32."""
    return np.concatenate([first, second, np.abs(first - second)], axis=1)


def training_rows(rows: np.ndarray, max_rows: int = MAX_TRAINING_PAIRS, seed: int = 0) -> np.ndarray:
    """Return the training rows, or a random sample of `max_rows` of them, ascending."""
    if len(rows) <= max_rows:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, max_rows, replace=False))


def train_probe(
    train: tuple[np.ndarray, np.ndarray], train_groups: np.ndarray, test_data: tuple[np.ndarray, np.ndarray]
) -> Probe | None:
    """Train on features and labels, `(n, width)` and `(n,)`, and evaluate on others; None with too little data.

    Cross-validation selects the regularization and keeps pairs that share a sentence in one fold. It needs two labels
    and as many groups as folds.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import confusion_matrix
    from sklearn.model_selection import GridSearchCV, GroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train_features, labels = train
    test_features, truth = test_data
    if not len(truth) or len(np.unique(labels)) < 2 or len(np.unique(train_groups)) < _FOLDS:
        return None
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    search = GridSearchCV(pipeline, {"logisticregression__C": _STRENGTHS}, cv=GroupKFold(_FOLDS))
    search.fit(train_features, labels, groups=train_groups)
    predicted = search.predict(test_features)
    return Probe(
        predicted == truth,
        confusion_matrix(truth, predicted, labels=[*map(int, Label)]),
        np.bincount(labels, minlength=len(Label)),
        float(np.bincount(truth).max() / len(truth)),
        float(search.best_params_["logisticregression__C"]),
    )
