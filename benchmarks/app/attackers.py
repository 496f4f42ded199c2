"""Measure waiting times while other users upload malicious files: `python -m benchmarks attackers`.

The files are those of `tests.hostile`, which once exhausted a server's memory or CPU. Ten visitors open pages without a
browser, before and during the attack. The report has their waiting times, the peak memory of the server and of a
reading process, and the number of failures. `ATTACKERS` (10), `ATTACK_SECONDS` (60) and `ATTACK_SIZE` (1: as large as
in the tests) set the intensity.
"""

import asyncio
import os
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from itertools import cycle
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

import psutil
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from benchmarks.app.app import RunningApp, running_app, visits
from mrc_workbench.data.questions.read import read
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import CATALOG, fetch, save_question_set
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob, save_comparison
from mrc_workbench.workbench.views.choices import choices_for
from tests.hostile.files import FILES

_TARGET_SECONDS = 3.0  # of the slowest visit
_VISITORS = 10
_GIB = 2**30
_COOKIE = "_streamlit_xsrf"


@dataclass
class Attack:
    """Progress of an attack: uploads that the server read or rejected, failures, and peak memory in bytes."""

    uploads: int = 0
    failures: list[str] = field(default_factory=list)
    server: int = 0
    reader: int = 0
    is_finished: threading.Event = field(default_factory=threading.Event)


def attackers() -> list[str]:
    """Open pages without and during an attack; returns lines of a report."""
    count = int(os.environ.get("ATTACKERS", "10"))
    seconds = float(os.environ.get("ATTACK_SECONDS", "60"))
    size = float(os.environ.get("ATTACK_SIZE", "1"))
    files = {name: make(size) for name, (make, _) in FILES.items()}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        pages = _pages()
        with running_app(Path(folder)) as app:
            app.wait()
            before = _time_visits(app, pages, rounds=2)
            attack = Attack()
            threads = [threading.Thread(target=_attack, args=(app, files, n, attack)) for n in range(count)]
            watcher = threading.Thread(target=_watch, args=(app, attack))
            for thread in (*threads, watcher):
                thread.start()
            during: dict[str, list[float]] = {name: [] for name in pages}
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                for name, times in _time_visits(app, pages, rounds=1).items():
                    during[name] += times
            attack.is_finished.set()
            for thread in (*threads, watcher):
                thread.join()
            app.wait()  # the server still answers
    return _report(before, during, attack, count)


def _pages() -> dict[str, tuple[str, str]]:
    """Store the sample and a comparison of it; returns pages and queries by name."""
    entry = CATALOG["sample"]
    stored = save_question_set(read(fetch(entry), entry.path.name).question_set, source=entry.id)
    choices = choices_for(stored)
    names = [name for name, spec in choices.specs.items() if isinstance(spec, BM25Spec)]
    experiment = choices.experiment(stored, names, Part.ALL)
    comparison = compare(experiment, read(fetch(entry), entry.path.name).question_set)
    save_comparison(comparison, ComparisonJob.of(experiment, stored.fingerprint).folder)
    parameters = {"retrievers": "|".join(names), "part": "all"}
    return {
        "Overview": ("", urlencode(parameters)),
        "Where": ("", urlencode(parameters | {"view": "where"})),
        "Why": ("", urlencode(parameters | {"view": "why"})),
        "page Data": ("data", ""),
        "page Train": ("train", ""),
        "page Search": ("search", urlencode({"q": "한글은 누가 만들었나?", "columns": names[0]})),
    }


def _time_visits(app: RunningApp, pages: dict[str, tuple[str, str]], *, rounds: int) -> dict[str, list[float]]:
    return {
        name: [seconds for _ in range(rounds) for seconds in visits(app.address, page, query, _VISITORS)]
        for name, (page, query) in pages.items()
    }


def _attack(app: RunningApp, files: dict[str, bytes], number: int, attack: Attack) -> None:
    """Upload one file after the other, each in a new session, until the attack is finished."""
    names = list(files)
    for name in cycle(names[number % len(names) :] + names[: number % len(names)]):
        if attack.is_finished.is_set():
            return
        try:
            asyncio.run(_upload(app.address, files[name]))
        except Exception as error:
            attack.failures.append(f"{name}: {error!r}")
        else:
            attack.uploads += 1


