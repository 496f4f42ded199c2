"""Confidence, metric tables, judgements, published results, opened comparisons and changes between them."""

import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import ir_measures
import numpy as np
import pytest
from ir_measures import Judged

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval import significance
from mrc_workbench.retrieval.analysis import evidence as statistics
from mrc_workbench.retrieval.analysis import questions
from mrc_workbench.retrieval.analysis.open_comparison import OpenComparison, changes, find_difference
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.comparison.store import StoredComparison, save_comparison
from mrc_workbench.retrieval.measures import Measure, measure_names
from mrc_workbench.retrieval.significance import intervals_of, pair_tests, question_groups
from tests.doubles import PASSAGES, QUESTIONS, small_set
from tests.retrieval.compared import LATE, NONE, RIGHT, comparison_of, many_questions


def test_tests_every_pair_by_every_measure_except_failed_retrievers() -> None:
    _, compared = many_questions()
    evidence = statistics.evidence(compared)
    assert set(evidence.intervals) == {"right", "late", "same"}
    assert evidence.baseline == "right"  # the first: there is no BM25
    against = [(a, "right", measure) for measure in measure_names((1, 3)) for a in ("late", "same")]
    others = [("late", "same", measure) for measure in measure_names((1, 3))]
    assert [(test.a, test.b, test.measure) for test in evidence.tests] == against + others


def test_evidence_matches_significance() -> None:
    question_set, compared = many_questions()
    evidence = statistics.evidence(compared)
    groups = question_groups(question_set)
    scores = {result.name: result.scores for result in compared.results if result.scores}
    assert list(evidence.baseline_tests) == pair_tests(scores, measure_names((1, 3)), groups, baseline="right")
    del scores["right"]
    assert list(evidence.other_tests) == pair_tests(scores, measure_names((1, 3)), groups)
    assert evidence.intervals["late"] == intervals_of(scores["late"], groups)


def test_counts_wins_and_difference() -> None:
    test = statistics.evidence(comparison_of({"right": RIGHT, "late": LATE})).test("late", "recall@1")
    assert test is not None
    # five questions of six have hits only by the first; the last finds one of two passages with both
    assert (test.difference, test.wins, test.ties, test.losses) == (pytest.approx(-5 / 6), 0, 1, 5)


def test_reverses_paired_test() -> None:
    evidence = statistics.evidence(many_questions()[1])
    test = evidence.test("late", "mrr@10")
    assert test is not None
    other = statistics.reversed_test(test)
    assert (other.a, other.b) == ("right", "late")
    assert (other.difference, other.low, other.high) == (-test.difference, -test.high, -test.low)
    assert (other.wins, other.ties, other.losses) == (test.losses, test.ties, test.wins)
    assert (other.p, other.p_family, other.is_significant) == (test.p, test.p_family, True)
    assert statistics.oriented_test("late", "right", [test]) == test
    assert statistics.oriented_test("right", "late", [test]) == other
    assert evidence.test("lost", "mrr@10") is None
    assert evidence.test("late", "recall@7") is None


def test_baseline_is_default_bm25_or_named_retriever() -> None:
    specs = (BM25Spec(name="words", analyzer=Analyzer.WORD), BM25Spec(name="right"), BM25Spec(name="none"))
    compared = comparison_of({"words": LATE, "right": RIGHT, "none": NONE})
    compared = replace(compared, experiment=compared.experiment.model_copy(update={"retriever": specs}))
    assert statistics.default_baseline(compared) == "right"
    assert {test.b for test in statistics.evidence(compared).baseline_tests} == {"right"}
    assert {test.b for test in statistics.evidence(compared, "none").baseline_tests} == {"none"}


def test_batched_tests_equal_joint_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    _, compared = many_questions()
    whole = statistics.evidence(compared)
    monkeypatch.setattr("mrc_workbench.retrieval.analysis.evidence._MAX_TESTS_AT_ONCE", 1)
    for test, other in zip(statistics.evidence(compared).tests, whole.tests, strict=True):
        assert (test.a, test.b, test.measure, test.p_family) == (other.a, other.b, other.measure, other.p_family)
        np.testing.assert_allclose((test.low, test.high), (other.low, other.high), atol=1e-12)


