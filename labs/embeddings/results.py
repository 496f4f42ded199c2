"""Stored evaluations of sentence encoders on one part of a set of pairs, requests, and published results.

A folder has `arrays.npz` and `scores.json`, which is written last: a folder with scores is complete. Published
results are of other models with other training settings, so they only give orientation.
"""

import math
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from mrc_workbench.data.cache import Arrays, Artifact
from mrc_workbench.data.pairs import Label, PairKind
from mrc_workbench.data.problems import Failure, failure_dict
from mrc_workbench.data.split import Part
from mrc_workbench.labs.embeddings.encoder import SECONDS
from mrc_workbench.labs.embeddings.geometry import MAX_MATRIX_ROWS, ProjectedPoints, Projection
from mrc_workbench.labs.embeddings.judgement import UNDEFINED, Probe
from mrc_workbench.retrieval.significance import Interval, PairedTest

_ARTIFACT: Artifact[dict[str, Any]] = Artifact("evaluation", TypeAdapter(dict[str, Any]), "arrays.npz")
REIMERS = "Reimers & Gurevych 2019, Sentence-BERT, arXiv:1908.10084"
Sentence = Annotated[str, Field(min_length=1, max_length=10_000)]


@dataclass(frozen=True)
class ModelResult:
    """One model's results, or its error without metrics.

    `metrics` by name: `spearman` and `pearson` of scored pairs, `alignment` of positive pairs, `uniformity`,
    `anisotropy`, and `nli_accuracy` of labelled pairs. `cosines` `(n_rows,)` float32 compare the first two sentences of
    each row. `singular_values` `(dimensions,)` fall from 1. `plane` has the distinct sentences by principal components.
    `seconds` is the encoding time.
    """

    model: str
    metrics: dict[str, Interval] = field(default_factory=dict)
    cosines: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    singular_values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    plane: ProjectedPoints = field(default_factory=lambda: ProjectedPoints(np.zeros((0, 2), np.float32), np.zeros(2)))
    probe: Probe | None = None
    dimensions: int = 0
    seconds: float = 0.0
    fingerprint: str = ""
    error: Exception | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the content of `scores.json`; undefined metrics are null."""
        if self.error is not None:
            return failure_dict(self.error)
        content: dict[str, Any] = {name: _number(interval.value) for name, interval in self.metrics.items()}
        content["interval"] = {name: [_number(item.low), _number(item.high)] for name, item in self.metrics.items()}
        if self.probe:
            labels = [label.name.lower() for label in Label]
            content["probe"] = {
                "trained_on": dict(zip(labels, self.probe.trained_on.tolist(), strict=True)),
                "evaluated_on": dict(zip(labels, self.probe.confusion.sum(axis=1).tolist(), strict=True)),
                "confusion": self.probe.confusion.tolist(),
                "chance": self.probe.chance,
                "strength": self.probe.strength,
            }
        return content | {"dimensions": self.dimensions, "seconds": self.seconds, "fingerprint": self.fingerprint}


@dataclass(frozen=True)
class EncoderEvaluation:
    """Models on one part of a set. `rows` `(n_rows,)` int64 are the part's rows in the set.

    `values` `(n_rows,)` are gold scores from 0 to 1 or labels, empty for other kinds. `positives` counts the pairs for
    alignment. `probe_part` is the part that the probe is evaluated on.
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
    differences: dict[str, list[PairedTest]]
    probe_part: Part | None = None

    @property
    def results_by_model(self) -> dict[str, ModelResult]:
        return {result.model: result for result in self.results if result.error is None}

    @property
    def cosines(self) -> dict[str, np.ndarray]:
        return {name: result.cosines for name, result in self.results_by_model.items() if len(result.cosines)}

    def as_dict(self) -> dict[str, Any]:
        """Return the content of `scores.json`."""
        return {
            "data": self.data,
            "fingerprint": self.data_fingerprint,
            "kind": self.kind.value,
            "split": self.part.value,
            "pairs": len(self.rows),
            "sentences": self.sentences,
            "positives": self.positives,
            "probe_split": self.probe_part.value if self.probe_part else None,
            "models": {item.model: item.as_dict() for item in self.results},
            "differences": {
                name: [asdict(item) | {"low": _number(item.low), "high": _number(item.high)} for item in tests]
                for name, tests in self.differences.items()
            },
        }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def save(evaluation: EncoderEvaluation, folder: Path) -> None:
    """Write what `load` reads. Raises `OSError`."""
    arrays: Arrays = {"rows": evaluation.rows, "values": evaluation.values}
    for index, result in enumerate(evaluation.results):
        arrays |= {f"cosines_{index}": result.cosines, f"singular_values_{index}": result.singular_values}
        arrays |= {f"points_{index}": result.plane.points, f"explained_{index}": result.plane.explained}
        if result.probe:
            arrays[f"correct_{index}"] = result.probe.correct
    _ARTIFACT.write(folder, evaluation.as_dict(), arrays)


def load(folder: Path) -> EncoderEvaluation:
    """Read an evaluation. Raises `ValueError` without a complete one of this version."""
    return _ARTIFACT.read(folder, _parse_evaluation)


