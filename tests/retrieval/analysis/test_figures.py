import pytest

from retrieval.analysis.evidence import (
    at_ceiling,
    evidence,
    figures,
    label,
    shown_measures,
    telling_figure,
    usual_figure,
)
from retrieval.evaluation.measures import Measure
from tests.retrieval.compared import LATE, RIGHT, comparison_of, many_questions


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


def test_a_figure_at_its_ceiling_gives_way_to_the_first_k_that_tells_retrievers_apart() -> None:
    scores = comparison_of({"right": RIGHT, "late": LATE}, ks=(1, 2, 3)).scores
    # recall of the last question, of two relevant passages, is 1/2 at rank 2 with "late": a mean of 5.5/6
    assert [at_ceiling(scores, Measure("recall", k)) for k in (1, 2, 3)] == [False, False, True]
    assert telling_figure(scores, (1, 2, 3), Measure("recall", 3)) == Measure("recall", 1)
    assert telling_figure(scores, (1, 2, 3), Measure("recall", 2)) == Measure("recall", 2)
    assert telling_figure(scores, (3,), Measure("recall", 3)) == Measure("recall", 3)  # nothing finer was measured


def test_one_retriever_alone_has_nothing_to_be_told_apart_from() -> None:
    scores = comparison_of({"right": RIGHT}, ks=(1, 3)).scores
    assert telling_figure(scores, (1, 3), Measure("recall", 3)) == Measure("recall", 3)


def test_the_usual_k_is_ten_where_that_was_measured() -> None:
    assert usual_figure("recall", (1, 10, 20)) == Measure("recall", 10)
    assert usual_figure("mrr", (1, 5)) == Measure("mrr", 5)
