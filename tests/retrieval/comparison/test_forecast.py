"""How long retrievers are expected to take before anything is started."""

import json
from pathlib import Path

import pytest

from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.retrieval.comparison.experiment import RunSpec
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.pace import Forecast, Pace, forecasts, in_total, reader_of
from mrc_workbench.retrieval.comparison.spec import Spec
from tests.doubles import small_set

ASKED = small_set()


def forecast(spec: Spec) -> Forecast:
    return forecasts({spec.name: spec}, ASKED)[spec.name]


def characters(spec: Spec) -> int:
    pace = Pace()
    pace.begin({spec.name: spec}, ASKED, ())
    return pace.characters(spec.name)


def model(folder: Path, **configuration: object) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(configuration), encoding="utf-8")
    return str(folder)


def test_a_reader_that_was_measured_is_forecast_by_that() -> None:
    spec = BM25Spec(name="BM25")
    write_json(workspace() / "cache" / "pace.json", {reader_of(spec): {"setup": 2.0, "each": 0.5}})
    assert forecast(spec) == Forecast(2.0 + 0.5 * characters(spec), is_measured=True)


def test_an_analyzer_and_a_starter_are_forecast_by_characters() -> None:
    for spec in (BM25Spec(name="BM25"), DenseSpec(name="LSA")):
        assert forecast(spec) == Forecast(pytest.approx(characters(spec) * 5e-5))


def test_a_starter_reranker_analyzes_each_text_once_and_scores_pairs_faster() -> None:
    once = characters(DenseSpec(name="LSA"))
    rerank = RerankSpec(name="Reranked", first="BM25")
    pairs = characters(rerank) - once
    assert pairs > once
    specs: dict[str, Spec] = {"BM25": BM25Spec(name="BM25"), "Reranked": rerank}
    assert forecasts(specs, ASKED)["Reranked"] == Forecast(pytest.approx(once * 5e-5 + pairs * 2e-6))


def test_a_transformer_is_forecast_by_the_weights_of_its_layers(tmp_path: Path) -> None:
    small = model(tmp_path / "small", num_hidden_layers=12, hidden_size=384)
    base = model(tmp_path / "base", num_hidden_layers=12, hidden_size=768)
    spec = DenseSpec(name="Dense", model=small)
    assert forecast(spec) == Forecast(pytest.approx(5.0 + characters(spec) * 1e-3))
    assert forecast(DenseSpec(name="Dense", model=base)) == Forecast(pytest.approx(5.0 + characters(spec) * 4e-3))


@pytest.mark.packaged
def test_the_packaged_base_has_a_forecast_before_it_is_written() -> None:
    found = forecast(DenseSpec(name="Dense", model="packaged:multilingual-e5-small"))
    assert found.seconds is None or found.seconds > 5.0  # none where the package is not installed


def test_a_model_of_unknown_size_has_no_forecast(tmp_path: Path) -> None:
    nameless = model(tmp_path / "odd", num_hidden_layers="many")
    for reference in ("some/model", str(tmp_path / "nowhere"), nameless):
        assert forecast(DenseSpec(name="Dense", model=reference)) == Forecast(None)


def test_what_reads_nothing_takes_no_time() -> None:
    assert forecast(RunSpec(name="run", path="a.trec")).seconds == 0.0
    specs: dict[str, Spec] = {"BM25": BM25Spec(name="BM25"), "LSA": DenseSpec(name="LSA")}
    specs["Hybrid"] = HybridSpec(name="Hybrid", of=("BM25", "LSA"))
    assert forecasts(specs, ASKED)["Hybrid"].seconds == 0.0


def test_a_total_is_measured_where_all_is_and_unknown_where_anything_is() -> None:
    measured, guessed = Forecast(1.0, is_measured=True), Forecast(2.0)
    assert in_total([measured, measured]) == Forecast(2.0, is_measured=True)
    assert in_total([measured, guessed]) == Forecast(3.0)
    assert in_total([measured, Forecast(None)]) == Forecast(None)
