"""Starter trainings with default options on half of KorQuAD, evaluated on unseen articles."""

import os
import time
from functools import cache
from pathlib import Path

import pytest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, SplitOptions, split
from mrc_workbench.data.store import find
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.sources import ModelSource, find_model
from mrc_workbench.retrieval.combine import RerankedRetriever, recommended_weight
from mrc_workbench.retrieval.dense import Dense
from mrc_workbench.retrieval.lexical.bm25 import BM25
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.retrieval.rankings import Retriever
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER
from mrc_workbench.training.runs import Run
from mrc_workbench.training.train import train
from tests.training.worlds import create_planned_run, make_source

FILE = Path(os.environ.get("MRC_DATA", "")) / "KorQuAD_v1.0_dev.json"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("shared_workspace_of_module"),
    pytest.mark.skipif(not FILE.is_file(), reason=f"needs {FILE.name} in the folder that MRC_DATA names"),
]
SPLIT = SplitOptions(validation=0.1, test=20 / 70)


@cache
def half() -> QuestionSet:
    whole = find("korquad-v1-dev")
    return QuestionSet("half", whole.passages[:431], whole.questions[:2865])


def print_metrics(text: str) -> None:
    print(text)  # noqa: T201 - for a reader of `pytest -s`


def trained(kind: str, question_set: QuestionSet) -> Run:
    run = create_planned_run(kind, question_set, SPLIT)
    began = time.monotonic()
    assert train(run).state is State.DONE, run.status().message
    print_metrics(f"{kind}: {time.monotonic() - began:.0f} s; validation: {run.scores()}")
    return run


def measured(name: str, retriever: Retriever, question_set: QuestionSet) -> dict[str, float]:
    test_questions = split(question_set, SPLIT).questions(question_set, Part.TEST)
    assert len(test_questions.questions) == 813
    rankings = retriever.search([question.text for question in test_questions.questions], 10)
    means = evaluate(rankings, test_questions, (1, 5, 10)).means()
    print_metrics(f"test, {name}: " + "  ".join(f"{measure} {value:.4f}" for measure, value in means.items()))
    return means


def test_trained_starter_bi_encoder_loses_no_recall() -> None:
    korquad = half()
    run = trained(BI_ENCODER, korquad)

    def dense(name: str, source: ModelSource) -> dict[str, float]:
        encoder = BiEncoder(source, korquad.passages.indexed_texts(title=True))
        return measured(name, Dense(name, korquad.passages, encoder), korquad)

    before = dense("bi-encoder before", find_model("starter"))
    after = dense("bi-encoder after", make_source(run))
    assert after["recall@10"] >= before["recall@10"] - 0.005


def test_starter_cross_encoder_matches_bm25() -> None:
    korquad = half()
    run = trained(CROSS_ENCODER, korquad)
    bm25 = BM25("BM25", korquad.passages)
    scorer = CrossEncoderScorer(make_source(run), korquad.passages.indexed_texts(title=True))
    weight = recommended_weight(make_source(run))
    reranked = RerankedRetriever("", bm25, scorer, korquad.passages, depth=20, weight=weight)
    first = measured("BM25", bm25, korquad)
    second = measured(f"BM25 reranked, weight {weight}", reranked, korquad)
    assert second["recall@1"] >= first["recall@1"]
