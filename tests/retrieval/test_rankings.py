"""Rankings, the best of scores, and one question asked."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.sparse import coo_array, csr_array

from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.retrieval.dense import Dense
from mrc_workbench.retrieval.lexical.bm25 import BM25
from mrc_workbench.retrieval.rankings import (
    NOT_FOUND,
    GroundTruth,
    QueryHits,
    Rankings,
    ground_truth,
    rank_candidates,
    search_question,
    top_k,
    top_k_sparse,
)
from tests.doubles import PASSAGES, KeywordEncoder, small_set

# few values, so that many tie; the two just above 0.5 are one number in float32
VALUES = st.sampled_from([0.0, -0.0, 0.5, 0.5 + 1e-12, 0.5 + 2e-12, 1.0, -2.0, 7.25, -np.inf, np.inf, np.nan])
SHAPES = arrays.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=9)
MATRICES = arrays.arrays(st.sampled_from([np.float32, np.float64]), SHAPES, elements=VALUES.map(np.float32).map(float))
DOUBLES = arrays.arrays(np.float64, SHAPES, elements=VALUES)


def brute(candidates: list[list[tuple[int, float]]], k: int) -> tuple[list[list[int]], list[list[float]]]:
    """Sort (row, score) pairs of every question in plain Python: best first, ties by row, padded."""
    rows = []
    scores = []
    for pairs in candidates:
        as_stored = [(row, float(np.float32(score))) for row, score in pairs if row >= 0 and np.isfinite(score)]
        best = sorted(as_stored, key=lambda pair: (-pair[1], pair[0]))[:k]
        best += [(-1, -np.inf)] * (k - len(best))
        rows.append([row for row, _ in best])
        scores.append([score for _, score in best])
    return rows, scores


def assert_same(rankings: Rankings, candidates: list[list[tuple[int, float]]], k: int) -> None:
    rows, scores = brute(candidates, k)
    assert rankings.indices.shape == rankings.scores.shape == (len(candidates), k)
    assert (rankings.indices.dtype, rankings.scores.dtype) == (np.int32, np.float32)
    assert rankings.indices.tolist() == rows
    assert rankings.scores.tolist() == scores


@given(st.one_of(MATRICES, DOUBLES), st.integers(1, 12))
def test_top_k_equals_full_sort(scores: np.ndarray, k: int) -> None:
    before = scores.copy()
    assert_same(top_k(scores, k), [list(enumerate(row)) for row in scores.tolist()], min(k, scores.shape[1]))
    np.testing.assert_array_equal(scores, before)


@given(st.one_of(MATRICES, DOUBLES), st.integers(1, 12), st.data())
def test_top_k_sparse_ranks_only_stored_entries(scores: np.ndarray, k: int, data: st.DataObject) -> None:
    stored = data.draw(arrays.arrays(bool, scores.shape))
    rows, columns = np.nonzero(stored)
    order = data.draw(st.permutations(range(len(rows))))
    rows = rows[order]
    columns = columns[order]
    sparse = csr_array(coo_array((scores[rows, columns], (rows, columns)), shape=scores.shape))
    pairs = [list(enumerate(zip(*lines, strict=True))) for lines in zip(scores.tolist(), stored.tolist(), strict=True)]
    expected = [[(column, score) for column, (score, held) in line if held] for line in pairs]
    assert_same(top_k_sparse(sparse, k), expected, min(k, scores.shape[1]))


@pytest.mark.slow
@given(st.one_of(MATRICES, DOUBLES), st.integers(1, 12), st.data())
def test_rank_candidates_equals_full_sort(scores: np.ndarray, k: int, data: st.DataObject) -> None:
    n_questions, n_candidates = scores.shape
    order = st.permutations(range(n_candidates + 3)).map(lambda rows: rows[:n_candidates])
    indices = np.array(data.draw(st.lists(order, min_size=n_questions, max_size=n_questions)), dtype=np.int64)
    indices = indices.reshape(scores.shape)
    indices[data.draw(arrays.arrays(bool, scores.shape))] = NOT_FOUND
    pairs = [list(zip(*line, strict=True)) for line in zip(indices.tolist(), scores.tolist(), strict=True)]
    assert_same(rank_candidates(indices, scores, k), pairs, k)


def test_breaks_ties_by_row_at_cutoff() -> None:
    scores = np.zeros((1, 1000))
    scores[0, 700] = 1
    assert top_k(scores, 4).indices.tolist() == [[700, 0, 1, 2]]


def test_first_returns_leading_columns() -> None:
    rankings = top_k(np.array([[1.0, 3.0, 2.0], [0.0, -np.inf, 5.0]]), 3)
    assert rankings.first(2).indices.tolist() == [[1, 2], [2, 0]]
    assert rankings.first(2).scores.tolist() == [[3, 2], [5, 0]]
    assert rankings.first(9).indices.tolist() == rankings.indices.tolist()


@pytest.mark.parametrize(("indices", "scores"), [((2, 3), (2, 4)), ((3,), (3,)), ((1, 2, 3), (1, 2, 3))])
def test_rejects_mismatched_arrays(indices: tuple[int, ...], scores: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Rankings(np.zeros(indices, dtype=np.int32), np.zeros(scores, dtype=np.float32))


def test_query_hits_skip_missing_entries() -> None:
    hits = search_question(Dense("Dense", PASSAGES, KeywordEncoder()), "서울과 한강")
    assert hits.rows[:2] == (1, 2)
    assert hits.scores[:2] == pytest.approx((1.0, 1.0))
    assert len(hits.rows) == len(hits.scores) == len(PASSAGES)
    assert search_question(BM25("BM25", PASSAGES), "qwxzv") == QueryHits((), ())
    assert [QueryHits((4, 2), (2.0, 1.0)).rank_of(row) for row in (4, 2, 0)] == [1, 2, None]


def test_ground_truth_returns_labels_of_known_question() -> None:
    questions = small_set()
    assert ground_truth(questions, "한글을 만든 왕은 누구인가?") == GroundTruth(("세종",), (0,))
    decomposed = unicodedata.normalize("NFD", " 서울과\n한강을  말하는 글은? ")
    assert ground_truth(questions, decomposed) == GroundTruth((), (1, 2))
    assert ground_truth(questions, "한글을 만든 왕은") is None
    twice = (Question("a", "어디?", ("서울",), ("p3",)), Question("b", "어디?", ("한강", "서울"), ("p2", "p3")))
    assert ground_truth(QuestionSet("twice", PASSAGES, twice), "어디?") == GroundTruth(("서울", "한강"), (2, 1))
