import numpy as np
import pytest

from retrieval.analysis.evidence import as_list, evidence
from retrieval.evaluation.measures import measures
from retrieval.evaluation.significance import intervals_of, pair_tests, question_groups
from tests.retrieval.compared import LATE, NONE, RIGHT, comparison_of, many_questions


def test_every_pair_by_every_measure_and_no_test_of_a_failed_one() -> None:
    _, compared = many_questions()
    found = evidence(compared)
    assert set(found.intervals) == {"right", "late", "same"}
    assert [(test.a, test.b, test.measure) for test in found.tests] == [
        (a, b, measure)
        for measure in measures((1, 3))
        for a, b in (("right", "late"), ("right", "same"), ("late", "same"))
    ]


def test_it_is_what_significance_says() -> None:
    asked, compared = many_questions()
    found, groups = evidence(compared), question_groups(asked)
    scores = {result.name: result.scores for result in compared.results if result.scores}
    assert list(found.tests) == pair_tests(scores, measures((1, 3)), groups)
    assert found.intervals["late"] == intervals_of(scores["late"], groups)


def test_wins_and_difference_by_hand() -> None:
    found = evidence(comparison_of({"right": RIGHT, "late": LATE}))
    test = found.test("right", "late", "recall@1")
    assert test is not None
    # five questions of six are found only by the first; the last finds one of two passages with both
    assert (test.difference, test.wins, test.ties, test.losses) == (pytest.approx(5 / 6), 5, 1, 0)


def test_a_test_seen_from_the_other_side() -> None:
    found = evidence(many_questions()[1])
    one, other = found.test("right", "late", "mrr@10"), found.test("late", "right", "mrr@10")
    assert one is not None
    assert other is not None
    assert (other.a, other.b) == ("late", "right")
    assert (other.difference, other.low, other.high) == (-one.difference, -one.high, -one.low)
    assert (other.wins, other.ties, other.losses) == (one.losses, one.ties, one.wins)
    assert (other.p, other.p_holm, other.sure) == (one.p, one.p_holm, True)
    assert found.test("right", "lost", "mrr@10") is None
    assert found.test("right", "late", "recall@7") is None


def test_parts_made_one_after_the_other_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    _, compared = many_questions()
    whole = evidence(compared)
    monkeypatch.setattr("retrieval.analysis.evidence._MOST_TESTS", 1)
    for one, other in zip(evidence(compared).tests, whole.tests, strict=True):
        assert (one.a, one.b, one.measure, one.p_holm) == (other.a, other.b, other.measure, other.p_holm)
        np.testing.assert_allclose((one.low, one.high), (other.low, other.high), atol=1e-12)


def test_one_retriever_has_intervals_and_no_test() -> None:
    found = evidence(comparison_of({"right": RIGHT}))
    assert found.tests == ()
    low, high = found.intervals["right"]["recall@1"]
    assert low < 11 / 12 < high  # the last question finds one of its two


def test_what_significance_json_holds() -> None:
    listed = as_list(evidence(comparison_of({"right": RIGHT, "none": NONE})))
    assert len(listed) == len(measures((1, 3)))
    names = {"a", "b", "measure", "difference", "low", "high", "p", "p_holm", "wins", "ties", "losses"}
    assert all(set(entry) == names for entry in listed)
    assert {type(entry[name]) for entry in listed for name in ("wins", "ties", "losses")} == {int}
