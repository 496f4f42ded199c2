"""A Python object is searched as it declares, measured once, and stored so that its results stay."""

import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, RunSpec, added_retrievers, store_measured
from mrc_workbench.retrieval.outside import OutsideError, ResultReader
from mrc_workbench.retrieval.outside.adapt import as_retriever, measure
from mrc_workbench.retrieval.rankings import Rankings, top_k
from mrc_workbench.retrieval.report.words import retriever_cost
from tests.doubles import PASSAGES, QUESTIONS, small_set, texts_of
from tests.retrieval.compared import assert_equal_rankings, hits_of
from tests.search_server import scored

QUERIES = texts_of(QUESTIONS)
SET = small_set()
Results = list[tuple[str, int]]
TEXTS = ("the first passage", "the second passage", "the third  passage")
NAMED_PASSAGES = tuple(Passage(id_, text) for id_, text in zip(("a", "b", "7"), TEXTS, strict=True))
SET_RESULTS = QuestionSet("small", NAMED_PASSAGES, (), {"copy of a": "a"})
SECOND_THEN_FIRST = [(1, 2.5), (0, 1.0)]


class Single:
    name = "Single"

    def search(self, query: str, k: int) -> Results:
        return scored(PASSAGES, query, k)


class Batch:
    name = "Batch"

    def search(self, queries: list[str], k: int) -> list[Results]:
        return [scored(PASSAGES, query, k) for query in queries]


class Declared:
    batched = True

    def search(self, x, k):  # type: ignore[no-untyped-def]
        return Batch().search(x, k)


class Called:
    def __call__(self, question: str, top_k: int = 10) -> Results:
        return scored(PASSAGES, question, top_k)


class OfThisProject:
    name = "rows"

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        results = [dict(scored(PASSAGES, text, 5)) for text in questions]
        scores = [[hits.get(passage.id, -np.inf) for passage in PASSAGES] for hits in results]
        return top_k(np.array(scores), k)


def annotated(x: str, number: int) -> Results:
    return scored(PASSAGES, x, number)


def annotated_batch(x: Iterable[str], *, limit: int) -> list[Results]:
    return [scored(PASSAGES, query, limit) for query in x]


def without_k(text, language="ko"):  # type: ignore[no-untyped-def]
    assert language == "ko"
    return scored(PASSAGES, text, 100)


ITEMS: list[Any] = [Single(), Batch(), Declared(), Called(), OfThisProject(), annotated, annotated_batch, without_k]


@pytest.mark.parametrize("item", ITEMS)
def test_every_search_form_returns_same_hits(item: Any) -> None:
    expected = as_retriever(Single(), SET).search(QUERIES, 3)
    retriever = as_retriever(item, SET)
    rankings = retriever.search(QUERIES, 3)
    assert_equal_rankings(rankings, expected)
    assert retriever.measured_seconds > 0
    assert retriever.notes["latency"].keys() == {"mean", "p50", "p95"}


def test_names() -> None:
    names = [as_retriever(item, SET).name for item in (Single(), Declared(), annotated)]
    assert names == ["Single", "Declared", "annotated"]
    assert as_retriever(Single(), SET, name="Mine").name == "Mine"


def unclear(x, k):  # type: ignore[no-untyped-def]
    raise AssertionError


def test_declared_search_needs_no_names() -> None:
    assert as_retriever(lambda x, k: scored(PASSAGES, x, k), SET, batched=False).search(QUERIES, 1).indices[0, 0] >= 0


class WithPassages(Single):
    def __init__(self, passages: Sequence[Passage]) -> None:
        assert [passage.id for passage in passages] == [passage.id for passage in PASSAGES]


class WithTwo(Single):
    def __init__(self, passages: Sequence[Passage], other: int) -> None:
        raise AssertionError((passages, other))


@pytest.mark.parametrize("item", [Single, WithPassages])
def test_instantiates_class(item: type) -> None:
    retriever = as_retriever(item, SET)
    assert retriever.name == "Single"
    assert (retriever.search(QUERIES, 2).indices == as_retriever(Single(), SET).search(QUERIES, 2).indices).all()


def failing(query: str, k: int) -> Results:
    raise KeyError(k)


def always(results: object, *, batched: bool = False) -> Callable[..., object]:
    """Return a search that answers everything with the same."""

    def single(query: str) -> object:
        return results if query else None

    def several(queries: list[str]) -> object:
        return results if queries else None

    return several if batched else single


async def coroutine(query: str, k: int) -> Results:
    return scored(PASSAGES, query, k)


async def coroutine_of_several(queries: list[str], k: int) -> list[Results]:
    return [scored(PASSAGES, query, k) for query in queries]


