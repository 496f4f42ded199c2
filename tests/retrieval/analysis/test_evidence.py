from dataclasses import replace

import numpy as np
import pytest

from retrieval.analysis.evidence import as_list, evidence, turned, usual_baseline
from retrieval.comparison.first_stage import BM25Spec
from retrieval.evaluation.measures import measures
from retrieval.evaluation.significance import intervals_of, pair_tests, question_groups
from tests.retrieval.compared import LATE, NONE, RIGHT, comparison_of, many_questions
from text.analyzers import Analyzer


def test_every_pair_by_every_measure_and_no_test_of_a_failed_one() -> None:
    _, compared = many_questions()
    found = evidence(compared)
    assert set(found.intervals) == {"right", "late", "same"}
    assert found.baseline == "right"  # the first: there is no BM25
    against = [(a, "right", measure) for measure in measures((1, 3)) for a in ("late", "same")]
    others = [("late", "same", measure) for measure in measures((1, 3))]
    assert [(test.a, test.b, test.measure) for test in found.tests] == against + others


def test_it_is_what_significance_says() -> None:
    asked, compared = many_questions()
    found, groups = evidence(compared), question_groups(asked)
    scores = {result.name: result.scores for result in compared.results if result.scores}
    assert list(found.against) == pair_tests(scores, measures((1, 3)), groups, baseline="right")
    del scores["right"]
    assert list(found.others) == pair_tests(scores, measures((1, 3)), groups)
    assert found.intervals["late"] == intervals_of(scores["late"], groups)


def test_wins_and_difference_by_hand() -> None:
    found = evidence(comparison_of({"right": RIGHT, "late": LATE}))
    test = found.test("late", "recall@1")
    assert test is not None
    # five questions of six are found only by the first; the last finds one of two passages with both
    assert (test.difference, test.wins, test.ties, test.losses) == (pytest.approx(-5 / 6), 0, 1, 5)


def test_a_test_seen_from_the_other_side() -> None:
    found = evidence(many_questions()[1])
    one = found.test("late", "mrr@10")
    assert one is not None
    other = turned(one)
    assert (other.a, other.b) == ("right", "late")
    assert (other.difference, other.low, other.high) == (-one.difference, -one.high, -one.low)
    assert (other.wins, other.ties, other.losses) == (one.losses, one.ties, one.wins)
    assert (other.p, other.p_family, other.sure) == (one.p, one.p_family, True)
    assert found.test("lost", "mrr@10") is None
    assert found.test("late", "recall@7") is None


def test_the_baseline_is_bm25_as_it_suits_or_the_one_named() -> None:
    specs = (BM25Spec(name="words", analyzer=Analyzer.WORD), BM25Spec(name="right"), BM25Spec(name="none"))
    compared = comparison_of({"words": LATE, "right": RIGHT, "none": NONE})
    compared = replace(compared, experiment=compared.experiment.model_copy(update={"retriever": specs}))
    assert usual_baseline(compared) == "right"
    assert {test.b for test in evidence(compared).against} == {"right"}
    assert {test.b for test in evidence(compared, "none").against} == {"none"}


def test_parts_made_one_after_the_other_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    _, compared = many_questions()
    whole = evidence(compared)
    monkeypatch.setattr("retrieval.analysis.evidence._MOST_TESTS", 1)
    for one, other in zip(evidence(compared).tests, whole.tests, strict=True):
        assert (one.a, one.b, one.measure, one.p_family) == (other.a, other.b, other.measure, other.p_family)
        np.testing.assert_allclose((one.low, one.high), (other.low, other.high), atol=1e-12)


def test_one_retriever_has_intervals_and_no_test() -> None:
    found = evidence(comparison_of({"right": RIGHT}))
    assert found.tests == ()
    low, high = found.intervals["right"]["recall@1"]
    assert low < 11 / 12 < high  # the last question finds one of its two


def test_what_significance_json_holds() -> None:
    listed = as_list(evidence(comparison_of({"right": RIGHT, "none": NONE})).tests)
    assert len(listed) == len(measures((1, 3)))
    names = {"a", "b", "measure", "difference", "low", "high", "p", "p_family", "wins", "ties", "losses"}
    assert all(set(entry) == names for entry in listed)
    assert {type(entry[name]) for entry in listed for name in ("wins", "ties", "losses")} == {int}
