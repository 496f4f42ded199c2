"""The progress of a running comparison: displayed times of retrievers add up to the displayed total."""

import re

import pytest
import streamlit as st
from hypothesis import given
from hypothesis import strategies as some

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.retrieval.comparison.store import FinishedRetriever
from mrc_workbench.workbench.views.compare.running import progress_rows, state_words, total_left, total_words

NAMES = ("BM25", "Dense", "Late", "Best mix")
DONE = {"BM25": FinishedRetriever(finished="BM25", figures={"recall@1": 0.5}, questions=6)}
UNITS = {"h": 3600, "min": 60, "s": 1}


@pytest.fixture(autouse=True)
def _in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "query_params", {"lang": "en"})


def status_at(phase: str, **left: float | None) -> Status:
    return Status(State.RUNNING, phase, parts_left=tuple(left.items()))


def seconds_in(text: str) -> int:
    """Return the seconds of a displayed duration."""
    duration_text = text.partition("about ")[2]
    return sum(int(count) * UNITS[unit] for count, unit in re.findall(r"(\d+) (h|min|s)\b", duration_text))


def test_shows_state_and_time_of_each_retriever() -> None:
    status = status_at("Dense", BM25=0.0, Dense=65.2, Late=130.4, **{"Best mix": 2.0})
    rows = progress_rows(NAMES, status, DONE)
    waiting = ["waiting, about 2 min 10 s", "waiting, about 2 s"]
    assert state_words(rows) == ["done", "searching, about 1 min 5 s", *waiting]
    assert total_words("Searching with Dense", rows) == "Searching with Dense · about 3 min 17 s left in total"

    # an unknown time hides only the total
    rows = progress_rows(NAMES, status_at("Dense", Dense=65.0, Late=None), DONE)
    assert state_words(rows) == ["done", "searching, about 1 min 5 s", "waiting", "waiting"]
    assert total_words("Searching with Dense", rows) == "Searching with Dense"
    failed = {"BM25": FinishedRetriever(finished="BM25", failed=True)}
    assert state_words(progress_rows(["BM25"], status_at("Dense"), failed)) == ["failed"]


def test_ignores_reported_time_of_finished_retriever() -> None:
    """A job writes the result of a retriever before its status names the next one."""
    rows = progress_rows(NAMES[:2], status_at("BM25", BM25=30.0, Dense=60.0), DONE)
    assert [row.state for row in rows] == ["done", "waiting"]
    assert total_left(rows) == 60
    assert total_left(progress_rows(NAMES[:1], status_at("BM25", BM25=30.0), DONE)) is None


@given(some.lists(some.floats(0.0, 20_000.0), min_size=1, max_size=6))
def test_displayed_times_add_up_to_displayed_total(left: list[float]) -> None:
    names = [f"r{number}" for number in range(len(left))]
    status = status_at(names[0], **dict(zip(names, left, strict=True)))
    rows = progress_rows(names, status, {})
    assert sum(map(seconds_in, state_words(rows))) == seconds_in(total_words("Searching", rows))
