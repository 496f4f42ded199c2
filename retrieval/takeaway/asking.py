"""A new question for a folder that was taken away: the values that stand in the place of its marks."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data.workspace import read_json
from models.encoders.bi_encoder import BiEncoder
from models.encoders.token_encoder import TokenEncoder
from models.precision import Precision
from models.sources import find_model
from retrieval.lexical.weights import counts_by_term
from retrieval.milvus.retriever import by_term
from retrieval.takeaway.documents import blocks, coded
from retrieval.takeaway.fusion import Engine
from retrieval.takeaway.signals import LateTokens, TakeAwayError, Vectors, numbers, projected, written
from text.analysis import Analysis, tokens_of
from text.analyzers import Analyzer, Compounds
from text.dictionary import find as find_dictionary

TOLD = "takeaway.json"  # in a folder, how its signals are read


def values_of(folder: Path, questions: Sequence[str]) -> list[dict[str, Any]]:
    """Return what stands in the place of the marks for new questions, by field, from what the folder holds.

    Raises `TakeAwayError` (`no_folder`) where it is none for an engine, and what a model or a dictionary raises.
    """
    told = read_json(folder / TOLD)
    if not told.get("signals"):
        raise TakeAwayError("no_folder", f"{folder} holds no {TOLD} of an engine", folder=str(folder))
    engine = Engine(told["engine"])
    columns = {one["field"]: _values(engine, one, folder, questions) for one in told["signals"]}
    return [{name: column[row] for name, column in columns.items()} for row in range(len(questions))]


def _values(engine: Engine, told: Mapping[str, Any], folder: Path, questions: Sequence[str]) -> list[Any]:
    if told["kind"] == Vectors.kind:
        encoder = BiEncoder(find_model(told["model"], folder), (), precision=Precision(told["precision"]))
        return numbers(encoder.encode_questions(questions))
    if told["kind"] == LateTokens.kind:
        place, reader = folder / projection_file(told["field"]), find_model(told["model"], folder)
        projection = np.load(place, allow_pickle=False) if place.is_file() else None
        tokens_read = TokenEncoder(reader, (), precision=Precision(told["precision"])).encode("question", questions)
        return [blocks(numbers(projected(one, projection), 4)) for one in tokens_read]
    dictionary = find_dictionary(told["dictionary"], folder) if told["dictionary"] else None
    tokens = tokens_of(Analysis(Analyzer(told["analyzer"]), Compounds(told["compounds"]), dictionary), questions)
    if engine is not Engine.MILVUS:
        return [coded(engine, text) for text in written(tokens.texts())]
    terms = json.loads((folder / terms_file(told["field"])).read_text(encoding="utf-8"))
    ids, offsets = tokens.flat_ids_in({term: number for number, term in enumerate(terms)})
    return by_term(counts_by_term(ids, offsets, len(terms)).astype(np.float32))


def projection_file(field: str) -> str:
    """Return the file of what brings a field's vectors of tokens to the dimensions that are kept."""
    return f"{field}_projection.npy"


def terms_file(field: str) -> str:
    """Return the file that lists the terms of a field by their numbers, for Milvus."""
    return f"{field}.json"
