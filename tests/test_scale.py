"""The plan past one machine against sums by hand, and what it says of what was not measured."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks import readme, scale_rates
from benchmarks.peers import Measured
from benchmarks.scale import main, shown, tables
from benchmarks.scale_plan import GIB, PLAN, Assumed, Plan
from benchmarks.scale_rates import Rates, measured

RATES = Rates(
    cores=2,
    analyzed=100,
    indexed=1000,
    index_peak=2 * GIB / 1e6,
    bm25_seconds=1e-8,
    encoded=10,
    scanned=2e9,
    scanned_small=1e9,
    graph_seconds=0.001,
    graph_vectors=1e5,
    postings=250,
    asked_postings=0.5,
    text_bytes=1000,
    bandwidth=4e9,
    flops=1e12,
    flops_float32=5e11,
)
ASSUMED = Assumed(cores=8, memory_gib=100, filled=0.5, machine_hour=2, gpu_hour=3, gpu_tflops=100, dimensions=1000)


def planned(n: int, rates: Rates = RATES) -> list[float]:
    return [quantity.of(Plan(n, rates, ASSUMED)) for quantity in PLAN]


def test_a_hundred_million_passages_are_what_the_formulas_tell() -> None:
    core_hours = 1e8 * (2 / 100 + 1 / 1000) / 3600
    flops = 2 * 85e6 * 128 * 1e8
    assert planned(100_000_000) == pytest.approx(
        [
            8 * 250 * 1e8 / GIB,
            200,
            4,  # of 50 GiB each
            core_hours / 32,
            1e8 * 1e-8 / 32 * 1000,
            8 * 0.5 * 1e8 / (4e9 * 16) * 1000,
            4e11 / GIB,
            1e11 / GIB,
            96e8 / GIB,
            math.ceil((4e11 + 272e8) / GIB / 50),
            2,
            1,
            1e11 / (1e9 * 16) * 1000,
            1e11 / (4e9 * 8) * 1000,
            1e8 / 40 / 3600,
            flops / 4e12 / 3600,
            flops / 1e14 / 3600,
            core_hours / 8 * 2,
            1e8 / 40 / 3600 * 2,
            flops / 1e14 / 3600 * 3,
            (1e11 + 4e11) / GIB * 0.023,
            6 * 2 * 730,
        ]
    )


def test_what_was_not_measured_is_said_and_the_rest_is_computed() -> None:
    lines = tables(replace(RATES, index_peak=math.nan, encoded=math.nan), ASSUMED)
    told = {line.split(" | ")[0]: line for line in lines}
    assert told["| machines, a shard each"].count("not measured") == 3
    assert told["| Encoding: processors"].count("not measured") == 3
    assert told["| 8 bits"].count("not measured") == 0
    assert not any("nan" in line for line in lines)


def test_the_largest_measured_set_tells_the_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for quick, value in (
        ("_of_korquad", {"analyzed": 1.0, "postings": 1.0, "asked_postings": 1.0, "text_bytes": 1.0}),
    ):
        monkeypatch.setattr(scale_rates, quick, lambda value=value: value)
    monkeypatch.setattr(scale_rates, "_bandwidth", lambda: 1.0)
    monkeypatch.setattr(scale_rates, "_flops", lambda _: 1.0)
    lines = [
        Measured("BM25 build", "bm25s", "1,000 passages", 9.0),
        Measured("BM25 build", "bm25s", "1,000,000 passages", 20.0),
        Measured("BM25 search, one question at a time", "bm25s", "200 questions, 100,000 passages", 4.0),
        Measured("BM25 build and search, peak memory", "", "10,000 passages", 0.5, unit="GiB"),
        Measured("BM25 build and search, peak memory", "", "1,010,000 passages", 3.5, unit="GiB"),
        Measured("Encoding, base size", "plain", "16 passages, 512 tokens", 1.0),
        Measured("Encoding, base size", "plain", "64 passages, 128 tokens", 2.0),
        Measured("hnsw search, one question", "exact", "10,000 vectors of 384", 0.001, 0.002),
        Measured("int8 search, one question", "exact", "10,000 vectors of 384", 0.003, 0.002),
    ]
    results = tmp_path / "results.json"
    results.write_text(json.dumps([asdict(line) for line in lines]), encoding="utf-8")
    rates = measured(results)
    assert (rates.indexed, rates.bm25_seconds, rates.encoded) == pytest.approx((50_000, 2e-7, 32))
    assert (rates.scanned, rates.scanned_small) == pytest.approx((10_000 * 384 * 4 / 0.002, 10_000 * 384 / 0.003))
    assert rates.index_peak == pytest.approx(3 * GIB / 1e6)
    assert math.isnan(measured(tmp_path / "none.json").indexed)


def test_numbers_are_shown_to_three_digits() -> None:
    assert [shown(0.01234, "ms"), shown(12.34), shown(1234.5, "$"), shown(3), shown(math.nan, "$")] == [
        "0.0123 ms",
        "12.3",
        "$1,234",
        "3",
        "not measured",
    ]


@pytest.mark.parametrize("words", [["cores"], ["cores=many"], ["no_such=1"]])
def test_an_assumption_that_is_none_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "machine_hour" in capsys.readouterr().err


def test_lines_go_where_their_marks_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    page = "before\n<!-- bench: {0} -->\nold\n<!-- /bench -->\nafter\n"
    for path, name in (("README.md", "speed"), ("docs/scale.md", "scale")):
        (tmp_path / path).write_text(page.format(name), encoding="utf-8")
    monkeypatch.setattr(readme, "_ROOT", tmp_path)
    readme.put("scale", ["new"])
    assert (tmp_path / "docs/scale.md").read_text(encoding="utf-8") == page.format("scale").replace("old", "new")
    assert "old" in (tmp_path / "README.md").read_text(encoding="utf-8")
