import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import find
from mrc_workbench.models.loading import load_bi_encoder, load_cross_encoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.training import estimate as estimating
from mrc_workbench.training.base import Task
from mrc_workbench.training.dry_run import Batch, Budget, Load, LowerLayersCost, Pace, StepTimes, evenly
from mrc_workbench.training.estimate import SHARE_TO_USE, BatchReader, characters_read, estimate, rehearse
from mrc_workbench.training.jobs import Estimate, Rehearsal
from mrc_workbench.training.jobs import RehearsalTask as Asked
from mrc_workbench.training.options import Report
from mrc_workbench.training.ranker_options import (
    BI_ENCODER,
    CROSS_ENCODER,
    LATE_INTERACTION,
    SPARSE_ENCODER,
    BiEncoderObjective,
)
from mrc_workbench.training.recipes import ranking_kinds
from mrc_workbench.training.recipes.rankers import BiEncoderRecipe
from mrc_workbench.training.runs import Plan
from mrc_workbench.training.train import train
from mrc_workbench.workbench.cli import main
from tests.doubles import small_set
from tests.programs import run_module
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base, build_sparse_encoder
from tests.training.worlds import COLUMNS, FROM_STARTERS, misleading_set, planned, shuffled, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sample() -> QuestionSet:
    return find("sample")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tiny")
    bi_encoder = str(build_bi_encoder(folder / "bi"))
    return {
        **dict.fromkeys((BI_ENCODER, LATE_INTERACTION), bi_encoder),
        CROSS_ENCODER: str(build_cross_encoder_base(folder / "cross", segment_types=1)),
        SPARSE_ENCODER: str(build_sparse_encoder(folder / "sparse")),
    }


def plan_of(kind: str, question_set: QuestionSet, **options: Any) -> Plan:
    return planned(kind, question_set, **options).plan()


def assert_adds_up(found: Estimate) -> None:
    parts = (found.seconds_loading, found.steps * found.seconds_a_step, found.seconds_measuring)
    assert found.seconds == pytest.approx(sum(parts))
    assert found.seconds_loading > 0
    assert 0 < found.seconds_measuring < found.seconds
    assert found.seconds_a_step > 0
    assert found.memory_available > 10**8
    assert found.device == "cpu"
    assert (found.fits, found.instead) == (True, {})


@pytest.mark.parametrize("kind", FROM_STARTERS)
def test_a_starter_on_the_sample(kind: str, sample: QuestionSet) -> None:
    plan = plan_of(kind, sample, epochs=2.0, batch_size=64)
    found = estimate(plan)
    assert_adds_up(found)
    assert found.steps == (12 if kind == BI_ENCODER else 2 * 27)  # 336 questions, and 5 pairs of each


@pytest.mark.parametrize("kind", ranking_kinds())
@pytest.mark.parametrize("options", [{}, {"lora_rank": 2}, {"evaluation_steps": 3, "max_length": 16}])
def test_a_transformer(kind: str, options: dict[str, Any], tiny: dict[str, str]) -> None:
    assert_adds_up(estimate(plan_of(kind, shuffled(40, 40), base=tiny[kind], **options)))


@pytest.mark.parametrize("kind", ranking_kinds())
def test_five_passages_are_enough(kind: str) -> None:
    run = planned(kind, small_set(), SplitOptions(0.25, 0.25, seed=1))
    assert_adds_up(estimate(run.plan()))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (BI_ENCODER, {"batch_size": 256, "epochs": 1.5}),  # three questions a passage: no batch holds them all
        (BI_ENCODER, {"objective": BiEncoderObjective.TRIPLET, "negatives": 2, "batch_size": 8, "epochs": 3.0}),
        (CROSS_ENCODER, {"batch_size": 8, "epochs": 0.5}),
    ],
)
def test_the_steps_are_those_that_the_training_takes(kind: str, options: dict[str, Any]) -> None:
    run = planned(kind, misleading_set(questions_a_passage=3), **options)
    found = estimate(run.plan())
    status = train(run)
    assert status.state is State.DONE, status.message
    assert found.steps == status.total_steps == status.step


