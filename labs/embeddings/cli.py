"""`mrc embeddings evaluate --data FILE --model MODEL`: sentence encoders on sentence pairs; and the jobs of pages."""

import json
import logging
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from mrc_workbench.data.cache import Arrays, save_arrays
from mrc_workbench.data.commands import AsJson, commands_of, one_of, stop_message
from mrc_workbench.data.extras import with_extra
from mrc_workbench.data.jobs.work import Progress, request_carried_out
from mrc_workbench.data.pairs.records import PairSet, split_pairs
from mrc_workbench.data.pairs.store import find
from mrc_workbench.data.problems import failure_dict
from mrc_workbench.data.split import Part
from mrc_workbench.data.terminal import aligned, end_progress_line, report_progress, tell
from mrc_workbench.data.workspace import write_json
from mrc_workbench.labs.embeddings import results
from mrc_workbench.labs.embeddings.cost import COST, cost
from mrc_workbench.labs.embeddings.encoder import Distinct, EmbeddingError, encode
from mrc_workbench.labs.embeddings.evaluate import evaluate
from mrc_workbench.labs.embeddings.geometry import neighbours, project, similarity
from mrc_workbench.labs.embeddings.results import (
    CostRequest,
    EmbeddingJob,
    Evaluation,
    EvaluationRequest,
    MapRequest,
    NeighboursRequest,
    Request,
    SimilarityRequest,
)

logger = logging.getLogger(__name__)
_ENCODING = 0.8  # share of the work of a map
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


def run_command(folder: Path, /) -> int:
    """Do what a page requested in this folder."""
    job = EmbeddingJob(folder)
    return request_carried_out(job, lambda request, say: carry(request, find(request.data), folder, say))


def table(evaluation: Evaluation) -> str:
    """Return the figures with their intervals as lines of text."""
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


def carry(request: Request, pairs: PairSet, folder: Path, tell: Progress) -> None:
    """Do what is asked with this set; leave `arrays.npz` and, written last, `scores.json` in the folder.

    `tell(model, share)` hears which model is at work and the share of all work done. Raises `Failure` where a task of
    one model fails; of several, each has its error in `scores.json`.
    """
    match request:
        case EvaluationRequest():
            results.keep(evaluate(pairs, request.models, request.part, on_progress=tell), folder)
            return
        case SimilarityRequest():
            arrays, content = _similarities(request, pairs, tell)
        case NeighboursRequest():  # `(n_asked, k)`, rows of `sentences_of` the part
            vectors, asked = _encoded(request, pairs, tell), encode(request.model, request.sentences, pairs.sentences)
            cosines, rows = neighbours(vectors, asked.vectors, request.k)
            arrays, content = {"cosines": cosines, "rows": rows}, {"model": request.model}
        case MapRequest():
            placed = project(_encoded(request, pairs, tell), request.projection)
            arrays, content = {"points": placed.points, "explained": placed.explained}, {"model": request.model}
        case CostRequest(bi_encoder=bi_encoder, cross_encoder=cross_encoder, seconds=seconds):
            sentences = pairs.sentences
            drawn = [sentences[place] for place in np.random.default_rng(0).permutation(len(sentences)).tolist()]
            found = cost(bi_encoder, cross_encoder, drawn, seconds=seconds, on_progress=partial(tell, ""))
            arrays, content = {}, COST.dump_python(found, mode="json")
    save_arrays(folder / "arrays.npz", arrays)
    write_json(folder / "scores.json", content)
    tell("", 1.0)


def sentences_of(pairs: PairSet, part: Part) -> list[str]:
    """The different sentences of a part, in the order of a map's points and of the rows of neighbours.

    Raises `EmbeddingError` (`no_pairs`).
    """
    rows = split_pairs(pairs)[part]
    if not len(rows):
        raise EmbeddingError("no_pairs", f"the {part.value} part of {pairs.name!r} holds no row")
    return Distinct.of(pairs.at(rows)).sentences


def _encoded(request: NeighboursRequest | MapRequest, pairs: PairSet, tell: Progress) -> np.ndarray:
    def within(share: float) -> None:
        tell(request.model, share * _ENCODING)

    return encode(request.model, sentences_of(pairs, request.part), pairs.sentences, on_progress=within).vectors


def _similarities(request: SimilarityRequest, pairs: PairSet, tell: Progress) -> tuple[Arrays, dict[str, Any]]:
    """`matrix_<place of the model>` `(n, n)`, by the order of the models asked for."""
    arrays: Arrays = {}
    told: dict[str, Any] = {}
    corpus = pairs.sentences
    for place, model in enumerate(request.models):
        tell(model, place / len(request.models))
        try:
            arrays[f"matrix_{place}"] = similarity(encode(model, request.sentences, corpus).vectors)
            told[model] = {}
        except Exception as error:
            logger.exception("model %r cannot encode", model)
            told[model] = failure_dict(with_extra(error))
    return arrays, {"models": told}
