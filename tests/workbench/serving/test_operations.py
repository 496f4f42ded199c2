"""Metrics, logs and readiness of the server; it skips the requests of disconnected clients."""

import asyncio
import json
import logging
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from mrc_workbench.retrieval.milvus_connection import MilvusSettings, is_reachable
from mrc_workbench.retrieval.searcher import Searcher
from mrc_workbench.workbench.serving.app import Batches, create_app
from mrc_workbench.workbench.serving.cli import _log_to_standard_error
from mrc_workbench.workbench.serving.protocol import AccessLog, Logging, Metrics, RequestLimits, access_logger
from tests.doubles import PASSAGES, QUESTIONS
from tests.programs import free_port
from tests.retrieval.test_contract import bm25
from tests.workbench.serving.test_app import CORPUS, SINGLE_SEARCHER, Held, client
from tests.workbench.serving.test_searcher import run

QUESTION = QUESTIONS[0].text
SECONDS = st.lists(st.floats(0, 100, allow_subnormal=False), max_size=20)
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (-?[0-9.e+-]+|\+Inf)')


def samples(text: str) -> dict[str, float]:
    """Parse the text format; every sample must follow the HELP and TYPE of its name."""
    assert text.endswith("\n")
    values: dict[str, float] = {}
    named = ""
    for line in text.splitlines():
        if line.startswith("# "):
            word, named = line.split(" ")[1:3]
            assert word in ("HELP", "TYPE")
            continue
        parts = SAMPLE.fullmatch(line)
        assert parts, line
        assert parts[1] in (named, f"{named}_bucket", f"{named}_sum", f"{named}_count")
        key = f"{parts[1]}{{{parts[2]}}}" if parts[2] else parts[1]
        assert key not in values
        values[key] = float(parts[3])
    return values


def test_counts_requests_refusals_and_questions() -> None:
    with client() as service:
        for body in ({"question": QUESTION}, {"questions": [QUESTION, QUESTION]}, {"question": ""}, {}):
            service.post("/search", json=body)
        service.get("/nowhere")
        service.request("PATCH", "/search")
        answer = service.get("/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    values = samples(answer.text)
    assert values['mrc_requests_total{method="POST",path="/search",status="200"}'] == 2
    assert values['mrc_requests_total{method="POST",path="/search",status="422"}'] == 2
    assert values['mrc_requests_total{method="GET",path="other",status="404"}'] == 1
    assert values['mrc_requests_total{method="other",path="/search",status="405"}'] == 1
    assert values['mrc_refusals_total{code="not_understood"}'] == 2
    assert values['mrc_queries_total{retriever="bm25"}'] == 3
    assert values['mrc_search_duration_seconds_count{retriever="bm25"}'] == 2
    assert values["mrc_ready"] == 1
    assert values["mrc_requests_in_progress"] == 0
    assert values["process_resident_memory_bytes"] > 1e6


@pytest.mark.slow
@settings(max_examples=200)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=4), SECONDS)
def test_writes_any_label_and_duration_in_text_format(labels: list[str], seconds: list[float]) -> None:
    metrics = Metrics()
    for label in labels:
        metrics.count("mrc_refusals_total", code=label)
        for duration in seconds:
            metrics.observe("mrc_search_duration_seconds", duration, retriever=label)
    text = metrics.text({"mrc_ready": (1, {})})
    counts = [line for line in text.split("\n") if line.startswith("mrc_refusals_total{")]
    assert len(counts) == len(set(labels))
    assert sum(float(line.rpartition(" ")[2]) for line in counts) == len(labels)
    whole = [line for line in text.split("\n") if line.startswith("mrc_search_duration_seconds_count{")]
    assert sum(float(line.rpartition(" ")[2]) for line in whole) == len(labels) * len(seconds)
    for label in set(labels) if seconds else ():
        buckets = _buckets(text, label)
        assert buckets == sorted(buckets)
        assert buckets[-1] == labels.count(label) * len(seconds)


def _buckets(text: str, label: str) -> list[float]:
    written = label.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    start = f'mrc_search_duration_seconds_bucket{{retriever="{written}",le='
    return [float(line.rpartition(" ")[2]) for line in text.split("\n") if line.startswith(start)]


def logged(caplog: pytest.LogCaptureFixture, logs: Logging, *requests: dict[str, Any]) -> list[dict[str, Any]]:
    caplog.clear()
    app = create_app(SINGLE_SEARCHER, logs=logs)
    with TestClient(app, "http://127.0.0.1") as service, caplog.at_level(logging.WARNING, access_logger.name):
        for body in requests:
            service.post("/search", json=body, headers={"X-Request-ID": "mine"})
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == access_logger.name]


def test_access_log_omits_question_texts(caplog: pytest.LogCaptureFixture) -> None:
    bodies = ({"question": QUESTION}, {"question": QUESTION, "k": 0})
    assert logged(caplog, Logging(), *bodies) == []
    records, refused = logged(caplog, Logging(AccessLog.JSON), *bodies)
    measured: dict[str, Any] = {"time": "", "ms": 0, "bytes": 0, "client": ""}
    request = {"event": "request", "request_id": "mine", "method": "POST", "path": "/search", "status": 200}
    assert records | measured == measured | request | {"retriever": "bm25", "questions": 1, "k": 10}
    assert records["bytes"] > 0
    assert (refused["status"], refused["code"]) == (422, "not_understood")
    assert QUESTION not in json.dumps([records, refused], ensure_ascii=False)


