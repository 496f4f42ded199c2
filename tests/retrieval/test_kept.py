import time
from collections.abc import Sequence

import numpy as np
import pytest

from data.workspace import workspace
from retrieval.kept import Kept
from retrieval.rankings import Rankings, Retriever
from tests.retrieval.test_hybrid import Fixed

ASKED = ["a", "b"]
BUILD, QUERY = 0.05, 0.1


def no_build() -> Retriever:
    raise AssertionError("built again")


class Slow:
    """Takes a known time to build and to search, and searches its parts first."""

    name = "slow"

    def __init__(self, parts: Sequence[Retriever] = ()) -> None:
        time.sleep(BUILD)
        self._parts = parts

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        for part in self._parts:
            part.search(questions, k)
        time.sleep(QUERY)
        return Fixed([1], [0]).search(questions, k)


def test_nothing_is_built_before_something_is_asked() -> None:
    Kept("kept", "key", no_build)
    with pytest.raises(AssertionError, match="built again"):
        Kept("kept", "key", no_build).search(ASKED, 2)


def test_the_second_search_comes_from_disk() -> None:
    first = Kept("kept", "key", lambda: Fixed([1, 0], [2])).search(ASKED, 3)
    second = Kept("another name", "key", no_build).search(ASKED, 3)
    assert first.indices.tolist() == second.indices.tolist() == [[1, 0, -1], [2, -1, -1]]
    np.testing.assert_array_equal(first.scores, second.scores)
    assert (second.indices.dtype, second.scores.dtype) == (np.int32, np.float32)


@pytest.mark.parametrize(("key", "asked", "k"), [("other", ASKED, 3), ("key", ["b", "a"], 3), ("key", ASKED, 2)])
def test_anything_else_is_searched_anew(key: str, asked: list[str], k: int) -> None:
    Kept("kept", "key", lambda: Fixed([1, 0], [2])).search(ASKED, 3)
    with pytest.raises(AssertionError, match="built again"):
        Kept("kept", key, no_build).search(asked, k)


def test_built_once_for_several_searches() -> None:
    built: list[str] = []

    def build() -> Retriever:
        built.append("once")
        return Fixed([1], [2])

    kept = Kept("kept", "key", build)
    kept.search(ASKED, 1)
    kept.search(ASKED, 2)
    assert built == ["once"]


def test_a_failed_search_leaves_nothing_behind() -> None:
    with pytest.raises(AssertionError, match="built again"):
        Kept("kept", "key", no_build).search(ASKED, 1)
    assert Kept("kept", "key", lambda: Fixed([1], [2])).search(ASKED, 1).indices.tolist() == [[1], [2]]


def test_one_question_is_not_worth_a_file() -> None:
    Kept("kept", "key", lambda: Fixed([1])).search(["a"], 1)
    assert not (workspace() / "cache" / "rankings").exists()


def test_times_are_those_of_the_making() -> None:
    first, second = Kept("kept", "key", Slow), Kept("kept", "key", no_build)
    first.search(ASKED, 1)
    second.search(ASKED, 1)
    assert BUILD <= first.build_seconds < BUILD + QUERY
    assert QUERY <= first.query_seconds < QUERY + BUILD
    assert (second.build_seconds, second.query_seconds) == (first.build_seconds, first.query_seconds)


def test_a_second_depth_needs_no_second_building_but_costs_it() -> None:
    kept = Kept("kept", "key", Slow)
    kept.search(ASKED, 1)
    kept.search(ASKED, 2)
    assert BUILD <= kept.build_seconds < BUILD + QUERY
    assert QUERY <= kept.query_seconds < QUERY + BUILD


@pytest.mark.parametrize("parts_are_on_disk", [False, True])
def test_a_wrapper_costs_what_its_parts_cost(parts_are_on_disk: bool) -> None:
    if parts_are_on_disk:
        for key in ("one", "two"):
            Kept(key, key, Slow).search(ASKED, 1)
    build = no_build if parts_are_on_disk else Slow
    parts = [Kept(key, key, build) for key in ("one", "two")]
    wrapper = Kept("wrapper", "wrapper", lambda: Slow(parts), parts)
    wrapper.search(ASKED, 1)
    assert 3 * BUILD <= wrapper.build_seconds < 3 * BUILD + 2 * QUERY
    assert 3 * QUERY <= wrapper.query_seconds < 5 * QUERY  # 5 where the parts were counted twice
