"""Where a model is: addresses, keys, and what is told of either to whom. Its answers as they come: whole with what they
took, stopped, and broken in every way a connection can break; and as they are kept."""

import logging
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.models.llm import (
    Answer,
    Endpoint,
    EndpointError,
    append_line,
    lines_of,
    returned,
    sound,
    without_thoughts,
)
from mrc_workbench.models.llm_connection import Chat
from tests.chat_server import AT_ONCE, EVENTS, KEY, MODEL, ChatServer, Reply, chat_server, chunk, event, events

ADDRESSES = (
    "",
    "localhost:8000",
    "file:///etc/passwd",
    "http://",
    "http://[",
    "ftp://a.b",
    "http://a:99999",
    "http://a\nb",
)
entries = st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=3), min_size=1, max_size=6)
HTML = {"content-type": "text/html"}
ONCE = [
    (Reply(429, {"error": {"message": "tomorrow"}}, {"retry-after": "86400"}), "rate"),  # longer than anybody waits
    *(
        (reply, "broken_off")
        for reply in (
            Reply(200, iter([chunk("서울")]), EVENTS),  # the connection ends, and does not say why
            Reply(200, chunk("서울"), EVENTS, dropped=True),
            Reply(200, iter([chunk("서울"), "data: {broken\n\n"]), EVENTS),
            Reply(200, iter([chunk("서울"), event({"error": {"message": "out of memory"}})]), EVENTS),
            Reply(200, iter([chunk("서울"), "data: [DONE]\n\n"]), EVENTS),
            Reply(200, iter([chunk("서울"), event({"choices": [{"delta": 3}]})]), EVENTS),
        )
    ),
]


