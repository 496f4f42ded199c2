"""KorQuAD over HTTP: results and nDCG equal those of Compare with local indexes, Milvus Lite and a Milvus server."""

import os
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, write_experiment
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.retrieval.rankings import Rankings
from mrc_workbench.retrieval.searcher import open_searchers
from mrc_workbench.workbench.serving.app import create_app
from mrc_workbench.workbench.serving.protocol import RequestLimits
from tests.depth import sampled
from tests.milvus_server import serving

FILE = Path(os.environ.get("MRC_DATA", "")) / "KorQuAD_v1.0_dev.json"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FILE.is_file(), reason=f"needs {FILE.name} in the folder that MRC_DATA names"),
]
AT_ONCE = 250  # questions: Milvus Lite opens its file for each request
LOCAL = (
    {"name": "BM25", "kind": "bm25", "analyzer": "bigram"},
    {"name": "Dense", "kind": "dense"},
    {"name": "Hybrid", "kind": "hybrid", "retrievers": ["BM25", "Dense"]},
)
MILVUS = {"kind": "milvus"}
IN_MILVUS = (LOCAL[0] | MILVUS, LOCAL[1] | MILVUS | {"search": "dense"}, LOCAL[2])


@pytest.fixture(scope="module")
def question_set() -> QuestionSet:
    whole = read_file(FILE).question_set
    return whole.with_questions(np.arange(0, 5500, 5500 // sampled(500, 250)))


@pytest.fixture(scope="module")
def compared(question_set: QuestionSet) -> tuple[Comparison, str]:
    """The comparison, and its workspace with the vectors of the passages."""
    comparison = compare(Experiment.model_validate({"data": str(FILE), "retriever": LOCAL}), question_set)
    return comparison, os.environ["MRC_WORKSPACE"]


@pytest.mark.parametrize("where", ["here", "Milvus Lite", "a Milvus server"])
def test_served_results_match_order_and_ndcg_of_comparison(
    where: str,
    question_set: QuestionSet,
    compared: tuple[Comparison, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    comparison, workspace = compared
    monkeypatch.setenv("MRC_WORKSPACE", workspace)
    file = tmp_path / "experiment.toml"
    specs = LOCAL if where == "here" else IN_MILVUS
    file.write_text(write_experiment(Experiment.model_validate({"data": str(FILE), "retriever": specs})), "utf-8")
    with ExitStack() as stack:
        if where == "a Milvus server":
            monkeypatch.setenv("MILVUS_URI", stack.enter_context(serving(tmp_path / "lite")))
        app = create_app(open_searchers(file), RequestLimits(max_queries=AT_ONCE, timeout=600.0))
        service = stack.enter_context(TestClient(app, "http://127.0.0.1"))
        for name, expected in comparison.rankings.items():
            served = Rankings.empty(len(question_set.questions), 10)
            for start in range(0, len(question_set.questions), AT_ONCE):
                texts = [question.text for question in question_set.questions[start : start + AT_ONCE]]
                answer = service.post("/search", json={"questions": texts, "k": 10, "retriever": name}).json()
                for row, item in enumerate(answer["results"], start):
                    rows = [question_set.row_of_passage[hit["id"]] for hit in item["hits"]]
                    served.indices[row, : len(rows)] = rows
                    served.scores[row, : len(rows)] = 0.0
            ndcg = [evaluate(item, question_set, (10,)).means()["ndcg@10"] for item in (served, expected.first(10))]
            assert round(ndcg[0], 4) == round(ndcg[1], 4)
            differing = np.flatnonzero((served.indices != expected.indices[:, :10]).any(axis=1))
            _only_near_ties_differ(expected, served, differing)


def _only_near_ties_differ(expected: Rankings, served: Rankings, rows: np.ndarray) -> None:
    """If Milvus has another order, the scores of the swapped passages are equal in float32."""
    for row in rows.tolist():
        score = dict(zip(expected.indices[row].tolist(), expected.scores[row].tolist(), strict=True))
        scores = [score[passage] for passage in served.indices[row].tolist()]
        np.testing.assert_allclose(scores, expected.scores[row, :10], rtol=1e-5, atol=1e-6)
