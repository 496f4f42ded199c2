"""A sentence, one that follows from it, and one that contradicts it: what contrastive objectives learn from."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from data.pairs.records import Label, PairKind, PairSet
from embeddings.distinct import Distinct


@dataclass(frozen=True)
class Triples:
    """Rows `(n, 3)` int64 of `sentences`, and which sentences are no negatives of which, `(n_sentences, n_sentences)`.

    That is a sentence itself, and everything that follows from it in any row.
    """

    sentences: list[str]
    rows: np.ndarray
    relevance: csr_array


def triples_of(pairs: PairSet) -> Triples:
    """Make triples of triplets or of labelled pairs.

    Of labelled pairs, each that says entailment becomes a triple with a contradiction of the same premise, its
    contradictions taken in turn; premises without either make none (Gao et al. 2021, 4.1). A triple that holds a
    sentence twice is none.
    """
    distinct = Distinct.of(pairs)
    rows, follows = distinct.places, distinct.places[:, :2]
    if pairs.kind is PairKind.LABELLED:
        follows = follows[pairs.values == Label.ENTAILMENT]
        rows = _in_turn(follows, distinct.places[pairs.values == Label.CONTRADICTION])
    ordered = np.sort(rows, axis=1)
    rows = rows[(ordered[:, 1:] != ordered[:, :-1]).all(axis=1)]
    n = len(distinct.sentences)
    itself = np.arange(n)
    of = np.concatenate([itself, follows[:, 0]]), np.concatenate([itself, follows[:, 1]])
    relevance = csr_array((np.ones(len(of[0]), dtype=np.int32), of), shape=(n, n))
    return Triples(distinct.sentences, rows, relevance)


def _in_turn(entailed: np.ndarray, contradicted: np.ndarray) -> np.ndarray:
    """Give the i-th entailed pair of a premise its i-th contradicted one, from the first again where they are fewer."""
    contradicted = contradicted[np.argsort(contradicted[:, 0], kind="stable")]
    premises, first, count = np.unique(contradicted[:, 0], return_index=True, return_counts=True)
    entailed = entailed[np.isin(entailed[:, 0], premises)]
    entailed = entailed[np.argsort(entailed[:, 0], kind="stable")]
    _, begins, held = np.unique(entailed[:, 0], return_index=True, return_counts=True)
    turn = np.arange(len(entailed)) - np.repeat(begins, held)
    place = np.searchsorted(premises, entailed[:, 0])
    negatives = contradicted[first[place] + turn % count[place], 1]
    return np.concatenate([entailed, negatives[:, None]], axis=1)
