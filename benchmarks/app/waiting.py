"""Measure waiting times of a new user: `python -m benchmarks first_page first_visit own_set`.

A visit ends when the metrics of all retrievers are complete and the page is rendered, with charts, the question that
the retrievers disagree on, and the reasons. The server starts some work before the first request, so its seconds until
it is healthy are reported as well. `own_set` uploads 1,400 passages, halves of KorQuAD's paragraphs, each with a
question that it answers, and compares the displayed time left with the actual time.
"""

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil
from playwright.sync_api import Page

from benchmarks.app.app import opened_page, running_app
from benchmarks.synthetic_data import korquad
from mrc_workbench.data.workspace import read_json

_STARTS = 5
_MINIMAL_APP = 'import streamlit\nstreamlit.title("One line")\n'


def first_page() -> list[str]:
    """Start the app and a one-line app alternately, each in a new Chromium; returns a Markdown table.

    The one-line app measures only the server, the browser and Streamlit.
    """
    ours = []
    minimal_app = []
    torch = False
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "one_line.py")
        script.write_text(_MINIMAL_APP, encoding="utf-8")
        for start in range(_STARTS):
            workspace = Path(folder, f"workspace_{start}")
            seconds, with_torch = _seconds(workspace, Path("app.py"))
            ours.append(seconds)
            torch |= with_torch
            minimal_app.append(_seconds(workspace, script)[0])
    return [
        f"| from server start until rendered | seconds | range of {_STARTS} starts |",
        "|---|---:|---:|",
        _row("the first page (target: 3)", ours),
        _row("a one-line app", minimal_app),
        "",
        f"The server has{'' if torch else ' not'} imported torch by then (target: not imported).",
    ]


def _seconds(workspace: Path, script: Path) -> tuple[float, bool]:
    """Return the seconds until the first page is rendered, and whether the server has imported torch by then."""
    with opened_page() as page:
        start = time.perf_counter()
        with running_app(workspace, script) as app:
            app.wait()
            page.goto(app.address)
            page.wait_for_selector("h1", timeout=60_000)
            seconds = time.perf_counter() - start
            torch = any("torch" in Path(m.path).parts for m in psutil.Process(app.pid).memory_maps())
    return seconds, torch


def _row(name: str, seconds: Sequence[float]) -> str:
    return f"| {name} | {median(seconds):.1f} | {min(seconds):.1f} to {max(seconds):.1f} |"


_VISITS = 5
_TIMEOUT = 120.0  # seconds
_POLL_SECONDS = 0.1
BM25_SCORES = "canvas [role=gridcell]:text-matches('^[0-9]+[.][0-9]+$')"
PAGE_COMPLETE = "[data-test-script-state=notRunning] button:has-text('Run again'):enabled"
_MILESTONES = {
    "the heading (target: 3)": "h1",
    "BM25's scores (target: 5)": BM25_SCORES,
    "everything (target: 15)": PAGE_COMPLETE,
}


_SECOND = "everything, the second visit (target: 3.5)"
_HEALTHY = "server is healthy (from its start)"


def first_visit() -> list[str]:
    """Visit new workspaces twice, with a new server and a new Chromium for each visit; returns a Markdown table."""
    visits: list[dict[str, float]] = []
    for _ in range(_VISITS):
        with tempfile.TemporaryDirectory() as folder:
            first = _visit(Path(folder))
            second = _visit(Path(folder))
        visits.append(first | {_SECOND: [*second.values()][-1]})
    lines = [f"| from the browser's request until visible | seconds | range of {_VISITS} visits |", "|---|---:|---:|"]
    return lines + [_row(name, [visit[name] for visit in visits]) for name in visits[0]]


def _visit(workspace: Path) -> dict[str, float]:
    """Return the seconds until each element appears, with a new server and a new browser."""
    with opened_page() as page:
        started = time.perf_counter()
        with running_app(workspace) as app:
            app.wait()
            began = time.perf_counter()
            seconds = {_HEALTHY: began - started}
            page.goto(app.address)
            for name, selector in _MILESTONES.items():
                seconds[name] = wait_until_visible(page, selector) - began
    return seconds


def wait_until_visible(page: Page, selector: str) -> float:
    """Return the time at which the element appears. Raises `TimeoutError`.

    The browser is polled ten times per second; polling each frame would slow it down.
    """
    end = time.perf_counter() + _TIMEOUT
    while (now := time.perf_counter()) < end:
        if page.query_selector(selector):
            return now
        time.sleep(_POLL_SECONDS)
    raise TimeoutError(selector)


