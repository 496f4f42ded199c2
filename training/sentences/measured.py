"""What a model reaches on pairs: how its scores follow people's, and how its vectors lie in their space."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from data.pairs.records import PairKind, PairSet
from embeddings.bootstrap import figure, mean_draws
from embeddings.distinct import Distinct
from embeddings.geometry import alignment, positive_rows, uniformity
from embeddings.sts import correlation_draws, cosines, pearson, spearman
from training.sentences.material import ACCURACY, PEARSON, SPEARMAN, PairMaterial

_CORRELATIONS = (SPEARMAN, PEARSON)


@dataclass(frozen=True)
class Judgement:
    """A model's scores of pairs, or the labels it tells, beside people's; `right` is empty where nobody said any."""

    measure: str
    said: np.ndarray  # (n_pairs,) float32 cosines or scores, or int labels
    right: np.ndarray  # (n_pairs,) float32 scores from 0 to 1, or int labels
    geometry: dict[str, float] = field(default_factory=dict)

    def means(self) -> dict[str, float]:
        """The figures by name. A correlation that is not defined, as of a model that says one thing only, is 0."""
        if self.measure == SPEARMAN:
            known = {SPEARMAN: spearman(self.said, self.right), PEARSON: pearson(self.said, self.right)}
            known = {name: value if math.isfinite(value) else 0.0 for name, value in known.items()}
        else:
            known = {ACCURACY: float((self.said == self.right).mean())} if self.measure else {}
        return known | {name: value for name, value in self.geometry.items() if math.isfinite(value)}

    def kept(self) -> dict[str, Any]:
        """As JSON."""
        geometry = {name: value for name, value in self.geometry.items() if math.isfinite(value)}
        return {
            "measure": self.measure,
            "said": self.said.tolist(),
            "right": self.right.tolist(),
            "geometry": geometry,
        }

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Self:
        """Read what was kept."""
        dtype = np.int8 if kept["measure"] == ACCURACY else np.float32
        columns = [np.array(kept[name], dtype=dtype) for name in ("said", "right")]
        return cls(kept["measure"], columns[0], columns[1], kept["geometry"])


@dataclass(frozen=True)
class Likeness:
    """What a model reaches on the pairs that judge it and, beside them, on a few that it learns from."""

    validation: Judgement
    training: Judgement | None
    judge: str = ""  # the fingerprint of the pairs that judge

    def means(self) -> dict[str, dict[str, float]]:
        """Of both, the figures by name."""
        return {"validation": self.validation.means(), "training": self.training.means() if self.training else {}}

    def kept(self) -> dict[str, Any]:
        """As JSON."""
        training = {"training": self.training.kept()} if self.training else {}
        return {"judge": self.judge, "validation": self.validation.kept(), **training}

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Self | None:
        """Read what was kept; None where nothing was."""
        if "validation" not in kept:
            return None
        training = Judgement.of(kept["training"]) if "training" in kept else None
        return cls(Judgement.of(kept["validation"]), training, kept.get("judge", ""))


def judgement(pairs: PairSet, distinct: Distinct, vectors: np.ndarray, measure: str) -> Judgement:
    """What vectors `(n_sentences, dimensions)` of the pairs' different sentences say of the pairs."""
    geometry = {"uniformity": uniformity(vectors)}
    if pairs.kind is PairKind.SENTENCES:
        return Judgement("", np.zeros(0, np.float32), np.zeros(0, np.float32), geometry)
    first, second = (vectors[distinct.places[:, column]] for column in range(2))
    alike = positive_rows(pairs)
    geometry = {"alignment": alignment(first[alike], second[alike]), **geometry}
    right = pairs.gold if measure else np.zeros(0, np.float32)
    return Judgement(measure, cosines(first, second), right.astype(np.float32), geometry)


def summary(measured: Mapping[str, Likeness], material: PairMaterial) -> dict[str, Any]:
    """Figures on the pairs that judge, their 95% intervals, and the gain; figures and gain on the sample, too."""
    judged = {name: likeness.validation for name, likeness in measured.items()}
    learned = {name: likeness.training for name, likeness in measured.items() if likeness.training}
    found: dict[str, Any] = {name: one.means() for name, one in judged.items()}
    if material.measure:
        found |= _sure(judged, material.judged.groups)
    if learned and material.sampled:
        means = {name: one.means() for name, one in learned.items()}
        gain = _sure(learned, material.sampled.groups)["gain"]
        found["training_sample"] = {**means, "gain": gain, "questions": len(material.sampled.places)}
    about = {"measured_on": "validation", "pairs": len(material.judge), "judged_on": material.judged_on}
    return {**found, **about, "judged_by": material.judged_by}


def _sure(judged: Mapping[str, Judgement], groups: np.ndarray) -> dict[str, Any]:
    """The intervals of every figure, and the gain from before to after with that of the paired bootstrap."""
    names = [*judged]
    draws, ends = _draws([*judged.values()], groups)
    means = {name: one.means() for name, one in judged.items()}
    intervals = {
        name: {measure: figure(means[name][measure], drawn[:, place], ends)[1:] for measure, drawn in draws.items()}
        for place, name in enumerate(names)
    }
    measure, drawn = next(iter(draws.items()))
    difference = means["after"][measure] - means["before"][measure]
    drawn_difference = drawn[:, names.index("after")] - drawn[:, names.index("before")]
    told = figure(difference, drawn_difference, (ends[0] - ends[1], ends[1] - ends[0]))
    gain = {"measure": measure, "difference": difference, "interval": [told.low, told.high]}
    if np.array_equal(judged["after"].said, judged["before"].said):
        gain["interval"] = [0.0, 0.0]  # the same model: nothing is open
    return {"intervals": intervals, "gain": gain}


def _draws(judged: list[Judgement], groups: np.ndarray) -> tuple[dict[str, np.ndarray], tuple[float, float]]:
    """Figures of the same resamples of groups of pairs, `(resamples, n_models)` each, and the ends they cannot pass."""
    right = judged[0].right
    if judged[0].measure == ACCURACY:
        hits = np.stack([one.said == right for one in judged], axis=1).astype(np.float64)
        return {ACCURACY: mean_draws(hits, groups)}, (0.0, 1.0)
    by_rank, by_value = correlation_draws([one.said.astype(np.float64) for one in judged], right.astype(float), groups)
    return dict(zip(_CORRELATIONS, (by_rank, by_value), strict=True)), (-1.0, 1.0)
