"""Answers from a server that speaks the protocol: kept, resumed, stopped, paid for, refused and broken off."""

import math
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from mrc_workbench.data.records import Passage
from mrc_workbench.data.workspace import read_json, workspace
from mrc_workbench.labs.reading.generate import Batch, Budget, Prices, answer, generate, stored_answer
from mrc_workbench.labs.reading.generator import Generator, Request, prompts
from mrc_workbench.labs.reading.scores import ReadingError
from mrc_workbench.models.llm import Endpoint, EndpointError, Usage, returned
from mrc_workbench.models.llm_connection import Chat
from tests.chat_server import AT_ONCE, EVENTS, KEY, MODEL, ChatServer, Reply, chat_server, chunk, events, pieces
from tests.labs.reading.cities import CITIES, GENERATOR, REQUESTS, asked_of, right


def usage(prompt: int | None, completion: int | None) -> Usage:
    return Usage(prompt, completion, 0.1, 0.2)


def test_prices_are_those_of_a_million_tokens_and_may_be_nothing() -> None:
    assert Prices(2, 8).of(500_000, 250_000) == pytest.approx(1 + 2)
    assert not Budget(Prices(1, 1, 0)).set_aside("a", 1)
    assert Budget(Prices(0, 0, 0)).set_aside("a", 1)
    budget = Budget(None)
    assert budget.set_aside("a", 10**9)
    budget.settle("a", usage(10**6, 10**6))
    assert (budget.spent, budget.estimated) == (0, 0)


def test_before_the_first_answer_a_request_is_taken_for_a_token_a_byte_and_a_long_answer() -> None:
    most = Prices(1, 1).of(1000, 500)
    assert Budget(Prices(1, 1, most)).set_aside("a", 1000)
    assert not Budget(Prices(1, 1, most)).set_aside("a", 1001)


def test_what_others_at_work_may_cost_is_set_aside_too() -> None:
    budget = Budget(Prices(1, 0, 0.0025))
    assert budget.set_aside("a", 1000)
    assert budget.set_aside("b", 1000)
    assert not budget.set_aside("c", 1000)
    budget.release("a")
    assert budget.set_aside("c", 1000)


def test_the_next_request_is_estimated_by_the_dearest_so_far() -> None:
    budget = Budget(Prices(1, 1, 0.01))
    for name, told in (("a", usage(250, 20)), ("b", usage(500, 10))):
        assert budget.set_aside(name, 1000)
        budget.settle(name, told)
    assert budget.spent == pytest.approx((270 + 510) / 1e6)
    left = 0.01 - budget.spent
    assert not budget.set_aside("c", int((left * 1e6 - 20) / 0.5) + 2)  # half a token a byte, 20 of an answer
    assert budget.set_aside("c", int((left * 1e6 - 20) / 0.5))


@pytest.mark.parametrize("told", [None, usage(None, None), usage(5, None)])
def test_what_no_server_tells_counts_as_it_was_estimated_and_is_said_to_be(told: Usage | None) -> None:
    budget = Budget(Prices(1, 1))
    assert budget.set_aside("a", 1000)
    budget.settle("a", told)
    assert budget.spent == budget.estimated == pytest.approx(1500 / 1e6)


@pytest.mark.parametrize("wrong", [(-1, 1), (1, math.nan), (1, 1, -0.1), (math.inf, 1), (1, 1, math.inf)])
def test_a_price_is_a_number_from_nothing(wrong: tuple[float, ...]) -> None:
    with pytest.raises(ReadingError) as caught:
        Prices(*wrong)
    assert caught.value.code == "price_range"


EVERY = {request.id for request in REQUESTS}


def made(server: ChatServer | None, generator: Generator = GENERATOR, **how: object) -> Batch:
    endpoint = Endpoint(server.address, KEY) if server else None
    return generate(generator, REQUESTS, endpoint, **how)  # type: ignore[arg-type]


def chat(server: ChatServer) -> Chat:
    return GENERATOR.chat(Endpoint(server.address, KEY))


