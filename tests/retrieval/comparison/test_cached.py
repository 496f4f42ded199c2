"""Cached rankings and their costs, with a fake clock."""

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

QUERIES = ["a", "b"]
BUILD = pytest.approx(0.5)
QUERY = pytest.approx(0.125)
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


def test_reads_second_search_from_disk() -> None:
    first = CachedRetriever("kept", "key", lambda: Fixed([1, 0], [2])).search(QUERIES, 3)
    second = CachedRetriever("another name", "key", no_build).search(QUERIES, 3)
    assert first.indices.tolist() == second.indices.tolist() == [[1, 0, -1], [2, -1, -1]]
    np.testing.assert_array_equal(first.scores, second.scores)
    assert (second.indices.dtype, second.scores.dtype) == (np.int32, np.float32)


@pytest.mark.parametrize(("key", "queries", "k"), [("other", QUERIES, 3), ("key", ["b", "a"], 3), ("key", QUERIES, 2)])
def test_searches_again_for_other_key_queries_or_depth(key: str, queries: list[str], k: int) -> None:
    CachedRetriever("kept", "key", lambda: Fixed([1, 0], [2])).search(QUERIES, 3)
    with pytest.raises(AssertionError, match="built again"):
        CachedRetriever("kept", key, no_build).search(queries, k)


def test_stores_nothing_after_failed_search() -> None:
    with pytest.raises(AssertionError, match="built again"):
        CachedRetriever("kept", "key", no_build).search(QUERIES, 1)
    assert CachedRetriever("kept", "key", lambda: Fixed([1], [2])).search(QUERIES, 1).indices.tolist() == [[1], [2]]


def test_does_not_cache_single_query() -> None:
    CachedRetriever("kept", "key", lambda: Fixed([1])).search(["a"], 1)
    assert not (workspace() / "cache" / "rankings").exists()


def test_reports_times_of_first_search() -> None:
    first = CachedRetriever("kept", "key", Slow)
    second = CachedRetriever("kept", "key", no_build)
    first.search(QUERIES, 1)
    second.search(QUERIES, 1)
    assert (first.costs.build_seconds, first.costs.query_seconds) == (BUILD, QUERY)
    assert second.costs == first.costs
    first.search(QUERIES, 2)  # another depth costs the building, too
    assert (first.costs.build_seconds, first.costs.query_seconds) == (BUILD, QUERY)


@pytest.mark.parametrize("parts_are_on_disk", [False, True])
def test_sums_costs_of_components(parts_are_on_disk: bool) -> None:
    if parts_are_on_disk:
        for key in ("one", "two"):
            CachedRetriever(key, key, Slow).search(QUERIES, 1)
    build = no_build if parts_are_on_disk else Slow
    parts = [CachedRetriever(key, key, build) for key in ("one", "two")]
    wrapper = CachedRetriever("wrapper", "wrapper", lambda: Slow(parts), parts)
    wrapper.search(QUERIES, 1)
    # no part is counted twice
    assert (wrapper.costs.build_seconds / 3, wrapper.costs.query_seconds / 3) == (BUILD, QUERY)


def test_searches_to_configured_depth() -> None:
    retriever = CachedRetriever("kept", "key", lambda: Fixed([3, 1, 0], [2]), depth=3)
    assert retriever.search(QUERIES, 1).indices.tolist() == [[3], [2]]
    again = CachedRetriever("kept", "key", no_build, depth=3)
    assert again.is_cached(QUERIES, 3)
    assert again.search(QUERIES, 2).indices.tolist() == [[3, 1], [2, -1]]
    assert again.search(QUERIES, 3).indices.tolist() == [[3, 1, 0], [2, -1, -1]]
    assert not again.is_cached(QUERIES, 4)


def test_rebuilds_released_retriever_on_demand() -> None:
    build = Builder()
    retriever = CachedRetriever("kept", "key", build)
    retriever.search(QUERIES, 1)
    retriever.search(QUERIES, 3)
    retriever.release()
    assert (build.times, retriever.is_built) == (1, False)
    retriever.search(QUERIES, 1)
    assert build.times == 1
    retriever.search(QUERIES, 2)
    assert (build.times, retriever.is_built) == (2, True)


