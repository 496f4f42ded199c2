"""Experiment files with earlier names of fields."""

from pathlib import Path

import pytest

from mrc_workbench.data.split import Part
from tests.retrieval.comparison.test_experiment import read
from tests.retrieval.comparison.test_experiment_values import BM25_ALONE, OTHER

EARLIER = {  # the earlier names of fields, and the current ones
    "bm25": (
        "feedback_passages = 3\nfeedback_terms = 5\nfeedback_share = 0.2",
        {"fb_docs": 3, "fb_terms": 5, "fb_weight": 0.2},
    ),
    "hybrid": ('of = ["a", "a"]\ndepth = 30', {"retrievers": ("a", "a"), "top_k": 30}),
    "learned": (
        'of = ["a"]\ndepth = 30\nlessons = 50',
        {"retrievers": ("a",), "top_k": 30, "max_training_queries": 50},
    ),
    "rerank": ('first = "a"\ndepth = 30', {"first_stage": "a", "rerank_top_k": 30}),
    "late": ('model = "m"\nfirst = "a"\ndepth = 30', {"first_stage": "a", "rerank_top_k": 30}),
    "milvus": ("depth = 30", {"top_k": 30}),
}


@pytest.mark.parametrize("kind", EARLIER)
def test_reads_earlier_field_names(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    earlier, current = EARLIER[kind]
    top = "validation_share = 0.2\ntest_share = 0.3\nrelevant_from = 2"
    text = BM25_ALONE.format(top=top, own=OTHER + f'kind = "{kind}"\nchosen_on = "test"\n{earlier}')
    experiment = read(text, tmp_path)
    assert (experiment.validation_fraction, experiment.test_fraction, experiment.relevance_level) == (0.2, 0.3, 2)
    values = dict(experiment.retriever[1])
    assert values["selected_on"] is Part.TEST
    assert {name: values[name] for name in current} == current
    names = [line.split(" =")[0] for line in (*top.split("\n"), earlier.split("\n")[-1])]
    assert all(f"{name!r} is now" in caplog.text for name in names)
    assert experiment.model_dump(by_alias=True)["test_share"] == 0.3, "keys of stored results keep the earlier names"
