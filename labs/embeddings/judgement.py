"""Vectors against human judgement: correlations with scores, densities, misplaced pairs, and a probe of labels.

A model's metric is Spearman's correlation of cosines and gold scores over all pairs ("all" in Gao et al. 2021, appendix
B), next to Pearson's. The probe is a linear classifier on the frozen vectors of two sentences (Conneau & Kiela 2018),
with SBERT's features (u, v, |u - v|). Intervals and tests use a bootstrap over groups of pairs: a resample is a weight
per pair, so a metric of 2,000 resamples is a product of matrices. See `data.statistics` for groups and families.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from mrc_workbench.data.pairs.records import Label
from mrc_workbench.data.statistics import LEVEL, RESAMPLES, TAILS, blocks, group_draws, max_t

_ROUNDING = 1e-12  # figures that differ by less are the same
_CELLS = 300_000  # of the matrix of weights at a time: what a processor has at hand


class Figure(NamedTuple):
    """A figure and the ends of its 95% interval; all NaN where it is not defined."""

    value: float
    low: float
    high: float


UNDEFINED = Figure(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Difference:
    """A figure of a less that of b, with its 95% interval. `p` is that of this pair alone.

    `low` to `high` and `p_family` allow for all pairs of models tested together; the interval holds 0 exactly where
    `p_family` is .05 or more.
    """

    a: str
    b: str
    difference: float
    low: float
    high: float
    p: float
    p_family: float

    @property
    def sure(self) -> bool:
        """Whether the two can be told apart, all pairs considered."""
        return self.p_family < 1 - LEVEL

    @property
    def turned(self) -> "Difference":
        """The same test with its models exchanged."""
        return Difference(self.b, self.a, -self.difference, -self.high, -self.low, self.p, self.p_family)


def resamples(groups: np.ndarray, count: int = RESAMPLES, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield how often each row is drawn in each resample, `(n_rows, some)` float64, `count` resamples in all.

    `groups` `(n_rows,)` numbers the group of a row from 0 without gaps. As many groups are drawn as there are, with
    replacement, each with all its rows.
    """
    n_groups = int(groups.max(initial=-1)) + 1
    for times in group_draws(n_groups, blocks(count, len(groups), _CELLS), seed, by_group=True):
        yield np.ascontiguousarray(times.T)[groups]


