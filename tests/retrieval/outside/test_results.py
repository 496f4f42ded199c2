"""What other libraries return is read as passages of the corpus; what cannot be read is said."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.retrieval.outside import OutsideError, ResultReader

TEXTS = ("the first passage", "the second passage", "the third  passage")
PASSAGES = tuple(Passage(id_, text) for id_, text in zip(("a", "b", "7"), TEXTS, strict=True))
SET = QuestionSet("small", PASSAGES, (), {"copy of a": "a"})


class Hit:
    def __init__(self, docid: str, score: float) -> None:
        self.docid, self.score = docid, score


class Raising:
    docid = "b"

    @property
    def id(self) -> str:
        raise RuntimeError("not loaded")


def rows_and_scores(results: object, **how: Any) -> list[tuple[int, float]]:
    rankings = ResultReader(SET, **how).read([results], 3).rankings
    pairs = zip(rankings.indices[0].tolist(), rankings.scores[0].tolist(), strict=True)
    return [(row, score) for row, score in pairs if row >= 0]


SECOND_THEN_FIRST = [(1, 2.5), (0, 1.0)]


@pytest.mark.parametrize(
    "results",
    [
        [("b", 2.5), ("a", 1)],
        [["a", 1.0], ["b", 2.5]],  # ordered by score
        [("a", np.float64(1)), (TEXTS[1], np.float32(2.5))],
        {"a": 1, "b": 2.5},
        (["b", "a"], [2.5, 1.0]),
        (np.array(["b", "a"]), np.array([2.5, 1.0])),
        pd.DataFrame({"docno": ["a", "b"], "score": [1.0, 2.5], "rank": [1, 0]}),
        [{"_id": "b", "_score": 2.5}, {"_id": "copy of a", "_score": 1.0}],
        [{"text": TEXTS[1], "score": 2.5}, {"payload": {"doc_id": "a"}, "score": 1.0}],
        [Hit("b", 2.5), Hit("a", 1.0)],
    ],
)
def test_results_with_scores(results: object) -> None:
    assert rows_and_scores(results) == SECOND_THEN_FIRST


@pytest.mark.parametrize(
    "results",
    [
        ["b", "a"],
        ("b", "a"),
        np.array(["b", "a"]),
        (id_ for id_ in "ba"),
        [TEXTS[1], f" {TEXTS[0]}"],
        [{"id": "b", "score": None}, {"id": "a", "score": 9.0}],  # a score is missing
        [Raising(), {"id": "a"}],
    ],
)
def test_results_without_scores_keep_their_order(results: object) -> None:
    assert rows_and_scores(results) == [(1, 0.0), (0, -1.0)]


def test_numbers_name_passages() -> None:
    assert rows_and_scores([7, np.int64(7)]) == [(2, 0.0)]
    assert rows_and_scores([(7, 1.5)]) == [(2, 1.5)]


def test_the_field_of_the_id_can_be_given() -> None:
    results = [{"id": "a", "metadata": {"source": "b"}, "score": 1.0}]
    assert rows_and_scores(results) == [(0, 1.0)]
    assert rows_and_scores(results, id_key="source") == [(1, 1.0)]


def test_unknown_and_repeated_results_are_counted() -> None:
    reading = ResultReader(SET).read([[("a", 1.0), ("zzz", 9.0), ("a", 3.0), ("b", 2.0)], []], 3)
    assert reading.rankings.indices.tolist() == [[0, 1, -1], [-1, -1, -1]]
    assert reading.rankings.scores.tolist() == [[3.0, 2.0, -np.inf], [-np.inf] * 3]
    assert reading.notes() == {"depth": 4, "unknown_passages": 1, "unknown_example": "zzz", "repeated": 1}


def test_ties_are_in_the_order_of_the_corpus_also_when_float32_makes_them() -> None:
    assert rows_and_scores([("b", 1.0), ("a", 1.0 - 1e-12)]) == [(0, 1.0), (1, 1.0)]


def test_distances_are_noticed_and_the_order_can_be_kept() -> None:
    distances = [("b", 0.1), ("a", 0.4)]
    reading = ResultReader(SET).read([distances], 3)
    assert reading.notes()["rising_scores"] == 1
    assert reading.rankings.indices[0].tolist() == [0, 1, -1]
    assert rows_and_scores(distances, order="rank") == [(1, 0.0), (0, -1.0)]


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 1e300, "high", True, [1]])
def test_a_score_that_is_no_finite_number_is_refused(score: object) -> None:
    with pytest.raises(OutsideError, match="not a finite number") as error:
        rows_and_scores([("a", score)])
    assert error.value.code == "outside_score"


@pytest.mark.parametrize("results", [None, "a", 3, b"a", [None], [{}], [object()], [1.5], {"a": "b"}, [("a", 1, 2)]])
def test_an_unknown_form_is_refused(results: object) -> None:
    with pytest.raises(OutsideError) as error:
        rows_and_scores(results)
    assert error.value.code == "outside_results"
