"""What a vector holds of inference: a linear classifier over two sentences' vectors (Conneau & Kiela 2018).

The features are those of SBERT (Reimers & Gurevych 2019): (u, v, |u - v|). The encoder is not trained, so all that the
classifier knows stands in the vectors. It learns from the training part and is judged on another.
"""

from dataclasses import dataclass

import numpy as np

from data.pairs.records import Label

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