async def _upload(address: str, content: bytes) -> None:
    """Upload a file on the Data page, and wait for the report on it."""
    socket = f"{address.replace('http', 'ws', 1)}/_stcore/stream"
    token = await asyncio.to_thread(_token, address)
    cookies = f"{_COOKIE}={token}"
    subprotocols = [Subprotocol("streamlit")]
    async with (
        asyncio.timeout(300),
        connect(socket, subprotocols=subprotocols, max_size=None, additional_headers={"Cookie": cookies}) as connection,
    ):
        request = BackMsg()
        request.rerun_script.page_name = "data"
        await connection.send(request.SerializeToString())
        session, widget = await _wait_for_script_end(connection)
        urls = BackMsg()
        urls.file_urls_request.request_id = "1"
        urls.file_urls_request.file_names.append("set")
        urls.file_urls_request.session_id = session
        await connection.send(urls.SerializeToString())
        upload_target = (await _wait_for_message(connection, "file_urls_response")).file_urls_response.file_urls[0]
        await asyncio.to_thread(_put, f"{address}{upload_target.upload_url}", content, token)
        state = request.rerun_script.widget_states.widgets.add()
        state.id = widget
        info = state.file_uploader_state_value.uploaded_file_info.add()
        info.file_id = upload_target.file_id
        info.name = "set"
        info.size = len(content)
        info.file_urls.CopyFrom(upload_target)
        await connection.send(request.SerializeToString())
        await _wait_for_script_end(connection)  # until the file is read and the preview is complete


async def _wait_for_script_end(connection: ClientConnection) -> tuple[str, str]:
    """Wait for the end of the script; returns the ids of the session and of the upload field."""
    session = widget = ""
    while True:
        message = await _receive(connection)
        if message.WhichOneof("type") == "new_session":
            session = message.new_session.initialize.session_id
        if message.delta.new_element.HasField("file_uploader"):
            widget = message.delta.new_element.file_uploader.id
        if (
            message.WhichOneof("type") == "script_finished"
            and message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY
        ):
            return session, widget


async def _wait_for_message(connection: ClientConnection, kind: str) -> ForwardMsg:
    while (message := await _receive(connection)).WhichOneof("type") != kind:
        pass
    return message


async def _receive(connection: ClientConnection) -> ForwardMsg:
    content = await connection.recv()
    message: ForwardMsg = ForwardMsg.FromString(content if isinstance(content, bytes) else content.encode())
    return message


def _token(address: str) -> str:
    """Return the token for uploads, which the server sends to each visitor."""
    with urllib.request.urlopen(f"{address}/_stcore/health", timeout=30) as response:  # noqa: S310 - our own address
        cookie = SimpleCookie(response.headers.get("Set-Cookie", ""))
    return cookie[_COOKIE].value


def _put(address: str, content: bytes, token: str) -> None:
    boundary = "----a-file"
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="set"; filename="set"\r\n'
    body = (
        f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + content + f"\r\n--{boundary}--\r\n".encode()
    )
    headers = {
        "Content-Type": f"multipart/form-data; boundary={boundary}",
        "X-Xsrftoken": token,
        "Cookie": f"{_COOKIE}={token}",
    }
    request = urllib.request.Request(address, data=body, method="PUT", headers=headers)  # noqa: S310 - our own
    urllib.request.urlopen(request, timeout=120).read()  # noqa: S310 - our own address


def _watch(app: RunningApp, attack: Attack) -> None:
    server = psutil.Process(app.pid)
    while not attack.is_finished.wait(0.2):
        attack.server = max(attack.server, server.memory_info().rss)
        for child in server.children(recursive=True):
            try:
                if "mrc_workbench.data.subprocess_reader" in " ".join(child.cmdline()):
                    attack.reader = max(attack.reader, child.memory_full_info().uss)
            except psutil.Error:
                continue


def _report(before: dict[str, list[float]], during: dict[str, list[float]], attack: Attack, count: int) -> list[str]:
    lines = [
        f"| seconds of {_VISITORS} visitors at once | before, median | slowest | during the attack, median | slowest |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, times in during.items():
        cells = (median(before[name]), max(before[name]), median(times), max(times))
        lines.append(f"| {name} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")
    slow = [name for name, times in during.items() if max(times) > _TARGET_SECONDS]
    memory = f"peak memory {attack.server / _GIB:.2f} GiB (server), {attack.reader / _GIB:.2f} GiB (reading process)"
    return [
        *lines,
        "",
        f"{count} attackers, {attack.uploads} files read or rejected, {len(attack.failures)} failed; {memory}; above "
        f"{_TARGET_SECONDS:g} s: {', '.join(slow) or 'none'}.",
        *attack.failures[:5],
    ]
