"""Searchers return the results of their retrievers, also in batches, and write no files."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.store import find
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, write_experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec
from mrc_workbench.retrieval.comparison.store import ComparisonJob, save_comparison
from mrc_workbench.retrieval.rankings import Rankings, Retriever
from mrc_workbench.retrieval.searcher import Searcher, open_searcher, open_searchers
from mrc_workbench.workbench.serving.app import Batches
from mrc_workbench.workbench.serving.cli import describe_searchers
from tests.doubles import QUESTIONS, texts_of
from tests.retrieval.test_contract import MAKERS, MANY, QUERIES, bm25

T = TypeVar("T")
SPECS = (
    BM25Spec(name="BM25", analyzer="bigram"),
    BM25Spec(name="Words", analyzer="word"),
    HybridSpec(name="Hybrid", retrievers=("BM25", "Words")),
)
EXPERIMENT = Experiment(data="sample", retriever=SPECS)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in another thread: this one may have the event loop of a browser test."""
    with ThreadPoolExecutor(1) as other:
        return other.submit(asyncio.run, coroutine).result()


def in_batches(searcher: Searcher, queries: Sequence[tuple[Sequence[str], int]], most: int = 4) -> list[object]:
    """Search all queries concurrently; returns hits or exceptions."""

    async def ask() -> list[object]:
        with ThreadPoolExecutor(1) as thread:
            batches = Batches(searcher, thread, max_questions=most, seconds=0.01)
            work = asyncio.create_task(batches.work())
            results = await asyncio.gather(*(batches.search(*query) for query in queries), return_exceptions=True)
            work.cancel()
            return list(results)

    return run(ask())


@pytest.mark.slow
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_returns_equal_results_alone_together_and_in_batches(make: Callable[..., Retriever]) -> None:
    retriever = make(MANY)
    searcher = Searcher(retriever, Passages.from_passages(MANY))
    rankings = retriever.search(QUERIES, 6)
    hit_lists = searcher.search(QUERIES, 6)
    ids = [[hit.id for hit in hits] for hits in hit_lists]
    assert ids == [[MANY[row].id for row in rows if row >= 0] for rows in rankings.indices.tolist()]
    scores = rankings.scores[0][: len(hit_lists[0])].tolist()
    assert [hit.score for hit in hit_lists[0]] == pytest.approx(scores, rel=1e-6)
    alone = [[hit.id for hit in searcher.search([text], 6)[0]] for text in QUERIES]
    together = in_batches(searcher, [([text], 1 + row % 6) for row, text in enumerate(QUERIES)])
    assert alone == ids
    expected = [row_ids[: 1 + row % 6] for row, row_ids in enumerate(ids)]
    assert [[hit.id for hit in hits[0]] for hits in together] == expected


@pytest.mark.slow
def test_opens_experiment_and_stored_comparison_with_equal_results(file: Path) -> None:
    progress: list[tuple[str, float]] = []
    searchers = open_searchers(file, on_progress=lambda *arguments: progress.append(arguments))
    question_set = find("sample")
    comparison = compare(EXPERIMENT, question_set)
    job = ComparisonJob.of(EXPERIMENT, question_set.fingerprint)
    save_comparison(comparison, job.folder)
    queries = texts_of(question_set.questions)
    before = files()
    stored_searcher = open_searcher(job.folder.name, "Hybrid")
    for name, searcher in {**searchers, "Hybrid": stored_searcher}.items():
        rows = comparison.rankings[name].indices[:, :10].tolist()
        expected = [[question_set.passages[row].id for row in ranked if row >= 0] for ranked in rows]
        assert [[hit.id for hit in hits] for hits in searcher.search(queries, 10)] == expected
        assert searcher.search(queries[:1], 1)[0][0].text == question_set.passages[rows[0][0]].text
    assert files() == before
    assert {name for name, _ in progress} == {"BM25", "Words", "Hybrid"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "experiment.toml"
    path.write_text(write_experiment(EXPERIMENT), encoding="utf-8")
    return path


def files() -> set[Path]:
    return {path for path in workspace().rglob("*") if path.is_file()}


def information(file: Path, name: str) -> dict[str, Any]:
    return describe_searchers(file, open_searchers(file, [name]))


@pytest.mark.slow
def test_information_identifies_index_without_folders(file: Path, tmp_path: Path) -> None:
    description = information(file, "Hybrid")
    assert description["corpus_fingerprint"] == find("sample").passages.fingerprint
    assert description["retrievers"] == [{"name": "Hybrid", "kind": "hybrid", "models": {}}]
    assert [spec["kind"] for spec in description["experiment"]["retriever"]] == ["bm25", "bm25", "hybrid"]
    assert information(file, "Hybrid") == description
    data = tmp_path / "mine.csv"
    data.write_text("question,context,answers\n누구인가?,세종은 왕이다.,세종\n", encoding="utf-8")
    file.write_text(write_experiment(EXPERIMENT.model_copy(update={"data": str(data)})), encoding="utf-8")
    other = information(file, "BM25")
    assert other["data"] == "mine.csv"
    assert str(tmp_path) not in str(other)
    assert other["corpus_fingerprint"] != description["corpus_fingerprint"]


def test_reports_unopenable_retrievers(file: Path, tmp_path: Path) -> None:
    run = '[[retriever]]\nname = "elsewhere"\nkind = "run"\npath = "a.trec"\n'
    with_run = tmp_path / "run.toml"
    with_run.write_text(f'data = "sample"\n{run}', encoding="utf-8")
    messages = {
        (file, ""): "BM25, Words, Hybrid",
        (file, "Dense"): "'Dense'",
        ("0123456789abcdef", ""): "there is no comparison",
        (with_run, "elsewhere"): "elsewhere",
    }
    for arguments, message in messages.items():
        with pytest.raises(ValueError, match=message):
            open_searcher(*arguments)


class Counting:
    """BM25 that records its searches, and fails for a query."""

    name = "counting"

    def __init__(self) -> None:
        self.searches: list[list[str]] = []
        self._retriever = bm25(MANY)

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        self.searches.append(list(questions))
        time.sleep(0.01)
        if "fail" in questions:
            raise RuntimeError("failed")
        return self._retriever.search(questions, k)


def test_batches_concurrent_questions_and_isolates_errors() -> None:
    counting = Counting()
    searcher = Searcher(counting, Passages.from_passages(MANY))
    texts = texts_of(QUESTIONS)
    results = in_batches(searcher, [([text], 3) for text in [*texts, *texts]], most=4)
    assert [len(searched) for searched in counting.searches] == [4, 4, 4]
    assert results[:6] == results[6:]
    counting.searches.clear()
    results = in_batches(searcher, [([texts[0]], 3), (["fail"], 3), (texts, 2)], most=2)
    assert isinstance(results[1], RuntimeError)
    assert results[0] == [searcher.search(texts[:1], 3)[0]]
    assert counting.searches[:4] == [[texts[0], "fail"], [texts[0]], ["fail"], texts]  # one request is never divided
