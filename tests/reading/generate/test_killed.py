"""kill -9 in the middle of a batch: what was answered is kept, and asked of nobody again."""

import os
import signal
import threading
from collections import Counter
from pathlib import Path

import psutil
import pytest

from data.workspace import workspace
from jobs.detached import detached
from jobs.machine import Process
from reading.generate import generate
from tests.chat_server import KEY, ChatServer, chat_server
from tests.reading.generate.cities import CITIES, GENERATOR, REQUESTS, asked_of, right

pytestmark = pytest.mark.slow


def begun(server: ChatServer, monkeypatch: pytest.MonkeyPatch, log: Path, concurrency: int) -> Process:
    monkeypatch.setenv("OPENAI_BASE_URL", server.address)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return detached("tests.reading.generate.cities", concurrency, log=log)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_killed_batch_goes_on_without_asking_anything_again(
    concurrency: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed while the server still thinks about one question for each of its threads: those alone come again."""
    held, reached, killed = CITIES[4 : 4 + concurrency], threading.Semaphore(0), threading.Event()

    def reply(text: str) -> str:
        if asked_of(text) in held and not killed.is_set():
            reached.release()
            killed.wait(30)
        return right(text)

    with chat_server(reply) as server:
        process = begun(server, monkeypatch, tmp_path / "log", concurrency)
        for _ in held:
            assert reached.acquire(timeout=60), (tmp_path / "log").read_text()
        assert KEY not in " ".join(psutil.Process(process.pid).cmdline())
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
        killed.set()
        first = Counter(asked_of(text) for text in server.texts)
        known = generate(GENERATOR, REQUESTS, None)
        assert len(known.answers) == len(first) - concurrency >= 4
        begun(server, monkeypatch, tmp_path / "log", concurrency).wait(60)
        assert Counter(asked_of(text) for text in server.texts) == Counter(CITIES) + Counter(held)
    found = generate(GENERATOR, REQUESTS, None)
    assert (len(found.answers), found.left) == (10, 0)
    written = [path for path in (*workspace().rglob("*"), tmp_path / "log") if path.is_file()]
    assert all(KEY.encode() not in path.read_bytes() for path in written)
