"""Generated answers from a test server: storage, resumption, stops, costs, errors and interruptions."""

import math
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from mrc_workbench.data.records import Passage
from mrc_workbench.data.workspace import read_json, workspace
from mrc_workbench.labs.reading.generate import Batch, CostBudget, Prices, generate, stored_answer, stream_answer
from mrc_workbench.labs.reading.generator import GenerationRequest, Generator, load_prompts
from mrc_workbench.labs.reading.scores import ReadingError
from mrc_workbench.models.llm import Endpoint, EndpointError, Usage, exhaust
from mrc_workbench.models.llm_connection import Chat
from tests.chat_server import AT_ONCE, EVENTS, KEY, MODEL, ChatServer, Reply, chat_server, chunk, events, pieces
from tests.doubles import raises_failure
from tests.labs.reading.cities import CITIES, GENERATOR, REQUESTS, city_of_question, correct_answer

CHANGES = ({"temperature": 0.5}, {"prompt": load_prompts()["en"]}, {"max_passages": 1}, {"max_characters": 5})
ALL_IDS = {request.id for request in REQUESTS}


def usage(prompt: int | None, completion: int | None) -> Usage:
    return Usage(prompt, completion, 0.1, 0.2)


def test_reserves_by_prices_per_million_tokens() -> None:
    assert Prices(2, 8).cost(500_000, 250_000) == pytest.approx(1 + 2)
    assert not CostBudget(Prices(1, 1, 0)).reserve("a", 1)
    assert CostBudget(Prices(0, 0, 0)).reserve("a", 1)
    budget = CostBudget(None)
    assert budget.reserve("a", 10**9)
    budget.settle("a", usage(10**6, 10**6))
    assert (budget.spent, budget.estimated) == (0, 0)
    # the first estimate assumes a token per byte, and 500 of an answer
    limit = Prices(1, 1).cost(1000, 500)
    assert CostBudget(Prices(1, 1, limit)).reserve("a", 1000)
    assert not CostBudget(Prices(1, 1, limit)).reserve("a", 1001)
    budget = CostBudget(Prices(1, 0, 0.0025))
    assert budget.reserve("a", 1000)
    assert budget.reserve("b", 1000)
    assert not budget.reserve("c", 1000)
    budget.release("a")
    assert budget.reserve("c", 1000)


def test_estimates_by_most_expensive_answer() -> None:
    budget = CostBudget(Prices(1, 1, 0.01))
    for name, reported in (("a", usage(250, 20)), ("b", usage(500, 10))):
        assert budget.reserve(name, 1000)
        budget.settle(name, reported)
    assert budget.spent == pytest.approx((270 + 510) / 1e6)
    remaining = 0.01 - budget.spent
    assert not budget.reserve("c", int((remaining * 1e6 - 20) / 0.5) + 2)  # half a token a byte, 20 of an answer
    assert budget.reserve("c", int((remaining * 1e6 - 20) / 0.5))


@pytest.mark.parametrize("reported_usage", [None, usage(None, None), usage(5, None)])
def test_missing_usage_counts_as_estimated(reported_usage: Usage | None) -> None:
    budget = CostBudget(Prices(1, 1))
    assert budget.reserve("a", 1000)
    budget.settle("a", reported_usage)
    assert budget.spent == budget.estimated == pytest.approx(1500 / 1e6)


def test_rejects_invalid_prices_and_concurrency() -> None:
    for wrong in ((-1, 1), (1, math.nan), (1, 1, -0.1), (math.inf, 1), (1, 1, math.inf)):
        with raises_failure("price_range", ReadingError):
            Prices(*wrong)
    with raises_failure("generator_range", ReadingError):
        run_batch(None, concurrency=65)


def run_batch(server: ChatServer | None, generator: Generator = GENERATOR, **options: object) -> Batch:
    endpoint = Endpoint(server.address, KEY) if server else None
    return generate(generator, REQUESTS, endpoint, **options)  # type: ignore[arg-type]


def chat(server: ChatServer) -> Chat:
    return GENERATOR.chat(Endpoint(server.address, KEY))