def _parse_evaluation(scores: dict[str, Any], arrays: Arrays) -> EncoderEvaluation:
    models = scores["models"].items()
    return EncoderEvaluation(
        data=scores["data"],
        data_fingerprint=scores["fingerprint"],
        kind=PairKind(scores["kind"]),
        part=Part(scores["split"]),
        rows=arrays["rows"],
        values=arrays["values"],
        sentences=scores["sentences"],
        positives=scores["positives"],
        results=tuple(_parse_result(name, content, arrays, index) for index, (name, content) in enumerate(models)),
        differences={
            name: [PairedTest(**test | _ends(test["low"], test["high"])) for test in content]
            for name, content in scores["differences"].items()
        },
        probe_part=Part(scores["probe_split"]) if scores["probe_split"] else None,
    )


def _parse_result(name: str, content: dict[str, Any], arrays: Arrays, index: int) -> ModelResult:
    if "error" in content:
        return ModelResult(name, error=Failure.from_dict(content))
    probe = None
    if stored_probe := content.get("probe"):
        confusion = np.array(stored_probe["confusion"])
        trained_on = np.array([*stored_probe["trained_on"].values()])
        correct = arrays[f"correct_{index}"]
        probe = Probe(correct, confusion, trained_on, stored_probe["chance"], stored_probe["strength"])
    metrics = {
        measure: UNDEFINED if content[measure] is None else Interval(content[measure], **_ends(*ends))
        for measure, ends in content["interval"].items()
    }
    return ModelResult(
        name,
        metrics,
        cosines=arrays[f"cosines_{index}"],
        singular_values=arrays[f"singular_values_{index}"],
        plane=ProjectedPoints(arrays[f"points_{index}"], arrays[f"explained_{index}"]),
        probe=probe,
        dimensions=content["dimensions"],
        seconds=content["seconds"],
        fingerprint=content["fingerprint"],
    )


def _ends(low: float | None, high: float | None) -> dict[str, float]:
    return {"low": -math.inf if low is None else low, "high": math.inf if high is None else high}


@dataclass(frozen=True)
class PublishedCorrelation:
    """A published correlation, -1 to 1, on a part of a set in its published split."""

    model: str
    training_data: str  # empty without training on sentence pairs
    data: Literal["KorSTS", "KLUE-STS"]
    measure: Literal["spearman", "pearson"]
    part: Literal["validation", "test"]
    value: float
    source: str
    encoder: Literal["bi-encoder", "cross-encoder"] = "bi-encoder"


_FILE = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
PUBLISHED = tuple(
    PublishedCorrelation(part=part, value=value, **entry | {"source": _FILE["sources"][entry["source"]]})
    for entry in _FILE["published"]
    for part, value in entry.pop("parts").items()
)


def published_for(data: str, part: str) -> tuple[PublishedCorrelation, ...]:
    """Return published results of this part; the set's name must contain theirs."""
    name = data.casefold().replace("_", "-").replace("korsts", "KorSTS").replace("klue-sts", "KLUE-STS")
    return tuple(entry for entry in PUBLISHED if entry.data in name and entry.part == part)


class _BaseRequest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str  # key, name or catalog id of a set of pairs, or a file


class EvaluationRequest(_BaseRequest):
    """Models on a part of a set, by default on `evaluation_part`."""

    task: Literal["evaluate"] = "evaluate"
    models: Annotated[tuple[str, ...], Field(min_length=1, max_length=20)]
    part: Part | None = None


class SimilarityRequest(_BaseRequest):
    """The cosines of these sentences by each model; the starter model is fitted on the set's sentences."""

    task: Literal["similarity"] = "similarity"
    models: Annotated[tuple[str, ...], Field(min_length=1, max_length=20)]
    sentences: Annotated[tuple[Sentence, ...], Field(min_length=1, max_length=MAX_MATRIX_ROWS)]


class NeighboursRequest(_BaseRequest):
    """The sentences of a part that are nearest to these."""

    task: Literal["neighbours"] = "neighbours"
    model: str
    part: Part = Part.ALL
    sentences: Annotated[tuple[Sentence, ...], Field(min_length=1, max_length=MAX_MATRIX_ROWS)]
    k: Annotated[int, Field(ge=1, le=1000)] = 10


class MapRequest(_BaseRequest):
    """The sentences of a part on a plane; evaluations already have principal components."""

    task: Literal["map"] = "map"
    model: str
    part: Part = Part.ALL
    projection: Projection = Projection.UMAP


class CostRequest(_BaseRequest):
    """The time of a cross-encoder and of a bi-encoder with the set's sentences, measured for `seconds` each."""

    task: Literal["cost"] = "cost"
    bi_encoder: str
    cross_encoder: str
    seconds: Annotated[float, Field(gt=0, le=600)] = SECONDS


EmbeddingRequest = EvaluationRequest | SimilarityRequest | NeighboursRequest | MapRequest | CostRequest
REQUEST_TYPE = Annotated[EmbeddingRequest, Field(discriminator="task")]


def request_models(request: EmbeddingRequest) -> tuple[str, ...]:
    """Return the references of the models that a request needs."""
    if isinstance(request, EvaluationRequest | SimilarityRequest):
        return request.models
    if isinstance(request, CostRequest):
        return request.bi_encoder, request.cross_encoder
    return (request.model,)
