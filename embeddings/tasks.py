"""What a request asks for, done: arrays, and figures beside them."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from data.cache import Arrays, save_arrays
from data.pairs.audit import split_pairs
from data.pairs.records import PairSet
from data.problems import Failure
from data.split import Part
from data.workspace import write_json
from embeddings import results
from embeddings.cost import cost
from embeddings.encoder import Distinct, EmbeddingError, encode
from embeddings.evaluate import evaluate
from embeddings.geometry import neighbours, project, similarity
from embeddings.job import CostRequest, EvaluationRequest, MapRequest, NeighboursRequest, Request, SimilarityRequest

logger = logging.getLogger(__name__)
Tell = Callable[[str, float], None]
Done = tuple[Arrays, dict[str, Any]]
_ENCODING = 0.8  # share of the work of a map


def carry(request: Request, pairs: PairSet, folder: Path, tell: Tell) -> None:
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
        case NeighboursRequest():
            arrays, content = _neighbours(request, pairs, tell)
        case MapRequest():
            arrays, content = _map(request, pairs, tell)
        case CostRequest():
            arrays, content = _cost(request, pairs, tell)
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


def _similarities(request: SimilarityRequest, pairs: PairSet, tell: Tell) -> Done:
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
            told[model] = error.as_dict() if isinstance(error, Failure) else {"error": str(error)}
    return arrays, {"models": told}


def _neighbours(request: NeighboursRequest, pairs: PairSet, tell: Tell) -> Done:
    """`cosines` and `rows` `(n_asked, k)`, rows of `sentences_of` the part."""
    corpus = pairs.sentences
    found = encode(
        request.model,
        sentences_of(pairs, request.part),
        corpus,
        on_progress=lambda share: tell(request.model, share * _ENCODING),
    )
    asked = encode(request.model, request.sentences, corpus)
    cosines, rows = neighbours(found.vectors, asked.vectors, request.k)
    return {"cosines": cosines, "rows": rows}, {"model": request.model}


def _map(request: MapRequest, pairs: PairSet, tell: Tell) -> Done:
    """`points` `(n_sentences, 2)` and `explained`, in the order of `sentences_of` the part."""
    found = encode(
        request.model,
        sentences_of(pairs, request.part),
        pairs.sentences,
        on_progress=lambda share: tell(request.model, share * _ENCODING),
    )
    told = project(found.vectors, request.projection)
    return {"points": told.points, "explained": told.explained}, {"model": request.model}


def _cost(request: CostRequest, pairs: PairSet, tell: Tell) -> Done:
    sentences = pairs.sentences
    drawn = [sentences[place] for place in np.random.default_rng(0).permutation(len(sentences)).tolist()]
    told = cost(
        request.bi_encoder,
        request.cross_encoder,
        drawn,
        seconds=request.seconds,
        on_progress=lambda share: tell("", share),
    )
    return {}, told.as_dict()
