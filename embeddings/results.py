"""What was measured of sentence encoders on one part of a set of pairs."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from data.pairs.records import Label, PairKind
from data.problems import Failure
from data.split import Part
from embeddings.bootstrap import Difference, Figure
from embeddings.geometry import Map
from embeddings.judgement import Probe


@dataclass(frozen=True)
class ModelResult:
    """One model, or what went wrong with it: a model that failed has no figures, never 0.

    `figures` by measure: `spearman` and `pearson` of scored pairs, `alignment` where there are positive pairs,
    `uniformity`, `anisotropy`, and `nli_accuracy` of labelled pairs with others to train the probe on. `cosines`
    `(n_rows,)` float32 are those of a row's first two sentences, empty of sentences alone. `singular_values`
    `(dimensions,)` fall from 1. `plane` has the part's different sentences in their order, by principal components.
    `seconds` are those of encoding.
    """

    model: str
    figures: dict[str, Figure] = field(default_factory=dict)
    cosines: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    singular_values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    plane: Map = field(default_factory=lambda: Map(np.zeros((0, 2), dtype=np.float32), np.zeros(2)))
    probe: Probe | None = None
    dimensions: int = 0
    seconds: float = 0.0
    fingerprint: str = ""
    error: Exception | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return figures between -1 and 1, distances, and seconds; null is what is not defined."""
        if self.error is not None:
            return self.error.as_dict() if isinstance(self.error, Failure) else {"error": str(self.error)}
        told: dict[str, Any] = {name: number(one.value) for name, one in self.figures.items()}
        told["interval"] = {name: [number(one.low), number(one.high)] for name, one in self.figures.items()}
        if self.probe:
            told["probe"] = probe_dict(self.probe)
        return told | {"dimensions": self.dimensions, "seconds": self.seconds, "fingerprint": self.fingerprint}


@dataclass(frozen=True)
class Evaluation:
    """Models on one part of a set. `rows` `(n_rows,)` int64 are the part's rows in the set.

    `values` `(n_rows,)` are the gold scores from 0 to 1, or the labels, empty of other kinds. `positives` counts the
    pairs of alignment. `differences` are of every two models, by each measure. `probe_part` is the one the probe was
    judged on, None where there was none.
    """

    data: str
    data_fingerprint: str
    kind: PairKind
    part: Part
    rows: np.ndarray
    values: np.ndarray
    sentences: int
    positives: int
    results: tuple[ModelResult, ...]
    differences: dict[str, list[Difference]]
    probe_part: Part | None = None

    @property
    def measured(self) -> dict[str, ModelResult]:
        """The models that have figures, by name."""
        return {one.model: one for one in self.results if one.error is None}

    @property
    def cosines(self) -> dict[str, np.ndarray]:
        """Cosines of all models that have them, as `densities` and `wrong_pairs` take them."""
        return {name: one.cosines for name, one in self.measured.items() if len(one.cosines)}

    def as_dict(self) -> dict[str, Any]:
        """Return the content of `scores.json`: all but the arrays."""
        return {
            "data": self.data,
            "fingerprint": self.data_fingerprint,
            "kind": self.kind.value,
            "split": self.part.value,
            "pairs": len(self.rows),
            "sentences": self.sentences,
            "positives": self.positives,
            "probe_split": self.probe_part.value if self.probe_part else None,
            "models": {one.model: one.as_dict() for one in self.results},
            "differences": {name: [*map(_difference, told)] for name, told in self.differences.items()},
        }


def probe_dict(probe: Probe) -> dict[str, Any]:
    """What `scores.json` tells of a probe beside its accuracy."""
    return {
        "trained_on": _by_label(probe.trained_on),
        "judged_on": _by_label(probe.confusion.sum(axis=1)),
        "confusion": probe.confusion.tolist(),
        "chance": probe.chance,
        "strength": probe.strength,
    }


def _difference(one: Difference) -> dict[str, Any]:
    return asdict(one) | {"low": number(one.low), "high": number(one.high)}


def number(value: float) -> float | None:
    """A number as JSON has it: what is not finite, as an open end, is null."""
    return float(value) if math.isfinite(value) else None


def _by_label(counts: Iterable[int]) -> dict[str, int]:
    return {label.name.lower(): int(count) for label, count in zip(Label, counts, strict=True)}
