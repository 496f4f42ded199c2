"""Addresses and keys, complete, stopped and broken answers, and stored answers."""

import logging
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.models import llm
from mrc_workbench.models.llm_connection import RETRIES, Chat
from tests.chat_server import AT_ONCE, EVENTS, KEY, MODEL, ChatServer, Reply, chat_server, chunk, event, events

ADDRESSES = ("", "localhost:8000", "file:///etc", "http://", "http://[", "ftp://a.b", "http://a:99999", "http://a\nb")
entries = st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=3), min_size=1, max_size=6)
HTML = {"content-type": "text/html"}
TOO_LONG = {"error": {"message": "too long", "code": 400}}
TRUNCATED = [
    Reply(200, iter([chunk("서울")]), EVENTS),  # the connection ends, and does not say why
    Reply(200, chunk("서울"), EVENTS, dropped=True),
    Reply(200, iter([chunk("서울"), "data: {broken\n\n"]), EVENTS),
    Reply(200, iter([chunk("서울"), event({"error": {"message": "out of memory"}})]), EVENTS),
    Reply(200, iter([chunk("서울"), "data: [DONE]\n\n"]), EVENTS),
    Reply(200, iter([chunk("서울"), event({"choices": [{"delta": 3}]})]), EVENTS),
    Reply(400, TOO_LONG, dropped=True),
    Reply(200, iter([]), EVENTS),
    Reply(200, "data: {broken\n\n", EVENTS),
    Reply(200, "data: null\n\ndata: [DONE]\n\n", EVENTS),
    Reply(200, event([1]), EVENTS),
    Reply(200, event({"choices": [{}]}), EVENTS),
    Reply(200, event({"choices": 3}), EVENTS),
    Reply(200, event({"hello": 1}) + "data: [DONE]\n\n", EVENTS),
    Reply(200, "no event at all\n\n", EVENTS),
]


@pytest.mark.parametrize(
    ("address", "key", "code"),
    [
        *((address, "", "address_wrong") for address in ADDRESSES),
        *(("http://127.0.0.1:9/v1", key, "key_wrong") for key in ("열쇠", "sk-a\nb", "sk-\x00")),
    ],
)
def test_rejects_invalid_address_or_key(address: str, key: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(llm.EndpointError) as caught:
        llm.Endpoint.from_input(address, key)
    assert caught.value.code == code
    assert not key or key not in str(caught.value)


def test_environment_key_is_not_sent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://mine.example/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert llm.Endpoint.from_input() == llm.Endpoint("http://mine.example/v1", KEY)
    assert llm.Endpoint.from_input("http://theirs.example/v1") == llm.Endpoint("http://theirs.example/v1", "")
    with chat_server(lambda _: "서울") as server:
        with pytest.raises(llm.EndpointError):
            Chat(llm.Endpoint.from_input(server.address), MODEL, 0.0).answer("Answer.", "Who?")
        assert set(server.keys) == {"Bearer none"}


def test_removes_key_from_answer_and_streamed_error() -> None:
    with chat_server(lambda _: f"{KEY} 서울") as server:
        chat = Chat(llm.Endpoint(server.address, KEY), MODEL, 0.0)
        assert chat.answer("Answer.", "Who?") == "… 서울"
        assert llm.exhaust(chat.stream("Answer.", "Who?")).text == "… 서울"
    assert llm.Endpoint("http://127.0.0.1:9/v1", "none").without_key("there is none") == "there is none"  # too short
    failure, _ = failing(Reply(200, event({"error": {"message": f"{KEY} is known"}}), EVENTS))
    assert str(failure) == "status 200: … is known"


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("reply", [Reply(401, {"error": {"message": KEY}}), Reply(400, KEY), Reply(200, KEY)])
def test_errors_and_logs_contain_no_secrets(reply: Reply, streamed: bool, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("", *logging.Logger.manager.loggerDict):
        caplog.set_level(logging.DEBUG, logger=name)
    with chat_server(lambda _: reply) as server:
        chat = Chat(llm.Endpoint(server.address, KEY), MODEL, 0.0)
        with pytest.raises(llm.EndpointError) as caught:
            llm.exhaust(chat.stream("Answer.", "Who?")) if streamed else chat.answer("Answer.", "Who?")
    outputs = [*traceback.format_exception(caught.value), str(caught.value.as_dict()), repr(caught.value), caplog.text]
    for secret in (KEY, server.address, server.address.split("/")[2]):
        assert secret not in "\n".join(outputs)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("서울", "서울"),
        ("<think>부산인가?\n아니다.</think>서울", "서울"),
        ("부산인가?</think>\n서울", "\n서울"),  # where the prompt opened the thought
        ("<think>가</think>나<think>다</think>서울", "서울"),
        ("<think>끝나지 않은", "<think>끝나지 않은"),
    ],
)
def test_removes_thoughts_from_answer(answer: str, text: str) -> None:
    assert llm.remove_thoughts(answer) == text


