import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import find
from mrc_workbench.models.loading import load_bi_encoder, load_cross_encoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.training import dry_run as timing
from mrc_workbench.training.base import Task
from mrc_workbench.training.dry_run import (
    Batch,
    LowerLayersCost,
    ProcessorLoad,
    StepScheduler,
    StepTimes,
    TimeBudget,
    sample_evenly,
)
from mrc_workbench.training.estimate import (
    USABLE_MEMORY_FRACTION,
    BatchCharacters,
    count_characters,
    estimate,
    execute_dry_run,
)
from mrc_workbench.training.jobs import DryRunJob, Estimate
from mrc_workbench.training.jobs import DryRunTask as DryRunKind
from mrc_workbench.training.options import Report
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER, BiEncoderObjective
from mrc_workbench.training.recipes import ranking_kinds
from mrc_workbench.training.recipes.rankers import BiEncoderRecipe
from mrc_workbench.training.runs import TrainingPlan
from mrc_workbench.workbench.cli import main
from tests.doubles import small_set
from tests.programs import run_module
from tests.tiny_models import SENTENCES
from tests.training import worlds

pytestmark = pytest.mark.slow
SHARED = {"objective": "multiple-negatives", "shared_passages": True, "frozen_layers": 1}


@pytest.fixture(scope="module")
def sample() -> QuestionSet:
    return find("sample")


def plan_of(kind: str, question_set: QuestionSet, **options: Any) -> TrainingPlan:
    return worlds.create_planned_run(kind, question_set, **options).plan()


def take_linear_steps(task: Task, options: Any, batches: Sequence[Batch], pace: StepScheduler) -> StepTimes:
    del task, options, batches
    for size in pace.sizes:
        pace.add(60 + size, 60.0, memory=int(1000 + 10 * size))
    return pace.times


def assert_adds_up(result: Estimate) -> None:
    parts = (result.seconds_loading, result.steps * result.seconds_per_step, result.seconds_evaluating)
    assert result.seconds == pytest.approx(sum(parts))
    assert result.seconds_loading > 0
    assert 0 < result.seconds_evaluating < result.seconds
    assert result.seconds_per_step > 0
    assert result.memory_available > 10**8
    assert result.device == "cpu"
    assert (result.fits, result.suggested_options) == (True, {})


@pytest.mark.parametrize("kind", worlds.FROM_STARTERS)
def test_estimates_starter_on_sample(kind: str, sample: QuestionSet) -> None:
    plan = plan_of(kind, sample, epochs=2.0, batch_size=64)
    result = estimate(plan)
    assert_adds_up(result)
    assert result.steps == (12 if kind == BI_ENCODER else 2 * 27)  # 336 questions, and 5 pairs of each


@pytest.mark.parametrize("kind", ranking_kinds())
@pytest.mark.parametrize("options", [{}, {"lora_rank": 2}, {"evaluation_steps": 3, "max_length": 16}])
def test_estimates_transformer(kind: str, options: dict[str, Any]) -> None:
    assert_adds_up(estimate(plan_of(kind, worlds.shuffled(40, 40), base=worlds.tiny_base(kind), **options)))


@pytest.mark.parametrize("kind", ranking_kinds())
def test_estimates_with_five_passages(kind: str) -> None:
    assert_adds_up(estimate(plan_of(kind, small_set(), split=SplitOptions(0.25, 0.25, seed=1))))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (BI_ENCODER, {"batch_size": 256, "epochs": 1.5}),  # three questions a passage: no batch holds them all
        (BI_ENCODER, {"objective": BiEncoderObjective.TRIPLET, "negatives": 2, "batch_size": 8, "epochs": 3.0}),
        (CROSS_ENCODER, {"batch_size": 8, "epochs": 0.5}),
    ],
)
def test_step_count_matches_training(kind: str, options: dict[str, Any]) -> None:
    run = worlds.create_planned_run(kind, worlds.misleading_set(questions_a_passage=3), **options)
    result = estimate(run.plan())
    status = worlds.train_to_end(run).status()
    assert result.steps == status.total_steps == status.step


def test_estimate_writes_no_run_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # an estimate neither imports nor calls the reporter
    estimate(plan_of(BI_ENCODER, worlds.misleading_set(), report_to=Report.WANDB))
    assert not [path for path in tmp_path.iterdir() if path.name != "workspace"]


@pytest.mark.parametrize(("kind", "base"), [(BI_ENCODER, "tiny"), (BI_ENCODER, "starter"), (CROSS_ENCODER, "tiny")])
def test_suggests_options_that_fit(kind: str, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "time_steps", take_linear_steps)
    monkeypatch.setattr(timing, "memory_available", lambda: 10**9)
    options = {"base": worlds.tiny_base(kind)} if base == "tiny" else {}
    plan = plan_of(kind, worlds.shuffled(40, 40), batch_size=16, **options)
    result = estimate(plan)
    assert_adds_up(result)
    monkeypatch.setattr(timing, "memory_available", lambda: int(result.memory / USABLE_MEMORY_FRACTION) + 1)
    assert estimate(plan).fits
    monkeypatch.setattr(timing, "memory_available", lambda: result.memory)
    too_large = estimate(plan)
    assert not too_large.fits
    # memory is exactly linear; the smallest change is suggested
    assert too_large.memory == result.memory
    assert too_large.suggested_options == ({"batch_size": 8} if base == "starter" else {"embedding_table": "frozen"})
    monkeypatch.setattr(timing, "memory_available", lambda: 900)
    if base == "starter":
        assert estimate(plan).suggested_options == {}


