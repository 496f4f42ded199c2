"""Benchmarks write tables, sentences and charts with the measured numbers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import growth, peers
from benchmarks.quality.article_split import describe_test
from benchmarks.quality.language_models import SPLIT, _move_test_to_training
from benchmarks.speed.libraries import token_bytes
from mrc_workbench.data.pairs import PairKind, PairSet, split_pairs
from mrc_workbench.data.split import Part
from mrc_workbench.data.text.analysis import Tokens
from mrc_workbench.retrieval.significance import PairTest

ROUNDS = [(2.0, 4.0), (1.0, 3.0), (1.0, 5.0)]


def test_the_ratio_is_the_median_of_the_rounds(tmp_path: Path) -> None:
    result = peers.summarize_rounds("search", "other", "10 passages", ROUNDS, target=2)
    assert (result.ours, result.theirs, result.ratio, result.spread) == (1.0, 4.0, 3.0, (2.0, 5.0))
    file = tmp_path / "results.json"
    peers.save_results([result], file)
    peers.save_results([peers.summarize_rounds("search", "other", "10 passages", [(1.0, 1.0)], target=2)], file)
    (row,) = peers.table(file)[2:]
    assert row == "| search | other | 10 passages | 1 s | 1 s | **1** (1 to 1) | target 2, **missed** |"


def test_rows_are_sorted_by_size(tmp_path: Path) -> None:
    sizes = ("2,000 questions, 1,000 passages", "10 questions, 30,000 passages", "500 passages")
    measured = [peers.summarize_rounds("search", "other", size, ROUNDS) for size in sizes]
    other = peers.PeerResult("build", "", "9 passages", 3.0, unit="GiB")
    peers.save_results([measured[0], other, *measured[1:]], tmp_path / "results.json")
    rows = [row.split(" | ")[2] for row in peers.table(tmp_path / "results.json")[2:]]
    assert rows == [sizes[2], sizes[0], sizes[1], "9 passages"]


@pytest.mark.slow  # its module imports Streamlit
def test_table_lists_slow_clicks() -> None:
    from benchmarks.app import ten_sessions
    from benchmarks.app.ten_sessions import ClickCost

    single = {"quick": ClickCost([0.1], 0, 0), "slow": ClickCost([0.4, 0.6, 0.7], 0, 0)}
    at_once = {"quick": ClickCost([0.2, 0.4, 0.9], 0.05, 0.1), "slow": ClickCost([0.9, 1.0, 1.5], 0.07, 0.2)}
    without_browser = {"quick": [0.1, 0.2, 0.3], "slow": [0.1, 0.2, 1.1]}
    lines = ten_sessions.table(single, at_once, without_browser, 3)
    assert lines[2] == "| quick | 0.10 | 0.40 | 0.90 | 0.05 | 0.10 | 0.20 | 0.30 |"
    assert lines[3] == "| slow | 0.60 | 1.00 | 1.50 | 0.07 | 0.20 | 0.20 | 1.10 |"
    assert (
        lines[-1]
        == "Above 0.5 s with one session: slow; slowest of 3 above 1.0 s: slow; the same without browsers: slow."
    )


def test_size_of_tokens_counts_arrays_and_words() -> None:
    tokens = Tokens(["가", "ab"], np.array([0, 1, 1], dtype=np.int32), np.array([0, 3], dtype=np.int64))
    assert token_bytes(tokens) == 3 * 4 + 2 * 8 + (3 + 1) + (2 + 1)


def test_moves_test_pairs_to_training() -> None:
    columns = [[f"{side} {number}" for number in range(6)] for side in "ab"]
    nli = PairSet.from_columns("nli", PairKind.LABELLED, columns, [0, 1, 2] * 2, published=[1, 1, 2, 2, 2, 2])
    rows = split_pairs(_move_test_to_training(nli), SPLIT)
    assert [rows[part].tolist() for part in (Part.TRAIN, Part.VALIDATION, Part.TEST)] == [[2, 3, 4, 5], [0, 1], []]


def test_describes_a_negative_difference_as_below_with_a_reversed_interval() -> None:
    test = PairTest(
        "new", "old", -0.0033, -0.0126, 0.0061, 0.5, 0.7456, measure="ndcg@10", wins=101, ties=0, losses=116
    )
    assert describe_test(test, 3) == (
        "new is 0.33 points of nDCG@10 below old (-0.61 to 1.26; p = 0.7456, corrected for 3 tests); "
        "better for 101 questions, worse for 116."
    )
    assert describe_test(replace(test, difference=0.0033), 1).startswith(
        "new is 0.33 points of nDCG@10 above old (-1.26 "
    )


SECONDS = {"linear": {1000: 0.1, 10_000: 1.0}, "square": {1000: 0.2, 10_000: 20.0}, "once": {1000: 5.0}}


def test_exponents_are_slopes_of_the_logarithms() -> None:
    assert growth.exponents(SECONDS["linear"]) == pytest.approx({10_000: 1.0})
    assert growth.exponents(SECONDS["square"]) == pytest.approx({10_000: 2.0})
    assert growth.exponents({1000: 1.0, 2000: 2**1.5, 8000: 2**1.5}) == pytest.approx({2000: 1.5, 8000: 0.0})
    assert growth.exponents(SECONDS["once"]) == {}


def test_table_has_a_dash_without_a_measurement() -> None:
    assert growth.table(SECONDS)[2:] == [
        "| linear | 0.1 | 1 (1.00) |",
        "| square | 0.2 | 20 (2.00) |",
        "| once | 5 | – |",
    ]


def test_sentence_names_superlinear_stages() -> None:
    assert growth.sentence(SECONDS) == (
        "Up to the largest size, these stages grow faster than the number of passages: "
        "square (exponent 2.00 at 10,000). The others do not."
    )
    flat = growth.sentence({"linear": SECONDS["linear"]})
    assert flat == "No stage grows faster than the number of passages; linear has the largest exponent, 1.00."
    assert growth.sentence({"once": SECONDS["once"]}) == "Growth needs at least two sizes."


@pytest.mark.slow
def test_chart_names_every_stage_on_a_white_background(tmp_path: Path) -> None:
    growth.draw(SECONDS, tmp_path / "growth.svg")
    svg = (tmp_path / "growth.svg").read_text(encoding="utf-8")
    assert all(f">{stage}</text>" in svg for stage in SECONDS)
    assert 'fill="white"' in svg


@pytest.mark.slow  # its module imports Streamlit
def test_heaps_law_fits_the_half_and_the_whole() -> None:
    from benchmarks.large import fit_heaps_law

    exponent, scale = fit_heaps_law(["a", "b", "a", "c", "b", "d", "a", "e"])  # 3 distinct of 4, 5 of 8
    assert scale * 4**exponent == pytest.approx(3)
    assert scale * 8**exponent == pytest.approx(5)


@pytest.mark.slow  # its module imports Streamlit
def test_documents_have_the_requested_size_and_new_words() -> None:
    from benchmarks.large import documents

    real = [f"{number:03}말{number:03}" for number in (*range(500), *range(100, 600))]
    texts = [*documents(real, 300_000)]
    assert sum(len(text.encode()) + 1 for text in texts) >= 300_000
    assert sum(len(text.encode()) + 1 for text in texts[:-1]) < 300_000
    assert {len(text.split()) for text in texts} == {100}
    new = {word for text in texts for word in text.split()} - {*real}
    assert len(new) > len({*real}) / 5
