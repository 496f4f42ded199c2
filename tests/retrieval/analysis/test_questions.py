import numpy as np
import pandas as pd
import pytest

from data.audit import word_overlap
from data.records import Passage, Question, QuestionSet
from retrieval.analysis.questions import (
    band_counts,
    findings_of,
    most_disputed,
    most_unlike,
    question_table,
    rows_in_all,
    rows_with_text,
    same_article,
    spread,
)
from retrieval.comparison.compare import Comparison, Result
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.first_stage import BM25Spec
from retrieval.rankings import Findings, Rankings
from tests.doubles import QUESTIONS, small_set

RANKS = np.array([[1, 1, 4], [1, 6, 1], [3, 0, 100], [0, 0, 0], [12, 1, 2], [1, 1, 0]])


def test_questions_of_each_band_by_hand() -> None:
    # bands: 1, 2-5, 6-10, 11-20, 21-50, 51-100, deeper or not found
    assert band_counts(RANKS).tolist() == [[3, 1, 0, 1, 0, 0, 1], [3, 0, 1, 0, 0, 0, 2], [1, 2, 0, 0, 0, 1, 2]]


def test_the_most_unlike_is_the_one_that_disagrees_most_often() -> None:
    # first 1: rows 0 1 5 against 0 4 5 and 1, so 2 and 2 apart: the first of those that tie
    assert most_unlike(RANKS, 0, 1) == 1
    # first 10: rows 0 1 4 5 against 0 1 2 5 and 0 1 4, so 2 and 1 apart
    assert most_unlike(RANKS, 1, 10) == 0
    # the third's rows 0 1 4 against 0 1 2 5 and 0 1 4 5: 3 and 1 apart
    assert most_unlike(RANKS, 2, 10) == 0
    assert most_unlike(RANKS[:, :1], 0, 5) == 0


def test_the_spread_counts_what_was_not_found_as_one_past_the_last() -> None:
    expected = np.log([4 / 1, 6 / 1, 101 / 3, 1, 12 / 1, 101 / 1])
    np.testing.assert_allclose(spread(RANKS, 100), expected)
    # no deeper than 10: ranks 100 and 12 are 11
    np.testing.assert_allclose(spread(RANKS, 10), np.log([4, 6, 11 / 3, 1, 11, 11]))


def rankings(*rows: list[int]) -> Rankings:
    indices = np.array(rows, dtype=np.int32)
    scores = np.where(indices >= 0, 10.0 - np.arange(indices.shape[1]), -np.inf)
    return Rankings(indices, scores.astype(np.float32))


def test_the_most_disputed_question_leads_the_table() -> None:
    asked = small_set()
    ranks = np.array([[1, 1], [2, 0], [1, 3], [0, 0], [5, 1], [1, 1]])
    table = question_table(asked, ranks, ("A", "B"), 5)
    assert list(table.columns) == ["id", "question", "kind", "rank_0", "rank_1", "overlap"]
    # spreads: 0, log 3, log 3, 0, log 5, 0
    assert table.index.tolist() == [4, 1, 2, 0, 3, 5]
    assert table["id"].tolist() == [asked.questions[row].id for row in table.index]
    assert table.loc[1, "rank_0"] == 2
    assert pd.isna(table.loc[1, "rank_1"])
    assert pd.isna(table.loc[3, "rank_0"])
    np.testing.assert_array_equal(table["overlap"], word_overlap(asked)[table.index])


def test_it_begins_as_the_examples_of_the_search_page_do() -> None:
    asked = small_set()
    first = rankings(*[[0, 1, 2, 3, 4]] * 6)
    second = rankings(*[[4, 3, 2, 1, 0]] * 6)
    ranks = np.array([[1, 5], [2, 4], [3, 3], [4, 2], [5, 1], [2, 3]])
    table = question_table(asked, ranks, ("A", "B"), 5)
    assert set(table.index[:2]) == set(most_disputed([first, second], asked, 2)) == {0, 4}


@pytest.mark.parametrize(
    ("text", "rows"), [("한강", [1, 2, 5]), (" 설악산 ", [3]), ("q5", [4]), ("Q5", [4]), ("q", []), ("없는 말", [])]
)
def test_questions_are_found_by_words_answers_and_whole_ids(text: str, rows: list[int]) -> None:
    assert rows_with_text(small_set(), text).tolist() == rows


def test_filters_are_all_kept_to() -> None:
    assert rows_in_all(4, []).tolist() == [True] * 4
    assert rows_in_all(4, [np.array([0, 2, 3]), np.array([3, 1, 2])]).tolist() == [False, False, True, True]
    assert not rows_in_all(4, [np.array([], dtype=int)]).any()


def test_findings_are_the_kept_rankings() -> None:
    experiment = Experiment(data="x", retriever=(BM25Spec(name="A"), BM25Spec(name="B")))
    found = rankings([2, 0, -1], *[[1, -1, -1]] * 5)
    compared = Comparison(experiment, small_set(), (Result("A", found), Result("B", error=ValueError("no"))))
    assert findings_of(compared, 0) == {"A": Findings((2, 0), (10.0, 9.0))}
    assert findings_of(compared, 3) == {"A": Findings((1,), (10.0,))}


def test_confusers_are_of_the_same_article_and_do_not_answer() -> None:
    passages = (
        Passage("a1", "one", "A"),
        Passage("a2", "two", "A"),
        Passage("b1", "three", "B"),
        Passage("n1", "four"),
        Passage("n2", "five"),
        Passage("b2", "six", "B"),
    )
    questions = (
        Question("q1", "?", (), ("a1",)),
        Question("q2", "?", (), ("a1", "a2")),
        Question("q3", "?", (), ("n1",)),
        Question("q4", "?", (), ("a2", "b2")),
    )
    asked = QuestionSet("articles", passages, questions)
    assert [same_article(asked, row) for row in range(4)] == [{1}, frozenset(), frozenset(), {0, 2}]
    assert len(QUESTIONS) == 6
