"""Rankings that are kept, and what their making took, by a clock of the test's own."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mrc_workbench.data import cache
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.sources import Meter
from mrc_workbench.retrieval.comparison import spec
from mrc_workbench.retrieval.comparison.spec import CachedRetriever
from mrc_workbench.retrieval.rankings import Rankings, Retriever
from tests.retrieval.test_combine import Fixed

ASKED = ["a", "b"]
BUILD, QUERY = pytest.approx(0.5), pytest.approx(0.125)
CLOCK = SimpleNamespace(now=0.0)


@pytest.fixture(autouse=True)
def _by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec, "time", SimpleNamespace(perf_counter=lambda: CLOCK.now))


def no_build() -> Retriever:
    raise AssertionError("built again")


class Slow:
    """Takes half a second to build and an eighth to search, and searches its parts first."""

    name = "slow"

    def __init__(self, parts: Sequence[Retriever] = ()) -> None:
        CLOCK.now += 0.5
        self._parts = parts

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        for part in self._parts:
            part.search(questions, k)
        CLOCK.now += 0.125
        return Fixed([1], [0]).search(questions, k)


class Builder:
    """Builds a retriever of two questions, and counts how often."""

    times = 0

    def __call__(self) -> Retriever:
        self.times += 1
        return Fixed([1], [2])


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
    assert (first.costs.build_seconds, first.costs.query_seconds) == (BUILD, QUERY)
    assert second.costs == first.costs
    first.search(ASKED, 2)  # another depth costs the building, too
    assert (first.costs.build_seconds, first.costs.query_seconds) == (BUILD, QUERY)


@pytest.mark.parametrize("parts_are_on_disk", [False, True])
def test_a_wrapper_costs_what_its_parts_cost(parts_are_on_disk: bool) -> None:
    if parts_are_on_disk:
        for key in ("one", "two"):
            CachedRetriever(key, key, Slow).search(ASKED, 1)
    build = no_build if parts_are_on_disk else Slow
    parts = [CachedRetriever(key, key, build) for key in ("one", "two")]
    wrapper = CachedRetriever("wrapper", "wrapper", lambda: Slow(parts), parts)
    wrapper.search(ASKED, 1)
    # no part is counted twice
    assert (wrapper.costs.build_seconds / 3, wrapper.costs.query_seconds / 3) == (BUILD, QUERY)


def test_a_search_goes_as_deep_as_any_that_follows_needs() -> None:
    kept = CachedRetriever("kept", "key", lambda: Fixed([3, 1, 0], [2]), depth=3)
    assert kept.search(ASKED, 1).indices.tolist() == [[3], [2]]
    again = CachedRetriever("kept", "key", no_build, depth=3)
    assert again.remembers(ASKED, 3)
    assert again.search(ASKED, 2).indices.tolist() == [[3, 1], [2, -1]]
    assert again.search(ASKED, 3).indices.tolist() == [[3, 1, 0], [2, -1, -1]]
    assert not again.remembers(ASKED, 4)


def test_what_was_released_is_built_again_where_it_is_needed() -> None:
    build = Builder()
    kept = CachedRetriever("kept", "key", build)
    kept.search(ASKED, 1)
    kept.search(ASKED, 3)
    kept.release()
    assert (build.times, kept.ready) == (1, False)
    kept.search(ASKED, 1)
    assert build.times == 1
    kept.search(ASKED, 2)
    assert (build.times, kept.ready) == (2, True)


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
    build = Builder()

    def slowly() -> Retriever:
        time.sleep(0.05)
        return build()

    kept = CachedRetriever("kept", "key", slowly)
    with ThreadPoolExecutor(4) as sessions:
        list(sessions.map(lambda _: kept.prepare(), range(4)))
    assert build.times == 1


def test_rankings_made_elsewhere_have_no_seconds_and_the_wrapper_has_only_its_own() -> None:
    run = CachedRetriever("run", "run", Slow, timed=False)
    wrapper = CachedRetriever("wrapper", "wrapper", lambda: Slow([run]), [run])
    wrapper.search(ASKED, 1)
    assert (run.costs.build_seconds, run.costs.query_seconds, run.costs.model_seconds) == (0, 0, 0)
    assert (wrapper.costs.build_seconds, wrapper.costs.query_seconds) == (BUILD, QUERY)


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
    assert (kept.costs.build_seconds - 57, kept.costs.query_seconds - 3) == (BUILD, QUERY)
    assert kept.costs.model_seconds == 3
    wrapper = CachedRetriever("wrapper", "wrapper", lambda: Slow([kept]), [kept])
    wrapper.search(ASKED, 1)
    assert ((wrapper.costs.build_seconds - 57) / 2, wrapper.costs.model_seconds) == (BUILD, 3)


class Sized(Slow):
    def __init__(self, memory_bytes: int, notes: dict[str, int], parts: Sequence[Retriever] = ()) -> None:
        super().__init__(parts)
        self.memory_bytes, self.notes = memory_bytes, notes


def test_memory_and_notes_are_kept_with_the_rankings() -> None:
    for build in (lambda: Sized(1234, {"depth": 3}), no_build):
        kept = CachedRetriever("kept", "key", build)
        kept.search(ASKED, 1)
        assert (kept.costs.memory_bytes, kept.costs.notes) == (1234, {"depth": 3})


@pytest.mark.parametrize(("sizes", "expected"), [((10, 20), 30), ((10, 0), 0)])
def test_the_memory_of_a_wrapper_is_that_of_its_parts_where_all_are_known(
    sizes: tuple[int, int], expected: int
) -> None:
    parts = [CachedRetriever(str(size), str(size), lambda size=size: Sized(size, {})) for size in sizes]
    wrapper = CachedRetriever("wrapper", "wrapper", lambda: Slow(parts), parts)
    wrapper.search(ASKED, 1)
    assert (wrapper.costs.memory_bytes, wrapper.costs.notes) == (expected, {})


def test_times_that_ship_with_the_sample_are_those_of_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_SHIPPED", tmp_path / "shipped")
    made = CachedRetriever("made", "made", Slow, depth=1)
    made.search(ASKED, 1)
    assert made.costs.elsewhere_seconds == 0
    shipped = CachedRetriever("shipped", "shipped", no_build, depth=1)
    shipped.ship(made, ASKED)
    shipped.search(ASKED, 1)
    assert (shipped.costs.query_seconds, shipped.costs.elsewhere_seconds) == (QUERY, QUERY)
    mix = CachedRetriever("mix", "mix", lambda: Slow([shipped, made]), [shipped, made])
    for _ in ("searched", "kept"):
        mix.search(ASKED, 1)
        assert (mix.costs.query_seconds / 3, mix.costs.elsewhere_seconds) == (QUERY, QUERY)


def test_vectors_that_ship_with_the_sample_count_as_time_of_another_machine() -> None:
    meter = Meter()

    class OfVectors(Slow):
        def search(self, questions: Sequence[str], k: int) -> Rankings:
            meter.note(0.0, 0.0, 3.0, elsewhere=True)
            meter.note(0.0, 0.0, 1.0)
            return super().search(questions, k)

    kept = CachedRetriever("kept", "kept", OfVectors, meter=meter)
    kept.search(ASKED, 1)
    assert kept.costs.elsewhere_seconds == pytest.approx(3.0)
    assert kept.costs.query_seconds - 4 == QUERY
    assert kept.costs.model_seconds == pytest.approx(4.0)
