"""Values of experiment files: impossible ones, limits, options of BM25, and earlier names of fields."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from mrc_workbench.data.split import Part
from mrc_workbench.retrieval.comparison.experiment import (
    Experiment,
    ExperimentError,
)
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, MilvusSpec, WindowedBM25Spec
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from tests.doubles import QUESTIONS, small_set, texts_of
from tests.retrieval.comparison.test_experiment import read

BM25_ALONE = 'data = "d"\n{top}\n[[retriever]]\nname = "a"\nkind = "bm25"\n{own}\n'
OTHER = '[[retriever]]\nname = "b"\n'


@pytest.mark.parametrize(
    ("top", "location"),
    [
        *((f"{part}_fraction = nan", "a fraction of 0 or more") for part in ("validation", "test")),
        *((f"test_fraction = {share}", "a fraction of 0 or more") for share in ("inf", "-0.1")),
        ("seed = -1", "the seed must be 0 or more, not -1"),
        ("ks = [2147483648]", "ks.0"),
        (f"ks = [{2**63}]", "ks.0"),
        (f"ks = [1{'0' * 400}]", "ks.0"),
        ("x = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    ],
)
def test_rejects_impossible_values_with_location(top: str, location: str, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=location):
        read(BM25_ALONE.format(top=top, own=""), tmp_path)


@pytest.mark.parametrize(
    "own",
    [
        *("title_weight = 1e308", "title_weight = inf", "title_weight = nan", "title_weight = -1.0"),
        *("k1 = 1e308", "k1 = inf", "k1 = nan", "b = nan", "b = inf"),
        *("fb_docs = 2147483648", f"fb_docs = {2**64}", "fb_docs = -1"),
        *("fb_docs = 3\nfb_weight = nan", f"fb_docs = 3\nfb_terms = {2**63}"),
        OTHER + 'kind = "hybrid"\nretrievers = ["a", "a"]\nweights = [1e308, 1e308]',
        OTHER + 'kind = "hybrid"\nretrievers = ["a", "a"]\nweights = [nan, 1]',
        OTHER + 'kind = "hybrid"\nretrievers = ["a", "a"]\ntop_k = 2147483648',
        OTHER + 'kind = "rerank"\nfirst_stage = "a"\nweight = nan',
        OTHER + 'kind = "rerank"\nfirst_stage = "a"\nrerank_top_k = 9223372036854775808',
        OTHER + 'kind = "milvus"\nk1 = inf',
        OTHER + 'kind = "bm25-windows"\nsentences = 2147483648',
        OTHER + 'kind = "dense"\nwindows = true\nwindow_tokens = 2147483648',
    ],
)
def test_rejects_options_that_overflow_scores(own: str, tmp_path: Path) -> None:
    name = own.splitlines()[-1].split()[0]
    with pytest.raises(ExperimentError, match=rf"retriever.*{name}"):
        read(BM25_ALONE.format(top="", own=own), tmp_path)


@pytest.mark.parametrize("own", ["title_weight = 1e6", "title_weight = 1e-300", "k1 = 1e6", "k1 = 0.0"])
def test_extreme_options_give_finite_scores(own: str, tmp_path: Path) -> None:
    spec = read(BM25_ALONE.format(top="", own=own), tmp_path).retriever[0]
    assert isinstance(spec, BM25Spec)
    rankings = BM25("a", small_set().passages, spec.options()).search(texts_of(QUESTIONS), 3)
    default_rankings = BM25("a", small_set().passages, BM25Options()).search(texts_of(QUESTIONS), 3)
    assert np.isfinite(rankings.scores[rankings.indices >= 0]).all()
    np.testing.assert_array_equal((rankings.indices >= 0).sum(axis=1), (default_rankings.indices >= 0).sum(axis=1))


def test_limits_depth_to_number_of_passages(tmp_path: Path) -> None:
    rankings = []
    for passages in (10**9, len(small_set().passages)):
        experiment = read(BM25_ALONE.format(top=f"ks = [{passages}]", own=f"fb_docs = {passages}"), tmp_path)
        spec = experiment.retriever[0]
        assert isinstance(spec, BM25Spec)
        bm25 = BM25("a", small_set().passages, spec.options())
        rankings.append(bm25.search(texts_of(QUESTIONS), max(experiment.ks)).indices.tolist())
    assert rankings[0] == rankings[1]


BEFORE = {"name", "selected_on", "kind", "analyzer", "k1", "b", "title"}


def test_cache_key_ignores_unused_options() -> None:
    assert set(BM25Spec(name="BM25").model_dump(mode="json")) == BEFORE | {"engine"}
    assert set(WindowedBM25Spec(name="BM25").model_dump(mode="json")) == BEFORE | {"sentences"}
    with_feedback = BM25Spec(name="BM25", fb_docs=5, fb_terms=10, fb_weight=0.5)
    assert set(with_feedback.model_dump(mode="json")) == BEFORE | {"engine", "fb_docs"}


def test_passes_options_to_bm25() -> None:
    values = {"k1": 1.2, "title_weight": 3.0, "fb_docs": 4, "fb_terms": 20, "fb_weight": 0.2}
    spec = BM25Spec(name="BM25", **values)  # type: ignore[arg-type]
    assert spec.options() == BM25Options(**values)  # type: ignore[arg-type]
    assert spec.model_validate_json(spec.model_dump_json()) == spec
    assert WindowedBM25Spec(name="W", title_weight=3).options() == BM25Options(title_weight=3)


@pytest.mark.parametrize(
    "values",
    [
        *({"title_weight": weight} for weight in (0, -1, float("inf"), float("nan"))),
        *({"title_weight": 2} | more for more in ({"title": False}, {"engine": "rank-bm25"})),
        *({"fb_docs": -1}, {"fb_weight": 0.2}, {"fb_terms": 5}),
        {"fb_docs": 3, "engine": "rank-bm25"},
        {"fb_docs": 3, "fb_terms": 0},
        {"fb_docs": 3, "fb_weight": 1.5},
    ],
)
def test_rejects_conflicting_options(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=r"title_weight|fb_|feedback"):
        Experiment.model_validate({"data": "sample", "retriever": [{"name": "BM25", "kind": "bm25", **values}]})


def test_windows_and_milvus_reject_feedback() -> None:
    for kind in (WindowedBM25Spec, MilvusSpec):
        with pytest.raises(ValidationError, match="fb_docs"):
            kind.model_validate({"name": "one", "fb_docs": 3})


def test_maps_legacy_engine_to_equivalent() -> None:
    assert BM25Spec.model_validate({"name": "BM25", "engine": "bm25s"}) == BM25Spec(name="BM25")


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
