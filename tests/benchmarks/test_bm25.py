"""BM25 engines return the same results with the scores of the formula; tables and the chart show their times."""

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import sleep

import numpy as np
import pytest

from benchmarks.clones import Clones
from benchmarks.peers import PeerResult, summarize_rounds
from benchmarks.speed.bm25 import compare_builds, draw, table
from benchmarks.speed.bm25_engines import K1, B, Engine
from benchmarks.speed.bm25_search import (
    DEFAULT_CASES,
    ENGINES,
    Case,
    bandwidth,
    difference,
    overlap,
    relevant_recall,
    sample_questions,
    track_peak_memory,
)
from mrc_workbench.data.text.analysis import Tokens

K = 10


@pytest.fixture(scope="module")
def clones() -> Clones:
    """Sixty passages with words sampled by Zipf's law, and the first words of five passages as questions."""
    rng = np.random.default_rng(0)
    vocabulary = [f"말{number}" for number in range(200)]
    lengths = rng.integers(5, 40, 60)
    ids = (rng.zipf(1.3, lengths.sum()) % 200).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    question_ids = [ids[offsets[row] : offsets[row] + 4] for row in range(0, 60, 12)]
    questions = Tokens(vocabulary, np.concatenate(question_ids), np.arange(6) * 4)
    return Clones(Tokens(vocabulary, ids, offsets), questions, np.arange(0, 60, 12))


@pytest.fixture(scope="module")
def opened(clones: Clones, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Engine]:
    engines = {}
    for name, engine in ENGINES.items():
        folder = tmp_path_factory.mktemp(name)
        assert engine.build(clones, folder) > 0
        engines[name] = engine.open(folder)
    return engines


def reference_scores(clones: Clones, question: list[str]) -> np.ndarray:
    """Return Lucene's BM25 scores, computed passage by passage."""
    passages = [Counter(text) for text in clones.tokens.texts()]
    mean = sum(passage.total() for passage in passages) / len(passages)
    scores = np.zeros(len(passages))
    for word in question:
        document_frequency = sum(word in passage for passage in passages)
        idf = np.log(1 + (len(passages) - document_frequency + 0.5) / (document_frequency + 0.5))
        for row, passage in enumerate(passages):
            scores[row] += idf * passage[word] / (passage[word] + K1 * (1 - B + B * passage.total() / mean))
    return scores


@pytest.mark.slow
def test_scores_match_the_formula(clones: Clones, opened: dict[str, Engine]) -> None:
    questions = sample_questions(clones).questions
    expected = [np.sort(reference_scores(clones, question))[::-1][:K] for question in map(list, questions)]
    for name in ("WorkbenchBM25", "BM25S"):
        rows, scores = opened[name].top_k(questions, K)
        assert rows.shape == scores.shape == (5, K)
        assert scores == pytest.approx(np.array(expected), rel=1e-4), name
    assert difference(opened["WorkbenchBM25"], opened["BM25S"], questions) < 1e-4


@pytest.mark.slow
def test_tantivy_ranks_nearly_the_same_with_any_number_of_segments(clones: Clones, opened: dict[str, Engine]) -> None:
    questions = sample_questions(clones).questions
    for name in ("TantivySingleSegment", "Tantivy"):
        assert overlap(opened["BM25S"], opened[name], questions) > 0.8
    _, scores = opened["TantivySingleSegment"].top_k(questions, K)
    expected = [(K1 + 1) * reference_scores(clones, question).max() for question in map(list, questions)]
    # lengths are stored in one byte, but k1 and b are equal
    assert scores[:, 0] == pytest.approx(np.array(expected), rel=0.1)


@pytest.mark.slow
def test_engines_rank_the_same_with_any_number_of_threads(clones: Clones, opened: dict[str, Engine]) -> None:
    questions = sample_questions(clones).questions
    for name in ("WorkbenchBM25", "BM25S", "TantivySingleSegment"):
        engine = opened[name]
        single_threaded, multi_threaded = (
            engine.search(engine.prepare_queries(questions), K, threads) for threads in (1, 2)
        )
        assert scores_of(single_threaded) == pytest.approx(scores_of(multi_threaded)), name
    assert relevant_recall(opened["RankBM25Library"], sample_questions(clones)) == relevant_recall(
        opened["BM25S"], sample_questions(clones)
    )


