"""The documents of an engine, and the values of questions: terms, vectors and weights in the form that each takes."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.text.analysis import Analysis, tokens_of
from mrc_workbench.data.text.analyzers import Analyzer, Compounds
from mrc_workbench.data.text.dictionary import find as find_dictionary
from mrc_workbench.data.workspace import read_json
from mrc_workbench.models.encoders import BiEncoder, SparseTextEncoder
from mrc_workbench.models.inference import Precision, TokenLayers
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.token_encoder import TokenEncoder, TokenWeights
from mrc_workbench.retrieval.lexical import counts_by_term
from mrc_workbench.retrieval.milvus import by_term
from mrc_workbench.retrieval.takeaway import signals
from mrc_workbench.retrieval.takeaway.fusion import Engine, Mix

TOLD = "takeaway.json"  # in a folder, how its signals are read
PROJECTION = "{}_projection.npy"  # of a field's token vectors to fewer dimensions
QUESTION_WEIGHTS = "{}_question_weights.npy"  # how much each token of a question counts in a field of tokens
TERMS = "{}.json"  # the terms of a field by their numbers, for Milvus
_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopabcdef")
Value = dict[str, Any]


def documents(mix: Mix, passages: Passages, start: int, stop: int) -> list[Value]:
    """Return the passages from row `start` to before `stop` as the engine takes them."""
    values = {signal.field: _of_passages(mix.engine, signal, start, stop) for signal in mix.signals}
    if mix.engine is Engine.OPENSEARCH:
        tokens = [signal for signal in mix.signals if isinstance(signal, signals.LateTokens)]
        values |= {presence_field(signal): [held and True for held in values[signal.field]] for signal in tokens}
    rows = []
    for row, passage in enumerate(passages[start:stop]):
        fields = {name: column[row] for name, column in values.items() if column[row] is not None}
        shown = {"row": start + row, "passage": passage.id, "title": passage.title, "text": passage.text}
        rows.append(shown | fields)
    return rows


def _of_passages(engine: Engine, signal: signals.Signal, start: int, stop: int) -> list[Any]:
    if isinstance(signal, signals.LateTokens):
        texts = signal.of_passages(start, stop)
        if engine is Engine.OPENSEARCH and signal.encoder.weights is not None:
            texts = [[[*vector, 0.0] for vector in tokens] for tokens in texts]
        return [_token_vectors(engine, tokens) or None for tokens in texts]
    if isinstance(signal, signals.Vectors):
        vectors = signal.of_passages(start, stop)
        if engine is Engine.VESPA:
            return [{"values": vector} for vector in vectors]
        without = engine in (Engine.ELASTICSEARCH, Engine.OPENSEARCH)  # they take no vector of length 0
        return [None if without and not any(vector) else vector for vector in vectors]
    if engine is Engine.MILVUS:  # it refuses empty vectors: these get a term that no question has
        return [one or {signal.weights.shape[1]: 1.0} for one in by_term(signal.weights[start:stop])]
    if isinstance(signal, signals.SparseTerms):
        return [_weights(engine, one) if one else None for one in signal.of_passages(start, stop)]
    return [_coded(engine, text) for text in signal.of_passages(start, stop)]


def of_questions(engine: Engine, signal: signals.Signal, questions: Sequence[str]) -> list[Any]:
    """Return the value of each question for the mark of the field."""
    if isinstance(signal, signals.Terms) and engine is Engine.MILVUS:
        return by_term(signal.counts_of(questions).astype(np.float32))
    weighted = isinstance(signal, signals.LateTokens) and signal.encoder.weights is not None
    return _as_asked(engine, signal.kind, signal.of_questions(questions), weighted=weighted)


def values_of(folder: Path, questions: Sequence[str]) -> list[dict[str, Any]]:
    """Return the values of new questions by field, computed from what the folder holds.

    Raises `TakeAwayError` (`no_folder`) if it is none for an engine, and the errors of a model or a dictionary.
    """
    content = read_json(folder / TOLD)
    if not content.get("signals"):
        raise signals.TakeAwayError("no_folder", f"{folder} holds no {TOLD} of an engine", folder=str(folder))
    engine = Engine(content["engine"])
    columns = {signal["field"]: _values(engine, signal, folder, questions) for signal in content["signals"]}
    return [{name: column[row] for name, column in columns.items()} for row in range(len(questions))]


def _values(engine: Engine, signal: Mapping[str, Any], folder: Path, questions: Sequence[str]) -> list[Any]:
    kind, field = signal["kind"], signal["field"]
    if kind == signals.Terms.kind:
        dictionary = find_dictionary(signal["dictionary"], folder) if signal["dictionary"] else None
        options = {name: signal.get(name, False) for name in ("pairs", "stop_words")}
        analysis = Analysis(Analyzer(signal["analyzer"]), Compounds(signal["compounds"]), dictionary, **options)
        tokens = tokens_of(analysis, questions)
        if engine is not Engine.MILVUS:
            return _as_asked(engine, kind, signals.written(tokens.texts()))
        terms = json.loads((folder / TERMS.format(field)).read_text(encoding="utf-8"))
        ids, offsets = tokens.flat_ids_in({term: number for number, term in enumerate(terms)})
        return by_term(counts_by_term(ids, offsets, len(terms)).astype(np.float32))
    source, precision = find_model(signal["model"], folder), Precision(signal["precision"])
    if kind == signals.Vectors.kind:
        return signals.numbers(BiEncoder(source, (), precision=precision).encode_questions(questions))
    if kind == signals.SparseTerms.kind:
        weights = SparseTextEncoder(source, (), precision=precision).encode_questions(questions)
        return _as_asked(engine, kind, signals.weights_by_term(weights))
    by_token = _array_in(folder / QUESTION_WEIGHTS.format(field))
    projection = _array_in(folder / PROJECTION.format(field))
    layers = TokenLayers(signal.get("layers", TokenLayers.UPPER)).of_passages
    weights = None if by_token is None else TokenWeights(by_token)
    encoder = TokenEncoder(source, (), precision=precision, layers=layers, weights=weights)
    vectors = [signals.numbers(signals.projected(one, projection), 4) for one in encoder.encode("question", questions)]
    return _as_asked(engine, kind, vectors, weighted=weights is not None)


def _array_in(path: Path) -> np.ndarray | None:
    return np.load(path, allow_pickle=False) if path.is_file() else None


def _as_asked(engine: Engine, kind: str, values: list[Any], *, weighted: bool = False) -> list[Any]:
    """Return values of questions as the engine takes them; `weighted` says that lengths of token vectors are weights.

    OpenSearch compares directions alone. There one more dimension makes all vectors of tokens as long as the longest,
    L. Passages have 0 there, so that a cosine is the product of a vector of its length and a passage's, divided by L.
    """
    if kind == signals.SparseTerms.kind:
        return [_weights(engine, weights) for weights in values]
    if kind == signals.Terms.kind:
        return [_coded(engine, text) for text in values]
    if kind == signals.LateTokens.kind:
        is_padded = weighted and engine is Engine.OPENSEARCH
        return [_token_vectors(engine, _padded(tokens) if is_padded else tokens) for tokens in values]
    return values


def _padded(tokens: Sequence[Sequence[float]]) -> list[list[float]]:
    lengths = np.linalg.norm(np.array(tokens), axis=1)
    more = np.sqrt(np.maximum(0.0, lengths.max(initial=0.0) ** 2 - lengths**2))
    return [[*vector, round(value, 4)] for vector, value in zip(tokens, more.tolist(), strict=True)]


def _coded(engine: Engine, text: str) -> str:
    """Code tokens for Vespa, which cuts at signs: each is the sixteen letters of a 64-bit hash."""
    if engine is not Engine.VESPA:
        return text
    digests = (hashlib.blake2b(token.encode(), digest_size=8).hexdigest() for token in text.split())
    return " ".join(digest.translate(_LETTERS) for digest in digests)


def _token_vectors(engine: Engine, tokens: Sequence[Sequence[float]]) -> Value | list[list[float]]:
    if engine is Engine.VESPA:
        return {"blocks": {str(place): list(vector) for place, vector in enumerate(tokens)}}
    return [list(vector) for vector in tokens]


def _weights(engine: Engine, weights: dict[str, float]) -> Value:
    return {"cells": weights} if engine is Engine.VESPA else weights


def presence_field(signal: signals.LateTokens) -> str:
    """Return the field that is true where a passage has tokens: OpenSearch does not index the tokens themselves."""
    return f"has_{signal.field}"