def test_single_retriever_has_intervals_but_no_test_or_best_value() -> None:
    compared = comparison_of({"right": RIGHT})
    evidence = statistics.evidence(compared)
    assert evidence.tests == ()
    low, high = evidence.intervals["right"]["recall@1"]
    assert low < 11 / 12 < high  # the last question finds one of its two
    rows = statistics.metric_rows(compared, evidence, ["recall@1"])
    assert not any(cell and cell.is_best for cell in rows["right"])


def test_significance_json_fields() -> None:
    listed = [asdict(test) for test in statistics.evidence(comparison_of({"right": RIGHT, "none": NONE})).tests]
    assert len(listed) == len(measure_names((1, 3)))
    names = {"a", "b", "measure", "difference", "low", "high", "p", "p_family", "wins", "ties", "losses"}
    assert all(set(entry) == names for entry in listed)
    assert {type(entry[name]) for entry in listed for name in ("wins", "ties", "losses")} == {int}


def test_marks_values_significantly_above_baseline() -> None:
    _, compared = many_questions()
    evidence = statistics.evidence(compared)
    rows = statistics.metric_rows(compared, evidence, ["recall@1", "hit@3"])
    assert list(rows) == ["right", "late", "same", "lost"]
    assert rows["lost"] == [None, None]
    right, late, same = (rows[name][0] for name in ("right", "late", "same"))
    assert all((right, late, same))
    assert (right.vs_baseline, late.vs_baseline, same.vs_baseline) == (0, -1, 0)
    assert (right.is_best, late.is_best, same.is_best) == (True, False, True)
    assert late.mean == pytest.approx(0.5 / 6)
    assert (late.low, late.high) == evidence.intervals["late"]["recall@1"]
    assert (late.percent, right.percent) == ("8.33", "91.67")
    hits = [cell[1] for cell in rows.values() if cell[1]]
    assert {(cell.percent, cell.is_best, cell.vs_baseline) for cell in hits} == {("100.00", False, 0)}  # all are equal


def test_baseline_is_first_successful_retriever() -> None:
    compared = comparison_of({"lost": None, "late": LATE, "right": RIGHT})
    assert statistics.evidence(compared).baseline == "late"
    assert statistics.evidence(comparison_of({"lost": None})).baseline == ""
    rows = statistics.metric_rows(compared, statistics.evidence(compared), statistics.displayed_measures(compared))
    assert all(cell and cell.vs_baseline == 0 for cell in rows["late"])


def test_labels_measures() -> None:
    compared = comparison_of({"right": RIGHT}, ks=(3, 20))
    labels = ["R@3", "R@20", "MRR@10", "nDCG@10"]
    assert [statistics.label(measure) for measure in statistics.displayed_measures(compared)] == labels
    assert statistics.label("hit@5") == "Hit@5"
    assert statistics.default_measure("recall", (1, 10, 20)) == Measure("recall", 10)
    assert statistics.default_measure("mrr", (1, 5)) == Measure("mrr", 5)


def test_replaces_saturated_measure_with_smaller_k() -> None:
    scores = comparison_of({"right": RIGHT, "late": LATE}, ks=(1, 2, 3)).scores
    # recall of the last question, of two relevant passages, is 1/2 at rank 2 with "late": a mean of 5.5/6
    assert [statistics.at_ceiling(scores, Measure("recall", k)) for k in (1, 2, 3)] == [False, False, True]
    alone = {"right": scores["right"]}  # a single retriever
    cases = [(scores, (1, 2, 3), 3, 1), (scores, (1, 2, 3), 2, 2), (scores, (3,), 3, 3), (alone, (1, 3), 3, 3)]
    for of, ks, k, expected in cases:
        assert statistics.discriminating_measure(of, ks, Measure("recall", k)) == Measure("recall", expected)


