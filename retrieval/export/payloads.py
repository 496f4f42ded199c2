"""The documents of an engine and the values of questions: terms, vectors and weights in each engine's format."""

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
from mrc_workbench.retrieval.export import signals
from mrc_workbench.retrieval.export.fusion import ExportTarget, Mix
from mrc_workbench.retrieval.lexical import counts_by_term
from mrc_workbench.retrieval.milvus import to_sparse_dicts

MANIFEST = "takeaway.json"  # of a folder: its signals
PROJECTION = "{}_projection.npy"  # of a field's token vectors to fewer dimensions
QUESTION_WEIGHTS = "{}_question_weights.npy"  # of a question's tokens, by field
TERMS = "{}.json"  # the terms of a field by number, for Milvus
_HEX_TO_ALPHABET = str.maketrans("0123456789abcdef", "ghijklmnopabcdef")
Value = dict[str, Any]


def documents(mix: Mix, passages: Passages, start: int, stop: int) -> list[Value]:
    """Return the passages from row `start` up to `stop` in the engine's format."""
    values = {signal.field: _passage_values(mix.engine, signal, start, stop) for signal in mix.signals}
    for signal in mix.signals:
        if mix.engine is ExportTarget.OPENSEARCH and isinstance(signal, signals.LateTokens):
            values[presence_field(signal)] = [tokens and True for tokens in values[signal.field]]
    rows = []
    for row, passage in enumerate(passages[start:stop]):
        fields = {name: column[row] for name, column in values.items() if column[row] is not None}
        base_fields = {"row": start + row, "passage": passage.id, "title": passage.title, "text": passage.text}
        rows.append(base_fields | fields)
    return rows


def _passage_values(engine: ExportTarget, signal: signals.Signal, start: int, stop: int) -> list[Any]:
    if isinstance(signal, signals.LateTokens):
        texts = signal.passage_values(start, stop)
        if engine is ExportTarget.OPENSEARCH and signal.encoder.weights is not None:
            texts = [[[*vector, 0.0] for vector in tokens] for tokens in texts]
        return [_token_vectors(engine, tokens) or None for tokens in texts]
    if isinstance(signal, signals.Vectors):
        vectors = signal.passage_values(start, stop)
        if engine is ExportTarget.VESPA:
            return [{"values": vector} for vector in vectors]
        skips_zero_vectors = engine in (ExportTarget.ELASTICSEARCH, ExportTarget.OPENSEARCH)  # which refuse them
        return [None if skips_zero_vectors and not any(vector) else vector for vector in vectors]
    if engine is ExportTarget.MILVUS:  # it refuses empty vectors: these get a term that no question has
        return [weights or {signal.weights.shape[1]: 1.0} for weights in to_sparse_dicts(signal.weights[start:stop])]
    if isinstance(signal, signals.SparseTerms):
        return [_weights(engine, weights) if weights else None for weights in signal.passage_values(start, stop)]
    return [_encode_tokens(engine, text) for text in signal.passage_values(start, stop)]


def question_values(engine: ExportTarget, signal: signals.Signal, questions: Sequence[str]) -> list[Any]:
    """Return the value of each question for the signal."""
    if isinstance(signal, signals.Terms) and engine is ExportTarget.MILVUS:
        return to_sparse_dicts(signal.term_counts(questions).astype(np.float32))
    is_weighted = isinstance(signal, signals.LateTokens) and signal.encoder.weights is not None
    return _format_question_values(engine, signal.kind, signal.question_values(questions), is_weighted=is_weighted)


def new_question_values(folder: Path, questions: Sequence[str]) -> list[dict[str, Any]]:
    """Return the values of new questions by field, computed from the folder's files.

    Raises `ExportError` (`no_folder`) if the folder is not for an engine, and errors of a model or a dictionary.
    """
    content = read_json(folder / MANIFEST)
    if not content.get("signals"):
        raise signals.ExportError("no_folder", f"{folder} holds no {MANIFEST} of an engine", folder=str(folder))
    engine = ExportTarget(content["engine"])
    columns = {signal["field"]: _signal_values(engine, signal, folder, questions) for signal in content["signals"]}
    return [{name: column[row] for name, column in columns.items()} for row in range(len(questions))]


