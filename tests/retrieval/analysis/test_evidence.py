"""How sure figures are, the table that shows them, what was judged, what others published, and what changed."""

import tomllib
from dataclasses import asdict, replace
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from ir_measures import Judged

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.analysis import evidence as evidence_module
from mrc_workbench.retrieval.analysis.evidence import (
    _all_published,
    at_ceiling,
    at_disadvantage,
    evidence,
    figures,
    judged_measures,
    label,
    pool,
    published,
    shown_measures,
    telling_figure,
    turned,
    usual_baseline,
    usual_figure,
)
from mrc_workbench.retrieval.analysis.open_comparison import changes, comparable
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.comparison.store import StoredComparison
from mrc_workbench.retrieval.measures import Measure, measures
from mrc_workbench.retrieval.significance import intervals_of, pair_tests, question_groups
from tests.doubles import PASSAGES, QUESTIONS, small_set
from tests.retrieval.compared import LATE, NONE, RIGHT, comparison_of, many_questions


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
    test = evidence(comparison_of({"right": RIGHT, "late": LATE})).test("late", "recall@1")
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
    monkeypatch.setattr("mrc_workbench.retrieval.analysis.evidence._MOST_TESTS", 1)
    for one, other in zip(evidence(compared).tests, whole.tests, strict=True):
        assert (one.a, one.b, one.measure, one.p_family) == (other.a, other.b, other.measure, other.p_family)
        np.testing.assert_allclose((one.low, one.high), (other.low, other.high), atol=1e-12)


def test_one_retriever_has_intervals_and_no_test() -> None:
    found = evidence(comparison_of({"right": RIGHT}))
    assert found.tests == ()
    low, high = found.intervals["right"]["recall@1"]
    assert low < 11 / 12 < high  # the last question finds one of its two


def test_what_significance_json_holds() -> None:
    listed = [asdict(test) for test in evidence(comparison_of({"right": RIGHT, "none": NONE})).tests]
    assert len(listed) == len(measures((1, 3)))
    names = {"a", "b", "measure", "difference", "low", "high", "p", "p_family", "wins", "ties", "losses"}
    assert all(set(entry) == names for entry in listed)
    assert {type(entry[name]) for entry in listed for name in ("wins", "ties", "losses")} == {int}


def test_marks_say_what_is_surely_better_than_the_baseline() -> None:
    _, compared = many_questions()
    found = evidence(compared)
    rows = figures(compared, found, ["recall@1", "hit@3"])
    assert list(rows) == ["right", "late", "same", "lost"]
    assert rows["lost"] == [None, None]
    right, late, same = (rows[name][0] for name in ("right", "late", "same"))
    assert all((right, late, same))
    assert (right.against, late.against, same.against) == (0, -1, 0)
    assert (right.best, late.best, same.best) == (True, False, True)
    assert late.mean == pytest.approx(0.5 / 6)
    assert (late.low, late.high) == found.intervals["late"]["recall@1"]
    assert (late.percent, right.percent) == ("8.33", "91.67")
    hits = [cell[1] for cell in rows.values() if cell[1]]
    assert {(cell.percent, cell.best, cell.against) for cell in hits} == {("100.00", False, 0)}  # all are equal


def test_the_baseline_is_the_first_that_did_not_fail() -> None:
    compared = comparison_of({"lost": None, "late": LATE, "right": RIGHT})
    assert evidence(compared).baseline == "late"
    assert evidence(comparison_of({"lost": None})).baseline == ""
    rows = figures(compared, evidence(compared), shown_measures(compared))
    assert all(cell and cell.against == 0 for cell in rows["late"])


def test_alone_nothing_is_best() -> None:
    compared = comparison_of({"right": RIGHT})
    assert not any(cell and cell.best for cell in figures(compared, evidence(compared), ["recall@1"])["right"])


def test_names_of_measures() -> None:
    compared = comparison_of({"right": RIGHT}, ks=(3, 20))
    assert [label(one) for one in shown_measures(compared)] == ["R@3", "R@20", "MRR@10", "nDCG@10"]
    assert label("hit@5") == "Hit@5"
    assert usual_figure("recall", (1, 10, 20)) == Measure("recall", 10)
    assert usual_figure("mrr", (1, 5)) == Measure("mrr", 5)