STORED = StoredComparison(
    *("0" * 16, Path("nowhere"), "", "2026-01-01T00:00:00+00:00", "small", "small", "data", "corpus", "asked"),
    **{"part": Part.TEST, "questions": 6, "passages": 5, "retrievers": ("a",), "ks": (1,)},  # type: ignore[arg-type]
    **{"lab": None, "relevance_level": 1, "metrics": {}},  # type: ignore[arg-type]
)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({}, None),
        ({"name": "renamed", "retrievers": ("b",), "ks": (5,)}, None),
        ({"fingerprint": "x", "corpus_fingerprint": "x"}, "other_passages"),
        ({"fingerprint": "x", "part": Part.ALL}, "other_part"),
        ({"fingerprint": "x"}, "other_questions"),
    ],
)
def test_compares_only_same_questions_and_passages(other: dict[str, object], reason: str | None) -> None:
    assert find_difference(STORED, replace(STORED, **other)) == reason  # type: ignore[arg-type]
    assert find_difference(replace(STORED, **other), STORED) == reason  # type: ignore[arg-type]


def test_changes_report_difference_and_test() -> None:
    before = comparison_of({"a": LATE, "gone": RIGHT, "lost": None})
    after = comparison_of({"new": RIGHT, "a": RIGHT, "lost": RIGHT}, ks=(1, 5))
    changes_by_measure = {change.test.measure: change for change in changes(before, after)}
    assert {change.retriever for change in changes_by_measure.values()} == {"a"}
    shared = {"recall@1", "hit@1", "mrr@1", "mrr@10", "ndcg@1", "ndcg@10"}  # K = 3 is in one of them only
    assert set(changes_by_measure) == shared
    change = changes_by_measure["recall@1"]
    assert (change.before, change.after) == (pytest.approx(0.5 / 6), pytest.approx(5.5 / 6))
    assert (change.test.difference, change.test.wins, change.test.losses) == (pytest.approx(5 / 6), 5, 0)


def test_corrects_change_tests_over_retrievers() -> None:
    question_set, first = many_questions()
    late = first.results[1]
    right = first.results[0]
    before = Comparison(first.experiment, question_set, (replace(late, name="a"), replace(right, name="b")))
    after = Comparison(first.experiment, question_set, (replace(right, name="a"), replace(right, name="b")))
    ndcg_changes = [change for change in changes(before, after) if change.test.measure == "ndcg@10"]
    assert [(change.retriever, change.test.is_significant) for change in ndcg_changes] == [("a", True), ("b", False)]
    assert right.scores is not None
    assert late.scores is not None
    [test] = pair_tests({"after": right.scores, "before": late.scores}, ["ndcg@10"], question_groups(question_set))
    # the other retriever did not change, so being tested with it costs nothing
    assert (ndcg_changes[0].test.p, ndcg_changes[0].test.p_family) == pytest.approx((test.p, test.p_family))
    assert (ndcg_changes[0].test.low, ndcg_changes[0].test.high) == pytest.approx((test.low, test.high))


def test_rejects_other_questions() -> None:
    fewer = small_set().with_questions([0, 1, 2])
    with pytest.raises(ValueError, match="other questions"):
        changes(comparison_of({"a": RIGHT}), comparison_of({"a": NONE[:3]}, fewer))


MANY = 12


def graded(n_judged: int) -> QuestionSet:
    """Questions of which the first passages were judged, one of them relevant, by their own place in the corpus."""
    passages = tuple(Passage(f"p{row}", str(row)) for row in range(30))
    grades = {f"p{row}": int(row == 0) for row in range(n_judged)}
    questions = tuple(Question.from_grades(f"q{row}", f"{row}?", grades) for row in range(MANY))
    return QuestionSet("graded", passages, questions)


def test_pool_holds_unjudged_results_of_all_retrievers() -> None:
    comparison = comparison_of({"right": RIGHT, "late": LATE, "lost": None})
    whole = statistics.pool(comparison, 100, 2)
    expected = {("q5", "p1"), *((f"q{number}", "p5") for number in (1, 2, 3, 4, 6))}  # all others are unjudged
    assert {(QUESTIONS[pair.question].id, PASSAGES[pair.passage].id) for pair in whole} == expected
    assert statistics.pool(comparison, 100, 2) == whole
    assert statistics.pool(comparison, 2, 2) == whole[:2], "a smaller pool is where a larger one begins"
    assert statistics.pool(comparison_of({"lost": None}), 3, 2) == statistics.pool(comparison, 0, 2) == []


