"""doc2query against a server that speaks the protocol: answers, errors, limits, garbage, stops."""

import json
import logging
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.generate import (
    MadeQuestions,
    MakerOptions,
    PromptLanguage,
    QuestionsError,
    make_questions,
    questions_in,
)
from mrc_workbench.data.records import Maker, Passage, QuestionSet
from mrc_workbench.data.store import keep, load
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.llm import Endpoint, EndpointError
from tests.chat_server import AT_ONCE, KEY, MODEL, ChatServer, Reply, chat_server, completion

CITIES = ("서울", "부산", "대구", "인천", "광주", "대전", "울산", "세종", "수원", "포항")
CORPUS = QuestionSet("도시", [Passage(city, f"{city}의 이야기이다.", f"{city}시") for city in CITIES], ())


def city_in(text: str) -> str:
    return next(city for city in CITIES if city in text)


def asks(text: str) -> str:
    return json.dumps([f"{city_in(text)}은 어떤 곳인가?", f"{city_in(text)}의 이야기는?"], ensure_ascii=False)


def made(server: ChatServer | None, key: str = KEY, **options: object) -> MadeQuestions:
    chosen = MakerOptions(by=Maker.MODEL, **{"model": MODEL, "concurrency": 2, **options})
    return make_questions(CORPUS, chosen, Endpoint(server.address, key) if server else None)


def test_every_passage_is_asked_about_once_and_its_questions_are_its_own() -> None:
    with chat_server(asks) as server:
        found = made(server, per_passage=2, temperature=0.3)
        assert len(server.asked) == len(CITIES)
        assert set(server.keys) == {f"Bearer {KEY}"}
        assert {request["temperature"] for request in server.asked} == {0.3}
        assert "2개" in server.asked[0]["messages"][0]["content"]
        texts = {request["messages"][1]["content"] for request in server.asked}
        assert "제목: 서울시\n\n서울의 이야기이다." in texts
    questions = found.question_set.questions
    assert [question.text for question in questions[:2]] == ["서울은 어떤 곳인가?", "서울의 이야기는?"]
    assert all(question.relevant == (city_in(question.text),) for question in questions)
    assert {(question.made, question.hidden) for question in questions} == {(f"model: {MODEL}", False)}
    assert (len(questions), found.passages_asked, found.unanswered) == (20, 10, ())
    assert load(keep(found.question_set).key).questions == questions


def test_the_same_call_is_not_made_again() -> None:
    with chat_server(asks) as server:
        few, first = made(server, most=3), made(server)
        assert len(server.asked) == len(CITIES)
        again = made(server, most=3)
        assert len(server.asked) == len(CITIES)
        made(server, prompt="{n} questions, please")
        assert len(server.asked) == 2 * len(CITIES)
        assert server.asked[-1]["messages"][0]["content"] == "1 questions, please"
    assert few == again
    assert made(None) == first


def test_prompts_come_in_two_languages() -> None:
    with chat_server(asks) as server:
        made(server, language=PromptLanguage.ENGLISH, most=1)
    system, user = (message["content"] for message in server.asked[0]["messages"])
    assert system.startswith("You write questions")
    assert user.startswith("Title: ")


def test_an_answer_that_holds_no_question_is_counted_shown_and_asked_for_again() -> None:
    with chat_server(lambda text: "죄송합니다." if "부산" in text else asks(text)) as server:
        found = made(server)
        (one,) = found.unanswered
        assert (CITIES[one.row], one.code, one.said) == ("부산", "unusable", "죄송합니다.")
        assert len(found.question_set.questions) == 9
        server.reply = asks
        assert len(made(server).question_set.questions) == 10
        assert len(server.asked) == 11


def test_nothing_but_garbage() -> None:
    with chat_server(lambda _: "죄송합니다.") as server, pytest.raises(QuestionsError) as caught:
        made(server)
    assert (caught.value.code, caught.value.details) == ("nothing_usable", {"first": "죄송합니다."})