def test_a_figure_at_its_ceiling_gives_way_to_the_first_k_that_tells_retrievers_apart() -> None:
    scores = comparison_of({"right": RIGHT, "late": LATE}, ks=(1, 2, 3)).scores
    # recall of the last question, of two relevant passages, is 1/2 at rank 2 with "late": a mean of 5.5/6
    assert [at_ceiling(scores, Measure("recall", k)) for k in (1, 2, 3)] == [False, False, True]
    alone = {"right": scores["right"]}  # nothing else to tell it apart from
    cases = [(scores, (1, 2, 3), 3, 1), (scores, (1, 2, 3), 2, 2), (scores, (3,), 3, 3), (alone, (1, 3), 3, 3)]
    for of, ks, k, expected in cases:
        assert telling_figure(of, ks, Measure("recall", k)) == Measure("recall", expected)


KEPT = StoredComparison(
    *("0" * 16, Path("nowhere"), "", "2026-01-01T00:00:00+00:00", "small", "small", "data", "corpus", "asked"),
    **{"part": Part.TEST, "questions": 6, "passages": 5, "retrievers": ("a",), "ks": (1,)},  # type: ignore[arg-type]
    **{"lab": None, "relevant_from": 1, "figures": {}},  # type: ignore[arg-type]
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
def test_only_the_same_questions_over_the_same_passages_are_comparable(
    other: dict[str, object], reason: str | None
) -> None:
    assert comparable(KEPT, replace(KEPT, **other)) == reason  # type: ignore[arg-type]
    assert comparable(replace(KEPT, **other), KEPT) == reason  # type: ignore[arg-type]


def test_what_changed_by_hand() -> None:
    before = comparison_of({"a": LATE, "gone": RIGHT, "lost": None})
    after = comparison_of({"new": RIGHT, "a": RIGHT, "lost": RIGHT}, ks=(1, 5))
    found = {change.test.measure: change for change in changes(before, after)}
    assert {change.retriever for change in found.values()} == {"a"}
    assert set(found) == {"recall@1", "hit@1", "mrr@1", "mrr@10", "ndcg@1", "ndcg@10"}  # K = 3 is in one of them only
    change = found["recall@1"]
    assert (change.before, change.after) == (pytest.approx(0.5 / 6), pytest.approx(5.5 / 6))
    assert (change.test.difference, change.test.wins, change.test.losses) == (pytest.approx(5 / 6), 5, 0)


def test_tests_are_those_of_significance_corrected_over_the_retrievers() -> None:
    asked, first = many_questions()
    late, right = first.results[1], first.results[0]
    before = Comparison(first.experiment, asked, (replace(late, name="a"), replace(right, name="b")))
    after = Comparison(first.experiment, asked, (replace(right, name="a"), replace(right, name="b")))
    found = [change for change in changes(before, after) if change.test.measure == "ndcg@10"]
    assert [(change.retriever, change.test.sure) for change in found] == [("a", True), ("b", False)]
    assert right.scores is not None
    assert late.scores is not None
    [test] = pair_tests({"after": right.scores, "before": late.scores}, ["ndcg@10"], question_groups(asked))
    # the other retriever did not change, so being tested with it costs nothing
    assert (found[0].test.p, found[0].test.p_family) == pytest.approx((test.p, test.p_family))
    assert (found[0].test.low, found[0].test.high) == pytest.approx((test.low, test.high))


def test_other_questions_are_refused() -> None:
    fewer = small_set().with_questions([0, 1, 2])
    with pytest.raises(ValueError, match="other questions"):
        changes(comparison_of({"a": RIGHT}), comparison_of({"a": NONE[:3]}, fewer))


MANY = 12


def graded(n_judged: int) -> QuestionSet:
    """Questions of which the first passages were judged, one of them relevant, by their own place in the corpus."""
    passages = tuple(Passage(f"p{row}", str(row)) for row in range(30))
    grades = {f"p{row}": int(row == 0) for row in range(n_judged)}
    return QuestionSet("graded", passages, tuple(Question.judged(f"q{row}", f"{row}?", grades) for row in range(MANY)))


def test_the_pool_is_what_all_found_and_nobody_judged() -> None:
    comparison = comparison_of({"right": RIGHT, "late": LATE, "lost": None})
    whole = pool(comparison, 100, 2)
    expected = {("q5", "p1"), *((f"q{number}", "p5") for number in (1, 2, 3, 4, 6))}  # all others are unjudged
    assert {(QUESTIONS[one.question].id, PASSAGES[one.passage].id) for one in whole} == expected
    assert pool(comparison, 100, 2) == whole
    assert pool(comparison, 2, 2) == whole[:2], "a smaller pool is where a larger one begins"
    assert pool(comparison_of({"lost": None}), 3, 2) == pool(comparison, 0, 2) == []


def test_passages_stand_by_no_rank_and_no_retriever() -> None:
    rows = [[*range(10)]] * MANY
    asked = graded(1)
    found = pool(comparison_of({"a": rows, "b": [one[::-1] for one in rows]}, asked), MANY, 10)
    by_question = [[one.passage for one in found if one.question == row] for row in range(MANY)]
    assert all(sorted(one) == [*range(1, 10)] for one in by_question)
    assert len({tuple(one) for one in by_question}) > MANY // 2
    assert [*dict.fromkeys(one.question for one in found)] != [*range(MANY)]


def test_after_the_pool_is_judged_nothing_of_it_is_unjudged() -> None:
    asked = graded(2)
    found = {"a": [[0, 3, 5, *range(10, 17)]] * MANY, "b": [[1, *range(20, 29)]] * MANY}
    comparison = comparison_of(found, asked, depth=10)
    pooled = pool(comparison, MANY, 10)
    assert comparison.scores["a"].per_question["judged@10"].tolist() == [0.1] * MANY
    told = {row: {f"p{one.passage}": 0 for one in pooled if one.question == row} for row in range(MANY)}
    questions = (Question.judged(q.id, q.text, told[row] | q.grade_of) for row, q in enumerate(asked.questions))
    judged = QuestionSet("judged", asked.passages, tuple(questions))
    again = comparison_of(found, judged, depth=10)
    assert {of.means()["judged@10"] for of in again.scores.values()} == {1.0}
    qrels = {question.id: question.grade_of for question in judged.questions}
    runs = [
        {q.id: {f"p{row}": -place for place, row in enumerate(rows[0])} for q in asked.questions}
        for rows in found.values()
    ]
    assert {ir_measures.calc_aggregate([Judged @ 10], qrels, run)[Judged @ 10] for run in runs} == {1.0}
    assert pool(again, MANY, 10) == []


def test_who_has_clearly_fewer_judged_among_the_first_stands_back() -> None:
    asked = graded(12)
    known = [[*range(10)]] * MANY
    one_off, many_off = ([[*range(10 - n), *range(20, 20 + n)]] * MANY for n in (1, 4))
    by_luck = [*[[*range(20, 30)]] * 2, *known[2:]]
    comparison = comparison_of({"known": known, "one": one_off, "many": many_off, "luck": by_luck, "lost": None}, asked)
    groups = np.arange(MANY)
    tests = at_disadvantage(comparison.scores, groups)
    # two questions of twelve are no significant difference, however large
    expected = [("one", "known", -0.1), ("many", "known", -0.4)]
    assert [(test.a, test.b, round(test.difference, 3)) for test in tests] == expected
    assert at_disadvantage(comparison_of({"right": RIGHT}).scores, groups) == []
    assert at_disadvantage({}, question_groups(asked)) == []


def test_measures_by_judgements_are_those_at_the_usual_cut() -> None:
    assert judged_measures(comparison_of({"right": RIGHT}).scores) == []
    asked = graded(2)
    assert judged_measures(comparison_of({"a": [[0]] * MANY}, asked).scores) == ["judged@10", "bpref@10"]


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("KorQuAD_v1.0_dev", "SQuADKorV1Retrieval (KorQuAD 1.0 dev)"),
        ("KorQuAD 1.0 dev", "SQuADKorV1Retrieval (KorQuAD 1.0 dev)"),
        ("mteb-Ko-StrategyQA", "Ko-StrategyQA"),
        ("MIRACLRetrieval ko", "MIRACL, Korean"),
    ],
)
def test_a_set_is_known_by_what_people_call_it(name: str, title: str) -> None:
    (found,) = published(name)
    assert found.title == title
    assert found.kinds["nlpai-lab/KURE-v2"] == "late"


@pytest.mark.parametrize("name", ["", "Korean sample", "KorQuAD_v1.0_train", "질문"])
def test_of_most_sets_nothing_is_known(name: str) -> None:
    assert published(name) == []


def test_every_figure_is_a_share_of_a_known_model_and_source() -> None:
    sets = _all_published()
    content = tomllib.loads(Path(evidence_module.__file__).with_name("published.toml").read_text(encoding="utf-8"))
    assert {one.source.id for one in sets} == {source["id"] for source in content["source"]}
    for one in sets:
        assert all(0 < figure < 1 for figure in one.figures.values())
        assert {*one.figures} <= {*one.kinds}
        assert one.names == tuple(name.casefold() for name in one.names)
        assert sum(len(published(name)) for name in one.names) == len(one.names)  # no other set answers to its names
