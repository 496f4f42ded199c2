"""How far a comparison is and how long it takes, with a clock of the test's own, and forecasts before it starts."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.models.vectors import reading_costs
from mrc_workbench.retrieval.comparison import pace as pace_module
from mrc_workbench.retrieval.comparison.experiment import RunSpec
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from tests.doubles import small_set

BM25 = BM25Spec(name="BM25")
DENSE = DenseSpec(name="Dense", model="some/model")
HYBRID = HybridSpec(name="Hybrid", retrievers=("BM25", "Dense"))
RERANKED = RerankSpec(name="Reranked", first_stage="BM25", rerank_top_k=3)
SPECS = {spec.name: spec for spec in (BM25, DENSE, HYBRID, RERANKED)}
DATASET = small_set()
END = pace_module._FINAL_SECONDS
LENGTHS = [np.array([len(item.text) for item in items]) for items in (DATASET.passages, DATASET.questions)]
CHARACTERS = sum(int(lengths.sum()) for lengths in LENGTHS)
COSTS = sum(round(reading_costs(lengths).sum()) for lengths in LENGTHS)


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def store_speeds(**seconds: tuple[float, float]) -> None:
    """Have been measured before: seconds to begin, and for all that the small set costs."""
    costs = {name: COSTS if SPECS[name].needs_model else CHARACTERS for name in seconds}
    known = {
        pace_module.reader_key(SPECS[name]): {"setup_seconds": of[0], "seconds_per_character": of[1] / costs[name]}
        for name, of in seconds.items()
    }
    write_json(workspace() / "cache" / "pace.json", known)


def started_estimator(clock: Clock, *names: str, cached: tuple[str, ...] = ()) -> pace_module.TimeEstimator:
    pace = pace_module.TimeEstimator(clock=clock)
    pace.start({name: SPECS[name] for name in names}, DATASET, cached)
    return pace


def test_counts_characters_of_texts_and_reranked_pairs() -> None:
    passages = sum(len(p.text) for p in DATASET.passages)
    questions = sum(len(q.text) for q in DATASET.questions)
    sizes = len(DATASET.passages), len(DATASET.questions), passages, questions
    assert BM25.characters_read(*sizes) == DENSE.characters_read(*sizes) == passages + questions
    assert HYBRID.characters_read(*sizes) == 0
    mean = passages / len(DATASET.passages)
    assert RERANKED.characters_read(*sizes) == pytest.approx(3 * (questions + len(DATASET.questions) * mean), abs=3)


def test_reports_no_time_until_all_speeds_are_known() -> None:
    clock = Clock()
    pace = started_estimator(clock, "BM25", "Dense", "Hybrid")
    pace.update("BM25", 0.0)
    clock.now = 5.0
    pace.update("BM25", 0.5)
    assert pace.seconds_left is None  # the time of Dense is unknown
    pace.update("Dense", 0.0)
    clock.now = 7.0  # its model is loaded
    pace.update("Dense", 0.1)
    assert pace.seconds_left is None
    clock.now = 17.0
    pace.update("Dense", 0.3)
    assert pace.seconds_left == pytest.approx(35.0 + END)  # 10 seconds for a fifth; the hybrid reads nothing


def test_reuses_measured_speeds() -> None:
    clock = Clock()
    pace = started_estimator(clock, "BM25", "Dense")
    pace.update("BM25", 0.0)
    clock.now = 2.0
    pace.update("BM25", 1.0)
    pace.update("Dense", 0.0)
    for second in range(1, 11):  # three seconds to load, one for a tenth
        clock.now = 5.0 + second
        pace.update("Dense", second / 10)
    pace.finish()
    again = started_estimator(clock, "BM25", "Dense")
    again.update("BM25", 0.0)
    assert again.seconds_left == pytest.approx(2.0 + 3.0 + 10.0 + END)
    clock.now += 1.5
    again.update("BM25", 0.0)
    assert again.seconds_left == pytest.approx(0.5 + 13.0 + END)
    again.update("Dense", 0.0)
    clock.now += 3.0
    again.update("Dense", 0.0)
    assert again.seconds_left == pytest.approx(10.0 + END)


def test_weights_progress_by_expected_time() -> None:
    store_speeds(BM25=(0.0, 2.0), Dense=(3.0, 15.0))
    pace = started_estimator(Clock(), "BM25", "Dense", "Hybrid")
    steps = (("BM25", 0.5), ("Dense", 0.0), ("Dense", 0.5), ("Hybrid", 0.0))
    assert [pace.update(*step) for step in steps] == pytest.approx([0.05, 0.1, 0.55, 1.0])


def test_cached_rankings_take_no_time_and_are_not_measured() -> None:
    store_speeds(BM25=(0.0, 2.0), Dense=(3.0, 15.0))
    clock = Clock()
    pace = started_estimator(clock, "BM25", "Dense", cached=("BM25", "Dense"))
    pace.update("BM25", 0.0)
    assert pace.seconds_left == END
    clock.now = 1.0  # read from a slow disk
    pace.update("Dense", 0.0)
    pace.finish()
    stored = json.loads((workspace() / "cache" / "pace.json").read_text())
    assert stored[pace_module.reader_key(BM25)]["seconds_per_character"] == 2.0 / CHARACTERS


def test_does_not_measure_retrievers_that_read_nothing() -> None:
    """Vectors or tokens may be cached, or ship with the sample, without rankings."""
    clock = Clock()
    pace = started_estimator(clock, "Dense", "Reranked")
    for name in SPECS["Dense"].name, SPECS["Reranked"].name:
        pace.update(name, 0.0)
        clock.now += 5.0
    pace.finish()
    assert [*json.loads((workspace() / "cache" / "pace.json").read_text())] == [pace_module.reader_key(RERANKED)]


def test_time_left_rises_by_at_most_a_tenth() -> None:
    store_speeds(Dense=(0.0, 10.0))
    clock = Clock()
    pace = started_estimator(clock, "Dense")
    pace.update("Dense", 0.0)
    reported = [pace.seconds_left or 0.0]
    for step in range(1, 100):  # the machine has become ten times as slow
        clock.now = float(step)
        pace.update("Dense", step / 100)
        reported.append(pace.seconds_left or 0.0)
    assert all(now <= 1.1 * min(reported[: row + 1]) for row, now in enumerate(reported[1:]))
    assert reported[0] == pytest.approx(10.0 + END)


def test_measures_again_if_stored_speeds_are_damaged() -> None:
    store_speeds(Dense=(0.0, 10.0))
    path = workspace() / "cache" / "pace.json"
    entries = [json.dumps({pace_module.reader_key(DENSE): speed}) for speed in ({"seconds_per_character": "x"}, None)]
    for damaged in ("{", "[]", *entries):
        path.write_text(damaged)
        pace = started_estimator(Clock(), "Dense")
        pace.update("Dense", 0.0)
        assert pace.seconds_left is None


def test_seconds_left_by_retriever_sum_to_total() -> None:
    store_speeds(BM25=(0.0, 2.0), Dense=(3.0, 15.0))
    clock = Clock()
    pace = started_estimator(clock, "BM25", "Dense", "Hybrid")
    assert pace.seconds_left_by_retriever == {}
    pace.update("BM25", 0.0)
    assert pace.seconds_left_by_retriever == pytest.approx({"BM25": 2.0, "Dense": 18.0, "Hybrid": END})
    assert pace.seconds_left == pytest.approx(20.0 + END)
    clock.now = 60.0  # much slower than expected: the total may rise by a tenth, and its parts with it
    pace.update("BM25", 0.5)
    parts = pace.seconds_left_by_retriever
    assert sum(filter(None, parts.values())) == pytest.approx(pace.seconds_left)
    assert (pace.seconds_left or 0.0) <= 1.1 * (20.0 + END)
    pace.update("Dense", 0.0)
    assert pace.seconds_left_by_retriever["BM25"] == 0.0


def test_out_of_order_search_keeps_time_of_others() -> None:
    """Retrievers without a model are searched first, wherever the experiment lists them."""
    store_speeds(BM25=(0.0, 2.0))
    pace = started_estimator(Clock(), "BM25", "Dense")
    pace.update("BM25", 0.0)
    assert (pace.seconds_left_by_retriever, pace.seconds_left) == ({"BM25": 2.0, "Dense": None}, None)
    store_speeds(BM25=(0.0, 2.0), Dense=(3.0, 15.0))
    pace = started_estimator(Clock(), "Dense", "BM25")
    pace.update("BM25", 0.0)
    assert pace.seconds_left_by_retriever == pytest.approx({"Dense": 18.0, "BM25": 2.0 + END})
    pace.finish()
    pace.update("Dense", 0.0)
    assert pace.seconds_left_by_retriever == pytest.approx({"Dense": 18.0 + END, "BM25": 0.0})


def forecast(spec: Spec) -> pace_module.Forecast:
    return pace_module.forecast_retrievers({spec.name: spec}, DATASET)[spec.name]


def characters(spec: Spec) -> int:
    pace = pace_module.TimeEstimator()
    pace.start({spec.name: spec}, DATASET, ())
    return pace.characters(spec.name)


def model(folder: Path, **configuration: object) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(configuration), encoding="utf-8")
    return str(folder)


def test_forecasts_by_characters_until_measured() -> None:
    for spec in (BM25, DenseSpec(name="LSA")):
        assert forecast(spec) == pace_module.Forecast(pytest.approx(characters(spec) * 5e-5))
    rates = {"setup_seconds": 2.0, "seconds_per_character": 0.5}
    write_json(workspace() / "cache" / "pace.json", {pace_module.reader_key(BM25): rates})
    assert forecast(BM25) == pace_module.Forecast(2.0 + 0.5 * characters(BM25), is_measured=True)


def test_forecasts_starter_reranker_by_texts_and_pairs() -> None:
    once = characters(DenseSpec(name="LSA"))
    rerank = RerankSpec(name="Reranked", first_stage="BM25")
    pairs = characters(rerank) - once
    assert pairs > once
    specs: dict[str, Spec] = {"BM25": BM25, "Reranked": rerank}
    expected = pace_module.Forecast(pytest.approx(once * 5e-5 + pairs * 2e-6))
    assert pace_module.forecast_retrievers(specs, DATASET)["Reranked"] == expected


def test_forecasts_transformer_by_layer_weights(tmp_path: Path) -> None:
    small = model(tmp_path / "small", num_hidden_layers=12, hidden_size=384)
    base = model(tmp_path / "base", num_hidden_layers=12, hidden_size=768)
    spec = DenseSpec(name="Dense", model=small)
    assert forecast(spec) == pace_module.Forecast(pytest.approx(5.0 + characters(spec) * 1e-3))
    expected = pace_module.Forecast(pytest.approx(5.0 + characters(spec) * 4e-3))
    assert forecast(DenseSpec(name="Dense", model=base)) == expected


@pytest.mark.packaged
def test_forecasts_packaged_model_before_it_is_written() -> None:
    prediction = forecast(DenseSpec(name="Dense", model="packaged:multilingual-e5-small"))
    assert prediction.seconds is None or prediction.seconds > 5.0  # none where the package is not installed


def test_gives_no_forecast_for_model_of_unknown_size(tmp_path: Path) -> None:
    nameless = model(tmp_path / "odd", num_hidden_layers="many")
    for reference in ("some/model", str(tmp_path / "nowhere"), nameless):
        assert forecast(DenseSpec(name="Dense", model=reference)) == pace_module.Forecast(None)


def test_forecasts_zero_seconds_without_characters() -> None:
    assert forecast(RunSpec(name="run", path="a.trec")).seconds == 0.0
    assert pace_module.forecast_retrievers(SPECS, DATASET)["Hybrid"].seconds == 0.0


def test_total_is_measured_only_if_all_parts_are() -> None:
    measured = pace_module.Forecast(1.0, is_measured=True)
    guessed = pace_module.Forecast(2.0)
    assert pace_module.total_forecast([measured, measured]) == pace_module.Forecast(2.0, is_measured=True)
    assert pace_module.total_forecast([measured, guessed]) == pace_module.Forecast(3.0)
    assert pace_module.total_forecast([measured, pace_module.Forecast(None)]) == pace_module.Forecast(None)
