"""The engines of BM25: each makes an index of analyzed passages."""

import logging
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Protocol

import numpy as np

from retrieval.rankings import Rankings, top_k
from text.tokens import Tokens

_BLOCK, _CELLS = 512, 50_000_000  # questions, and scores, at a time: 200 MB


class Engine(StrEnum):
    """`POSTINGS` is the engine, and `BM25S` a library that scores the same; `RANK_BM25` is a slow reference in its own
    variant (Okapi with an idf floor): there a term of half of the passages weighs nothing, and a passage that scores 0
    or less is not found.
    """

    POSTINGS = "postings"
    BM25S = "bm25s"
    RANK_BM25 = "rank-bm25"


class Index(Protocol):
    """What an engine makes of analyzed passages; `memory_bytes` is the size of its arrays, 0 where not known."""

    memory_bytes: int

    def search(self, questions: Tokens, k: int) -> Rankings:
        """Return the best k passages of each analyzed question."""
        ...

    def score_blocks(self, questions: Tokens) -> Iterator[np.ndarray]:
        """Score every passage for some questions at a time: `(rows, n_passages)`, -inf where no term is shared."""
        ...


def best_of_blocks(blocks: Iterable[np.ndarray], shape: tuple[int, int], k: int) -> Rankings:
    """Return the best k columns of a score matrix of some shape that comes a few rows at a time.

    Rows that do not come, because there is no passage to score, hold nothing.
    """
    parts = [top_k(scores, k) for scores in blocks]
    if not parts:
        return top_k(np.full(shape, -np.inf, dtype=np.float32), k)
    return Rankings(np.concatenate([part.indices for part in parts]), np.concatenate([part.scores for part in parts]))


def _block(n_passages: int) -> int:
    return max(1, min(_BLOCK, _CELLS // max(1, n_passages)))


class _Postings:
    """The engine: see `retrieval.lexical.postings`."""

    def __init__(self, tokens: Tokens, k1: float, b: float) -> None:
        from retrieval.lexical.postings import bm25_postings  # imports a compiler

        self._postings = bm25_postings(tokens, k1, b)
        self._vocabulary = {token: number for number, token in enumerate(tokens.vocabulary)}
        self.memory_bytes = self._postings.memory_bytes

    def search(self, questions: Tokens, k: int) -> Rankings:
        return self._postings.search(*questions.flat_ids_in(self._vocabulary), k)

    def score_blocks(self, questions: Tokens) -> Iterator[np.ndarray]:
        return self._postings.scores(*questions.flat_ids_in(self._vocabulary), _block(self._postings.n_passages))


class _Scored:
    """An index that can only score every passage."""

    memory_bytes = 0

    def __init__(self, tokens: Tokens, k1: float, b: float) -> None:
        self._n_passages = len(tokens)
        del k1, b

    def search(self, questions: Tokens, k: int) -> Rankings:
        return best_of_blocks(self.score_blocks(questions), (len(questions), self._n_passages), k)

    def score_blocks(self, questions: Tokens) -> Iterator[np.ndarray]:
        block = _block(self._n_passages)
        for start in range(0, len(questions), block):
            yield np.full((min(block, len(questions) - start), self._n_passages), -np.inf, dtype=np.float32)


class NothingFound(_Scored):
    """Of passages without a token."""


class _BM25S(_Scored):
    def __init__(self, tokens: Tokens, k1: float, b: float) -> None:
        super().__init__(tokens, k1, b)
        import bm25s

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it asks for every detail by itself
        self._index = bm25s.BM25(method="lucene", k1=k1, b=b)
        documents = [part.tolist() for part in np.split(tokens.ids, tokens.offsets[1:-1])]
        self._vocabulary = {token: number for number, token in enumerate(tokens.vocabulary)}
        self._index.index((documents, self._vocabulary), show_progress=False)
        self.memory_bytes = sum(part.nbytes for part in self._index.scores.values() if isinstance(part, np.ndarray))

    def score_blocks(self, questions: Tokens) -> Iterator[np.ndarray]:
        ids, block = questions.ids_in(self._vocabulary), _block(self._n_passages)
        for start in range(0, len(ids), block):
            scores = np.stack([self._index.get_scores_from_ids(part.tolist()) for part in ids[start : start + block]])
            yield np.where(scores > 0, scores, -np.inf)


class _RankBM25(_Scored):
    """A reference: nobody asks what its dictionaries weigh."""

    def __init__(self, tokens: Tokens, k1: float, b: float) -> None:
        super().__init__(tokens, k1, b)
        from rank_bm25 import BM25Okapi

        self._index = BM25Okapi(tokens.texts(), k1=k1, b=b)

    def score_blocks(self, questions: Tokens) -> Iterator[np.ndarray]:
        for words in questions.texts():
            scores = self._index.get_scores(words)[None, :]
            yield np.where(scores > 0, scores, -np.inf)


ENGINES: dict[Engine, Callable[[Tokens, float, float], Index]] = {
    Engine.POSTINGS: _Postings,
    Engine.BM25S: _BM25S,
    Engine.RANK_BM25: _RankBM25,
}