@pytest.mark.slow
def test_answers_every_question_from_its_passages() -> None:
    progress: list[tuple[int, int, float]] = []
    with chat_server(correct_answer) as server:
        batch = run_batch(server, on_progress=lambda *words: progress.append(words))
    assert (batch.answers.keys(), batch.failures, batch.n_remaining, batch.end_reason) == (ALL_IDS, {}, 0, None)
    assert [batch.answers[request.id].cited_answer.text for request in REQUESTS] == [f"{city}역 앞" for city in CITIES]
    assert [passage.id for passage in batch.answers["q0"].passages] == ["서울", "포항"]
    bodies = {city_of_question(request["messages"][1]["content"]): request for request in server.requests}
    request_body = bodies["서울"]
    system, user = (message["content"] for message in request_body["messages"])
    assert system == load_prompts()["ko"].system
    assert "[1]\n> 서울시\n> \n> 서울의 시장은 서울역 앞에 있다.\n\n[2]\n> 포항시" in user
    assert batch.answers["q0"].usage.prompt_tokens == len(system) + len(user)
    assert request_body["temperature"] == 0
    assert (progress[0], progress[-1]) == ((0, 10, 0.0), (10, 10, 0.0))


def test_reuses_stored_answers_and_sends_identical_requests_once() -> None:
    twice = [*REQUESTS, replace(REQUESTS[0], id="again")]  # asks the same as the first
    with chat_server(correct_answer) as server:
        both = generate(GENERATOR, twice, Endpoint(server.address, KEY))
        assert len(server.requests) == 10
        first = run_batch(server)
        assert both.answers == first.answers | {"again": first.answers["q0"]}
        other = [replace(request, id=f"other {request.id}") for request in REQUESTS]  # of another retriever
        same = generate(replace(GENERATOR, name="Another"), other, Endpoint(server.address, "another key"))
        assert [*same.answers.values()] == [*first.answers.values()]
        assert stored_answer(GENERATOR, REQUESTS[0]) == first.answers["q0"]
        assert len(server.requests) == 10
    assert run_batch(None) == first
    with chat_server(correct_answer) as elsewhere:
        assert run_batch(elsewhere) == first
        assert elsewhere.requests == []
    with chat_server(correct_answer) as server:
        run_batch(server)
    (folder,) = (workspace() / "generated").iterdir()
    settings = read_json(folder / "generator.json")
    assert (settings["model"], settings["temperature"]) == (MODEL, 0)
    assert settings["prompt"]["refusal"] == load_prompts()["ko"].refusal


@pytest.mark.slow
@pytest.mark.parametrize("changed", CHANGES)
def test_changed_settings_request_new_answers(changed: dict[str, object]) -> None:
    with chat_server(lambda _: "서울 [1]") as server:
        run_batch(server)
        run_batch(server, replace(GENERATOR, **changed))  # type: ignore[arg-type]
    assert len(server.requests) == 20


def test_streams_and_stores_answer_unless_stopped() -> None:
    with chat_server(correct_answer) as server:
        stream = stream_answer(GENERATOR, chat(server), REQUESTS[0])
        next(stream)
        stream.close()
    assert run_batch(None).n_remaining == 10
    with chat_server(correct_answer) as server:
        assert stored_answer(GENERATOR, REQUESTS[0]) is None
        assert [*stream_answer(GENERATOR, chat(server), REQUESTS[0])] == pieces("서울역 앞 [1]")
        stored = stored_answer(GENERATOR, REQUESTS[0])
        assert stored
        assert stored.response == "서울역 앞 [1]"
        assert len(server.requests) == 1
        assert run_batch(server).answers.keys() == ALL_IDS
        assert len(server.requests) == 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (lambda: Reply(400, {"error": {"message": "too long"}}), "refused"),
        (lambda: Reply(500, {"error": {"message": "my fault"}}, AT_ONCE), "refused"),
        (lambda: Reply(200, iter([chunk("대구")]), EVENTS), "truncated"),
        (lambda: Reply(200, chunk("대구"), EVENTS, dropped=True), "truncated"),
        (lambda: Reply(200, "data: {broken\n\n", EVENTS), "truncated"),
        (lambda: "", "empty_answer"),
        (lambda: "<think>대구라…</think>\n", "empty_answer"),
    ],
)
def test_failed_question_is_reported_and_retried(reply: Callable[[], Reply | str], code: str) -> None:
    with chat_server(lambda text: reply() if city_of_question(text) == "대구" else correct_answer(text)) as server:
        batch = run_batch(server)
        assert {id_: failure.code for id_, failure in batch.failures.items()} == {"q2": code}
        assert (batch.answers.keys(), batch.n_remaining, batch.end_reason) == (ALL_IDS - {"q2"}, 0, None)
        server.reply = correct_answer
        before = len(server.requests)
        assert run_batch(server).answers.keys() == ALL_IDS
        assert len(server.requests) == before + 1


