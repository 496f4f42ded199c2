"""The study of sentence encoders, an evaluation or a task of the Embeddings page, and `mrc embeddings evaluate`."""

import json
import logging
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from mrc_workbench.data.cache import SCORES, Arrays, load_arrays, save_arrays
from mrc_workbench.data.commands import AsJson, commands_of, one_of, stop_message
from mrc_workbench.data.jobs.folder import Progress
from mrc_workbench.data.pairs import PairSet, split_pairs
from mrc_workbench.data.pairs.store import find
from mrc_workbench.data.problems import failure_dict, with_extra
from mrc_workbench.data.split import Part
from mrc_workbench.data.studies import Study
from mrc_workbench.data.terminal import aligned, end_progress_line, report_progress, tell
from mrc_workbench.data.text.corpora import within
from mrc_workbench.data.workspace import read_json, write_json
from mrc_workbench.labs.embeddings import results
from mrc_workbench.labs.embeddings.encoder import COST, Distinct, EmbeddingError, cost, encode
from mrc_workbench.labs.embeddings.evaluate import evaluate
from mrc_workbench.labs.embeddings.geometry import neighbours, project, similarity
from mrc_workbench.models.sources import contents

logger = logging.getLogger(__name__)
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
