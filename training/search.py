"""A search for settings, and `Sweep`, the base class of searches and ablations, which resume from folders."""

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np

from mrc_workbench.data.files import current_names
from mrc_workbench.data.jobs.folder import State, Status, StopRequested, run_job
from mrc_workbench.data.problems import Failure
from mrc_workbench.retrieval.measures import Scores
from mrc_workbench.retrieval.significance import LEVEL, Pair, PairTest, intervals_of, paired_tests, question_groups
from mrc_workbench.training import halving, jobs
from mrc_workbench.training.options import TrainingError, current_options
from mrc_workbench.training.recipes.training_data import QuestionScores
from mrc_workbench.training.runs import Run, TrainingPlan, find_run
from mrc_workbench.training.train import LoadedTraining, describe_error, execute, load_training_data, run_in_queue

_SECONDS_BETWEEN_WRITES = 0.5
_SECONDS_BETWEEN_POLLS = 0.2
_MIN_SECONDS_FOR_PACE = 5.0
_TIME_UP_MESSAGE = "the time is over before trials could be compared: give the search more minutes"
_AVERAGED_LOSSES = 5  # the last logged losses

J = TypeVar("J", bound=jobs.CompositeRun)
TrialMeasurements = dict[float, tuple[int, Scores]]  # step and scores by fraction of the longest trial's length


class Sweep(ABC, Generic[J]):
    """One process that runs a search for settings or an ablation."""

    def __init__(self, job: J, status: Status) -> None:
        self._job = job
        self._status = status
        self._plan = job.plan()
        self._began = time.monotonic()
        self._written = 0.0

    @abstractmethod
    def work(self) -> None:
        """Continue to the end. Raises `StopRequested`, and `Failure` without a result."""

    @classmethod
    def execute(cls, job: J, *, sent_by_worker: bool = False) -> Status:
        """Wait for the queue, execute the job in this process and return its status; see `training.train.train`."""

        def work(job: J) -> Status:
            return run_job(job, lambda status: cls(job, status).work(), describe_error)

        return run_in_queue(job, work, sent_by_worker=sent_by_worker)

    def _resume_or_create(self, run: Run, create: Callable[[], Run]) -> Run:
        if find_run(run.id):
            (run.folder / "stop").unlink(missing_ok=True)
            return run
        shutil.rmtree(run.folder, ignore_errors=True)  # incomplete, of a killed process
        return create()

    def _enter_stage(self, stage: str, number: int | None = None, *, step: int = 0, total_steps: int = 0) -> None:
        """Write the current stage; `number` is that of the round or the run."""
        phase = str(stage) if number is None else f"{stage}_{number}"
        self._status = replace(self._status, phase=phase, step=step, total_steps=total_steps)
        self._job.write_status(self._status)

    def _is_due(self) -> bool:
        return time.monotonic() - self._written >= _SECONDS_BETWEEN_WRITES

    def _report(self, progress: float, seconds_left: float | None) -> None:
        self._written = time.monotonic()
        self._status = replace(self._status, progress=min(1.0, max(0.0, progress)), seconds_left=seconds_left)
        self._job.write_status(self._status)


def search_settings(search: jobs.SettingsSearch, *, sent_by_worker: bool = False) -> Status:
    """Execute a search; see `Sweep.execute`."""
    return _SettingsSweep.execute(search, sent_by_worker=sent_by_worker)


