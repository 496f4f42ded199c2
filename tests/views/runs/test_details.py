"""The details of a training: its curves beside others', its settings, what it was made of, and its log."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from data.split import SplitOptions
from jobs.folder import State
from tests.views.driving import run
from tests.views.train.worlds import EN, click, done_run, made_run, texts
from training.options.rankers import CROSS_ENCODER
from training.runs.runs import Run


def with_curves(made: Run, loss: float, measured: float) -> Run:
    made.add_measures("bm25", {"ndcg@10": 0.8})
    made.add_progress({"step": 5, "loss": loss})
    made.add_progress({"step": 10, "loss": loss / 2, "eval_validation_ndcg@10": measured})
    return made


def opened(app: AppTest, made: Run) -> AppTest:
    return click(run(app), f"details_{made.id}")


def tables(app: AppTest, column: str) -> list[dict[str, str]]:
    """The two-column tables whose first column is called so."""
    found = [table.value for table in app.dataframe if table.value.columns[0] == column]
    return [dict(table.to_numpy().tolist()) for table in found]


def test_settings_and_log(app: AppTest) -> None:
    made = done_run()
    (made.folder / "log.txt").write_text("\n".join(f"line {n}" for n in range(1000)), encoding="utf-8")
    (rows,) = tables(opened(app, made), EN["train.row_option"])
    assert (rows["Learning rate"], rows["Split seed"], rows["Base model"]) == ("0.001", "0", "Starter")
    assert rows["Objective"] == "mega-batch-margin"
    assert app.code[-1].value.splitlines() == [f"line {n}" for n in range(800, 1000)]


@pytest.mark.slow
def test_runs_of_the_same_kind_stand_beside_each_other(app: AppTest) -> None:
    with_curves(made_run(State.STOPPED, CROSS_ENCODER, "other kind"), 9.0, 0.9)
    made_run(State.STOPPED, name="without curves")
    second = with_curves(made_run(State.STOPPED, name="second"), 4.0, 0.6)
    first = with_curves(made_run(State.STOPPED, name="first"), 2.0, 0.7)
    beside = opened(app, first).multiselect(key=f"beside_{first.id}")
    assert beside.options == ["second"]
    beside.set_value([second.id])
    loss, measured = (table.value.to_dict("list") for table in run(app).dataframe[:2])
    assert loss == {"Step": [5, 10], "first": [2.0, 1.0], "second": [4.0, 2.0]}
    assert measured == {"Step": [10], "first": [0.7], "second": [0.6], "BM25": [0.8]}
    assert EN["train.other_questions"] not in texts(app)


@pytest.mark.slow
def test_runs_of_one_name_are_told_apart(app: AppTest) -> None:
    second, first = (with_curves(made_run(State.STOPPED, name="same"), loss, 0.5) for loss in (4.0, 2.0))
    beside = opened(app, first).multiselect(key=f"beside_{first.id}")
    beside.set_value([second.id])
    loss = run(app).dataframe[0].value
    assert [column.split(" · ")[0] for column in loss.columns] == ["Step", "same", "same"]
    assert loss.to_numpy()[0].tolist() == [5.0, 2.0, 4.0]


@pytest.mark.slow
def test_curves_of_other_questions_come_with_a_warning(app: AppTest) -> None:
    other = made_run(State.STOPPED, name="other split", split=SplitOptions(seed=7))
    other.add_measures("bm25", {"ndcg@10": 0.3})
    other.add_progress({"step": 10, "eval_validation_ndcg@10": 0.2})
    first = with_curves(made_run(State.STOPPED), 2.0, 0.7)
    opened(app, first).multiselect(key=f"beside_{first.id}").set_value([other.id])
    assert EN["train.other_questions"] in texts(run(app))
    measured = next(table.value for table in app.dataframe if "other split" in table.value and len(table.value) == 1)
    assert list(measured.columns) == ["Step", "first", "other split"]  # each has another BM25


def test_provenance_is_shown_in_groups_and_can_be_had_as_it_is(app: AppTest) -> None:
    made = done_run()
    content = {
        "made": "2026-01-02T03:04:05+00:00",
        "base": {"reference": "klue/roberta-base", "revision": "abc123"},
        "split": {"validation": 0.1, "test": 0.2, "seed": 5},
        "seed": 3,
        "versions": {"torch": "2.9"},
        "hardware": {"gpus": ["A", "B"], "bfloat16": False},
    }
    (made.folder / "provenance.json").write_text(json.dumps(content), encoding="utf-8")
    single, base, split, versions, hardware = tables(opened(app, made), EN["train.row_fact"])
    assert single == {"Made (UTC)": "2026-01-02T03:04:05+00:00", "Seed": "3"}
    assert base == {"Name or place": "klue/roberta-base", "Revision (commit)": "abc123"}
    assert split == {EN["option.validation"]: "0.1", EN["option.test"]: "0.2", EN["option.split_seed"]: "5"}
    assert versions == {"torch": "2.9"}
    assert hardware == {"GPUs": "A, B", "bfloat16": "False"}
    assert EN["train.provenance_json"] in [button.label for button in app.get("download_button")]


@pytest.mark.parametrize("content", [None, "broken {"])
def test_a_training_without_provenance_says_so(app: AppTest, content: str | None) -> None:
    made = done_run()
    if content:
        (made.folder / "provenance.json").write_text(content, encoding="utf-8")
    assert EN["train.no_provenance"] in texts(opened(app, made))