@pytest.mark.slow
def test_rejects_engines_with_different_scores(clones: Clones, opened: dict[str, Engine]) -> None:
    with pytest.raises(ValueError, match=r"differ by .* \(relative\)"):
        difference(opened["TantivySingleSegment"], opened["BM25S"], sample_questions(clones).questions)


def test_counts_document_frequencies(clones: Clones) -> None:
    texts = clones.tokens.texts()
    for word, frequency in sample_questions(clones).document_frequency.items():
        assert frequency == sum(word in text for text in texts)


def scores_of(result: object) -> np.ndarray:
    """Return the scores in the result of an engine."""
    if hasattr(result, "scores"):
        return np.asarray(result.scores)
    return np.array([[score for score, _ in hits] for hits in result])


BUILT = [
    {"engine": "ours", "seconds": 2.0, "memory": 2**20, "disk": 2**21},
    {"engine": "other", "seconds": 6.0, "memory": 2**22, "disk": 2**20},
]


def searched() -> list[PeerResult]:
    return [
        summarize_rounds(case.name, peer, case.size(passages), [(0.001 * passages, times * 0.001 * passages)])
        for passages in (10_000, 1_000)
        for case in (*DEFAULT_CASES, Case(terms=3))
        for peer, times in (("other", 2.0), ("memory", 0.5))
    ]


def test_compares_building_and_opening_with_each_peer() -> None:
    lines = compare_builds(BUILT, [[0.5, 0.1], [1.0, 0.05]], 1_000)
    assert [line.ratio for line in lines] == [3, 4, 0.5, 2, 0.5]
    assert {(line.peer, line.size) for line in lines} == {("other", "1,000 passages")}


def test_table_has_a_column_per_peer_and_smaller_sizes_first() -> None:
    lines = [*compare_builds(BUILT, [[0.5, 0.1], [1.0, 0.05]], 1_000), *searched()]
    rows = table(lines)
    assert rows[0] == "| | workload | ours | other | memory |"
    assert rows[2] == "| build and save | 1,000 passages | 2 s | 6 s (3) | – |"
    search_rows = [row for row in rows if row.startswith("| search, one thread | 1,000 questions, top 10")]
    assert search_rows == [
        "| search, one thread | 1,000 questions, top 10, 1,000 passages | 1 s | 2 s (2) | 0.5 s (0.5) |",
        "| search, one thread | 1,000 questions, top 10, 10,000 passages | 10 s | 20 s (2) | 5 s (0.5) |",
    ]


@pytest.mark.slow
def test_the_chart_names_every_engine_and_both_numbers_of_threads(tmp_path: Path) -> None:
    draw(searched(), tmp_path / "bm25.svg")
    svg = (tmp_path / "bm25.svg").read_text(encoding="utf-8")
    for word in ("ours", "other", "memory", "one thread", "all cores"):
        assert f">{word}</text>" in svg
    assert 'fill="white"' in svg


def test_case_limits_questions_and_terms() -> None:
    assert Case(terms=2, n_questions=3).select_questions([["a", "b", "c"], ["d"], ["e", "f"], ["g"]]) == [
        ["a", "b"],
        ["d"],
        ["e", "f"],
    ]


def allocate_and_measure_peak() -> int:
    with track_peak_memory() as peak:
        array = np.ones(1 << 24)  # 128 MiB
        sleep(0.2)
        del array
    return peak[0]


@pytest.mark.slow
def test_measures_peak_memory() -> None:
    # a new process has no free memory left from other work
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        peak = process.submit(allocate_and_measure_peak).result()
    assert 2**27 * 0.9 < peak < 2**27 * 1.5


@pytest.mark.slow
def test_measures_a_realistic_memory_bandwidth() -> None:
    assert 10**8 < bandwidth(1) < 10**12
