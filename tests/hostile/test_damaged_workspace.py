"""One damaged file of the workspace takes nothing else down: lists go on, and show it as damaged."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.questions.judgements import mark_negative, remarks_of, write_note
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import damaged as damaged_sets
from mrc_workbench.data.store import keep as keep_set
from mrc_workbench.data.store import load as load_set
from mrc_workbench.data.store import stored
from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, add, added, of_kind
from mrc_workbench.retrieval.comparison.store import (
    ComparisonJob,
    damaged_comparisons,
    keep,
    kept_comparisons,
    load,
    origin_of,
    rename,
)
from mrc_workbench.training.jobs import QUEUE, Rehearsal, RehearsalTask
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions
from mrc_workbench.training.results import curves
from mrc_workbench.training.runs import Plan, all_runs, create_run, damaged_runs, new_plan
from tests.doubles import small_set
from tests.hostile.damages import DEEP, TIMES, damaged_json, overwrite

WORDS = {"name": "words", "kind": "bm25", "analyzer": "word"}
ESTIMATE = {"steps": 3, "seconds_a_step": 0.1, "seconds_measuring": 1.0, "seconds": 2.0, "memory": 100}
ESTIMATE |= {"memory_available": 1000, "device": "cpu", "fits": True, "instead": {}}
FIGURES = dict.fromkeys(("recall@1", "recall@10", "mrr@10", "ndcg@10"), 0.5)
SCORES = {
    **dict.fromkeys(("before", "after", "bm25"), FIGURES),
    "intervals": {"after": {"ndcg@10": [0.4, 0.6]}},
    "gain": {"measure": "ndcg@10", "difference": 0.0, "interval": [-0.1, 0.1]},
    "questions": 6,
    "seconds": 3.0,
}


@pytest.fixture
def world(made: tuple[Path, Plan]) -> Rehearsal:
    """A copy of what was made, to be damaged."""
    folder, plan = made
    shutil.copytree(folder, workspace())
    return Rehearsal.of(plan, RehearsalTask.ESTIMATE)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    """Two sets, comparisons and trainings; what is damaged is one of them."""
    folder = tmp_path_factory.mktemp("made") / "workspace"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(folder))
        plan = make_world()
    return folder, plan


def make_world() -> Plan:
    for number, question_set in enumerate((small_set("one"), small_set("two").with_questions([0, 1, 2]))):
        data = keep_set(question_set)
        experiment = Experiment.model_validate({"data": data.key, "ks": (1, 3), "retriever": [WORDS]})
        job = ComparisonJob.of(experiment, data.fingerprint)
        keep(compare(experiment, question_set), job.folder)
        rename(job.id, "named")
        add(data.fingerprint, of_kind(WORDS | {"name": "added", "k1": 0.7}))
        mark_negative(data.fingerprint, "q1", "p2")
        write_note(data.fingerprint, "q1", "a note")
        told = (data.key, data.name, data.fingerprint)
        plan = new_plan(BI_ENCODER, f"run {number}", told, SplitOptions(), BiEncoderOptions())
        run = create_run(plan)
        run.write_status(Status(State.DONE, step=5, total_steps=5, share=1.0, started=1.0, pid=2**22, pid_started=1.0))
        run.write("scores.json", SCORES)
        run.write("provenance.json", {"base": {"reference": "starter"}, "versions": {"python": "3"}})
        run.add_progress({"step": 1, "loss": 0.5})
        run.add_progress({"step": 2, "eval_validation_ndcg@10": 0.5})
    write_json(Rehearsal.of(plan, RehearsalTask.ESTIMATE).result, ESTIMATE)
    return plan


def read_everything(rehearsal: Rehearsal) -> dict[str, int]:
    """What the pages and commands read, and how many of each there are; the readers' own errors alone are caught."""
    sets, comparisons, runs = stored(), kept_comparisons(), all_runs()
    for kept in sets:
        with suppress(DataError):
            load_set(kept.key)
        added(kept.fingerprint)
        len(remarks_of(kept.fingerprint))
    for one in comparisons:
        datetime.fromisoformat(one.made)
        assert all(isinstance(value, float) for of in one.figures.values() for value in of.values())
        origin_of(one.folder)
        for question_set in (small_set("one"), small_set("two").with_questions([0, 1, 2])):
            with suppress(ValueError):
                load(one.folder, question_set)
    for run in runs:
        plan, status, scores = run.plan(), run.status(), run.scores()
        assert min(1.0, status.share) >= 0
        assert status.spent >= 0
        assert status.left is None or status.left == status.left
        datetime.fromisoformat(plan.created)
        assert scores == {} or all(isinstance(value, float | int) for value in scores.get("after", {}).values())
        curves(run, ["loss", "ndcg@10"])
        run.forget_progress_after(10)
        run.provenance().get("base")
    QUEUE.at_work()
    QUEUE.queued()
    if rehearsal.done:
        assert rehearsal.estimate().steps == int(rehearsal.estimate().steps)
    return {
        "sets": len(sets),
        "comparisons": len(comparisons),
        "runs": len(runs),
        "damaged": len(damaged_sets()) + len(damaged_comparisons()) + len(damaged_runs()),
    }


