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
from pydantic import TypeAdapter

from mrc_workbench.data.cache import Arrays, Artifact
from mrc_workbench.data.commands import AsJson, choice_option, command_group, stop_message
from mrc_workbench.data.jobs.folder import Progress
from mrc_workbench.data.pairs import PairKind, PairSet, evaluation_part, split_pairs
from mrc_workbench.data.pairs.store import find
from mrc_workbench.data.problems import as_missing_extra, failure_dict
from mrc_workbench.data.split import Part
from mrc_workbench.data.studies import Study
from mrc_workbench.data.terminal import end_progress_line, format_table, print_line, report_progress
from mrc_workbench.data.text.corpora import ProgressCallback, scale_progress
from mrc_workbench.labs.embeddings import geometry, judgement, results
from mrc_workbench.labs.embeddings.encoder import COST_ADAPTER, DistinctSentences, EmbeddingError, encode, measure_cost
from mrc_workbench.labs.embeddings.geometry import find_neighbours, project, similarity_matrix
from mrc_workbench.labs.embeddings.results import EncoderEvaluation, ModelResult
from mrc_workbench.models.sources import local_fingerprints
from mrc_workbench.retrieval.significance import Interval, PairedTest

logger = logging.getLogger(__name__)
MAX_SPREAD_SENTENCES = 20_000  # uniformity and anisotropy use a fixed sample of larger parts
_PAIR_BLOCK_SIZE = 8192
_METRIC_RANGES = {
    "alignment": (0.0, 4.0),
    "uniformity": (-math.inf, 0.0),
    "anisotropy": (-1.0, 1.0),
    "nli_accuracy": (0.0, 1.0),
}
# a model's result without its metrics, and by metric the values that the metric is the mean of
_ModelMeasurement = tuple[ModelResult, Mapping[str, np.ndarray]]
_ENCODING_FRACTION = 0.8  # of the work for a map
_TASKS: Artifact[dict[str, Any]] = Artifact("result", TypeAdapter(dict[str, Any]))
commands = command_group("embeddings", "Evaluate sentence encoders.")


@dataclass(frozen=True)
class _PartData:
    """A part of a set, by its rows, and its sentences. Raises `EmbeddingError` (`no_pairs`) if it is empty."""

    pairs: PairSet
    name: Part
    rows: np.ndarray

    def __post_init__(self) -> None:
        if not len(self.rows):
            raise EmbeddingError("no_pairs", f"the {self.name.value} part of {self.pairs.name!r} holds no row")

    @cached_property
    def part(self) -> PairSet:
        return self.pairs.at(self.rows)

    @cached_property
    def distinct(self) -> DistinctSentences:
        return DistinctSentences.from_pairs(self.part)

    @cached_property
    def positive(self) -> np.ndarray:
        return geometry.positive_rows(self.part)

    @cached_property
    def spread(self) -> np.ndarray:
        """Positions of the sentences for uniformity and anisotropy, ascending."""
        n = len(self.distinct.sentences)
        sampled = np.random.default_rng(0).choice(n, min(n, MAX_SPREAD_SENTENCES), replace=False)
        return np.sort(sampled)

    def by_block(self, measure: Callable[[np.ndarray, np.ndarray], np.ndarray], vectors: np.ndarray) -> np.ndarray:
        """Apply `measure` to the vectors of the first two sentences of each row, block by block."""
        sentence_rows = self.distinct.sentence_rows
        starts = range(0, len(sentence_rows), _PAIR_BLOCK_SIZE)
        blocks = (sentence_rows[start : start + _PAIR_BLOCK_SIZE] for start in starts)
        return np.concatenate([measure(vectors[block[:, 0]], vectors[block[:, 1]]) for block in blocks])


_ProbeParts = tuple[_PartData, _PartData] | None  # training and test data


def evaluate(
    pairs: PairSet,
    models: Sequence[str],
    part: Part | None = None,
    *,
    base: Path | None = None,
    on_progress: Callable[[str, float], None] | None = None,
) -> EncoderEvaluation:
    """Measure models by their references on a part of the set, by default on `evaluation_part`.

    The result of a failed model has its error. `on_progress(model, fraction)` reports the running model and the
    fraction of all work. Raises `EmbeddingError` (`no_pairs`) if the part is empty.
    """
    rows = split_pairs(pairs)
    part = part or evaluation_part(rows)
    part_data = _PartData(pairs, part, rows[part])
    names = [*dict.fromkeys(models)]
    probe_parts = _probe_parts(pairs, rows, part)
    measurements: list[_ModelMeasurement] = []
    for name in names:

        def report(fraction: float, name: str = name) -> None:
            if on_progress:
                on_progress(name, (len(measurements) + fraction) / len(names))

        report(0.0)
        try:
            measurements.append(_measure_model(name, part_data, probe_parts, base, report))
        except Exception as error:
            logger.exception("model %r cannot be measured", name)
            measurements.append((ModelResult(name, error=as_missing_extra(error)), {}))
    results, tests = _compare_models(part_data, probe_parts, measurements)
    if on_progress:
        on_progress("", 1.0)
    return EncoderEvaluation(
        data=pairs.name,
        data_fingerprint=pairs.fingerprint,
        kind=pairs.kind,
        part=part,
        rows=part_data.rows,
        values=part_data.part.gold if pairs.kind is PairKind.SCORED else part_data.part.values,
        sentences=len(part_data.distinct.sentences),
        positives=len(part_data.positive),
        results=tuple(results),
        differences=tests,
        probe_part=probe_parts[1].name if probe_parts else None,
    )