def test_pool_order_hides_rank_and_retriever() -> None:
    rows = [[*range(10)]] * MANY
    question_set = graded(1)
    pooled = statistics.pool(comparison_of({"a": rows, "b": [item[::-1] for item in rows]}, question_set), MANY, 10)
    by_question = [[item.passage for item in pooled if item.question == row] for row in range(MANY)]
    assert all(sorted(item) == [*range(1, 10)] for item in by_question)
    assert len({tuple(item) for item in by_question}) > MANY // 2
    assert [*dict.fromkeys(item.question for item in pooled)] != [*range(MANY)]


def test_judged_pool_leaves_no_unjudged_results() -> None:
    question_set = graded(2)
    rankings = {"a": [[0, 3, 5, *range(10, 17)]] * MANY, "b": [[1, *range(20, 29)]] * MANY}
    comparison = comparison_of(rankings, question_set, depth=10)
    pooled = statistics.pool(comparison, MANY, 10)
    assert comparison.scores["a"].per_question["judged@10"].tolist() == [0.1] * MANY
    grades = {row: {f"p{pair.passage}": 0 for pair in pooled if pair.question == row} for row in range(MANY)}
    rows = enumerate(question_set.questions)
    questions = (Question.from_grades(q.id, q.text, grades[row] | q.grade_of) for row, q in rows)
    judged = QuestionSet("judged", question_set.passages, tuple(questions))
    again = comparison_of(rankings, judged, depth=10)
    assert {of.means()["judged@10"] for of in again.scores.values()} == {1.0}
    qrels = {question.id: question.grade_of for question in judged.questions}
    scored = [{f"p{row}": -position for position, row in enumerate(rows[0])} for rows in rankings.values()]
    runs = [{question.id: scores for question in question_set.questions} for scores in scored]
    assert {ir_measures.calc_aggregate([Judged @ 10], qrels, run)[Judged @ 10] for run in runs} == {1.0}
    assert statistics.pool(again, MANY, 10) == []


def test_reports_retrievers_with_fewer_judged_results() -> None:
    question_set = graded(12)
    known = [[*range(10)]] * MANY
    slightly_unjudged, mostly_unjudged = ([[*range(10 - n), *range(20, 20 + n)]] * MANY for n in (1, 4))
    by_luck = [*[[*range(20, 30)]] * 2, *known[2:]]
    rankings = {"known": known, "one": slightly_unjudged, "many": mostly_unjudged, "luck": by_luck, "lost": None}
    comparison = comparison_of(rankings, question_set)
    groups = np.arange(MANY)
    tests = statistics.underjudged_tests(comparison.scores, groups)
    # two questions of twelve are no significant difference, however large
    expected = [("one", "known", -0.1), ("many", "known", -0.4)]
    assert [(test.a, test.b, round(test.difference, 3)) for test in tests] == expected
    assert statistics.underjudged_tests(comparison_of({"right": RIGHT}).scores, groups) == []
    assert statistics.underjudged_tests({}, question_groups(question_set)) == []


def test_lists_judgement_measures_at_default_k() -> None:
    assert statistics.judged_measures(comparison_of({"right": RIGHT}).scores) == []
    question_set = graded(2)
    scores = comparison_of({"a": [[0]] * MANY}, question_set).scores
    assert statistics.judged_measures(scores) == ["judged@10", "bpref@10"]


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("KorQuAD_v1.0_dev", "SQuADKorV1Retrieval (KorQuAD 1.0 dev)"),
        ("KorQuAD 1.0 dev", "SQuADKorV1Retrieval (KorQuAD 1.0 dev)"),
        ("mteb-Ko-StrategyQA", "Ko-StrategyQA"),
        ("MIRACLRetrieval ko", "MIRACL, Korean"),
    ],
)
def test_finds_published_results_by_dataset_name(name: str, title: str) -> None:
    (results,) = statistics.find_published(name)
    assert results.title == title
    assert results.kinds["nlpai-lab/KURE-v2"] == "late"


@pytest.mark.parametrize("name", ["", "Korean sample", "KorQuAD_v1.0_train", "질문"])
def test_finds_no_published_results_for_unknown_dataset(name: str) -> None:
    assert statistics.find_published(name) == []


