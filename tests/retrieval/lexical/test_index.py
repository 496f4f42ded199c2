"""The index against sums over all passages, made without it."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.data.text.analysis import analyze
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval import lexical
from mrc_workbench.retrieval.lexical import SingleSegmentIndex, index
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from mrc_workbench.retrieval.lexical.index import Postings, segments_of
from mrc_workbench.retrieval.lexical.search import count_bits
from mrc_workbench.retrieval.rankings import NOT_FOUND, top_k
from tests.doubles import texts_of
from tests.retrieval.compared import assert_equal_rankings
from tests.retrieval.lexical.postings import (
    Documents,
    offsets_of,
    postings_with,
    query_arrays,
    segments_with,
    tokens_with,
    weights_by_formula,
)

TERMS = st.integers(0, 6)
RANDOM_DOCUMENTS = st.lists(st.lists(TERMS, max_size=8), min_size=1, max_size=60).filter(any)
QUESTIONS = st.lists(st.lists(TERMS, max_size=6), min_size=1, max_size=40)
SIZES = st.sampled_from([1, 2, 7, 16, 64, 65, 1 << 16])
COUNTS = st.sampled_from([0.25, 0.5, 1.0, 1.7, 3.0])


def all_of(postings: Postings, *question: Any) -> np.ndarray:
    return np.concatenate(list(postings.scores(*question)))


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(RANDOM_DOCUMENTS, QUESTIONS, st.integers(1, 70), SIZES, st.tuples(st.floats(0, 3), st.floats(0, 1)))
def test_search_ranks_scores_of_documented_formula(
    documents: Documents, questions: Documents, k: int, size: int, options: tuple[float, float]
) -> None:
    k1, b = options
    postings = postings_with(documents, k1, b, size)
    scores = all_of(postings, *query_arrays(questions), 3)
    assert_equal_rankings(postings.search(*query_arrays(questions), k), top_k(scores, k))
    weights = weights_by_formula(documents, k1, b)
    expected = np.array([weights[:, question].sum(axis=1) for question in questions])
    np.testing.assert_array_equal(np.isfinite(scores), expected > 0)
    np.testing.assert_allclose(scores, np.where(expected > 0, expected, -np.inf), rtol=1e-6)


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(RANDOM_DOCUMENTS, QUESTIONS, st.integers(1, 20), SIZES, st.data())
def test_counts_query_terms(documents: Documents, questions: Documents, k: int, size: int, data: st.DataObject) -> None:
    postings = postings_with(documents, size=size)
    terms, offsets = query_arrays(questions)
    factors = np.array(data.draw(st.lists(COUNTS, min_size=len(terms), max_size=len(terms))), dtype=np.float32)
    scores = all_of(postings, terms, offsets, 3, factors)
    assert_equal_rankings(postings.search(terms, offsets, k, factors), top_k(scores, k))
    weights = weights_by_formula(documents, 0.9, 0.4)
    for row, question in enumerate(questions):
        own = factors[offsets[row] : offsets[row + 1]]
        expected = (weights[:, question] * own).sum(axis=1)
        np.testing.assert_allclose(scores[row], np.where(expected > 0, expected, -np.inf), rtol=1e-6)


@settings(deadline=None, max_examples=50)
@given(RANDOM_DOCUMENTS, QUESTIONS, st.integers(1, 20))
def test_segmentation_does_not_change_results(documents: Documents, questions: Documents, k: int) -> None:
    whole = postings_with(documents, size=1 << 16).search(*query_arrays(questions), k)
    for size in (1, 5, 64):
        assert_equal_rankings(postings_with(documents, size=size).search(*query_arrays(questions), k), whole)


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(st.data(), st.integers(1, 20), SIZES)
def test_searches_negative_and_positive_weights_exactly(data: st.DataObject, k: int, size: int) -> None:
    shape = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 6))
    signed = st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.5, -1.0])
    weights = np.array(data.draw(st.lists(signed, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])))
    postings = Postings.from_segments(segments_of(csr_array(weights.reshape(shape)), size), shape[0], size)
    terms = np.arange(shape[1], dtype=np.uint64)
    expected = weights.reshape(shape).sum(axis=1)[None]
    rankings = postings.search(terms, np.array([0, len(terms)]), k)
    assert_equal_rankings(rankings, top_k(np.where(expected > 0, expected, -np.inf).astype(np.float32), k))


@pytest.mark.slow
def test_searches_zipf_distributed_terms() -> None:
    """The lists are of all lengths, so that some are added up, some looked up by map and some by search."""
    rng = np.random.default_rng(0)
    n_passages = 20_000
    n_terms = 3_000
    term_ids = np.minimum(rng.zipf(1.2, n_passages * 30) - 1, n_terms - 1)
    entries = (np.ones(len(term_ids)), (np.repeat(np.arange(n_passages), 30), term_ids))
    counts = csr_array(entries, shape=(n_passages, n_terms))
    counts.sum_duplicates()
    held = np.bincount(counts.indices, minlength=n_terms)
    lengths = rng.uniform(0.4, 1.6, n_passages)[np.repeat(np.arange(n_passages), np.diff(counts.indptr))]
    idf = np.log1p((n_passages - held + 0.5) / (held + 0.5))
    counts.data = idf[counts.indices] * (counts.data / (counts.data + lengths))
    postings = Postings.from_segments(segments_of(counts, 2_048), n_passages, 2_048)
    questions = [np.minimum(rng.zipf(1.2, size) - 1, n_terms - 1) for size in (1, 2, 5, 12, 30, 60) for _ in range(20)]
    terms = np.concatenate(questions).astype(np.uint64)
    offsets = offsets_of(questions)
    assert (postings.lists.entries["map"] >= 0).any()
    assert (postings.lists.entries["map"] < 0).any()
    scores = all_of(postings, terms, offsets, 16)
    for k, cores in product((1, 10, 100, 1000), (None, 1)):
        assert_equal_rankings(postings.search(terms, offsets, k, cores=cores), top_k(scores, k))
    dense = counts.toarray().astype(np.float32)
    expected = np.stack([dense[:, question].sum(axis=1, dtype=np.float64) for question in questions])
    np.testing.assert_allclose(scores, np.where(expected > 0, expected, -np.inf), rtol=1e-6)


def test_unknown_terms_return_no_hits() -> None:
    postings = postings_with([[1], [2]])
    rankings = postings.search(*query_arrays([[5], [], [6, 6]]), 2)
    assert (rankings.indices == NOT_FOUND).all()
    assert np.isneginf(rankings.scores).all()
    assert postings.search(*query_arrays([[1]]), 0).indices.shape == (1, 0)


def test_k_larger_than_corpus_returns_all_hits() -> None:
    for k in (5, 10**9, 2**63, 10**30):
        rankings = postings_with([[1], [2], [1, 1]], size=2).search(*query_arrays([[1]]), k)
        assert rankings.indices.tolist() == [[2, 0, NOT_FOUND]]


def test_rejects_segment_larger_than_row_type() -> None:
    with pytest.raises(ValueError, match="1 to 65,536"):
        postings_with([[1]], size=70_000)


@pytest.mark.parametrize("word", [0, 1, 2**63, 2**64 - 1, 0x123456789ABCDEF])
def test_counts_set_bits(word: int) -> None:
    assert count_bits(np.uint64(word)) == word.bit_count()


@pytest.mark.slow
@pytest.mark.parametrize("analyzer", [Analyzer.WORD, Analyzer.KIWI_BIGRAM])
def test_bm25s_scores_the_same(analyzer: Analyzer) -> None:
    import bm25s

    sample = read_entry(CATALOG["sample"]).question_set
    questions = texts_of(sample.questions)
    ours = np.concatenate(list(BM25("ours", sample.passages, BM25Options(analyzer)).score_blocks(questions)))
    library = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    library.index(analyze(analyzer, list(sample.passages.indexed_texts(title=True))), show_progress=False)
    theirs = np.stack([library.get_scores(tokens) for tokens in analyze(analyzer, questions)])
    np.testing.assert_allclose(np.where(np.isfinite(ours), ours, 0), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(RANDOM_DOCUMENTS, QUESTIONS, st.integers(1, 70), st.tuples(st.floats(0, 3), st.floats(0, 1)), st.data())
def test_numpy_scores_equal_compiled_scores(
    documents: Documents, questions: Documents, k: int, options: tuple[float, float], data: st.DataObject
) -> None:
    terms, offsets = query_arrays(questions)
    factors = np.array(data.draw(st.lists(COUNTS, min_size=len(terms), max_size=len(terms))), dtype=np.float32)
    (only,) = segments_with(documents, *options, len(documents))
    small = SingleSegmentIndex(only, len(documents))
    compiled = postings_with(documents, *options, 1 << 16)
    for given_factors in (None, factors):
        rankings = small.search(tokens_with(questions), k, given_factors)
        assert_equal_rankings(rankings, compiled.search(terms, offsets, k, given_factors))
        scores = np.concatenate(list(small.score_blocks(tokens_with(questions), given_factors)))
        np.testing.assert_array_equal(scores, all_of(compiled, terms, offsets, 3, given_factors))


@settings(deadline=None, max_examples=100)
@given(RANDOM_DOCUMENTS, st.integers(0, 3), st.floats(0.1, 3))
def test_numpy_counts_equal_compiled_counts(documents: Documents, n_head: int, gain: float) -> None:
    tokens = tokens_with(documents)
    n_terms = 7
    lengths = lexical.count_document_frequencies(tokens.ids, tokens.offsets, n_terms)
    np.testing.assert_array_equal(lengths, index.count_document_frequencies(tokens.ids, tokens.offsets, n_terms))
    title_lengths = np.full(len(documents), n_head)
    gains = np.tile([[gain], [1.0]], len(documents))
    few = lexical.count_terms(tokens.ids, tokens.offsets, lengths, title_lengths, gains)
    begins = np.concatenate([[0], np.cumsum(lengths)])
    many = index.count_terms(tokens.ids, tokens.offsets, begins, title_lengths, gains)
    for array, other in zip(few, many, strict=True):
        np.testing.assert_array_equal(array, other)
