"""What parts add to a fused or reranked score: the sum is the retriever's own, each part the written formula."""

import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.records import Passage
from retrieval.explain.standing import fusion_contributions, rerank_contributions
from retrieval.hybrid import Fusion, Hybrid
from retrieval.rankings import NOT_FOUND, Rankings
from retrieval.rerank import Reranked

N_PASSAGES = 9
SCORES = st.one_of(st.integers(-4, 4).map(float), st.floats(-50, 50, width=32))
LISTS = st.lists(st.dictionaries(st.integers(0, N_PASSAGES - 1), SCORES, max_size=7), min_size=2, max_size=2)


class Listed:
    """Finds what it was told to, a dictionary of passage and score for each question, whatever the question."""

    def __init__(self, name: str, told: list[dict[int, float]]) -> None:
        self.name, self._told = name, told

    def search(self, questions: list[str], k: int) -> Rankings:  # noqa: ARG002
        indices = np.full((len(self._told), k), NOT_FOUND, dtype=np.int32)
        scores = np.full((len(self._told), k), -np.inf, dtype=np.float32)
        for row, told in enumerate(self._told):
            best = sorted(told.items(), key=lambda item: (-item[1], item[0]))[:k]
            indices[row, : len(best)] = [passage for passage, _ in best]
            scores[row, : len(best)] = [score for _, score in best]
        return Rankings(indices, scores)


class ToldScorer:
    """Scores a passage by its number in a list."""

    fingerprint = "told"

    def __init__(self, scores: list[float]) -> None:
        self._scores = scores

    def load(self) -> None:
        """Nothing to load."""

    def score(self, pairs: list[tuple[str, str]]) -> np.ndarray:
        return np.array([self._scores[int(passage)] for _, passage in pairs], dtype=np.float32)


def small_lists() -> dict[str, Rankings]:
    return {
        "bm25": Listed("bm25", [{0: 1.0}, {3: 8.0, 1: 6.0, 4: 5.0, 8: 1.0}]).search(["", ""], 5),
        "dense": Listed("dense", [{1: 1.0}, {1: 0.9, 3: 0.5, 5: 0.1}]).search(["", ""], 5),
    }


@pytest.mark.slow
@pytest.mark.parametrize("fusion", list(Fusion))
@settings(deadline=None, max_examples=80)
@given(
    first=LISTS,
    second=LISTS,
    weights=st.none() | st.sampled_from([(1.0, 1.0), (0.3, 0.7), (2.0, 0.5), (0.0, 1.0), (1.0, 0.0)]),
    depth=st.integers(1, 8),
)
def test_values_sum_to_the_score_of_the_hybrid(
    fusion: Fusion,
    first: list[dict[int, float]],
    second: list[dict[int, float]],
    weights: tuple[float, float] | None,
    depth: int,
) -> None:
    retrievers = [Listed("first", first), Listed("second", second)]
    hybrid = Hybrid("hybrid", retrievers, n_passages=N_PASSAGES, depth=depth, fusion=fusion, weights=weights)
    fused = hybrid.search(["one", "other"], N_PASSAGES)
    lists = {retriever.name: retriever.search(["one", "other"], 8) for retriever in retrievers}
    for question in range(2):
        scores = dict(zip(fused.indices[question].tolist(), fused.scores[question].tolist(), strict=True))
        for passage in range(N_PASSAGES):
            told = fusion_contributions(lists, question, passage, depth=depth, fusion=fusion, weights=weights)
            assert told.found == (passage in scores)
            if told.found:
                assert told.score == pytest.approx(scores[passage], rel=1e-5, abs=1e-5)
                assert sum(part.value for part in told.parts.values()) == pytest.approx(told.score)


def test_reciprocal_ranks_by_hand() -> None:
    told = fusion_contributions(small_lists(), 1, 3, depth=5, fusion=Fusion.RRF, weights=[2.0, 1.0])
    bm25, dense = told.parts["bm25"], told.parts["dense"]
    assert (bm25.rank, bm25.score, bm25.normalised, bm25.weight, bm25.value) == (1, 8, 1 / 61, 2, 2 / 61)
    assert (dense.rank, dense.score, dense.normalised, dense.weight, dense.value) == (2, 0.5, 1 / 62, 1, 1 / 62)


def test_ranges_by_hand_over_the_depth_that_was_fused() -> None:
    told = fusion_contributions(small_lists(), 1, 1, depth=3, fusion=Fusion.MIN_MAX)
    assert told.parts["bm25"].value == pytest.approx((6 - 5) / (8 - 5))
    assert told.parts["dense"].value == 1
    assert fusion_contributions(small_lists(), 1, 1, depth=4, fusion=Fusion.MIN_MAX).parts[
        "bm25"
    ].value == pytest.approx((6 - 1) / (8 - 1))