def json_files() -> list[Path]:
    found = [*workspace().rglob("*.json"), *workspace().rglob("progress.jsonl")]
    return sorted(path for path in found if path.stat().st_size)


WHOLE = {"sets": 2, "comparisons": 2, "runs": 2, "damaged": 0}


@pytest.mark.slow
def test_the_other_things_stay_and_what_is_damaged_is_counted(world: Rehearsal) -> None:
    assert read_everything(world) == WHOLE
    names = {path.name for path in json_files()}
    told = {"set.json", "scores.json", "provenance.json", "name.json", "run.json", "status.json", "estimate.json"}
    assert told <= names
    drawn = np.random.default_rng(3)
    for number in range(150 * TIMES):
        files = json_files()
        path = files[drawn.integers(0, len(files))]
        line = path.read_bytes().splitlines()[0] if path.suffix == ".jsonl" else path.read_bytes()
        whole = path.read_bytes()
        overwrite(path, damaged_json(line, drawn), drawn)
        found = read_everything(world)
        for name, count in WHOLE.items():
            assert found[name] >= count - 1, (number, path.name, path.read_bytes()[:200])
        assert sum(found.values()) == sum(WHOLE.values()), (number, path.name, path.read_bytes()[:200])
        path.write_bytes(whole)
    assert read_everything(world) == WHOLE


SHOWN: dict[str, Callable[[dict[str, int]], Any]] = {
    "datasets/*/set.json": lambda found: (found["sets"], found["damaged"]) == (1, 1),
    "comparisons/*/scores.json": lambda found: (found["comparisons"], found["damaged"]) == (1, 1),
    "comparisons/*/provenance.json": lambda found: (found["comparisons"], found["damaged"]) == (1, 1),
    "comparisons/*/name.json": lambda found: found == WHOLE,
    "runs/*/run.json": lambda found: (found["runs"], found["damaged"]) == (1, 1),
    "runs/*/status.json": lambda found: found == WHOLE,
    "runs/*/scores.json": lambda found: found == WHOLE,
    "runs/*/provenance.json": lambda found: found == WHOLE,
    "runs/*/progress.jsonl": lambda found: found == WHOLE,
    "added/*/*.json": lambda found: found == WHOLE,
    "remarks/*.json": lambda found: found == WHOLE,
    "cache/rehearsals/*/estimate.json": lambda found: found == WHOLE,
}


@pytest.mark.parametrize("place", SHOWN)
def test_json_nested_without_end_is_a_damaged_file_like_others(place: str, world: Rehearsal) -> None:
    path = sorted(workspace().glob(place))[0]
    path.write_bytes(DEEP)
    assert SHOWN[place](read_everything(world))
    if path.name == "status.json":
        (status,) = [run.status() for run in all_runs() if run.folder == path.parent]
        assert (status.state, status.code) == (State.INTERRUPTED, "damaged")


def test_what_is_damaged_can_be_removed(world: Rehearsal) -> None:
    from mrc_workbench.data.store import remove
    from mrc_workbench.retrieval.comparison.store import delete

    for place in ("datasets/*/set.json", "comparisons/*/scores.json", "runs/*/run.json"):
        sorted(workspace().glob(place))[0].write_bytes(b"{")
    assert read_everything(world)["damaged"] == 3
    for removal, names in ((remove, damaged_sets()), (delete, damaged_comparisons())):
        for name in names:
            removal(name)
    for run in damaged_runs():
        run.delete()
    assert read_everything(world) == {"sets": 1, "comparisons": 1, "runs": 1, "damaged": 0}
