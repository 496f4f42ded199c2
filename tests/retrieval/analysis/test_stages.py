"""What became of questions: by hand, and against real fusion and reranking followed question by question."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.records import Passage, Question, QuestionSet
from retrieval.analysis.questions import DEPTHS, FATES, Fate, ceilings, fate_counts, fates
from retrieval.comparison.compare import Comparison, Result
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.first_stage import DenseSpec
from retrieval.comparison.multistage import HybridSpec, RerankSpec
from retrieval.hybrid import Fusion, fused
from retrieval.rankings import Rankings
from retrieval.rerank import Reranked
from tests.doubles import small_set
from tests.retrieval.analysis.test_disagreement import rankings_with_first_relevant_at

BM25 = {"name": "bm25", "kind": "bm25"}
DENSE = {"name": "dense", "kind": "dense"}
HYBRID = {"name": "hybrid", "kind": "hybrid", "of": ("bm25", "dense"), "depth": 3}
RERANKED = {"name": "reranked", "kind": "rerank", "first": "bm25", "depth": 3}


def compared(
    question_set: QuestionSet, rankings: Mapping[str, Rankings | None], *specs: Mapping[str, Any], k: int = 3
) -> Comparison:
    experiment = Experiment.model_validate({"data": "small", "ks": (1, k), "retriever": specs})
    error = RuntimeError("no rankings")
    results = [
        Result(name, found) if found is not None else Result(name, error=error) for name, found in rankings.items()
    ]
    return Comparison(experiment, question_set, tuple(results))


def by_hand(*specs: Mapping[str, Any], **ranks: list[int] | None) -> Comparison:
    """Retrievers that put the relevant passage of five questions at these ranks, 0 for nowhere."""
    rankings = {name: None if at is None else rankings_with_first_relevant_at(at) for name, at in ranks.items()}
    return compared(small_set().with_questions(range(5)), rankings, *specs)


def in_words(found: np.ndarray) -> list[Fate]:
    return [FATES[place] for place in found]


# by hand


def test_of_a_retriever_that_wraps_none() -> None:
    found = fates(by_hand(BM25, bm25=[1, 3, 4, 5, 0]), 3)["bm25"]
    assert in_words(found) == [Fate.FOUND, Fate.FOUND, Fate.BELOW, Fate.BELOW, Fate.NOT_FOUND]


def test_of_a_hybrid() -> None:
    comparison = by_hand(BM25, DENSE, HYBRID, bm25=[1, 3, 4, 0, 4], dense=[1, 5, 3, 0, 5], hybrid=[1, 2, 2, 0, 4])
    assert in_words(fates(comparison, 1)["hybrid"]) == [
        Fate.FOUND,
        Fate.LOST_IN_FUSION,  # BM25 brought it, third
        Fate.LOST_IN_FUSION,  # dense brought it, third
        Fate.NOT_A_CANDIDATE,
        Fate.NOT_A_CANDIDATE,  # below the depth of both
    ]


def test_a_part_that_weighs_nothing_brings_no_candidate() -> None:
    weighed = HYBRID | {"weights": (1.0, 0.0)}
    comparison = by_hand(BM25, DENSE, weighed, bm25=[1, 0, 0, 2, 4], dense=[1, 1, 2, 0, 1], hybrid=[1, 0, 0, 2, 0])
    assert in_words(fates(comparison, 1)["hybrid"]) == [
        Fate.FOUND,
        Fate.NOT_A_CANDIDATE,
        Fate.NOT_A_CANDIDATE,
        Fate.LOST_IN_FUSION,
        Fate.NOT_A_CANDIDATE,
    ]
    assert ceilings(comparison, (1, 2, 5))["hybrid"].tolist() == [0.2, 0.4, 0.6]


def test_of_a_reranker() -> None:
    comparison = by_hand(BM25, RERANKED, bm25=[2, 1, 4, 0, 3], reranked=[1, 2, 4, 0, 3])
    assert in_words(fates(comparison, 1)["reranked"]) == [
        Fate.FOUND,
        Fate.LOST_IN_RERANKING,
        Fate.NOT_A_CANDIDATE,  # the reranker reads three
        Fate.NOT_A_CANDIDATE,
        Fate.LOST_IN_RERANKING,
    ]


def test_a_reranker_loses_nothing_where_k_is_as_deep_as_it_reads() -> None:
    comparison = by_hand(BM25, RERANKED, bm25=[3, 4, 5, 0, 1], reranked=[1, 4, 5, 0, 3])
    assert in_words(fates(comparison, 4)["reranked"]) == [
        Fate.FOUND,
        Fate.FOUND,
        Fate.NOT_A_CANDIDATE,
        Fate.NOT_A_CANDIDATE,
        Fate.FOUND,
    ]


def test_a_reranker_of_a_hybrid_tells_the_first_step_that_lost_the_question() -> None:
    first = RERANKED | {"first": "hybrid", "depth": 2}
    comparison = by_hand(
        BM25,
        DENSE,
        HYBRID,
        first,
        bm25=[1, 2, 3, 0, 1],
        dense=[1, 0, 0, 0, 2],
        hybrid=[1, 2, 4, 0, 2],
        reranked=[1, 2, 4, 0, 1],
    )
    assert in_words(fates(comparison, 1)["reranked"]) == [
        Fate.FOUND,
        Fate.LOST_IN_RERANKING,
        Fate.LOST_IN_FUSION,  # BM25's third is the hybrid's fourth, and two are read
        Fate.NOT_A_CANDIDATE,
        Fate.FOUND,
    ]


def test_counts_of_fates() -> None:
    comparison = by_hand(BM25, RERANKED, bm25=[2, 1, 4, 0, 3], reranked=[1, 2, 4, 0, 3])
    counts = fate_counts(fates(comparison, 1))
    assert list(counts.columns) == [fate.value for fate in FATES]
    assert counts.loc["bm25"].to_dict() == {
        "found": 1,
        "below": 3,
        "not_found": 1,
        "not_a_candidate": 0,
        "lost_in_fusion": 0,
        "lost_in_reranking": 0,
    }
    assert counts.loc["reranked", ["found", "not_a_candidate", "lost_in_reranking"]].tolist() == [1, 2, 2]


# what is not known


def test_a_retriever_that_was_not_searched_so_deep_has_no_fate_and_the_others_have() -> None:
    comparison = by_hand(BM25, DENSE, bm25=[1] * 5, dense=[1] * 5)
    shallow = Result("dense", comparison.results[1].rankings.first(2))  # type: ignore[union-attr]
    comparison = Comparison(comparison.experiment, comparison.question_set, (comparison.results[0], shallow))
    assert list(fates(comparison, 2)) == ["bm25", "dense"]
    assert list(fates(comparison, 3)) == ["bm25"]
    assert np.isnan(ceilings(comparison, (3,))["dense"]).all()
    assert ceilings(comparison, (3,))["bm25"].tolist() == [1.0]


def test_a_retriever_that_failed_has_no_fate_nor_has_what_wraps_it() -> None:
    wrapped = RERANKED | {"first": "hybrid"}
    ranks: dict[str, list[int] | None] = {name: [1] * 5 for name in ("bm25", "hybrid", "reranked")}
    comparison = by_hand(BM25, DENSE, HYBRID, wrapped, **{"bm25": ranks.pop("bm25"), "dense": None} | ranks)
    assert list(fates(comparison, 1)) == ["bm25"]
    assert list(ceilings(comparison)) == ["bm25", "reranked"]  # the reranker's candidates are known


def test_k_is_at_least_one() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        fates(by_hand(BM25, bm25=[1] * 5), 0)
    assert fate_counts({}).empty


# ceilings


def test_ceilings_by_hand() -> None:
    comparison = by_hand(
        BM25,
        DENSE,
        HYBRID,
        RERANKED,
        bm25=[1, 2, 4, 0, 5],
        dense=[2, 1, 1, 0, 4],
        hybrid=[1, 1, 2, 0, 5],
        reranked=[3, 1, 4, 0, 5],
    )
    found = ceilings(comparison, (1, 2, 5, 10))
    np.testing.assert_array_equal(found["bm25"], [0.2, 0.4, 0.8, np.nan])
    np.testing.assert_array_equal(found["hybrid"], [0.6, 0.6, 0.8, np.nan])
    np.testing.assert_array_equal(found["reranked"], found["bm25"])


def test_where_candidates_come_from_and_how_many() -> None:
    hybrid = HybridSpec(name="h", of=("a", "b"), depth=30)
    assert hybrid.sources == ("a", "b")
    assert hybrid.model_copy(update={"weights": (0.0, 2.0)}).sources == ("b",)
    assert RerankSpec(name="r", first="h").sources == ("h",)
    assert DenseSpec(name="d").sources == ("d",)
    assert (hybrid.candidates(50), hybrid.candidates(5)) == (30, 30)
    reranker = RerankSpec(name="r", first="h", depth=20)
    assert (reranker.candidates(50), reranker.candidates(5)) == (50, 20)
    assert DenseSpec(name="d").candidates(5) == 0


# against real fusion and reranking


class Fixed:
    """A retriever with given rankings."""

    name = "fixed"

    def __init__(self, rankings: Rankings) -> None:
        self.rankings = rankings

    def search(self, questions: object, k: int) -> Rankings:
        del questions
        return self.rankings.first(k)


class Noise:
    """Scores that know nothing."""

    fingerprint = "noise"

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def load(self) -> None:
        """Nothing to load."""

    def score(self, pairs: object) -> np.ndarray:
        return self.rng.random(len(pairs)).astype(np.float32)  # type: ignore[arg-type]


def any_world(seed: int) -> tuple[QuestionSet, Rankings, Rankings]:
    """30 questions with one or two relevant passages of 25, and two retrievers that find 20 passages or fewer."""
    rng = np.random.default_rng(seed)
    passages = tuple(Passage(f"p{row}", f"text {row}") for row in range(25))
    relevant = [rng.choice(25, rng.integers(1, 3), replace=False) for _ in range(30)]
    questions = [Question(f"q{row}", f"q {row}", (), tuple(f"p{p}" for p in ps)) for row, ps in enumerate(relevant)]

    def rankings() -> Rankings:
        indices = np.stack([rng.permutation(25)[:20] for _ in questions]).astype(np.int32)
        scores = -np.sort(-rng.random((30, 20)).astype(np.float32), axis=1)
        cut = np.arange(20) >= rng.integers(3, 21, 30)[:, None]
        return Rankings(np.where(cut, -1, indices), np.where(cut, -np.inf, scores).astype(np.float32))

    return QuestionSet("any", passages, tuple(questions)), rankings(), rankings()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(2, 15), st.integers(1, 15))
def test_fates_are_those_of_each_question_followed_through(seed: int, k: int, depth: int, read: int) -> None:
    asked, first, second = any_world(seed)
    parts = [first.first(depth), second.first(depth)]
    hybrid = fused(parts, 25, Fusion.RRF, None, 20)
    texts = [question.text for question in asked.questions]
    reranked = Reranked("r", Fixed(hybrid), Noise(seed), asked.passages, depth=read).search(texts, 20)
    rankings = {"bm25": first, "dense": second, "hybrid": hybrid, "reranked": reranked}
    specs = (BM25, DENSE, HYBRID | {"depth": depth}, RERANKED | {"first": "hybrid", "depth": read})
    found = fates(compared(asked, rankings, *specs), k)
    for row, question in enumerate(asked.questions):
        relevant = {asked.row_of_passage[id_] for id_ in question.relevant}
        in_hybrid = bool(relevant & {*hybrid.indices[row, : max(k, read)].tolist()})
        given_to_hybrid = any(relevant & {*part.indices[row].tolist()} for part in parts)
        if relevant & {*reranked.indices[row, :k].tolist()}:
            expected = Fate.FOUND
        elif in_hybrid:
            expected = Fate.LOST_IN_RERANKING
        else:
            expected = Fate.LOST_IN_FUSION if given_to_hybrid else Fate.NOT_A_CANDIDATE
        assert FATES[found["reranked"][row]] is expected


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 10))
def test_no_order_exceeds_its_ceiling_and_ceilings_never_fall(seed: int, depth: int) -> None:
    asked, first, second = any_world(seed)
    hybrid = fused([first.first(depth), second.first(depth)], 25, Fusion.RRF, None, 20)
    comparison = compared(
        asked, {"bm25": first, "dense": second, "hybrid": hybrid}, BM25, DENSE, HYBRID | {"depth": depth}
    )
    found = ceilings(comparison, (depth, *DEPTHS[:5]))
    for k in (1, 5, 20):
        own = ceilings(compared(asked, {"bm25": hybrid}, BM25), (k,))["bm25"][0]  # of one that wraps none: its Hit@K
        assert own <= found["hybrid"][0]
    for name in ("bm25", "dense", "hybrid"):
        assert (np.diff(found[name][1:]) >= 0).all()
    assert (found["hybrid"] >= np.maximum(found["bm25"], found["dense"])).all()