def _probe_parts(pairs: PairSet, rows: dict[Part, np.ndarray], part: Part) -> _ProbeParts:
    """Return the probe's training and test data; None without labels or training rows."""
    test_part = evaluation_part(rows) if part is Part.ALL else part
    is_split = test_part in (Part.VALIDATION, Part.TEST) and len(rows[Part.TRAIN])
    if pairs.kind is not PairKind.LABELLED or not is_split:
        return None
    training_data = _PartData(pairs, Part.TRAIN, judgement.training_rows(rows[Part.TRAIN]))
    return training_data, _PartData(pairs, test_part, rows[test_part])


def _measure_model(
    name: str, evaluated: _PartData, probe_parts: _ProbeParts, base: Path | None, on_progress: ProgressCallback
) -> _ModelMeasurement:
    all_parts = (evaluated, *(probe_parts or ()))
    corpus = evaluated.pairs.sentences  # the starter model is fitted on all parts
    ends = np.cumsum([0, *(len(part_data.distinct.sentences) for part_data in all_parts)])
    encodings = []
    for part_data, (low, high) in zip(all_parts, pairwise((ends / ends[-1]).tolist()), strict=True):
        report = scale_progress(on_progress, low, high)
        encodings.append(encode(name, part_data.distinct.sentences, corpus, base=base, on_progress=report))
    encoded, *probe_encodings = encodings
    vectors = encoded.vectors
    parts = {}
    if len(evaluated.positive):
        parts["alignment"] = evaluated.by_block(geometry.squared_distances, vectors)[evaluated.positive]
    spread = vectors[evaluated.spread]
    parts |= {"uniformity": geometry.uniformity_parts(spread), "anisotropy": geometry.anisotropy_parts(spread)}
    probe_result = None
    if probe_parts:
        train, test = (
            (part_data.by_block(judgement.pair_features, encoding.vectors), part_data.part.values)
            for part_data, encoding in zip(probe_parts, probe_encodings, strict=True)
        )
        probe_result = judgement.train_probe(train, probe_parts[0].distinct.groups, test)
    if probe_result:
        parts["nli_accuracy"] = probe_result.correct.astype(np.float64)
    has_pairs = evaluated.part.kind.width > 1
    result = ModelResult(
        name,
        cosines=evaluated.by_block(judgement.cosines, vectors) if has_pairs else np.zeros(0, dtype=np.float32),
        singular_values=geometry.singular_values(vectors),
        plane=geometry.project(vectors),
        probe=probe_result,
        dimensions=vectors.shape[1],
        seconds=encoded.seconds,
        fingerprint=encoded.fingerprint,
    )
    return result, parts


def _compare_models(
    part_data: _PartData, probe_parts: _ProbeParts, measurements: Sequence[_ModelMeasurement]
) -> tuple[list[ModelResult], dict[str, list[PairedTest]]]:
    """Return the results with their metrics, all models on the same resamples, and the tests by metric."""
    metrics: dict[str, dict[str, Interval]] = {}
    tests: dict[str, list[PairedTest]] = {}
    cosines_by_model = {result.model: result.cosines for result, _ in measurements if result.error is None}
    if part_data.part.kind is PairKind.SCORED and cosines_by_model:
        correlations = judgement.correlate(cosines_by_model, part_data.part.gold, part_data.distinct.groups)
        metrics |= {"spearman": correlations.spearman, "pearson": correlations.pearson}
        tests |= correlations.differences
    groups = {
        "alignment": part_data.distinct.groups[part_data.positive],
        "uniformity": part_data.distinct.sentence_groups[part_data.spread],
        "anisotropy": part_data.distinct.sentence_groups[part_data.spread],
        "nli_accuracy": probe_parts[1].distinct.groups if probe_parts else np.zeros(0, dtype=np.int64),
    }
    for measure, group_ids in groups.items():
        values = {result.model: parts[measure] for result, parts in measurements if measure in parts}
        if values:
            numbered = np.unique(group_ids, return_inverse=True)[1]
            metrics[measure], tests[measure] = judgement.compare_means(values, numbered, _METRIC_RANGES[measure])
    results = []
    for result, _ in measurements:
        own = {measure: by_model[result.model] for measure, by_model in metrics.items() if result.model in by_model}
        results.append(replace(result, metrics=own))
    return results, tests


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


