"""What is put into an engine, and what it is asked with: documents, the values of questions, and where these stand.

All that an engine is told is data, sent by the script of the folder: requests of its HTTP interface, or arguments of
Milvus's client. A question's values stand in it as marks, `{{terms}}` and `{{vector}}`, which the script fills.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from data.passages import Passages
from retrieval.dense import IndexKind
from retrieval.milvus.retriever import by_term
from retrieval.takeaway.fusion import Engine, Mix
from retrieval.takeaway.signals import LateTokens, Signal, Vectors

HITS = 10  # passages that a query returns, where nobody changes it
SHOWN = ("row", "passage", "title")  # of a passage found
_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopabcdef")
Body = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """One request of an engine's HTTP interface; the body is JSON."""

    method: str
    path: str
    body: Body


@dataclass(frozen=True)
class Told:
    """What an engine is told. `bulk` says how documents are sent, `found` where the rows stand in an answer.

    `files` are further ones of the folder, by name; `client` are the arguments of Milvus's client, for which there are
    no requests.
    """

    setup: Sequence[Request] = ()
    bulk: Mapping[str, str] = field(default_factory=dict)
    finish: Sequence[Request] = ()
    query: Request | None = None
    found: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    client: Body = field(default_factory=dict)


def documents(mix: Mix, passages: Passages, start: int, stop: int) -> list[Body]:
    """Return the passages from row `start` to before `stop` as the engine takes them."""
    values = {signal.field: of_passages(mix.engine, signal, start, stop) for signal in mix.signals}
    found = []
    for place, passage in enumerate(passages[start:stop]):
        row = {"row": start + place, "passage": passage.id, "title": passage.title, "text": passage.text}
        of = {name: column[place] for name, column in values.items() if column[place] is not None}
        found.append(row | of)
    return found


def of_passages(engine: Engine, signal: Signal, start: int, stop: int) -> list[Any]:
    """Return what a field holds of each passage, None where it holds nothing."""
    if isinstance(signal, LateTokens):
        return [blocks(tokens) for tokens in signal.of_passages(start, stop)]
    if isinstance(signal, Vectors):
        vectors = signal.of_passages(start, stop)
        if engine is Engine.VESPA:
            return [{"values": vector} for vector in vectors]
        without = engine in (Engine.ELASTICSEARCH, Engine.OPENSEARCH)  # they take no vector of length 0
        return [None if without and not any(vector) else vector for vector in vectors]
    if engine is Engine.MILVUS:  # it takes no empty vector: then there is a term that nobody asks for
        return [one or {signal.n_terms: 1.0} for one in by_term(signal.weights[start:stop])]
    return [coded(engine, text) for text in signal.of_passages(start, stop)]


def of_questions(engine: Engine, signal: Signal, questions: Sequence[str]) -> list[Any]:
    """Return what stands in the place of the field's mark, for each question."""
    if isinstance(signal, LateTokens):
        return [blocks(tokens) for tokens in signal.of_questions(questions)]
    if isinstance(signal, Vectors):
        return signal.of_questions(questions)
    if engine is Engine.MILVUS:
        return by_term(signal.counts_of(questions).astype(np.float32))
    return [coded(engine, text) for text in signal.of_questions(questions)]


def coded(engine: Engine, text: str) -> str:
    """Return tokens parted by spaces; for Vespa, which cuts at signs, each as the sixteen letters of a 64-bit hash."""
    if engine is not Engine.VESPA:
        return text
    digests = (hashlib.blake2b(token.encode(), digest_size=8).hexdigest() for token in text.split())
    return " ".join(digest.translate(_LETTERS) for digest in digests)


def blocks(tokens: Sequence[Sequence[float]]) -> Body:
    """Return vectors of tokens as Vespa takes them: a tensor by the places of the tokens."""
    return {"blocks": {str(place): list(vector) for place, vector in enumerate(tokens)}}


def mark(signal: Signal) -> str:
    """Return what stands for the value of a question in the field of a signal."""
    return "{{" + signal.field + "}}"


def is_exact(signal: Vectors) -> bool:
    """Whether all vectors are compared."""
    return signal.index in (IndexKind.EXACT, IndexKind.INT8)
