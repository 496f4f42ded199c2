"""What the analyzers make of texts, and which questions BM25 cannot answer whatever its weights."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from data.records import QuestionSet
from retrieval.lexical.weights import term_statistics
from text.analysis import Analysis, analyze
from text.analyzers import Analyzer
from text.tokens import Tokens, tokens_of

NAMED = tuple(analyzer for analyzer in Analyzer if analyzer is not Analyzer.AUTO)


@dataclass(frozen=True)
class UnmatchedQuestions:
    """Ascending rows of the questions none of whose terms is in any passage, and in none of their own passages.

    The first are among the second.
    """

    anywhere: np.ndarray
    own: np.ndarray


def readings(text: str) -> dict[Analyzer, list[str]]:
    """Return the tokens of a text under every analyzer."""
    return {analyzer: analyze(analyzer, [text])[0] for analyzer in NAMED}


def unmatched(question_set: QuestionSet, analysis: Analyzer | Analysis, *, title: bool = True) -> UnmatchedQuestions:
    """Find the questions that share no term with any passage, or with their own."""
    corpus, questions = (
        term_statistics(analysis, question_set.passages.indexed_texts(title=title)),
        _questions(question_set, analysis),
    )
    known = corpus.places_of(questions.vocabulary) >= 0
    offsets = np.concatenate([[0], np.cumsum(known[questions.ids])])[questions.offsets]  # among the known
    rows, counts = shared_terms(question_set, analysis, title=title)
    own = np.zeros(len(question_set.questions), dtype=bool)
    own[rows[counts > 0]] = True
    return UnmatchedQuestions(anywhere=np.flatnonzero(np.diff(offsets) == 0), own=np.flatnonzero(~own))


def shared_terms(
    question_set: QuestionSet, analysis: Analyzer | Analysis, *, title: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Count the distinct terms each question shares with each of its relevant passages.

    Returns question rows and counts, one each for every such pair.
    """
    rows, columns = question_set.relevance.tocoo().coords
    relevant, place = np.unique(columns, return_inverse=True)
    texts = question_set.passages.indexed_texts(title=title)
    passages = tokens_of(analysis, [texts[row] for row in relevant.tolist()])  # of a large corpus few are relevant
    number = {token: place for place, token in enumerate(passages.vocabulary)}
    asks = _holds(*_questions(question_set, analysis).flat_ids_in(number), len(number))
    holds = _holds(passages.ids, passages.offsets, len(number))
    counts: np.ndarray = asks[rows].multiply(holds[place]).sum(axis=1)
    return rows, counts


def _questions(question_set: QuestionSet, analysis: Analyzer | Analysis) -> Tokens:
    return tokens_of(analysis, [question.text for question in question_set.questions])


def _holds(ids: np.ndarray, offsets: np.ndarray, n_terms: int) -> csr_array:
    """Return whether each text holds each term, `(n_texts, n_terms)` int32."""
    found = csr_array((np.ones(len(ids), dtype=np.int32), ids, offsets), shape=(len(offsets) - 1, n_terms))
    found.sum_duplicates()
    found.data[:] = 1
    return found
