"""Where a model is: addresses, keys, and what is told of either to whom."""

import logging
import traceback

import pytest

from chat.endpoint import Chat, Endpoint, returned
from chat.problems import EndpointError
from tests.chat_server import KEY, MODEL, Reply, chat_server


@pytest.mark.parametrize(
    "address",
    ["", "localhost:8000", "file:///etc/passwd", "http://", "http://[", "ftp://a.b", "http://a:99999", "http://a\nb"],
)
def test_an_address_of_the_web_is_needed(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(EndpointError) as caught:
        Endpoint.of(address)
    assert caught.value.code == "address_wrong"


@pytest.mark.parametrize("key", ["열쇠", "sk-a\nb", "sk-\x00"])
def test_a_key_that_cannot_be_sent_is_told_without_it(key: str) -> None:
    with pytest.raises(EndpointError) as caught:
        Endpoint("http://127.0.0.1:9/v1", key)
    assert caught.value.code == "key_wrong"
    assert key not in str(caught.value)


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
