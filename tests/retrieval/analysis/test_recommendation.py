"""Which retriever is recommended: real paired tests, real costs, and no speeds compared across machines."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.retrieval.analysis.evidence import Evidence, evidence
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.retrieval.report.words import (
    CLEARLY_FASTER,
    FEWEST_QUESTIONS,
    Cost,
    Recommendation,
    TieBreak,
    best_first,
    cost_of,
    recommend,
    times_faster,
)
from mrc_workbench.retrieval.significance import PairTest, question_groups
from tests.retrieval.compared import LATE, NONE, RIGHT, comparison_of, many_questions

NDCG = Measure("ndcg", 10)
COPIES = 8  # of six questions
Found = Mapping[str, Sequence[Sequence[int]] | None]
TESTED: dict[object, Evidence] = {}
many = cache(many_questions)


def compared(found: Found, costs: Mapping[str, Mapping[str, float]] | None = None, copies: int = COPIES) -> Comparison:
    """Compare rankings of six questions, `copies` times over, with these fields of each result."""
    asked, _ = many(copies)
    rows = {
        name: of and [[5 * copy + row for row in found_rows] for copy in range(copies) for found_rows in of]
        for name, of in found.items()
    }
    comparison = comparison_of(rows, asked)
    results = tuple(replace(one, **(costs or {}).get(one.name, {})) for one in comparison.results)
    return replace(comparison, results=results)


def evidence_of(comparison: Comparison) -> Evidence:
    """Test the same scores once: what retrievers cost changes no test."""
    key = tuple((name, *map(bytes, of.per_question.values())) for name, of in comparison.scores.items())
    if key not in TESTED:
        TESTED[key] = evidence(comparison)
    return TESTED[key]


def recommended(comparison: Comparison, measure: Measure = NDCG) -> Recommendation:
    tests = evidence_of(comparison)
    groups = question_groups(comparison.question_set)
    found = recommend(comparison, measure, tests.tests, baseline=tests.baseline, groups=groups)
    assert found is not None
    return found


IMPORTED = {"notes": {"questions": 48, "depth": 10, "other_questions": 0}, "query_seconds": 0.0}
HALF = {"query_seconds": 1.0, "elsewhere_seconds": 0.5}


def took(seconds: float, memory: int = 0, elsewhere: float = 0.0) -> dict[str, Any]:
    return {"query_seconds": seconds, "memory_bytes": memory, "elsewhere_seconds": elsewhere}


@pytest.mark.parametrize(
    ("rankings", "costs", "name", "ties", "tie_break", "faster"),
    [
        pytest.param((LATE, RIGHT), (took(0.001), took(9)), "b", (), None, None, id="fast-but-worse"),
        pytest.param((RIGHT,) * 3, (took(1, 900), took(1, 100), took(1)), "b", ("a", "c"), None, 1, id="smaller-index"),
        pytest.param((RIGHT,) * 2, (IMPORTED, took(99)), "b", ("a",), None, None, id="imported-run-without-a-time"),
        pytest.param(
            (RIGHT,) * 2, (took(0.01, 10, 0.01) | {"model_seconds": 0.01}, took(5, 900)), "b", ("a",), "machines", None
        ),
        pytest.param((RIGHT,) * 2, (took(60, 0, 48), took(12, 0, 12)), "b", ("a",), "speed", 4, id="mix-and-its-part"),
        pytest.param((RIGHT,) * 2, (HALF, HALF), "a", ("b",), "machines", None, id="partly-on-another-machine"),
        pytest.param(
            (LATE, RIGHT, RIGHT), (took(0.1), took(1.9, 10), took(1, 1000)), "b", ("c",), "speed", 1 / 1.9, id="lead"
        ),
    ],
)
def test_the_cheapest_tie_is_recommended(
    *, rankings: Sequence[Any], costs: Sequence[Any], name: str, ties: tuple[str, ...], tie_break: str, faster: float
) -> None:
    names = "abc"[: len(rankings)]
    found = recommended(compared(dict(zip(names, rankings, strict=True)), dict(zip(names, costs, strict=True))))
    assert (found.name, found.ties) == (name, ties)
    assert found.tie_break == (tie_break or found.tie_break)
    assert found.faster == (faster and pytest.approx(faster))
    assert found.untimed == tuple(name for name, cost in zip(names, costs, strict=True) if cost is IMPORTED)


def test_recommends_the_faster_of_two_that_do_not_differ() -> None:
    seconds = {"bm25": took(0.1), "mix": took(4.8), "late": took(1.2)}
    found = recommended(compared({"bm25": LATE, "mix": RIGHT, "late": RIGHT}, seconds))
    assert (found.name, found.ties, found.tie_break) == ("late", ("mix",), TieBreak.SPEED)
    assert found.faster == pytest.approx(4.0)
    assert found.gain is not None
    assert found.gain.sure
    assert (found.gain.a, found.gain.b) == ("late", "bm25")
    assert found.mean == pytest.approx(1.0)
    assert not found.early


def test_a_missing_test_is_not_a_tie() -> None:
    comparison = compared({"slow": RIGHT, "fast": RIGHT}, {"fast": {"query_seconds": 0.001}})
    groups = question_groups(comparison.question_set)
    by_another_metric = [test for test in evidence_of(comparison).tests if test.measure == "recall@1"]
    for tests in ([], by_another_metric):
        found = recommend(comparison, NDCG, tests, baseline="slow", groups=groups)
        assert found is not None
        assert (found.name, found.ties) == ("slow", ())


def test_failed_retrievers_and_those_without_the_metric_are_no_candidates() -> None:
    comparison = compared({"failed": None, "shallow": RIGHT, "deep": LATE})
    scores = {result.name: result.scores for result in comparison.results}
    shallow = scores["shallow"]
    assert shallow is not None
    without = {name: values for name, values in shallow.per_question.items() if name != "ndcg@10"}
    results = tuple(
        replace(one, scores=replace(shallow, per_question=without)) if one.name == "shallow" else one
        for one in comparison.results
    )
    found = recommended(replace(comparison, results=results))
    assert (found.name, found.ties, found.compared) == ("deep", (), 0)
    comparison = compared({"failed": None})
    groups = question_groups(comparison.question_set)
    assert recommend(comparison, NDCG, [], baseline="failed", groups=groups) is None


def test_ties_without_any_known_speed_are_decided_by_the_score() -> None:
    almost = [[4, 0], *RIGHT[1:]]
    comparison = compared({"almost": almost, "right": RIGHT}, {"almost": IMPORTED, "right": IMPORTED}, copies=6)  # type: ignore[dict-item]
    results = {one.name: one for one in comparison.results}
    scores = results["almost"].scores
    assert scores is not None
    nearly = {name: results["right"].scores.per_question[name].copy() for name in scores.per_question}  # type: ignore[union-attr]
    nearly["ndcg@10"][0] = 0.5  # one question of 36: no significant difference
    worse = replace(results["almost"], scores=replace(scores, per_question=nearly))
    found = recommended(replace(comparison, results=(worse, results["right"])))
    assert (found.name, found.ties, found.tie_break) == ("right", ("almost",), TieBreak.SCORE)


HERE, ELSEWHERE, MIXED = (Cost(10.0, elsewhere, 0, False) for elsewhere in (0.0, 10.0, 6.0))


@pytest.mark.parametrize(
    ("a", "b", "times"),
    [
        (HERE, replace(HERE, milliseconds=20.0), 2.0),
        (ELSEWHERE, replace(ELSEWHERE, milliseconds=30.0, elsewhere=30.0), 3.0),
        (HERE, replace(MIXED, milliseconds=50.0), 4.4),  # of b only what was measured here
        (ELSEWHERE, replace(MIXED, milliseconds=50.0, elsewhere=40.0), 4.0),
        (HERE, ELSEWHERE, 0.0),
        (MIXED, HERE, None),
        (HERE, replace(HERE, milliseconds=None), None),
    ],
)
def test_only_times_of_the_same_machine_are_compared(a: Cost, b: Cost, times: float | None) -> None:
    assert times_faster(a, b) == (times if times is None else pytest.approx(times))


@pytest.mark.parametrize(("elsewhere", "is_foreign"), [(0.0, False), (0.5, False), (6.0, True), (10.0, True)])
def test_a_time_is_marked_if_much_of_it_comes_from_another_machine(elsewhere: float, is_foreign: bool) -> None:
    assert replace(HERE, elsewhere=elsewhere).is_foreign is is_foreign


def test_few_questions_or_questions_about_a_few_passages_are_too_early() -> None:
    few = recommended(compared({"a": LATE, "b": RIGHT}, copies=2))
    assert few.questions < FEWEST_QUESTIONS
    assert few.early
    assert (few.best, few.best_mean) == ("b", pytest.approx(1.0))
    comparison = compared({"a": LATE, "b": RIGHT})
    one_group = np.zeros(len(comparison.question_set.questions), dtype=np.int32)
    tests = evidence_of(comparison).tests
    found = recommend(comparison, NDCG, tests, baseline="a", groups=one_group)
    assert found is not None
    assert found.early


def test_the_baseline_has_no_gain_over_itself() -> None:
    found = recommended(compared({"bm25": RIGHT, "late": LATE}))
    assert (found.name, found.baseline, found.gain) == ("bm25", "bm25", None)


def test_best_first_keeps_the_order_of_equal_means() -> None:
    comparison = compared({"c": RIGHT, "low": NONE, "a": RIGHT, "failed": None})
    assert best_first(comparison, NDCG) == ["c", "a", "low"]
    assert best_first(comparison, NDCG, ["low", "a"]) == ["a", "low"]


NAMES = ("one", "two", "three", "four")


@st.composite
def drawn_cases(draw: st.DrawFn) -> tuple[Comparison, list[PairTest]]:
    """Retrievers with drawn rankings and costs, and any subset of their tests."""
    rows = {name: draw(st.sampled_from((RIGHT, LATE, NONE))) for name in NAMES}
    costs: dict[str, dict[str, float]] = {}
    for name in NAMES:
        seconds = draw(st.sampled_from((0.0, 0.1, 1.0, 10.0)))
        part = draw(st.sampled_from((0.0, 0.5, 1.0)))
        memory = draw(st.sampled_from((0, 10, 1000)))
        costs[name] = {"query_seconds": seconds, "elsewhere_seconds": seconds * part, "memory_bytes": memory}
    comparison = compared(rows, costs, copies=5)
    every = [test for test in evidence_of(comparison).tests if test.measure == str(NDCG)]
    return comparison, [test for test in every if draw(st.booleans())]


@settings(max_examples=40, deadline=None)
@given(drawn_cases())
@pytest.mark.slow
def test_whatever_is_recommended_was_tested_and_is_the_cheapest(case: tuple[Comparison, list[PairTest]]) -> None:
    comparison, tests = case
    groups = question_groups(comparison.question_set)
    found = recommend(comparison, NDCG, tests, baseline="one", groups=groups)
    assert found is not None
    ranked = best_first(comparison, NDCG)
    assert found.best == ranked[0]
    tied = {found.name, *found.ties}
    assert found.best in tied
    assert found.name not in found.ties
    for name in tied - {found.best}:
        (test,) = [one for one in tests if {one.a, one.b} == {name, found.best}]
        assert not test.sure
    costs = {result.name: cost_of(result) for result in comparison.results}
    if found.tie_break is TieBreak.SPEED:
        timed = [costs[name] for name in tied - {found.name} if costs[name].milliseconds is not None]
        assert all((times_faster(costs[found.name], other) or 0) >= 1 for other in timed)
    if found.faster is not None:
        assert found.faster >= 1
    assert (found.gain is None) == (found.name == "one" or not any({t.a, t.b} == {found.name, "one"} for t in tests))


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=5))
@settings(max_examples=50, deadline=None)
def test_no_tie_is_clearly_faster_than_the_recommended_one(seconds: list[float]) -> None:
    names = [f"r{number}" for number in range(len(seconds))]
    costs = {name: {"query_seconds": time} for name, time in zip(names, seconds, strict=True)}
    found = recommended(compared(dict.fromkeys(names, RIGHT), costs))
    assert costs[found.name]["query_seconds"] <= CLEARLY_FASTER * min(seconds)
