"""What the renderer cannot take ends its own process, and costs one picture."""

import subprocess
import sys
from typing import Any

import pytest

from retrieval.report import drawing
from retrieval.report.drawing import draw

pytestmark = pytest.mark.slow


def bars(text: str) -> dict[str, Any]:
    return {
        "data": {"values": [{"name": text, "value": 1}]},
        "mark": "bar",
        "encoding": {"y": {"field": "name", "type": "nominal"}, "x": {"field": "value", "type": "quantitative"}},
    }


def test_no_text_ends_it() -> None:
    texts = ["\x01\x08\x0b\x0c\x1b[2J\x1f\ufffe\uffff", "\ud800", "\x00", "after"]
    drawn = [one or "" for one in draw([bars(text) for text in texts])]
    assert ["�" in one for one in drawn] == [True, True, True, False]
    assert ">after</text>" in drawn[3]


def test_the_process_ends_at_one_and_another_draws_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a character that the renderer does not survive."""
    monkeypatch.setattr(drawing, "_mended", lambda value: value)
    drawn = draw([bars("a"), bars("종류\x1b"), bars("b"), bars("c")])
    assert [one is not None for one in drawn] == [True, False, True, True]


def test_what_is_no_chart_is_no_picture() -> None:
    assert draw([{"mark": "none"}]) == [None]
    assert draw([]) == []


def test_a_renderer_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    run = subprocess.run

    def stuck(_: list[str], **more: Any) -> Any:
        return run([sys.executable, "-c", "import time; time.sleep(60)"], **more | {"timeout": 0.5})

    monkeypatch.setattr(subprocess, "run", stuck)
    assert draw([bars("a")]) == [None]
