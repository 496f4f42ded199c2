"""Learned sparse retrieval: terms weighed by a model, searched in postings like those of BM25.

`score = sum over the terms of weight in the question * weight in the passage`, a dot product over the model's
vocabulary (SPLADE: Formal et al. 2021). Terms that stand in neither text may carry weight: the model expands both.
"""

from collections.abc import Sequence

import numpy as np

from data.passages import Passages
from data.records import Passage
from models.encoders.protocols import LimitedEncoder, TermEncoder
from retrieval.rankings import Rankings


class LearnedSparse:
    """Exact search of weighed terms; scores are dot products, higher is better, ties by row.

    A passage that shares no term with the question, or whose score is not above 0, is not found.
    """

    def __init__(self, name: str, passages: Sequence[Passage], encoder: TermEncoder, *, title: bool = True) -> None:
        from retrieval.lexical.postings.build import segments_of  # imports a compiler
        from retrieval.lexical.postings.index import Postings

        self.name = name
        self._encoder = encoder
        self._texts = Passages.of(passages).indexed_texts(title=title)
        weights = encoder.encode_passages(self._texts)
        self._n_terms = weights.shape[1]
        self._postings = Postings.of(segments_of(weights), len(passages))
        self.memory_bytes = self._postings.memory_bytes

    def cut_off(self) -> int:
        """Of how many passages only the beginning is read."""
        return self._encoder.cut_off(self._texts) if isinstance(self._encoder, LimitedEncoder) else 0

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question. Raises `ValueError` where their vocabulary is a larger one."""
        asked = self._encoder.encode_questions(questions)
        if asked.shape[1] > self._n_terms:
            raise ValueError("the model's questions have terms that its passages cannot have")
        terms, weights = asked.indices.astype(np.uint64), asked.data.astype(np.float32, copy=False)
        return self._postings.search(terms, asked.indptr.astype(np.int64), k, weights)
