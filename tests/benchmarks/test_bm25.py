"""Engines of BM25 find the same and score as the formula says; what was measured becomes lines, a table and a chart."""

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import sleep

import numpy as np
import pytest

from benchmarks.clones import Clones
from benchmarks.peers import Measured, of_rounds
from benchmarks.speed.bm25 import draw, of_building, table
from benchmarks.speed.bm25_engines import K1, B, Engine
from benchmarks.speed.bm25_search import (
    ENGINES,
    PLAIN,
    Case,
    asked_of,
    bandwidth,
    difference,
    overlap,
    own_passage_found,
    peak,
)
from mrc_workbench.data.text.analysis import Tokens

K = 10


@pytest.fixture(scope="module")
def clones() -> Clones:
    """Sixty passages of words by Zipf's law, and five of their beginnings, asked."""
    rng = np.random.default_rng(0)
    vocabulary = [f"말{number}" for number in range(200)]
    lengths = rng.integers(5, 40, 60)
    ids = (rng.zipf(1.3, lengths.sum()) % 200).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    asked = [ids[offsets[row] : offsets[row] + 4] for row in range(0, 60, 12)]
    questions = Tokens(vocabulary, np.concatenate(asked), np.arange(6) * 4)
    return Clones(Tokens(vocabulary, ids, offsets), questions, np.arange(0, 60, 12))


@pytest.fixture(scope="module")
def opened(clones: Clones, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Engine]:
    found = {}
    for name, engine in ENGINES.items():
        folder = tmp_path_factory.mktemp(name)
        assert engine.build(clones, folder) > 0
        found[name] = engine.open(folder)
    return found


def by_hand(clones: Clones, question: list[str]) -> np.ndarray:
    """Lucene's BM25, passage by passage."""
    passages = [Counter(text) for text in clones.tokens.texts()]
    mean = sum(passage.total() for passage in passages) / len(passages)
    scores = np.zeros(len(passages))
    for word in question:
        held = sum(word in passage for passage in passages)
        idf = np.log(1 + (len(passages) - held + 0.5) / (held + 0.5))
        for row, passage in enumerate(passages):
            scores[row] += idf * passage[word] / (passage[word] + K1 * (1 - B + B * passage.total() / mean))
    return scores


@pytest.mark.slow
def test_scores_are_those_of_the_formula(clones: Clones, opened: dict[str, Engine]) -> None:
    questions = asked_of(clones).questions
    wanted = [np.sort(by_hand(clones, question))[::-1][:K] for question in map(list, questions)]
    for name in ("Ours", "BM25S"):
        rows, scores = opened[name].found(questions, K)
        assert rows.shape == scores.shape == (5, K)
        assert scores == pytest.approx(np.array(wanted), rel=1e-4), name
    assert difference(opened["Ours"], opened["BM25S"], questions) < 1e-4


@pytest.mark.slow
def test_tantivy_finds_nearly_the_same_in_one_segment_or_as_it_comes(clones: Clones, opened: dict[str, Engine]) -> None:
    questions = asked_of(clones).questions
    for name in ("TantivyInOne", "Tantivy"):
        assert overlap(opened["BM25S"], opened[name], questions) > 0.8
    _, scores = opened["TantivyInOne"].found(questions, K)
    wanted = [(K1 + 1) * by_hand(clones, question).max() for question in map(list, questions)]
    assert scores[:, 0] == pytest.approx(np.array(wanted), rel=0.1)  # lengths are held in a byte, but k1 and b are ours


@pytest.mark.slow
def test_every_engine_finds_the_same_with_one_thread_and_with_all(clones: Clones, opened: dict[str, Engine]) -> None:
    questions = asked_of(clones).questions
    for name in ("Ours", "BM25S", "TantivyInOne"):
        engine = opened[name]
        one, all_ = (engine.search(engine.asked(questions), K, threads) for threads in (1, 2))
        assert scores_of(one) == pytest.approx(scores_of(all_)), name
    assert own_passage_found(opened["RankBM25"], asked_of(clones)) == own_passage_found(
        opened["BM25S"], asked_of(clones)
    )