class _SettingsSweep(Sweep[jobs.SettingsSearch]):
    """`_done` and `_total` are estimated seconds of work."""

    def __init__(self, search: jobs.SettingsSearch, status: Status) -> None:
        super().__init__(search, status)
        self._budget = 60 * self._plan.minutes
        self._began = self._done = self._done_before = self._total = 0.0

    def work(self) -> None:
        self._enter_stage(jobs.SearchStage.LOADING)
        groups = question_groups(load_training_data(self._plan).validation)
        if "changes" not in self._job.read("search.json"):
            self._plan_trials()
        schedule_content = self._job.read("search.json")
        self._changes = [current_options(changes) for changes in schedule_content["changes"]]
        self._epochs = schedule_content["epochs"]
        self._total = schedule_content["seconds"]
        cost = current_names(schedule_content["cost"], {"measuring": "evaluation"}, "search.json")
        self._cost = halving.TrialCost(**cost)
        self._began = time.monotonic()
        self._run_rounds(groups)
        result = self._compare_trials(groups)
        if not result or len(result.trials) < 2:
            raise Failure("settings_time", _TIME_UP_MESSAGE)
        for run in self._job.parts():
            _delete_checkpoints(run)
        self._job.save_outcome(result)

    def _plan_trials(self) -> None:
        """Write the schedule of trials, based on the estimate of an epoch."""
        self._enter_stage(jobs.SearchStage.ESTIMATING)
        options = self._plan.options
        epoch_options = replace(options, epochs=1.0, evaluation_steps=0, save_steps=0)
        estimate = self._estimate(replace(self._plan, options=epoch_options, minutes=0.0))
        import mrc_workbench.training.trainers  # noqa: F401

        # libraries and text analyses are loaded now, as for a trial
        began = time.monotonic()
        LoadedTraining.from_plan(self._plan).build_task()
        estimate = replace(estimate, seconds_loading=time.monotonic() - began)
        if self._job.stop_requested:
            raise StopRequested
        try:
            left = self._budget - self._seconds_spent - estimate.seconds_labelling
            planned = halving.schedule(options, halving.propose_changes(options), estimate, left)
        except Failure as failure:
            self._job.write("search.json", failure.details)
            raise
        self._job.write("search.json", asdict(planned))

    def _estimate(self, plan: TrainingPlan) -> jobs.Estimate:
        dry_run = jobs.DryRunJob.for_plan(plan, jobs.DryRunTask.ESTIMATE)
        if not (dry_run.done or dry_run.running):
            dry_run.start(plan)
        while dry_run.running:
            if self._is_over():
                dry_run.kill()
                break
            self._write_progress(0.0)
            time.sleep(_SECONDS_BETWEEN_POLLS)
        if dry_run.done:
            return dry_run.estimate()
        if self._is_over() and not self._job.stop_requested:
            raise Failure("settings_time", _TIME_UP_MESSAGE)
        if dry_run.stop_requested:  # here, or where the page shows it
            raise StopRequested
        raise TrainingError(*dry_run.problem())

    def _run_rounds(self, groups: np.ndarray) -> None:
        """Run the trials in rounds; ends early when the time is over."""
        running = list(range(jobs.DEFAULTS, len(self._changes) + 1))
        fractions = pairwise((0.0, *halving.ROUND_FRACTIONS))
        for round_number, (previous_fraction, fraction) in enumerate(fractions, start=1):
            for number in running:
                relative_duration = halving.relative_time(self._plan.options, self._changes[number - 1])
                weight = self._cost.round_seconds(relative_duration, self._epochs * (fraction - previous_fraction))
                if not self._run_trial(number, fraction, weight, round_number):
                    return
                self._done += weight
                if result := self._compare_trials(groups):
                    self._job.save_outcome(result, is_partial=True)
            if fraction < 1:
                # failed trials come last
                scores = {number: read_measurements(self._job.trial(number)).get(fraction) for number in running}
                best_by = self._plan.options.best_by
                values = {n: result[1].means()[best_by] if result else -1.0 for n, result in scores.items()}
                running = halving.select_survivors(values, halving.count_survivors(len(self._changes), round_number))
                for number in set(values) - set(running):
                    _delete_checkpoints(self._job.trial(number))

    def _run_trial(self, number: int, fraction: float, weight: float, round_number: int) -> bool:
        """Train a trial up to `fraction`; False if the time is over. A failed trial does not end the search."""
        run = self._job.trial(number)
        if fraction in read_measurements(run) or (number != jobs.DEFAULTS and _has_failed(run)):
            self._done_before += weight  # by an earlier process
            return True
        if self._is_over():
            return False
        self._enter_stage(jobs.SearchStage.TRYING, round_number, step=number, total_steps=len(self._changes))
        trial_run = self._resume_or_create(run, lambda: self._create_trial(number))
        progress_before = run.status().step / max(1, run.status().total_steps)

        def report(progress: float) -> None:
            is_behind = fraction > progress_before
            done = (progress - progress_before) / (fraction - progress_before) if is_behind else 1.0
            self._write_progress(done * weight)

        from mrc_workbench.training.trainers import TrialCallback  # imports transformers

        status = execute(trial_run, TrialCallback(run, fraction, self._is_over, report))
        if self._job.stop_requested:
            raise StopRequested
        if status.state is State.FAILED and number == jobs.DEFAULTS:
            raise TrainingError(status.code, status.message)
        return fraction in read_measurements(run) or status.state is State.FAILED

    def _create_trial(self, number: int) -> Run:
        options = halving.trial_options(self._plan.options, self._changes[number - 1], self._epochs)
        run = self._job.create_trial(number, options, len(self._changes))
        if stored := self._job.trial(jobs.DEFAULTS).base_measurement():  # of the same base
            run.write("before.json", stored)
        return run

    def _compare_trials(self, groups: np.ndarray) -> jobs.SettingsSearchResult | None:
        """Return the comparison of the trials so far; None before the defaults are evaluated."""
        runs = {number: self._job.trial(number) for number in range(jobs.DEFAULTS, len(self._changes) + 1)}
        measurements = {number: scores for number, run in runs.items() if (scores := read_measurements(run))}
        if jobs.DEFAULTS not in measurements:
            return None
        logged = {n: [entry["loss"] for entry in run.progress() if "loss" in entry] for n, run in runs.items()}
        losses = {n: float(np.mean(values[-_AVERAGED_LOSSES:])) for n, values in logged.items() if values}
        before = runs[jobs.DEFAULTS].base_measurement()
        # earlier versions stored only the results on validation questions
        untrained = before.get("validation", before)[self._plan.options.best_by]
        return compare_trials(
            self._plan.options.best_by,
            self._changes,
            measurements,
            losses,
            groups,
            epochs=self._epochs,
            untrained=float(np.mean(untrained)),
            failed=tuple(number for number, run in runs.items() if _has_failed(run)),
        )

    @property
    def _seconds_spent(self) -> float:
        return self._status.seconds + time.time() - self._status.started

    def _is_over(self) -> bool:
        return self._job.stop_requested or self._seconds_spent > self._budget

    def _write_progress(self, extra_seconds: float) -> None:
        if not self._is_due():
            return
        done = self._done + extra_seconds
        done_here = done - self._done_before
        elapsed = time.monotonic() - self._began
        pace = elapsed / done_here if done_here > 0 and elapsed > _MIN_SECONDS_FOR_PACE else 1.0
        left = max(0.0, min(pace * (self._total - done), self._budget - self._seconds_spent))
        self._report(done / self._total if self._total else 0.0, left)


