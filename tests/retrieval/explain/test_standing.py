"""Where a passage stands: against another one, and by what the parts of a fused or reranked score add."""

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.records import Passage
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.text.marking import IndexedText, TokenKind
from mrc_workbench.retrieval.combine import Fusion, Hybrid, RerankedRetriever
from mrc_workbench.retrieval.explain import BM25Explainer, standing
from mrc_workbench.retrieval.explain.encoders import StaticExplanation, TokenContribution
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from mrc_workbench.retrieval.rankings import QueryHits, Rankings, top_k
from tests.doubles import SharedWordScorer
from tests.retrieval.compared import hits_of, passages

PASSAGES = passages("red apple tree grows slowly", "apple apple apple pie", "green river")
QUESTION = "red apple zebra pie"
HITS = QueryHits((4, 2, 7, 1), (9.0, 8.0, 7.0, 6.0))
N_PASSAGES = 9
SCORES = st.one_of(st.integers(-4, 4).map(float), st.floats(-50, 50, width=32))
HIT_SCORES = st.dictionaries(st.integers(0, 8), st.integers(-9, 9).map(float), min_size=1)
LISTS = st.lists(st.dictionaries(st.integers(0, N_PASSAGES - 1), SCORES, max_size=7), min_size=2, max_size=2)


@pytest.mark.parametrize(
    ("relevant", "against", "expected", "is_lost"),
    [
        ((2, 1), None, (2, 2, 4, 1), True),
        ((4, 1), None, (4, 1, 2, 2), False),
        ((9, 8), None, (9, None, 4, 1), True),
        ((2,), 7, (2, 2, 7, 3), False),
        ((2,), 5, (2, 2, 5, None), False),
    ],
)
def test_selects_passage_pair(relevant: tuple[int, ...], against: int | None, expected: Any, is_lost: bool) -> None:
    pair = standing.select_passage_pair(HITS, relevant, against=against)
    assert (pair, pair.is_lost) == (standing.PassagePair(*expected), is_lost)


def test_selects_passage_pair_without_other_hits() -> None:
    assert standing.select_passage_pair(QueryHits((), ()), (3,)) == standing.PassagePair(3, None, None, None)
    assert not standing.select_passage_pair(QueryHits((3,), (1.0,)), (3,)).is_lost


@pytest.mark.parametrize("analyzer", [Analyzer.WHITESPACE, Analyzer.KIWI_BIGRAM])
def test_term_table_sums_to_both_scores(analyzer: Analyzer) -> None:
    options = BM25Options(analyzer)
    explainer = BM25Explainer(PASSAGES, options)
    right = explainer.explain(QUESTION, 0)
    wrong = explainer.explain(QUESTION, 1)
    table = standing.term_table(right, wrong)
    assert tuple(table.columns) == standing.TERMS
    (scores,) = hits_of(BM25("BM25", PASSAGES, options).search([QUESTION], 3))
    assert table["right"].sum() == pytest.approx(scores[0], rel=1e-5)
    assert table["wrong"].sum() == pytest.approx(scores[1], rel=1e-5)
    np.testing.assert_allclose(table["difference"], table["right"] - table["wrong"])
    assert (np.diff(table["difference"].abs()) <= 0).all()


def test_word_reason_counts_by_hand() -> None:
    explainer = BM25Explainer(PASSAGES, BM25Options(Analyzer.WHITESPACE))
    table = standing.term_table(explainer.explain(QUESTION, 0), explainer.explain(QUESTION, 1))
    row = table.set_index("term").loc["apple"]
    assert (row["in_question"], row["passages"], row["in_right"], row["in_wrong"]) == (1, 2, 1, 3)
    lost = standing.word_reason(table, lost=True)
    # red and apple against apple and pie; "pie" is in one passage, so it tells more than "apple", which is in two
    assert (lost.question_words, lost.in_right, lost.in_wrong) == (4, 2, 2)
    assert lost.missing_words == ("zebra",)
    assert (lost.decisive_word, lost.decisive_in_right, lost.decisive_in_wrong) == ("pie", 0, 1)
    won = standing.word_reason(table, lost=False)
    assert (won.decisive_word, won.decisive_in_right, won.decisive_in_wrong) == ("red", 1, 0)


def test_character_pairs_count_only_without_words() -> None:
    explainer = BM25Explainer(PASSAGES, BM25Options(Analyzer.BIGRAM))
    pairs = standing.term_table(explainer.explain("pie", 0), explainer.explain("pie", 1))
    assert set(pairs["kind"]) == {TokenKind.BIGRAM.value}
    assert standing.word_reason(pairs, lost=True).question_words == 2  # pi, ie
    passages = (Passage("a", "왕이 왔다"), Passage("b", "왕왕왕 짖었다"))
    explainer = BM25Explainer(passages, BM25Options(Analyzer.KIWI_BIGRAM))
    table = standing.term_table(explainer.explain("왕은 누구", 0), explainer.explain("왕은 누구", 1))
    words = table[table["kind"] == TokenKind.MORPHEME.value]
    assert len(words) < len(table)
    assert standing.word_reason(table, lost=False).question_words == len(words)