async def generator(query: str, k: int) -> AsyncIterator[tuple[str, int]]:
    for hit in scored(PASSAGES, query, k):
        yield hit


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("item", "code", "message"),
    [
        (unclear, "outside_signature", "one query or several"),
        *((item, "outside_kind", "cannot be searched") for item in (3, "a module:Name", object, object())),
        (WithTwo, "outside_plugin_failed", r"WithTwo can be made: TypeError.*other"),
        (failing, "outside_raised", "KeyError: 2"),
        (always([], batched=True), "outside_batch", "6 queries"),
        (always(iter([]), batched=True), "outside_batch", "6 queries"),
        (always([]), "outside_empty", "no results"),
        (always(["zzz", "yyy"]), "outside_ids", "like 'zzz', .* like 'p1'"),
        (always([("p1", float("nan"))]), "outside_score", "not a finite number"),
        (always(None), "outside_results", "not None"),
        (always(Rankings.empty(1, 1), batched=True), "outside_rankings", "rankings of 6"),
        (always(Rankings(np.full((6, 1), 99), np.ones((6, 1))), batched=True), "outside_rankings", "from 0 to 4"),
        *((item, "outside_async", "not supported") for item in (coroutine, coroutine_of_several, generator)),
    ],
)
def test_failure_has_code_and_reason(item: object, code: str, message: str) -> None:
    with pytest.raises(OutsideError, match=message) as error:
        measure(item, SET, 2, name="WithTwo" if item is WithTwo else "")
    assert error.value.code == code


def test_allows_question_without_results() -> None:
    assert as_retriever(always(["zzz"]), SET).search(["what"], 2).indices.tolist() == [[-1, -1]]


def test_runs_queries_concurrently() -> None:
    together = threading.Barrier(2, timeout=30)

    def search(query: str, k: int) -> Results:
        together.wait()
        return scored(PASSAGES, query, k)

    rankings = as_retriever(search, SET, concurrency=2).search(QUERIES, 3)
    np.testing.assert_array_equal(rankings.indices, as_retriever(Single(), SET).search(QUERIES, 3).indices)


def test_k_is_limited_to_corpus_size() -> None:
    requested = list[int]()

    def search(query: str, k: int) -> Results:
        requested.append(k)
        return scored(PASSAGES, query, k)

    as_retriever(search, SET).search(QUERIES[:1], 10**9)
    assert requested == [len(PASSAGES)]


def test_stores_measured_run_with_latency() -> None:
    def search(query: str, k: int) -> Results:
        return [*scored(PASSAGES, query, k), ("zzz", 0)]

    part = QuestionSet(SET.name, SET.passages, SET.questions[:3])
    measured = measure(search, part, 5, name="Mine")
    spec = store_measured(measured, SET)
    assert added_retrievers(SET.fingerprint) == [spec]
    (result,) = compare(Experiment(data="x", retriever=(spec,)), part).results
    assert result.rankings is not None
    np.testing.assert_array_equal(result.rankings.indices[:, :5], measured.rankings.indices)
    assert result.imported
    assert result.notes["unknown_passages"] == 3
    assert result.build_seconds == result.metrics.get("build_seconds", result.build_seconds)
    assert result.query_seconds == pytest.approx(3 * measured.seconds_per_query)
    assert retriever_cost(result).milliseconds == pytest.approx(1000 * measured.seconds_per_query)


def test_remeasuring_replaces_stored_run() -> None:
    store_measured(measure(Single(), SET, 5), SET)
    again = store_measured(measure(annotated, SET, 2, name="Single"), SET)
    assert added_retrievers(SET.fingerprint) == [again]


def test_a_measured_retriever_with_few_results_has_all_metrics() -> None:
    spec = store_measured(measure(always(["p1", "zzz"]), SET, 4, name="Few"), SET)
    assert spec.recorded is not None
    assert (spec.recorded.depth, spec.recorded.unknown_example) == (4, "zzz")
    compared = compare(Experiment(data="x", ks=(1, 3), retriever=(spec,)), SET)
    (result,) = compared.results
    assert result.scores is not None
    assert result.scores.ks == (1, 3)
    assert result.notes["depth"] == 1
    assert compared.shallow_retrievers == [("Few", 4)]  # MRR@10 and nDCG@10 look at all 5 passages of the corpus
    spec = store_measured(measure(always(["p1", "zzz"]), SET, name="Few"), SET)
    compared = compare(Experiment(data="x", ks=(1, 3, 100), retriever=(spec,)), SET)
    assert compared.scores["Few"].means()["ndcg@10"] > 0
    assert compared.shallow_retrievers == []


def test_unusable_results_become_warnings() -> None:
    spec = store_measured(measure(always([("zzz", 1), ("p1", 2), ("p2", 3), ("p2", 3)]), SET, name="Mine"), SET)
    warnings = compare(Experiment(data="x", retriever=(spec,)), SET).warnings
    assert warnings[1:] == [
        "Mine: 6 results name passages that are not in the dataset, such as 'zzz'; skipped.",
        "Mine: 6 results repeat a passage; each passage counts once, with its best score.",
        "Mine: for 6 questions the first result has the lowest score, as with distances; a higher score counts as "
        "better.",
    ]


