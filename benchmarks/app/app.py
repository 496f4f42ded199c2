"""The app on a port of its own, and Chromium to look at it."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from playwright.sync_api import Browser, Page, sync_playwright

_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE = 60.0


@dataclass(frozen=True)
class RunningApp:
    """The server's address and process id, and how to wait until it answers."""

    address: str
    pid: int

    def wait(self) -> None:
        """Return once it is healthy. Raises `TimeoutError` after a minute."""
        start = time.perf_counter()
        while time.perf_counter() - start < _PATIENCE:
            try:
                urllib.request.urlopen(f"{self.address}/_stcore/health", timeout=2).read()  # noqa: S310 - our own address
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise TimeoutError(self.address)


@contextmanager
def running_app(workspace: Path, script: Path = Path("app.py")) -> Iterator[RunningApp]:
    """Start the app with this workspace, and end it afterwards; or start another `script` in its place."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port)]
    environment = {**os.environ, "MRC_WORKSPACE": str(workspace), "STREAMLIT_SERVER_HEADLESS": "true"}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield RunningApp(f"http://localhost:{port}", server.pid)
    finally:
        process = psutil.Process(server.pid)
        process.suspend()  # it would start again what an open page misses
        for job in process.children(recursive=True):  # they would go on beside what is measured next
            with suppress(psutil.NoSuchProcess):
                job.kill()
        server.kill()
        server.wait()


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """A new Chromium, ended afterwards."""
    path = next((found for name in _CHROMIUM if (found := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@contextmanager
def opened_page() -> Iterator[Page]:
    """An empty page of a new Chromium, in English."""
    with opened_browser() as browser:
        yield browser.new_page(locale="en-US", viewport={"width": 1280, "height": 1000})