@pytest.mark.slow
def test_what_scores_otherwise_is_no_longer_compared(clones: Clones, opened: dict[str, Engine]) -> None:
    with pytest.raises(ValueError, match="should score alike"):
        difference(opened["TantivyInOne"], opened["BM25S"], asked_of(clones).questions)


def test_the_passages_that_hold_a_word_are_counted(clones: Clones) -> None:
    texts = clones.tokens.texts()
    for word, held in asked_of(clones).held.items():
        assert held == sum(word in text for text in texts)


def scores_of(result: object) -> np.ndarray:
    """The scores in what an engine returns."""
    if hasattr(result, "scores"):
        return np.asarray(result.scores)
    return np.array([[score for score, _ in hits] for hits in result])


BUILT = [
    {"engine": "ours", "seconds": 2.0, "memory": 2**20, "disk": 2**21},
    {"engine": "other", "seconds": 6.0, "memory": 2**22, "disk": 2**20},
]


def searched() -> list[Measured]:
    return [
        of_rounds(case.name, peer, case.size(passages), [(0.001 * passages, times * 0.001 * passages)])
        for passages in (10_000, 1_000)
        for case in (*PLAIN, Case(terms=3))
        for peer, times in (("other", 2.0), ("memory", 0.5))
    ]


def test_building_and_opening_are_held_against_each_peer() -> None:
    lines = of_building(BUILT, [[0.5, 0.1], [1.0, 0.05]], 1_000)
    assert [line.ratio for line in lines] == [3, 4, 0.5, 2, 0.5]
    assert {(line.peer, line.size) for line in lines} == {("other", "1,000 passages")}


def test_the_table_has_a_column_a_peer_and_the_smaller_size_first() -> None:
    lines = [*of_building(BUILT, [[0.5, 0.1], [1.0, 0.05]], 1_000), *searched()]
    rows = table(lines)
    assert rows[0] == "| | of | ours | other | memory |"
    assert rows[2] == "| build, with saving | 1,000 passages | 2 s | 6 s (3) | – |"
    found = [row for row in rows if row.startswith("| search, one thread | 1,000 questions, top 10")]
    assert found == [
        "| search, one thread | 1,000 questions, top 10, 1,000 passages | 1 s | 2 s (2) | 0.5 s (0.5) |",
        "| search, one thread | 1,000 questions, top 10, 10,000 passages | 10 s | 20 s (2) | 5 s (0.5) |",
    ]


@pytest.mark.slow
def test_the_chart_names_every_engine_and_both_numbers_of_threads(tmp_path: Path) -> None:
    draw(searched(), tmp_path / "bm25.svg")
    drawn = (tmp_path / "bm25.svg").read_text(encoding="utf-8")
    for word in ("ours", "other", "memory", "one thread", "all cores"):
        assert f">{word}</text>" in drawn
    assert 'fill="white"' in drawn


def test_a_case_asks_so_many_questions_of_so_many_terms() -> None:
    assert Case(terms=2, n_questions=3).of([["a", "b", "c"], ["d"], ["e", "f"], ["g"]]) == [
        ["a", "b"],
        ["d"],
        ["e", "f"],
    ]


def held_for_a_moment() -> int:
    with peak() as most:
        held = np.ones(1 << 24)  # 128 MiB
        sleep(0.2)
        del held
    return most[0]


@pytest.mark.slow
def test_the_peak_is_what_was_held_meanwhile() -> None:
    # a process that did other work may have had room for it before
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        most = process.submit(held_for_a_moment).result()
    assert 2**27 * 0.9 < most < 2**27 * 1.5


@pytest.mark.slow
def test_memory_is_read_at_some_gigabytes_a_second() -> None:
    assert 10**8 < bandwidth(1) < 10**12
