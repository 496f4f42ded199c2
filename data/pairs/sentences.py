"""Sentences by number, so that rows which share one are found without comparing texts."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from data.pairs.records import PairKind, PairSet


def numbers_of(*sets: PairSet) -> list[np.ndarray]:
    """Number the sentences of some sets: equal ones, letter by letter, have one number, in every column and set.

    Returns an array for each set, `(n_rows, kind.width)` int64, counting from 0 in order of first appearance.
    """
    columns = [texts.column.cast(pa.large_string()) for pairs in sets for texts in pairs.texts]
    chunks = [chunk for column in columns for chunk in (column.chunks if hasattr(column, "chunks") else [column])]
    encoded = pa.chunked_array(chunks, pa.large_string()).combine_chunks().dictionary_encode()
    numbers = np.asarray(encoded.indices).astype(np.int64)
    found, start = [], 0
    for pairs in sets:
        end = start + len(pairs) * pairs.kind.width
        found.append(numbers[start:end].reshape(pairs.kind.width, len(pairs)).T)
        start = end
    return found


def sentence_set(name: str, sentences: Iterable[str]) -> PairSet:
    """Make a set of plain sentences: each different one once, in order, without those that hold nothing."""
    different = dict.fromkeys(stripped for one in sentences if (stripped := one.strip()))
    return PairSet.of(name, PairKind.SENTENCES, [list(different)])


def sentences_of(pairs: PairSet) -> PairSet:
    """Make a set of plain sentences of those of any set, each different one once; nothing is published of them."""
    return sentence_set(pairs.name, pairs.sentences)
