"""Any number of sentence encoders on one part of a set of pairs, everything that is told of them."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from data.pairs.records import PairKind, PairSet
from data.pairs.split import part_to_measure, split_pairs
from data.split import Part
from embeddings.bootstrap import Difference, Figure, differences, mean_draws
from embeddings.distinct import Distinct
from embeddings.encoder import SentenceVectors, encode
from embeddings.geometry import (
    alignment_figure,
    anisotropy,
    positive_rows,
    singular_values,
    squared_distances,
    uniformity_figure,
)
from embeddings.probe import Probe, features, probe, training_rows
from embeddings.problems import EmbeddingError
from embeddings.results import Evaluation, ModelResult
from embeddings.sts import correlate, cosines

logger = logging.getLogger(__name__)
UNIFORM_SENTENCES = 20_000  # that uniformity is measured of: of more, so many drawn at random, the same each time
_PAIRS = 8192  # of a block
Tell = Callable[[float], None]


@dataclass(frozen=True)
class _Material:
    """Some rows of a set, and their sentences."""

    pairs: PairSet
    rows: np.ndarray

    @cached_property
    def part(self) -> PairSet:
        return self.pairs.at(self.rows)

    @cached_property
    def distinct(self) -> Distinct:
        return Distinct.of(self.part)

    def by_block(self, measure: Callable[[np.ndarray, np.ndarray], np.ndarray], vectors: np.ndarray) -> np.ndarray:
        """`measure` of the vectors of the first two sentences of each row, so many rows at a time."""
        places = self.distinct.places
        blocks = (places[start : start + _PAIRS] for start in range(0, len(places), _PAIRS))
        return np.concatenate([measure(vectors[block[:, 0]], vectors[block[:, 1]]) for block in blocks])


def evaluate(
    pairs: PairSet,
    models: Sequence[str],
    part: Part | None = None,
    *,
    base: Path | None = None,
    on_progress: Callable[[str, float], None] | None = None,
) -> Evaluation:
    """Measure models by their references on a part of the set; without one, on what `part_to_measure` says.

    Whatever goes wrong with a model stands in its result, and the others are measured. `on_progress(model, share)` is
    told which one is at work and the share of all work done. Paths are relative to `base`. Raises `EmbeddingError`
    (`no_pairs`) where the part is empty.
    """
    rows = split_pairs(pairs)
    part = part or part_to_measure(rows)
    if not len(rows[part]):
        raise EmbeddingError("no_pairs", f"the {part.value} part of {pairs.name!r} holds no row")
    measured, names = _Material(pairs, rows[part]), [*dict.fromkeys(models)]
    probed = _probe_material(pairs, rows, part)
    results: list[ModelResult] = []
    for name in names:

        def tell(share: float, name: str = name) -> None:
            if on_progress:
                on_progress(name, (len(results) + share) / len(names))

        tell(0.0)
        results.append(_result(name, measured, probed, base, tell))
    told, differing = _compared(measured, probed, results)
    if on_progress:
        on_progress("", 1.0)
    scored = pairs.kind is PairKind.SCORED
    return Evaluation(
        data=pairs.name,
        data_fingerprint=pairs.fingerprint,
        kind=pairs.kind,
        part=part,
        rows=measured.rows,
        values=measured.part.gold if scored else measured.part.values,
        sentences=len(measured.distinct.sentences),
        positives=len(positive_rows(measured.part)),
        results=tuple(told),
        differences=differing,
        probe_part=probed.part if probed else None,
    )


@dataclass(frozen=True)
class _ProbeMaterial:
    train: _Material
    judged: _Material
    part: Part


def _probe_material(pairs: PairSet, rows: dict[Part, np.ndarray], part: Part) -> _ProbeMaterial | None:
    """What a probe learns from and what it is judged on; None where nothing is labelled, or left to learn from."""
    judged = part_to_measure(rows) if part is Part.ALL else part
    if pairs.kind is not PairKind.LABELLED or judged not in (Part.VALIDATION, Part.TEST) or not len(rows[Part.TRAIN]):
        return None
    return _ProbeMaterial(_Material(pairs, training_rows(rows[Part.TRAIN])), _Material(pairs, rows[judged]), judged)


def _result(
    name: str, measured: _Material, probed: _ProbeMaterial | None, base: Path | None, tell: Tell
) -> ModelResult:
    try:
        return _measured(name, measured, probed, base, tell)
    except Exception as error:
        logger.exception("model %r cannot be measured", name)
        return ModelResult(name, error=error)


def _measured(
    name: str, measured: _Material, probed: _ProbeMaterial | None, base: Path | None, tell: Tell
) -> ModelResult:
    encoding = _encodings(name, base, tell, [measured, *([probed.train, probed.judged] if probed else [])])
    encoded, distinct = next(encoding), measured.distinct
    vectors, figures = encoded.vectors, {}
    if len(positive := positive_rows(measured.part)):
        distances = measured.by_block(squared_distances, vectors)[positive]
        figures["alignment"] = alignment_figure(distances, distinct.groups[positive])
    figures["uniformity"] = _uniformity(vectors, distinct.sentence_groups)
    judged = _probed(probed, encoding) if probed else None
    if judged:
        figures["nli_accuracy"] = judged.accuracy
    return ModelResult(
        name,
        figures,
        anisotropy(vectors),
        measured.by_block(cosines, vectors) if measured.part.kind.width > 1 else np.zeros(0, dtype=np.float32),
        singular_values(vectors),
        judged,
        vectors.shape[1],
        encoded.seconds,
        encoded.fingerprint,
    )


def _encodings(name: str, base: Path | None, tell: Tell, materials: Sequence[_Material]) -> Iterator[SentenceVectors]:
    corpus = materials[0].pairs.sentences  # whichever rows are asked for, a starter is made of all
    sizes = np.cumsum([0, *(len(one.distinct.sentences) for one in materials)]) / sum(
        len(one.distinct.sentences) for one in materials
    )
    for place, one in enumerate(materials):
        low, high = sizes[place], sizes[place + 1]

        def within(share: float, low: float = low, high: float = high) -> None:
            tell(low + (high - low) * share)

        yield encode(name, one.distinct.sentences, corpus, base=base, on_progress=within)


def _uniformity(vectors: np.ndarray, groups: np.ndarray) -> Figure:
    if len(vectors) > UNIFORM_SENTENCES:
        drawn = np.sort(np.random.default_rng(0).choice(len(vectors), UNIFORM_SENTENCES, replace=False))
        vectors, groups = vectors[drawn], groups[drawn]
    return uniformity_figure(vectors, groups)


def _probed(material: _ProbeMaterial, encoding: Iterator[SentenceVectors]) -> Probe | None:
    def of(one: _Material) -> tuple[np.ndarray, np.ndarray]:
        return one.by_block(features, next(encoding).vectors), one.part.values

    train, judged = of(material.train), of(material.judged)
    return probe(train, material.train.distinct.groups, judged, material.judged.distinct.groups)


def _compared(
    measured: _Material, probed: _ProbeMaterial | None, results: Sequence[ModelResult]
) -> tuple[list[ModelResult], dict[str, list[Difference]]]:
    """The results with what is measured of all models on the same resamples, and the models told apart by it."""
    if measured.part.kind is PairKind.SCORED:
        every = {one.model: one.cosines for one in results if one.error is None}
        if not every:
            return [*results], {}
        found = correlate(every, measured.part.gold, measured.distinct.groups)
        told = [
            replace(
                one, figures={"spearman": found.spearman[one.model], "pearson": found.pearson[one.model], **one.figures}
            )
            if one.model in every
            else one
            for one in results
        ]
        return told, found.differences
    judged = {one.model: one.probe for one in results if one.probe}
    if probed is None or not judged:
        return [*results], {}
    correct = np.stack([one.correct for one in judged.values()], axis=1).astype(np.float64)
    draws = mean_draws(correct, probed.judged.distinct.groups)
    return [*results], {"nli_accuracy": differences([*correct.mean(axis=0)], draws, [*judged])}
