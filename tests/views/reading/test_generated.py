"""A language model's answer while it comes: drawn within bounds however much comes, and ended with whoever waits."""

import re
import threading
import time
from collections.abc import Generator

import pytest

from chat.asking import EndpointError, hung_up
from chat.endpoint import Usage
from reading.generate.generator import GeneratedAnswer
from views.reading.ask import _followed, answer_html
from views.ui.words import plain

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