def test_a_limited_rate_is_waited_for() -> None:
    refused = iter([Reply(429, {"error": {"message": "slow down"}}, AT_ONCE)] * 3)
    with chat_server(lambda text: next(refused, None) or asks(text)) as server:
        assert len(made(server).question_set.questions) == 10
        assert len(server.asked) == 13


def test_a_limit_that_stays_ends_the_work_and_keeps_what_is_done() -> None:
    answered = iter(CITIES[:4])
    limit = Reply(429, {"error": {"message": "no more"}}, AT_ONCE)
    with chat_server(lambda text: asks(text) if next(answered, None) else limit) as server:
        with pytest.raises(EndpointError, match="takes no more requests for now") as caught:
            made(server)
        assert (caught.value.code, caught.value.ends) == ("rate", True)
    found = made(None)
    assert (found.passages_asked, found.left) == (4, 6)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(200, "<html>welcome</html>", {"content-type": "text/html"}), "no_chat"),
        (Reply(200, {"choices": []}), "no_chat"),
        (Reply(200, {"hello": 1}), "no_chat"),
        (Reply(200, "{broken"), "no_chat"),
        (Reply(403, {"error": {"message": "not for you"}}), "key"),
        (Reply(400, {"error": {"message": "too long"}}), "refused"),
        (Reply(500, {"error": {"message": "my fault"}}, AT_ONCE), "refused"),
    ],
)
def test_an_endpoint_that_does_not_answer_as_it_should(reply: Reply, code: str) -> None:
    with chat_server(lambda _: reply) as server, pytest.raises(EndpointError) as caught:
        made(server)
    assert caught.value.code == code


def test_a_passage_that_is_refused_costs_only_itself() -> None:
    too_long = Reply(400, {"error": {"message": "the passage is too long"}})
    with chat_server(lambda text: too_long if "대구" in text else asks(text)) as server:
        found = made(server)
    (one,) = found.unanswered
    assert (CITIES[one.row], one.code) == ("대구", "refused")
    assert "too long" in one.said


def test_an_empty_answer_is_unusable_and_null_content_too() -> None:
    nothing = completion("")
    nothing["choices"][0]["message"]["content"] = None  # what a model that only calls tools gives
    with chat_server(lambda text: Reply(200, nothing) if "서울" in text else asks(text)) as server:
        assert [one.code for one in made(server).unanswered] == ["unusable"]


def test_a_wrong_key_is_told_once_and_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with chat_server(asks) as server:
        with pytest.raises(EndpointError) as caught:
            made(server, key="sk-secret-of-somebody")
        good = made(server)
        assert len(good.question_set.questions) == 10
        keep(good.question_set)
    assert caught.value.code == "key"
    words = f"{caught.value} {caught.value.details} {caught.value.__cause__} {Endpoint(server.address, KEY)!r}"
    assert "secret" not in words
    written = b"".join(path.read_bytes() for path in workspace().rglob("*") if path.is_file())
    for secret in (KEY, "sk-secret-of-somebody", server.address, server.address.split("/")[2]):
        assert secret not in caplog.text
        assert secret.encode() not in written
        assert secret not in words


def test_a_server_that_repeats_the_key_does_not_have_it_told() -> None:
    with chat_server(asks) as server:
        server.reply = lambda _: Reply(400, {"error": {"message": f"{KEY} came to {server.address}"}})
        with pytest.raises(EndpointError) as caught:
            made(server)
    assert "… came to …" in str(caught.value)
    assert KEY not in str(caught.value.details)


def test_a_model_that_is_not_there() -> None:
    with chat_server(asks) as server, pytest.raises(EndpointError) as caught:
        made(server, model="another")
    assert (caught.value.code, caught.value.details) == ("model_unknown", {"model": "another"})


def test_nobody_answers_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.llm_connection.RETRIES", 0)
    with pytest.raises(EndpointError) as caught:
        made(ChatServer(asks, "http://127.0.0.1:9/v1"))
    assert caught.value.code == "unreachable"


