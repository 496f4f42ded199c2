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
from mrc_workbench.retrieval.comparison.pace import Forecast, Pace, forecasts, in_total, reader_of
from mrc_workbench.retrieval.comparison.spec import Spec
from tests.doubles import small_set

BM25, DENSE = BM25Spec(name="BM25"), DenseSpec(name="Dense", model="some/model")
HYBRID = HybridSpec(name="Hybrid", of=("BM25", "Dense"))
RERANKED = RerankSpec(name="Reranked", first="BM25", depth=3)
SPECS = {spec.name: spec for spec in (BM25, DENSE, HYBRID, RERANKED)}
ASKED = small_set()
END = pace_module._TO_END
LENGTHS = [np.array([len(one.text) for one in texts]) for texts in (ASKED.passages, ASKED.questions)]
LETTERS = sum(int(lengths.sum()) for lengths in LENGTHS)
COSTS = sum(round(reading_costs(lengths).sum()) for lengths in LENGTHS)


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def know(**seconds: tuple[float, float]) -> None:
    """Have been measured before: seconds to begin, and for all that the small set costs."""
    costs = {name: COSTS if SPECS[name].needs_model else LETTERS for name in seconds}
    known = {reader_of(SPECS[name]): {"setup": of[0], "each": of[1] / costs[name]} for name, of in seconds.items()}
    write_json(workspace() / "cache" / "pace.json", known)


def begun(clock: Clock, *names: str, kept: tuple[str, ...] = ()) -> Pace:
    pace = Pace(clock=clock)
    pace.begin({name: SPECS[name] for name in names}, ASKED, kept)
    return pace


def test_letters_are_those_of_all_texts_and_of_a_reranker_those_of_its_pairs() -> None:
    passages, questions = sum(len(p.text) for p in ASKED.passages), sum(len(q.text) for q in ASKED.questions)
    sizes = len(ASKED.passages), len(ASKED.questions), passages, questions
    assert BM25.letters_read(*sizes) == DENSE.letters_read(*sizes) == passages + questions
    assert HYBRID.letters_read(*sizes) == 0
    mean = passages / len(ASKED.passages)
    assert RERANKED.letters_read(*sizes) == pytest.approx(3 * (questions + len(ASKED.questions) * mean), abs=3)


def test_a_first_comparison_tells_no_time_until_what_is_to_come_is_known() -> None:
    clock = Clock()
    pace = begun(clock, "BM25", "Dense", "Hybrid")
    pace.at("BM25", 0.0)
    clock.now = 5.0
    pace.at("BM25", 0.5)
    assert pace.seconds_left is None  # nobody knows what Dense takes
    pace.at("Dense", 0.0)
    clock.now = 7.0  # its model is loaded
    pace.at("Dense", 0.1)
    assert pace.seconds_left is None
    clock.now = 17.0
    pace.at("Dense", 0.3)
    assert pace.seconds_left == pytest.approx(35.0 + END)  # 10 seconds for a fifth; the hybrid reads nothing


def test_what_was_measured_is_known_the_next_time() -> None:
    clock = Clock()
    pace = begun(clock, "BM25", "Dense")
    pace.at("BM25", 0.0)
    clock.now = 2.0
    pace.at("BM25", 1.0)
    pace.at("Dense", 0.0)
    for second in range(1, 11):  # three seconds to load, one for a tenth
        clock.now = 5.0 + second
        pace.at("Dense", second / 10)
    pace.end()
    again = begun(clock, "BM25", "Dense")
    again.at("BM25", 0.0)
    assert again.seconds_left == pytest.approx(2.0 + 3.0 + 10.0 + END)
    clock.now += 1.5
    again.at("BM25", 0.0)
    assert again.seconds_left == pytest.approx(0.5 + 13.0 + END)
    again.at("Dense", 0.0)
    clock.now += 3.0
    again.at("Dense", 0.0)
    assert again.seconds_left == pytest.approx(10.0 + END)


def test_the_bar_is_weighed_by_what_each_takes() -> None:
    know(BM25=(0.0, 2.0), Dense=(3.0, 15.0))
    pace = begun(Clock(), "BM25", "Dense", "Hybrid")
    steps = (("BM25", 0.5), ("Dense", 0.0), ("Dense", 0.5), ("Hybrid", 0.0))
    assert [pace.at(*step) for step in steps] == pytest.approx([0.05, 0.1, 0.55, 1.0])


def test_what_is_kept_takes_no_time_and_what_it_took_is_not_taken_for_work() -> None:
    know(BM25=(0.0, 2.0), Dense=(3.0, 15.0))
    clock = Clock()
    pace = begun(clock, "BM25", "Dense", kept=("BM25", "Dense"))
    pace.at("BM25", 0.0)
    assert pace.seconds_left == END
    clock.now = 1.0  # read from a slow disk
    pace.at("Dense", 0.0)
    pace.end()
    assert json.loads((workspace() / "cache" / "pace.json").read_text())[reader_of(BM25)]["each"] == 2.0 / LETTERS


