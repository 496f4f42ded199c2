"""`mrc serve` as a process: argument checks, connection limits, and restarts under load without lost requests."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.workbench.cli import main
from mrc_workbench.workbench.serving.cli import KEY, read_key
from mrc_workbench.workbench.serving.protocol import RENAMED
from tests.milvus_server import serving
from tests.programs import forks, free_port, wait_for

EXPERIMENT = 'data = "sample"\n[[retriever]]\nname = "words"\nkind = "bm25"\nanalyzer = "word"\n'
QUESTION_BODY = json.dumps({"question": "자격루는 누가 만들었는가?", "k": 3})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "experiment.toml"
    path.write_text(EXPERIMENT, encoding="utf-8")
    return path


@contextmanager
def served(*words: object, listening: socket.socket | None = None) -> Iterator[BaseProcess]:
    process = forks().Process(target=_serve, args=(dict(os.environ), [*map(str, words)], listening))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _serve(environment: dict[str, str], words: list[str], listening: socket.socket | None) -> None:
    os.environ.update(environment)
    sys.exit(main(["serve", *words, *(["--fd", str(listening.detach())] if listening else [])]))


@contextmanager
def served_by_new_process(*words: object) -> Iterator[None]:
    command = [sys.executable, "-m", "mrc_workbench", "serve", *map(str, words)]
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def ask(port: int) -> int:
    """Search over a new connection; returns the status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/search", QUESTION_BODY, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert json.loads(answer.read())["results"][0]["hits"][0]["id"] == "p1"
        return answer.status
    finally:
        connection.close()


