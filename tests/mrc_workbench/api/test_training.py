"""Training by the API: plans, metrics, stored runs and comparisons."""

from typing import Any

import pytest

import mrc_workbench as mrc
from mrc_workbench.api.training import TrainingFailedError
from mrc_workbench.data.store import stored
from mrc_workbench.training.runs import all_runs

ROWS = [{"question": f"Who built clock {n}?", "context": f"Clock {n} was built by person {n}."} for n in range(40)]


@pytest.mark.slow
def test_evaluates_lists_compares_and_searches_trained_model() -> None:
    data = mrc.load(ROWS, name="Clocks")
    model = mrc.train("bi-encoder", data, base="starter", epochs=1, name="Mine", test=0.5, progress=False)
    assert {"before", "after"} <= set(model.table().index)
    assert "nDCG@10" in model.table().columns
    assert [run.id for run in all_runs()] == [model.id]
    assert [dataset.name for dataset in stored()] == ["Clocks"]
    assert model.plan.options.epochs == 1
    result = mrc.compare(data, ["bm25", model], progress=False)
    assert result.names == ["BM25", "Dense · Mine"]
    assert result.comparison.experiment.split == "test"
    assert result.comparison.experiment.test_fraction == 0.5
    assert len(mrc.search(data, "Who built clock 3?", model, k=2, progress=False)) == 2
    assert "Mine" in model._repr_html_()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cause", "error", "message"),
    [
        (MemoryError("out of memory"), TrainingFailedError, "training {run} ended early: .*memory"),
        (KeyboardInterrupt(), KeyboardInterrupt, "run {run} can be resumed"),
    ],
)
def test_names_run_that_ended_early(
    cause: BaseException, error: type[BaseException], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise cause

    monkeypatch.setattr("mrc_workbench.training.train._fit", fail)
    with pytest.raises(error) as caught:
        mrc.train("bi-encoder", mrc.load(ROWS), base="starter", progress=False)
    (run,) = all_runs()
    caught.match(message.format(run=run.id))
    assert not isinstance(caught.value, TrainingFailedError) or caught.value.details["run"] == run.id


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("biencoder", {}, "did you mean 'bi-encoder'"),
        ("bi-encoder", {"epoch": 1}, "did you mean 'epochs'"),
        ("bi-encoder", {"epochs": -1}, "epochs must be"),
        ("bi-encoder", {"epochs": "x"}, "epochs must be a number, not 'x'"),
        ("bi-encoder", {"batch_size": 1.5}, "batch_size must be a whole number, not 1.5"),
        ("bi-encoder", {"base": None}, "base must be text, not None"),
        ("bi-encoder", {"gradient_checkpointing": "yes"}, "gradient_checkpointing must be True or False, not 'yes'"),
        ("bi-encoder", {"objective": 5}, "objective must be one of"),
        ("bi-encoder", {"test": "x"}, "test must be a fraction from 0 to less than 1, not 'x'"),
        ("bi-encoder", {"validation": 1.5}, "validation must be a fraction"),
        ("bi-encoder", {"test": 0.6, "validation": 0.6}, r"test \+ validation must be less than 1, not 1.2"),
        ("bi-encoder", {"split_seed": -1}, "split_seed must be a whole number of 0 or more, not -1"),
        ("sentences", {}, "does not learn from questions"),
    ],
)
def test_rejects_invalid_training_arguments(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        mrc.train(kind, mrc.load(ROWS), **options)
    assert not all_runs()
