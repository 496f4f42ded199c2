"""What an experiment file may tell BM25, and that what came later changes no key of what was kept before."""

import pytest
from pydantic import ValidationError

from retrieval.comparison.experiment import Experiment
from retrieval.comparison.first_stage import BM25Spec, MilvusSpec, WindowedBM25Spec
from retrieval.lexical.bm25 import BM25Options

BEFORE = {"name", "chosen_on", "kind", "analyzer", "k1", "b", "title"}


def test_options_that_are_not_used_are_no_part_of_a_key() -> None:
    assert set(BM25Spec(name="BM25").model_dump(mode="json")) == BEFORE | {"engine"}
    assert set(WindowedBM25Spec(name="BM25").model_dump(mode="json")) == BEFORE | {"sentences"}
    usual = BM25Spec(name="BM25", feedback_passages=5, feedback_terms=10, feedback_share=0.5)
    assert set(usual.model_dump(mode="json")) == BEFORE | {"engine", "feedback_passages"}


def test_options_reach_bm25() -> None:
    values = {"k1": 1.2, "title_weight": 3.0, "feedback_passages": 4, "feedback_terms": 20, "feedback_share": 0.2}
    spec = BM25Spec(name="BM25", **values)  # type: ignore[arg-type]
    assert spec.options() == BM25Options(**values)  # type: ignore[arg-type]
    assert spec.model_validate_json(spec.model_dump_json()) == spec
    assert WindowedBM25Spec(name="W", title_weight=3).options() == BM25Options(title_weight=3)


@pytest.mark.parametrize(
    "values",
    [
        {"title_weight": 0},
        {"title_weight": -1},
        {"title_weight": float("inf")},
        {"title_weight": float("nan")},
        {"title_weight": 2, "title": False},
        {"title_weight": 2, "engine": "rank-bm25"},
        {"feedback_passages": -1},
        {"feedback_passages": 3, "engine": "rank-bm25"},
        {"feedback_passages": 3, "feedback_terms": 0},
        {"feedback_passages": 3, "feedback_share": 1.5},
        {"feedback_share": 0.2},
        {"feedback_terms": 5},
    ],
)
def test_options_that_do_not_go_together_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=r"title_weight|feedback"):
        Experiment.model_validate({"data": "sample", "retriever": [{"name": "BM25", "kind": "bm25", **values}]})


def test_windows_and_milvus_are_asked_once() -> None:
    with pytest.raises(ValidationError, match="feedback_passages"):
        WindowedBM25Spec.model_validate({"name": "W", "kind": "bm25-windows", "feedback_passages": 3})
    with pytest.raises(ValidationError, match="feedback_passages"):
        MilvusSpec.model_validate({"name": "M", "kind": "milvus", "feedback_passages": 3})


def test_an_engine_of_earlier_versions_is_the_one_that_scores_the_same() -> None:
    assert BM25Spec.model_validate({"name": "BM25", "engine": "bm25s"}) == BM25Spec(name="BM25")
