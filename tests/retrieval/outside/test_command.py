"""`mrc compare` with retrievers from outside: their results are stored, exported and tested like those of others."""

import json
import shutil
from pathlib import Path

import pytest

from mrc_workbench.data.store import keep
from mrc_workbench.workbench.cli import main
from tests.doubles import PASSAGES, small_set
from tests.search_server import searching

EXPERIMENT = """
data = "{data}"

[[retriever]]
name = "BM25"
kind = "bm25"
analyzer = "bigram"

[[retriever]]
name = "Endpoint"
kind = "http"
url = "{address}/search?q={{query}}&k={{k}}"
method = "GET"
ids = "hits.hits[*]._id"
scores = "hits.hits[*]._score"

[[retriever]]
name = "Registered"
kind = "plugin"
entry = "letters"

[[retriever]]
name = "LangChain"
kind = "plugin"
entry = "langchain"

[[retriever]]
name = "Fused"
kind = "hybrid"
of = ["BM25", "Endpoint"]
"""
REGISTERED = (
    "letters=tests.search_server:ByLetters,langchain=tests.retrieval.outside.test_libraries:Letters.for_passages"
)


@pytest.mark.slow
def test_they_are_compared_and_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_RETRIEVERS", REGISTERED)
    path, out = tmp_path / "experiment.toml", tmp_path / "out"
    data = keep(small_set())
    with searching(PASSAGES) as server:
        path.write_text(EXPERIMENT.format(data=data.key, address=server.address), encoding="utf-8")
        assert main(["compare", str(path), "--out", str(out)]) == 0
        asked = len(server.requests)
        assert asked == len(small_set().questions)
        assert main(["compare", str(path)]) == 0
        assert len(server.requests) == asked  # from the cache
    told = json.loads((out / "scores.json").read_text())["retrievers"]
    assert told["Endpoint"]["notes"]["latency"]["p50"] > 0
    equal = [{name: value for name, value in told[one].items() if "@" in name} for one in ("Endpoint", "Registered")]
    assert equal[0] == equal[1]
    assert told["LangChain"]["recall@5"] == told["Endpoint"]["recall@5"]
    names = {name for pair in json.loads((out / "significance.json").read_text()) for name in (pair["a"], pair["b"])}
    assert names == {"BM25", "Endpoint", "Registered", "LangChain", "Fused"}
    provenance = (out / "provenance.json").read_text(encoding="utf-8")
    assert "tests.search_server" in provenance  # which code was run
    shutil.rmtree(out)