def broken(city: str, reply: Callable[[], Reply | str]) -> Callable[[str], str | Reply]:
    """What answers rightly but for the question on one city."""
    return lambda text: reply() if asked_of(text) == city else right(text)


@pytest.mark.slow
def test_every_question_is_answered_from_its_passages() -> None:
    told: list[tuple[int, int, float]] = []
    with chat_server(right) as server:
        found = made(server, on_progress=lambda *words: told.append(words))
    assert (found.answers.keys(), found.failures, found.left, found.ended) == (EVERY, {}, 0, None)
    assert [found.answers[request.id].cited.text for request in REQUESTS] == [f"{city}역 앞" for city in CITIES]
    assert [passage.id for passage in found.answers["q0"].sent] == ["서울", "포항"]
    (one,) = [request for request in server.asked if asked_of(request["messages"][1]["content"]) == "서울"]
    system, user = (message["content"] for message in one["messages"])
    assert system == prompts()["ko"].system
    assert "[1]\n> 서울시\n> \n> 서울의 시장은 서울역 앞에 있다.\n\n[2]\n> 포항시" in user
    assert found.answers["q0"].usage.prompt_tokens == len(system) + len(user)
    assert one["temperature"] == 0
    assert told[0] == (0, 10, 0.0)
    assert told[-1] == (10, 10, 0.0)


def test_nobody_is_asked_twice() -> None:
    with chat_server(right) as server:
        first = made(server)
        assert len(server.asked) == 10
        assert made(server) == first
        other = [replace(request, id=f"other {request.id}") for request in REQUESTS]  # as another retriever's
        same = generate(replace(GENERATOR, name="Another"), other, Endpoint(server.address, "another key"))
        assert [*same.answers.values()] == [*first.answers.values()]
        assert stored_answer(GENERATOR, REQUESTS[0]) == first.answers["q0"]
        assert len(server.asked) == 10
    assert made(None) == first
    with chat_server(right) as elsewhere:
        assert made(elsewhere) == first
        assert elsewhere.asked == []
    with chat_server(right) as server:
        made(server)
    (folder,) = (workspace() / "generated").iterdir()
    told = read_json(folder / "generator.json")
    assert (told["model"], told["temperature"], told["prompt"]["refusal"]) == (MODEL, 0, prompts()["ko"].refusal)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed", [{"temperature": 0.5}, {"prompt": prompts()["en"]}, {"most_passages": 1}, {"most_characters": 5}]
)
def test_another_question_of_the_model_is_another_answer(changed: dict[str, object]) -> None:
    with chat_server(lambda _: "서울 [1]") as server:
        made(server)
        made(server, replace(GENERATOR, **changed))  # type: ignore[arg-type]
    assert len(server.asked) == 20


def test_two_questions_with_the_same_words_and_passages_are_asked_once() -> None:
    twice = [*REQUESTS, replace(REQUESTS[0], id="again")]
    with chat_server(right) as server:
        found = generate(GENERATOR, twice, Endpoint(server.address, KEY))
    assert len(server.asked) == 10
    assert found.answers["again"] == found.answers["q0"]


def test_one_answer_comes_in_pieces_and_is_kept() -> None:
    with chat_server(right) as server:
        assert stored_answer(GENERATOR, REQUESTS[0]) is None
        assert [*answer(GENERATOR, chat(server), REQUESTS[0])] == pieces("서울역 앞 [1]")
        kept = stored_answer(GENERATOR, REQUESTS[0])
        assert kept
        assert kept.said == "서울역 앞 [1]"
        assert len(server.asked) == 1
        assert made(server).answers.keys() == EVERY
        assert len(server.asked) == 10