def _has_failed(run: Run) -> bool:
    return find_run(run.id) is not None and run.status().state is State.FAILED


def _delete_checkpoints(run: Run) -> None:
    shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)


def read_measurements(run: Run) -> TrialMeasurements:
    """Return a trial's measurements by fraction of its training."""
    rounds = run.read(jobs.ROUNDS).items()
    return {float(name): (entry["step"], QuestionScores.from_dict(entry["scores"])) for name, entry in rounds}


def compare_trials(
    measure: str,
    changes: list[halving.OptionChanges],
    measured: Mapping[int, TrialMeasurements],
    losses: Mapping[int, float],
    groups: np.ndarray,
    *,
    epochs: float,
    untrained: float,
    failed: tuple[int, ...] = (),
) -> jobs.SettingsSearchResult:
    """Compare trials with the defaults at their last common round, paired by question and corrected for all."""
    defaults = measured[jobs.DEFAULTS]
    last_fraction = {number: max(set(results) & set(defaults)) for number, results in measured.items() if results}
    others = [number for number in last_fraction if number != jobs.DEFAULTS]
    tests = _test_against_defaults(measure, measured, {number: last_fraction[number] for number in others}, groups)
    results = []
    for number, fraction in sorted(last_fraction.items()):
        step, scores = measured[number][fraction]
        low, high = intervals_of(scores, groups)[measure]
        result = jobs.TrialResult(
            number,
            changes[number - 1],
            fraction=fraction,
            epochs=epochs * fraction,
            steps=step,
            value=scores.means()[measure],
            low=low,
            high=high,
            loss=losses.get(number),
        )
        if test := tests.get(number):
            interval: dict[str, Any] = {"difference_low": test.low, "difference_high": test.high}
            result = replace(result, difference=test.difference, **interval, p_family=test.p_family)
        results.append(result)
    furthest = max((last_fraction[number] for number in others), default=0.0)
    candidates = [trial for trial in results if trial.number != jobs.DEFAULTS and trial.fraction == furthest]
    best = max(candidates, key=lambda trial: trial.difference, default=results[0])
    if best.difference <= 0:
        best = results[0]
    return jobs.SettingsSearchResult(
        measure=measure,
        questions=len(groups),
        untrained=untrained,
        best=best.number,
        selected=best.number if best.p_family < 1 - LEVEL and best.difference > 0 else jobs.DEFAULTS,
        trials=tuple(results),
        failed=failed,
        skipped=tuple(set(range(1, len(changes) + 1)) - set(last_fraction) - set(failed)),
    )


def _test_against_defaults(
    measure: str, measured: Mapping[int, TrialMeasurements], fractions: Mapping[int, float], groups: np.ndarray
) -> dict[int, PairTest]:
    """Return the tests of trials, each after its fraction of the steps, by number."""
    pairs = []
    for number, fraction in fractions.items():
        own, of_defaults = (measured[trial][fraction][1].per_question[measure] for trial in (number, jobs.DEFAULTS))
        pairs.append(Pair(str(number), "defaults", measure, own, of_defaults))
    return dict(zip(fractions, paired_tests(pairs, groups), strict=True))