class Load:
    """Eight clients that repeat a search; counts successful requests and collects errors."""

    def __init__(self, port: int) -> None:
        self.answered = 0
        self.failed = list[Exception]()
        self._ends = threading.Event()
        self._port = port
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._ask) for _ in range(8)]
        for thread in self._threads:
            thread.start()

    def _ask(self) -> None:
        while not self._ends.is_set():
            try:
                assert ask(self._port) == 200
                with self._lock:
                    self.answered += 1
            except Exception as error:
                self.failed.append(error)
                time.sleep(0.02)

    def wait_for(self, more: int) -> None:
        until = time.monotonic() + 60
        target = self.answered + more
        while self.answered < target:
            assert time.monotonic() < until, self.failed[-3:]
            time.sleep(0.01)

    def end(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("handed_over", [True, False], ids=["socket", "port"])
def test_restart_under_load_loses_no_request(file: Path, handed_over: bool) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        port = listening.getsockname()[1] if handed_over else free_port()
        words, given = ((file,), listening) if handed_over else ((file, "--port", port), None)
        with served(*words, listening=given) as first:
            wait_for(f"http://127.0.0.1:{port}/healthz")
            load = Load(port)
            try:
                load.wait_for(200)
                first.terminate()
                first.join(30)
                assert first.exitcode in (0, -signal.SIGTERM)
                with served(*words, listening=given):
                    load.wait_for(200)
                    load.end()
            finally:
                load.end()
    if handed_over:  # the kernel queues new connections for the next process
        assert load.failed == []
    # with a port, connections are refused until the next process listens
    assert all(isinstance(error, ConnectionRefusedError | ConnectionResetError) for error in load.failed)
    assert not any(isinstance(error, http.client.RemoteDisconnected) for error in load.failed)


@pytest.mark.slow
def test_milvus_replicas_return_equal_results(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(EXPERIMENT.replace('"bm25"', '"milvus"'), encoding="utf-8")
    with ExitStack() as stack:
        monkeypatch.setenv("MILVUS_URI", stack.enter_context(serving(tmp_path / "lite")))
        ports = [free_port(), free_port()]
        for port, start in zip(ports, (served_by_new_process, served), strict=True):
            stack.enter_context(start(file, "--port", port))  # concurrently: they share a collection
        for port in ports:
            wait_for(f"http://127.0.0.1:{port}/healthz")
        assert [ask(port) for port in ports] == [200, 200]


@pytest.mark.slow
def test_closes_connections_without_request_head_quietly(file: Path, tmp_path: Path) -> None:
    port = free_port()
    log = tmp_path / "log"
    words = [sys.executable, "-m", "mrc_workbench", "serve", str(file), "--port", str(port), "--header-timeout", "1"]
    limited = ["bash", "-c", 'ulimit -n 80; exec "$@"', "serve", *words]
    with log.open("wb") as file_of_log, subprocess.Popen(limited, cwd=PROJECT, stderr=file_of_log) as process:
        try:
            wait_for(f"http://127.0.0.1:{port}/readyz")
            opened = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(150)]
            for connection in opened:
                with suppress(OSError):  # some exceed the limit and are closed
                    connection.sendall(b"GET /hea")
            until = time.monotonic() + 30
            while not _is_answered(port):
                assert time.monotonic() < until
                time.sleep(0.1)
            for connection in opened:
                _read_to_end(connection)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/metrics")
            counted = connection.getresponse().read().decode()
        finally:
            process.terminate()
            assert process.wait(60) in (0, -signal.SIGTERM)
    assert "mrc_connections_timed_out_total" in counted
    written = log.read_text(encoding="utf-8")
    assert len(written) < 10_000, written[:2000]
    assert "Traceback" not in written


def _is_answered(port: int) -> bool:
    try:
        return ask(port) == 200
    except (OSError, http.client.HTTPException, KeyError):
        return False


def _read_to_end(connection: socket.socket) -> None:
    connection.settimeout(20)
    with connection, suppress(ConnectionError):
        while connection.recv(1000):
            pass


@pytest.mark.slow
def test_closes_reused_connection_with_endless_head(file: Path) -> None:
    port = free_port()
    with served(file, "--port", port, "--header-timeout", "2"):
        wait_for(f"http://127.0.0.1:{port}/readyz")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for _ in range(3):  # over the same connection
            connection.request("POST", "/search", QUESTION_BODY, {"Content-Type": "application/json"})
            assert connection.getresponse().read()
        connection.sock.sendall(b"GET /liv")
        _read_to_end(connection.sock)


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main(["serve", *map(str, words)]) == 2
    return capsys.readouterr().err


def test_reports_invalid_arguments_before_building(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert KEY in refusal(capsys, file, "--host", "0.0.0.0")  # noqa: S104
    assert "16" in refusal(capsys, file, "--key-file", _written(tmp_path / "key", "short"))
    assert "positive" in refusal(capsys, file, "--max-k", "0")
    assert "'nobody'" in refusal(capsys, file, "--port", "0", "--retriever", "nobody")
    for port in ("99999", "-5", "65536", "-1"):
        assert f"port {port} does not exist" in refusal(capsys, file, "--port", port)
    monkeypatch.setenv(KEY, "from-the-environment")
    for host in ("nowhere.invalid", "a" * 300, "256.1.1.1", "host name"):
        assert "no address" in refusal(capsys, file, "--host", host)
    monkeypatch.delenv(KEY)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "cannot listen" in refusal(capsys, file, "--port", taken.getsockname()[1])
    monkeypatch.setenv(KEY, " from-the-environment\n")
    assert read_key(None) == "from-the-environment"
    assert read_key(_written(tmp_path / "key", "out-of-the-file-it-is\n")) == "out-of-the-file-it-is"


def test_accepts_hidden_earlier_option_names(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for old, new in RENAMED.items():
        assert f"{new} is 0" in refusal(capsys, file, f"--{old.replace('_', '-')}", "0")
        assert f"{new} is 0" in refusal(capsys, file, f"--{new.replace('_', '-')}=0")
    main(["serve", "--help"])
    output = capsys.readouterr().out
    assert "--max-k" in output
    assert not [old for old in RENAMED if f"--{old.replace('_', '-')} " in output]


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
