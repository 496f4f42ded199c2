"""Curves and archives are what the run folder holds, no more and no less."""

import zipfile
from itertools import pairwise

import pytest

from data.processes import this_process
from tests.doubles import small_set
from tests.training.worlds import planned
from training.archive import zipped_model
from training.curves import MOST_POINTS, curves, thinned
from training.options import Kind
from training.runs import Run, State, Status, find_run, run_at_work
from training.train import train


@pytest.fixture
def run() -> Run:
    return planned(Kind.BI_ENCODER, small_set())


def test_curves_hold_each_logged_figure_at_its_step(run: Run) -> None:
    run.add_measures("bm25", {"recall@10": 0.9, "ndcg@10": 0.8})
    run.add_measures("before", {"recall@10": 0.5})
    run.add_progress({"step": 5, "loss": 1.5})
    run.add_progress({"step": 7, "eval_validation_cosine_recall@10": 0.6, "eval_validation_ndcg@10": 0.1})
    found = curves(run, Kind.BI_ENCODER)
    assert (found.loss, found.measured, found.bm25) == ([(5, 1.5)], [(0, 0.5), (7, 0.6)], 0.9)
    found = curves(run, Kind.CROSS_ENCODER)
    assert (found.measure, found.measured, found.bm25) == ("ndcg@10", [(7, 0.1)], 0.8)


def test_a_run_that_logged_nothing_has_empty_curves(run: Run) -> None:
    found = curves(run, Kind.BI_ENCODER)
    assert (found.loss, found.measured, found.bm25) == ([], [], None)


@pytest.mark.parametrize("count", [0, 1, MOST_POINTS, MOST_POINTS + 1, 12_345])
def test_a_long_curve_is_thinned_evenly_and_keeps_its_ends(count: int) -> None:
    points = [(step, float(step)) for step in range(count)]
    kept = thinned(points)
    assert len(kept) == min(count, MOST_POINTS)
    assert kept[:1] + kept[-1:] == points[:1] + points[-1:]
    gaps = {right[0] - left[0] for left, right in pairwise(kept)}
    assert max(gaps, default=0) - min(gaps, default=0) <= 1


def test_the_zip_holds_the_model_and_leaves_nothing_behind(run: Run) -> None:
    (run.model_folder / "1_Part").mkdir(parents=True)
    (run.model_folder / "1_Part" / "model.safetensors").write_bytes(b"weights")
    before = set(run.folder.parent.parent.iterdir())
    with zipped_model(run) as file, zipfile.ZipFile(file) as archive:
        assert archive.read(f"{run.id}/1_Part/model.safetensors") == b"weights"
    assert set(run.folder.parent.parent.iterdir()) == before


def test_the_run_at_work_is_the_one_with_a_living_process(run: Run) -> None:
    assert run_at_work() is None
    pid, started = this_process()
    run.write_status(Status(State.RUNNING, pid=pid, pid_started=started))
    assert run_at_work() == run
    run.write_status(Status(State.RUNNING, pid=pid, pid_started=started - 1))
    assert run_at_work() is None


def test_a_killed_run_that_was_asked_to_stop_is_stopped(run: Run) -> None:
    run.write_status(Status(State.RUNNING, pid=2**22 + 1, pid_started=1.0))
    assert run.status().state is State.INTERRUPTED
    run.ask_to_stop()
    assert run.status().state is State.STOPPED


def test_a_run_asked_to_stop_before_it_began_does_no_work(run: Run) -> None:
    run.ask_to_stop()
    assert train(run).state is State.STOPPED
    assert run.progress() == []


@pytest.mark.parametrize("name", ["..", "../x", "", "a/b", "no such run", "x" * 300, "a\0b"])
def test_no_name_but_an_id_finds_a_run(run: Run, name: str) -> None:
    assert find_run(run.id) == run
    assert find_run(name) is None
    assert find_run(str(run.folder)) is None