def test_timeout_fails_single_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.llm_connection.RETRIES", 0)
    late = threading.Event()

    def slow(text: str) -> str:
        if city_of_question(text) == "대구":
            late.wait(5)
        return correct_answer(text)

    with chat_server(slow) as server:
        batch = run_batch(server, replace(GENERATOR, timeout_seconds=0.3))
        late.set()
    assert {id_: failure.code for id_, failure in batch.failures.items()} == {"q2": "timeout"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(403, {"error": {"message": "not for you"}}), "key"),
        (Reply(404, {"error": {"message": "no such model"}}), "model_unknown"),
        (Reply(429, {"error": {"message": "no more"}}, AT_ONCE), "rate"),
        (Reply(200, "<html>", {"content-type": "text/html"}), "no_chat"),
    ],
)
def test_fatal_error_ends_batch_and_keeps_answers(reply: Reply, code: str) -> None:
    answered = iter(CITIES[:4])
    with chat_server(lambda text: correct_answer(text) if next(answered, None) else reply) as server:
        batch = run_batch(server, concurrency=1)
        assert isinstance(batch.end_reason, EndpointError)
        assert (batch.end_reason.code, batch.failures, batch.n_remaining, len(batch.answers)) == (code, {}, 6, 4)
        server.reply = correct_answer
        assert run_batch(server).answers.keys() == ALL_IDS


def test_repeated_but_not_scattered_failures_end_batch() -> None:
    with chat_server(lambda _: Reply(400, {"error": {"message": "no"}})) as server:
        batch = run_batch(server, concurrency=1)
    assert (len(server.requests), len(batch.failures), batch.n_remaining) == (8, 8, 2)
    assert isinstance(batch.end_reason, EndpointError)
    assert batch.end_reason.code == "refused"
    many = []
    for n in range(5):
        many += [replace(item, id=f"{item.id}-{n}", question=f"{item.question} {n}") for item in REQUESTS]

    def reply(text: str) -> str | Reply:
        return Reply(400, {}) if city_of_question(text) in CITIES[::2] else correct_answer(text)

    with chat_server(reply) as server:
        batch = generate(GENERATOR, many, Endpoint(server.address, KEY), concurrency=1)
    assert (len(batch.failures), len(batch.answers), batch.end_reason) == (25, 25, None)


def test_stopped_batch_keeps_answers() -> None:
    with chat_server(correct_answer) as server:
        batch = run_batch(server, concurrency=1, stopped=lambda: len(server.requests) >= 3)
        assert isinstance(batch.end_reason, ReadingError)
        assert batch.end_reason.code == "generation_stopped"
        assert 3 <= len(server.requests) <= 4
        assert batch.n_remaining == 10 - len(batch.answers)
        n_requests = len(server.requests)
        assert run_batch(server).answers.keys() == ALL_IDS
        assert len(server.requests) - n_requests in (10 - n_requests, 11 - n_requests)  # one may have been running


def test_stores_answer_that_arrives_after_stop() -> None:
    under_way = threading.Event()
    go_on = threading.Event()

    def slow(text: str) -> str:
        under_way.set()
        go_on.wait(5)
        return correct_answer(text)

    with chat_server(slow) as server:
        batch = run_batch(server, concurrency=1, stopped=under_way.is_set)
        assert (batch.n_remaining, len(batch.answers)) == (10, 0)
        go_on.set()
        for _ in range(500):
            if run_batch(None).answers:
                break
            threading.Event().wait(0.01)
    assert run_batch(None).answers.keys() == {"q0"}