def test_prepare_builds_retriever_and_components() -> None:
    built: list[str] = []

    def build(name: str) -> Retriever:
        built.append(name)
        return Fixed([1], [2])

    part = CachedRetriever("part", "part", lambda: build("part"))
    whole = CachedRetriever("whole", "whole", lambda: build("whole"), [part])
    whole.prepare()
    assert (built, part.is_built, whole.is_built) == (["part", "whole"], True, True)
    whole.search(QUERIES, 1)
    whole.prepare()
    assert built == ["part", "whole"]


def test_builds_once_for_concurrent_sessions() -> None:
    build = Builder()

    def slowly() -> Retriever:
        time.sleep(0.05)
        return build()

    retriever = CachedRetriever("kept", "key", slowly)
    with ThreadPoolExecutor(4) as sessions:
        list(sessions.map(lambda _: retriever.prepare(), range(4)))
    assert build.times == 1


def test_reports_no_time_for_imported_rankings() -> None:
    run = CachedRetriever("run", "run", Slow, is_timed=False)
    wrapper = CachedRetriever("wrapper", "wrapper", lambda: Slow([run]), [run])
    wrapper.search(QUERIES, 1)
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


def test_counts_saved_model_time_in_full() -> None:
    meter = Meter()
    meter.note(passed=100.0, load=0.0, work=100.0)  # what another retriever with this model did is its own
    retriever = CachedRetriever("kept", "key", lambda: Modelled(meter), meter=meter)
    retriever.search(QUERIES, 1)
    assert (retriever.costs.build_seconds - 57, retriever.costs.query_seconds - 3) == (BUILD, QUERY)
    assert retriever.costs.model_seconds == 3
    wrapper = CachedRetriever("wrapper", "wrapper", lambda: Slow([retriever]), [retriever])
    wrapper.search(QUERIES, 1)
    assert ((wrapper.costs.build_seconds - 57) / 2, wrapper.costs.model_seconds) == (BUILD, 3)


class Sized(Slow):
    def __init__(self, memory_bytes: int, notes: dict[str, int], parts: Sequence[Retriever] = ()) -> None:
        super().__init__(parts)
        self.memory_bytes = memory_bytes
        self.notes = notes


def test_stores_memory_and_notes_with_rankings() -> None:
    for build in (lambda: Sized(1234, {"depth": 3}), no_build):
        retriever = CachedRetriever("kept", "key", build)
        retriever.search(QUERIES, 1)
        assert (retriever.costs.memory_bytes, retriever.costs.notes) == (1234, {"depth": 3})


@pytest.mark.parametrize(("sizes", "expected"), [((10, 20), 30), ((10, 0), 0)])
def test_sums_memory_of_components_if_all_are_known(sizes: tuple[int, int], expected: int) -> None:
    parts = [CachedRetriever(str(size), str(size), lambda size=size: Sized(size, {})) for size in sizes]
    wrapper = CachedRetriever("wrapper", "wrapper", lambda: Slow(parts), parts)
    wrapper.search(QUERIES, 1)
    assert (wrapper.costs.memory_bytes, wrapper.costs.notes) == (expected, {})


def test_marks_times_shipped_with_sample_as_remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_SHIPPED", tmp_path / "shipped")
    retriever = CachedRetriever("made", "made", Slow, depth=1)
    retriever.search(QUERIES, 1)
    assert retriever.costs.elsewhere_seconds == 0
    shipped = CachedRetriever("shipped", "shipped", no_build, depth=1)
    shipped.store_as_sample(retriever, QUERIES)
    shipped.search(QUERIES, 1)
    assert (shipped.costs.query_seconds, shipped.costs.elsewhere_seconds) == (QUERY, QUERY)
    mix = CachedRetriever("mix", "mix", lambda: Slow([shipped, retriever]), [shipped, retriever])
    for _ in ("searched", "kept"):
        mix.search(QUERIES, 1)
        assert (mix.costs.query_seconds / 3, mix.costs.elsewhere_seconds) == (QUERY, QUERY)


def test_counts_shipped_vectors_as_remote_time() -> None:
    meter = Meter()

    class OfVectors(Slow):
        def search(self, questions: Sequence[str], k: int) -> Rankings:
            meter.note(0.0, 0.0, 3.0, elsewhere=True)
            meter.note(0.0, 0.0, 1.0)
            return super().search(questions, k)

    retriever = CachedRetriever("kept", "kept", OfVectors, meter=meter)
    retriever.search(QUERIES, 1)
    assert retriever.costs.elsewhere_seconds == pytest.approx(3.0)
    assert retriever.costs.query_seconds - 4 == QUERY
    assert retriever.costs.model_seconds == pytest.approx(4.0)