def test_equal_scores_have_no_decisive_word() -> None:
    explainer = BM25Explainer(PASSAGES, BM25Options(Analyzer.WHITESPACE))
    same = explainer.explain(QUESTION, 0)
    assert standing.word_reason(standing.term_table(same, same), lost=False).decisive_word == ""
    empty = explainer.explain("", 0)
    reason = standing.word_reason(standing.term_table(empty, empty), lost=True)
    assert (reason.question_words, reason.decisive_word, reason.missing_words) == (0, "", ())


def explained(**values: float) -> StaticExplanation:
    kinds = {"ab": TokenKind.BIGRAM}
    pairs = [(text, kinds.get(text, TokenKind.WORD), value) for text, value in values.items()]
    tokens = tuple(TokenContribution(text, kind, text != "new", value, ()) for text, kind, value in pairs)
    return StaticExplanation("q", IndexedText("p", 0), tokens, ())


def test_tokens_by_hand() -> None:
    right = explained(king=0.3, ab=0.1, new=0.0, who=0.1)
    table = standing.token_table(right, explained(who=0.2, ab=0.5, new=0.0, king=0.1))
    assert tuple(table.columns) == standing.TOKENS
    assert table["term"].tolist() == ["ab", "king", "who", "new"]
    assert table["known"].tolist() == [True, True, True, False]
    np.testing.assert_allclose(table["difference"], [-0.4, 0.2, -0.1, 0.0], atol=1e-12)
    assert standing.decisive_token(table, lost=True) == "who"  # a word before a pair of letters
    assert standing.decisive_token(table, lost=False) == "king"
    only_pairs = standing.token_table(explained(ab=0.1), explained(ab=0.5))
    assert standing.decisive_token(only_pairs, lost=True) == "ab"
    assert standing.decisive_token(only_pairs, lost=False) == ""


class Listed:
    """Returns given scores, a dictionary by passage for each question, and ignores the texts of the questions."""

    def __init__(self, name: str, scores_by_row: list[dict[int, float]]) -> None:
        self.name = name
        self._scores = np.array([[scores.get(row, -np.inf) for row in range(N_PASSAGES)] for scores in scores_by_row])

    def search(self, questions: list[str], k: int) -> Rankings:  # noqa: ARG002
        return top_k(self._scores, k)


class FixedScorer(SharedWordScorer):
    fingerprint = "fixed"

    def __init__(self, scores: list[float]) -> None:
        self._scores = scores

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
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
def test_values_sum_to_hybrid_score(
    fusion: Fusion,
    first: list[dict[int, float]],
    second: list[dict[int, float]],
    weights: tuple[float, float] | None,
    depth: int,
) -> None:
    retrievers = [Listed("first", first), Listed("second", second)]
    hybrid = Hybrid("hybrid", retrievers, n_passages=N_PASSAGES, depth=depth, fusion=fusion, weights=weights)
    lists = {retriever.name: retriever.search(["one", "other"], 8) for retriever in retrievers}
    options = {"depth": depth, "fusion": fusion, "weights": weights}
    for question, hits in enumerate(hits_of(hybrid.search(["one", "other"], N_PASSAGES))):
        for passage, score in hits.items():
            explanation = standing.fusion_contributions(lists, question, passage, **options)
            assert explanation.score == pytest.approx(score, rel=1e-5, abs=1e-5)
            assert sum(part.value for part in explanation.components.values()) == pytest.approx(explanation.score)


def test_reciprocal_ranks_by_hand() -> None:
    explanation = standing.fusion_contributions(small_lists(), 1, 3, depth=5, fusion=Fusion.RRF, weights=[2.0, 1.0])
    bm25 = explanation.components["bm25"]
    dense = explanation.components["dense"]
    assert (bm25.rank, bm25.score, bm25.normalised, bm25.weight, bm25.value) == (1, 8, 1 / 61, 2, 2 / 61)
    assert (dense.rank, dense.score, dense.normalised, dense.weight, dense.value) == (2, 0.5, 1 / 62, 1, 1 / 62)


def test_min_max_by_hand_over_fused_depth() -> None:
    explanation = standing.fusion_contributions(small_lists(), 1, 1, depth=3, fusion=Fusion.MIN_MAX)
    assert explanation.components["bm25"].value == pytest.approx((6 - 5) / (8 - 5))
    assert explanation.components["dense"].value == 1
    deeper = standing.fusion_contributions(small_lists(), 1, 1, depth=4, fusion=Fusion.MIN_MAX)
    assert deeper.components["bm25"].value == pytest.approx((6 - 1) / (8 - 1))


