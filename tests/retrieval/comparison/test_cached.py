import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from data.workspace import workspace
from models.encoders.vector_blocks import Meter
from retrieval.comparison.spec import CachedRetriever
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
    CachedRetriever("kept", "key", no_build)
    with pytest.raises(AssertionError, match="built again"):
        CachedRetriever("kept", "key", no_build).search(ASKED, 2)


def test_the_second_search_comes_from_disk() -> None:
    first = CachedRetriever("kept", "key", lambda: Fixed([1, 0], [2])).search(ASKED, 3)
    second = CachedRetriever("another name", "key", no_build).search(ASKED, 3)
    assert first.indices.tolist() == second.indices.tolist() == [[1, 0, -1], [2, -1, -1]]
    np.testing.assert_array_equal(first.scores, second.scores)
    assert (second.indices.dtype, second.scores.dtype) == (np.int32, np.float32)


@pytest.mark.parametrize(("key", "asked", "k"), [("other", ASKED, 3), ("key", ["b", "a"], 3), ("key", ASKED, 2)])
def test_anything_else_is_searched_anew(key: str, asked: list[str], k: int) -> None:
    CachedRetriever("kept", "key", lambda: Fixed([1, 0], [2])).search(ASKED, 3)
    with pytest.raises(AssertionError, match="built again"):
        CachedRetriever("kept", key, no_build).search(asked, k)


def test_built_once_for_several_searches() -> None:
    built: list[str] = []

    def build() -> Retriever:
        built.append("once")
        return Fixed([1], [2])

    kept = CachedRetriever("kept", "key", build)
    kept.search(ASKED, 1)
    kept.search(ASKED, 2)
    assert built == ["once"]


def test_a_failed_search_leaves_nothing_behind() -> None:
    with pytest.raises(AssertionError, match="built again"):
        CachedRetriever("kept", "key", no_build).search(ASKED, 1)
    assert CachedRetriever("kept", "key", lambda: Fixed([1], [2])).search(ASKED, 1).indices.tolist() == [[1], [2]]


def test_one_question_is_not_worth_a_file() -> None:
    CachedRetriever("kept", "key", lambda: Fixed([1])).search(["a"], 1)
    assert not (workspace() / "cache" / "rankings").exists()


def test_times_are_those_of_the_making() -> None:
    first, second = CachedRetriever("kept", "key", Slow), CachedRetriever("kept", "key", no_build)
    first.search(ASKED, 1)
    second.search(ASKED, 1)
    assert BUILD <= first.build_seconds < BUILD + QUERY
    assert QUERY <= first.query_seconds < QUERY + BUILD
    assert (second.build_seconds, second.query_seconds) == (first.build_seconds, first.query_seconds)


def test_a_second_depth_needs_no_second_building_but_costs_it() -> None:
    kept = CachedRetriever("kept", "key", Slow)
    kept.search(ASKED, 1)
    kept.search(ASKED, 2)
    assert BUILD <= kept.build_seconds < BUILD + QUERY
    assert QUERY <= kept.query_seconds < QUERY + BUILD


@pytest.mark.parametrize("parts_are_on_disk", [False, True])
def test_a_wrapper_costs_what_its_parts_cost(parts_are_on_disk: bool) -> None:
    if parts_are_on_disk:
        for key in ("one", "two"):
            CachedRetriever(key, key, Slow).search(ASKED, 1)
    build = no_build if parts_are_on_disk else Slow
    parts = [CachedRetriever(key, key, build) for key in ("one", "two")]
    wrapper = CachedRetriever("wrapper", "wrapper", lambda: Slow(parts), parts)
    wrapper.search(ASKED, 1)
    assert 3 * BUILD <= wrapper.build_seconds < 3 * BUILD + 2 * QUERY
    assert 3 * QUERY <= wrapper.query_seconds < 5 * QUERY  # 5 where the parts were counted twice


def test_a_search_goes_as_deep_as_any_that_follows_needs() -> None:
    kept = CachedRetriever("kept", "key", lambda: Fixed([3, 1, 0], [2]), depth=3)
    assert kept.search(ASKED, 1).indices.tolist() == [[3], [2]]
    again = CachedRetriever("kept", "key", no_build, depth=3)
    assert again.remembers(ASKED, 3)
    assert again.search(ASKED, 2).indices.tolist() == [[3, 1], [2, -1]]
    assert again.search(ASKED, 3).indices.tolist() == [[3, 1, 0], [2, -1, -1]]
    assert not again.remembers(ASKED, 4)


