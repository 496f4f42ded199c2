"""Any number of sentence encoders on one part of a set of pairs, everything that is told of them."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from mrc_workbench.data.pairs import PairKind, PairSet, part_to_measure, split_pairs
from mrc_workbench.data.problems import with_extra
from mrc_workbench.data.split import Part
from mrc_workbench.data.text.corpora import OnProgress, within
from mrc_workbench.labs.embeddings import geometry, judgement
from mrc_workbench.labs.embeddings.encoder import Distinct, EmbeddingError, encode
from mrc_workbench.labs.embeddings.results import Evaluation, ModelResult
from mrc_workbench.retrieval.significance import Interval, PairedTest

logger = logging.getLogger(__name__)
SPREAD_SENTENCES = 20_000  # that uniformity and anisotropy are measured of: of more, so many drawn, the same each time
_PAIRS = 8192  # of a block
_ENDS = {  # what no figure can pass
    "alignment": (0.0, 4.0),
    "uniformity": (-math.inf, 0.0),
    "anisotropy": (-1.0, 1.0),
    "nli_accuracy": (0.0, 1.0),
}
# what is known of a model before it is compared, and by measure what its figure is the mean of
_Measured = tuple[ModelResult, Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class _Material:
    """A part of a set, by its rows, and its sentences."""

    pairs: PairSet
    name: Part
    rows: np.ndarray

    @cached_property
    def part(self) -> PairSet:
        return self.pairs.at(self.rows)

    @cached_property
    def distinct(self) -> Distinct:
        return Distinct.of(self.part)

    @cached_property
    def positive(self) -> np.ndarray:
        return geometry.positive_rows(self.part)

    @cached_property
    def spread(self) -> np.ndarray:
        """Positions of the sentences for uniformity and anisotropy, ascending."""
        n = len(self.distinct.sentences)
        drawn = np.random.default_rng(0).choice(n, min(n, SPREAD_SENTENCES), replace=False)
        return np.sort(drawn)

    def by_block(self, measure: Callable[[np.ndarray, np.ndarray], np.ndarray], vectors: np.ndarray) -> np.ndarray:
        """Apply `measure` to the vectors of the first two sentences of each row, block by block."""
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
    """Measure models by their references on a part of the set; by default, on what `part_to_measure` returns.

    A model that fails has its error in its result. `on_progress(model, fraction)` reports the running model and the
    fraction of all work. Raises `EmbeddingError` (`no_pairs`) if the part is empty.
    """
    rows = split_pairs(pairs)
    part = part or part_to_measure(rows)
    if not len(rows[part]):
        raise EmbeddingError("no_pairs", f"the {part.value} part of {pairs.name!r} holds no row")
    measured, names = _Material(pairs, part, rows[part]), [*dict.fromkeys(models)]
    probed = _probe_material(pairs, rows, part)
    found: list[_Measured] = []
    for name in names:

        def tell(share: float, name: str = name) -> None:
            if on_progress:
                on_progress(name, (len(found) + share) / len(names))

        tell(0.0)
        try:
            found.append(_measured(name, measured, probed, base, tell))
        except Exception as error:
            logger.exception("model %r cannot be measured", name)
            found.append((ModelResult(name, error=with_extra(error)), {}))
    results, tests = _compared(measured, probed, found)
    if on_progress:
        on_progress("", 1.0)
    return Evaluation(
        data=pairs.name,
        data_fingerprint=pairs.fingerprint,
        kind=pairs.kind,
        part=part,
        rows=measured.rows,
        values=measured.part.gold if pairs.kind is PairKind.SCORED else measured.part.values,
        sentences=len(measured.distinct.sentences),
        positives=len(measured.positive),
        results=tuple(results),
        differences=tests,
        probe_part=probed[1].name if probed else None,
    )


def _probe_material(pairs: PairSet, rows: dict[Part, np.ndarray], part: Part) -> tuple[_Material, _Material] | None:
    """Return the probe's training and test data; None without labels or training rows."""
    judged = part_to_measure(rows) if part is Part.ALL else part
    if pairs.kind is not PairKind.LABELLED or judged not in (Part.VALIDATION, Part.TEST) or not len(rows[Part.TRAIN]):
        return None
    return _Material(pairs, Part.TRAIN, judgement.training_rows(rows[Part.TRAIN])), _Material(
        pairs, judged, rows[judged]
    )


def _measured(
    name: str, measured: _Material, probed: tuple[_Material, _Material] | None, base: Path | None, tell: OnProgress
) -> _Measured:
    materials = (measured, *(probed or ()))
    corpus = measured.pairs.sentences  # whichever rows are asked for, a starter is made of all
    ends = np.cumsum([0, *(len(one.distinct.sentences) for one in materials)])
    encoded, *of_probe = (
        encode(name, one.distinct.sentences, corpus, base=base, on_progress=within(tell, low, high))
        for one, (low, high) in zip(materials, pairwise((ends / ends[-1]).tolist()), strict=True)
    )
    vectors, parts = encoded.vectors, {}
    if len(measured.positive):
        parts["alignment"] = measured.by_block(geometry.squared_distances, vectors)[measured.positive]
    spread = vectors[measured.spread]
    parts |= {"uniformity": geometry.uniformity_parts(spread), "anisotropy": geometry.anisotropy_parts(spread)}
    judged = None
    if probed:
        of_parts = [one.by_block(judgement.features, its.vectors) for one, its in zip(probed, of_probe, strict=True)]
        train, test = zip(of_parts, (one.part.values for one in probed), strict=True)
        judged = judgement.probe(train, probed[0].distinct.groups, test)
    if judged:
        parts["nli_accuracy"] = judged.correct.astype(np.float64)
    result = ModelResult(
        name,
        cosines=measured.by_block(judgement.cosines, vectors)
        if measured.part.kind.width > 1
        else np.zeros(0, dtype=np.float32),
        singular_values=geometry.singular_values(vectors),
        plane=geometry.project(vectors),
        probe=judged,
        dimensions=vectors.shape[1],
        seconds=encoded.seconds,
        fingerprint=encoded.fingerprint,
    )
    return result, parts


def _compared(
    measured: _Material, probed: tuple[_Material, _Material] | None, found: Sequence[_Measured]
) -> tuple[list[ModelResult], dict[str, list[PairedTest]]]:
    """Return the results with their metrics, all models on the same resamples, and the tests by metric."""
    figures: dict[str, dict[str, Interval]] = {}
    tests: dict[str, list[PairedTest]] = {}
    every = {one.model: one.cosines for one, _ in found if one.error is None}
    if measured.part.kind is PairKind.SCORED and every:
        correlations = judgement.correlate(every, measured.part.gold, measured.distinct.groups)
        figures |= {"spearman": correlations.spearman, "pearson": correlations.pearson}
        tests |= correlations.differences
    groups = {
        "alignment": measured.distinct.groups[measured.positive],
        "uniformity": measured.distinct.sentence_groups[measured.spread],
        "anisotropy": measured.distinct.sentence_groups[measured.spread],
        "nli_accuracy": probed[1].distinct.groups if probed else np.zeros(0, dtype=np.int64),
    }
    for measure, of_parts in groups.items():
        if parts := {one.model: its[measure] for one, its in found if measure in its}:
            numbered = np.unique(of_parts, return_inverse=True)[1]
            figures[measure], tests[measure] = judgement.mean_figures(parts, numbered, _ENDS[measure])
    results = [
        replace(
            one,
            figures={measure: by_model[one.model] for measure, by_model in figures.items() if one.model in by_model},
        )
        for one, _ in found
    ]
    return results, tests
