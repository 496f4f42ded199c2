"""Seconds from starting the server to the first page's content, and what the server has imported by then."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import psutil

from benchmarks.app.app import opened_page, running_app

_STARTS = 5
_ONE_LINE = 'import streamlit\nstreamlit.title("One line")\n'


def measure() -> list[str]:
    """Start the app and an app of one line in turns, each in a new Chromium; returns lines of a report.

    The app of one line is the floor: what the server, the browser and Streamlit's own page take on this machine.
    """
    ours, one_line, torch = [], [], False
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "one_line.py")
        script.write_text(_ONE_LINE, encoding="utf-8")
        for start in range(_STARTS):
            workspace = Path(folder, f"workspace_{start}")
            seconds, with_torch = _seconds(workspace, Path("app.py"))
            ours.append(seconds)
            torch |= with_torch
            one_line.append(_seconds(workspace, script)[0])
    return [
        f"| drawn so long after the server's start | seconds | in {_STARTS} starts |",
        "|---|---:|---:|",
        _row("the first page (wanted: 3)", ours),
        _row("an app of one line", one_line),
        "",
        f"The server has{'' if torch else ' not'} imported torch by then (wanted: not).",
    ]


def _seconds(workspace: Path, script: Path) -> tuple[float, bool]:
    """Seconds until the first page is drawn, and whether the server has imported torch by then."""
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
