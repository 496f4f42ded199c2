"""A comparison beside an earlier one."""

from dataclasses import replace
from pathlib import Path

import pytest

from data.split import Part
from retrieval.analysis.evidence import changes, comparable
from retrieval.comparison.compare import Comparison
from retrieval.comparison.store import StoredComparison
from retrieval.evaluation.significance import pair_tests, question_groups
from tests.doubles import small_set
from tests.retrieval.compared import LATE, NONE, RIGHT, comparison_of, many_questions

KEPT = StoredComparison(
    key="0" * 16,
    folder=Path("nowhere"),
    name="",
    made="2026-01-01T00:00:00+00:00",
    data="small",
    reference="small",
    data_fingerprint="data",
    corpus_fingerprint="corpus",
    fingerprint="asked",
    part=Part.TEST,
    questions=6,
    passages=5,
    retrievers=("a",),
    ks=(1,),
    lab=None,
    figures={},
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