@pytest.mark.parametrize(
    ("address", "key", "code"),
    [
        *((address, "", "address_wrong") for address in ADDRESSES),
        *(("http://127.0.0.1:9/v1", key, "key_wrong") for key in ("열쇠", "sk-a\nb", "sk-\x00")),
    ],
)
def test_an_address_of_the_web_and_a_key_that_can_be_sent_are_needed(
    address: str, key: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(EndpointError) as caught:
        Endpoint.of(address, key)
    assert caught.value.code == code
    assert not key or key not in str(caught.value)


def test_the_key_of_the_environment_goes_to_no_other_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://mine.example/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert Endpoint.of() == Endpoint("http://mine.example/v1", KEY)
    assert Endpoint.of("http://theirs.example/v1") == Endpoint("http://theirs.example/v1", "")
    with chat_server(lambda _: "서울") as server:
        with pytest.raises(EndpointError):
            Chat(Endpoint.of(server.address), MODEL, 0.0).answer("Answer.", "Who?")
        assert set(server.keys) == {"Bearer none"}


def test_an_answer_that_repeats_the_key_is_given_without_it() -> None:
    with chat_server(lambda _: f"{KEY} 서울") as server:
        chat = Chat(Endpoint(server.address, KEY), MODEL, 0.0)
        assert chat.answer("Answer.", "Who?") == "… 서울"
        assert returned(chat.stream("Answer.", "Who?")).text == "… 서울"


def test_a_word_that_somebody_took_for_a_key_stays_in_answers() -> None:
    assert Endpoint("http://127.0.0.1:9/v1", "none").without_key("there is none") == "there is none"


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("reply", [Reply(401, {"error": {"message": KEY}}), Reply(400, KEY), Reply(200, KEY)])
def test_an_error_and_all_that_is_logged_hold_neither_key_nor_address(
    reply: Reply, streamed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("", *logging.Logger.manager.loggerDict):
        caplog.set_level(logging.DEBUG, logger=name)
    with chat_server(lambda _: reply) as server:
        chat = Chat(Endpoint(server.address, KEY), MODEL, 0.0)
        with pytest.raises(EndpointError) as caught:
            returned(chat.stream("Answer.", "Who?")) if streamed else chat.answer("Answer.", "Who?")
    told = [*traceback.format_exception(caught.value), str(caught.value.as_dict()), repr(caught.value), caplog.text]
    for secret in (KEY, server.address, server.address.split("/")[2]):
        assert secret not in "\n".join(told)


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
def test_thoughts_are_no_answer(answer: str, text: str) -> None:
    assert without_thoughts(answer) == text


@given(st.text(alphabet=st.characters(codec=None), max_size=20))
def test_whatever_a_server_sends_can_be_written(text: str) -> None:
    found = sound(text)
    found.encode()
    if not any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        assert found == text


def test_two_halves_are_one_character_and_one_is_none() -> None:
    assert sound("\ud83d\ude00") == "😀"
    assert sound("a\ud83db") == "a\ufffdb"


@given(entries, st.integers(0, 400))
@settings(max_examples=60, deadline=None)
def test_a_file_cut_anywhere_loses_its_last_lines_alone_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory, written: list[dict[str, str]], length: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "deeper" / "answers.jsonl"
    for entry in written:
        append_line(path, entry)
    assert [*lines_of(path)] == written
    path.write_bytes(path.read_bytes()[:length])
    kept = [*lines_of(path)]
    assert kept == written[: len(kept)]
    append_line(path, {"and": "on"})
    assert [*lines_of(path)] == [*kept, {"and": "on"}]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[]\nnull\n3\n{", b"[" * 100_000, b'\n\n"text"\n'])
def test_what_cannot_be_read_is_passed_over(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "answers.jsonl"
    assert [*lines_of(path)] == [], "there is no file"
    path.write_bytes(content + b'\n{"a": 1}')
    assert [*lines_of(path)] == [{"a": 1}]


def chat(server: ChatServer, key: str = KEY, seconds: float = 5) -> Chat:
    return Chat(Endpoint(server.address, key), MODEL, 0.0, seconds)


def asked(server: ChatServer, **named: float) -> Answer:
    return returned(chat(server, **named).stream("Answer.", "Who?"))


def failing(reply: Reply, **named: float) -> tuple[EndpointError, ChatServer]:
    with chat_server(lambda _: reply) as server, pytest.raises(EndpointError) as caught:
        asked(server, **named)
    return caught.value, server


def test_an_answer_comes_in_pieces_with_the_tokens_the_server_tells() -> None:
    with chat_server(lambda _: "세종대왕 [1]") as server:
        pieces = [*chat(server).stream("Answer.", "Who?")]
        text, usage = asked(server)
    assert (pieces, text) == (["세종대", "왕 [", "1]"], "세종대왕 [1]")
    assert (usage.prompt_tokens, usage.completion_tokens) == (len("Answer.") + len("Who?"), 3)
    assert 0 < usage.first_seconds <= usage.seconds < 5
    assert server.asked[0]["stream_options"] == {"include_usage": True}


def test_tokens_that_no_server_tells_are_none() -> None:
    odd = event({"choices": [], "usage": {"prompt_tokens": "many", "completion_tokens": -1}})
    for told in (Reply(200, events(["서울"]), EVENTS), Reply(200, iter([odd, *events(["서울"])]), EVENTS)):
        with chat_server(lambda _, told=told: told) as server:  # type: ignore[misc]
            text, usage = asked(server)
        assert text == "서울"
        assert (usage.prompt_tokens, usage.completion_tokens) == (None, None)


def test_the_first_piece_is_there_before_the_last_is_said() -> None:
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
        text, usage = returned(stream)
    assert text == "서울"
    assert usage.seconds > usage.first_seconds + 0.04


def test_a_stream_that_is_closed_is_no_longer_sent() -> None:
    def endless() -> Iterator[str]:
        while True:
            yield chunk("서울 ")

    with chat_server(lambda _: Reply(200, endless(), EVENTS)) as server:
        stream = chat(server).stream("Answer.", "Who?")
        assert next(stream) == "서울 "
        assert not server.left.is_set()
        stream.close()
        assert server.left.wait(5)


def test_what_may_pass_is_asked_again_until_the_answer_begins() -> None:
    passing = iter(
        [
            Reply(429, {"error": {"message": "slow down"}}, AT_ONCE),
            Reply(429, {"error": {"message": "slow down"}}, {"retry-after": "0.01"}),
            Reply(500, {"error": {"message": "my fault"}}, AT_ONCE),
            Reply(503, "<html>", {**HTML, **AT_ONCE}),
        ]
    )
    with chat_server(lambda _: next(passing, None) or "서울") as server:
        assert asked(server).text == "서울"
    assert len(server.asked) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "code", "ends"),
    [
        (Reply(200, "<html>welcome</html>", HTML), "no_chat", True),
        (Reply(200, {"hello": 1}), "no_chat", True),
        (Reply(200, "{broken"), "no_chat", True),
        (Reply(404, "<html>", HTML), "model_unknown", True),
        (Reply(403, {"error": {"message": "not for you"}}), "key", True),
        (Reply(429, {}, AT_ONCE), "rate", True),
        (Reply(500, {"error": {"message": "my fault"}}, AT_ONCE), "refused", False),
        (Reply(400, {"error": {"message": "too long"}}), "refused", False),
        (Reply(400, {"error": {"message": "too long"}}, dropped=True), "broken_off", False),
        (Reply(200, iter([event({"error": {"message": "too long", "code": 400}})]), EVENTS), "refused", False),
        (Reply(200, iter([]), EVENTS), "broken_off", False),
        (Reply(200, "data: {broken\n\n", EVENTS), "broken_off", False),
        (Reply(200, "data: null\n\ndata: [DONE]\n\n", EVENTS), "broken_off", False),
        (Reply(200, event([1]), EVENTS), "broken_off", False),
        (Reply(200, event({"choices": [{}]}), EVENTS), "broken_off", False),
        (Reply(200, event({"choices": 3}), EVENTS), "broken_off", False),
        (Reply(200, event({"hello": 1}) + "data: [DONE]\n\n", EVENTS), "broken_off", False),
        (Reply(200, "no event at all\n\n", EVENTS), "broken_off", False),
    ],
)
def test_an_endpoint_that_does_not_answer_as_it_should(reply: Reply, code: str, ends: bool) -> None:
    failure, _ = failing(reply)
    assert (failure.code, failure.ends) == (code, ends)
    assert len(str(failure)) > 10


@pytest.mark.parametrize(("reply", "code"), ONCE)
def test_an_answer_that_breaks_off_or_a_long_limit_is_not_asked_for_again(reply: Reply, code: str) -> None:
    failure, server = failing(reply)
    assert (failure.code, failure.ends, len(server.asked)) == (code, code == "rate", 1)


def test_lines_that_are_no_events_are_passed_over() -> None:
    said = iter([": still thinking\n\n", "nonsense\n", "\n\n", *events(["서울"])])
    with chat_server(lambda _: Reply(200, said, EVENTS)) as server:
        assert asked(server).text == "서울"


def test_silence_ends_a_call_before_the_first_piece_and_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.llm_connection.RETRIES", 0)
    late = threading.Event()

    def silent(*before: str) -> Iterator[str]:
        yield from before
        late.wait(5)

    begun, unbegun = ((chunk("서"),), (chunk(""),))
    for before, code in ((begun, "broken_off"), (unbegun, "timeout"), ((), "timeout")):
        with chat_server(lambda _, before=before: Reply(200, silent(*before), EVENTS)) as server:  # type: ignore[misc]
            with pytest.raises(EndpointError) as caught:
                asked(server, seconds=0.2)
            late.set()
        late.clear()
        assert (caught.value.code, caught.value.ends) == (code, False)
        if code == "timeout":
            assert caught.value.details == {"seconds": "0.2"}


def test_nobody_answers_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.llm_connection.RETRIES", 0)
    with pytest.raises(EndpointError) as caught:
        asked(ChatServer(lambda _: "", "http://127.0.0.1:9/v1"))
    assert (caught.value.code, caught.value.ends) == ("unreachable", True)


def test_a_server_that_repeats_the_key_within_a_stream_does_not_have_it_told() -> None:
    failure, _ = failing(Reply(200, event({"error": {"message": f"{KEY} is known"}}), EVENTS))
    assert str(failure) == "status 200: … is known"


def test_half_a_character_in_a_piece_can_be_shown_and_both_are_one_in_the_answer() -> None:
    with chat_server(lambda _: Reply(200, events(["\ud83d", "\ude00", "\ud83d"]), EVENTS)) as server:
        stream = chat(server).stream("Answer.", "Who?")
        assert next(stream) == "\ufffd"
        assert returned(stream).text == "😀\ufffd"
