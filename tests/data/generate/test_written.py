"""doc2query with a local server: answers, errors, limits, unusable text, interruptions."""

import json
import logging
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data import generate as module
from mrc_workbench.data.generate import GenerationOptions, generate_questions, parse_questions
from mrc_workbench.data.records import Passage, QuestionGenerator, QuestionSet
from mrc_workbench.data.store import load, save_question_set
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.llm import Endpoint, EndpointError
from tests.chat_server import AT_ONCE, KEY, MODEL, ChatServer, Reply, chat_server, completion
from tests.doubles import raises_failure

CITIES = ("서울", "부산", "대구", "인천", "광주", "대전", "울산", "세종", "수원", "포항")
CORPUS = QuestionSet("도시", [Passage(city, f"{city}의 이야기이다.", f"{city}시") for city in CITIES], ())


def city_in(text: str) -> str:
    return next(city for city in CITIES if city in text)


def asks(text: str) -> str:
    return json.dumps([f"{city_in(text)}은 어떤 곳인가?", f"{city_in(text)}의 이야기는?"], ensure_ascii=False)


def generate(server: ChatServer | None, key: str = KEY, **options: object) -> module.GeneratedQuestions:
    generation_options = GenerationOptions(by=QuestionGenerator.MODEL, **{"model": MODEL, "concurrency": 2, **options})
    return generate_questions(CORPUS, generation_options, Endpoint(server.address, key) if server else None)


def test_requests_questions_for_each_passage_once() -> None:
    with chat_server(asks) as server:
        generated = generate(server, per_passage=2, temperature=0.3)
        assert len(server.requests) == len(CITIES)
        assert set(server.keys) == {f"Bearer {KEY}"}
        assert {request["temperature"] for request in server.requests} == {0.3}
        assert "2개" in server.requests[0]["messages"][0]["content"]
        texts = {request["messages"][1]["content"] for request in server.requests}
        assert "제목: 서울시\n\n서울의 이야기이다." in texts
    questions = generated.question_set.questions
    assert [question.text for question in questions[:2]] == ["서울은 어떤 곳인가?", "서울의 이야기는?"]
    assert all(question.relevant == (city_in(question.text),) for question in questions)
    assert {(question.generator, question.hidden) for question in questions} == {(f"model: {MODEL}", False)}
    assert (len(questions), generated.passage_count, generated.failed_passages) == (20, 10, ())
    assert load(save_question_set(generated.question_set).key).questions == questions


def test_reuses_stored_answers() -> None:
    with chat_server(asks) as server:
        few = generate(server, limit=3)
        first = generate(server)
        assert len(server.requests) == len(CITIES)
        again = generate(server, limit=3)
        assert len(server.requests) == len(CITIES)
        generate(server, prompt="{n} questions, please")
        assert len(server.requests) == 2 * len(CITIES)
        assert server.requests[-1]["messages"][0]["content"] == "1 questions, please"
    assert few == again
    assert generate(None) == first


def test_prompts_come_in_two_languages() -> None:
    with chat_server(asks) as server:
        generate(server, language=module.PromptLanguage.ENGLISH, limit=1)
    system, user = (message["content"] for message in server.requests[0]["messages"])
    assert system.startswith("You write questions")
    assert user.startswith("Title: ")


def test_reports_and_retries_unusable_answers() -> None:
    with chat_server(lambda text: "죄송합니다." if "부산" in text else asks(text)) as server:
        generated = generate(server)
        (failed,) = generated.failed_passages
        assert (CITIES[failed.row], failed.code, failed.answer_excerpt) == ("부산", "unusable", "죄송합니다.")
        assert len(generated.question_set.questions) == 9
        server.reply = asks
        assert len(generate(server).question_set.questions) == 10
        assert len(server.requests) == 11


def test_rejects_if_no_answer_is_usable() -> None:
    with chat_server(lambda _: "죄송합니다.") as server, pytest.raises(module.QuestionsError) as caught:
        generate(server)
    assert (caught.value.code, caught.value.details) == ("nothing_usable", {"first": "죄송합니다."})


def test_waits_for_rate_limits() -> None:
    refused = iter([Reply(429, {"error": {"message": "slow down"}}, AT_ONCE)] * 3)
    with chat_server(lambda text: next(refused, None) or asks(text)) as server:
        assert len(generate(server).question_set.questions) == 10
        assert len(server.requests) == 13


def test_stops_at_a_lasting_rate_limit_and_stores_results() -> None:
    answered = iter(CITIES[:4])
    limit = Reply(429, {"error": {"message": "no more"}}, AT_ONCE)
    with chat_server(lambda text: asks(text) if next(answered, None) else limit) as server:
        with pytest.raises(EndpointError, match="takes no more requests for now") as caught:
            generate(server)
        assert (caught.value.code, caught.value.is_fatal) == ("rate", True)
    generated = generate(None)
    assert (generated.passage_count, generated.pending_count) == (4, 6)


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
def test_reports_unexpected_endpoint_replies(reply: Reply, code: str) -> None:
    with chat_server(lambda _: reply) as server, raises_failure(code):
        generate(server)