def test_counts_characters_read() -> None:
    long = " ".join(SENTENCES * 50)
    queries = ["ab", "abcd"]
    texts = ["abc", long]
    model = load_bi_encoder(find_model(worlds.tiny_base(BI_ENCODER)), [])
    model.max_seq_length = 8
    columns: dict[str, Any] = {"anchor": queries, "positive": texts}
    read, a_token = count_characters(Task(model, None, columns, None, None))  # type: ignore[arg-type]
    assert read.tolist() == [5.0, 4 + 8 * a_token]
    pairs = {"question": queries, "passages": [["abc", "ab"], ["a", long]], "labels": [[1.0, 0.0]] * 2}
    cross = load_cross_encoder(find_model(worlds.tiny_base(CROSS_ENCODER)), [], new_head=True)
    cross.max_seq_length = 64
    read, a_token = count_characters(Task(cross, None, pairs, None, None))  # type: ignore[arg-type]
    assert read.tolist() == [5.0 + 4, 5 + 64 * a_token]
    starter = load_bi_encoder(find_model("starter"), ["물은 끓는다", "사과는 과일이다", "산은 높다"])
    read, a_token = count_characters(Task(starter, None, columns, None, None))  # type: ignore[arg-type]
    assert (read.tolist(), a_token) == ([5.0, 4.0 + len(long)], 1.0)


def test_counts_shared_passage_once() -> None:
    each = np.array([12.0, 13.0, 25.0])
    of_passage = np.array([10.0, 10.0, 20.0])
    reader = BatchCharacters(each, np.array([4, 4, 7]), of_passage)
    assert reader.characters([0, 1, 2]) == 12 + 3 + 25
    assert reader.characters([0, 2]) == 12 + 25
    assert BatchCharacters(each).characters([0, 1, 2]) == 50