def test_one_answer_that_is_stopped_is_not_kept() -> None:
    with chat_server(right) as server:
        stream = answer(GENERATOR, chat(server), REQUESTS[0])
        next(stream)
        stream.close()
    assert made(None).left == 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (lambda: Reply(400, {"error": {"message": "too long"}}), "refused"),
        (lambda: Reply(500, {"error": {"message": "my fault"}}, AT_ONCE), "refused"),
        (lambda: Reply(200, iter([chunk("대구")]), EVENTS), "broken_off"),
        (lambda: Reply(200, chunk("대구"), EVENTS, dropped=True), "broken_off"),
        (lambda: Reply(200, "data: {broken\n\n", EVENTS), "broken_off"),
        (lambda: "", "nothing_said"),
        (lambda: "<think>대구라…</think>\n", "nothing_said"),
    ],
)
def test_a_question_that_fails_is_told_costs_only_itself_and_is_asked_again(
    reply: Callable[[], Reply | str], code: str
) -> None:
    with chat_server(broken("대구", reply)) as server:
        found = made(server)
        assert {id_: failure.code for id_, failure in found.failures.items()} == {"q2": code}
        assert (found.answers.keys(), found.left, found.ended) == (EVERY - {"q2"}, 0, None)
        server.reply = right
        before = len(server.asked)
        assert made(server).answers.keys() == EVERY
        assert len(server.asked) == before + 1


def test_a_question_that_is_answered_too_late_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.llm_connection.RETRIES", 0)
    late = threading.Event()

    def slow(text: str) -> str:
        if asked_of(text) == "대구":
            late.wait(5)
        return right(text)

    with chat_server(slow) as server:
        found = made(server, replace(GENERATOR, timeout_seconds=0.3))
        late.set()
    assert {id_: failure.code for id_, failure in found.failures.items()} == {"q2": "timeout"}


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
def test_an_error_that_others_would_meet_too_ends_the_batch_and_keeps_what_is_done(reply: Reply, code: str) -> None:
    answered = iter(CITIES[:4])
    with chat_server(lambda text: right(text) if next(answered, None) else reply) as server:
        found = made(server, concurrency=1)
        assert isinstance(found.ended, EndpointError)
        assert (found.ended.code, found.failures, found.left, len(found.answers)) == (code, {}, 6, 4)
        server.reply = right
        assert made(server).answers.keys() == EVERY


def test_an_endpoint_that_fails_again_and_again_is_left_alone() -> None:
    with chat_server(lambda _: Reply(400, {"error": {"message": "no"}})) as server:
        found = made(server, concurrency=1)
    assert (len(server.asked), len(found.failures), found.left) == (8, 8, 2)
    assert isinstance(found.ended, EndpointError)
    assert found.ended.code == "refused"


def test_questions_that_fail_between_others_that_do_not_end_nothing() -> None:
    many = [replace(one, id=f"{one.id}-{n}", question=f"{one.question} {n}") for n in range(5) for one in REQUESTS]
    with chat_server(lambda text: Reply(400, {}) if asked_of(text) in CITIES[::2] else right(text)) as server:
        found = generate(GENERATOR, many, Endpoint(server.address, KEY), concurrency=1)
    assert (len(found.failures), len(found.answers), found.ended) == (25, 25, None)


def test_stopped_it_asks_no_further_and_keeps_what_is_done() -> None:
    with chat_server(right) as server:
        found = made(server, concurrency=1, stopped=lambda: len(server.asked) >= 3)
        assert isinstance(found.ended, ReadingError)
        assert found.ended.code == "generation_stopped"
        assert 3 <= len(server.asked) <= 4
        assert found.left == 10 - len(found.answers)
        asked = len(server.asked)
        assert made(server).answers.keys() == EVERY
        assert len(server.asked) - asked in (10 - asked, 11 - asked)  # one may have been under way


def test_an_answer_under_way_when_all_is_stopped_is_kept_when_it_comes() -> None:
    under_way, go_on = threading.Event(), threading.Event()

    def slow(text: str) -> str:
        under_way.set()
        go_on.wait(5)
        return right(text)

    with chat_server(slow) as server:
        found = made(server, concurrency=1, stopped=under_way.is_set)
        assert (found.left, len(found.answers)) == (10, 0)
        go_on.set()
        for _ in range(500):
            if made(None).answers:
                break
            threading.Event().wait(0.01)
    assert made(None).answers.keys() == {"q0"}