def test_a_retriever_that_reads_nothing_is_not_taken_for_a_quick_reader() -> None:
    """Vectors or tokens may be kept, or come with the sample, where rankings are not."""
    clock = Clock()
    pace = begun(clock, "Dense", "Reranked")
    for name in SPECS["Dense"].name, SPECS["Reranked"].name:
        pace.at(name, 0.0)
        clock.now += 5.0
    pace.end()
    assert [*json.loads((workspace() / "cache" / "pace.json").read_text())] == [reader_of(RERANKED)]


def test_the_time_left_never_rises_by_more_than_a_tenth() -> None:
    know(Dense=(0.0, 10.0))
    clock = Clock()
    pace = begun(clock, "Dense")
    pace.at("Dense", 0.0)
    told = [pace.seconds_left or 0.0]
    for step in range(1, 100):  # the machine has become ten times as slow
        clock.now = float(step)
        pace.at("Dense", step / 100)
        told.append(pace.seconds_left or 0.0)
    assert all(now <= 1.1 * min(told[: row + 1]) for row, now in enumerate(told[1:]))
    assert told[0] == pytest.approx(10.0 + END)


def test_what_cannot_be_read_is_measured_anew() -> None:
    know(Dense=(0.0, 10.0))
    place = workspace() / "cache" / "pace.json"
    for damaged in ("{", "[]", json.dumps({reader_of(DENSE): {"each": "x"}}), json.dumps({reader_of(DENSE): None})):
        place.write_text(damaged)
        pace = begun(Clock(), "Dense")
        pace.at("Dense", 0.0)
        assert pace.seconds_left is None


def test_the_parts_left_add_up_to_the_time_left() -> None:
    know(BM25=(0.0, 2.0), Dense=(3.0, 15.0))
    clock = Clock()
    pace = begun(clock, "BM25", "Dense", "Hybrid")
    assert pace.parts_left == {}
    pace.at("BM25", 0.0)
    assert pace.parts_left == pytest.approx({"BM25": 2.0, "Dense": 18.0, "Hybrid": END})
    assert pace.seconds_left == pytest.approx(20.0 + END)
    clock.now = 60.0  # much slower than expected: the total may rise by a tenth, and its parts with it
    pace.at("BM25", 0.5)
    parts = pace.parts_left
    assert sum(filter(None, parts.values())) == pytest.approx(pace.seconds_left)
    assert (pace.seconds_left or 0.0) <= 1.1 * (20.0 + END)
    pace.at("Dense", 0.0)
    assert pace.parts_left["BM25"] == 0.0


def test_a_retriever_that_is_searched_out_of_turn_leaves_the_others_their_time() -> None:
    """Retrievers without a model are searched first, wherever the experiment lists them."""
    know(BM25=(0.0, 2.0))
    pace = begun(Clock(), "BM25", "Dense")
    pace.at("BM25", 0.0)
    assert (pace.parts_left, pace.seconds_left) == ({"BM25": 2.0, "Dense": None}, None)
    know(BM25=(0.0, 2.0), Dense=(3.0, 15.0))
    pace = begun(Clock(), "Dense", "BM25")
    pace.at("BM25", 0.0)
    assert pace.parts_left == pytest.approx({"Dense": 18.0, "BM25": 2.0 + END})
    pace.end()
    pace.at("Dense", 0.0)
    assert pace.parts_left == pytest.approx({"Dense": 18.0 + END, "BM25": 0.0})


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


def test_an_analyzer_and_a_starter_are_forecast_by_characters_until_they_are_measured() -> None:
    for spec in (BM25, DenseSpec(name="LSA")):
        assert forecast(spec) == Forecast(pytest.approx(characters(spec) * 5e-5))
    write_json(workspace() / "cache" / "pace.json", {reader_of(BM25): {"setup": 2.0, "each": 0.5}})
    assert forecast(BM25) == Forecast(2.0 + 0.5 * characters(BM25), is_measured=True)


def test_a_starter_reranker_analyzes_each_text_once_and_scores_pairs_faster() -> None:
    once = characters(DenseSpec(name="LSA"))
    rerank = RerankSpec(name="Reranked", first="BM25")
    pairs = characters(rerank) - once
    assert pairs > once
    specs: dict[str, Spec] = {"BM25": BM25, "Reranked": rerank}
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
    assert forecasts(SPECS, ASKED)["Hybrid"].seconds == 0.0


def test_a_total_is_measured_where_all_is_and_unknown_where_anything_is() -> None:
    measured, guessed = Forecast(1.0, is_measured=True), Forecast(2.0)
    assert in_total([measured, measured]) == Forecast(2.0, is_measured=True)
    assert in_total([measured, guessed]) == Forecast(3.0)
    assert in_total([measured, Forecast(None)]) == Forecast(None)