def test_counts_frozen_layers_once_per_text(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = iter((None, LowerLayersCost(seconds_per_token=1.0, bytes_per_token=8.0)))

    def take(task: Task, options: Any, batches: Sequence[Batch], pace: StepScheduler) -> StepTimes:
        pace.times.lower_layers = next(costs)
        return take_linear_steps(task, options, batches, pace)

    monkeypatch.setattr(timing, "time_steps", take)
    monkeypatch.setattr(BiEncoderRecipe, "estimate_evaluation_seconds", lambda *_: 100.0)
    plan = plan_of(BI_ENCODER, worlds.shuffled(40, 40), base=worlds.tiny_base(BI_ENCODER), **SHARED, batch_size=16)
    without = estimate(plan)
    once = estimate(plan)
    assert once.memory - without.memory > 8 * 40 * 2  # a token of each question and of each passage, at least
    # the base is evaluated with all layers, the model in training with one of two
    epochs = plan.options.epochs
    assert without.seconds_evaluating - once.seconds_evaluating == pytest.approx((epochs + 1) * 100.0 / 2)
    for result in (without, once):
        assert_adds_up(result)
    assert without.steps == once.steps


def test_estimates_frozen_layers_by_real_steps() -> None:
    plan = plan_of(BI_ENCODER, worlds.shuffled(40, 40), base=worlds.tiny_base(BI_ENCODER), **SHARED, batch_size=8)
    assert_adds_up(estimate(plan))


def test_left_padding_base_stores_no_states(tmp_path: Path) -> None:
    folder = tmp_path / "left"
    copytree(worlds.tiny_base(BI_ENCODER), folder)
    (settings,) = folder.rglob("tokenizer_config.json")
    values = json.loads(settings.read_text(encoding="utf-8")) | {"padding_side": "left"}
    settings.write_text(json.dumps(values), encoding="utf-8")
    same = worlds.shuffled(40, 40)
    repeated = {row: " ".join([passage.text] * (1 + row % 7)) for row, passage in enumerate(same.passages)}
    passages = [replace(passage, text=repeated[row]) for row, passage in enumerate(same.passages)]
    questions = [replace(passage, text=passage.text + " 달" * (row % 5)) for row, passage in enumerate(same.questions)]
    varied = QuestionSet("varied", tuple(passages), tuple(questions))
    plan = plan_of(BI_ENCODER, varied, base=str(folder), frozen_layers=1, batch_size=8)
    assert estimate(plan).fits


def test_samples_evenly() -> None:
    assert sample_evenly(np.arange(10), 2) == [2, 7]
    assert sample_evenly(np.arange(3), 5) == [0, 1, 2]


def test_memory_grows_with_batch_size() -> None:
    words = ("train", CROSS_ENCODER, "--data", "sample", "--base", worlds.tiny_base(CROSS_ENCODER), "--estimate")
    commands = [["mrc_workbench", *words, "--batch-size", size] for size in ("4", "256")]
    process = run_module("tests.commands", json.dumps(commands))  # the memory of this process has grown already
    assert process.returncode == 0, process.stderr
    small, large = (json.loads("{" + part)["memory"] for part in process.stdout.split("{\n")[1:])
    assert large > small + 10**7


def test_reports_other_load_and_seconds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Meter:
        def load(self) -> ProcessorLoad:
            return ProcessorLoad(others_fraction=0.6, own_fraction=0.3)

    plan = plan_of(BI_ENCODER, worlds.misleading_set())
    quiet = estimate(plan)
    assert quiet.seconds_alone <= quiet.seconds
    monkeypatch.setattr(timing, "ProcessorLoadMeter", Meter)
    contended = estimate(plan)
    assert contended.other_load == 0.6
    assert contended.seconds_alone == pytest.approx(contended.seconds / 3)


def test_spent_budget_still_takes_a_step() -> None:
    partial: list[Estimate] = []
    plan = plan_of(BI_ENCODER, worlds.shuffled(40, 40), base=worlds.tiny_base(BI_ENCODER), batch_size=16)
    result = estimate(plan, budget=TimeBudget(0.0), on_partial=partial.append)
    assert len(partial) == 1
    assert result.is_rough
    assert_adds_up(result)
    assert partial[0].seconds_per_step == result.seconds_per_step
    every: list[Estimate] = []
    assert not estimate(plan, budget=TimeBudget(600.0), on_partial=every.append).is_rough
    assert len(every) > 1


def run_dry_run(task: DryRunKind, plan: TrainingPlan) -> tuple[int, DryRunJob]:
    dry_run = DryRunJob.for_plan(plan, task)
    dry_run.folder.mkdir(parents=True)
    (dry_run.folder / "run.json").write_text(plan.to_json(), encoding="utf-8")
    return execute_dry_run(task, dry_run.folder), dry_run


def test_dry_run_stores_its_result() -> None:
    plan = plan_of(CROSS_ENCODER, worlds.misleading_set(), negatives=2)
    code, dry_run = run_dry_run(DryRunKind.ESTIMATE, plan)
    assert (code, dry_run.done, dry_run.failed) == (0, True, False)
    assert_adds_up(dry_run.estimate())
    code, dry_run = run_dry_run(DryRunKind.NEGATIVES, plan)
    assert (code, dry_run.done) == (0, True)
    table = dry_run.negatives()
    assert tuple(table.columns) == worlds.COLUMNS
    assert len(table)
    for row in table.itertuples():  # a question names a word of the next passage only
        number = int(str(row.question_id)[1:].split("-")[0])
        assert row.passage_id == f"p{(number + 1) % 20}"
        assert row.rank == 1


def test_dry_run_stores_its_error() -> None:
    plan = plan_of(BI_ENCODER, worlds.misleading_set(), base="/no/such/folder")
    code, dry_run = run_dry_run(DryRunKind.ESTIMATE, plan)
    assert (code, dry_run.done) == (1, False)
    assert dry_run.problem()[0] == "model_not_found"
    assert "/no/such/folder" in dry_run.problem()[1]
    code, dry_run = run_dry_run(DryRunKind.NEGATIVES, replace(plan, split=SplitOptions(0.0, 0.2), data="nobody's"))
    assert (code, dry_run.problem()[0]) == (1, "data")


def test_dry_run_in_subprocess(sample: QuestionSet) -> None:
    plan = plan_of(BI_ENCODER, worlds.misleading_set())
    dry_run = DryRunJob.for_plan(plan, DryRunKind.ESTIMATE)
    assert (dry_run.running, dry_run.done, dry_run.failed) == (False, False, False)
    dry_run.start(plan)
    worlds.wait_until(lambda: not dry_run.running)
    assert dry_run.done, dry_run.problem()
    assert_adds_up(dry_run.estimate())
    assert DryRunJob.for_plan(replace(plan, name="another name"), DryRunKind.ESTIMATE).done
    other = replace(plan, options=replace(plan.options, batch_size=4))
    assert not DryRunJob.for_plan(other, DryRunKind.ESTIMATE).done

    stopped = DryRunJob.for_plan(plan_of(BI_ENCODER, sample), DryRunKind.ESTIMATE)
    stopped.start(plan_of(BI_ENCODER, sample))
    assert stopped.running
    stopped.kill()
    worlds.wait_until(lambda: not stopped.running)
    assert (stopped.done, stopped.failed) == (False, False)


def test_dry_run_stores_negatives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("cross-encoder", "--data", "sample", "--negatives", "2")
    assert main(["train", *words, "--negatives-file", str(tmp_path / "negatives.jsonl")]) == 0
    lines = [json.loads(line) for line in (tmp_path / "negatives.jsonl").read_text(encoding="utf-8").splitlines()]
    assert capsys.readouterr().out.startswith(f"{len(lines)} negatives of ")
    assert {tuple(line) for line in lines} == {worlds.COLUMNS}
