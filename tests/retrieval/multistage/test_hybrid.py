"""Reciprocal rank fusion by a hand sum and by a plain loop over dictionaries."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.hybrid import Hybrid
from retrieval.rankings import Rankings

N_PASSAGES = 8
RANKED_ROWS = st.permutations(range(N_PASSAGES)).flatmap(lambda rows: st.integers(0, 8).map(lambda n: rows[:n]))


class Fixed:
    """Finds the rows it was given, whatever it is asked."""

    def __init__(self, *rows: Sequence[int]) -> None:
        self.name, self._rows = "fixed", rows

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        assert len(questions) == len(self._rows)
        indices = np.array([[*list(rows)[:k], *[-1] * (k - len(rows))] for rows in self._rows], dtype=np.int32)
        return Rankings(indices, np.where(indices >= 0, -np.arange(k, dtype=np.float32), -np.float32(np.inf)))


def fused(parts: Sequence[Sequence[int]], depth: int, k: int) -> tuple[list[int], list[float]]:
    scores: dict[int, float] = defaultdict(float)
    for rows in parts:
        for rank, row in enumerate(rows[:depth], start=1):
            scores[row] += 1 / (60 + rank)
    as_stored = sorted(((-float(np.float32(score)), row) for row, score in scores.items()))[:k]
    missing = k - len(as_stored)
    return [row for _, row in as_stored] + [-1] * missing, [-score for score, _ in as_stored] + [-np.inf] * missing


def test_a_hand_sum() -> None:
    hybrid = Hybrid("hybrid", [Fixed([2, 0, 1]), Fixed([0, 3])], n_passages=4)
    rankings = hybrid.search(["?"], 4)
    assert rankings.indices.tolist() == [[0, 2, 3, 1]]
    expected = [[1 / 62 + 1 / 61, 1 / 61, 1 / 62, 1 / 63]]
    np.testing.assert_allclose(rankings.scores, expected, rtol=1e-6)


@given(st.lists(RANKED_ROWS, min_size=2, max_size=4), st.integers(1, 10), st.integers(1, 10))
def test_a_plain_loop(parts: list[list[int]], depth: int, k: int) -> None:
    rankings = Hybrid("h", [Fixed(rows) for rows in parts], n_passages=N_PASSAGES, depth=depth).search(["?"], k)
    rows, scores = fused(parts, depth, min(k, N_PASSAGES))
    assert rankings.indices.tolist() == [rows]
    np.testing.assert_allclose(rankings.scores, [scores], rtol=1e-6)


def test_questions_are_fused_each_by_itself() -> None:
    first, second = Fixed([0, 1], [], [2]), Fixed([1], [], [2, 0])
    rankings = Hybrid("h", [first, second], n_passages=3).search(["a", "b", "c"], 2)
    assert rankings.indices.tolist() == [[1, 0], [-1, -1], [2, 0]]


@pytest.mark.parametrize("k", [1, 3])
def test_ranks_past_the_depth_do_not_count_however_many_are_asked_for(k: int) -> None:
    parts = [Fixed([0, 1, 2]), Fixed([2, 1, 0])]
    rankings = Hybrid("h", parts, n_passages=3, depth=1).search(["?"], k)
    assert rankings.indices.tolist() == [[0, 2, -1][:k]]
    np.testing.assert_allclose(rankings.scores, [[1 / 61, 1 / 61, -np.inf][:k]], rtol=1e-6)


@pytest.mark.parametrize("parts", [[], [Fixed([0])]])
def test_one_retriever_is_no_hybrid(parts: list[Fixed]) -> None:
    with pytest.raises(ValueError, match="at least two"):
        Hybrid("h", parts, n_passages=1)
