"""The index in arrays against sums over all passages, made without it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.catalog import CATALOG, read_entry
from retrieval.lexical.bm25 import BM25, BM25Options
from retrieval.lexical.engines import Engine
from retrieval.lexical.postings import Postings, bm25_postings
from retrieval.rankings import Rankings, top_k
from tests.doubles import texts_of
from text.analyzers import Analyzer
from text.tokens import Tokens

DOCUMENTS = st.lists(st.lists(st.integers(0, 6), max_size=8), min_size=1, max_size=30).filter(any)
QUESTIONS = st.lists(st.lists(st.integers(0, 6), max_size=6), min_size=1, max_size=40)


def tokens_with(documents: list[list[int]]) -> Tokens:
    ids = np.array([term for document in documents for term in document], dtype=np.int32)
    return Tokens([str(term) for term in range(7)], ids, offsets_of(documents))


def offsets_of(texts: list[list[int]]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)


def flat(questions: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([term for question in questions for term in question], dtype=np.int64), offsets_of(questions)


def summed(postings: Postings, questions: list[list[int]]) -> np.ndarray:
    """Every sum of weights, `(n_questions, n_passages)`, -inf where no term is held."""
    weights = np.zeros((len(postings.starts) - 1, postings.n_passages))
    terms = np.repeat(np.arange(len(weights)), np.diff(postings.starts))
    weights[terms, postings.rows] = postings.weights
    sums = np.array([weights[question].sum(axis=0) for question in questions])
    return np.where(sums > 0, sums, -np.inf)


def assert_same(found: Rankings, expected: Rankings) -> None:
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.scores, expected.scores)


@settings(deadline=None, max_examples=100)
@given(DOCUMENTS, QUESTIONS, st.integers(1, 35))
def test_the_best_are_found_in_order(documents: list[list[int]], questions: list[list[int]], k: int) -> None:
    postings = bm25_postings(tokens_with(documents), 0.9, 0.4)
    expected = summed(postings, questions)
    assert_same(postings.search(*flat(questions), k), top_k(expected, k))
    blocks = np.concatenate(list(postings.scores(*flat(questions), 3)))
    np.testing.assert_array_equal(blocks, expected.astype(np.float32))


@settings(deadline=None, max_examples=50)
@given(DOCUMENTS, st.floats(0, 3), st.floats(0, 1))
def test_weights_are_the_written_formula(documents: list[list[int]], k1: float, b: float) -> None:
    postings = bm25_postings(tokens_with(documents), k1, b)
    mean_length = np.mean([len(document) for document in documents])
    for term in range(7):
        places = slice(*postings.starts[term : term + 2])
        holders = [row for row, document in enumerate(documents) if term in document]
        assert postings.rows[places].tolist() == holders
        idf = np.log(1 + (len(documents) - len(holders) + 0.5) / (len(holders) + 0.5))
        expected = [
            idf * count / (count + k1 * (1 - b + b * len(documents[row]) / mean_length))
            for row in holders
            for count in [documents[row].count(term)]
        ]
        assert postings.weights[places] == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_a_corpus_of_several_stretches() -> None:
    """The best lie in different stretches, and equal ones stand in the order of the corpus."""
    rng = np.random.default_rng(0)
    n_passages = 300_000
    lengths = rng.integers(1, 4, n_passages)
    ids = rng.choice(7, lengths.sum(), p=[0.4, 0.3, 0.2, 0.05, 0.03, 0.01999, 0.00001]).astype(np.int32)
    tokens = Tokens([str(term) for term in range(7)], ids, np.concatenate([[0], np.cumsum(lengths)]))
    postings = bm25_postings(tokens, 0.9, 0.4)
    questions = [[0], [6], [5, 4, 0], [0, 0, 3], [], [1, 2, 3, 4, 5, 6]] * 10
    found = postings.search(*flat(questions), 50)
    assert_same(found, top_k(summed(postings, questions), 50))
    assert len(set((found.indices[2] // (1 << 17)).tolist())) > 1


@pytest.mark.parametrize("analyzer", [Analyzer.WORD, Analyzer.KIWI_BIGRAM])
def test_bm25s_scores_the_same(analyzer: Analyzer) -> None:
    sample = read_entry(CATALOG["sample"]).question_set
    ours, theirs = (
        BM25(engine.value, sample.passages, BM25Options(analyzer, engine=engine)).search(texts_of(sample.questions), 50)
        for engine in (Engine.POSTINGS, Engine.BM25S)
    )
    np.testing.assert_array_equal(ours.indices >= 0, theirs.indices >= 0)
    found = ours.indices >= 0
    np.testing.assert_allclose(ours.scores[found], theirs.scores[found], rtol=1e-6)
    apart = np.abs(np.diff(ours.scores, axis=1, prepend=np.inf)) > 1e-4
    clear = found & apart & np.roll(apart, -1, axis=1)
    assert clear.mean() > 0.2
    np.testing.assert_array_equal(ours.indices[clear], theirs.indices[clear])
