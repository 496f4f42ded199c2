"""Money by hand: what was told, what is set aside, and where it ends."""

import math

import pytest

from chat.endpoint import Usage
from reading.generate.generate import Budget, Prices
from reading.judge.rules import ReadingError


def usage(prompt: int | None, completion: int | None) -> Usage:
    return Usage(prompt, completion, 0.1, 0.2)


def test_tokens_cost_what_a_million_of_them_do() -> None:
    assert Prices(2, 8).of(500_000, 250_000) == pytest.approx(1 + 2)


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


def test_without_prices_nothing_costs_anything() -> None:
    budget = Budget(None)
    assert budget.set_aside("a", 10**9)
    budget.settle("a", usage(10**6, 10**6))
    assert (budget.spent, budget.estimated) == (0, 0)


def test_nothing_may_be_spent() -> None:
    assert not Budget(Prices(1, 1, 0)).set_aside("a", 1)
    assert Budget(Prices(0, 0, 0)).set_aside("a", 1)


@pytest.mark.parametrize("wrong", [(-1, 1), (1, math.nan), (1, 1, -0.1), (math.inf, 1), (1, 1, math.inf)])
def test_a_price_is_a_number_from_nothing(wrong: tuple[float, ...]) -> None:
    with pytest.raises(ReadingError) as caught:
        Prices(*wrong)
    assert caught.value.code == "price_range"
