"""The different sentences of a set of pairs: each is encoded once, and pairs that share one belong together."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from data.pairs.records import PairSet


@dataclass(frozen=True)
class Distinct:
    """Sentences, each once, and where they stand: `places` `(n_rows, width)` int64 are rows of `sentences`."""

    sentences: list[str]
    places: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, pairs: PairSet) -> "Distinct":
        """Find the sentences of a set, in order of first appearance."""
        sentences = pairs.sentences
        place = {sentence: number for number, sentence in enumerate(sentences)}
        columns = [np.fromiter((place[text] for text in column), np.int64, len(pairs)) for column in pairs.texts]
        return cls(sentences, np.stack(columns, axis=1))

    @cached_property
    def sentence_groups(self) -> np.ndarray:
        """Number the groups of sentences that hang together by rows, `(n_sentences,)` int64 from 0 without gaps."""
        n, (rows, width) = len(self.sentences), self.places.shape
        first = np.repeat(self.places[:, 0], width)
        links = coo_array((np.ones(rows * width, dtype=np.int8), (first, self.places.ravel())), shape=(n, n))
        return np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)

    @cached_property
    def groups(self) -> np.ndarray:
        """Number the groups of rows that share a sentence, directly or by others, `(n_rows,)` int64."""
        numbers: np.ndarray = self.sentence_groups[self.places[:, 0]]
        return numbers