@pytest.mark.parametrize("as_json", [True, False])
def test_warnings_are_json(as_json: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("serving", "uvicorn", "uvicorn.error", access_logger.name):  # Streamlit adds handlers
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
    _log_to_standard_error(as_json=as_json)
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    try:
        raise RuntimeError("질문\nof two lines")
    except RuntimeError:
        logging.getLogger("mrc_workbench.workbench.serving.protocol").exception("request %s failed", "abc")
    access_logger.warning(json.dumps({"event": "request"}))
    written = capsys.readouterr().err
    if not as_json:
        assert written.startswith("WARNING: Invalid HTTP request received.\nERROR: request abc failed\nTraceback")
        return
    invalid, failed, request = map(json.loads, written.splitlines())
    assert (invalid["event"], invalid["message"]) == ("warning", "Invalid HTTP request received.")
    assert (failed["event"], failed["message"].splitlines()[-2:]) == ("error", ["RuntimeError: 질문", "of two lines"])
    assert request == {"event": "request"}


def test_logs_only_slow_requests(caplog: pytest.LogCaptureFixture) -> None:
    (slow,) = logged(caplog, Logging(slow_query_ms=0.001), {"question": QUESTION})
    assert (slow["event"], slow["retriever"]) == ("slow_query", "bm25")
    assert logged(caplog, Logging(slow_query_ms=60_000), {"question": QUESTION}) == []
    with pytest.raises(ValueError, match="slow_query_ms"):
        Logging(slow_query_ms=-1)


def test_info_identifies_served_comparison() -> None:
    retrievers = [{"name": "bm25", "kind": "bm25", "models": {}}]
    information = {"version": "1", "corpus_fingerprint": "abc", "retrievers": retrievers}
    with TestClient(create_app(SINGLE_SEARCHER, information=information), "http://127.0.0.1") as service:
        info = service.get("/info").json()
        assert info | information == info
        assert info["limits"]["max_k"] == 100
        assert 'mrc_info{corpus_fingerprint="abc",version="1"} 1' in service.get("/metrics").text


def test_is_live_but_not_ready_while_engine_is_down() -> None:
    port = free_port()
    reachable = [False]
    assert not is_reachable(MilvusSettings(f"http://127.0.0.1:{port}"), 0.5)
    behind = Searcher(bm25(PASSAGES), CORPUS, lambda: reachable[0])
    with client({"remote": behind}) as service:
        assert service.get("/livez").status_code == 200
        refusal = service.get("/readyz")
        assert (refusal.status_code, refusal.json()["code"]) == (503, "engine_unreachable")
        assert service.get("/healthz").status_code == 503
        assert "mrc_ready 0" in service.get("/metrics").text
        reachable[0] = True
        service.app.state.service._last_check = -1e9  # type: ignore[attr-defined]
        assert service.get("/readyz").json() == {"status": "ready"}


def test_is_live_but_not_ready_while_search_hangs() -> None:
    held = Held()
    with client({"held": Searcher(held, CORPUS)}, timeout=0.3) as service, ExitStack() as stack:
        stack.callback(held.go.set)
        assert service.get("/readyz").status_code == 200
        assert service.post("/search", json={"question": QUESTION}).status_code == 503
        until = time.monotonic() + 10
        while (refusal := service.get("/readyz")).status_code == 200:
            assert time.monotonic() < until
        assert (refusal.status_code, refusal.json()["code"]) == (503, "hanging")
        assert service.get("/livez").status_code == 200
        held.go.set()
        assert service.post("/search", json={"question": QUESTION}).status_code == 200
        assert service.get("/readyz").status_code == 200


def posted(text: str, closed: asyncio.Event) -> tuple[dict[str, Any], Any]:
    """Return the scope and `receive` of a request; the client disconnects when `closed` is set."""
    body = json.dumps({"question": text}).encode()
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/search", "headers": headers, "query_string": b"", "asgi": {}}
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await closed.wait()
        return {"type": "http.disconnect"}

    return scope, receive


def test_skips_requests_of_disconnected_clients() -> None:
    recording = Held()
    count = 12
    app = create_app({"recording": Searcher(recording, CORPUS)}, RequestLimits(max_batch_size=1))

    async def visit() -> int:
        statuses: list[int] = []

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        async with app.state.service.lifespan(app):
            closed = asyncio.Event()
            stays = asyncio.Event()
            first = asyncio.create_task(app(*posted("first", stays), send))
            while not recording.began.is_set():
                await asyncio.sleep(0.01)
            left = [asyncio.create_task(app(*posted(f"left {row}", closed), send)) for row in range(count)]
            last = asyncio.create_task(app(*posted("last", stays), send))
            await asyncio.sleep(0.1)
            closed.set()
            await asyncio.gather(*left)
            assert statuses == [499] * count
            recording.go.set()
            await asyncio.gather(first, last)
            assert statuses[count:] == [200, 200]
            return int(app.state.service.in_progress)

    assert run(visit()) == 0
    assert recording.searched == ["first", "last"]


def test_skips_cancelled_batch() -> None:
    held = Held()
    recording = Held()
    recording.go.set()

    async def visit() -> None:
        with ThreadPoolExecutor(1) as thread:
            searchers = (Searcher(held, CORPUS), Searcher(recording, CORPUS))
            all_batches = [Batches(searcher, thread, max_questions=4, seconds=0.001) for searcher in searchers]
            works = [asyncio.create_task(batches.work()) for batches in all_batches]
            first = asyncio.create_task(all_batches[0].search(["first"], 1))
            while not held.began.is_set():
                await asyncio.sleep(0.01)
            left = asyncio.create_task(all_batches[1].search(["left"], 1))
            await asyncio.sleep(0.1)  # until it waits for the thread
            left.cancel()
            held.go.set()
            await first
            assert (await all_batches[1].search([QUESTION], 1))[0][0].id
            for work in works:
                work.cancel()

    run(visit())
    assert recording.searched == [QUESTION]
