"""Seconds of a first visit, from the browser's call on, and of a second one: heading, BM25's figures, everything.

Everything is there once the figures of all are, and the page is drawn to its end: charts, the question they disagree on
and its reasons.
What the server begins before a browser calls is begun in the seconds until it is healthy, which are told as well.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from playwright.sync_api import Page

from benchmarks.app.app import opened_page, running_app

_VISITS = 5
_PATIENCE = 120.0  # seconds
_SECONDS_BETWEEN_LOOKS = 0.1
BM25_FIGURES = "canvas [role=gridcell]:text-matches('^[0-9]+[.][0-9]+$')"
EVERYTHING = "[data-test-script-state=notRunning] button:has-text('Run again'):enabled"
_SEEN = {
    "the heading (wanted: 3)": "h1",
    "BM25's figures (wanted: 5)": BM25_FIGURES,
    "everything (wanted: 15)": EVERYTHING,
}


_SECOND = "everything, the second visit (wanted: 3.5)"
_HEALTHY = "the server is healthy, from its start"


def measure() -> list[str]:
    """Visit a new workspace in a new server and a new Chromium, a few times, and each once more; returns a report."""
    visits: list[dict[str, float]] = []
    for _ in range(_VISITS):
        with tempfile.TemporaryDirectory() as folder:
            first, second = _visit(Path(folder)), _visit(Path(folder))
        visits.append(first | {_SECOND: [*second.values()][-1]})
    lines = [f"| seen so long after the browser's call | seconds | in {_VISITS} visits |", "|---|---:|---:|"]
    return lines + [_row(name, [visit[name] for visit in visits]) for name in visits[0]]


def _visit(workspace: Path) -> dict[str, float]:
    """Seconds until each is seen in a server and a browser of their own."""
    with opened_page() as page:
        started = time.perf_counter()
        with running_app(workspace) as app:
            app.wait()
            began = time.perf_counter()
            seconds = {_HEALTHY: began - started}
            page.goto(app.address)
            for name, selector in _SEEN.items():
                seconds[name] = seen(page, selector) - began
    return seconds


def seen(page: Page, selector: str) -> float:
    """Return when it was seen. The browser is asked ten times a second: asked at every frame, it would do little else.

    Raises `TimeoutError`.
    """
    end = time.perf_counter() + _PATIENCE
    while (now := time.perf_counter()) < end:
        if page.query_selector(selector):
            return now
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    raise TimeoutError(selector)


def _row(name: str, seconds: Sequence[float]) -> str:
    return f"| {name} | {median(seconds):.1f} | {min(seconds):.1f} to {max(seconds):.1f} |"
