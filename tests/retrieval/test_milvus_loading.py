"""A corpus is loaded once, continues after an interruption, and survives a kill."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from pymilvus import MilvusClient
from pymilvus.exceptions import MilvusException

from mrc_workbench.data.records import Passage
from mrc_workbench.data.workspace import PROJECT, workspace
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from mrc_workbench.retrieval.milvus import MilvusRetriever, TermField
from mrc_workbench.retrieval.milvus_connection import MilvusSettings, open_client
from tests.doubles import PASSAGES

pytestmark = pytest.mark.slow

# several batches of 256, no two passages alike
CORPUS = [Passage(f"p{row}", f"지문 {row} 번째 {row % 7} {row % 31}") for row in range(1100)]
OPTIONS = BM25Options("word")
QUERIES = ["지문 17", "번째 1099 6", "3 30 900"]

LOADING = """
import time
from tests.retrieval.test_milvus_loading import loaded

def report_progress(fraction):
    print(fraction, flush=True)
    if fraction > 0.6:
        time.sleep(600)

loaded(report_progress)
"""


def loaded(on_progress: object = None, corpus: list[Passage] = CORPUS) -> MilvusRetriever:
    fields = [TermField(corpus, OPTIONS)]
    return MilvusRetriever("milvus", len(corpus), fields, MilvusSettings(), on_progress=on_progress)  # type: ignore[arg-type]


def test_loads_corpus_once() -> None:
    progress: list[float] = []
    first, again = (loaded(progress.append, CORPUS[:300]) for _ in range(2))
    assert progress == [256 / 300, 1]
    assert again.collection == first.collection
    assert loaded(progress.append, CORPUS[:299]).collection != first.collection
    assert len(list((workspace() / "milvus").glob("*.db"))) == 2


def test_resumes_interrupted_load() -> None:
    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loaded(stop)
    progress: list[float] = []
    whole = loaded(progress.append)
    assert progress[0] == 512 / 1100
    with open_client(MilvusSettings(), whole.collection) as client:
        assert client.list_collections() == [whole.collection]


def test_concurrent_loads_fill_same_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither saw it there; the server takes it of one of them."""
    make = MilvusClient.create_collection

    def second(client: MilvusClient, name: str, **options: Any) -> None:
        make(client, name, **options)
        raise MilvusException(message="File exists")

    monkeypatch.setattr(MilvusClient, "create_collection", second)
    whole = loaded(lambda _: None)
    with open_client(MilvusSettings(), whole.collection) as client:
        assert client.list_collections() == [whole.collection]


def test_killed_load_loses_no_passage() -> None:
    environment = {**os.environ, "MRC_WORKSPACE": str(workspace())}
    command = [sys.executable, "-c", LOADING]
    process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    shares = [float(process.stdout.readline()) for _ in range(3)]
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert shares[-1] == 768 / 1100

    progress: list[float] = []
    milvus = loaded(progress.append)
    assert progress == [1024 / 1100, 1]
    with open_client(MilvusSettings(), milvus.collection) as client:
        client.load_collection(milvus.collection)
        rows = client.query(milvus.collection, filter="row >= 0", output_fields=["row"], limit=2000)
    assert sorted(row["row"] for row in rows) == list(range(1100))
    rankings = milvus.search(QUERIES, 20)
    expected = BM25("bm25", CORPUS, OPTIONS).search(QUERIES, 20)
    assert rankings.scores == pytest.approx(expected.scores, rel=1e-5)
    assert rankings.indices[:, 0].tolist() == expected.indices[:, 0].tolist()


def test_empty_corpus_creates_no_collection() -> None:
    nothing = loaded(corpus=[])
    assert (nothing.search(["지문"], 2).indices == -1).all()
    assert not (workspace() / "milvus").exists()
    assert (loaded(corpus=list(PASSAGES)).search([], 2).indices.shape) == (0, 2)
