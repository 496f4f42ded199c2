"""Fused and reranked retrieval: fusion by formula, and the pairs that reranking scores."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.sources import Meter
from mrc_workbench.models.windows import Pair, WindowOptions
from mrc_workbench.retrieval import combine
from mrc_workbench.retrieval.combine import Fusion, PairScores, RerankedRetriever
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from mrc_workbench.retrieval.rankings import Rankings, top_k
from tests.doubles import PASSAGES, QUESTIONS, SharedWordScorer, texts_of
from tests.retrieval.compared import assert_equal_rankings, hits_of

N_PASSAGES = 7
SCORES = st.dictionaries(st.integers(0, N_PASSAGES - 1), st.integers(-4, 9), max_size=N_PASSAGES)
WEIGHTS = st.one_of(st.none(), st.tuples(*[st.sampled_from([0, 0.25, 1, 3])] * 3).filter(any))
TEXTS = [f"passage {row}" for row in range(30)]
MANY_QUERIES = [f"question {row}" for row in range(70)]  # more than a block
QUERIES = texts_of(QUESTIONS)


def rankings_of(*questions: dict[int, float]) -> Rankings:
    return top_k(np.array([[hits.get(row, -np.inf) for row in range(N_PASSAGES)] for hits in questions]), N_PASSAGES)


def values_of(scores_by_row: dict[int, float], fusion: Fusion) -> tuple[dict[int, float], float]:
    if fusion is Fusion.RRF:
        order = sorted(scores_by_row, key=lambda passage: (-scores_by_row[passage], passage))
        return {passage: 1 / (60 + rank) for rank, passage in enumerate(order, start=1)}, 0.0
    equal = len(set(scores_by_row.values())) == 1
    if not scores_by_row:
        return {}, 0.0
    if fusion is Fusion.MIN_MAX:
        low = min(scores_by_row.values())
        high = max(scores_by_row.values())
        items = scores_by_row.items()
        return {passage: 1.0 if equal else (score - low) / (high - low) for passage, score in items}, 0.0
    if equal:
        return dict.fromkeys(scores_by_row, 0.0), -1.0
    mean = statistics.fmean(scores_by_row.values())
    deviation = statistics.pstdev(scores_by_row.values())
    values = {passage: (score - mean) / deviation for passage, score in scores_by_row.items()}
    return values, min(values.values())


def by_loop(lists: Sequence[dict[int, float]], fusion: Fusion, weights: Sequence[float] | None) -> dict[int, float]:
    weighted = zip(lists, weights or [1.0] * len(lists), strict=True)
    counted = [(*values_of(scores_by_row, fusion), weight) for scores_by_row, weight in weighted if weight]
    candidates = {passage for values, _, _ in counted for passage in values}
    return {p: sum(weight * values.get(p, absent) for values, absent, weight in counted) for p in candidates}


@pytest.mark.slow
@pytest.mark.parametrize("fusion", Fusion)
@given(st.lists(st.tuples(SCORES, SCORES, SCORES), min_size=1, max_size=4), WEIGHTS)
def test_fusion_matches_reference_loop(
    fusion: Fusion, questions: list[tuple[dict[int, float], ...]], weights: tuple[float, ...] | None
) -> None:
    rankings = [rankings_of(*lists) for lists in zip(*questions, strict=True)]
    fused_rankings = combine.fuse(rankings, N_PASSAGES, fusion, weights, N_PASSAGES)
    for row, lists in enumerate(questions):
        expected = by_loop(lists, fusion, weights)
        ours = hits_of(fused_rankings)[row]
        assert ours == pytest.approx(expected, abs=1e-5)
        assert list(ours) == sorted(ours, key=lambda passage: (-ours[passage], passage))


def test_min_max_by_hand() -> None:
    first = rankings_of({0: 10, 1: 6, 2: 2})
    second = rankings_of({1: 0.9, 3: 0.5})
    both = combine.fuse([first, second], N_PASSAGES, Fusion.MIN_MAX, None, 5)
    assert both.indices.tolist() == [[1, 0, 2, 3, -1]]
    np.testing.assert_allclose(both.scores, [[1.5, 1, 0, 0, -np.inf]])
    weighted = combine.fuse([first, second], N_PASSAGES, Fusion.MIN_MAX, (0.8, 0.2), 2)
    assert weighted.indices.tolist() == [[0, 1]]
    np.testing.assert_allclose(weighted.scores, [[0.8, 0.4 + 0.2]], rtol=1e-6)


def test_z_scores_by_hand() -> None:
    # deviations of 3, 2, 1 from their mean over sqrt(2/3); what the other did not find counts as its last
    last = 1 / np.sqrt(2 / 3)
    lists = [rankings_of({0: 3, 1: 2, 2: 1}), rankings_of({1: 5, 4: 4})]
    both = combine.fuse(lists, N_PASSAGES, Fusion.Z_SCORE, None, 4)
    assert both.indices.tolist() == [[1, 0, 2, 4]]
    np.testing.assert_allclose(both.scores, [[1, last - 1, -last - 1, -last - 1]], rtol=1e-6)


@pytest.mark.parametrize("fusion", Fusion)
def test_zero_weight_drops_retriever_and_all_hits_are_candidates(fusion: Fusion) -> None:
    rng = np.random.default_rng(0)
    first, second = (top_k(rng.normal(size=(20, 50)), 10) for _ in range(2))
    for weights, alone in (((1, 0), first), ((0, 0.3), second)):
        assert combine.fuse([first, second], 50, fusion, weights, 10).indices.tolist() == alone.indices.tolist()
    for row, rows in enumerate(combine.fuse([first, second], 50, fusion, None, 30).indices.tolist()):
        assert {*rows} - {-1} == {*first.indices[row].tolist(), *second.indices[row].tolist()}


@pytest.mark.parametrize("fusion", Fusion)
def test_normalizes_empty_rankings(fusion: Fusion) -> None:
    values, absent = combine.normalize_scores(rankings_of({}, {3: 2.5}), fusion)
    assert np.isnan(values).tolist() == [[True] * N_PASSAGES, [False] + [True] * (N_PASSAGES - 1)]
    assert absent[0] == 0


def test_min_max_normalizes_each_row() -> None:
    scores = np.array([[2, 4, 3], [5, 5, 5], [-np.inf, 1, 3], [-np.inf, -np.inf, 7], [-np.inf] * 3], dtype=np.float32)
    assert combine.min_max(scores).tolist() == [[0, 1, 0.5], [1, 1, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]]
    assert combine.min_max(np.zeros((0, 3))).shape == (0, 3)


CORPUS_SIZE = 8
RANKED_ROWS = st.permutations(range(CORPUS_SIZE)).flatmap(lambda rows: st.integers(0, 8).map(lambda n: rows[:n]))


class Fixed:
    def __init__(self, *rows: Sequence[int]) -> None:
        self.name = "fixed"
        self._rows = rows

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        assert len(questions) == len(self._rows)
        indices = np.array([[*list(rows)[:k], *[-1] * (k - len(rows))] for rows in self._rows], dtype=np.int32)
        return Rankings(indices, np.where(indices >= 0, -np.arange(k, dtype=np.float32), -np.float32(np.inf)))


@given(st.lists(RANKED_ROWS, min_size=2, max_size=4), st.integers(1, 10), st.integers(1, 10))
def test_hybrid_matches_reference_loop(parts: list[list[int]], depth: int, k: int) -> None:
    fixed = [Fixed(rows) for rows in parts]
    hybrid = combine.Hybrid("h", fixed, n_passages=CORPUS_SIZE, depth=depth, fusion=Fusion.RRF)
    rankings = hybrid.search(["?"], k)
    scores = by_loop([{row: -rank for rank, row in enumerate(rows[:depth])} for rows in parts], Fusion.RRF, None)
    best = sorted(scores, key=lambda row: (-float(np.float32(scores[row])), row))[:k]
    padding = min(k, CORPUS_SIZE) - len(best)
    assert rankings.indices.tolist() == [best + [-1] * padding]
    np.testing.assert_allclose(rankings.scores, [[*map(scores.get, best)] + [-np.inf] * padding], rtol=1e-6)


@pytest.mark.parametrize("fusion", Fusion)
def test_uses_ranks_but_not_scores_below_reranker_depth(fusion: Fusion) -> None:
    words = Fixed([2, 1, 0, 3])
    reranked = Fixed([0, 1, 2, 3])
    counted = reranked if fusion is Fusion.RRF else Fixed([0, 1])
    expected = combine.Hybrid("h", [words, counted], n_passages=4, fusion=fusion).search(["?"], 4)
    rankings = combine.Hybrid("h", [words, reranked], n_passages=4, fusion=fusion, depths=(100, 2)).search(["?"], 4)
    assert_equal_rankings(rankings, expected, rtol=1e-7)


@pytest.mark.parametrize("parts", [[], [Fixed([0])]])
def test_rejects_hybrid_of_fewer_than_two_retrievers(parts: list[Fixed]) -> None:
    with pytest.raises(ValueError, match="at least two"):
        combine.Hybrid("h", parts, n_passages=1)


class Counting:
    def __init__(self, fingerprint: str = "counting") -> None:
        self.fingerprint = fingerprint
        self.scored_pairs: list[tuple[str, str]] = []
        self.loads = 0

    def load(self) -> None:
        self.loads += 1

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        self.scored_pairs += pairs
        return np.array([100 * int(q.split()[1]) + int(p.split()[1]) for q, p in pairs], dtype=np.float32)


def candidates(depth: int, first: int = 0, questions: int = 70) -> Rankings:
    indices = (np.arange(questions)[:, None] + np.arange(first, first + depth)) % 30
    indices = np.where(np.arange(questions)[:, None] % 7 == 3, -1, indices).astype(np.int32)
    return Rankings(indices, np.where(indices < 0, -np.inf, -np.arange(depth)).astype(np.float32))


def expected(candidates: Rankings) -> np.ndarray:
    rows = candidates.indices
    return np.where(rows < 0, -np.inf, 100 * np.arange(len(rows))[:, None] + rows)


def scored(candidates: Rankings, fingerprint: str = "counting", texts: list[str] = TEXTS) -> int:
    scorer = Counting(fingerprint)
    scores = PairScores(scorer, texts, Meter()).score_candidates(MANY_QUERIES[: len(candidates.indices)], candidates)
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, expected(candidates))
    assert len(set(scorer.scored_pairs)) == len(scorer.scored_pairs)
    assert (scorer.loads > 0) == (len(scorer.scored_pairs) > 0)  # a model that has nothing to say is not loaded
    return len(scorer.scored_pairs)


def test_scores_only_new_pairs() -> None:
    requests = [(10, 0), (10, 0), (4, 0), (13, 0), (13, 0), (10, 6), (16, 0)]  # depths, and the first of another stage
    assert [scored(candidates(depth, first)) for depth, first in requests] == [600, 0, 0, 180, 0, 180, 0]


def test_rescores_for_other_model_corpus_or_questions() -> None:
    scored(candidates(2))
    assert scored(candidates(2), fingerprint="other") == 120
    assert scored(candidates(2), texts=[*TEXTS, "passage 30"]) == 120
    assert scored(candidates(2, questions=69)) == 2 * 59


def test_stores_nothing_without_meter_or_for_single_question() -> None:
    for meter, queries in ((None, MANY_QUERIES), (Meter(), MANY_QUERIES[:1])):
        for _ in range(2):
            scorer = Counting()
            PairScores(scorer, TEXTS, meter).score_candidates(queries, candidates(2, questions=len(queries)))
            assert len(scorer.scored_pairs) == 2 * len(queries) * (60 if meter is None else 70) // 70
    assert not (workspace() / "cache" / "pairs").exists()


def test_stores_scores_computed_before_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ending(Counting):
        def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
            if self.scored_pairs:
                raise KeyboardInterrupt
            return super().score(pairs)

    monkeypatch.setattr(combine, "_WRITE_INTERVAL_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        PairScores(Ending(), TEXTS, Meter()).score_candidates(MANY_QUERIES, candidates(5))
    assert scored(candidates(5)) == 300 - 55 * 5  # of the first 64 questions 55 have candidates


def test_rescores_after_corrupt_file() -> None:
    scored(candidates(3))
    (path,) = Path(workspace() / "cache" / "pairs").iterdir()
    path.write_bytes(path.read_bytes()[:100])
    assert scored(candidates(3)) == 180


def test_meter_reports_scoring_time_of_stored_pairs() -> None:
    meters = [Meter(), Meter(), Meter()]
    for meter, depth in zip(meters, (10, 10, 5), strict=True):
        PairScores(Counting(), TEXTS, meter).score_candidates(MANY_QUERIES, candidates(depth))
    worked, remembered, of_half = (meter.lap()[1] for meter in meters)
    assert worked > 0
    assert (remembered, of_half) == pytest.approx((worked, worked / 2))
    assert [meter.load for meter in meters] == pytest.approx([meters[0].load] * 3)


class CountingWindows(Counting):
    def score_windows(self, pairs: Sequence[Pair], title_lengths: Sequence[int], options: WindowOptions) -> np.ndarray:
        del options
        self.title_lengths = list(title_lengths)
        parts = [[(question, part) for part in text.split("|")] for question, text in pairs]
        return np.array([self.score(of).max() for of in parts], dtype=np.float32)


def test_scores_long_passage_by_best_window_under_its_own_key() -> None:
    texts = [f"passage {row}|passage {2 * row + 5}|passage 1" for row in range(30)]
    candidate_rankings = candidates(3)
    scorer = CountingWindows()
    windows = WindowOptions()
    pairs = PairScores(scorer, texts, Meter(), windows=windows, title_lengths=np.arange(30))
    scores = pairs.score_candidates(MANY_QUERIES, candidate_rankings)
    best = 100 * np.arange(70)[:, None] + 2 * candidate_rankings.indices + 5
    np.testing.assert_array_equal(scores, np.where(candidate_rankings.indices < 0, -np.inf, best))
    last_block = candidate_rankings.indices[64:]
    assert scorer.title_lengths == last_block[last_block >= 0].tolist()
    again = CountingWindows()
    PairScores(again, texts, Meter(), windows=windows).score_candidates(MANY_QUERIES, candidate_rankings)
    assert again.scored_pairs == []
    PairScores(again, texts, Meter(), windows=WindowOptions(7)).score_candidates(MANY_QUERIES, candidate_rankings)
    assert again.scored_pairs != []


def test_scorer_without_windows_reads_whole_passages() -> None:
    scorer = Counting()
    scores = PairScores(scorer, TEXTS, Meter(), windows=WindowOptions()).score_candidates(MANY_QUERIES, candidates(2))
    np.testing.assert_array_equal(scores, expected(candidates(2)))
    assert scored(candidates(2)) == 0  # and they are those kept without windows


def bigrams() -> BM25:
    return BM25("bm25", PASSAGES, BM25Options("bigram"))


def reranked(weight: float, depth: int = 3, scorer: object = None) -> RerankedRetriever:
    return RerankedRetriever("reranked", bigrams(), scorer or SharedWordScorer(), PASSAGES, depth=depth, weight=weight)


class PassageScorer(SharedWordScorer):
    fingerprint = "given"

    def __init__(self, *scores: float) -> None:
        self._scores = dict(zip(Passages.from_passages(PASSAGES).indexed_texts(title=True), scores, strict=True))
        self.scored_pairs: list[tuple[str, str]] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        self.scored_pairs += pairs
        return np.array([self._scores[passage] for _, passage in pairs], dtype=np.float32)


@pytest.mark.parametrize("k", [1, 3, 5, 9])
def test_weight_0_keeps_first_stage_order(k: int) -> None:
    first = bigrams().search(QUERIES, k)
    assert (first.indices[:, 0] >= 0).all()
    assert reranked(0).search(QUERIES, k).indices.tolist() == first.indices.tolist()


@pytest.mark.parametrize(
    ("first", "scores", "depth", "weight", "k", "expected"),
    [
        ([3, 2, 0, 4, 1], (3, 9, 1, 3, 5), 5, 1, 5, {1: 1, 4: 0.5, 0: 0.25, 3: 0.25, 2: 0}),
        # below the depth the order is the first one
        ([4, 2, 0, 3, 1], (9, 8, 7, 6, 5), 2, 1, 6, {2: 1, 4: 0, 0: -1, 3: -2, 1: -3, -1: -np.inf}),
        ([4, 2, 0], (9, 8, 7, 6, 5), 3, 1, 1, {0: 1}),  # reranks to the depth even if k is smaller
        # first: 0, -1, -2 -> 1, .5, 0; scorer: 5, 7, 9 -> 0, .5, 1
        ([4, 2, 0], (9, 8, 7, 6, 5), 3, 0.75, 3, {0: 0.75, 2: 0.5, 4: 0.25}),
    ],
)
def test_scores_are_weighted_sums_after_min_max(  # noqa: PLR0917
    first: list[int], scores: tuple[int, ...], depth: int, weight: float, k: int, expected: dict[int, float]
) -> None:
    scorer = PassageScorer(*scores)
    rankings = RerankedRetriever("r", Fixed(first), scorer, PASSAGES, depth=depth, weight=weight).search(["?"], k)
    assert rankings.indices.tolist() == [[*expected]]
    np.testing.assert_allclose(rankings.scores, [[*expected.values()]])
    texts = Passages.from_passages(PASSAGES).indexed_texts(title=True)
    assert scorer.scored_pairs == [("?", texts[row]) for row in first[:depth]]


def test_scores_only_retrieved_passages() -> None:
    scorer = PassageScorer(1, 2, 3, 4, 5)
    rankings = RerankedRetriever("r", Fixed([], [3]), scorer, PASSAGES, depth=4).search(["nothing", "one"], 2)
    assert rankings.indices.tolist() == [[-1, -1], [3, -1]]
    assert [question for question, _ in scorer.scored_pairs] == ["one"]


def test_reports_progress_over_several_blocks() -> None:
    progress: list[float] = []
    queries = QUERIES * 30
    blocks = RerankedRetriever("r", bigrams(), SharedWordScorer(), PASSAGES, depth=3, on_progress=progress.append)
    assert blocks.search(queries, 5).indices.tolist() == reranked(1).search(QUERIES, 5).indices.tolist() * 30
    assert progress == [64 / 180, 128 / 180, 1.0]


def test_interpolation_skips_missing_candidates() -> None:
    candidates = Rankings(np.array([[7, -1]], dtype=np.int32), np.array([[2, -np.inf]], dtype=np.float32))
    assert combine.interpolate_scores(candidates, np.array([[3, -np.inf]]), 0.5).tolist() == [[1, -np.inf]]


@pytest.mark.parametrize(("depth", "weight"), [(0, 1), (5, -0.1), (5, 1.1)])
def test_rejects_options_out_of_range(depth: int, weight: float) -> None:
    with pytest.raises(ValueError, match="depth must be 1 or more and weight between 0 and 1"):
        reranked(weight, depth)