def _signal_values(
    engine: ExportTarget, signal: Mapping[str, Any], folder: Path, questions: Sequence[str]
) -> list[Any]:
    kind = signal["kind"]
    field = signal["field"]
    if kind == signals.Terms.kind:
        dictionary = find_dictionary(signal["dictionary"], folder) if signal["dictionary"] else None
        options = {name: signal.get(name, False) for name in ("pairs", "stop_words")}
        analysis = Analysis(Analyzer(signal["analyzer"]), Compounds(signal["compounds"]), dictionary, **options)
        tokens = tokens_of(analysis, questions)
        if engine is not ExportTarget.MILVUS:
            return _format_question_values(engine, kind, signals.join_tokens(tokens.texts()))
        terms = json.loads((folder / TERMS.format(field)).read_text(encoding="utf-8"))
        ids, offsets = tokens.flat_ids_in({term: number for number, term in enumerate(terms)})
        return to_sparse_dicts(counts_by_term(ids, offsets, len(terms)).astype(np.float32))
    source = find_model(signal["model"], folder)
    precision = Precision(signal["precision"])
    if kind == signals.Vectors.kind:
        return signals.to_rounded_lists(BiEncoder(source, (), precision=precision).encode_questions(questions))
    if kind == signals.SparseTerms.kind:
        weights = SparseTextEncoder(source, (), precision=precision).encode_questions(questions)
        return _format_question_values(engine, kind, signals.weights_by_term(weights))
    by_token = _load_array(folder / QUESTION_WEIGHTS.format(field))
    projection = _load_array(folder / PROJECTION.format(field))
    layers = TokenLayers(signal.get("layers", TokenLayers.UPPER)).of_passages
    weights = None if by_token is None else TokenWeights(by_token)
    encoder = TokenEncoder(source, (), precision=precision, layers=layers, weights=weights)
    projected = (signals.project(vectors, projection) for vectors in encoder.encode("question", questions))
    vectors = [signals.to_rounded_lists(token_vectors, 4) for token_vectors in projected]
    return _format_question_values(engine, kind, vectors, is_weighted=weights is not None)


def _load_array(path: Path) -> np.ndarray | None:
    return np.load(path, allow_pickle=False) if path.is_file() else None


def _format_question_values(
    engine: ExportTarget, kind: str, values: list[Any], *, is_weighted: bool = False
) -> list[Any]:
    """Return values of questions in the engine's format; `is_weighted`: the length of a token vector is its weight.

    OpenSearch ignores lengths. An additional dimension, 0 for passages, extends all token vectors to the maximum length
    L, so that the cosine is the dot product of the original vectors divided by L.
    """
    if kind == signals.SparseTerms.kind:
        return [_weights(engine, weights) for weights in values]
    if kind == signals.Terms.kind:
        return [_encode_tokens(engine, text) for text in values]
    if kind == signals.LateTokens.kind:
        is_padded = is_weighted and engine is ExportTarget.OPENSEARCH
        return [_token_vectors(engine, _padded(tokens) if is_padded else tokens) for tokens in values]
    return values


def _padded(tokens: Sequence[Sequence[float]]) -> list[list[float]]:
    lengths = np.linalg.norm(np.array(tokens), axis=1)
    padding = np.sqrt(np.maximum(0.0, lengths.max(initial=0.0) ** 2 - lengths**2))
    return [[*vector, round(value, 4)] for vector, value in zip(tokens, padding.tolist(), strict=True)]


def _encode_tokens(engine: ExportTarget, text: str) -> str:
    """Encode tokens for Vespa, which splits at punctuation, as the sixteen letters of a 64-bit hash."""
    if engine is not ExportTarget.VESPA:
        return text
    digests = (hashlib.blake2b(token.encode(), digest_size=8).hexdigest() for token in text.split())
    return " ".join(digest.translate(_HEX_TO_ALPHABET) for digest in digests)


def _token_vectors(engine: ExportTarget, tokens: Sequence[Sequence[float]]) -> Value | list[list[float]]:
    if engine is ExportTarget.VESPA:
        return {"blocks": {str(index): list(vector) for index, vector in enumerate(tokens)}}
    return [list(vector) for vector in tokens]


def _weights(engine: ExportTarget, weights: dict[str, float]) -> Value:
    return {"cells": weights} if engine is ExportTarget.VESPA else weights


def presence_field(signal: signals.LateTokens) -> str:
    """Return the name of the field that is true if a passage has tokens: OpenSearch does not index tokens."""
    return f"has_{signal.field}"