def test_refused_passage_affects_no_other() -> None:
    too_long = Reply(400, {"error": {"message": "the passage is too long"}})
    with chat_server(lambda text: too_long if "대구" in text else asks(text)) as server:
        generated = generate(server)
    (failed,) = generated.failed_passages
    assert (CITIES[failed.row], failed.code) == ("대구", "refused")
    assert "too long" in failed.answer_excerpt


def test_empty_and_null_answers_are_unusable() -> None:
    nothing = completion("")
    nothing["choices"][0]["message"]["content"] = None  # a model that only calls tools
    with chat_server(lambda text: Reply(200, nothing) if "서울" in text else asks(text)) as server:
        assert [failed.code for failed in generate(server).failed_passages] == ["unusable"]


def test_reports_a_wrong_key_without_leaking_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with chat_server(asks) as server:
        with pytest.raises(EndpointError) as caught:
            generate(server, key="sk-secret-of-somebody")
        good = generate(server)
        assert len(good.question_set.questions) == 10
        save_question_set(good.question_set)
    assert caught.value.code == "key"
    words = f"{caught.value} {caught.value.details} {caught.value.__cause__} {Endpoint(server.address, KEY)!r}"
    assert "secret" not in words
    written = b"".join(path.read_bytes() for path in workspace().rglob("*") if path.is_file())
    for secret in (KEY, "sk-secret-of-somebody", server.address, server.address.split("/")[2]):
        assert secret not in caplog.text
        assert secret.encode() not in written
        assert secret not in words


def test_masks_the_key_in_server_messages() -> None:
    with chat_server(asks) as server:
        server.reply = lambda _: Reply(400, {"error": {"message": f"{KEY} came to {server.address}"}})
        with pytest.raises(EndpointError) as caught:
            generate(server)
    assert "… came to …" in str(caught.value)
    assert KEY not in str(caught.value.details)


def test_reports_an_unknown_model() -> None:
    with chat_server(asks) as server, pytest.raises(EndpointError) as caught:
        generate(server, model="another")
    assert (caught.value.code, caught.value.details) == ("model_unknown", {"model": "another"})


def test_reports_an_unreachable_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.llm_connection.RETRIES", 0)
    with raises_failure("unreachable"):
        generate(ChatServer(asks, "http://127.0.0.1:9/v1"))


def test_reports_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.llm_connection.RETRIES", 0)
    monkeypatch.setattr("mrc_workbench.models.llm_connection.TIMEOUT_SECONDS", 0.2)
    late = threading.Event()

    def slow(text: str) -> str:
        if "서울" in text:
            late.wait(5)
        return asks(text)

    with chat_server(slow) as server:
        generated = generate(server)
        late.set()
    assert [(CITIES[failed.row], failed.code) for failed in generated.failed_passages] == [("서울", "timeout")]


def test_stopping_stores_results_and_sends_no_more_requests() -> None:
    def stop(done: int, total: int) -> None:
        assert total == len(CITIES)
        if done >= 3:
            raise KeyboardInterrupt

    options = GenerationOptions(by=QuestionGenerator.MODEL, model=MODEL, concurrency=1)
    with chat_server(asks) as server, pytest.raises(KeyboardInterrupt):
        generate_questions(CORPUS, options, Endpoint(server.address, KEY), on_progress=stop)
    assert 3 <= len(server.requests) <= 5
    assert generate(None, concurrency=1).passage_count >= 3


def test_limits_concurrent_requests() -> None:
    at_work = 0
    most = 0
    lock = threading.Lock()
    together = threading.Barrier(3, timeout=5)

    def count(text: str) -> str:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        if city_in(text) in first_cities:
            together.wait()
        with lock:
            at_work -= 1
        return asks(text)

    first_cities = CITIES[:3]
    with chat_server(count) as server:
        generate(server, concurrency=3)
    assert most == 3


def test_torn_line_affects_no_other() -> None:
    with chat_server(asks) as server:
        generate(server, limit=4)
        (path,) = (workspace() / "cache" / "questions").iterdir()
        path.write_bytes(path.read_bytes()[:-7])
        generate(server)
        assert len(server.requests) == len(CITIES) + 1
    assert generate(None).pending_count == 0


def test_skips_unreadable_stored_answers(tmp_path: Path) -> None:
    with chat_server(asks) as server:
        generate(server, limit=2)
        (path,) = (workspace() / "cache" / "questions").iterdir()
        path.write_text('\n[]\n{"passage": 1}\nnull\n\x00', encoding="utf-8")
        assert generate(server, limit=2).passage_count == 2


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
def test_parses_questions_from_model_answers(answer: str) -> None:
    assert parse_questions(answer, 5) == ["수도는 어디인가?", "강의 이름은?"]
    assert parse_questions(answer, 1) == ["수도는 어디인가?"]


@pytest.mark.parametrize(
    "answer",
    ["", "죄송하지만 도와드릴 수 없습니다.", "[]", "[1, 2]", '["수도는', "질문입니다.\n수도는?", '["가?"]', "[" * 5000],
)
def test_returns_no_questions_for_other_answers(answer: str) -> None:
    assert parse_questions(answer, 5) == []


@given(st.text(max_size=200), st.integers(1, 5))
def test_parsed_questions_are_always_valid(answer: str, most: int) -> None:
    questions = parse_questions(answer, most)
    assert len(questions) == len(set(questions)) <= most
    assert all(4 <= len(question) <= 300 and question == " ".join(question.split()) for question in questions)