def test_published_scores_are_valid() -> None:
    sets = statistics._load_published()
    content = tomllib.loads(Path(statistics.__file__).with_name("published.toml").read_text(encoding="utf-8"))
    assert {results.source.id for results in sets} == {source["id"] for source in content["source"]}
    for results in sets:
        assert all(0 < score < 1 for score in results.scores.values())
        assert {*results.scores} <= {*results.kinds}
        assert results.names == tuple(name.casefold() for name in results.names)
        # no other set answers to its names
        assert all(len(statistics.find_published(name)) == 1 for name in results.names)


@pytest.fixture
def opened(tmp_path: Path) -> OpenComparison:
    save_comparison(comparison_of({"Right": RIGHT, "Late": LATE, "Lost": NONE, "Failed": None}), tmp_path)
    return OpenComparison(tmp_path, small_set())


def count_calls(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[Any]:
    calls: list[Any] = []
    analysis = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *of: calls.append(of) or analysis(*of))
    return calls


def test_returns_results_of_analyses(opened: OpenComparison) -> None:
    groups = question_groups(opened.question_set)
    assert set(opened.comparison.scores) == set(opened.comparison.rankings) == {"Right", "Late", "Lost"}
    assert opened.intervals == {name: intervals_of(of, groups) for name, of in opened.comparison.scores.items()}
    assert opened.evidence.tests == statistics.evidence(opened.comparison).tests
    assert [(test.a, test.b) for test in opened.tests(("Right", "Lost"), "recall@1")] == [("Right", "Lost")]
    assert opened.outcomes(1).keys() == questions.find_outcomes(opened.comparison, 1).keys()


def test_separates_questions_by_rank(opened: OpenComparison) -> None:
    assert opened.ranks(("Late", "Right")).ranks.tolist() == [[2, 1]] * 5 + [[1, 1]]
    quadrants = opened.quadrants(("Right", "Late"), 1)
    assert quadrants[questions.Quadrant.BOTH].tolist() == [5]
    assert quadrants[questions.Quadrant.ONLY_FIRST].tolist() == [0, 1, 2, 3, 4]
    table = opened.questions(("Right", "Late"))
    assert table["rank_1"].tolist() == [2, 2, 2, 2, 2, 1]
    assert set(opened.disputed_rows(("Right", "Late"), 2)) < set(table.index)


def test_measures_slices_with_tests(opened: OpenComparison) -> None:
    by = opened.properties[0]
    table = opened.slice_results(by, ("Right", "Late", "Failed"), "recall@1")
    assert set(table["retriever"]) == {"Right", "Late"}
    assert "p_holm" in table
    assert sum(len(part.rows) for part in opened.slices(by)) >= len(opened.question_set.questions)


def test_rejects_folder_without_comparison(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no finished comparison"):
        OpenComparison(tmp_path, small_set())


def test_computes_analysis_once(opened: OpenComparison, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch, significance, "question_groups")
    assert opened.groups is opened.groups
    assert opened.tests(("Right", "Late"), "recall@1") is opened.tests(("Right", "Late"), "recall@1")
    assert len(calls) == 1


def test_computes_analysis_once_for_parallel_sessions(opened: OpenComparison, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Event()
    calls = []

    def slow(*arguments: Any) -> np.ndarray:
        calls.append(arguments)
        begun.wait(0.2)  # the others come meanwhile
        return question_groups(*arguments)

    monkeypatch.setattr(significance, "question_groups", slow)
    with ThreadPoolExecutor(10) as sessions:
        group_arrays = list(sessions.map(lambda _: opened.groups, range(10)))
    assert len(calls) == 1
    assert all(groups is group_arrays[0] for groups in group_arrays)


def test_caches_only_last_results(opened: OpenComparison, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch, questions, "rows_with_text")
    for row in range(100):
        opened.rows_with_text(f"word {row}")
    opened.rows_with_text("word 99")
    assert len(calls) == 100
    opened.rows_with_text("word 0")
    assert len(calls) == 101
    assert all(len(answers) <= 16 for answers in opened._cache.values())


def test_does_not_share_cache_between_comparisons(opened: OpenComparison, tmp_path: Path) -> None:
    again = OpenComparison(tmp_path, small_set())
    assert again.slices(questions.SliceProperty.OVERLAP) is not opened.slices(questions.SliceProperty.OVERLAP)
    assert again.changes_since(opened) is again.changes_since(opened)
    assert all(change.before == change.after for change in again.changes_since(opened))