def test_what_was_released_is_built_again_where_it_is_needed() -> None:
    built: list[str] = []

    def build() -> Retriever:
        built.append("again")
        return Fixed([1], [2])

    kept = CachedRetriever("kept", "key", build)
    kept.search(ASKED, 1)
    kept.release()
    assert not kept.ready
    kept.search(ASKED, 1)
    assert len(built) == 1
    kept.search(ASKED, 2)
    assert (len(built), kept.ready) == (2, True)


def test_what_was_prepared_with_its_parts_answers_without_building() -> None:
    built: list[str] = []

    def build(name: str) -> Retriever:
        built.append(name)
        return Fixed([1], [2])

    part = CachedRetriever("part", "part", lambda: build("part"))
    whole = CachedRetriever("whole", "whole", lambda: build("whole"), [part])
    whole.prepare()
    assert (built, part.ready, whole.ready) == (["part", "whole"], True, True)
    whole.search(ASKED, 1)
    whole.prepare()
    assert built == ["part", "whole"]


def test_sessions_that_ask_at_once_wait_for_one_to_build() -> None:
    built: list[str] = []

    def build() -> Retriever:
        time.sleep(BUILD)
        built.append("once")
        return Fixed([1], [2])

    kept = CachedRetriever("kept", "key", build)
    with ThreadPoolExecutor(4) as sessions:
        list(sessions.map(lambda _: kept.prepare(), range(4)))
    assert built == ["once"]


def test_rankings_made_elsewhere_have_no_seconds_and_the_wrapper_has_only_its_own() -> None:
    run = CachedRetriever("run", "run", Slow, timed=False)
    wrapper = CachedRetriever("wrapper", "wrapper", lambda: Slow([run]), [run])
    wrapper.search(ASKED, 1)
    assert (run.build_seconds, run.query_seconds, run.model_seconds) == (0, 0, 0)
    assert BUILD <= wrapper.build_seconds < 2 * BUILD
    assert QUERY <= wrapper.query_seconds < 2 * QUERY


class Modelled(Slow):
    """Reads from disk in no time what a model took 7 seconds to load, 50 to index with and 3 to ask with."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        meter.note(passed=0.0, load=7.0, work=50.0)
        super().__init__()

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        self._meter.note(passed=0.0, load=0.0, work=3.0)
        return super().search(questions, k)


def test_the_work_of_a_model_costs_what_it_took_also_where_it_comes_from_disk() -> None:
    meter = Meter()
    meter.note(passed=100.0, load=0.0, work=100.0)  # what another retriever with this model did is its own
    kept = CachedRetriever("kept", "key", lambda: Modelled(meter), meter=meter)
    kept.search(ASKED, 1)
    assert 57 + BUILD <= kept.build_seconds < 58
    assert 3 + QUERY <= kept.query_seconds < 4
    assert kept.model_seconds == 3
    wrapper = CachedRetriever("wrapper", "wrapper", lambda: Slow([kept]), [kept])
    wrapper.search(ASKED, 1)
    assert 57 + 2 * BUILD <= wrapper.build_seconds < 58
    assert wrapper.model_seconds == 3


class Sized(Slow):
    def __init__(self, memory_bytes: int, notes: dict[str, int], parts: Sequence[Retriever] = ()) -> None:
        super().__init__(parts)
        self.memory_bytes, self.notes = memory_bytes, notes


def test_memory_and_notes_are_kept_with_the_rankings() -> None:
    for build in (lambda: Sized(1234, {"depth": 3}), no_build):
        kept = CachedRetriever("kept", "key", build)
        kept.search(ASKED, 1)
        assert (kept.memory_bytes, kept.notes) == (1234, {"depth": 3})


@pytest.mark.parametrize(("sizes", "expected"), [((10, 20), 30), ((10, 0), 0)])
def test_the_memory_of_a_wrapper_is_that_of_its_parts_where_all_are_known(
    sizes: tuple[int, int], expected: int
) -> None:
    parts = [CachedRetriever(str(size), str(size), lambda size=size: Sized(size, {})) for size in sizes]
    wrapper = CachedRetriever("wrapper", "wrapper", lambda: Slow(parts), parts)
    wrapper.search(ASKED, 1)
    assert (wrapper.memory_bytes, wrapper.notes) == (expected, {})
