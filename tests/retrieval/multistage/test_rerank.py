import numpy as np
import pytest

from data.passages import Passages
from retrieval.lexical.bm25 import BM25, BM25Options
from retrieval.rankings import Rankings
from retrieval.rerank import Reranked, interpolated
from tests.doubles import PASSAGES, QUESTIONS, SharedWordScorer, texts_of
from tests.retrieval.multistage.test_hybrid import Fixed

ASKED = texts_of(QUESTIONS)


def bigrams() -> BM25:
    return BM25("bm25", PASSAGES, BM25Options("bigram"))


def reranked(weight: float, depth: int = 3, scorer: object = None) -> Reranked:
    return Reranked("reranked", bigrams(), scorer or SharedWordScorer(), PASSAGES, depth=depth, weight=weight)


class PassageScorer:
    """The scores it was given, by the text of the passage."""

    fingerprint = "given"

    def __init__(self, *scores: float) -> None:
        self._scores = dict(zip(Passages.of(PASSAGES).indexed_texts(title=True), scores, strict=True))
        self.asked: list[tuple[str, str]] = []

    def load(self) -> None:
        """Nothing to load."""

    def score(self, pairs: list[tuple[str, str]]) -> np.ndarray:
        self.asked += pairs
        return np.array([self._scores[passage] for _, passage in pairs], dtype=np.float32)


@pytest.mark.parametrize("k", [1, 3, 5, 9])
def test_weight_0_keeps_the_first_order(k: int) -> None:
    first = bigrams().search(ASKED, k)
    assert (first.indices[:, 0] >= 0).all()
    assert reranked(0).search(ASKED, k).indices.tolist() == first.indices.tolist()


def test_weight_1_is_the_order_of_the_scorer() -> None:
    scorer = PassageScorer(3, 9, 1, 3, 5)
    rankings = Reranked("r", Fixed([3, 2, 0, 4, 1]), scorer, PASSAGES, depth=5, weight=1).search(["?"], 5)
    assert rankings.indices.tolist() == [[1, 4, 0, 3, 2]]  # 9, 5, 3, 3, 1


def test_below_the_depth_the_order_is_the_first_one() -> None:
    first, scorer = Fixed([4, 2, 0, 3, 1]), PassageScorer(9, 8, 7, 6, 5)
    rankings = Reranked("r", first, scorer, PASSAGES, depth=2).search(["?"], 6)
    assert rankings.indices.tolist() == [[2, 4, 0, 3, 1, -1]]
    assert rankings.scores.tolist() == [[1, 0, -1, -2, -3, -np.inf]]
    texts = Passages.of(PASSAGES).indexed_texts(title=True)
    assert scorer.asked == [("?", texts[4]), ("?", texts[2])]


def test_the_depth_is_read_even_where_fewer_are_asked_for() -> None:
    rankings = Reranked("r", Fixed([4, 2, 0]), PassageScorer(9, 8, 7, 6, 5), PASSAGES, depth=3).search(["?"], 1)
    assert rankings.indices.tolist() == [[0]]


def test_scores_are_the_weighted_sum_after_min_max() -> None:
    # first: 0, -1, -2 -> 1, .5, 0; scorer: 5, 7, 9 -> 0, .5, 1
    rankings = Reranked("r", Fixed([4, 2, 0]), PassageScorer(9, 8, 7, 6, 5), PASSAGES, depth=3, weight=0.75).search(
        ["?"], 3
    )
    assert rankings.indices.tolist() == [[0, 2, 4]]
    np.testing.assert_allclose(rankings.scores, [[0.75, 0.5, 0.25]])


def test_a_scorer_is_asked_only_for_what_was_found() -> None:
    scorer = PassageScorer(1, 2, 3, 4, 5)
    rankings = Reranked("r", Fixed([], [3]), scorer, PASSAGES, depth=4).search(["nothing", "one"], 2)
    assert rankings.indices.tolist() == [[-1, -1], [3, -1]]
    assert [question for question, _ in scorer.asked] == ["one"]


def test_more_questions_than_a_block_and_progress() -> None:
    told: list[float] = []
    asked = ASKED * 30
    blocks = Reranked("r", bigrams(), SharedWordScorer(), PASSAGES, depth=3, on_progress=told.append)
    assert blocks.search(asked, 5).indices.tolist() == reranked(1).search(ASKED, 5).indices.tolist() * 30
    assert told == [64 / 180, 128 / 180, 1.0]


def test_interpolation_leaves_out_what_is_no_candidate() -> None:
    candidates = Rankings(np.array([[7, -1]], dtype=np.int32), np.array([[2, -np.inf]], dtype=np.float32))
    assert interpolated(candidates, np.array([[3, -np.inf]]), 0.5).tolist() == [[1, -np.inf]]


@pytest.mark.parametrize(("depth", "weight"), [(0, 1), (5, -0.1), (5, 1.1)])
def test_options_outside_their_range_are_refused(depth: int, weight: float) -> None:
    with pytest.raises(ValueError, match="depth must be 1 or more and weight between 0 and 1"):
        reranked(weight, depth)
