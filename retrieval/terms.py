"""What the analyzers make of texts, and which questions BM25 cannot answer whatever its weights."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from data.records import QuestionSet
from retrieval.analyzers import Analyzer, analyze, tokens_of
from retrieval.bm25 import indexed_texts

NAMED = tuple(analyzer for analyzer in Analyzer if analyzer is not Analyzer.AUTO)


@dataclass(frozen=True)
class Unmatched:
    """Ascending rows of the questions none of whose terms is in any passage, and in none of their own passages.

    The first are among the second.
    """

    anywhere: np.ndarray
    own: np.ndarray


def readings(text: str) -> dict[Analyzer, list[str]]:
    """Return the tokens of a text under every analyzer."""
    return {analyzer: analyze(analyzer, [text])[0] for analyzer in NAMED}


def unmatched(asked: QuestionSet, analyzer: Analyzer, *, title: bool = True) -> Unmatched:
    """Find the questions that share no term with any passage, or with their own."""
    passages = tokens_of(analyzer, indexed_texts(asked.passages, title=title))
    questions = tokens_of(analyzer, [question.text for question in asked.questions])
    number = {token: place for place, token in enumerate(passages.vocabulary)}
    shared = questions.ids_in(number)
    rows, columns = asked.relevance.tocoo().coords
    met = _holds(shared, len(number))[rows].multiply(_holds(passages.ids_in(number), len(number))[columns]).sum(axis=1)
    own = np.zeros(len(asked.questions), dtype=bool)
    own[rows[met > 0]] = True
    return Unmatched(
        anywhere=np.flatnonzero([not len(ids) for ids in shared]),
        own=np.flatnonzero(~own),
    )


def _holds(ids: list[np.ndarray], size: int) -> csr_array:
    """Return how often each text holds each term, `(n_texts, size)`."""
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in ids])])
    flat = np.concatenate([np.zeros(0, dtype=np.int64), *ids])
    return csr_array((np.ones(len(flat)), flat, offsets), shape=(len(ids), size))
