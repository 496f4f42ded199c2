"""Seconds from starting the server to the first page's content, and what the server has imported by then."""

import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.app import opened_page, running_app


def measure() -> list[str]:
    """Start the app with an empty workspace and open it in Chromium; returns lines of a report."""
    with tempfile.TemporaryDirectory() as folder, opened_page() as page:
        start = time.perf_counter()
        with running_app(Path(folder)) as app:
            app.wait()
            page.goto(app.address)
            page.wait_for_selector("h1", timeout=60_000)
            seconds = time.perf_counter() - start
            torch = any("torch" in Path(m.path).parts for m in psutil.Process(app.pid).memory_maps())
    return [
        f"first page ready {seconds:.1f} s after the server's start   (wanted: within 4)",
        f"torch imported by the server: {'yes' if torch else 'no'}   (wanted: no)",
    ]
