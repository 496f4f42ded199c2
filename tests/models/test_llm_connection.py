"""Hostile servers: headers, redirects, memory, time, and stopping."""

import gzip
import json
import re
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from itertools import repeat
from typing import Any

import pytest

from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.models.llm import Endpoint, EndpointError, exhaust
from mrc_workbench.models.llm_connection import Chat
from tests.chat_server import AT_ONCE, EVENTS, KEY, MODEL, ChatServer, Reply, chat_server, chunk, completion, event
from tests.doubles import raises_failure

MEGABYTE = 2**20
HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
OPERATORS = {"OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "project-1", "OPENAI_ADMIN_KEY": "admin-1"}
HEADERS = "X-Tenant: tenant-1\nAuthorization: Bearer tenant-1\nuser-agent: tenant-1\naccept: tenant-1\nhost: tenant-1"
MEASURED = r"""
import json, os, re, sys
from pathlib import Path
from mrc_workbench.models.llm import Endpoint, exhaust
from mrc_workbench.models.llm_connection import Chat
from mrc_workbench.models.llm import EndpointError

def peak():
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

address, key, model, *kinds = sys.argv[1:]
try:
    Chat(Endpoint(address, "nobody"), model, 0.0).answer("Answer.", "Who?")  # a refusal: all is imported now
except EndpointError:
    pass
for kind in kinds:
    if os.fork():
        assert os.wait()[1] == 0
        continue
    chat = Chat(Endpoint(address, key), model, 0.0)
    for ask in (lambda: chat.answer("Answer.", kind), lambda: exhaust(chat.stream("Answer.", kind))):
        before = peak()
        try:
            code = ask() and "answered"
        except EndpointError as error:
            code = error.code
        print(json.dumps({"kind": kind, "code": code, "megabytes": round(peak() - before)}), flush=True)
    os._exit(0)
"""


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def ask(chat: Chat, *, streamed: bool = True) -> str:
    return exhaust(chat.stream("Answer.", "Who?")).text if streamed else chat.answer("Answer.", "Who?")


def failing(reply: Reply, *, streamed: bool = True) -> tuple[EndpointError, ChatServer]:
    with chat_server(lambda _: reply) as server, pytest.raises(EndpointError) as caught:
        ask(Chat(Endpoint(server.address, KEY), MODEL, 0.0, 5), streamed=streamed)
    return caught.value, server


@pytest.mark.slow
def test_environment_headers_are_not_sent_elsewhere(streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OPERATORS.items():
        monkeypatch.setenv(name, value)
    with chat_server(lambda _: "서울") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.address)
        monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Tenant: tenant-1")
        assert ask(Chat(Endpoint.from_input("", KEY), MODEL, 0.0), streamed=streamed) == "서울"
        monkeypatch.setenv("OPENAI_BASE_URL", "http://mine.example/v1")
        monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", HEADERS)
        assert ask(Chat(Endpoint.from_input(server.address, KEY), MODEL, 0.0), streamed=streamed) == "서울"
    own, typed = server.headers
    assert (own["openai-organization"], own["openai-project"], own["x-tenant"]) == ("org-1", "project-1", "tenant-1")
    assert set(typed) == {"host", "authorization", "content-type", "content-length", "user-agent"}
    assert not re.search("tenant-1|org-1|project-1|admin-1", str(typed))


@pytest.mark.slow
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_does_not_follow_redirects(status: int, streamed: bool) -> None:
    with chat_server(lambda _: "서울") as elsewhere:
        reply = Reply(status, "", {"location": f"{elsewhere.address}/chat/completions"})
        failure, _ = failing(reply, streamed=streamed)
    assert (failure.code, failure.is_fatal) == ("redirected", True)
    assert elsewhere.address not in str(failure.as_dict())
    assert elsewhere.requests == []


def flood(first: str, piece: str, megabytes: int = 1024) -> Iterator[bytes]:
    """So many megabytes and more, as long as anybody takes them."""
    yield first.encode()
    some = (piece * (MEGABYTE // len(piece.encode()) + 1)).encode()
    yield from repeat(some, megabytes)


@cache
def bomb() -> bytes:
    """Far more of one letter within an answer than the memory that one may take, packed twice: some kilobytes."""
    packing = zlib.compressobj(1, wbits=31)
    parts = [packing.compress(part) for part in flood('{"choices": [{"message": {"content": "', "a", 160)]
    return gzip.compress(b"".join([*parts, packing.flush()]))


JSON = {"content-type": "application/json"}
GZIP = {"content-encoding": "gzip, gzip"}
TOO_MUCH: dict[str, Callable[[], Reply]] = {
    "json": lambda: Reply(200, flood('{"choices": [{"message": {"content": "', "a"), JSON),
    "event": lambda: Reply(200, flood("data: ", "a"), EVENTS),
    "pieces": lambda: Reply(200, flood("", chunk("서울 ")), EVENTS),
    "comments": lambda: Reply(200, flood("", ": ping\n\n"), EVENTS),
    "lines": lambda: Reply(200, flood("", "\n"), EVENTS),
    "lines of other systems": lambda: Reply(200, flood("", "\r"), EVENTS),
    "chunks": lambda: Reply(0, flood(f"{HEAD}transfer-encoding: chunked\r\n\r\n", "1\r\na\r\n")),
    "error": lambda: Reply(400, flood('{"error": {"message": "', "a"), JSON),
    "error that passes": lambda: Reply(500, flood('{"error": {"message": "', "a"), {**JSON, **AT_ONCE}),
    "packed": lambda: Reply(200, bomb(), {**JSON, **GZIP}),
    "packed events": lambda: Reply(200, bomb(), {**EVENTS, **GZIP}),
    "packed error": lambda: Reply(400, bomb(), {**JSON, **GZIP}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in TOO_MUCH if not kind.startswith("packed")])
def test_stops_reading_oversized_answer(kind: str, streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.llm_connection.MAX_BYTES", 2 * MEGABYTE)
    monkeypatch.setattr("mrc_workbench.models.llm_connection.MAX_LINES", 1000)
    reply = TOO_MUCH[kind]()
    limit = {"megabytes": 2}
    with chat_server(lambda _: reply) as server:
        with pytest.raises(EndpointError) as caught:
            ask(Chat(Endpoint(server.address, KEY), MODEL, 0.0, 5), streamed=streamed)
        assert server.disconnected.wait(5), "it is sent on"
    assert (caught.value.code, caught.value.is_fatal, caught.value.details) == ("answer_too_large", False, limit)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lines", "lines of other systems", "comments", "pieces", "chunks"])
def test_stops_reading_too_many_pieces(kind: str, streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("MAX_BYTES", 2**40), ("MAX_LINES", 1000), ("MAX_SECONDS", 5.0)):
        monkeypatch.setattr(f"mrc_workbench.models.llm_connection.{name}", most)
    failure, server = failing(TOO_MUCH[kind](), streamed=streamed)
    assert failure.code == "answer_too_large"
    assert server.disconnected.wait(5)


def test_accepts_answer_at_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.dumps(completion("a" * MEGABYTE)).encode()
    for most, code in ((len(whole), ""), (len(whole) - 1, "answer_too_large")):
        monkeypatch.setattr("mrc_workbench.models.llm_connection.MAX_BYTES", most)
        with chat_server(lambda _: Reply(200, gzip.compress(whole), {"content-encoding": "gzip"})) as server:
            chat = Chat(Endpoint(server.address, KEY), MODEL, 0.0, 5)
            if code:
                with raises_failure(code, EndpointError):
                    chat.answer("Answer.", "Who?")
            else:
                assert chat.answer("Answer.", "Who?") == "a" * MEGABYTE


@pytest.fixture(scope="module")
def measured() -> list[dict[str, Any]]:
    """Return time and memory of every answer, each in a fork of a process with the libraries."""
    with chat_server(lambda kind: TOO_MUCH[kind]()) as server:
        command = [sys.executable, "-c", MEASURED, server.address, KEY, MODEL, *TOO_MUCH]
        ran = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=500, check=True)
    return [*map(json.loads, ran.stdout.splitlines())]


@pytest.mark.slow
@pytest.mark.parametrize("kind", TOO_MUCH)
def test_oversized_answer_takes_little_memory(kind: str, measured: list[dict[str, Any]]) -> None:
    entries = [entry for entry in measured if entry["kind"] == kind]
    assert [entry["code"] for entry in entries] == ["answer_too_large", "answer_too_large"]
    assert max(entry["megabytes"] for entry in entries) < 80


def dribble(*pieces: str, then: str) -> Iterator[str]:
    """Yield pieces, then repeat `then`, if any, a hundred times a second."""
    yield from pieces
    while True:
        time.sleep(0.01)
        yield then


ENDLESS: dict[str, Callable[[], Reply]] = {
    "silence": lambda: Reply(0, dribble(then="")),
    "a head": lambda: Reply(0, dribble(HEAD, then="x")),
    "a line of the head": lambda: Reply(0, dribble(HEAD, then="x: y\r\n")),
    "interim heads": lambda: Reply(0, dribble(then="HTTP/1.1 103 Early Hints\r\n\r\n")),
    "the length of a chunk": lambda: Reply(0, dribble(HEAD, "transfer-encoding: chunked\r\n\r\n2;", then="x")),
    "silence after the head": lambda: Reply(200, dribble(then=""), EVENTS),
    "pings": lambda: Reply(200, dribble(then=": ping\n\n"), EVENTS),
    "pieces": lambda: Reply(200, dribble(then=chunk("서")), EVENTS),
    "silence after a piece": lambda: Reply(200, dribble(chunk("서"), then=""), EVENTS),
    "empty events": lambda: Reply(200, dribble(then=event({"choices": []})), EVENTS),
    "one event": lambda: Reply(200, dribble("data: ", then="x"), EVENTS),
    "white space": lambda: Reply(200, dribble(then=" "), JSON),
    "an error": lambda: Reply(400, dribble(then="x"), JSON),
}


@pytest.mark.slow
def test_ends_endless_answer(streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All kinds at the same time: each takes as long as an answer may."""
    monkeypatch.setattr("mrc_workbench.models.llm_connection.MAX_SECONDS", 0.8)

    def end(chat: Chat, server: ChatServer) -> tuple[str, bool, int]:
        with pytest.raises(EndpointError) as caught:
            ask(chat, streamed=streamed)
        assert server.disconnected.wait(5), "the connection is open"
        return caught.value.code, caught.value.is_fatal, len(server.requests)

    with ExitStack() as running, ThreadPoolExecutor(len(ENDLESS)) as pool:
        replies = {kind: reply() for kind, reply in ENDLESS.items()}
        servers = [running.enter_context(chat_server(lambda _, reply=reply: reply)) for reply in replies.values()]  # type: ignore[misc]
        chats = [Chat(Endpoint(server.address, KEY), MODEL, 0.0, 30) for server in servers]
        codes = dict(zip(replies, pool.map(end, chats, servers), strict=True))
    assert codes == dict.fromkeys(ENDLESS, ("too_long", False, 1))


def test_does_not_retry_silent_server(streamed: bool) -> None:
    with chat_server(lambda _: Reply(0, dribble(then=""))) as server:
        with pytest.raises(EndpointError) as caught:
            ask(Chat(Endpoint(server.address, KEY), MODEL, 0.0, 0.2), streamed=streamed)
        assert server.disconnected.wait(5)
    assert (caught.value.code, caught.value.details, len(server.requests)) == ("timeout", {"seconds": "0.2"}, 1)


def test_retry_delay_counts_towards_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.llm_connection.MAX_SECONDS", 0.2)
    failure, server = failing(Reply(503, "later", {"retry-after": "100"}))
    assert (failure.code, len(server.requests)) == ("too_long", 1)


STOPPED = {**ENDLESS, "a flood": TOO_MUCH["pieces"], "a pause": lambda: Reply(503, "later", {"retry-after": "100"})}


@pytest.mark.slow
@pytest.mark.parametrize("kind", STOPPED)
def test_stop_ends_thread_and_connection(kind: str) -> None:
    ended = list[str]()
    was_requested = threading.Event()

    def reply_slowly(_: str) -> Reply:
        was_requested.set()
        return STOPPED[kind]()

    def work(chat: Chat) -> None:
        try:
            ask(chat)
        except EndpointError as error:
            ended.append(error.code)

    with chat_server(reply_slowly) as server:
        chat = Chat(Endpoint(server.address, KEY), MODEL, 0.0, 30)
        threads = [threading.Thread(target=work, args=(chat,), daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert was_requested.wait(5)
        time.sleep(0.1)
        chat.stop()
        for thread in threads:
            thread.join(5)
            assert not thread.is_alive()
        assert kind == "a pause" or server.disconnected.wait(5), "the connection is open"
        with pytest.raises(EndpointError):
            ask(chat)
    assert ended == ["call_stopped", "call_stopped"]
    assert len(server.requests) <= 2, "it begins anew"


def test_closes_connection_after_answer() -> None:
    before = threading.active_count()
    with chat_server(lambda _: "서울") as server:
        chat = Chat(Endpoint(server.address, KEY), MODEL, 0.0, 5)
        assert [ask(chat, streamed=streamed) for streamed in (True, False)] == ["서울", "서울"]
        assert {headers.get("connection", "") for headers in server.headers} <= {"", "keep-alive"}
    assert threading.active_count() <= before


def test_rejects_deeply_nested_answer(streamed: bool) -> None:
    nested = "[" * 200_000
    reply = Reply(200, f"data: {nested}\n\n", EVENTS) if streamed else Reply(200, nested)
    failure, _ = failing(reply, streamed=streamed)
    assert failure.code == ("truncated" if streamed else "no_chat")
