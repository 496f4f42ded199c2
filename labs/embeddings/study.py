"""The study of sentence encoders: an evaluation, or one of the tasks of the Embeddings page."""

import logging
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mrc_workbench.data.cache import SCORES, Arrays, load_arrays, save_arrays
from mrc_workbench.data.jobs.folder import Progress
from mrc_workbench.data.pairs.records import PairSet, split_pairs
from mrc_workbench.data.pairs.store import find
from mrc_workbench.data.problems import failure_dict, with_extra
from mrc_workbench.data.split import Part
from mrc_workbench.data.studies import Study
from mrc_workbench.data.workspace import read_json, write_json
from mrc_workbench.labs.embeddings import results
from mrc_workbench.labs.embeddings.cost import COST, cost
from mrc_workbench.labs.embeddings.encoder import Distinct, EmbeddingError, encode
from mrc_workbench.labs.embeddings.evaluate import evaluate
from mrc_workbench.labs.embeddings.geometry import neighbours, project, similarity
from mrc_workbench.labs.embeddings.results import (
    CostRequest,
    Evaluation,
    EvaluationRequest,
    MapRequest,
    NeighboursRequest,
    Request,
    SimilarityRequest,
    models_of,
)
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


def run(request: Request, pairs: PairSet, progress: Progress) -> Evaluation | TaskResult:
    """Run a request on these pairs. Raises `Failure` if the only model fails; of several each has its own error."""
    match request:
        case EvaluationRequest():
            return evaluate(pairs, request.models, request.part, on_progress=progress)
        case SimilarityRequest():
            return _similarities(request, pairs, progress)
        case NeighboursRequest():
            vectors = _part_vectors(request, pairs, progress)
            queries = encode(request.model, request.sentences, pairs.sentences)
            cosines, rows = neighbours(vectors, queries.vectors, request.k)
            return TaskResult({"model": request.model}, {"cosines": cosines, "rows": rows})
        case MapRequest():
            projected = project(_part_vectors(request, pairs, progress), request.projection)
            arrays = {"points": projected.points, "explained": projected.explained}
            return TaskResult({"model": request.model}, arrays)
        case CostRequest():
            order = np.random.default_rng(0).permutation(len(pairs.sentences)).tolist()
            sample = [pairs.sentences[row] for row in order]
            encoders = request.bi_encoder, request.cross_encoder
            measured = cost(*encoders, sample, seconds=request.seconds, on_progress=partial(progress, ""))
            return TaskResult(COST.dump_python(measured, mode="json"))


def sentences_of(pairs: PairSet, part: Part) -> list[str]:
    """Return the different sentences of a part, in the order of a map's points and of the rows of neighbours.

    Raises `EmbeddingError` (`no_pairs`).
    """
    rows = split_pairs(pairs)[part]
    if not len(rows):
        raise EmbeddingError("no_pairs", f"the {part.value} part of {pairs.name!r} holds no row")
    return Distinct.of(pairs.at(rows)).sentences


def _part_vectors(request: NeighboursRequest | MapRequest, pairs: PairSet, progress: Progress) -> np.ndarray:
    def encoding(fraction: float) -> None:
        progress(request.model, fraction * _ENCODING)

    return encode(request.model, sentences_of(pairs, request.part), pairs.sentences, on_progress=encoding).vectors


def _similarities(request: SimilarityRequest, pairs: PairSet, progress: Progress) -> TaskResult:
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


def save(result: Evaluation | TaskResult, folder: Path) -> None:
    """Write the arrays and, last, `scores.json`. Raises `OSError`."""
    if isinstance(result, Evaluation):
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


STUDY = Study[Request, Evaluation | TaskResult](
    name="embeddings",
    summary="Evaluate sentence encoders.",
    versions=(4,),
    spec=results.REQUEST_TYPE,
    run=lambda request, progress: run(request, find(request.data), progress),
    inputs=lambda request: (contents(models_of(request)),),
    save=save,
)
