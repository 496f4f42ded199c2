"""Seconds of a first visit, from the browser's call on: the heading, BM25's row, and the whole comparison."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.app.app import opened_page, running_app

_VISITS = 3
_PATIENCE = 120_000  # milliseconds
_SEEN = {
    "the heading": "h1",
    "BM25's row (wanted: 4)": "canvas [role=gridcell]:text-is('BM25')",
    "everything (wanted: 20)": "button:has-text('Run again'):enabled, button:has-text('다시 실행'):enabled",
}


def measure() -> list[str]:
    """Visit a new workspace in a new server and a new Chromium, a few times; returns lines of a report."""
    visits: list[list[float]] = []
    for _ in range(_VISITS):
        with tempfile.TemporaryDirectory() as folder, opened_page() as page, running_app(Path(folder)) as app:
            app.wait()
            began = time.perf_counter()
            page.goto(app.address)
            seconds = []
            for selector in _SEEN.values():
                page.wait_for_selector(selector, timeout=_PATIENCE, state="attached")
                seconds.append(time.perf_counter() - began)
            visits.append(seconds)
    lines = [f"| seen so long after the browser's call | seconds | in {_VISITS} visits |", "|---|---:|---:|"]
    return lines + [_row(name, seconds) for name, seconds in zip(_SEEN, zip(*visits, strict=True), strict=True)]


def _row(name: str, seconds: Sequence[float]) -> str:
    return f"| {name} | {median(seconds):.1f} | {min(seconds):.1f} to {max(seconds):.1f} |"
