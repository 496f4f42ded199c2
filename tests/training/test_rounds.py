"""A training in rounds: each round starts from the previous model, which mines its hard negatives."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.store import save_question_set
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.sources import STARTER, content_fingerprint
from mrc_workbench.retrieval.dense import Dense
from mrc_workbench.training.jobs import QUEUE
from mrc_workbench.training.options import NegativesFrom
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderObjective, BiEncoderOptions
from mrc_workbench.training.recipes.examples import mine_negatives
from mrc_workbench.training.runs import Run, TrainingPlan, all_runs, create_rounds, options_of_next_round
from mrc_workbench.training.train import load_training_data, train
from mrc_workbench.workbench.cli import main
from tests.training.worlds import create_planned_run, make_source, misleading_set

MULTIPLE = BiEncoderObjective.MULTIPLE_NEGATIVES
FROM_HYBRID = {"negatives_from": NegativesFrom.HYBRID}
IN_ROUNDS: dict[str, Any] = {"objective": MULTIPLE, "negatives": 1, "batch_size": 8, "epochs": 1.0, "rounds": 2}


def plan_in_rounds(**options: Any) -> TrainingPlan:
    run = create_planned_run(BI_ENCODER, misleading_set(), **IN_ROUNDS | options)
    plan = run.plan()
    run.stop()
    run.delete()
    return plan


def options_of(run: Run) -> BiEncoderOptions:
    options = run.plan().options
    assert isinstance(options, BiEncoderOptions)
    return options


def test_each_round_starts_from_previous_model() -> None:
    runs = create_rounds(plan_in_rounds(rounds=3, seed=5))
    assert QUEUE.queued() == runs
    assert [run.plan().name for run in runs] == ["test · 1/3", "test · 2/3", "test · 3/3"]
    assert [run.plan().round for run in runs] == [1, 2, 3]
    assert [options_of(run).base for run in runs] == [STARTER, runs[0].id, runs[1].id]
    mined = [(options_of(run).negatives_from.value, options_of(run).negatives_model) for run in runs]
    assert mined == [("bm25", STARTER), ("dense", runs[0].id), ("dense", runs[1].id)]
    assert {(options_of(run).epochs, options_of(run).seed, options_of(run).negatives) for run in runs} == {(1.0, 5, 1)}


def test_single_round_is_a_plain_run() -> None:
    plan = plan_in_rounds(rounds=1)
    (run,) = create_rounds(plan)
    assert run.plan() == plan


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"objective": MULTIPLE, "negatives": 2, **FROM_HYBRID}, FROM_HYBRID),
        ({"objective": MULTIPLE}, {"negatives": 4, "negatives_from": NegativesFrom.DENSE}),
        ({}, {"objective": MULTIPLE, "negatives": 4}),  # mega-batch-margin uses none
        ({"objective": BiEncoderObjective.GIST}, {"guide": "folder", "negatives": 4}),
        ({"objective": BiEncoderObjective.GIST, "guide": "evaluation_key"}, {"guide": "evaluation_key"}),
    ],
)
def test_options_of_next_round(before: dict[str, Any], after: dict[str, Any]) -> None:
    options = BiEncoderOptions(base="folder", **before)
    next_options = options_of_next_round("run", options)
    expected = {"negatives_from": NegativesFrom.DENSE} | {"negatives": options.negatives or 4} | before | after
    assert next_options == replace(options, base="run", negatives_model="run", **expected)


@pytest.mark.slow
def test_command_trains_rounds(tmp_path: Path) -> None:
    data = save_question_set(misleading_set(questions_a_passage=2)).key
    words = ["bi-encoder", "--data", data, "--base", STARTER, "--rounds", "2"]
    words += ["--objective", "multiple-negatives", "--negatives", "1", "--epochs", "1", "--out", str(tmp_path / "both")]
    assert main(["train", *words]) == 0
    first, second = (Run(tmp_path / "both" / f"round-{number}") for number in (1, 2))
    assert second.status().state is State.DONE
    assert options_of(second).base == options_of(second).negatives_model == str(first.folder)
    assert second.scores()["before"] == pytest.approx(first.scores()["after"], abs=1e-6)
    provenance = second.provenance()
    content = content_fingerprint(first.model_folder)
    assert provenance["base"]["fingerprint"] == provenance["negatives_model"]["fingerprint"] == content
    assert (provenance["round"], first.provenance()["round"]) == ("2/2", "1/2")
    assert "negatives_model" not in first.provenance()  # BM25 mined them
    card = (second.model_folder / "README.md").read_text(encoding="utf-8")
    assert "- **Round**: 2 of 2, 1 epochs each" in card
    assert f"- **Hard negatives mined by**: round\\-1, fingerprint `{content}`" in card
    # each is the passage that the first model ranks highest, without the question's relevant ones
    training_data = load_training_data(second.plan())
    negatives = mine_negatives(options_of(second), training_data)
    encoder = BiEncoder(make_source(first), training_data.texts)
    dense = Dense("dense", training_data.question_set.passages, encoder)
    ranked_rows = dense.search([question.text for question in training_data.train.questions], 20).indices
    for rows, ranks, ranking in zip(negatives.rows, negatives.ranks, ranked_rows, strict=True):
        assert [ranking[rank - 1] for rank in ranks if rank] == [row for row in rows if row >= 0]


@pytest.mark.slow
def test_rounds_resume_where_stopped() -> None:
    from tests.training.test_resume import again, assert_came_out_alike, do_at_step, stopped_at  # they import torch

    key = save_question_set(misleading_set()).key
    words = ["bi-encoder", "--data", key, "--base", STARTER, "--objective", "multiple-negatives", "--negatives", "1"]
    words += ["--rounds", "2", "--batch-size", "8", "--epochs", "2", "--logging-steps", "1"]
    assert main(["train", *words]) == 0
    whole = all_runs()[::-1]
    with pytest.MonkeyPatch.context() as patch:
        do_at_step(patch, 1, lambda: next(run for run in all_runs() if run.status().is_running).request_stop())
        assert main(["train", *words]) == 0
    first, second = [run for run in all_runs()[::-1] if run not in whole]
    assert [run.status().state for run in (first, second)] == [State.STOPPED, State.STOPPED]
    again(second)  # out of turn
    ended = train(second)
    assert (ended.state, ended.code) == (State.FAILED, "round_before")
    again(first)
    train(first)
    assert_came_out_alike(first, whole[0])
    again(second)
    stopped_at(second, 1)
    train(second)
    assert_came_out_alike(second, whole[1])