def test_progress_callback_can_abort_batch() -> None:
    class LeftError(Exception):
        pass

    def leave(done: int, total: int, spent: float) -> None:
        if done >= 3:
            raise LeftError

    with chat_server(correct_answer) as server, pytest.raises(LeftError):
        run_batch(server, concurrency=1, on_progress=leave)
    assert 3 <= len(server.requests) <= 4


def test_limits_concurrent_requests() -> None:
    n_running = 0
    max_running = 0
    lock = threading.Lock()
    together = threading.Barrier(3, timeout=5)

    def count(text: str) -> str:
        nonlocal n_running, max_running
        with lock:
            n_running += 1
            max_running = max(max_running, n_running)
        if city_of_question(text) in CITIES[:3]:
            together.wait()
        with lock:
            n_running -= 1
        return correct_answer(text)

    with chat_server(count) as server:
        run_batch(server, concurrency=3)
    assert max_running == 3


def test_price_limit_stops_and_higher_limit_continues() -> None:
    with chat_server(correct_answer) as server:
        first_usage = exhaust(stream_answer(GENERATOR, chat(server), REQUESTS[9])).usage
        price = Prices(1000, 1000).cost(first_usage.prompt_tokens or 0, first_usage.completion_tokens or 0)
        first = Prices(1000, 1000).cost(GENERATOR.build_messages(REQUESTS[0]).size, 500)  # the estimate at the start
        prices = Prices(1000, 1000, limit=max(first, 4.5 * price))
        batch = run_batch(server, prices=prices, concurrency=2)
        assert isinstance(batch.end_reason, ReadingError)
        assert batch.end_reason.code == "price_ceiling"
        assert batch.end_reason.details == {"left": batch.n_remaining}
        assert batch.spent <= (prices.limit or 0) < batch.spent + 1.1 * price
        usages = [answer.usage for id_, answer in batch.answers.items() if id_ != "q9"]
        costs = [prices.cost(usage.prompt_tokens or 0, usage.completion_tokens or 0) for usage in usages]
        assert batch.spent == pytest.approx(sum(costs))
        assert batch.estimated == 0
        assert batch.n_remaining == 10 - len(batch.answers) > 0
        rest = run_batch(server, prices=Prices(1000, 1000, limit=1000.0))
        assert (rest.end_reason, rest.n_remaining, len(server.requests)) == (None, 0, 10)
        assert run_batch(server, prices=Prices(1000, 1000, limit=0)).end_reason is None  # stored answers are free
        nothing = run_batch(server, replace(GENERATOR, temperature=1), prices=Prices(1, 1, limit=1e-9))
        assert (len(server.requests), nothing.n_remaining, nothing.spent) == (10, 10, 0)


def test_cost_of_interrupted_answers_and_without_usage_is_estimated() -> None:
    def without_usage(text: str) -> Reply:
        return Reply(200, events([correct_answer(text)]), EVENTS)

    with chat_server(without_usage) as server:
        batch = run_batch(server, prices=Prices(1, 1))
    assert batch.answers["q0"].usage.prompt_tokens is None
    assert batch.spent == batch.estimated > 0
    for reply, costs in ((Reply(200, iter([chunk("대구")]), EVENTS), True), (Reply(400, {}), False)):
        with chat_server(lambda _, reply=reply: reply) as server:  # type: ignore[misc]
            request = GenerationRequest("q", f"{reply.status}?", [Passage("p", "대구역 앞이다.")])
            batch = generate(GENERATOR, [request], Endpoint(server.address, KEY), prices=Prices(1, 1))
        assert bool(batch.failures) is True
        assert (batch.spent > 0, batch.estimated > 0) == (costs, costs)


def test_requests_unreadable_stored_answers_again() -> None:
    with chat_server(correct_answer) as server:
        run_batch(server)
        (path,) = (workspace() / "generated").glob("*/answers.jsonl")
        lines = path.read_text(encoding="utf-8").split("\n")
        odd = ['{"key": 3}', '{"key": "a", "response": 3}', "[]", "\x00", lines[-1][:-30]]
        path.write_text("\n".join([*lines[:-1], *odd]), encoding="utf-8")
        assert run_batch(None).n_remaining == 1
        assert run_batch(server).answers.keys() == ALL_IDS
        assert len(server.requests) == 11
