"""The whole comparison is split into stages, and compared with a script that uses the libraries' defaults."""

import json
from pathlib import Path

import pytest

from benchmarks.speed.reference_script import fuse, read, recall
from benchmarks.speed.whole_job import ProcessResult, metric_table, own_seconds, stage_table

NAMES = ("BM25", "Dense", "Hybrid", "Reranked")


def process_result(seconds: float, stage_seconds: float) -> ProcessResult:
    metrics = {"recall@1": 0.5, "recall@10": 0.75}
    return ProcessResult(seconds, dict.fromkeys(NAMES, stage_seconds), dict.fromkeys(NAMES, metrics))


def test_counts_seconds_of_components_once() -> None:
    times = {"BM25": (1.0, 2.0), "Dense": (4.0, 8.0), "Hybrid": (5.0, 10.5), "Reranked": (1.5, 20.0)}
    retrievers = {name: {"build_seconds": build, "query_seconds": query} for name, (build, query) in times.items()}
    assert own_seconds(retrievers) == pytest.approx({"BM25": 3.0, "Dense": 12.0, "Hybrid": 0.5, "Reranked": 18.5})


def test_stages_and_the_rest_add_up_to_the_total() -> None:
    lines = stage_table(process_result(5.0, 1.0), process_result(50.0, 10.0))
    assert lines[-2:] == ["| other | 1.00 | 10.00 | 10.0 |", "| total | 5.00 | 50.00 | 10.0 |"]
    assert [line.split(" | ")[1:] for line in lines[2:6]] == [["1.00", "10.00", "10.0 |"]] * 4


def test_metric_table_shows_both_sides() -> None:
    assert metric_table(process_result(1, 0), process_result(1, 0))[2] == "| BM25 | 50.00 | 50.00 | 75.00 | 75.00 |"


def test_script_reads_fuses_and_evaluates(tmp_path: Path) -> None:
    paragraphs = [{"context": text, "qas": [{"question": f"{text}?"}]} for text in ("a", "b", "a")]
    file = tmp_path / "set.json"
    file.write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}), encoding="utf-8")
    passages, questions, relevant = read(str(file))
    assert (passages, questions, relevant) == (["t\na", "t\nb"], ["a?", "b?", "a?"], [0, 1, 0])
    assert fuse([1, 2], [2, 3], 1.0) == [2, 1, 3]  # 1/62 + 1/61, 1/61, 1/62
    assert fuse([1, 2], [3, 2], 100.0)[:2] == [3, 2]  # 100/61; 1/62 + 100/62
    assert recall([[0, 1], [0, 1], [1, 0]], relevant, 1) == pytest.approx(1 / 3)
