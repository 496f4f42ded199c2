"""What was measured becomes lines, a table and a chart."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import sleep

import numpy as np
import pytest

from benchmarks.peers import Measured, of_rounds
from benchmarks.speed.bm25.cases import PLAIN, Case
from benchmarks.speed.bm25.drawing import draw
from benchmarks.speed.bm25.memory import bandwidth, peak
from benchmarks.speed.bm25.report import of_building, table

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


def test_memory_is_read_at_some_gigabytes_a_second() -> None:
    assert 10**8 < bandwidth(1) < 10**12
