"""One damaged file of the workspace affects only itself: lists still work and mark it as damaged."""

import shutil
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.questions.judgements import load_remarks, mark_negative, write_note
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import damaged as damaged_sets
from mrc_workbench.data.store import load as load_set
from mrc_workbench.data.store import save_question_set, stored
from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.retrieval.comparison import store as comparisons
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, add_retriever, added_retrievers, parse_spec
from mrc_workbench.training.jobs import QUEUE, DryRunJob, DryRunTask
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions
from mrc_workbench.training.results import read_curves
from mrc_workbench.training.runs import TrainingPlan, all_runs, create_run, damaged_runs, new_plan
from tests.doubles import small_set
from tests.hostile.damages import DEEP, TIMES, damage_json, overwrite

WORDS = {"name": "words", "kind": "bm25", "analyzer": "word"}
ESTIMATE = {"steps": 3, "seconds_per_step": 0.1, "seconds_evaluating": 1.0, "seconds": 2.0, "memory": 100}
ESTIMATE |= {"memory_available": 1000, "device": "cpu", "fits": True, "instead": {}}
METRICS = dict.fromkeys(("recall@1", "recall@10", "mrr@10", "ndcg@10"), 0.5)
SCORES = {
    **dict.fromkeys(("before", "after", "bm25"), METRICS),
    "intervals": {"after": {"ndcg@10": [0.4, 0.6]}},
    "gain": {"measure": "ndcg@10", "difference": 0.0, "interval": [-0.1, 0.1]},
    "questions": 6,
    "seconds": 3.0,
}


@pytest.fixture
def world(sample_workspace: tuple[Path, TrainingPlan]) -> DryRunJob:
    """A copy of the workspace, to be damaged."""
    folder, plan = sample_workspace
    shutil.copytree(folder, workspace())
    return DryRunJob.for_plan(plan, DryRunTask.ESTIMATE)


@pytest.fixture(scope="module")
def sample_workspace(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingPlan]:
    """Two datasets, comparisons and trainings; a test damages one of them."""
    folder = tmp_path_factory.mktemp("made") / "workspace"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(folder))
        plan = make_world()
    return folder, plan


def make_world() -> TrainingPlan:
    for number, question_set in enumerate((small_set("one"), small_set("two").with_questions([0, 1, 2]))):
        data = save_question_set(question_set)
        experiment = Experiment.model_validate({"data": data.key, "ks": (1, 3), "retriever": [WORDS]})
        job = comparisons.ComparisonJob.of(experiment, data.fingerprint)
        comparisons.save_comparison(compare(experiment, question_set), job.folder)
        comparisons.rename(job.id, "named")
        add_retriever(data.fingerprint, parse_spec(WORDS | {"name": "added", "k1": 0.7}))
        mark_negative(data.fingerprint, "q1", "p2")
        write_note(data.fingerprint, "q1", "a note")
        data_source = (data.key, data.name, data.fingerprint)
        plan = new_plan(BI_ENCODER, f"run {number}", data_source, SplitOptions(), BiEncoderOptions())
        run = create_run(plan)
        run.write_status(
            Status(State.DONE, step=5, total_steps=5, progress=1.0, started=1.0, pid=2**22, pid_started=1.0)
        )
        run.write("scores.json", SCORES)
        run.write("provenance.json", {"base": {"reference": "starter"}, "versions": {"python": "3"}})
        run.add_progress({"step": 1, "loss": 0.5})
        run.add_progress({"step": 2, "eval_validation_ndcg@10": 0.5})
    write_json(DryRunJob.for_plan(plan, DryRunTask.ESTIMATE).result, ESTIMATE)
    return plan


