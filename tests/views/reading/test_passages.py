import math

import numpy as np
import pytest

from reading.extractive import summed
from tests.reading.doubles import SET
from views.reading.evaluation import probability
from views.reading.passages import answer_of, read_column, reason, spanned


def test_the_span_of_the_highest_sum_is_taken() -> None:
    spans = [[(3, 5, -0.5)], [(3, 5, -0.2), (6, 8, -3.0)]]
    column = read_column("a", [0, 1], [9.0, 5.0], spans, relevant={0}, weight=0.5, unit=4.0)
    assert [one.total for one in column.passages] == pytest.approx([-0.5, -0.2 - 0.5 * 4 / 4])
    assert (column.won, column.right, column.below(1)) == (0, 0, 1.0)
    assert answer_of(column, SET) == SET.passages[0].text[3:5]
    unweighed = read_column("a", [0, 1], [9.0, 5.0], spans, relevant={0}, weight=0.0, unit=4.0)
    assert unweighed.won == 1
    assert answer_of(unweighed, SET) == SET.passages[1].text[3:5]


def test_the_sum_is_that_of_the_evaluation() -> None:
    found, scores = np.array([[3.0, 1.0, -np.inf]]), np.array([[-1.0, -0.1, -np.inf]])
    spans = [[(0, 1, -1.0)], [(0, 1, -0.1)], []]
    column = read_column("a", [0, 1, 2], found[0].tolist(), spans, relevant=(), weight=2.0, unit=3.0)
    assert [one.total for one in column.passages] == summed(scores, found, 2.0, 3.0)[0].tolist()
    assert column.right == -1


def test_passages_without_a_span_say_nothing() -> None:
    column = read_column("a", [0, 1], [2.0, 1.0], [[], []], relevant={0}, weight=0.0, unit=1.0)
    assert (column.won, column.read, answer_of(column, SET)) == (-1, False, "")
    assert reason(column, SET) == ""
    assert read_column("a", [], [], [], relevant={0}, weight=0.0, unit=1.0).won == -1


def test_the_excerpt_shows_the_best_span_wherever_the_others_are() -> None:
    text = "가" * 400 + "최고" + "나" * 400 + "차선" + "다" * 50
    marked = spanned(text, [(400, 402), (802, 804)])
    start, end = marked.excerpt
    assert start <= 400
    assert end >= 402
    assert end < 802
    pieces = marked.pieces(0, len(text))
    assert [piece for piece, best, _ in pieces if best] == ["최고"]
    assert [piece for piece, _, second in pieces if second] == ["차선"]


def test_a_small_probability_is_not_told_as_none() -> None:
    assert probability(math.log(0.31)) == "0.31"
    assert probability(-20.0) == "< 0.01"
    assert probability(0.0) == "1.00"