def run(request: results.EmbeddingRequest, pairs: PairSet, progress: Progress) -> EncoderEvaluation | TaskResult:
    """Run a request on these pairs. Raises `Failure` if the only model fails; several models have separate errors."""
    match request:
        case results.EvaluationRequest():
            return evaluate(pairs, request.models, request.part, on_progress=progress)
        case results.SimilarityRequest():
            return _compute_similarities(request, pairs, progress)
        case results.NeighboursRequest():
            vectors = _part_vectors(request.model, request.part, pairs, progress)
            queries = encode(request.model, request.sentences, pairs.sentences)
            cosines, rows = find_neighbours(vectors, queries.vectors, request.k)
            return TaskResult({"model": request.model}, {"cosines": cosines, "rows": rows})
        case results.MapRequest():
            vectors = _part_vectors(request.model, request.part, pairs, progress)
            return TaskResult({"model": request.model}, vars(project(vectors, request.projection)))
        case results.CostRequest():
            order = np.random.default_rng(0).permutation(len(pairs.sentences)).tolist()
            sample = [pairs.sentences[row] for row in order]
            encoders = request.bi_encoder, request.cross_encoder
            measured = measure_cost(*encoders, sample, seconds=request.seconds, on_progress=partial(progress, ""))
            return TaskResult(COST_ADAPTER.dump_python(measured, mode="json"))


def sentences_of(pairs: PairSet, part: Part) -> list[str]:
    """Return the distinct sentences of a part in the order of a map's points. Raises `EmbeddingError` (`no_pairs`)."""
    return _PartData(pairs, part, split_pairs(pairs)[part]).distinct.sentences


def _part_vectors(model: str, part: Part, pairs: PairSet, progress: Progress) -> np.ndarray:
    encoding = scale_progress(partial(progress, model), 0, _ENCODING_FRACTION)
    return encode(model, sentences_of(pairs, part), pairs.sentences, on_progress=encoding).vectors


def _compute_similarities(request: results.SimilarityRequest, pairs: PairSet, progress: Progress) -> TaskResult:
    arrays: Arrays = {}
    models: dict[str, Any] = {}
    for row, model in enumerate(request.models):
        progress(model, row / len(request.models))
        try:
            arrays[f"matrix_{row}"] = similarity_matrix(encode(model, request.sentences, pairs.sentences).vectors)
            models[model] = {}
        except Exception as error:
            logger.exception("model %r cannot encode", model)
            models[model] = failure_dict(as_missing_extra(error))
    return TaskResult({"models": models}, arrays)


def save(result: EncoderEvaluation | TaskResult, folder: Path) -> None:
    """Write the arrays and, last, `scores.json`. Raises `OSError`."""
    if isinstance(result, EncoderEvaluation):
        results.save(result, folder)
        return
    _TASKS.write(folder, result.content, result.arrays)


def load_task(folder: Path) -> TaskResult:
    """Read the result of a task. Raises `ValueError` if missing."""
    return _TASKS.read(folder, TaskResult)


STUDY = Study[results.EmbeddingRequest, EncoderEvaluation | TaskResult](
    name="embeddings",
    summary="Evaluate sentence encoders.",
    versions=(4,),
    spec=results.REQUEST_TYPE,
    run=lambda request, progress: run(request, find(request.data), progress),
    inputs=lambda request: (local_fingerprints(results.request_models(request)),),
    save=save,
)


@commands.command(name="evaluate")
def evaluate_command(
    *,
    data: Annotated[str, Parameter(help="sentence pairs: a path, or a name or key of the catalog or the workspace")],
    model: Annotated[list[str], Parameter(help="a folder, a run, a hub id or starter; several after one flag")],
    split: Annotated[Part | None, choice_option(Part)] = None,
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
    with stop_message("Stopped. Encoded vectors are stored: run the same command again to continue."):
        evaluation = evaluate(find(data), model, split, on_progress=report_progress)
    end_progress_line()
    if as_json:
        print_line(json.dumps(evaluation.as_dict(), ensure_ascii=False, indent=2))
    else:
        print_line(format_evaluation(evaluation))
    failed = [result for result in evaluation.results if result.error]
    for result in failed:
        print_line(f"{result.model} failed: {result.error}", error=True)
    if out:
        out.mkdir(parents=True, exist_ok=True)
        results.save(evaluation, out)
    return int(bool(failed))


def format_evaluation(evaluation: EncoderEvaluation) -> str:
    """Return the metrics with their intervals as lines of text."""
    measures = [*dict.fromkeys(name for result in evaluation.results_by_model.values() for name in result.metrics)]
    counts = f"{len(evaluation.rows):,} {evaluation.kind.value} rows, {evaluation.sentences:,} different sentences"
    rows = []
    for result in evaluation.results:
        cells = []
        for name in measures if result.error is None else ():
            metric = result.metrics.get(name)
            interval = f"{metric.low:.4f} to {metric.high:.4f}" if metric else ""
            cells.append(f"{metric.value:8.4f} {interval:>16}" if metric else "-")
        rows.append((result.model, cells or ["failed"]))
    return "\n".join([f"{counts}, {evaluation.part.value}", *format_table(measures, rows, 25)])