@given(st.text(alphabet=st.characters(codec=None), max_size=20))
def test_cleaned_text_can_be_encoded(text: str) -> None:
    cleaned = llm.replace_surrogates(text)
    cleaned.encode()
    if not any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        assert cleaned == text


@given(entries, st.integers(0, 400))
@settings(max_examples=60, deadline=None)
def test_truncated_file_loses_only_last_lines(
    tmp_path_factory: pytest.TempPathFactory, written: list[dict[str, str]], length: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "deeper" / "answers.jsonl"
    for entry in written:
        llm.append_line(path, entry)
    assert [*llm.read_json_lines(path)] == written
    path.write_bytes(path.read_bytes()[:length])
    read_entries = [*llm.read_json_lines(path)]
    assert read_entries == written[: len(read_entries)]
    llm.append_line(path, {"and": "on"})
    assert [*llm.read_json_lines(path)] == [*read_entries, {"and": "on"}]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[]\nnull\n3\n{", b"[" * 100_000, b'\n\n"text"\n'])
def test_skips_unreadable_lines(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "answers.jsonl"
    assert [*llm.read_json_lines(path)] == [], "there is no file"
    path.write_bytes(content + b'\n{"a": 1}')
    assert [*llm.read_json_lines(path)] == [{"a": 1}]


def chat(server: ChatServer, key: str = KEY, seconds: float = 5) -> Chat:
    return Chat(llm.Endpoint(server.address, key), MODEL, 0.0, seconds)


def stream_answer(server: ChatServer, **named: float) -> llm.ChatAnswer:
    return llm.exhaust(chat(server, **named).stream("Answer.", "Who?"))


def failing(reply: Reply, **named: float) -> tuple[llm.EndpointError, ChatServer]:
    with chat_server(lambda _: reply) as server, pytest.raises(llm.EndpointError) as caught:
        stream_answer(server, **named)
    return caught.value, server


def test_streams_answer_with_token_usage_and_skips_lines_that_are_no_events() -> None:
    with chat_server(lambda _: "세종대왕 [1]") as server:
        pieces = [*chat(server).stream("Answer.", "Who?")]
        text, usage = stream_answer(server)
    assert (pieces, text) == (["세종대", "왕 [", "1]"], "세종대왕 [1]")
    assert (usage.prompt_tokens, usage.completion_tokens) == (len("Answer.") + len("Who?"), 3)
    assert 0 < usage.first_seconds <= usage.seconds < 5
    assert server.requests[0]["stream_options"] == {"include_usage": True}
    lines = iter([": still thinking\n\n", "nonsense\n", "\n\n", *events(["서울"])])
    with chat_server(lambda _: Reply(200, lines, EVENTS)) as server:
        assert stream_answer(server).text == "서울"


def test_missing_token_usage_is_none() -> None:
    odd = event({"choices": [], "usage": {"prompt_tokens": "many", "completion_tokens": -1}})
    for reply in (Reply(200, events(["서울"]), EVENTS), Reply(200, iter([odd, *events(["서울"])]), EVENTS)):
        with chat_server(lambda _, reply=reply: reply) as server:  # type: ignore[misc]
            text, usage = stream_answer(server)
        assert text == "서울"
        assert (usage.prompt_tokens, usage.completion_tokens) == (None, None)


def test_yields_first_piece_before_answer_ends() -> None:
    go_on = threading.Event()

    def slow() -> Iterator[str]:
        yield chunk("서")
        assert go_on.wait(5)
        yield from (chunk("울"), chunk(ends=True))

    with chat_server(lambda _: Reply(200, slow(), EVENTS)) as server:
        stream = chat(server).stream("Answer.", "Who?")
        assert next(stream) == "서"
        time.sleep(0.05)
        go_on.set()
        text, usage = llm.exhaust(stream)
    assert text == "서울"
    assert usage.seconds > usage.first_seconds + 0.04


def test_closing_stream_ends_connection() -> None:
    def endless() -> Iterator[str]:
        while True:
            yield chunk("서울 ")

    with chat_server(lambda _: Reply(200, endless(), EVENTS)) as server:
        stream = chat(server).stream("Answer.", "Who?")
        assert next(stream) == "서울 "
        assert not server.disconnected.is_set()
        stream.close()
        assert server.disconnected.wait(5)


def test_retries_transient_errors_before_first_piece() -> None:
    replies: list[str | Reply] = [Reply(429, {"error": {}}, headers) for headers in (AT_ONCE, {"retry-after": "0.01"})]
    replies += [Reply(500, {"error": {}}, AT_ONCE), Reply(503, "<html>", {**HTML, **AT_ONCE}), "서울"]
    passing = iter(replies)
    with chat_server(lambda _: next(passing)) as server:
        assert stream_answer(server).text == "서울"
    assert len(server.requests) == 5


@pytest.mark.parametrize(
    ("reply", "code", "ends"),
    [
        (Reply(200, "<html>welcome</html>", HTML), "no_chat", True),
        (Reply(200, {"hello": 1}), "no_chat", True),
        (Reply(200, "{broken"), "no_chat", True),
        (Reply(404, "<html>", HTML), "model_unknown", True),
        (Reply(403, {"error": {"message": "not for you"}}), "key", True),
        (Reply(429, {}, AT_ONCE), "rate", True),
        (Reply(429, {}, {"retry-after": "86400"}), "rate", True),  # longer than anybody waits
        (Reply(500, {"error": {"message": "my fault"}}, AT_ONCE), "refused", False),
        (Reply(400, TOO_LONG), "refused", False),
        (Reply(200, iter([event(TOO_LONG)]), EVENTS), "refused", False),
        *((reply, "truncated", False) for reply in TRUNCATED),
    ],
)
def test_reports_invalid_responses_and_retries_some(reply: Reply, code: str, ends: bool) -> None:
    failure, server = failing(reply)
    assert (failure.code, failure.is_fatal) == (code, ends)
    assert len(str(failure)) > 10
    assert len(server.requests) == (1 + RETRIES if reply.headers == AT_ONCE else 1)


def test_silence_times_out_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.llm_connection.RETRIES", 0)
    late = threading.Event()

    def silent(*before: str) -> Iterator[str]:
        yield from before
        late.wait(5)

    begun = (chunk("서"),)
    unbegun = (chunk(""),)
    for before, code in ((begun, "truncated"), (unbegun, "timeout"), ((), "timeout")):
        with chat_server(lambda _, before=before: Reply(200, silent(*before), EVENTS)) as server:  # type: ignore[misc]
            with pytest.raises(llm.EndpointError) as caught:
                stream_answer(server, seconds=0.2)
            late.set()
        late.clear()
        assert (caught.value.code, caught.value.is_fatal) == (code, False)
        if code == "timeout":
            assert caught.value.details == {"seconds": "0.2"}


def test_reports_unreachable_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.llm_connection.RETRIES", 0)
    with pytest.raises(llm.EndpointError) as caught:
        stream_answer(ChatServer(lambda _: "", "http://127.0.0.1:9/v1"))
    assert (caught.value.code, caught.value.is_fatal) == ("unreachable", True)


def test_joins_surrogate_pair_and_replaces_lone_surrogate() -> None:
    assert llm.replace_surrogates("\ud83d\ude00") == "😀"
    assert llm.replace_surrogates("a\ud83db") == "a\ufffdb"
    with chat_server(lambda _: Reply(200, events(["\ud83d", "\ude00", "\ud83d"]), EVENTS)) as server:
        stream = chat(server).stream("Answer.", "Who?")
        assert next(stream) == "\ufffd"
        assert llm.exhaust(stream).text == "😀\ufffd"