_PASSAGES = 1400
# the time left is not checked in these seconds: it is unknown at the start and zero at the end
_FIRST_SECONDS = 5.0
_LAST_SECONDS = 3.0


class _TimeLeft(NamedTuple):
    """The time left in seconds that the page displays at this second; None if it displays none."""

    second: float
    left: float | None


def own_set() -> list[str]:
    """Visit a new workspace, upload a dataset, select it and compare; returns a report."""
    with tempfile.TemporaryDirectory() as folder, opened_page() as page, running_app(Path(folder) / "workspace") as app:
        path = Path(folder, "own.json")
        path.write_text(json.dumps(list(_rows()), ensure_ascii=False), encoding="utf-8")
        app.wait()
        page.goto(app.address)
        wait_until_visible(page, PAGE_COMPLETE)
        selected = _upload_and_select(page, f"{app.address}/data", path)
        page.get_by_role("link", name="Compare").first.click()
        estimates = list(_watch_time_left(page, Path(folder) / "workspace", selected, BM25_SCORES))
        first = time.perf_counter() - selected
        estimates += _watch_time_left(page, Path(folder) / "workspace", selected, PAGE_COMPLETE)
        total = time.perf_counter() - selected
    return _report(first, total, estimates)


def _rows() -> Iterator[dict[str, str]]:
    """Yield the first passages with one question each."""
    count = 0
    for article in json.loads(korquad().read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for half in _split_paragraph(paragraph):
                if count < _PASSAGES:
                    yield half | {"title": article["title"]}
                    count += 1


def _split_paragraph(paragraph: dict[str, Any]) -> Iterator[dict[str, str]]:
    text = paragraph["context"]
    middle = text.find(". ", len(text) // 2) + 1 or len(text)
    for start, end in ((0, middle), (middle, len(text))):
        for question in paragraph["qas"]:
            answer = question["answers"][0]
            if start <= answer["answer_start"] and answer["answer_start"] + len(answer["text"]) <= end:
                yield {"question": question["question"], "context": text[start:end].strip(), "answer": answer["text"]}
                break


def _upload_and_select(page: Page, address: str, path: Path) -> float:
    """Upload a file and select the dataset; returns the time of the click."""
    page.goto(address)
    page.locator("input[type=file]").set_input_files(path)
    use = "[data-test-script-state=notRunning] button:has-text('Use this dataset'):enabled"
    wait_until_visible(page, use)
    selected = time.perf_counter()
    page.locator(use).first.click()
    wait_until_visible(page, ":text('All pages now use')")
    return selected


def _watch_time_left(page: Page, workspace: Path, began: float, selector: str) -> Iterator[_TimeLeft]:
    """Yield the time left in the status of running comparisons, until an element appears."""
    while not page.query_selector(selector):
        for path in workspace.glob("comparisons/*/status.json"):
            status = read_json(path)
            if status.get("state") == "running":
                yield _TimeLeft(time.perf_counter() - began, status.get("seconds_left"))
        time.sleep(0.25)


def _report(first: float, total: float, estimates: list[_TimeLeft]) -> list[str]:
    evaluated = [
        estimate
        for estimate in estimates
        if estimate.second > _FIRST_SECONDS and total - estimate.second > _LAST_SECONDS
    ]
    known = [
        (estimate.second, estimate.left, total - estimate.second) for estimate in evaluated if estimate.left is not None
    ]
    errors = [abs(left - actual) / actual for _, left, actual in known]
    rises = [after - before for (_, before, _), (_, after, _) in pairwise(known)]
    displayed = (
        [min(known, key=lambda estimate: abs(estimate[0] - second)) for second in range(5, int(total), 5)]
        if known
        else []
    )
    return [
        f"BM25's scores appear {first:.1f} s after the dataset is selected (target: 6), "
        f"everything after {total:.1f} s.",
        "",
        "| second | displayed time left | actual time left |",
        "|---:|---:|---:|",
        *(f"| {second:.0f} | {left:.0f} | {actual:.0f} |" for second, left, actual in dict.fromkeys(displayed)),
        "",
        f"After second {_FIRST_SECONDS:.0f}, {len(known)} of {len(evaluated)} checks displayed a time. "
        f"Its error was at most {max(errors, default=0):.0%} (target: 33%), "
        f"and it rose by at most {max(0.0, *rises, 0.0):.1f} s.",
    ]
