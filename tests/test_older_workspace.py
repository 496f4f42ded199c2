"""Workspaces of the version before open: datasets, runs, models, checkpoints and comparisons; no result is computed
again.

That version wrote `workspace_before/`, here without its cache: the sample's first passages, a bi-encoder and a cross-
encoder trained from the starter, the same bi-encoder killed after one step of three, and one comparison.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import RESUMABLE, State
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import find, stored
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.sources import find_model, is_starter
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, read_experiment
from mrc_workbench.retrieval.comparison.store import ComparisonJob, list_comparisons, load
from mrc_workbench.retrieval.rankings import Rankings
from mrc_workbench.training.engine.checkpoints import get_step, newest_checkpoint
from mrc_workbench.training.runs import Run, all_runs, find_run
from mrc_workbench.training.train import train

SET = "c69fdd8ff78185b2"
COMPARISON = "8ecc6dbdfa92d047"
BI_ENCODER = "20261122-014317-bi-0b1c"
CROSS_ENCODER = "20261122-014341-reranker-08b8"
INTERRUPTED = "20261122-022454-interrupted-3471"  # killed after one step of three
# as users write it: only values that differ from the defaults
EXPERIMENT = f"""
data = "{SET}"
ks = [1, 5, 10]
[[retriever]]
name = "BM25"
kind = "bm25"
[[retriever]]
name = "Dense"
kind = "dense"
model = "{BI_ENCODER}"
[[retriever]]
name = "Hybrid"
kind = "hybrid"
of = ["BM25", "Dense"]
fusion = "rrf"
[[retriever]]
name = "Reranked"
kind = "rerank"
first = "BM25"
model = "{CROSS_ENCODER}"
depth = 5
"""


@pytest.fixture(autouse=True)
def _workspace_before() -> None:
    shutil.copytree(Path(__file__).parent / "workspace_before", workspace(), copy_function=shutil.copy)


def content(*parts: str) -> Any:
    return json.loads(workspace().joinpath(*parts).read_text(encoding="utf-8"))


def run_of(name: str) -> Run:
    run = find_run(name)
    assert run is not None
    return run


def question_set() -> QuestionSet:
    return find("small_before")


def experiment(tmp_path: Path) -> Experiment:
    path = tmp_path / "experiment.toml"
    path.write_text(EXPERIMENT, encoding="utf-8")
    return read_experiment(path)


def rankings_before() -> dict[str, Rankings]:
    """Return the stored rankings by retriever, read as the format says and not as the program reads it."""
    with np.load(workspace() / "comparisons" / COMPARISON / "rankings.npz", allow_pickle=False) as arrays:
        names = content("comparisons", COMPARISON, "scores.json")["retrievers"]
        return {name: Rankings(arrays[f"indices_{row}"], arrays[f"scores_{row}"]) for row, name in enumerate(names)}


def test_the_set_is_listed_and_has_the_same_content() -> None:
    (stored_set,) = stored()
    assert (stored_set.key, stored_set.name, stored_set.passages, stored_set.questions) == (SET, "small_before", 12, 36)
    assert question_set().fingerprint == stored_set.fingerprint == content("datasets", SET, "set.json")["fingerprint"]
    assert question_set().passages.fingerprint == content("datasets", SET, "passages.json")["fingerprint"]
    assert question_set().passages[0].text.startswith("자격루는 세종의 명을 받은 장영실이")
    assert question_set().questions[0].relevant == ("p1",)


def test_lists_runs_with_their_state_and_options() -> None:
    assert [run.id for run in all_runs()] == [INTERRUPTED, CROSS_ENCODER, BI_ENCODER]
    assert [run.status().state for run in all_runs()] == [State.INTERRUPTED, State.DONE, State.DONE]
    plan = run_of(BI_ENCODER).plan()
    assert (plan.kind, plan.name, plan.data, plan.data_name) == ("bi-encoder", "한국어 bi", SET, "small_before")
    assert (plan.options.learning_rate, plan.options.batch_size) == (0.02, 8)
    assert run_of(CROSS_ENCODER).plan().kind == "cross-encoder"


@pytest.mark.parametrize("name", [BI_ENCODER, CROSS_ENCODER])
def test_a_run_shows_what_it_reached(name: str) -> None:
    run = run_of(name)
    raw = content("runs", name, "status.json")
    status = run.status()
    assert (status.step, status.total_steps) == (raw["step"], raw["total_steps"])
    assert (status.started, status.heartbeat) == (raw["started"], raw["heartbeat"])
    assert status.total_seconds == pytest.approx(raw["heartbeat"] - raw["started"])
    assert not status.is_process_alive
    assert run.scores() == content("runs", name, "scores.json")
    assert run.scores()["after"]["ndcg@10"] == 1.0
    assert run.provenance()["base"]["reference"] == "starter"
    assert [entry["step"] for entry in run.progress()] == [0, 0, status.step, status.step]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("running", State.INTERRUPTED),  # its process is gone: the machine was switched off
        ("queued", State.INTERRUPTED),
        ("stopped", State.STOPPED),
        ("failed", State.FAILED),
        ("done", State.DONE),
    ],
)
def test_every_state_that_was_written_is_read(written: str, read: State) -> None:
    raw = content("runs", INTERRUPTED, "status.json") | {"state": written, "code": "disk", "message": "full"}
    (workspace() / "runs" / INTERRUPTED / "status.json").write_text(json.dumps(raw))
    status = run_of(INTERRUPTED).status()
    assert (status.state, status.total_steps, status.code, status.message) == (read, 3, "disk", "full")
    assert (status.state in RESUMABLE) == (read is not State.DONE)


def test_recognizes_starters_by_their_old_module_path() -> None:
    for name in (BI_ENCODER, CROSS_ENCODER):
        assert content("runs", name, "model", "modules.json")[0]["type"].startswith("retrieval.starter.")
        assert is_starter(find_model(name))


def test_stored_comparison_opens_with_the_same_metrics() -> None:
    (stored_comparison,) = list_comparisons()
    raw = content("comparisons", COMPARISON, "scores.json")
    assert stored_comparison.key == COMPARISON
    assert stored_comparison.retrievers == ("BM25", "Dense", "Hybrid", "Reranked")
    assert stored_comparison.created_at == "2026-11-22T01:47:13.525+00:00"
    assert (stored_comparison.questions, stored_comparison.passages) == (36, 12)
    opened = load(stored_comparison.folder, question_set())
    for result in opened.results:
        before = raw["retrievers"][result.name]
        metrics = {measure: value for measure, value in before.items() if "@" in measure}
        assert stored_comparison.metrics[result.name] == metrics
        assert result.scores is not None
        assert result.scores.means() == pytest.approx(metrics, abs=1e-12)
        assert (result.build_seconds, result.memory_bytes) == (before["build_seconds"], before["memory_bytes"])
        assert result.rankings is not None
        np.testing.assert_array_equal(result.rankings.indices, rankings_before()[result.name].indices)
        np.testing.assert_array_equal(result.rankings.scores, rankings_before()[result.name].scores)


def test_same_experiment_reuses_the_stored_comparison(tmp_path: Path) -> None:
    """Its folder is named by the experiment, every default of it and the set: none may change unnoticed."""
    folder = workspace() / "comparisons" / COMPARISON
    for same_experiment in (experiment(tmp_path), read_experiment(folder / "experiment.toml")):
        job = ComparisonJob.of(same_experiment, question_set().fingerprint)
        assert job.folder == folder
        assert job.done
        assert not job.running
        assert not job.failed
        assert "36 questions, 12 passages" in job.log()


def test_a_comparison_that_never_ended_can_be_started_again(tmp_path: Path) -> None:
    (workspace() / "comparisons" / COMPARISON / "scores.json").unlink()
    job = ComparisonJob.of(experiment(tmp_path), question_set().fingerprint)
    assert (job.done, job.running, job.failed) == (False, False, False)
    assert list_comparisons() == []


@pytest.mark.slow
def test_models_reproduce_their_rankings(tmp_path: Path) -> None:
    comparison = compare(experiment(tmp_path), question_set())
    for result in comparison.results:
        assert result.error is None
        assert result.rankings is not None
        before = rankings_before()[result.name].first(10)
        np.testing.assert_array_equal(result.rankings.first(10).indices, before.indices, err_msg=result.name)
        # another processor adds in another order
        np.testing.assert_allclose(result.rankings.first(10).scores, before.scores, rtol=1e-3, err_msg=result.name)


@pytest.mark.slow
def test_resumed_run_ends_with_the_weights_of_an_uninterrupted_run() -> None:
    from safetensors.numpy import load_file

    run = run_of(INTERRUPTED)
    whole = run_of(BI_ENCODER)
    assert replace(run.plan().options, save_minutes=10.0) == whole.plan().options
    checkpoint = newest_checkpoint(run.folder)
    assert checkpoint is not None
    assert get_step(checkpoint) == 1
    run.write_status(replace(run.status(), state=State.QUEUED, pid=0, pid_started=0.0))
    assert train(run).state is State.DONE
    measured = [entry["step"] for entry in run.progress() if "eval_validation_ndcg@10" in entry]
    assert measured == [3]  # once, at the end of the epoch
    ours, theirs = (load_file(trained_run.model_folder / "model.safetensors") for trained_run in (run, whole))
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        np.testing.assert_allclose(ours[name], array, rtol=0, atol=1e-6, err_msg=name)
    assert run.scores()["after"] == whole.scores()["after"]
