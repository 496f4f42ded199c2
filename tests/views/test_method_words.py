"""What a retriever does, in a line."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
import streamlit as st

from data.split import SplitOptions
from jobs.status import State
from retrieval.comparison.kinds.first_stage import BM25Spec, DenseSpec, RunSpec, SparseSpec, WindowedBM25Spec
from retrieval.comparison.kinds.milvus import MilvusSpec
from retrieval.comparison.multistage import HybridSpec, RerankSpec
from retrieval.comparison.spec import Spec
from retrieval.milvus.retriever import Search
from text.analyzers import Analyzer
from training.options.bi_encoder import BI_ENCODER, BiEncoderOptions
from training.runs.runs import create_run, new_plan
from views.choices import method_line

E5 = "packaged:multilingual-e5-small"
SPECS: Mapping[str, Spec] = {"BM25": BM25Spec(name="BM25"), "Dense": DenseSpec(name="Dense", model=E5)}


@pytest.fixture(autouse=True, params=["en", "ko"])
def spoken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(st, "query_params", {"lang": request.param})
    return str(request.param)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (SPECS["BM25"], {"en": "morphemes by Kiwi and pairs of letters", "ko": "형태소(Kiwi)와 글자 두 개씩"}),
        (BM25Spec(name="Words", analyzer=Analyzer.WORD), {"en": "cut into words", "ko": "띄어쓰기한 단어"}),
        (BM25Spec(name="Again", feedback_passages=5), {"en": "the first 5 passages", "ko": "지문 5개의 낱말"}),
        (BM25Spec(name="Own", dictionary="dictionary:x"), {"en": "with a dictionary", "ko": "사전 사용"}),
        (WindowedBM25Spec(name="Windows", sentences=3), {"en": "3 sentences at a time", "ko": "문장 3개씩"}),
        (SPECS["Dense"], {"en": "multilingual-e5-small, untrained", "ko": "multilingual-e5-small, 학습 전"}),
        (DenseSpec(name="LSA"), {"en": "(LSA), untrained", "ko": "(LSA), 학습 전"}),
        (DenseSpec(name="Hub", model="BAAI/bge-m3"), {"en": "by BAAI/bge-m3", "ko": "BAAI/bge-m3"}),
        (SparseSpec(name="Sparse", model="a/splade"), {"en": "weighs, a/splade", "ko": "중요도로 찾음. a/splade"}),
        (RunSpec(name="Run", path="/x.trec"), {"en": "TREC run", "ko": "TREC run"}),
        (HybridSpec(name="Hybrid", of=("BM25", "Dense")), {"en": "BM25 + Dense", "ko": "BM25 + Dense 결과를 합침"}),
        (
            HybridSpec(name="Weighed", of=("BM25", "Dense"), weights=(0.3, 0.7)),
            {"en": "BM25 × 0.3 + Dense × 0.7", "ko": "BM25 × 0.3 + Dense × 0.7"},
        ),
        (
            RerankSpec(name="Reranked", first="BM25", model="BAAI/bge-reranker-base"),
            {
                "en": "the first 20 of BM25, put in a new order by BAAI/bge-reranker-base",
                "ko": "BM25 상위 20개의 순서를 모델이 다시 매김. BAAI/bge-reranker-base",
            },
        ),
        (
            MilvusSpec(name="Milvus", search=Search.DENSE, model="BAAI/bge-m3"),
            {"en": "searched in Milvus: finds passages of similar meaning by BAAI/bge-m3", "ko": "Milvus에서 검색."},
        ),
        (
            MilvusSpec(name="Both", search=Search.HYBRID, model="BAAI/bge-m3"),
            {"en": "Milvus: the results of BM25 + BAAI/bge-m3", "ko": "BM25 + BAAI/bge-m3 결과를 합침"},
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Spec) else "",
)
def test_a_retriever_of_every_kind_says_what_it_does(spec: Spec, said: dict[str, str], spoken: str) -> None:
    line = method_line(spec, SPECS, Analyzer.KIWI_BIGRAM)
    assert line.startswith(f"{spec.name}: ")
    assert said[spoken] in line


def test_a_trained_model_is_told_by_its_base_and_the_name_it_was_given(spoken: str) -> None:
    plan = new_plan(BI_ENCODER, "Bi-encoder 1", ("k", "n", "f"), SplitOptions(), BiEncoderOptions(base=E5))
    run = create_run(plan)
    run.write_status(replace(run.status(), state=State.DONE))
    line = method_line(DenseSpec(name="Dense · 1", model=run.id), SPECS)
    said = {"en": "trained here (Bi-encoder 1)", "ko": "여기서 학습(Bi-encoder 1)"}
    assert f"multilingual-e5-small, {said[spoken]}" in line


def test_where_the_analyzer_is_not_known_the_line_says_that_it_suits_the_language(spoken: str) -> None:
    said = {"en": "what suits the language", "ko": "글의 언어에 맞춤"}
    assert said[spoken] in method_line(SPECS["BM25"], SPECS)


def test_a_kind_that_was_added_to_the_program_is_called_by_its_kind() -> None:
    class Letters(RunSpec):
        kind: str = "letters"  # type: ignore[assignment]

    assert method_line(Letters(name="Mine", path="x"), SPECS) == "Mine: letters"