def test_deviations_by_hand() -> None:
    told = fusion_contributions(small_lists(), 1, 1, depth=5, fusion=Fusion.Z_SCORE, weights=[0.5, 0.5])
    bm25 = [8.0, 6.0, 5.0, 1.0]
    assert told.parts["bm25"].normalised == pytest.approx((6 - statistics.mean(bm25)) / statistics.pstdev(bm25))
    missed = fusion_contributions(small_lists(), 1, 8, depth=5, fusion=Fusion.Z_SCORE).parts["dense"]
    dense = [0.9, 0.5, 0.1]
    assert (missed.rank, missed.score) == (None, None)
    assert missed.value == pytest.approx((0.1 - 0.5) / statistics.pstdev(dense))


def test_a_passage_that_nobody_who_counts_brought() -> None:
    told = fusion_contributions(small_lists(), 1, 8, depth=5, fusion=Fusion.RRF, weights=[0.0, 1.0])
    assert (told.parts["bm25"].rank, told.parts["bm25"].value, told.found, told.score) == (4, 0, False, 0)
    assert not fusion_contributions(small_lists(), 1, 8, depth=3, fusion=Fusion.RRF).found


def to_unit(scores: dict[int, float]) -> dict[int, float]:
    low, high = min(scores.values()), max(scores.values())
    return {passage: (score - low) / (high - low) if high > low else 1.0 for passage, score in scores.items()}


@settings(deadline=None, max_examples=80)
@given(
    told=st.lists(
        st.dictionaries(st.integers(0, 8), st.integers(-9, 9).map(float), min_size=1), min_size=2, max_size=2
    ),
    scores=st.lists(st.integers(-9, 9).map(float), min_size=9, max_size=9),
    weight=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    depth=st.integers(1, 6),
    k=st.integers(1, 9),
)
def test_a_move_adds_up_and_tells_the_reranker(
    told: list[dict[int, float]], scores: list[float], weight: float, depth: int, k: int
) -> None:
    first, passages = Listed("first", told), [Passage(f"p{row}", str(row)) for row in range(9)]
    reranked = Reranked("reranked", first, ToldScorer(scores), passages, depth=depth, weight=weight)
    after, before = reranked.search(["one", "other"], k), first.search(["one", "other"], 9)
    for question, passage in ((0, next(iter(told[0]))), (1, next(iter(told[1])))):
        move = rerank_contributions(before, after, question, passage, depth=depth, weight=weight)
        ranking, new = before.indices[question].tolist(), after.indices[question].tolist()
        assert move.rank_before == ranking.index(passage) + 1
        assert move.rank_after == (new.index(passage) + 1 if passage in new else None)
        read = [row for row in ranking[:depth] if row >= 0]
        if passage not in read or passage not in new:
            assert move.first is None
            assert move.reranker is None
            continue
        assert move.first is not None
        assert move.reranker is not None
        assert move.first.score == told[question][passage]
        assert move.score == pytest.approx(float(after.scores[question, new.index(passage)]))
        assert move.first.value + move.reranker.value == pytest.approx(move.score, abs=1e-6)
        assert move.first.normalised == pytest.approx(to_unit({row: told[question][row] for row in read})[passage])
        assert (move.first.weight, move.reranker.weight) == (1 - weight, weight)
        if weight:
            reranker = to_unit({row: scores[row] for row in read})[passage]
            assert move.reranker.normalised == pytest.approx(reranker, abs=1e-5)
        else:
            assert move.reranker.normalised is None


def test_a_passage_past_the_depth_keeps_its_order() -> None:
    first = Listed("first", [{0: 3.0, 1: 2.0, 2: 1.0}])
    reranked = Reranked("r", first, ToldScorer([0.0, 5.0, 9.0]), [Passage(str(n), str(n)) for n in range(3)], depth=2)
    lists = first.search(["q"], 3), reranked.search(["q"], 3)
    up, down, past = (rerank_contributions(*lists, 0, passage, depth=2, weight=1.0) for passage in (1, 0, 2))
    assert (up.rank_before, up.rank_after, up.score) == (2, 1, 1)
    assert (down.rank_before, down.rank_after, down.score) == (1, 2, 0)
    assert (past.rank_before, past.rank_after, past.first, past.reranker) == (3, 3, None, None)
    nowhere = rerank_contributions(*lists, 0, 7, depth=2, weight=1.0)
    assert (nowhere.rank_before, nowhere.rank_after, nowhere.score) == (None, None, None)
