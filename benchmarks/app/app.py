"""Start the app, open it in Chromium, and visit it without a browser.

A visit without a browser opens a page over the app's WebSocket and waits for its end. It measures the server only: the
run of the script and the transmission of its output.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import psutil
from playwright.sync_api import Browser, Page, sync_playwright
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

_CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
_TIMEOUT = 60.0  # seconds


@dataclass(frozen=True)
class RunningApp:
    """The server's address and process id."""

    address: str
    pid: int

    def wait(self) -> None:
        """Wait until the server is healthy. Raises `TimeoutError` after a minute."""
        start = time.perf_counter()
        while time.perf_counter() - start < _TIMEOUT:
            try:
                urllib.request.urlopen(f"{self.address}/_stcore/health", timeout=2).read()  # noqa: S310 - our own address
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise TimeoutError(self.address)


@contextmanager
def running_app(workspace: Path, script: Path = Path("app.py")) -> Iterator[RunningApp]:
    """Run the app, or another `script`, with this workspace until the block ends."""
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
        process.suspend()  # so that it does not restart the jobs of an open page
        for job in process.children(recursive=True):  # they would run during the next measurement
            with suppress(psutil.NoSuchProcess):
                job.kill()
        server.kill()
        server.wait()


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """Run a new Chromium until the block ends."""
    path = next((executable for name in _CHROMIUM if (executable := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@contextmanager
def opened_page() -> Iterator[Page]:
    """Open an empty page of a new Chromium, in English."""
    with opened_browser() as browser:
        yield browser.new_page(locale="en-US", viewport={"width": 1280, "height": 1000})


def visits(address: str, page: str, query: str, count: int = 1) -> list[float]:
    """Open a page of the app ("data") with a query ("view=why") in `count` new sessions at once.

    Returns the seconds of each until the page is complete. Raises `TimeoutError` after a minute.
    """
    return asyncio.run(_visits(address, page, query, count))


async def _visits(address: str, page: str, query: str, count: int) -> list[float]:
    socket = f"{address.replace('http', 'ws', 1)}/_stcore/stream"
    async with AsyncExitStack() as stack, asyncio.timeout(_TIMEOUT):
        opened = [
            await stack.enter_async_context(connect(socket, subprotocols=[Subprotocol("streamlit")], max_size=None))
            for _ in range(count)
        ]
        return list(await asyncio.gather(*(_visit(connection, page, query) for connection in opened)))


async def _visit(connection: ClientConnection, page: str, query: str) -> float:
    request = BackMsg()
    request.rerun_script.query_string = query
    request.rerun_script.page_name = page
    request.rerun_script.context_info.locale = "en-US"
    start = perf_counter()
    await connection.send(request.SerializeToString())
    while not _is_script_finished(await connection.recv()):
        pass
    return perf_counter() - start


def _is_script_finished(content: str | bytes) -> bool:
    """Return whether a message reports the end of the script; a run that is interrupted is followed by another."""
    message = ForwardMsg.FromString(content if isinstance(content, bytes) else content.encode())
    return (message.WhichOneof("type"), message.script_finished) == (
        "script_finished",
        ForwardMsg.FINISHED_SUCCESSFULLY,
    )
