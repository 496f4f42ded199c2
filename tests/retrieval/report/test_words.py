"""The words of the report: intervals in a sentence, splits and few questions, and settings of every kind."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import SplitOptions, split
from mrc_workbench.retrieval.analysis.evidence import ComparisonEvidence, evidence
from mrc_workbench.retrieval.comparison.compare import Comparison, compare, provenance
from mrc_workbench.retrieval.comparison.experiment import KINDS, Experiment, store_measured
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.retrieval.outside.adapt import measure
from mrc_workbench.retrieval.report import words
from mrc_workbench.retrieval.report.exports import markdown_table, save
from mrc_workbench.retrieval.report.report import report, setup_lines
from mrc_workbench.retrieval.report.words import Recommendation, RetrieverCost, TieBreak
from mrc_workbench.retrieval.significance import PairTest, question_groups
from tests.data.split.worlds import chain, faq, set_of, tangle
from tests.doubles import PASSAGES, small_set
from tests.retrieval.compared import LATE, NONE, RIGHT, comparison_of, experiment_of, many_questions, repeated
from tests.search_server import scored


@pytest.mark.parametrize(
    ("difference", "ends", "expected"),
    [
        (0.232, (0.177, 0.286), ("17.7", "28.6")),  # 23.2 points ahead
        (-0.02, (-0.03, -0.01), ("1.0", "3.0")),  # 2 points behind
        (0.01, (-0.005, 0.025), ("−0.5", "2.5")),
        (-0.01, (-0.025, 0.005), ("−0.5", "2.5")),
        (0.0, (-0.0001, 0.0001), ("0.0", "0.0")),
    ],
)
def test_interval_follows_difference(difference: float, ends: tuple[float, float], expected: tuple[str, str]) -> None:
    assert tuple(words.difference_interval(difference, *ends).values()) == expected


NO_SHARED = "No test question shares a relevant passage with a training question."
WORDS = {"name": "words", "kind": "bm25", "analyzer": "word"}


def published(*parts: str) -> QuestionSet:
    return set_of(([row] for row in range(len(parts))), len(parts), parts=parts)


def described(question_set: QuestionSet, language: str = "en") -> str:
    return words.describe_split(split(question_set), words.translator(language))


def test_describes_sampled_splits() -> None:
    counts = "Drawn split (seed 0): 140 training, 20 validation and 40 test questions."
    assert described(faq(100, 2)) == f"{counts} No relevant passage is in two parts."
    titled = set_of(([row] for row in range(200)), 200, titles=["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"])
    assert described(titled).endswith("No article is in two parts.")
    assert described(chain(323)).endswith(f"so the parts share as few relevant passages as possible. {NO_SHARED}")
    assert "each was drawn by itself. 40 of 40 test questions share a relevant passage" in described(tangle(200))


def test_describes_published_splits() -> None:
    counts = "Published split: 1 training, 1 validation and 1 test questions."
    assert described(published("train", "validation", "test")) == f"{counts} {NO_SHARED}"
    sampled = described(published(*["train"] * 160, *["validation"] * 40))
    assert "The published validation questions are the test questions." in sampled
    assert "The validation questions were drawn from the training questions (seed 0)." in sampled


@pytest.mark.parametrize("language", words.LANGUAGES)
def test_warns_about_few_questions_in_each_language(language: str) -> None:
    say = words.translator(language)
    for of in ("compared", "train", "validation", "test"):
        assert words.few_questions_warning(20, of, say) == ""
        assert "19" in words.few_questions_warning(19, of, say)
    assert words.few_questions_warning(20, "training", say, "mix") == ""
    assert "mix" in words.few_questions_warning(3, "training", say, "mix")
    datasets = (faq(100, 2), chain(323), tangle(200), published("train", "test"))
    assert all(described(dataset, language) for dataset in datasets)


@pytest.mark.slow
def test_report_warns_beside_headline() -> None:
    compared = compare(experiment_of(WORDS, split="test"), chain(30))
    text = report(compared, "ko")
    say = words.translator("ko")
    assert compared.split is not None
    assert str(words.few_questions_warning(6, "compared", say)) in text
    assert text.count(str(words.describe_split(compared.split, say))) == 2  # beside the headline and among the settings
    everything = report(compare(experiment_of(WORDS), chain(30)), "ko")
    assert str(words.few_questions_warning(30, "compared", say) or ": 30.") not in everything
    assert everything.count(str(words.describe_split(compared.split, say))) == 1


def test_table_caption_describes_split_and_warns() -> None:
    compared = compare(experiment_of(WORDS, split="test"), chain(30))
    table = markdown_table(compared, evidence(compared))
    assert "test part, split drawn so that parts share few passages, seed 0; 0 of 6 test questions share" in table
    assert "Too few questions are compared: 6. With fewer than 20" in table


def test_describes_strict_split_as_grouped() -> None:
    assert split(chain(60), SplitOptions(strict=True)).description == "drawn by passage, seed 0"


URL = "http://127.0.0.1:9/search?q={query}"
RECORDED = {"seconds_per_query": 0.5, "unknown_passages": 3, "rising_scores": 2}
SPECS: list[dict[str, Any]] = [
    {"kind": "bm25", "analyzer": "word", "title_weight": 0.5, "fb_docs": 2, "selected_on": "test"},
    {"kind": "bm25-windows", "analyzer": "word", "sentences": 2, "dictionary": "none.txt"},
    {"kind": "dense", "windows": True, "window_tokens": 64},
    {"kind": "sparse", "model": "no such model!"},
    {"kind": "late", "model": "no such model!", "bits": 2},
    {"kind": "hybrid", "retrievers": ["bm25", "dense"], "weights": [0.25, 0.75]},
    {"kind": "learned", "retrievers": ["bm25", "dense"]},
    {"kind": "rerank", "first_stage": "bm25"},
    {"kind": "run", "path": "none.trec", "recorded": RECORDED},
    {"kind": "milvus", "search": "hybrid", "fusion": "weighted", "weights": [0.25, 0.75]},
    {"kind": "http", "url": URL, "method": "GET", "ids": "hits", "headers": {"reference": "x"}, "timeout": 2.5},
    {"kind": "plugin", "entry": "none", "options": {"k1": 1.2, "exact": True, "fields": ["title", "text"]}},
]


def compared() -> Comparison:
    specs = [{"name": spec["kind"], **spec} for spec in SPECS]
    return Comparison(Experiment.model_validate({"data": "small", "retriever": specs}), small_set(), ())


def test_covers_settings_of_every_kind() -> None:
    assert [spec["kind"] for spec in SPECS] == [kind.model_fields["kind"].default for kind in KINDS]


@pytest.mark.parametrize("language", words.LANGUAGES)
def test_names_settings_of_every_kind(language: str) -> None:
    lines = dict(setup_lines(provenance(compared()), words.translator(language)))
    assert set(lines) >= {spec["kind"] for spec in SPECS}
    assert lines["plugin"].endswith("options k1=1.2, exact=true, fields=title, text")
    assert lines["run"].endswith("recorded seconds_per_query=0.5, unknown_passages=3, rising_scores=2")
    assert "headers reference=x" in lines["http"]
    assert "weights 0.25, 0.75" in lines["hybrid"]
    assert "dictionary none.txt" in lines["bm25-windows"]
    assert "model starter " in lines["dense"]


@pytest.mark.slow
def test_writes_report_with_measured_retriever(tmp_path: Path) -> None:
    def search(query: str, k: int) -> list[tuple[str, int]]:
        return scored(PASSAGES, query, k)

    spec = store_measured(measure(search, small_set(), 10, name="Mine"), small_set())
    comparison = compare(Experiment(data="small", retriever=(spec,)), small_set())
    save(comparison, tmp_path / "out", provenance(comparison))
    assert "recorded seconds_per_query=" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


NDCG = Measure("ndcg", 10)
COPIES = 8  # of six questions
Costs = Mapping[str, Mapping[str, float]]
Retrieved = Mapping[str, Sequence[Sequence[int]] | None]
TESTED: dict[object, ComparisonEvidence] = {}
many = cache(many_questions)


def comparison_with(rows_by_retriever: Retrieved, costs: Costs | None = None, copies: int = COPIES) -> Comparison:
    """Compare rankings of six questions, `copies` times over, with these fields of each result."""
    question_set, _ = many(copies)
    rows = {name: of and repeated(of, copies) for name, of in rows_by_retriever.items()}
    comparison = comparison_of(rows, question_set)
    results = tuple(replace(result, **(costs or {}).get(result.name, {})) for result in comparison.results)
    return replace(comparison, results=results)


def evidence_of(comparison: Comparison) -> ComparisonEvidence:
    """Test the same scores once: what retrievers cost changes no test."""
    key = tuple((name, *map(bytes, of.per_question.values())) for name, of in comparison.scores.items())
    if key not in TESTED:
        TESTED[key] = evidence(comparison)
    return TESTED[key]


def recommended(comparison: Comparison, measure: Measure = NDCG) -> Recommendation:
    tests = evidence_of(comparison)
    groups = question_groups(comparison.question_set)
    recommendation = words.recommend(comparison, measure, tests.tests, baseline=tests.baseline, groups=groups)
    assert recommendation is not None
    return recommendation


TIE = (RIGHT, RIGHT)
IMPORTED = {"notes": {"questions": 48, "depth": 10, "other_questions": 0}, "query_seconds": 0.0}
HALF = {"query_seconds": 1.0, "elsewhere_seconds": 0.5}


def costs_of(seconds: float, memory: int = 0, elsewhere: float = 0.0) -> dict[str, Any]:
    return {"query_seconds": seconds, "memory_bytes": memory, "elsewhere_seconds": elsewhere}


@pytest.mark.parametrize(
    ("rankings", "costs", "name", "ties", "tie_break", "faster"),
    [
        pytest.param((LATE, RIGHT), (costs_of(0.001), costs_of(9)), "b", (), None, None, id="fast-but-worse"),
        pytest.param(
            (*TIE, RIGHT),
            (costs_of(1, 900), costs_of(1, 100), costs_of(1)),
            "b",
            ("a", "c"),
            None,
            1,
            id="smaller-index",
        ),
        pytest.param(TIE, (IMPORTED, costs_of(99)), "b", ("a",), None, None, id="imported-run-without-a-time"),
        pytest.param(
            TIE, (costs_of(0.01, 10, 0.01) | {"model_seconds": 0.01}, costs_of(5, 900)), "b", ("a",), "machines", None
        ),
        pytest.param(TIE, (costs_of(60, 0, 48), costs_of(12, 0, 12)), "b", ("a",), "speed", 4, id="mix-and-its-part"),
        pytest.param(TIE, (HALF, HALF), "a", ("b",), "machines", None, id="partly-on-another-machine"),
        pytest.param(
            (LATE, *TIE),
            (costs_of(0.1), costs_of(1.9, 10), costs_of(1, 1000)),
            "b",
            ("c",),
            "speed",
            1 / 1.9,
            id="lead",
        ),
    ],
)
def test_recommends_cheapest_tie(
    *, rankings: Sequence[Any], costs: Sequence[Any], name: str, ties: tuple[str, ...], tie_break: str, faster: float
) -> None:
    names = "abc"[: len(rankings)]
    by_name = (dict(zip(names, values, strict=True)) for values in (rankings, costs))
    recommendation = recommended(comparison_with(*by_name))
    assert (recommendation.name, recommendation.ties) == (name, ties)
    assert recommendation.tie_break == (tie_break or recommendation.tie_break)
    assert recommendation.speedup == (faster and pytest.approx(faster))
    assert recommendation.untimed == tuple(name for name, cost in zip(names, costs, strict=True) if cost is IMPORTED)


def test_recommends_the_faster_of_two_that_do_not_differ() -> None:
    seconds = {"bm25": costs_of(0.1), "mix": costs_of(4.8), "late": costs_of(1.2)}
    recommendation = recommended(comparison_with({"bm25": LATE, "mix": RIGHT, "late": RIGHT}, seconds))
    assert (recommendation.name, recommendation.ties, recommendation.tie_break) == ("late", ("mix",), TieBreak.SPEED)
    assert recommendation.speedup == pytest.approx(4.0)
    assert recommendation.gain is not None
    assert recommendation.gain.is_significant
    assert (recommendation.gain.a, recommendation.gain.b) == ("late", "bm25")
    assert recommendation.mean == pytest.approx(1.0)
    assert not recommendation.has_too_few_questions


def test_does_not_treat_missing_test_as_tie() -> None:
    comparison = comparison_with({"slow": RIGHT, "fast": RIGHT}, {"fast": {"query_seconds": 0.001}})
    groups = question_groups(comparison.question_set)
    by_another_metric = [test for test in evidence_of(comparison).tests if test.measure == "recall@1"]
    for tests in ([], by_another_metric):
        recommendation = words.recommend(comparison, NDCG, tests, baseline="slow", groups=groups)
        assert recommendation is not None
        assert (recommendation.name, recommendation.ties) == ("slow", ())


def test_ignores_retrievers_without_the_metric() -> None:
    comparison = comparison_with({"failed": None, "shallow": RIGHT, "deep": LATE})
    scores = {result.name: result.scores for result in comparison.results}
    shallow = scores["shallow"]
    assert shallow is not None
    without = {name: values for name, values in shallow.per_question.items() if name != "ndcg@10"}
    results = tuple(
        replace(original, scores=replace(shallow, per_question=without)) if original.name == "shallow" else original
        for original in comparison.results
    )
    recommendation = recommended(replace(comparison, results=results))
    assert (recommendation.name, recommendation.ties, recommendation.alternative_count) == ("deep", (), 0)
    comparison = comparison_with({"failed": None})
    groups = question_groups(comparison.question_set)
    assert words.recommend(comparison, NDCG, [], baseline="failed", groups=groups) is None


def test_breaks_untimed_ties_by_score() -> None:
    almost = [[4, 0], *RIGHT[1:]]
    comparison = comparison_with({"almost": almost, "right": RIGHT}, {"almost": IMPORTED, "right": IMPORTED}, copies=6)  # type: ignore[dict-item]
    results = {result.name: result for result in comparison.results}
    scores = results["almost"].scores
    assert scores is not None
    nearly = {name: results["right"].scores.per_question[name].copy() for name in scores.per_question}  # type: ignore[union-attr]
    nearly["ndcg@10"][0] = 0.5  # one question of 36: no significant difference
    worse = replace(results["almost"], scores=replace(scores, per_question=nearly))
    recommendation = recommended(replace(comparison, results=(worse, results["right"])))
    assert (recommendation.name, recommendation.ties) == ("right", ("almost",))
    assert recommendation.tie_break is TieBreak.SCORE


HERE, ELSEWHERE, MIXED = (RetrieverCost(10.0, elsewhere, 0, False) for elsewhere in (0.0, 10.0, 6.0))


@pytest.mark.parametrize(
    ("a", "b", "times"),
    [
        (HERE, replace(HERE, milliseconds=20.0), 2.0),
        (ELSEWHERE, replace(ELSEWHERE, milliseconds=30.0, elsewhere=30.0), 3.0),
        (HERE, replace(MIXED, milliseconds=50.0), 4.4),  # for b, only the milliseconds measured here
        (ELSEWHERE, replace(MIXED, milliseconds=50.0, elsewhere=40.0), 4.0),
        (HERE, ELSEWHERE, 0.0),
        (MIXED, HERE, None),
        (HERE, replace(HERE, milliseconds=None), None),
    ],
)
def test_compares_only_times_of_same_machine(a: RetrieverCost, b: RetrieverCost, times: float | None) -> None:
    assert words.compute_speedup(a, b) == (times if times is None else pytest.approx(times))


@pytest.mark.parametrize(("elsewhere", "is_marked"), [(0.0, False), (0.5, False), (6.0, True), (10.0, True)])
def test_marks_times_mostly_from_another_machine(elsewhere: float, is_marked: bool) -> None:
    assert replace(HERE, elsewhere=elsewhere).is_measured_elsewhere is is_marked


def test_makes_no_recommendation_for_few_questions_or_passages() -> None:
    few = recommended(comparison_with({"a": LATE, "b": RIGHT}, copies=2))
    assert few.questions < words.FEWEST_QUESTIONS
    assert few.has_too_few_questions
    assert (few.best, few.best_mean) == ("b", pytest.approx(1.0))
    comparison = comparison_with({"a": LATE, "b": RIGHT})
    single_group = np.zeros(len(comparison.question_set.questions), dtype=np.int32)
    tests = evidence_of(comparison).tests
    recommendation = words.recommend(comparison, NDCG, tests, baseline="a", groups=single_group)
    assert recommendation is not None
    assert recommendation.has_too_few_questions


def test_reports_no_gain_for_baseline() -> None:
    recommendation = recommended(comparison_with({"bm25": RIGHT, "late": LATE}))
    assert (recommendation.name, recommendation.baseline, recommendation.gain) == ("bm25", "bm25", None)


def test_rank_by_mean_keeps_order_of_equal_means() -> None:
    comparison = comparison_with({"c": RIGHT, "low": NONE, "a": RIGHT, "failed": None})
    assert words.rank_by_mean(comparison, NDCG) == ["c", "a", "low"]
    assert words.rank_by_mean(comparison, NDCG, ["low", "a"]) == ["a", "low"]


NAMES = ("one", "two", "three", "four")


@st.composite
def sampled_cases(draw: st.DrawFn) -> tuple[Comparison, list[PairTest]]:
    """Retrievers with drawn rankings and costs, and any subset of their tests."""
    rows = {name: draw(st.sampled_from((RIGHT, LATE, NONE))) for name in NAMES}
    costs: dict[str, dict[str, float]] = {}
    for name in NAMES:
        seconds = draw(st.sampled_from((0.0, 0.1, 1.0, 10.0)))
        part = draw(st.sampled_from((0.0, 0.5, 1.0)))
        memory = draw(st.sampled_from((0, 10, 1000)))
        costs[name] = {"query_seconds": seconds, "elsewhere_seconds": seconds * part, "memory_bytes": memory}
    comparison = comparison_with(rows, costs, copies=5)
    every = [test for test in evidence_of(comparison).tests if test.measure == str(NDCG)]
    return comparison, [test for test in every if draw(st.booleans())]


@settings(max_examples=40, deadline=None)
@given(sampled_cases())
@pytest.mark.slow
def test_recommendation_is_tested_and_cheapest(case: tuple[Comparison, list[PairTest]]) -> None:
    comparison, tests = case
    groups = question_groups(comparison.question_set)
    recommendation = words.recommend(comparison, NDCG, tests, baseline="one", groups=groups)
    assert recommendation is not None
    ranked = words.rank_by_mean(comparison, NDCG)
    assert recommendation.best == ranked[0]
    tied = {recommendation.name, *recommendation.ties}
    assert recommendation.best in tied
    assert recommendation.name not in recommendation.ties
    for name in tied - {recommendation.best}:
        (test,) = [candidate for candidate in tests if {candidate.a, candidate.b} == {name, recommendation.best}]
        assert not test.is_significant
    costs = {result.name: words.retriever_cost(result) for result in comparison.results}
    if recommendation.tie_break is TieBreak.SPEED:
        timed = [costs[name] for name in tied - {recommendation.name} if costs[name].milliseconds is not None]
        assert all((words.compute_speedup(costs[recommendation.name], other) or 0) >= 1 for other in timed)
    if recommendation.speedup is not None:
        assert recommendation.speedup >= 1
    assert (recommendation.gain is None) == (
        recommendation.name == "one" or not any({t.a, t.b} == {recommendation.name, "one"} for t in tests)
    )


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=5))
@settings(max_examples=50, deadline=None)
def test_no_tie_is_clearly_faster_than_recommendation(seconds: list[float]) -> None:
    names = [f"r{number}" for number in range(len(seconds))]
    costs = {name: {"query_seconds": time} for name, time in zip(names, seconds, strict=True)}
    recommendation = recommended(comparison_with(dict.fromkeys(names, RIGHT), costs))
    assert costs[recommendation.name]["query_seconds"] <= words.CLEARLY_FASTER * min(seconds)
