"""What is read in passages and whose span is taken; and a language model's answer while it comes: drawn within bounds
however much comes, and ended with whoever waits."""

import math
import re
import threading
import time
from collections.abc import Generator

import numpy as np
import pytest

from mrc_workbench.labs.reading.extractive import summed
from mrc_workbench.labs.reading.generator import GeneratedAnswer
from mrc_workbench.labs.reading.pages.ask import _followed, answer_html
from mrc_workbench.labs.reading.pages.evaluation import probability
from mrc_workbench.labs.reading.pages.passages import answer_of, read_column, reason, spanned
from mrc_workbench.models.llm import EndpointError, Usage
from mrc_workbench.models.llm_connection import hung_up
from mrc_workbench.workbench.views.ui.words import plain
from tests.labs.reading.doubles import SET

ANSWER = GeneratedAnswer("한강", Usage(None, None, 0.0, 0.0), (), refused=False)
HOSTILE = (
    *("<script>alert(1)</script>", "<img src=http://a onerror=alert(1)>", "<svg/onload=alert(1)>", "![a](http://a)"),
    *("[a](javascript:alert(1))", "$x^2$", ":material/home:", "**굵게**", "`a`", "[<b>](http://a) [1]<i>[2]"),
)


class Place:
    """What is drawn in it; whoever waits goes away after so much was."""

    def __init__(self, most: int = 10**9) -> None:
        self.drawn, self._most = list[str](), most

    def markdown(self, text: str) -> None:
        if len(self.drawn) == self._most:
            raise KeyboardInterrupt
        self.drawn.append(text)


class Line:
    """Says something until it is stopped."""

    def __init__(self, said: str, most: int = 10**9) -> None:
        self.said, self.most, self.ended, self.left = said, most, threading.Event(), threading.Event()

    def stop(self) -> None:
        self.ended.set()

    def pieces(self) -> Generator[str, None, GeneratedAnswer]:
        try:
            for _ in range(self.most):
                if self.ended.wait(0.0001):
                    raise hung_up()
                yield self.said
            return ANSWER
        finally:
            self.left.set()


def followed(place: Place, line: Line) -> GeneratedAnswer:
    return _followed(place, line, line.pieces())  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_flood_is_drawn_in_small_pieces() -> None:
    place, line = Place(6), Line("홍수 " * 5000)
    with pytest.raises(KeyboardInterrupt):
        followed(place, line)
    assert max(map(len, place.drawn)) < 2100
    assert place.drawn[-1].startswith("… ")
    assert line.left.wait(5), "nobody listens, and it goes on"


def test_the_end_of_what_comes_is_seen_and_the_answer_returned() -> None:
    place, line = Place(), Line("흐르는 강 ", 3000)
    assert followed(place, line) is ANSWER
    assert place.drawn[-1].endswith("흐르는 강 ")
    assert line.ended.is_set()


def test_a_failure_is_raised_where_it_is_waited_for() -> None:
    line = Line("강")
    line.ended.set()
    with pytest.raises(EndpointError):
        followed(Place(), line)


def test_an_answer_without_bounds_is_cut() -> None:
    found = answer_html("강 [1] " * 100_000, "a", 3)
    assert found.endswith(" …</p>")
    assert found.count("<a ") < 5000


@pytest.mark.parametrize("said", HOSTILE)
def test_what_a_model_says_is_text_while_it_comes_and_then(said: str) -> None:
    place, shown = Place(), plain(said)

    def pieces() -> Generator[str, None, GeneratedAnswer]:
        yield said
        until = time.monotonic() + 10
        while shown not in place.drawn and time.monotonic() < until:
            time.sleep(0.01)
        return ANSWER

    assert _followed(place, Line(said), pieces()) is ANSWER  # type: ignore[arg-type]
    assert {one for one in place.drawn if not one.startswith(":gray[")} == {shown}
    assert not re.search(r"(?<!\\)[<*`$\[:]", shown)
    found = answer_html(said, 'a"><b>', 1)
    assert set(re.findall(r"<(/?\w+)", found)) <= {"p", "/p", "a", "/a"}
    links = re.findall(r'href="([^"]*)"', found)
    assert links == ["#a&quot;&gt;&lt;b&gt;-1"] * len(links)


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
