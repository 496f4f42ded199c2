"""Vectors against people's judgement: correlations with scores, densities, misplaced pairs, and a probe of labels.

Semantic textual similarity asks whether the cosine of two sentences rises and falls with the score people gave them. A
model's figure is Spearman's rank correlation of cosines and gold scores over all pairs at once ("all", as SimCSE tells
it: Gao et al. 2021, appendix B), with Pearson's beside it. The probe asks what a vector holds of inference: a linear
classifier over two sentences' vectors (Conneau & Kiela 2018), with the features of SBERT (Reimers & Gurevych 2019): (u,
v, |u - v|). The encoder is not trained, so all that the classifier knows stands in the vectors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mrc_workbench.data.pairs import Label
from mrc_workbench.labs.embeddings.bootstrap import Difference, Figure, differences, figure, resamples

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
_ROUNDING = 1e-6  # of gold scores in float32


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
    return np.clip(np.floor(gold.astype(np.float64) * BANDS + _ROUNDING), 0, BANDS - 1).astype(np.int64)


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
