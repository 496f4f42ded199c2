"""Spans and selected answers of the Ask tab, and streamed answers of language models: limits, ends and escaping."""

import math
import re
import threading
import time
from collections.abc import Generator

import numpy as np
import pytest

from mrc_workbench.labs.reading.extractive import combined_scores
from mrc_workbench.labs.reading.generator import GeneratedAnswer
from mrc_workbench.labs.reading.pages.ask import _follow_stream, answer_html
from mrc_workbench.labs.reading.pages.evaluation import Weight, format_probability
from mrc_workbench.labs.reading.pages.passages import build_column, explain_selection, mark_spans, selected_answer
from mrc_workbench.models.llm import EndpointError, Usage
from mrc_workbench.models.llm_connection import stopped_call
from mrc_workbench.workbench.views.ui.words import plain
from tests.labs.reading.doubles import SET

ANSWER = GeneratedAnswer("한강", Usage(None, None, 0.0, 0.0), (), refused=False)
HOSTILE = (
    *("<script>alert(1)</script>", "<img src=http://a onerror=alert(1)>", "<svg/onload=alert(1)>", "![a](http://a)"),
    *("[a](javascript:alert(1))", "$x^2$", ":material/home:", "**굵게**", "`a`", "[<b>](http://a) [1]<i>[2]"),
)


class Container:
    """Records texts; raises `KeyboardInterrupt` after `max_texts`, as if the user left the page."""

    def __init__(self, max_texts: int = 10**9) -> None:
        self.texts = list[str]()
        self._max_texts = max_texts

    def markdown(self, text: str) -> None:
        if len(self.texts) == self._max_texts:
            raise KeyboardInterrupt
        self.texts.append(text)


class Stream:
    """Yields a piece until stopped."""

    def __init__(self, piece: str, max_pieces: int = 10**9) -> None:
        self.piece = piece
        self.max_pieces = max_pieces
        self.ended = threading.Event()
        self.closed = threading.Event()

    def stop(self) -> None:
        self.ended.set()

    def pieces(self) -> Generator[str, None, GeneratedAnswer]:
        try:
            for _ in range(self.max_pieces):
                if self.ended.wait(0.0001):
                    raise stopped_call()
                yield self.piece
            return ANSWER
        finally:
            self.closed.set()


def follow_stream(container: Container, stream: Stream) -> GeneratedAnswer:
    return _follow_stream(container, stream, stream.pieces())  # type: ignore[arg-type]


@pytest.mark.slow
def test_truncates_streamed_text() -> None:
    container = Container(6)
    stream = Stream("홍수 " * 5000)
    with pytest.raises(KeyboardInterrupt):
        follow_stream(container, stream)
    assert max(map(len, container.texts)) < 2100
    assert container.texts[-1].startswith("… ")
    assert stream.closed.wait(5), "the stream continues without a listener"


def test_shows_end_of_stream_and_returns_answer() -> None:
    container = Container()
    stream = Stream("흐르는 강 ", 3000)
    assert follow_stream(container, stream) is ANSWER
    assert container.texts[-1].endswith("흐르는 강 ")
    assert stream.ended.is_set()


def test_raises_failure_of_stream() -> None:
    stream = Stream("강")
    stream.ended.set()
    with pytest.raises(EndpointError):
        follow_stream(Container(), stream)


def test_truncates_long_answer() -> None:
    answer = answer_html("강 [1] " * 100_000, "a", 3)
    assert answer.endswith(" …</p>")
    assert answer.count("<a ") < 5000


@pytest.mark.parametrize("response", HOSTILE)
def test_escapes_model_output(response: str) -> None:
    container = Container()
    displayed_text = plain(response)

    def pieces() -> Generator[str, None, GeneratedAnswer]:
        yield response
        until = time.monotonic() + 10
        while displayed_text not in container.texts and time.monotonic() < until:
            time.sleep(0.01)
        return ANSWER

    assert _follow_stream(container, Stream(response), pieces()) is ANSWER  # type: ignore[arg-type]
    assert {text for text in container.texts if not text.startswith(":gray[")} == {displayed_text}
    assert not re.search(r"(?<!\\)[<*`$\[:]", displayed_text)
    answer = answer_html(response, 'a"><b>', 1)
    assert set(re.findall(r"<(/?\w+)", answer)) <= {"p", "/p", "a", "/a"}
    links = re.findall(r'href="([^"]*)"', answer)
    assert links == ["#a&quot;&gt;&lt;b&gt;-1"] * len(links)


def test_selects_span_with_highest_combined_score() -> None:
    spans = [[(3, 5, -0.5)], [(3, 5, -0.2), (6, 8, -3.0)]]
    column = build_column("a", [0, 1], [9.0, 5.0], spans, relevant={0}, weight=Weight(0.5, 4.0))
    assert [passage.combined_score for passage in column.passages] == pytest.approx([-0.5, -0.2 - 0.5 * 4 / 4])
    assert (column.selected_index, column.relevant_index, column.units_below_best(1)) == (0, 0, 1.0)
    assert selected_answer(column, SET) == SET.passages[0].text[3:5]
    unweighed = build_column("a", [0, 1], [9.0, 5.0], spans, relevant={0}, weight=Weight(0.0, 4.0))
    assert unweighed.selected_index == 1
    assert selected_answer(unweighed, SET) == SET.passages[1].text[3:5]


def test_combined_score_matches_evaluation() -> None:
    retrieval_scores = np.array([[3.0, 1.0, -np.inf]])
    scores = np.array([[-1.0, -0.1, -np.inf]])
    spans = [[(0, 1, -1.0)], [(0, 1, -0.1)], []]
    column = build_column("a", [0, 1, 2], retrieval_scores[0].tolist(), spans, relevant=(), weight=Weight(2.0, 3.0))
    expected = combined_scores(scores, retrieval_scores, 2.0, 3.0)[0].tolist()
    assert [passage.combined_score for passage in column.passages] == expected
    assert column.relevant_index == -1


def test_no_answer_without_spans() -> None:
    column = build_column("a", [0, 1], [2.0, 1.0], [[], []], relevant={0}, weight=Weight(0.0, 1.0))
    assert (column.selected_index, column.is_read, selected_answer(column, SET)) == (-1, False, "")
    assert explain_selection(column, SET) == ""
    assert build_column("a", [], [], [], relevant={0}, weight=Weight(0.0, 1.0)).selected_index == -1


def test_excerpt_shows_best_span() -> None:
    text = "가" * 400 + "최고" + "나" * 400 + "차선" + "다" * 50
    marked = mark_spans(text, [(400, 402), (802, 804)])
    start, end = marked.excerpt
    assert start <= 400
    assert end >= 402
    assert end < 802
    pieces = marked.pieces(0, len(text))
    assert [piece for piece, best, _ in pieces if best] == ["최고"]
    assert [piece for piece, _, second in pieces if second] == ["차선"]


def test_formats_small_probability() -> None:
    assert format_probability(math.log(0.31)) == "0.31"
    assert format_probability(-20.0) == "< 0.01"
    assert format_probability(0.0) == "1.00"
