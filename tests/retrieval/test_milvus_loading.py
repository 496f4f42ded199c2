"""A corpus is loaded once, goes on where it was interrupted, and loses nothing to a kill."""

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
from mrc_workbench.retrieval.milvus import Milvus, TermField
from mrc_workbench.retrieval.milvus_connection import Place, connected
from tests.doubles import PASSAGES

pytestmark = pytest.mark.slow  # Milvus Lite is a process of its own

# several batches of 256, no two passages alike
CORPUS = [Passage(f"p{row}", f"지문 {row} 번째 {row % 7} {row % 31}") for row in range(1100)]
OPTIONS = BM25Options("word")
ASKED = ["지문 17", "번째 1099 6", "3 30 900"]

LOADING = """
import time
from tests.retrieval.test_milvus_loading import loaded

def tell(share):
    print(share, flush=True)
    if share > 0.6:
        time.sleep(600)

loaded(tell)
"""


def loaded(tell: object = None, corpus: list[Passage] = CORPUS) -> Milvus:
    return Milvus("milvus", len(corpus), [TermField(corpus, OPTIONS)], Place(), on_progress=tell)  # type: ignore[arg-type]


def test_a_corpus_is_loaded_once() -> None:
    told: list[float] = []
    first = loaded(told.append, CORPUS[:300])
    assert told == [256 / 300, 1]
    again = loaded(told.append, CORPUS[:300])
    assert told == [256 / 300, 1]
    assert again.collection == first.collection
    assert loaded(told.append, CORPUS[:299]).collection != first.collection
    assert len(list((workspace() / "milvus").glob("*.db"))) == 2


def test_an_interrupted_load_is_no_collection_and_goes_on() -> None:
    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loaded(stop)
    told: list[float] = []
    whole = loaded(told.append)
    assert told[0] == 512 / 1100
    with connected(Place(), whole.collection) as client:
        assert client.list_collections() == [whole.collection]


def test_a_collection_that_another_makes_at_the_same_moment_is_filled_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither saw it there; the server takes it of one of them."""
    make = MilvusClient.create_collection

    def second(client: MilvusClient, name: str, **told: Any) -> None:
        make(client, name, **told)
        raise MilvusException(message="File exists")

    monkeypatch.setattr(MilvusClient, "create_collection", second)
    whole = loaded(lambda _: None)
    with connected(Place(), whole.collection) as client:
        assert client.list_collections() == [whole.collection]


def test_no_passage_that_was_taken_is_lost_to_a_kill() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LOADING],
        cwd=PROJECT,
        env={**os.environ, "MRC_WORKSPACE": str(workspace())},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    shares = [float(process.stdout.readline()) for _ in range(3)]
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert shares[-1] == 768 / 1100

    told: list[float] = []
    milvus = loaded(told.append)
    assert told == [1024 / 1100, 1]  # what was taken is there, and is not written again
    with connected(Place(), milvus.collection) as client:
        client.load_collection(milvus.collection)
        rows = client.query(milvus.collection, filter="row >= 0", output_fields=["row"], limit=2000)
    assert sorted(row["row"] for row in rows) == list(range(1100))
    found, wanted = milvus.search(ASKED, 20), BM25("bm25", CORPUS, OPTIONS).search(ASKED, 20)
    assert found.scores == pytest.approx(wanted.scores, rel=1e-5)
    assert found.indices[:, 0].tolist() == wanted.indices[:, 0].tolist()


def test_no_passages_need_no_collection() -> None:
    nothing = loaded(corpus=[])
    assert (nothing.search(["지문"], 2).indices == -1).all()
    assert not (workspace() / "milvus").exists()
    assert (loaded(corpus=list(PASSAGES)).search([], 2).indices.shape) == (0, 2)
