"""Answers as they come: whole with what they took, stopped, and broken in every way a connection can break."""

import threading
import time
from collections.abc import Iterator

import pytest

from chat.asking import EndpointError
from chat.endpoint import Answer, Chat, Endpoint, returned
from tests.chat_server import AT_ONCE, EVENTS, KEY, MODEL, ChatServer, Reply, chat_server, chunk, event, events

HTML = {"content-type": "text/html"}


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


def test_a_limit_longer_than_anybody_waits_ends_at_once() -> None:
    failure, server = failing(Reply(429, {"error": {"message": "tomorrow"}}, {"retry-after": "86400"}))
    assert (failure.code, failure.ends, len(server.asked)) == ("rate", True, 1)


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


@pytest.mark.parametrize(
    "rest",
    [
        Reply(200, iter([chunk("서울")]), EVENTS),  # the connection ends, and does not say why
        Reply(200, chunk("서울"), EVENTS, dropped=True),
        Reply(200, iter([chunk("서울"), "data: {broken\n\n"]), EVENTS),
        Reply(200, iter([chunk("서울"), event({"error": {"message": "out of memory"}})]), EVENTS),
        Reply(200, iter([chunk("서울"), "data: [DONE]\n\n"]), EVENTS),
        Reply(200, iter([chunk("서울"), event({"choices": [{"delta": 3}]})]), EVENTS),
    ],
)
def test_an_answer_that_breaks_off_is_none_and_is_not_asked_for_again(rest: Reply) -> None:
    failure, server = failing(rest)
    assert (failure.code, failure.ends, len(server.asked)) == ("broken_off", False, 1)


def test_lines_that_are_no_events_are_passed_over() -> None:
    said = iter([": still thinking\n\n", "nonsense\n", "\n\n", *events(["서울"])])
    with chat_server(lambda _: Reply(200, said, EVENTS)) as server:
        assert asked(server).text == "서울"


def test_silence_ends_a_call_before_the_first_piece_and_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chat.connection.RETRIES", 0)
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
    monkeypatch.setattr("chat.connection.RETRIES", 0)
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
