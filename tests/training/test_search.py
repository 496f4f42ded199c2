"""Searches: each trial is a run, interruptions change nothing, limits hold, and comparisons are corrected."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.jobs.processes import PROGRAM, process_of, start_detached
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import find, save_question_set
from mrc_workbench.retrieval.measures import Scores
from mrc_workbench.retrieval.significance import pair_tests, question_groups
from mrc_workbench.training import jobs
from mrc_workbench.training import search as finding
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions
from mrc_workbench.training.runs import TrainingPlan, all_runs, find_run, new_plan
from mrc_workbench.training.search import TrialMeasurements, compare_trials, read_measurements, search_settings
from mrc_workbench.training.train import load_training_data
from tests.programs import wait_for_fork_server
from tests.training.test_resume import again
from tests.training.worlds import all_searches, misleading_set, read_logged, wait_until

pytestmark = pytest.mark.slow

OPTIONS = BiEncoderOptions(batch_size=4, epochs=2.0, learning_rate=1e-3, best_by="recall@1", evaluation_limit=0)
CHANGES = [{}, {"learning_rate": 0.05}, {"learning_rate": 1e-7}]


def make_plan() -> TrainingPlan:
    stored = save_question_set(misleading_set(questions_a_passage=2))
    return new_plan(BI_ENCODER, "mine", (stored.key, stored.name, stored.fingerprint), SplitOptions(0.3, 0.2), OPTIONS)


def answered(plan: TrainingPlan, seconds: float) -> None:
    short_plan = replace(plan, options=replace(plan.options, epochs=1.0, evaluation_steps=0, save_steps=0))
    epoch_estimate = jobs.Estimate(9, seconds, 3 * seconds, 1.0, 1_000, 10**12, "cpu", fits=True, suggested_options={})
    jobs.DryRunJob.for_plan(short_plan, jobs.DryRunTask.ESTIMATE).write("estimate.json", asdict(epoch_estimate))


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.training.halving.propose_changes", lambda _: CHANGES)


def create_small_search(seconds: float = 0.01) -> jobs.SettingsSearch:
    plan = make_plan()
    answered(plan, seconds)
    return jobs.create_search(plan, 60.0)


@pytest.fixture
def search(three: None) -> jobs.SettingsSearch:
    return create_small_search()


@pytest.fixture(scope="module")
def _whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, jobs.SettingsSearch]:
    folder = tmp_path_factory.mktemp("searches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(folder))
        patch.setattr("mrc_workbench.training.halving.propose_changes", lambda _: CHANGES)
        whole = create_small_search()
        status = search_settings(whole)
        assert status.state is State.DONE, status.message
        return folder, whole


@pytest.fixture
def whole(_whole: tuple[Path, jobs.SettingsSearch]) -> jobs.SettingsSearch:
    return _whole[1]


@pytest.fixture
def there(_whole: tuple[Path, jobs.SettingsSearch], monkeypatch: pytest.MonkeyPatch) -> jobs.SettingsSearch:
    monkeypatch.setenv("MRC_WORKSPACE", str(_whole[0]))
    return _whole[1]


def values(job: jobs.SettingsSearch) -> dict[int, dict[float, tuple[int, list[float]]]]:
    """Return measurements by fraction: the step, and the measure of each question."""
    by_number = {number: read_measurements(job.trial(number)).items() for number in (1, 2, 3)}
    measure = "recall@1"
    return {
        number: {share: (step, scores.per_question[measure].tolist()) for share, (step, scores) in measurements}
        for number, measurements in by_number.items()
    }


def test_trials_follow_successive_halving(there: jobs.SettingsSearch) -> None:
    assert there.outcome is not None
    assert there.done
    states = {number: there.trial(number).status().state for number in (1, 2, 3)}
    assert sorted(states.values()) == [State.DONE, State.DONE, State.STOPPED]
    assert states[1] is State.DONE  # the defaults always continue
    behind = next(number for number, state in states.items() if state is State.STOPPED)
    lengths = {number: there.trial(number).status().total_steps for number in states}
    assert len(set(lengths.values())) == 1
    total = lengths[1]
    quarter = int(np.ceil(total / 4))
    half = int(np.ceil(total / 2))
    for number, shares in values(there).items():
        expected = [quarter] if number == behind else [quarter, half, total]
        assert [step for step, _ in shares.values()] == expected
        steps = [entry["step"] for entry in there.trial(number).progress() if "loss" in entry]
        assert steps == list(range(1, expected[-1] + 1))  # it resumed without repeated steps
    plan = there.trial(2).plan()
    assert (plan.name, plan.options.learning_rate, plan.options.batch_size) == ("settings 2 of 3", 0.05, 4)
    assert plan.trial is not None
    assert (plan.trial.parent_id, plan.trial.number, plan.trial.count, plan.minutes) == (there.id, 2, 3, 0.0)
    assert not any((run.folder / "checkpoints").exists() for run in there.parts())


def test_intervals_match_separate_tests(there: jobs.SettingsSearch) -> None:
    outcome = there.outcome
    assert outcome is not None
    validation = load_training_data(there.plan()).validation
    groups = question_groups(validation)
    first = outcome.trials[0]
    second = outcome.trials[1]
    mine, theirs = (read_measurements(there.trial(number))[second.fraction][1] for number in (2, 1))
    test = pair_tests({"mine": mine, "theirs": theirs}, ["recall@1"], groups)[0]
    assert second.difference == test.difference
    assert second.difference_low <= test.low <= test.high <= second.difference_high  # corrected for the others
    assert second.p_family >= test.p
    assert outcome.questions == len(validation.questions)
    losses = read_logged(there.trial(1), "loss")
    assert first.loss == pytest.approx(np.mean(losses[-5:]))
    before = json.loads((there.trial(1).folder / "before.json").read_text())["validation"]["recall@1"]
    assert outcome.untrained == pytest.approx(np.mean(before))


def test_never_uses_test_questions(there: jobs.SettingsSearch) -> None:
    plan = there.plan()
    known = len(load_training_data(plan).validation.questions)
    for run in there.parts():
        rounds = [scores for trial in values(there).values() for _, scores in trial.values()]
        assert all(len(scores) == known for scores in rounds)
        assert run.provenance()["data"]["validation_questions"] == known
    assert len(find(plan.data).questions) > known


def test_searches_are_not_listed_as_trainings(there: jobs.SettingsSearch) -> None:
    assert jobs.find_job(there.id) == there == jobs.load_job(there.folder)
    assert all_searches() == [there]
    assert jobs.all_jobs() == [there, *all_runs()]
    assert sorted(all_runs()) == there.parts()
    assert jobs.QUEUE.queued() == []


def stopped_in(search: jobs.SettingsSearch, monkeypatch: pytest.MonkeyPatch, number: int, step: int) -> None:
    from mrc_workbench.training.trainers import TrialCallback

    original_step_end = TrialCallback.on_step_end

    def on_step_end(self: TrialCallback, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._run == search.trial(number) and state.global_step == step:
            search.request_stop()
        original_step_end(self, args, state, control, **kwargs)

    monkeypatch.setattr(TrialCallback, "on_step_end", on_step_end)


def test_resumes_identically_after_stop_and_deleted_trial(
    search: jobs.SettingsSearch, whole: jobs.SettingsSearch
) -> None:
    assert jobs.QUEUE.queued() == jobs.all_jobs() == [search]
    for number, step in ((1, 1), (2, 3)):
        with pytest.MonkeyPatch.context() as patch:
            stopped_in(search, patch, number, step)
            assert search_settings(search).state is State.STOPPED
        assert not search.done
        again(search)
    search.trial(1).delete()
    assert find_run(search.trial(1).id) is None
    assert search_settings(search).state is State.DONE
    assert values(search) == values(whole)
    assert search.outcome == whole.outcome
    search.delete()
    assert jobs.all_jobs() == []
    assert not list(search.folder.parent.glob("2*"))


def test_resumes_after_kill(search: jobs.SettingsSearch, whole: jobs.SettingsSearch) -> None:
    search.write("search.json", whole.read("search.json"))  # the process would propose six settings
    wait_for_fork_server()
    process = start_detached(PROGRAM, "internal", "runs", search.folder, log=search.folder / "log.txt")
    wait_until(lambda: bool(read_logged(search.trial(2), "loss")) or search.status().state is State.FAILED, seconds=300)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    assert search.status().state is State.INTERRUPTED, search.log()[-3000:]
    assert not any(run.status().is_running for run in search.parts())
    again(search)
    assert search_settings(search).state is State.DONE
    assert values(search) == values(whole)
    assert search.outcome == whole.outcome


def test_reports_partial_results_at_time_limit(search: jobs.SettingsSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    over = finding._SettingsSweep._is_over
    monkeypatch.setattr(
        finding._SettingsSweep, "_is_over", lambda self: bool(read_measurements(search.trial(2))) or over(self)
    )
    assert search_settings(search).state is State.DONE
    outcome = search.outcome
    assert outcome is not None
    assert ([trial.number for trial in outcome.trials], outcome.skipped) == ([1, 2], (3,))


def test_fails_without_results_at_time_limit(search: jobs.SettingsSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding._SettingsSweep, "_is_over", lambda _: bool(read_measurements(search.trial(1))))
    status = search_settings(search)
    assert (status.state, status.code) == (State.FAILED, "settings_time")


def test_ends_slow_estimate_at_time_limit(three: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: jobs.DryRunJob, plan: TrainingPlan) -> None:
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        self.write_status(Status(State.RUNNING, pid=process.pid, pid_started=process_of(process.pid).started))

    monkeypatch.setattr(jobs.DryRunJob, "start", start)
    plan = make_plan()
    search = jobs.create_search(plan, 0.02)
    status = search_settings(search)
    assert (status.state, status.code) == (State.FAILED, "settings_time")
    options = replace(plan.options, epochs=1.0)
    assert not jobs.DryRunJob.for_plan(replace(plan, options=options), jobs.DryRunTask.ESTIMATE).running


def test_reports_too_little_time_before_trials(three: None) -> None:
    search = create_small_search(seconds=1000.0)
    status = search_settings(search)
    assert (status.state, status.code) == (State.FAILED, "settings_minutes")
    assert search.read("search.json")["minutes"] > 60
    assert search.parts() == []


def failing(number: int) -> Callable[..., Any]:
    real = finding.execute

    def execute(run: Any, watch: Any = None) -> Any:
        if run.plan().trial.number != number:
            return real(run, watch)
        run.write_status(replace(run.status(), state=State.FAILED, code="memory", message="no more"))
        return run.status()

    return execute


def test_failed_trial_does_not_stop_others(search: jobs.SettingsSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "execute", failing(2))
    assert search_settings(search).state is State.DONE
    outcome = search.outcome
    assert outcome is not None
    assert ([trial.number for trial in outcome.trials], outcome.failed, outcome.skipped) == ([1, 3], (2,), ())


def test_fails_without_default_trial(search: jobs.SettingsSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "execute", failing(1))
    status = search_settings(search)
    assert (status.state, status.code, status.message) == (State.FAILED, "memory", "no more")


# results by hand, corrected for multiple trials

N = 200
GROUPS = np.repeat(np.arange(N // 2), 2)
RNG = np.random.default_rng(0)
DEFAULTS = RNG.random(N) * 0.5


def scored(values: np.ndarray) -> Scores:
    return Scores((1,), {"ndcg@10": values})


def compare(measured: dict[int, TrialMeasurements], count: int) -> jobs.SettingsSearchResult:
    changes = [{}, *({"learning_rate": float(number)} for number in range(2, count + 1))]
    return compare_trials("ndcg@10", changes, measured, {1: 0.5}, GROUPS, epochs=2.0, untrained=0.2)


def test_selects_significantly_better_trial() -> None:
    better = DEFAULTS + 0.2 + 0.1 * RNG.standard_normal(N)
    whole = ((1, DEFAULTS), (2, better))
    measured = {number: {0.25: (5, scored(values - 0.1)), 1.0: (20, scored(values))} for number, values in whole}
    outcome = compare({**measured, 3: {0.25: (5, scored(DEFAULTS - 0.2))}}, 4)
    first, second, third = outcome.trials
    assert (outcome.best, outcome.selected, outcome.changes) == (2, 2, {"learning_rate": 2.0})
    assert (first.value, first.difference, first.loss) == (pytest.approx(DEFAULTS.mean()), 0.0, 0.5)
    assert second.difference == pytest.approx((better - DEFAULTS).mean())
    assert second.difference_low < second.difference < second.difference_high
    assert (second.steps, second.epochs) == (20, 2.0)
    # compared with the defaults after the same steps
    assert (third.difference, third.fraction, third.epochs) == (pytest.approx(-0.1), 0.25, 0.5)
    assert outcome.skipped == (4,)


def test_equal_trials_keep_defaults() -> None:
    outcome = compare({number: {1.0: (20, scored(DEFAULTS))} for number in (1, 2, 3)}, 3)
    assert (outcome.best, outcome.selected, outcome.changes) == (1, 1, {})
    assert [trial.p_family for trial in outcome.trials] == [1.0, 1.0, 1.0]


def test_insignificant_gain_keeps_defaults() -> None:
    lucky = DEFAULTS.copy()
    lucky[:4] += 0.3
    outcome = compare({1: {1.0: (20, scored(DEFAULTS))}, 2: {1.0: (20, scored(lucky))}}, 2)
    assert (outcome.best, outcome.selected) == (2, 1)
    assert outcome.trials[1].p_family > 0.05


def test_corrects_for_multiple_trials() -> None:
    """By hand, over all 64 swaps of 6 groups: the largest t of all trials (Westfall & Young)."""
    groups = np.arange(6)
    zero = np.zeros(6)
    p_values = {2: np.array([0.1] * 5 + [0.2]), 3: np.array([1, -1] * 3) / 10, 4: np.array([1, 1, -1] * 2) / 9}
    changes = [{}, {"seed": 2}, {"seed": 3}, {"seed": 4}]
    signs = 1 - 2 * ((np.arange(64)[:, None] >> np.arange(6)) & 1)

    def compare_numbers(numbers: tuple[int, ...]) -> jobs.SettingsSearchResult:
        some: dict[int, TrialMeasurements] = {1: {share: (4, scored(zero)) for share in (0.25, 1.0)}}
        some |= {number: {1.0 if number == 2 else 0.25: (4, scored(p_values[number]))} for number in numbers}
        return compare_trials("ndcg@10", changes, some, {}, groups, epochs=1.0, untrained=0.0)

    def by_hand(numbers: tuple[int, ...]) -> float:
        t = np.stack([np.abs(signs @ p_values[number]) / np.linalg.norm(p_values[number]) for number in numbers])
        return float((t.max(axis=0) >= t[0, 0] - 1e-9).mean())

    for numbers in ((2,), (2, 3, 4)):
        outcome = compare_numbers(numbers)
        assert outcome.trials[1].p_family == pytest.approx(by_hand(numbers))
        assert outcome.selected == (2 if by_hand(numbers) < 0.05 else 1)
    assert (by_hand((2,)), by_hand((2, 3, 4))) == (2 / 64, 6 / 64)


def test_compares_last_common_round() -> None:
    """The defaults continued; the comparison uses the last round of the other trial."""
    defaults = {0.25: (5, scored(DEFAULTS)), 0.5: (10, scored(DEFAULTS + 0.3))}
    outcome = compare({1: defaults, 2: {0.25: (5, scored(DEFAULTS + 0.2))}}, 2)
    assert (outcome.best, outcome.selected) == (2, 2)
    assert outcome.trials[1].difference == pytest.approx(0.2)
