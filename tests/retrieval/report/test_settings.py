"""The report names the settings of every kind of retriever."""

from pathlib import Path
from typing import Any

import pytest

from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.experiment import KINDS, Experiment, store_measured
from mrc_workbench.retrieval.comparison.store import provenance
from mrc_workbench.retrieval.outside.adapt import measure
from mrc_workbench.retrieval.report.exports import save
from mrc_workbench.retrieval.report.report import settings
from mrc_workbench.retrieval.report.words import LANGUAGES, words_of
from tests.doubles import PASSAGES, small_set
from tests.search_server import scored

URL = "http://127.0.0.1:9/search?q={query}"
RECORDED = {"seconds_per_query": 0.5, "unknown_passages": 3, "rising_scores": 2}
SPECS: list[dict[str, Any]] = [
    {"kind": "bm25", "analyzer": "word", "title_weight": 0.5, "feedback_passages": 2, "chosen_on": "test"},
    {"kind": "bm25-windows", "analyzer": "word", "sentences": 2, "dictionary": "none.txt"},
    {"kind": "dense", "windows": True, "window_tokens": 64},
    {"kind": "sparse", "model": "no such model!"},
    {"kind": "late", "model": "no such model!", "bits": 2},
    {"kind": "hybrid", "of": ["bm25", "dense"], "weights": [0.25, 0.75]},
    {"kind": "learned", "of": ["bm25", "dense"]},
    {"kind": "rerank", "first": "bm25"},
    {"kind": "run", "path": "none.trec", "recorded": RECORDED},
    {"kind": "milvus", "search": "hybrid", "fusion": "weighted", "weights": [0.25, 0.75]},
    {"kind": "http", "url": URL, "method": "GET", "ids": "hits", "headers": {"reference": "x"}, "timeout": 2.5},
    {"kind": "plugin", "entry": "none", "options": {"k1": 1.2, "exact": True, "fields": ["title", "text"]}},
]


def compared() -> Comparison:
    specs = [{"name": spec["kind"], **spec} for spec in SPECS]
    return Comparison(Experiment.model_validate({"data": "small", "retriever": specs}), small_set(), ())


def test_every_kind_has_settings_here() -> None:
    assert [spec["kind"] for spec in SPECS] == [kind.model_fields["kind"].default for kind in KINDS]


@pytest.mark.parametrize("language", LANGUAGES)
def test_settings_of_every_kind_are_named(language: str) -> None:
    lines = dict(settings(provenance(compared()), words_of(language)))
    assert set(lines) >= {spec["kind"] for spec in SPECS}
    assert lines["plugin"].endswith("options k1=1.2, exact=true, fields=title, text")
    assert lines["run"].endswith("recorded seconds_per_query=0.5, unknown_passages=3, rising_scores=2")
    assert "headers reference=x" in lines["http"]
    assert "weights 0.25, 0.75" in lines["hybrid"]
    assert "dictionary none.txt" in lines["bm25-windows"]
    assert "model starter " in lines["dense"]


@pytest.mark.slow
def test_a_report_with_a_measured_retriever_is_written(tmp_path: Path) -> None:
    def search(query: str, k: int) -> list[tuple[str, int]]:
        return scored(PASSAGES, query, k)

    spec = store_measured(measure(search, small_set(), 10, name="Mine"), small_set())
    comparison = compare(Experiment(data="small", retriever=(spec,)), small_set())
    save(comparison, tmp_path / "out", provenance(comparison))
    assert "recorded seconds_per_query=" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
