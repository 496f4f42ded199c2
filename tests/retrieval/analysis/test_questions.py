"""Single questions: ranks, selections, and the step that loses them."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.questions import word_overlap
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.retrieval.analysis.questions import (
    BANDS,
    DEPTHS,
    OUTCOMES,
    Quadrant,
    RankMap,
    RetrievalOutcome,
    band_counts,
    ceilings,
    count_outcomes,
    find_outcomes,
    most_different_retriever,
    most_disputed,
    quadrants,
    question_table,
    rank_bands,
    rank_map,
    rows_with_text,
    same_article_rows,
    spread,
)
from mrc_workbench.retrieval.combine import Fusion, RerankedRetriever, fuse
from mrc_workbench.retrieval.comparison.compare import Comparison, Result
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.rankings import Rankings
from tests.doubles import SharedWordScorer, small_set
from tests.retrieval.compared import rankings, rankings_at


@pytest.mark.parametrize(
    ("ranks", "count", "rows"),
    [
        # worst / best: 2, 5, 1, 6 (not found counts as rank 6 of 5), 4
        (([1, 1, 2, 1, 1], [2, 5, 2, 0, 4]), 3, [3, 1, 4]),
        (([4, 1, 1, 1, 1], [5, 2, 1, 1, 1]), 3, [1, 0]),  # from 1 to 2 is more than from 4 to 5
        (([1, 1, 1, 3, 1], [5, 5, 5, 2, 1]), 2, [0, 3]),  # each retriever leads once before any leads twice
        (([1, 1, 3, 1, 1], [0, 4, 2, 1, 1]), 2, [0, 2]),  # a retriever that finds nothing does not lead
        (([1, 2, 3, 4, 0], [1, 2, 3, 4, 0]), 3, []),  # all agree
        (([1, 2, 3, 4, 5],), 3, []),
    ],
)
def test_selects_most_disputed_questions(ranks: Sequence[list[int]], count: int, rows: list[int]) -> None:
    rankings = [rankings_at(each, 5) for each in ranks]
    assert most_disputed(rankings, small_set().with_questions(range(5)), count) == rows


BY_HAND = st.lists(st.lists(st.integers(0, 130), min_size=3, max_size=3), max_size=40)


def map_of(ranks: list[list[int]]) -> RankMap:
    rank_array = np.array(ranks, dtype=np.int64).reshape(len(ranks), 3)
    return RankMap(rank_array, np.lexsort(rank_bands(rank_array).T[::-1]))


def test_assigns_rank_bands() -> None:
    ranks = [1, 2, 5, 6, 10, 11, 20, 21, 50, 51, 100, 101, 0]
    assert rank_bands(np.array(ranks)).tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]


def test_maps_two_rankings() -> None:
    rankings = [rankings_at(ranks, 5) for ranks in ([2, 1, 0, 3, 1], [1, 4, 5, 0, 1])]
    rank_map_result = rank_map(rankings, small_set().with_questions(range(5)))
    assert rank_map_result.ranks.tolist() == [[2, 1], [1, 4], [0, 5], [3, 0], [1, 1]]
    # bands: (1, 0), (0, 1), (6, 1), (1, 6), (0, 0)
    assert rank_map_result.order.tolist() == [4, 1, 0, 3, 2]
    assert [astuple(block) for block in rank_map_result.blocks()] == [
        *((0, 0, 2, 0), (0, 2, 4, 1), (0, 4, 5, 6)),
        *((1, 0, 1, 0), (1, 1, 2, 1), (1, 2, 3, 0), (1, 3, 4, 6), (1, 4, 5, 1)),
    ]
    assert map_of([[7, 1, 1], [6, 1, 1], [10, 1, 1]]).order.tolist() == [0, 1, 2]  # stable if bands are equal


@given(BY_HAND)
def test_blocks_cover_every_question_once(ranks: list[list[int]]) -> None:
    rank_map_result = map_of(ranks)
    painted = np.full((len(ranks), 3), -1)
    blocks = rank_map_result.blocks()
    for block in blocks:
        assert (painted[block.start : block.end, block.column] == -1).all()
        painted[block.start : block.end, block.column] = block.band
    bands = [[sum(rank > last for last in BANDS) if rank else len(BANDS) for rank in row] for row in ranks]
    assert painted.tolist() == sorted(bands) == [bands[row] for row in rank_map_result.order]
    for before, after in pairwise(blocks):  # no two neighbours could be one block
        assert before.column != after.column or (before.end == after.start and before.band != after.band)


def test_splits_questions_into_quadrants() -> None:
    rows_by_quadrant = quadrants(np.array([1, 3, 4, 0, 0, 3]), np.array([2, 0, 3, 1, 9, 4]), 3)
    assert list(rows_by_quadrant) == ["both", "only_first", "only_second", "neither"]
    assert [rows.tolist() for rows in rows_by_quadrant.values()] == [[0], [1, 5], [2, 3], [4]]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30), st.integers(1, 12))
def test_assigns_each_question_to_single_quadrant(pairs: list[tuple[int, int]], k: int) -> None:
    first, second = (np.array([pair[side] for pair in pairs], dtype=np.int64) for side in (0, 1))
    rows_by_quadrant = quadrants(first, second, k)
    assert sorted(row for rows in rows_by_quadrant.values() for row in rows.tolist()) == list(range(len(pairs)))
    for row in rows_by_quadrant[Quadrant.ONLY_FIRST]:
        assert 0 < pairs[row][0] <= k
        assert not 0 < pairs[row][1] <= k


RANKS = np.array([[1, 1, 4], [1, 6, 1], [3, 0, 100], [0, 0, 0], [12, 1, 2], [1, 1, 0]])


def test_counts_questions_by_band() -> None:
    # bands: 1, 2-5, 6-10, 11-20, 21-50, 51-100, deeper or not found
    assert band_counts(RANKS).tolist() == [[3, 1, 0, 1, 0, 0, 1], [3, 0, 1, 0, 0, 0, 2], [1, 2, 0, 0, 0, 1, 2]]


def test_finds_retriever_that_disagrees_most() -> None:
    # first 1: rows 0 1 5 against 0 4 5 and 1, so 2 and 2 apart: the first of those that tie
    # first 10: rows 0 1 4 5 against 0 1 2 5 and 0 1 4, so 2 and 1 apart; 0 1 4 against 0 1 2 5 and 0 1 4 5: 3 and 1
    assert [most_different_retriever(RANKS, first, k) for first, k in ((0, 1), (1, 10), (2, 10))] == [1, 0, 0]
    assert most_different_retriever(RANKS[:, :1], 0, 5) == 0


def test_spread_ranks_missing_passages_after_last() -> None:
    np.testing.assert_allclose(spread(RANKS, 100), np.log([4 / 1, 6 / 1, 101 / 3, 1, 12 / 1, 101 / 1]))
    np.testing.assert_allclose(spread(RANKS, 10), np.log([4, 6, 11 / 3, 1, 11, 11]))  # ranks 100 and 12 are 11


def test_sorts_table_by_disagreement() -> None:
    question_set = small_set()
    ranks = np.array([[1, 1], [2, 0], [1, 3], [0, 0], [5, 1], [1, 1]])
    table = question_table(question_set, ranks, ("A", "B"), 5)
    assert list(table.columns) == ["id", "question", "kind", "rank_0", "rank_1", "overlap"]
    # spreads: 0, log 3, log 3, 0, log 5, 0
    assert table.index.tolist() == [4, 1, 2, 0, 3, 5]
    assert table["id"].tolist() == [question_set.questions[row].id for row in table.index]
    assert table.loc[1, "rank_0"] == 2
    assert pd.isna(table.loc[1, "rank_1"])
    assert pd.isna(table.loc[3, "rank_0"])
    np.testing.assert_array_equal(table["overlap"], word_overlap(question_set)[table.index])


def test_table_starts_with_search_page_examples() -> None:
    first = rankings(*[[0, 1, 2, 3, 4]] * 6)
    second = rankings(*[[4, 3, 2, 1, 0]] * 6)
    ranks = np.array([[1, 5], [2, 4], [3, 3], [4, 2], [5, 1], [2, 3]])
    table = question_table(small_set(), ranks, ("A", "B"), 5)
    assert set(table.index[:2]) == set(most_disputed([first, second], small_set(), 2)) == {0, 4}


@pytest.mark.parametrize(
    ("text", "rows"), [("한강", [1, 2, 5]), (" 설악산 ", [3]), ("q5", [4]), ("Q5", [4]), ("q", []), ("없는 말", [])]
)
def test_finds_questions_by_words_answers_and_ids(text: str, rows: list[int]) -> None:
    assert rows_with_text(small_set(), text).tolist() == rows


def test_returns_irrelevant_passages_of_same_article() -> None:
    titles = {"a1": "A", "a2": "A", "b1": "B", "n1": "", "n2": "", "b2": "B"}
    passages = tuple(Passage(id_, f"text of {id_}", title) for id_, title in titles.items())
    relevant = (("a1",), ("a1", "a2"), ("n1",), ("a2", "b2"))
    questions = tuple(Question(f"q{row}", "?", (), of) for row, of in enumerate(relevant))
    question_set = QuestionSet("articles", passages, questions)
    assert [same_article_rows(question_set, row) for row in range(4)] == [{1}, frozenset(), frozenset(), {0, 2}]


Spec = Mapping[str, Any]
BM25 = {"name": "bm25", "kind": "bm25"}
DENSE = {"name": "dense", "kind": "dense"}
HYBRID = {"name": "hybrid", "kind": "hybrid", "retrievers": ("bm25", "dense"), "top_k": 3}
RERANKED = {"name": "reranked", "kind": "rerank", "first_stage": "bm25", "rerank_top_k": 3}


def comparison_with(question_set: QuestionSet, rankings: Mapping[str, Rankings | None], *specs: Spec) -> Comparison:
    experiment = Experiment.model_validate({"data": "small", "ks": (1, 3), "retriever": specs})
    lost = RuntimeError("no rankings")
    results = (Result(name, ranking) if ranking else Result(name, error=lost) for name, ranking in rankings.items())
    return Comparison(experiment, question_set, tuple(results))


def by_hand(*specs: Spec, **ranks: list[int] | None) -> Comparison:
    """Retrievers that put the relevant passage of five questions at these ranks, 0 for nowhere."""
    rankings = {name: None if at is None else rankings_at(at, 5) for name, at in ranks.items()}
    return comparison_with(small_set().with_questions(range(5)), rankings, *specs)


FOUND, BELOW, NOT_FOUND, NOT_A_CANDIDATE, LOST_IN_FUSION, LOST_IN_RERANKING = RetrievalOutcome
READS_TWO_OF_THE_HYBRID = RERANKED | {"first_stage": "hybrid", "rerank_top_k": 2}


@pytest.mark.parametrize(
    ("specs", "ranks", "k", "expected"),
    [
        ((BM25,), {"bm25": [1, 3, 4, 5, 0]}, 3, [FOUND, FOUND, BELOW, BELOW, NOT_FOUND]),
        (
            (BM25, DENSE, HYBRID),  # BM25 brought the second, third, and dense the third, third; the last is too deep
            {"bm25": [1, 3, 4, 0, 4], "dense": [1, 5, 3, 0, 5], "hybrid": [1, 2, 2, 0, 4]},
            1,
            [FOUND, LOST_IN_FUSION, LOST_IN_FUSION, NOT_A_CANDIDATE, NOT_A_CANDIDATE],
        ),
        (
            (BM25, DENSE, HYBRID | {"weights": (1.0, 0.0)}),  # a part that weighs nothing brings no candidate
            {"bm25": [1, 0, 0, 2, 4], "dense": [1, 1, 2, 0, 1], "hybrid": [1, 0, 0, 2, 0]},
            1,
            [FOUND, NOT_A_CANDIDATE, NOT_A_CANDIDATE, LOST_IN_FUSION, NOT_A_CANDIDATE],
        ),
        (
            (BM25, RERANKED),  # which reads three
            {"bm25": [2, 1, 4, 0, 3], "reranked": [1, 2, 4, 0, 3]},
            1,
            [FOUND, LOST_IN_RERANKING, NOT_A_CANDIDATE, NOT_A_CANDIDATE, LOST_IN_RERANKING],
        ),
        (
            (BM25, RERANKED),  # it loses nothing where k is as deep as it reads
            {"bm25": [3, 4, 5, 0, 1], "reranked": [1, 4, 5, 0, 3]},
            4,
            [FOUND, FOUND, NOT_A_CANDIDATE, NOT_A_CANDIDATE, FOUND],
        ),
        (
            (BM25, DENSE, HYBRID, READS_TWO_OF_THE_HYBRID),  # BM25's third is the hybrid's fourth
            {"bm25": [1, 2, 3, 0, 1], "dense": [1, 0, 0, 0, 2], "hybrid": [1, 2, 4, 0, 2], "reranked": [1, 2, 4, 0, 1]},
            1,
            [FOUND, LOST_IN_RERANKING, LOST_IN_FUSION, NOT_A_CANDIDATE, FOUND],
        ),
    ],
)
def test_names_first_step_that_lost_question(
    specs: Sequence[Spec], ranks: dict[str, list[int] | None], k: int, expected: list[RetrievalOutcome]
) -> None:
    positions = find_outcomes(by_hand(*specs, **ranks), k)[specs[-1]["name"]]
    assert [OUTCOMES[position] for position in positions] == expected


def test_counts_outcomes() -> None:
    comparison = by_hand(BM25, RERANKED, bm25=[2, 1, 4, 0, 3], reranked=[1, 2, 4, 0, 3])
    counts = count_outcomes(find_outcomes(comparison, 1))
    assert list(counts.columns) == [fate.value for fate in OUTCOMES]
    assert counts.loc["bm25"].tolist() == [1, 3, 1, 0, 0, 0]
    assert counts.loc["reranked"].tolist() == [1, 0, 0, 2, 0, 2]
    assert count_outcomes({}).empty
    with pytest.raises(ValueError, match="1 or more"):
        find_outcomes(comparison, 0)


def test_omits_outcomes_of_shallow_rankings() -> None:
    comparison = by_hand(BM25, DENSE, bm25=[1] * 5, dense=[1] * 5)
    shallow = Result("dense", comparison.results[1].rankings.first(2))  # type: ignore[union-attr]
    comparison = Comparison(comparison.experiment, comparison.question_set, (comparison.results[0], shallow))
    assert list(find_outcomes(comparison, 2)) == ["bm25", "dense"]
    assert list(find_outcomes(comparison, 3)) == ["bm25"]
    assert np.isnan(ceilings(comparison, (3,))["dense"]).all()
    assert ceilings(comparison, (3,))["bm25"].tolist() == [1.0]


def test_omits_outcomes_of_failed_retrievers_and_wrappers() -> None:
    wrapped = RERANKED | {"first_stage": "hybrid"}
    ranks = {"bm25": [1] * 5, "dense": None, "hybrid": [1] * 5, "reranked": [1] * 5}
    comparison = by_hand(BM25, DENSE, HYBRID, wrapped, **ranks)
    assert list(find_outcomes(comparison, 1)) == ["bm25"]
    assert list(ceilings(comparison)) == ["bm25", "reranked"]  # the reranker's candidates are known


def test_computes_ceilings() -> None:
    ranks = {"bm25": [1, 2, 4, 0, 5], "dense": [2, 1, 1, 0, 4], "hybrid": [1, 1, 2, 0, 5], "reranked": [3, 1, 4, 0, 5]}
    limits = ceilings(by_hand(BM25, DENSE, HYBRID, RERANKED, **ranks), (1, 2, 5, 10))
    np.testing.assert_array_equal(limits["bm25"], [0.2, 0.4, 0.8, np.nan])
    np.testing.assert_array_equal(limits["hybrid"], [0.6, 0.6, 0.8, np.nan])
    np.testing.assert_array_equal(limits["reranked"], limits["bm25"])
    weighted = HYBRID | {"weights": (1.0, 0.0)}  # a part of weight 0 brings no candidate
    comparison = by_hand(BM25, DENSE, weighted, bm25=[1, 0, 0, 2, 4], dense=[1, 1, 2, 0, 1], hybrid=[1, 0, 0, 2, 0])
    assert ceilings(comparison, (1, 2, 5))["hybrid"].tolist() == [0.2, 0.4, 0.6]


def test_lists_candidate_sources_and_depths() -> None:
    hybrid = HybridSpec(name="h", retrievers=("a", "b"), top_k=30)
    dense = DenseSpec(name="d")
    weighted = hybrid.model_copy(update={"weights": (0.0, 2.0)})
    reranker = RerankSpec(name="r", first_stage="h", rerank_top_k=20)
    specs = (hybrid, weighted, reranker, dense)
    assert [spec.sources for spec in specs] == [("a", "b"), ("b",), ("h",), ("d",)]
    assert [(spec.candidate_depth(50), spec.candidate_depth(5)) for spec in specs[::2]] == [(30, 30), (50, 20)]
    assert dense.candidate_depth(5) == 0


@dataclass
class Fixed:
    rankings: Rankings
    name: str = "fixed"

    def search(self, questions: object, k: int) -> Rankings:
        del questions
        return self.rankings.first(k)


class Noise(SharedWordScorer):
    fingerprint = "noise"

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        return self.rng.random(len(pairs)).astype(np.float32)


def any_world(seed: int) -> tuple[QuestionSet, Rankings, Rankings]:
    """30 questions with one or two relevant passages of 25, and two retrievers that find 20 passages or fewer."""
    rng = np.random.default_rng(seed)
    passages = tuple(Passage(f"p{row}", f"text {row}") for row in range(25))
    relevant = [rng.choice(25, rng.integers(1, 3), replace=False) for _ in range(30)]
    questions = [Question(f"q{row}", f"q {row}", (), tuple(f"p{p}" for p in ps)) for row, ps in enumerate(relevant)]

    def any_rankings() -> Rankings:
        indices = np.stack([rng.permutation(25)[:20] for _ in questions]).astype(np.int32)
        scores = -np.sort(-rng.random((30, 20)).astype(np.float32), axis=1)
        cut = np.arange(20) >= rng.integers(3, 21, 30)[:, None]
        return Rankings(np.where(cut, -1, indices), np.where(cut, -np.inf, scores).astype(np.float32))

    return QuestionSet("any", passages, tuple(questions)), any_rankings(), any_rankings()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(2, 15), st.integers(1, 15))
def test_outcomes_match_traced_questions(seed: int, k: int, depth: int, read: int) -> None:
    question_set, first, second = any_world(seed)
    parts = [first.first(depth), second.first(depth)]
    hybrid = fuse(parts, 25, Fusion.RRF, None, 20)
    texts = [question.text for question in question_set.questions]
    reranked = RerankedRetriever("r", Fixed(hybrid), Noise(seed), question_set.passages, depth=read).search(texts, 20)
    rankings = {"bm25": first, "dense": second, "hybrid": hybrid, "reranked": reranked}
    specs = (BM25, DENSE, HYBRID | {"top_k": depth}, RERANKED | {"first_stage": "hybrid", "rerank_top_k": read})
    outcomes_by_name = find_outcomes(comparison_with(question_set, rankings, *specs), k)
    for row, question in enumerate(question_set.questions):
        relevant = {question_set.row_of_passage[id_] for id_ in question.relevant}
        in_hybrid = bool(relevant & {*hybrid.indices[row, : max(k, read)].tolist()})
        given_to_hybrid = any(relevant & {*part.indices[row].tolist()} for part in parts)
        if relevant & {*reranked.indices[row, :k].tolist()}:
            expected = RetrievalOutcome.FOUND
        elif in_hybrid:
            expected = RetrievalOutcome.LOST_IN_RERANKING
        else:
            expected = RetrievalOutcome.LOST_IN_FUSION if given_to_hybrid else RetrievalOutcome.NOT_A_CANDIDATE
        assert OUTCOMES[outcomes_by_name["reranked"][row]] is expected


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 10))
def test_ceilings_bound_scores_and_never_decrease(seed: int, depth: int) -> None:
    question_set, first, second = any_world(seed)
    hybrid = fuse([first.first(depth), second.first(depth)], 25, Fusion.RRF, None, 20)
    rankings = {"bm25": first, "dense": second, "hybrid": hybrid}
    comparison = comparison_with(question_set, rankings, BM25, DENSE, HYBRID | {"top_k": depth})
    limits = ceilings(comparison, (depth, *DEPTHS[:5]))
    for k in (1, 5, 20):
        own = ceilings(comparison_with(question_set, {"bm25": hybrid}, BM25), (k,))["bm25"]  # its Hit@K: it wraps none
        assert own[0] <= limits["hybrid"][0]
    assert all((np.diff(limits[name][1:]) >= 0).all() for name in rankings)
    assert (limits["hybrid"] >= np.maximum(limits["bm25"], limits["dense"])).all()