def test_unknown_run_depth_becomes_warning(tmp_path: Path) -> None:
    path = tmp_path / "short.trec"
    path.write_text("".join(f"{item.id} Q0 p{rank} {rank} {-rank} x\n" for item in QUESTIONS for rank in (1, 2)))
    experiment = Experiment(data="x", ks=(1, 2, 3), retriever=(RunSpec(name="Short", path=str(path)),))
    compared = compare(experiment, SET)
    assert compared.shallow_retrievers == [("Short", 2)]
    assert compared.warnings[-1] == (
        "Short has at most 2 passages per question, so metrics that look deeper have no value. "
        "All metrics need 5 passages per question."
    )
    assert compared.as_dict()["warnings"] == compared.warnings


class Hit:
    def __init__(self, docid: str, score: float) -> None:
        self.docid = docid
        self.score = score


class Raising:
    docid = "b"

    @property
    def id(self) -> str:
        raise RuntimeError("not loaded")


def rows_and_scores(results: object, **how: Any) -> list[tuple[int, float]]:
    (hits,) = hits_of(ResultReader(SET_RESULTS, **how).read([results], 3).rankings)
    return [*hits.items()]


@pytest.mark.parametrize(
    "results",
    [
        [("b", 2.5), ("a", 1)],
        [["a", 1.0], ["b", 2.5]],  # ordered by score
        [("a", np.float64(1)), (TEXTS[1], np.float32(2.5))],
        {"a": 1, "b": 2.5},
        (["b", "a"], [2.5, 1.0]),
        (np.array(["b", "a"]), np.array([2.5, 1.0])),
        pd.DataFrame({"docno": ["a", "b"], "score": [1.0, 2.5], "rank": [1, 0]}),
        [{"_id": "b", "_score": 2.5}, {"_id": "copy of a", "_score": 1.0}],
        [{"text": TEXTS[1], "score": 2.5}, {"payload": {"doc_id": "a"}, "score": 1.0}],
        [Hit("b", 2.5), Hit("a", 1.0)],
    ],
)
def test_results_with_scores(results: object) -> None:
    assert rows_and_scores(results) == SECOND_THEN_FIRST


@pytest.mark.parametrize(
    "results",
    [
        ["b", "a"],
        ("b", "a"),
        np.array(["b", "a"]),
        (id_ for id_ in "ba"),
        [TEXTS[1], f" {TEXTS[0]}"],
        [{"id": "b", "score": None}, {"id": "a", "score": 9.0}],  # a score is missing
        [Raising(), {"id": "a"}],
    ],
)
def test_results_without_scores_keep_their_order(results: object) -> None:
    assert rows_and_scores(results) == [(1, 0.0), (0, -1.0)]


def test_accepts_numeric_ids() -> None:
    assert rows_and_scores([7, np.int64(7)]) == [(2, 0.0)]
    assert rows_and_scores([(7, 1.5)]) == [(2, 1.5)]


def test_id_key_selects_id_field() -> None:
    results = [{"id": "a", "metadata": {"source": "b"}, "score": 1.0}]
    assert rows_and_scores(results) == [(0, 1.0)]
    assert rows_and_scores(results, id_key="source") == [(1, 1.0)]


def test_counts_unknown_and_repeated_results() -> None:
    reading = ResultReader(SET_RESULTS).read([[("a", 1.0), ("zzz", 9.0), ("a", 3.0), ("b", 2.0)], []], 3)
    assert reading.rankings.indices.tolist() == [[0, 1, -1], [-1, -1, -1]]
    assert reading.rankings.scores.tolist() == [[3.0, 2.0, -np.inf], [-np.inf] * 3]
    assert reading.notes() == {"depth": 4, "unknown_passages": 1, "unknown_example": "zzz", "repeated": 1}


def test_breaks_float32_ties_by_row() -> None:
    assert rows_and_scores([("b", 1.0), ("a", 1.0 - 1e-12)]) == [(0, 1.0), (1, 1.0)]


def test_detects_distances_and_keeps_result_order() -> None:
    distances = [("b", 0.1), ("a", 0.4)]
    reading = ResultReader(SET_RESULTS).read([distances], 3)
    assert reading.notes()["rising_scores"] == 1
    assert reading.rankings.indices[0].tolist() == [0, 1, -1]
    assert rows_and_scores(distances, order="rank") == [(1, 0.0), (0, -1.0)]


@pytest.mark.parametrize(
    ("results", "code"),
    [
        *(([("a", score)], "outside_score") for score in (float("nan"), float("inf"), 1e300, "high", True, [1])),
        *((results, "outside_results") for results in (None, "a", 3, b"a", [None], [{}], [object()], [1.5])),
        *((results, "outside_results") for results in ({"a": "b"}, [("a", 1, 2)])),
    ],
)
def test_rejects_unreadable_results(results: object, code: str) -> None:
    with pytest.raises(OutsideError) as error:
        rows_and_scores(results)
    assert error.value.code == code