def test_z_scores_by_hand() -> None:
    explanation = standing.fusion_contributions(small_lists(), 1, 1, depth=5, fusion=Fusion.Z_SCORE, weights=[0.5, 0.5])
    bm25 = [8.0, 6.0, 5.0, 1.0]
    expected = (6 - statistics.mean(bm25)) / statistics.pstdev(bm25)
    assert explanation.components["bm25"].normalised == pytest.approx(expected)
    missed = standing.fusion_contributions(small_lists(), 1, 8, depth=5, fusion=Fusion.Z_SCORE).components["dense"]
    dense = [0.9, 0.5, 0.1]
    assert (missed.rank, missed.score) == (None, None)
    assert missed.value == pytest.approx((0.1 - 0.5) / statistics.pstdev(dense))


def test_passage_of_zero_weight_retriever_is_not_retrieved() -> None:
    explanation = standing.fusion_contributions(small_lists(), 1, 8, depth=5, fusion=Fusion.RRF, weights=[0.0, 1.0])
    bm25 = explanation.components["bm25"]
    assert (bm25.rank, bm25.value, explanation.score) == (4, 0, 0)


def to_unit(scores: dict[int, float]) -> dict[int, float]:
    low = min(scores.values())
    high = max(scores.values())
    return {passage: (score - low) / (high - low) if high > low else 1.0 for passage, score in scores.items()}


@settings(deadline=None, max_examples=80)
@given(
    scores_by_row=st.lists(HIT_SCORES, min_size=2, max_size=2),
    scores=st.lists(st.integers(-9, 9).map(float), min_size=9, max_size=9),
    weight=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    depth=st.integers(1, 6),
    k=st.integers(1, 9),
)
def test_rerank_contributions_sum_and_recover_reranker_score(
    scores_by_row: list[dict[int, float]], scores: list[float], weight: float, depth: int, k: int
) -> None:
    first = Listed("first", scores_by_row)
    passages = [Passage(f"p{row}", str(row)) for row in range(9)]
    reranked = RerankedRetriever("reranked", first, FixedScorer(scores), passages, depth=depth, weight=weight)
    after = reranked.search(["one", "other"], k)
    before = first.search(["one", "other"], 9)
    for question, passage in ((0, next(iter(scores_by_row[0]))), (1, next(iter(scores_by_row[1])))):
        move = standing.rerank_contributions(before, after, question, passage, depth=depth, weight=weight)
        ranking = before.indices[question].tolist()
        new = after.indices[question].tolist()
        assert move.rank_before == ranking.index(passage) + 1
        assert move.rank_after == (new.index(passage) + 1 if passage in new else None)
        first_scores = scores_by_row[question]
        read = [row for row in ranking[:depth] if row >= 0]
        if passage not in read or passage not in new:
            assert move.first is None
            assert move.reranker is None
            continue
        assert move.first is not None
        assert move.reranker is not None
        assert move.first.score == first_scores[passage]
        assert move.score == pytest.approx(float(after.scores[question, new.index(passage)]))
        assert move.first.value + move.reranker.value == pytest.approx(move.score, abs=1e-6)
        assert move.first.normalised == pytest.approx(to_unit({row: first_scores[row] for row in read})[passage])
        assert (move.first.weight, move.reranker.weight) == (1 - weight, weight)
        if weight:
            reranker = to_unit({row: scores[row] for row in read})[passage]
            assert move.reranker.normalised == pytest.approx(reranker, abs=1e-5)
        else:
            assert move.reranker.normalised is None


def test_passage_below_depth_keeps_its_order() -> None:
    first = Listed("first", [{0: 3.0, 1: 2.0, 2: 1.0}])
    passages = [Passage(str(n), str(n)) for n in range(3)]
    reranked = RerankedRetriever("r", first, FixedScorer([0.0, 5.0, 9.0]), passages, depth=2)
    lists = first.search(["q"], 3), reranked.search(["q"], 3)
    up, down, past = (standing.rerank_contributions(*lists, 0, passage, depth=2, weight=1.0) for passage in (1, 0, 2))
    assert (up.rank_before, up.rank_after, up.score) == (2, 1, 1)
    assert (down.rank_before, down.rank_after, down.score) == (1, 2, 0)
    assert (past.rank_before, past.rank_after, past.first, past.reranker) == (3, 3, None, None)
    nowhere = standing.rerank_contributions(*lists, 0, 7, depth=2, weight=1.0)
    assert (nowhere.rank_before, nowhere.rank_after, nowhere.score) == (None, None, None)
