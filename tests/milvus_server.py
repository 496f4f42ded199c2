"""Milvus Lite as a local server in a subprocess."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.programs import free_port


@contextmanager
def serving(folder: Path, port: int | None = None) -> Iterator[str]:
    """Serve a folder until the block ends; yields the address once the server answers."""
    port = port or free_port()
    command = [sys.executable, "-m", "milvus_lite", "server", "--data-dir", str(folder)]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 60
        while not _answers(port):
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0
