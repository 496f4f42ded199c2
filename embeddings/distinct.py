"""The different sentences of a set of pairs: each is encoded once, and pairs that share one belong together."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from data.pairs.records import PairSet
from data.pairs.sentences import numbers_of
from data.pairs.split import row_groups


@dataclass(frozen=True)
class Distinct:
    """Sentences, each once, and where they stand: `places` `(n_rows, width)` int64 are rows of `sentences`."""

    sentences: list[str]
    places: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, pairs: PairSet) -> "Distinct":
        """Find the sentences of a set, in order of first appearance, column by column."""
        (places,) = numbers_of(pairs)
        first = np.unique(places.T, return_index=True)[1]
        column_of = first // max(1, len(pairs))
        sentences = [
            text
            for number, column in enumerate(pairs.texts)
            for text in column.at(first[column_of == number] % max(1, len(pairs)))
        ]
        return cls(sentences, places)

    @cached_property
    def groups(self) -> np.ndarray:
        """The numbers of the groups of rows that share a sentence, directly or through others, `(n_rows,)` int64."""
        return row_groups(self.places)

    @cached_property
    def sentence_groups(self) -> np.ndarray:
        """The group of the rows that each sentence stands in, `(n_sentences,)` int64."""
        groups = np.zeros(len(self.sentences), dtype=np.int64)
        groups[self.places] = self.groups[:, None]
        return groups
