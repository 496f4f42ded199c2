"""The study of sentence encoders: the evaluation of several models on pairs, its stored result and its commands."""

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from mrc_workbench.data.cache import SCORES, Arrays, load_arrays, save_arrays
from mrc_workbench.data.commands import AsJson, commands_of, one_of, stop_message
from mrc_workbench.data.jobs.folder import Progress
from mrc_workbench.data.pairs import PairKind, PairSet, part_to_measure, split_pairs
from mrc_workbench.data.pairs.store import find
from mrc_workbench.data.problems import failure_dict, with_extra
from mrc_workbench.data.split import Part
from mrc_workbench.data.studies import Study
from mrc_workbench.data.terminal import aligned, end_progress_line, report_progress, tell
from mrc_workbench.data.text.corpora import OnProgress, within
from mrc_workbench.data.workspace import read_json, write_json
from mrc_workbench.labs.embeddings import geometry, judgement, results
from mrc_workbench.labs.embeddings.encoder import COST, Distinct, EmbeddingError, cost, encode
from mrc_workbench.labs.embeddings.geometry import neighbours, project, similarity
from mrc_workbench.labs.embeddings.results import Evaluation, ModelResult
from mrc_workbench.models.sources import contents
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


_ENCODING = 0.8  # fraction of the work of a map


@dataclass(frozen=True)
class TaskResult:
    """The result of a task other than an evaluation: JSON-able content and arrays by name.

    - similarity: `matrix_<row of the model>` `(n, n)`; content has each model, with its error if it failed
    - neighbours: `cosines` and `rows` `(n_queries, k)`, rows of `sentences_of` the part
    - map: `points` `(n, 2)` and `explained` `(2,)`
    - cost: no arrays
    """

    content: dict[str, Any]
    arrays: Arrays = field(default_factory=dict)


def run(request: results.Request, pairs: PairSet, progress: Progress) -> results.Evaluation | TaskResult:
    """Run a request on these pairs. Raises `Failure` if the only model fails; of several each has its own error."""
    match request:
        case results.EvaluationRequest():
            return evaluate(pairs, request.models, request.part, on_progress=progress)
        case results.SimilarityRequest():
            return _similarities(request, pairs, progress)
        case results.NeighboursRequest():
            vectors = _part_vectors(request.model, request.part, pairs, progress)
            queries = encode(request.model, request.sentences, pairs.sentences)
            cosines, rows = neighbours(vectors, queries.vectors, request.k)
            return TaskResult({"model": request.model}, {"cosines": cosines, "rows": rows})
        case results.MapRequest():
            vectors = _part_vectors(request.model, request.part, pairs, progress)
            return TaskResult({"model": request.model}, vars(project(vectors, request.projection)))
        case results.CostRequest():
            order = np.random.default_rng(0).permutation(len(pairs.sentences)).tolist()
            sample = [pairs.sentences[row] for row in order]
            encoders = request.bi_encoder, request.cross_encoder
            measured = cost(*encoders, sample, seconds=request.seconds, on_progress=partial(progress, ""))
            return TaskResult(COST.dump_python(measured, mode="json"))


def sentences_of(pairs: PairSet, part: Part) -> list[str]:
    """Return the different sentences of a part in the order of a map's points. Raises `EmbeddingError` (`no_pairs`)."""
    rows = split_pairs(pairs)[part]
    if not len(rows):
        raise EmbeddingError("no_pairs", f"the {part.value} part of {pairs.name!r} holds no row")
    return Distinct.of(pairs.at(rows)).sentences


def _part_vectors(model: str, part: Part, pairs: PairSet, progress: Progress) -> np.ndarray:
    encoding = within(partial(progress, model), 0, _ENCODING)
    return encode(model, sentences_of(pairs, part), pairs.sentences, on_progress=encoding).vectors


def _similarities(request: results.SimilarityRequest, pairs: PairSet, progress: Progress) -> TaskResult:
    arrays: Arrays = {}
    models: dict[str, Any] = {}
    for row, model in enumerate(request.models):
        progress(model, row / len(request.models))
        try:
            arrays[f"matrix_{row}"] = similarity(encode(model, request.sentences, pairs.sentences).vectors)
            models[model] = {}
        except Exception as error:
            logger.exception("model %r cannot encode", model)
            models[model] = failure_dict(with_extra(error))
    return TaskResult({"models": models}, arrays)


def save(result: results.Evaluation | TaskResult, folder: Path) -> None:
    """Write the arrays and, last, `scores.json`. Raises `OSError`."""
    if isinstance(result, results.Evaluation):
        results.keep(result, folder)
        return
    save_arrays(folder / "arrays.npz", result.arrays)
    write_json(folder / SCORES, result.content)


def load_task(folder: Path) -> TaskResult:
    """Read the result of a task. Raises `ValueError` if there is none."""
    arrays = load_arrays(folder / "arrays.npz") if (folder / SCORES).is_file() else None
    if arrays is None:
        raise ValueError(f"{folder} holds no finished result")
    return TaskResult(read_json(folder / SCORES), arrays)


STUDY = Study[results.Request, results.Evaluation | TaskResult](
    name="embeddings",
    summary="Evaluate sentence encoders.",
    versions=(4,),
    spec=results.REQUEST_TYPE,
    run=lambda request, progress: run(request, find(request.data), progress),
    inputs=lambda request: (contents(results.models_of(request)),),
    save=save,
)


commands = commands_of("embeddings", "Evaluate sentence encoders.")


@commands.command(name="evaluate")
def evaluate_command(
    *,
    data: Annotated[str, Parameter(help="sentence pairs: a path, or a name or key of the catalog or the workspace")],
    model: Annotated[list[str], Parameter(help="a folder, a run, a hub id or starter; several after one flag")],
    split: Annotated[Part | None, one_of(Part)] = None,
    as_json: AsJson = False,
    out: Annotated[Path | None, Parameter(help="folder for scores.json and its arrays")] = None,
) -> int:
    """Evaluate sentence encoders on sentence pairs.

    Correlations and fractions are from -1 to 1.

    Parameters
    ----------
    split
        the test part if there is one, else validation, else all
    """
    with stop_message("Stopped. Vectors encoded so far are kept: run the same command again to continue."):
        evaluation = evaluate(find(data), model, split, on_progress=report_progress)
    end_progress_line()
    tell(json.dumps(evaluation.as_dict(), ensure_ascii=False, indent=2) if as_json else table(evaluation))
    failed = [one for one in evaluation.results if one.error]
    for one in failed:
        tell(f"{one.model} failed: {one.error}", error=True)
    if out:
        out.mkdir(parents=True, exist_ok=True)
        results.keep(evaluation, out)
    return int(bool(failed))


def table(evaluation: results.Evaluation) -> str:
    """Return the metrics with their intervals as lines of text."""
    measures = [*dict.fromkeys(name for one in evaluation.measured.values() for name in one.figures)]
    counts = f"{len(evaluation.rows):,} {evaluation.kind.value} rows, {evaluation.sentences:,} different sentences"
    rows = []
    for one in evaluation.results:
        cells = []
        for name in measures if one.error is None else ():
            figure = one.figures.get(name)
            interval = f"{figure.low:.4f} to {figure.high:.4f}" if figure else ""
            cells.append(f"{figure.value:8.4f} {interval:>16}" if figure else "-")
        rows.append((one.model, cells or ["failed"]))
    return "\n".join([f"{counts}, {evaluation.part.value}", *aligned(measures, rows, 25)])