def test_who_is_told_of_the_progress_can_end_it() -> None:
    class LeftError(Exception):
        pass

    def leave(done: int, total: int, spent: float) -> None:
        if done >= 3:
            raise LeftError

    with chat_server(right) as server, pytest.raises(LeftError):
        made(server, concurrency=1, on_progress=leave)
    assert 3 <= len(server.asked) <= 4


def test_no_more_are_asked_at_the_same_time_than_wanted() -> None:
    at_work, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(3, timeout=5)

    def count(text: str) -> str:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        if asked_of(text) in CITIES[:3]:
            together.wait()
        with lock:
            at_work -= 1
        return right(text)

    with chat_server(count) as server:
        made(server, concurrency=3)
    assert most == 3


def test_a_price_is_not_passed_and_a_higher_one_goes_on() -> None:
    with chat_server(right) as server:
        one = returned(answer(GENERATOR, chat(server), REQUESTS[9])).usage
        price = Prices(1000, 1000).of(one.prompt_tokens or 0, one.completion_tokens or 0)
        bytes_, answer_ = GENERATOR.messages(REQUESTS[0]).size, 500
        first = Prices(1000, 1000).of(bytes_, answer_)  # before any answer, as dear as it can be
        prices = Prices(1000, 1000, most=max(first, 4.5 * price))
        found = made(server, prices=prices, concurrency=2)
        assert isinstance(found.ended, ReadingError)
        assert found.ended.code == "price_ceiling"
        assert found.ended.details == {"left": found.left}
        assert found.spent <= (prices.most or 0) < found.spent + 1.1 * price
        assert found.spent == pytest.approx(
            sum(
                prices.of(got.usage.prompt_tokens or 0, got.usage.completion_tokens or 0)
                for id_, got in found.answers.items()
                if id_ != "q9"
            )
        )
        assert found.estimated == 0
        assert found.left == 10 - len(found.answers) > 0
        rest = made(server, prices=Prices(1000, 1000, most=1000.0))
        assert (rest.ended, rest.left, len(server.asked)) == (None, 0, 10)
        assert made(server, prices=Prices(1000, 1000, most=0)).ended is None  # what is kept costs nothing


def test_a_price_that_not_even_one_answer_keeps_asks_nobody() -> None:
    with chat_server(right) as server:
        found = made(server, prices=Prices(1, 1, most=1e-9))
    assert (server.asked, found.left, found.spent) == ([], 10, 0)


def test_what_no_server_tells_is_said_to_be_estimated() -> None:
    def untold(text: str) -> Reply:
        return Reply(200, events([right(text)]), EVENTS)

    with chat_server(untold) as server:
        found = made(server, prices=Prices(1, 1))
    assert found.answers["q0"].usage.prompt_tokens is None
    assert found.spent == found.estimated > 0


def test_a_broken_off_answer_may_have_cost_and_a_refusal_did_not() -> None:
    for reply, costs in ((Reply(200, iter([chunk("대구")]), EVENTS), True), (Reply(400, {}), False)):
        with chat_server(lambda _, reply=reply: reply) as server:  # type: ignore[misc]
            request = Request("q", f"{reply.status}?", [Passage("p", "대구역 앞이다.")])
            found = generate(GENERATOR, [request], Endpoint(server.address, KEY), prices=Prices(1, 1))
        assert bool(found.failures) is True
        assert (found.spent > 0, found.estimated > 0) == (costs, costs)


def test_no_more_than_a_few_dozen_at_once() -> None:
    with pytest.raises(ReadingError) as caught:
        made(None, concurrency=65)
    assert caught.value.code == "generator_range"


def test_kept_answers_that_cannot_be_read_are_asked_for_again() -> None:
    with chat_server(right) as server:
        made(server)
        (path,) = (workspace() / "generated").glob("*/answers.jsonl")
        lines = path.read_text(encoding="utf-8").split("\n")
        odd = ['{"asked": 3}', '{"asked": "a", "said": 3}', "[]", "\x00", lines[-1][:-30]]
        path.write_text("\n".join([*lines[:-1], *odd]), encoding="utf-8")
        assert made(None).left == 1
        assert made(server).answers.keys() == EVERY
        assert len(server.asked) == 11
