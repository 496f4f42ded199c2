"""Where a model is: addresses, keys, and what is told of either to whom; its answers as they are kept."""

import logging
import traceback
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat.asking import EndpointError, append_line, lines_of
from chat.endpoint import Chat, Endpoint, returned, sound, without_thoughts
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


entries = st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=3), min_size=1, max_size=6)


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
    path.write_bytes(content + b'\n{"a": 1}')
    assert [*lines_of(path)] == [{"a": 1}]


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert [*lines_of(tmp_path / "answers.jsonl")] == []