def test_an_estimate_leaves_no_trace_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # what the curves should go to is neither asked for nor told of a trial
    estimate(plan_of(BI_ENCODER, misleading_set(), report_to=Report.WANDB))
    assert not [path for path in tmp_path.iterdir() if path.name != "workspace"]


@pytest.mark.parametrize(("kind", "base"), [(BI_ENCODER, "tiny"), (BI_ENCODER, "starter"), (CROSS_ENCODER, "tiny")])
def test_what_would_fit_instead(kind: str, base: str, tiny: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def take(task: Task, options: Any, batches: Sequence[Batch], pace: Pace) -> StepTimes:
        del task, options, batches
        for size in pace.sizes:
            pace.add(60 + size, 60.0, memory=int(1000 + 10 * size))
        return pace.times

    monkeypatch.setattr(estimating, "take_steps", take)
    monkeypatch.setattr(estimating, "memory_available", lambda: 10**9)
    plan = plan_of(kind, shuffled(40, 40), batch_size=16, **({"base": tiny[kind]} if base == "tiny" else {}))
    found = estimate(plan)
    assert found.fits
    assert found.seconds == pytest.approx(
        found.seconds_loading + found.steps * found.seconds_a_step + found.seconds_measuring
    )
    monkeypatch.setattr(estimating, "memory_available", lambda: int(found.memory / SHARE_TO_USE) + 1)
    assert estimate(plan).fits
    monkeypatch.setattr(estimating, "memory_available", lambda: found.memory)
    too_large = estimate(plan)
    assert not too_large.fits
    # the straight line is met exactly; what helps is told by the smallest change
    assert too_large.memory == found.memory
    assert too_large.instead == ({"batch_size": 8} if base == "starter" else {"embedding_table": "frozen"})
    monkeypatch.setattr(estimating, "memory_available", lambda: 900)
    if base == "starter":
        assert estimate(plan).instead == {}


def test_characters_that_are_read(tiny: dict[str, str]) -> None:
    long = " ".join(SENTENCES * 50)
    asked, texts = ["ab", "abcd"], ["abc", long]
    model = load_bi_encoder(find_model(tiny[BI_ENCODER]), [])
    model.max_seq_length = 8
    columns: dict[str, Any] = {"anchor": asked, "positive": texts}
    read, a_token = characters_read(Task(model, None, columns, None, None))  # type: ignore[arg-type]
    assert read.tolist() == [5.0, 4 + 8 * a_token]
    pairs = {"question": asked, "passages": [["abc", "ab"], ["a", long]], "labels": [[1.0, 0.0]] * 2}
    cross = load_cross_encoder(find_model(tiny[CROSS_ENCODER]), [], new_head=True)
    cross.max_seq_length = 64
    read, a_token = characters_read(Task(cross, None, pairs, None, None))  # type: ignore[arg-type]
    assert read.tolist() == [5.0 + 4, 5 + 64 * a_token]
    starter = load_bi_encoder(find_model("starter"), ["물은 끓는다", "사과는 과일이다", "산은 높다"])
    read, a_token = characters_read(Task(starter, None, columns, None, None))  # type: ignore[arg-type]
    assert (read.tolist(), a_token) == ([5.0, 4.0 + len(long)], 1.0)


def test_a_passage_that_a_batch_shares_is_read_once() -> None:
    each, of_passage = np.array([12.0, 13.0, 25.0]), np.array([10.0, 10.0, 20.0])
    reader = BatchReader(each, np.array([4, 4, 7]), of_passage)
    assert reader.characters([0, 1, 2]) == 12 + 3 + 25
    assert reader.characters([0, 2]) == 12 + 25
    assert BatchReader(each).characters([0, 1, 2]) == 50


def test_frozen_layers_cost_their_texts_once(tiny: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    costs = iter((None, LowerLayersCost(seconds_a_token=1.0, bytes_a_token=8.0)))

    def take(task: Task, options: Any, batches: Sequence[Batch], pace: Pace) -> StepTimes:
        del task, options, batches
        pace.times.lower_layers = next(costs)
        for size in pace.sizes:
            pace.add(60 + size, 60.0, memory=int(1000 + 10 * size))
        return pace.times

    monkeypatch.setattr(estimating, "take_steps", take)
    monkeypatch.setattr(BiEncoderRecipe, "seconds_to_measure", lambda *_: 100.0)
    shared = {"objective": "multiple-negatives", "shared_passages": True, "frozen_layers": 1, "batch_size": 16}
    plan = plan_of(BI_ENCODER, shuffled(40, 40), base=tiny[BI_ENCODER], **shared)
    without, once = estimate(plan), estimate(plan)
    assert once.memory - without.memory > 8 * 40 * 2  # a token of each question and of each passage, at least
    # the base is measured with all layers, the model in training and at its end with one of two
    epochs = plan.options.epochs
    assert without.seconds_measuring - once.seconds_measuring == pytest.approx((epochs + 1) * 100.0 / 2)
    for found in (without, once):
        assert_adds_up(found)
    assert without.steps == once.steps


def test_an_estimate_with_frozen_layers_takes_real_steps(tiny: dict[str, str]) -> None:
    shared = {"objective": "multiple-negatives", "shared_passages": True, "frozen_layers": 1, "batch_size": 8}
    found = estimate(plan_of(BI_ENCODER, shuffled(40, 40), base=tiny[BI_ENCODER], **shared))
    assert_adds_up(found)
    assert (found.fits, found.instead) == (True, {})


def test_an_estimate_of_a_base_that_pads_on_the_left_stores_no_states(tiny: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "left"
    copytree(tiny[BI_ENCODER], folder)
    (settings,) = folder.rglob("tokenizer_config.json")
    values = json.loads(settings.read_text(encoding="utf-8")) | {"padding_side": "left"}
    settings.write_text(json.dumps(values), encoding="utf-8")
    same = shuffled(40, 40)
    passages = [replace(one, text=" ".join([one.text] * (1 + row % 7))) for row, one in enumerate(same.passages)]
    questions = [replace(one, text=one.text + " 달" * (row % 5)) for row, one in enumerate(same.questions)]
    varied = QuestionSet("varied", tuple(passages), tuple(questions))
    plan = plan_of(BI_ENCODER, varied, base=str(folder), frozen_layers=1, batch_size=8)
    assert estimate(plan).fits


def test_few_of_every_kind() -> None:
    assert evenly(np.arange(10), 2) == [2, 7]
    assert evenly(np.arange(3), 5) == [0, 1, 2]


def test_more_texts_at_a_time_take_more_memory(tiny: dict[str, str], sample: QuestionSet) -> None:
    found = []
    estimate(plan_of(CROSS_ENCODER, sample, base=tiny[CROSS_ENCODER]))  # so that neither of both analyzes the texts
    # each in a new process, as this one's memory has grown already
    for size in ("4", "256"):
        words = ("--data", "sample", "--base", tiny[CROSS_ENCODER], "--batch-size", size, "--estimate")
        told = run_module("mrc_workbench", "train", "cross-encoder", *words)
        assert told.returncode == 0, told.stderr
        found.append(json.loads(told.stdout[told.stdout.index("{\n") :])["memory"])
    assert found[1] > found[0] + 10**7


def test_what_others_use_is_said_and_what_it_would_take_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Meter:
        def load(self) -> Load:
            return Load(others=0.6, own=0.3)

    plan = plan_of(BI_ENCODER, misleading_set())
    quiet = estimate(plan)
    assert quiet.seconds_alone <= quiet.seconds
    monkeypatch.setattr(estimating, "LoadMeter", Meter)
    busy = estimate(plan)
    assert busy.others == 0.6
    assert busy.seconds_alone == pytest.approx(busy.seconds / 3)


def test_a_spent_budget_leaves_one_step(tiny: dict[str, str]) -> None:
    partial: list[Estimate] = []
    plan = plan_of(BI_ENCODER, shuffled(40, 40), base=tiny[BI_ENCODER], batch_size=16)
    found = estimate(plan, budget=Budget(0.0), on_partial=partial.append)
    assert len(partial) == 1
    assert found.rough
    assert_adds_up(found)
    assert partial[0].seconds_a_step == found.seconds_a_step
    every: list[Estimate] = []
    assert not estimate(plan, budget=Budget(600.0), on_partial=every.append).rough
    assert len(every) > 1


def rehearsed(task: Asked, plan: Plan) -> tuple[int, Rehearsal]:
    rehearsal = Rehearsal.of(plan, task)
    rehearsal.folder.mkdir(parents=True)
    (rehearsal.folder / "run.json").write_text(plan.as_json(), encoding="utf-8")
    return rehearse(task, rehearsal.folder), rehearsal


def test_a_rehearsal_leaves_its_answer() -> None:
    plan = plan_of(CROSS_ENCODER, misleading_set(), negatives=2)
    code, rehearsal = rehearsed(Asked.ESTIMATE, plan)
    assert (code, rehearsal.done, rehearsal.failed) == (0, True, False)
    assert_adds_up(rehearsal.estimate())
    code, rehearsal = rehearsed(Asked.NEGATIVES, plan)
    assert (code, rehearsal.done) == (0, True)
    table = rehearsal.negatives()
    assert tuple(table.columns) == COLUMNS
    assert len(table)
    for row in table.itertuples():  # a question names a word of the next passage only
        number = int(str(row.question_id)[1:].split("-")[0])
        assert row.passage_id == f"p{(number + 1) % 20}"
        assert row.rank == 1


def test_a_rehearsal_leaves_its_problem() -> None:
    plan = plan_of(BI_ENCODER, misleading_set(), base="/no/such/folder")
    code, rehearsal = rehearsed(Asked.ESTIMATE, plan)
    assert (code, rehearsal.done) == (1, False)
    assert rehearsal.problem()[0] == "model_not_found"
    assert "/no/such/folder" in rehearsal.problem()[1]
    code, rehearsal = rehearsed(Asked.NEGATIVES, replace(plan, split=SplitOptions(0.0, 0.2), data="nobody's"))
    assert (code, rehearsal.problem()[0]) == (1, "data")


def test_a_rehearsal_in_a_process_of_its_own(sample: QuestionSet) -> None:
    plan = plan_of(BI_ENCODER, misleading_set())
    rehearsal = Rehearsal.of(plan, Asked.ESTIMATE)
    assert (rehearsal.running, rehearsal.done, rehearsal.failed) == (False, False, False)
    rehearsal.start(plan)
    wait_until(lambda: not rehearsal.running)
    assert rehearsal.done, rehearsal.problem()
    assert_adds_up(rehearsal.estimate())
    assert Rehearsal.of(replace(plan, name="another name"), Asked.ESTIMATE).done
    other = replace(plan, options=replace(plan.options, batch_size=4))
    assert not Rehearsal.of(other, Asked.ESTIMATE).done

    stopped = Rehearsal.of(plan_of(BI_ENCODER, sample), Asked.ESTIMATE)
    stopped.start(plan_of(BI_ENCODER, sample))
    assert stopped.running
    stopped.end()
    wait_until(lambda: not stopped.running)
    assert (stopped.done, stopped.failed) == (False, False)


def test_the_negatives_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("cross-encoder", "--data", "sample", "--negatives", "2")
    assert main(["train", *words, "--negatives-file", str(tmp_path / "negatives.jsonl")]) == 0
    lines = [json.loads(line) for line in (tmp_path / "negatives.jsonl").read_text(encoding="utf-8").splitlines()]
    assert capsys.readouterr().out.startswith(f"{len(lines)} negatives of ")
    assert {tuple(line) for line in lines} == {COLUMNS}
