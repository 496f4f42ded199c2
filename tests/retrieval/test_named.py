"""Metrics by name: which are the project's own, and what is said of names that are none."""

import ir_measures
import numpy as np
import pytest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.retrieval.measures import (
    Measure,
    MetricError,
    check_metric,
    cutoff_of,
    evaluate,
    own_measure,
    score_by_name,
)
from mrc_workbench.retrieval.rankings import Rankings


def question_set() -> QuestionSet:
    passages = [Passage(f"p {row}", f"text {row}") for row in range(6)]
    graded = Question.judged("q 1", "one?", {"p 0": 2, "p 3": 1, "p 5": 0})
    return QuestionSet("set", passages, (graded, Question("q 2", "two?", relevant=("p 1",))))  # type: ignore[arg-type]


RANKINGS = Rankings(np.array([[5, 0, 3], [2, 1, -1]], np.int32), np.array([[3, 2, 1], [2, 1, -np.inf]], np.float32))


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("nDCG@10", Measure("ndcg", 10)),
        ("ndcg@10", Measure("ndcg", 10)),
        ("R@5", Measure("recall", 5)),
        ("Recall@5", Measure("recall", 5)),
        ("Success@1", Measure("hit", 1)),
        ("MRR@10", Measure("mrr", 10)),
        ("AP", None),
        ("R(rel=2)@5", None),
        ("nDCG", None),
    ],
)
def test_own_measures_are_known_by_the_names_of_the_field(name: str, measure: Measure | None) -> None:
    assert own_measure(name) == measure


@pytest.mark.parametrize("name", ["nDCG@2", "R@2", "Success@1", "RR@3", "Judged@3", "nDCG(dcg='exp-log2')@3"])
def test_own_measures_equal_ir_measures(name: str) -> None:
    graded = question_set()
    qrels = {"0": {"0": 2, "3": 1, "5": 0}, "1": {"1": 1}}
    run = {"0": {"5": 3.0, "0": 2.0, "3": 1.0}, "1": {"2": 2.0, "1": 1.0}}
    expected = {one.query_id: one.value for one in ir_measures.iter_calc([ir_measures.parse_measure(name)], qrels, run)}
    values = score_by_name(RANKINGS, graded, [name])[name]
    assert values.tolist() == pytest.approx([expected["0"], expected["1"]], abs=1e-5)


def test_own_measures_are_those_of_evaluate_also_beyond_the_rankings() -> None:
    scores = evaluate(RANKINGS, question_set(), (1, 3)).per_question
    named = score_by_name(RANKINGS, question_set(), ["R@3", "R@1000000000", "R@5"])
    assert named["R@3"].tolist() == scores["recall@3"].tolist()
    assert named["R@5"].tolist() == named["R@1000000000"].tolist() == [1.0, 1.0]


def test_metric_without_judged_passages_falls_back_to_ir_measures() -> None:
    plain = QuestionSet("set", question_set().passages, (Question("q", "two?", relevant=("p 1",)),))
    one = Rankings(RANKINGS.indices[1:], RANKINGS.scores[1:])
    assert score_by_name(one, plain, ["Judged@2"])["Judged@2"].tolist() == [0.5]


@pytest.mark.parametrize("name", ["nDCX@10", "", "AP)(", "__import__('os')", "P@ten"])
def test_unknown_metric_is_refused(name: str) -> None:
    with pytest.raises(MetricError, match="no metric is called"):
        check_metric(name)


def test_near_names_are_suggested() -> None:
    with pytest.raises(MetricError, match="did you mean nDCG@10"):
        check_metric("ndgc@10")


@pytest.mark.parametrize("name", ["P@0", "nDCG@0", "R@0", "RR@0", "P@-1", "AP@99999999999", "P(rel=0)@5", "AP(rel=-1)"])
def test_parameters_out_of_range_are_refused(name: str) -> None:
    """trec_eval ends the process for a cutoff of 0."""
    with pytest.raises(MetricError, match=r"must be a whole number from 1|no metric is called"):
        check_metric(name)
    with pytest.raises(MetricError):
        score_by_name(RANKINGS, question_set(), [name])


@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("P", "P@10"),
        ("IPrec", "IPrec@0.5"),
        ("INSQ", r"INSQ\(max_rel=1\)"),
        ("BPM", r"BPM\(max_rel=1\)@10"),
        ("SDCG@5", r"SDCG\(max_rel=1\)@5"),
    ],
)
def test_missing_parameters_are_named_with_an_example(name: str, example: str) -> None:
    with pytest.raises(MetricError, match=f"needs a value of .*: write for example {example}$"):
        check_metric(name)


def test_parameters_that_a_metric_does_not_have_are_refused() -> None:
    with pytest.raises(MetricError, match="Rprec takes no cutoff"):
        check_metric("Rprec@5")


def test_questions_without_results_have_zero() -> None:
    found = Rankings(np.array([[0, 3], [-1, -1]], np.int32), np.array([[2, 1], [-np.inf, -np.inf]], np.float32))
    for name in ("Judged", "AP", "NumRet", "Accuracy(rel=3)"):
        assert score_by_name(found, question_set(), [name])[name][1] == 0.0, name


def test_division_by_zero_is_reported() -> None:
    only_relevant = Rankings(np.array([[0], [1]], np.int32), np.array([[1], [1]], np.float32))
    with pytest.raises(MetricError, match="Accuracy: it divides by zero"):
        score_by_name(only_relevant, question_set(), ["Accuracy"])


@pytest.mark.parametrize(("name", "cutoff"), [("R@5", 5), ("P@5", 5), ("AP", None), ("RBP(rel=1)@20", 20)])
def test_cutoff_is_that_of_the_name(name: str, cutoff: int | None) -> None:
    assert cutoff_of(name) == cutoff