def test_an_answer_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.llm_connection.RETRIES", 0)
    monkeypatch.setattr("mrc_workbench.models.llm_connection.TIMEOUT_SECONDS", 0.2)
    late = threading.Event()

    def slow(text: str) -> str:
        if "서울" in text:
            late.wait(5)
        return asks(text)

    with chat_server(slow) as server:
        found = made(server)
        late.set()
    assert [(CITIES[one.row], one.code) for one in found.unanswered] == [("서울", "timeout")]


def test_stopped_it_keeps_what_is_done_and_asks_no_further() -> None:
    class StoppedError(Exception):
        pass

    def stop(done: int, total: int) -> None:
        assert total == len(CITIES)
        if done >= 3:
            raise StoppedError

    options = MakerOptions(by=Maker.MODEL, model=MODEL, concurrency=1)
    with chat_server(asks) as server, pytest.raises(StoppedError):
        make_questions(CORPUS, options, Endpoint(server.address, KEY), on_progress=stop)
    assert 3 <= len(server.asked) <= 5
    assert made(None, concurrency=1).passages_asked >= 3


def test_no_more_are_asked_at_the_same_time_than_wanted() -> None:
    at_work, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(3, timeout=5)

    def count(text: str) -> str:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        if city_in(text) in made_first:
            together.wait()
        with lock:
            at_work -= 1
        return asks(text)

    made_first = CITIES[:3]
    with chat_server(count) as server:
        made(server, concurrency=3)
    assert most == 3


def test_a_line_torn_by_a_kill_spoils_no_other() -> None:
    with chat_server(asks) as server:
        made(server, most=4)
        (path,) = (workspace() / "cache" / "questions").iterdir()
        path.write_bytes(path.read_bytes()[:-7])
        made(server)
        assert len(server.asked) == len(CITIES) + 1
    assert made(None).left == 0


def test_kept_answers_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    with chat_server(asks) as server:
        made(server, most=2)
        (path,) = (workspace() / "cache" / "questions").iterdir()
        path.write_text('\n[]\n{"passage": 1}\nnull\n\x00', encoding="utf-8")
        assert made(server, most=2).passages_asked == 2


@pytest.mark.parametrize(
    "answer",
    [
        '["수도는 어디인가?", "강의 이름은?"]',
        '```json\n["수도는 어디인가?",\n "강의 이름은?"]\n```',
        '물론입니다! [1] 답: ["수도는 어디인가?", "강의 이름은?"] 도움이 되었기를.',
        '{"questions": ["수도는 어디인가?", "강의 이름은?", "수도는 어디인가?"]}',
        '<think>["무엇을 물을까?"]</think>["수도는 어디인가?", "강의 이름은?"]',
        "1. 수도는 어디인가?\n2) 강의 이름은?",
        '- "수도는 어디인가?"\n\n- 강의   이름은?',
        '[["수도는 어디인가?", "강의 이름은?"]]',
    ],
)
def test_answers_as_models_give_them(answer: str) -> None:
    assert questions_in(answer, 5) == ["수도는 어디인가?", "강의 이름은?"]
    assert questions_in(answer, 1) == ["수도는 어디인가?"]


@pytest.mark.parametrize(
    "answer",
    ["", "죄송하지만 도와드릴 수 없습니다.", "[]", "[1, 2]", '["수도는', "질문입니다.\n수도는?", '["가?"]', "[" * 5000],
)
def test_what_is_no_list_of_questions(answer: str) -> None:
    assert questions_in(answer, 5) == []


@given(st.text(max_size=200), st.integers(1, 5))
def test_whatever_is_answered_what_is_taken_is_fit(answer: str, most: int) -> None:
    found = questions_in(answer, most)
    assert len(found) == len(set(found)) <= most
    assert all(4 <= len(question) <= 300 and question == " ".join(question.split()) for question in found)