def mean_draws(values: np.ndarray, groups: np.ndarray, count: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """Means of the columns of `values` `(n_rows, m)` in each resample, `(count, m)`; cells that are NaN are left out.

    NaN where a resample holds no other.
    """
    known = np.isfinite(values)
    filled, present = np.where(known, values, 0.0), known.astype(np.float64)
    found = []
    for drawn in resamples(groups, count, seed):
        sums, sizes = drawn.T @ filled, drawn.T @ present
        found.append(np.divide(sums, sizes, out=np.full_like(sums, np.nan), where=sizes > 0))
    return np.concatenate(found)


def figure(value: float, draws: np.ndarray, ends: tuple[float, float]) -> Figure:
    """A figure with the 95% percentile interval of its resamples `(count,)`; those that are NaN are left out.

    Where no resample differs, as of a single group, nothing is known of its spread: the interval is open to the `ends`
    that the figure cannot pass.
    """
    if not math.isfinite(value):
        return UNDEFINED
    known = draws[np.isfinite(draws)]
    if not len(known) or np.ptp(known) < _ROUNDING:
        return Figure(value, *ends)
    low, high = np.quantile(known, TAILS)
    return Figure(value, float(low), float(high))


def mean_figures(
    values: Mapping[str, np.ndarray], groups: np.ndarray, ends: tuple[float, float], seed: int = 0
) -> tuple[dict[str, Figure], list[Difference]]:
    """Means of each model's values `(n_rows,)` with their intervals, and the models told apart, all on one resampling.

    `groups` `(n_rows,)` are the rows', `ends` what a mean cannot pass. Values that are NaN are left out of the mean.
    """
    names, columns = [*values], np.stack([*values.values()], axis=1)
    draws, known = mean_draws(columns, groups, seed=seed), np.isfinite(columns)
    sizes, sums = known.sum(axis=0), np.where(known, columns, 0.0).sum(axis=0)
    means = [float(total / size) if size else math.nan for total, size in zip(sums, sizes, strict=True)]
    figures = {name: figure(means[place], draws[:, place], ends) for place, name in enumerate(names)}
    return figures, differences(means, draws, names)


def differences(values: Sequence[float], draws: np.ndarray, names: Sequence[str]) -> list[Difference]:
    """Test every pair of models by the figures `(m,)` of all and those of the same resamples, `draws` `(count, m)`.

    With D a difference, s the standard deviation of it in the resamples D*, and t = |D| / s, what chance does is told
    by t* = |D* - D| / s: `p` is the share of t* that reach t, `p_family` that of the largest t* of all pairs in each
    resample, and an interval is D -+ c s with c the largest t* that 95 of 100 resamples stay below (the bootstrap form
    of the single-step maxT procedure, Westfall & Young 1993; Romano & Wolf 2005). Pairs that go together cost little,
    a copy of a model nothing. The figures themselves count as one resample (Davison & Hinkley 1997, 4.2).

    A model with a figure that is NaN is in no test. Where no resample differs, as of a single group, nothing is known.
    """
    known = [place for place, value in enumerate(values) if math.isfinite(value)]
    pairs = [*combinations(known, 2)]
    if not pairs:
        return []
    first, second = np.array(pairs).T
    seen = np.array(values, dtype=np.float64)[first] - np.array(values, dtype=np.float64)[second]
    drawn = draws[:, first] - draws[:, second]
    drawn = drawn[np.isfinite(drawn).all(axis=1)]
    alike = (np.abs(drawn) < _ROUNDING).all(axis=0) & (np.abs(seen) < _ROUNDING)  # the same figures, a copy's
    scale = drawn.std(axis=0) if len(drawn) else np.zeros(len(pairs))
    varies = scale > _ROUNDING
    t = np.divide(np.abs(seen), scale, out=np.zeros_like(seen), where=varies)
    chance = np.divide(np.abs(drawn - seen), scale, out=np.zeros_like(drawn), where=varies)
    p = (1 + (chance >= t).sum(axis=0)) / (1 + len(drawn))
    p_family, critical = max_t(t, np.sort(chance.max(axis=1)))
    half = np.where(varies, critical * np.where(varies, scale, 1.0), np.where(alike, 0.0, math.inf))
    p, p_family = np.where(varies, p, 1.0), np.where(varies, p_family, 1.0)
    return [
        Difference(names[a], names[b], *map(float, told))
        for (a, b), *told in zip(pairs, seen, seen - half, seen + half, p, p_family, strict=True)
    ]


_ENDS = (-1.0, 1.0)


@dataclass(frozen=True)
class Correlations:
    """Of each model by name: both correlations with their intervals, and every pair of models by either."""

    spearman: dict[str, Interval]
    pearson: dict[str, Interval]
    differences: dict[str, list[PairedTest]]


def cosines(first_vectors: np.ndarray, second_vectors: np.ndarray) -> np.ndarray:
    """Cosines of the rows of two `(n, dimensions)` arrays, `(n,)` float32 in -1 to 1; of a vector of zeros 0."""
    products = np.einsum("ij,ij->i", first_vectors, second_vectors)
    squares = [np.einsum("ij,ij->i", vectors, vectors) for vectors in (first_vectors, second_vectors)]
    lengths = np.sqrt(squares[0]) * np.sqrt(squares[1])
    found = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    within: np.ndarray = np.clip(found, -1, 1).astype(np.float32)
    return within


def spearman(cosines: np.ndarray, gold: np.ndarray) -> float:
    """Spearman's rank correlation of `(n,)` and `(n,)`, ties by their middle rank; NaN where either is constant."""
    from scipy.stats import spearmanr

    return float(spearmanr(cosines, gold).statistic) if _vary(cosines, gold) else math.nan


def pearson(cosines: np.ndarray, gold: np.ndarray) -> float:
    """Pearson's correlation of `(n,)` and `(n,)`; NaN where either is constant."""
    from scipy.stats import pearsonr

    if not _vary(cosines, gold):
        return math.nan
    return float(pearsonr(cosines.astype(np.float64), gold.astype(np.float64)).statistic)


def correlate(cosines: Mapping[str, np.ndarray], gold: np.ndarray, groups: np.ndarray, seed: int = 0) -> Correlations:
    """Correlate each model's cosines `(n_pairs,)` with the gold scores `(n_pairs,)`, and tell the models apart.

    All models are measured on the same resamples of `groups` (see `bootstrap.resamples`), so the intervals of
    differences are those of the paired bootstrap.
    """
    names = [*cosines]
    columns = [cosines[name].astype(np.float64) for name in names]
    by_rank, by_value = correlation_draws(columns, gold.astype(np.float64), groups, seed)
    ranks = [spearman(column, gold) for column in columns]
    values = [pearson(column, gold) for column in columns]
    return Correlations(
        {name: figure(ranks[place], by_rank[:, place], _ENDS) for place, name in enumerate(names)},
        {name: figure(values[place], by_value[:, place], _ENDS) for place, name in enumerate(names)},
        {"spearman": differences(ranks, by_rank, names), "pearson": differences(values, by_value, names)},
    )


def correlation_draws(
    columns: list[np.ndarray], gold: np.ndarray, groups: np.ndarray, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Spearman's and Pearson's correlation of each of m columns with gold in each resample, each `(resamples, m)`.

    NaN where a resample is constant.
    """
    ranked, ranked_gold = [_Ranks(column) for column in columns], _Ranks(gold)
    centred = np.stack([(column - column.mean()) / (column.std() or 1.0) for column in (*columns, gold)], axis=1)
    by_rank, by_value = [], []
    for drawn in resamples(groups, seed=seed):
        of_gold = ranked_gold.of(drawn)
        weighed = drawn * of_gold
        spread = (weighed * of_gold).sum(axis=0)
        found = []
        for one in ranked:
            ranks = one.of(drawn)
            found.append(_ratio((weighed * ranks).sum(axis=0), spread * (drawn * ranks * ranks).sum(axis=0)))
        by_rank.append(np.stack(found, axis=1))
        by_value.append(_weighed_pearson(drawn, centred))
    return np.concatenate(by_rank), np.concatenate(by_value)


class _Ranks:
    """The ranks that the values of a column have in resamples of its rows, found with one sort for all of them."""

    def __init__(self, column: np.ndarray) -> None:
        self._order = np.argsort(column, kind="stable")
        ordered = column[self._order]
        new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        self._value = np.empty(len(column), dtype=np.int64)  # of each row, the place of its value among all values
        self._value[self._order] = np.cumsum(new) - 1
        self._last = np.concatenate([np.flatnonzero(new)[1:], [len(column)]]) - 1

    def of(self, drawn: np.ndarray) -> np.ndarray:
        """Middle ranks less their mean, of rows drawn so often, `(n_rows, resamples)`."""
        up_to = np.cumsum(drawn[self._order], axis=0)[self._last]
        before = np.concatenate([np.zeros((1, drawn.shape[1])), up_to[:-1]])
        ranks: np.ndarray = ((before + up_to - up_to[-1]) / 2)[self._value]
        return ranks


def _weighed_pearson(drawn: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Pearson's correlation of all columns but the last with the last, of rows drawn so often, `(resamples, m)`."""
    sizes = drawn.sum(axis=0)[:, None]
    means = drawn.T @ columns / sizes
    squares = drawn.T @ columns**2 / sizes - means**2
    products = drawn.T @ (columns[:, :-1] * columns[:, -1:]) / sizes - means[:, :-1] * means[:, -1:]
    return _ratio(products, squares[:, :-1] * squares[:, -1:])


def _ratio(covariance: np.ndarray, variances: np.ndarray) -> np.ndarray:
    varies = variances > 1e-20
    ratio: np.ndarray = np.where(varies, covariance / np.sqrt(np.where(varies, variances, 1.0)), np.nan)
    return ratio


def _vary(*columns: np.ndarray) -> bool:
    return all(len(column) > 1 and np.ptp(column) > 0 for column in columns)


BANDS = 5  # fifths of the scale: of 0 to 5 they are 0-1, 1-2, 2-3, 3-4 and 4-5
_POINTS = 201
_ROUNDING_judgement = 1e-6  # of gold scores in float32


@dataclass(frozen=True)
class Densities:
    """Of each model by name, the density of its cosines in each band `(BANDS, n_points)` over `grid` `(n_points,)`.

    Zero throughout where a band has fewer than two different cosines; `counts` `(BANDS,)` are its pairs.
    """

    grid: np.ndarray
    counts: np.ndarray
    values: dict[str, np.ndarray]


def bands(gold: np.ndarray) -> np.ndarray:
    """The band of gold scores from 0 to 1, `(n_pairs,)` int64 from 0; a score on a border belongs to the higher one."""
    return np.clip(np.floor(gold.astype(np.float64) * BANDS + _ROUNDING_judgement), 0, BANDS - 1).astype(np.int64)


def densities(cosines: Mapping[str, np.ndarray], gold: np.ndarray) -> Densities:
    """Estimate the density of each model's cosines `(n_pairs,)` by band, by normal kernels (width: Scott 1992).

    All models share a grid, from the smallest cosine of all to the largest.
    """
    band, every = bands(gold), [column for column in cosines.values() if len(column)]
    low = min((float(column.min()) for column in every), default=0.0)
    high = max((float(column.max()) for column in every), default=1.0)
    grid = np.linspace(low, high, _POINTS)
    values = {
        name: np.stack([_density(column[band == number], grid) for number in range(BANDS)])
        for name, column in cosines.items()
    }
    return Densities(grid, np.bincount(band, minlength=BANDS), values)


def _density(column: np.ndarray, grid: np.ndarray) -> np.ndarray:
    from scipy.stats import gaussian_kde

    if len(column) < 2 or np.ptp(column) == 0:
        return np.zeros(len(grid))
    density: np.ndarray = gaussian_kde(column.astype(np.float64))(grid)
    return density


@dataclass(frozen=True)
class WrongPairs:
    """Pairs, the worst first: `rows` `(n,)`, by how much of all pairs they are misplaced, `(n,)` -1 to 1, and cosines.

    Above 0 the model finds the two sentences more alike than people do. `cosines` are those of every model compared.
    """

    rows: np.ndarray
    misplaced: np.ndarray
    cosines: dict[str, np.ndarray]


def wrong_pairs(cosines: Mapping[str, np.ndarray], gold: np.ndarray, of: str, most: int = 50) -> WrongPairs:
    """Return the pairs whose ranks by the cosine of the model `of` and by gold differ most; ties in the set's order.

    Ranks are what Spearman's correlation compares: rank of the cosine less rank of gold, over the number of pairs.
    """
    misplaced = _ranks(cosines[of]) - _ranks(gold)
    rows = np.argsort(-np.abs(misplaced), kind="stable")[:most]
    return WrongPairs(rows, misplaced[rows], {name: column[rows] for name, column in cosines.items()})


def _ranks(column: np.ndarray) -> np.ndarray:
    """Middle ranks as shares, `(n_pairs,)`."""
    from scipy.stats import rankdata

    ranks: np.ndarray = rankdata(column) / max(1, len(column))
    return ranks


MOST = 10_000  # training pairs: more make a linear classifier of some thousand features little better
_STRENGTHS = (0.001, 0.01, 0.1)  # inverse of regularization; chosen within the training pairs
_FOLDS = 3


@dataclass(frozen=True)
class Probe:
    """How a probe was judged. `correct` `(n_judged,)` says which pairs it got right, `confusion` counts `(3, 3)`.

    Rows of `confusion` are what people said, columns what the probe said, both numbered as `Label`. `chance` is the
    share of the commonest label: what is right without reading.
    """

    correct: np.ndarray
    confusion: np.ndarray
    trained_on: np.ndarray  # training pairs of each label, (3,)
    chance: float
    strength: float


def features(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(u, v, |u - v|) of the rows, `(n, 3 dimensions)` float32."""
    return np.concatenate([first, second, np.abs(first - second)], axis=1)


def training_rows(rows: np.ndarray, most: int = MOST, seed: int = 0) -> np.ndarray:
    """The training rows, or so many of them drawn at random, ascending."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


def probe(
    train: tuple[np.ndarray, np.ndarray], train_groups: np.ndarray, judged: tuple[np.ndarray, np.ndarray]
) -> Probe | None:
    """Train on features and labels, `(n, width)` and `(n,)`, and judge on others; None where that cannot be.

    Groups are those of pairs that share a sentence: none is on both sides of the folds that choose the regularization.
    Needs two labels, in as many groups as there are folds.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import confusion_matrix
    from sklearn.model_selection import GridSearchCV, GroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    of_train, labels = train
    of_judged, truth = judged
    if not len(truth) or len(np.unique(labels)) < 2 or len(np.unique(train_groups)) < _FOLDS:
        return None
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        {"logisticregression__C": _STRENGTHS},
        cv=GroupKFold(_FOLDS),
    )
    search.fit(of_train, labels, groups=train_groups)
    said = search.predict(of_judged)
    return Probe(
        said == truth,
        confusion_matrix(truth, said, labels=[*map(int, Label)]),
        np.bincount(labels, minlength=len(Label)),
        float(np.bincount(truth).max() / len(truth)),
        float(search.best_params_["logisticregression__C"]),
    )
