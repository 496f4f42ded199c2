"""Seconds from starting the server to the first page's content, and what the server has imported by then."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from playwright.sync_api import sync_playwright

_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def measure() -> list[str]:
    """Start the app with an empty workspace and open it in Chromium; returns lines of a report."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = next((found for name in _CHROMIUM if (found := shutil.which(name))), None)
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        environment = {**os.environ, "MRC_WORKSPACE": folder, "STREAMLIT_SERVER_HEADLESS": "true"}
        command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
        start = time.perf_counter()
        server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _open(page, f"http://localhost:{port}", start)
            seconds = time.perf_counter() - start
            torch = any("torch" in Path(m.path).parts for m in psutil.Process(server.pid).memory_maps())
        finally:
            server.terminate()
            server.wait(10)
            browser.close()
    return [
        f"first page ready {seconds:.1f} s after the server's start   (wanted: within 4)",
        f"torch imported by the server: {'yes' if torch else 'no'}   (wanted: no)",
    ]


def _open(page: object, address: str, start: float) -> None:
    while time.perf_counter() - start < 60:
        try:
            page.goto(address)  # type: ignore[attr-defined]
            page.wait_for_selector("h1", timeout=30_000)  # type: ignore[attr-defined]
        except Exception:
            time.sleep(0.05)  # the server does not listen yet
        else:
            return
    raise TimeoutError(f"{address} showed no page within a minute")
