"""Retrievers that the operator registers: by entry point or environment variable, never by a name in a file."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from mrc_workbench.data.store import save_question_set
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import PluginSpec
from mrc_workbench.retrieval.comparison.spec import RetrieverContext
from mrc_workbench.retrieval.outside import OutsideError
from mrc_workbench.retrieval.outside import adapt as registered
from mrc_workbench.retrieval.outside.adapt import Plugin, plugins
from mrc_workbench.workbench.cli import main
from tests.doubles import PASSAGES, small_set
from tests.search_server import searching

CODE = """
class CharacterSearch:
    name = "letters"
    def __init__(self, passages, weight=1.0):
        self.passages, self.weight = passages, weight
    def search(self, query, k):
        shared = [(one.id, self.weight * len({*query} & {*one.text})) for one in self.passages]
        return [pair for pair in shared if pair[1]]

def first(passages):
    return lambda query, k: [passages[0].id]

class ready:
    def search(self, query, k):
        return ["p2"]
ready = ready()
"""
SPECS: list[dict[str, Any]] = [
    {"name": "BM25", "kind": "bm25", "analyzer": "bigram"},
    {"name": "Endpoint", "kind": "http", "method": "GET", "ids": "hits.hits[*]._id", "scores": "hits.hits[*]._score"},
    {"name": "Registered", "kind": "plugin", "entry": "letters"},
    {"name": "LangChain", "kind": "plugin", "entry": "langchain"},
    {"name": "Fused", "kind": "hybrid", "retrievers": ["BM25", "Endpoint"]},
]
LANGCHAIN = "langchain=tests.retrieval.outside.test_libraries:LetterRetriever.for_passages"
REGISTERED = f"letters=tests.search_server:CharacterSearch,{LANGCHAIN}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "their_search.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MRC_RETRIEVERS", "letters=their_search:CharacterSearch, their_search:first,their_search:ready")
    yield tmp_path
    sys.modules.pop("their_search", None)
    registered._installed.cache_clear()


def install(folder: Path, version: str) -> None:
    info = folder / "their_search-1.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: their-search\nVersion: {version}\n")
    (info / "entry_points.txt").write_text("[mrc_workbench.retrievers]\npackaged = their_search:CharacterSearch\n")
    registered._installed.cache_clear()


def test_names_and_objects_of_the_variable() -> None:
    assert [*plugins()] == ["letters", "first", "ready"]
    assert "their_search" not in sys.modules  # listing runs no code


def test_compares_factory_with_options_and_object() -> None:
    specs = (
        PluginSpec(name="Theirs", entry="letters", options={"weight": 2.5}),
        PluginSpec(name="First", entry="first"),
        PluginSpec(name="Ready", entry="ready"),
    )
    comparison = compare(Experiment(data="x", retriever=specs), small_set())
    assert [result.error for result in comparison.results] == [None] * 3
    assert comparison.scores["Theirs"].means()["hit@1"] > 0.5
    assert comparison.rankings["Theirs"].scores[0, 0] % 2.5 == 0
    assert (comparison.rankings["Ready"].indices[:, 0] == 1).all()


def test_lists_and_runs_installed_package(folder: Path) -> None:
    install(folder, "1.2")
    assert plugins()["packaged"] == Plugin("packaged", "their_search", "CharacterSearch", "their-search", "1.2")
    comparison = compare(Experiment(data="x", retriever=(PluginSpec(name="P", entry="packaged"),)), small_set())
    assert comparison.scores["P"].means()["hit@1"] > 0.5


def test_cache_key_depends_on_version_options_and_code(folder: Path) -> None:
    def key(**options: float) -> str:
        return PluginSpec(name="P", entry="packaged", options=options).make(RetrieverContext(small_set())).key

    install(folder, "1")
    keys = [key(), key(weight=2.0)]
    install(folder, "2")
    keys.append(key())
    (folder / "their_search.py").write_text(CODE + "\n# changed\n")
    keys.append(key())
    assert len({*keys}) == 4
    assert key() == keys[-1]


@pytest.mark.parametrize(
    ("entry", "options", "code"),
    [
        ("their_search:CharacterSearch", {}, "outside_plugin_unknown"),
        ("os:system", {}, "outside_plugin_unknown"),
        ("nothing", {}, "outside_plugin_unknown"),
        ("letters", {"wrong": 1}, "outside_plugin_failed"),
        ("ready", {"weight": 1}, "outside_plugin_options"),
        ("missing", {}, "outside_plugin_failed"),
        ("gone", {}, "outside_plugin_failed"),
        ("exits", {}, "outside_plugin_failed"),
    ],
)
def test_failure_has_reason(entry: str, options: Any, code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "exits_on_import.py").write_text("raise OSError('no licence')")
    own = "letters=their_search:CharacterSearch,missing=their_search:Nothing,their_search:ready"
    monkeypatch.setenv("MRC_RETRIEVERS", f"{own},gone=no_such_module:X,exits=exits_on_import:X,broken entry")
    spec = PluginSpec(name="P", entry=entry, options=options)
    (result,) = compare(Experiment(data="x", retriever=(spec,)), small_set()).results
    assert isinstance(result.error, OutsideError)
    assert result.error.code == code
    assert ("broken entry" in str(result.error)) == (code == "outside_plugin_unknown")


@pytest.mark.slow
def test_compares_and_exports_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_RETRIEVERS", REGISTERED)
    path = tmp_path / "experiment.toml"
    out = tmp_path / "out"
    data = save_question_set(small_set())
    with searching(PASSAGES) as server:
        url = {"url": f"{server.address}/search?q={{query}}&k={{k}}"}
        specs = [spec | (url if spec["kind"] == "http" else {}) for spec in SPECS]
        path.write_text(tomli_w.dumps({"data": data.key, "retriever": specs}), encoding="utf-8")
        assert main(["compare", str(path), "--out", str(out)]) == 0
        n_requests = len(server.requests)
        assert n_requests == len(small_set().questions)
        assert main(["compare", str(path)]) == 0
        assert len(server.requests) == n_requests  # from the cache
    results = json.loads((out / "scores.json").read_text())["retrievers"]
    assert results["Endpoint"]["notes"]["latency"]["p50"] > 0
    both = (results["Endpoint"], results["Registered"])
    equal = [{name: value for name, value in metrics.items() if "@" in name} for metrics in both]
    assert equal[0] == equal[1]
    assert results["LangChain"]["recall@5"] == results["Endpoint"]["recall@5"]
    names = {name for pair in json.loads((out / "significance.json").read_text()) for name in (pair["a"], pair["b"])}
    assert names == {"BM25", "Endpoint", "Registered", "LangChain", "Fused"}
    assert "tests.search_server" in (out / "provenance.json").read_text(encoding="utf-8")  # which code was run