def read_everything(dry_run: DryRunJob) -> dict[str, int]:
    """Count the entries that pages and commands read; catches only the readers' documented errors."""
    sets = stored()
    listed = comparisons.list_comparisons()
    runs = all_runs()
    for stored_set in sets:
        with suppress(DataError):
            load_set(stored_set.key)
        added_retrievers(stored_set.fingerprint)
        len(load_remarks(stored_set.fingerprint))
    for comparison in listed:
        datetime.fromisoformat(comparison.created_at)
        assert all(isinstance(value, float) for metrics in comparison.metrics.values() for value in metrics.values())
        comparisons.read_provenance(comparison.folder)
        for question_set in (small_set("one"), small_set("two").with_questions([0, 1, 2])):
            with suppress(ValueError):
                comparisons.load(comparison.folder, question_set)
    for run in runs:
        plan = run.plan()
        status = run.status()
        scores = run.scores()
        assert min(1.0, status.progress) >= 0
        assert status.total_seconds >= 0
        assert status.remaining_seconds is None or status.remaining_seconds == status.remaining_seconds
        datetime.fromisoformat(plan.created)
        assert scores == {} or all(isinstance(value, float | int) for value in scores.get("after", {}).values())
        read_curves(run, ["loss", "ndcg@10"])
        run.drop_progress_after(10)
        run.provenance().get("base")
    QUEUE.running_job()
    QUEUE.queued()
    if dry_run.done:
        assert dry_run.estimate().steps == int(dry_run.estimate().steps)
    return {
        "sets": len(sets),
        "comparisons": len(listed),
        "runs": len(runs),
        "damaged": len(damaged_sets()) + len(comparisons.damaged_comparisons()) + len(damaged_runs()),
    }


def json_files() -> list[Path]:
    paths = [*workspace().rglob("*.json"), *workspace().rglob("progress.jsonl")]
    return sorted(path for path in paths if path.stat().st_size)


WHOLE = {"sets": 2, "comparisons": 2, "runs": 2, "damaged": 0}


@pytest.mark.slow
def test_counts_a_damaged_file_and_keeps_the_rest(world: DryRunJob) -> None:
    assert read_everything(world) == WHOLE
    names = {Path(pattern).name for pattern in LOST_BY_FILE} - {"*.json"}
    assert names <= {path.name for path in json_files()}
    rng = np.random.default_rng(3)
    for number in range(100 * TIMES):
        files = json_files()
        path = files[rng.integers(0, len(files))]
        line = path.read_bytes().splitlines()[0] if path.suffix == ".jsonl" else path.read_bytes()
        whole = path.read_bytes()
        overwrite(path, damage_json(line, rng), rng)
        counts = read_everything(world)
        for name, count in WHOLE.items():
            assert counts[name] >= count - 1, (number, path.name, path.read_bytes()[:200])
        assert sum(counts.values()) == sum(WHOLE.values()), (number, path.name, path.read_bytes()[:200])
        path.write_bytes(whole)
    assert read_everything(world) == WHOLE


LOST_BY_FILE = {
    "datasets/*/set.json": "sets",
    "comparisons/*/scores.json": "comparisons",
    "comparisons/*/provenance.json": "comparisons",
    "runs/*/run.json": "runs",
    **dict.fromkeys(("comparisons/*/name.json", "added/*/*.json", "remarks/*.json"), ""),
    **dict.fromkeys((f"runs/*/{name}" for name in ("status.json", "scores.json", "provenance.json")), ""),
    **dict.fromkeys(("runs/*/progress.jsonl", "cache/dry_runs/*/estimate.json"), ""),
}


@pytest.mark.parametrize(("pattern", "lost"), LOST_BY_FILE.items())
def test_endlessly_nested_json_counts_as_damaged(pattern: str, lost: str, world: DryRunJob) -> None:
    path = sorted(workspace().glob(pattern))[0]
    path.write_bytes(DEEP)
    assert read_everything(world) == WHOLE | ({lost: 1, "damaged": 1} if lost else {})
    if path.name == "status.json":
        (status,) = [run.status() for run in all_runs() if run.folder == path.parent]
        assert (status.state, status.code) == (State.INTERRUPTED, "damaged")


def test_removes_damaged_entries(world: DryRunJob) -> None:
    from mrc_workbench.data.store import remove

    for pattern in ("datasets/*/set.json", "comparisons/*/scores.json", "runs/*/run.json"):
        sorted(workspace().glob(pattern))[0].write_bytes(b"{")
    assert read_everything(world)["damaged"] == 3
    for removal, names in ((remove, damaged_sets()), (comparisons.delete, comparisons.damaged_comparisons())):
        for name in names:
            removal(name)
    for run in damaged_runs():
        run.delete()
    assert read_everything(world) == {"sets": 1, "comparisons": 1, "runs": 1, "damaged": 0}
