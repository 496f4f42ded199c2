"""A search for settings: trials taken from round to round, and how they compare with the defaults.

`Sweep` is what a search and an ablation share. Everything is read from the folders of its runs, so a sweep that was
stopped or killed continues where it was.
"""

import json
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np

from mrc_workbench.data.jobs.folder import AskedToStop, State, Status, carry_out
from mrc_workbench.data.problems import Failure
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.measures import Scores
from mrc_workbench.retrieval.significance import LEVEL, Pair, intervals_of, paired_tests, question_groups
from mrc_workbench.training.halving import (
    SHARES,
    Changes,
    Cost,
    changes_of,
    going_on,
    relative_time,
    schedule,
    survivors,
    trial_options,
)
from mrc_workbench.training.jobs import (
    DEFAULTS,
    ROUNDS,
    CompositeRun,
    Estimate,
    Findings,
    Rehearsal,
    RehearsalTask,
    Search,
    Stage,
    Tried,
)
from mrc_workbench.training.options import TrainingError
from mrc_workbench.training.recipes import recipe_of
from mrc_workbench.training.recipes.material import QuestionScores
from mrc_workbench.training.runs import Plan, Run, find_run
from mrc_workbench.training.train import execute, in_turn, load_material, problem_of

_SECONDS_BETWEEN_WRITES = 0.5
_SECONDS_BETWEEN_LOOKS = 0.2
_ENOUGH_TO_TELL_THE_PACE = 5.0  # seconds
_TOO_LITTLE_TIME = "time was up before anything could be compared: give the search more minutes"
_LOSSES = 5  # logged last, that are averaged

J = TypeVar("J", bound=CompositeRun)
Measured = dict[float, tuple[int, Scores]]  # by share of the longest trial's length: the step, and the scores there


class Sweep(ABC, Generic[J]):
    """One process that runs a search for settings or an ablation."""

    def __init__(self, job: J, status: Status) -> None:
        self._job, self._status, self._plan = job, status, job.plan()
        self._began, self._written = time.monotonic(), 0.0

    @abstractmethod
    def work(self) -> None:
        """Continue to the end. Raises `AskedToStop`, and `Failure` if there is no result."""

    @classmethod
    def execute(cls, job: J, *, sent_by_worker: bool = False) -> Status:
        """Wait for the machine, do the job in this process and return how it ended; see `training.train.train`."""

        def work(job: J) -> Status:
            return carry_out(job, lambda status: cls(job, status).work(), problem_of)

        return in_turn(job, work, sent_by_worker=sent_by_worker)

    def _taken_up(self, run: Run, create: Callable[[], Run]) -> Run:
        if find_run(run.id):
            (run.folder / "stop").unlink(missing_ok=True)
            return run
        shutil.rmtree(run.folder, ignore_errors=True)  # half made, by a process that was killed
        return create()

    def _enter(self, stage: str, number: int | None = None, *, step: int = 0, total_steps: int = 0) -> None:
        """Write what is done now; `number` is of the round or of the run."""
        phase = str(stage) if number is None else f"{stage}_{number}"
        self._status = replace(self._status, phase=phase, step=step, total_steps=total_steps)
        self._job.write_status(self._status)

    def _is_due(self) -> bool:
        return time.monotonic() - self._written >= _SECONDS_BETWEEN_WRITES

    def _report(self, share: float, seconds_left: float | None) -> None:
        self._written = time.monotonic()
        self._status = replace(self._status, share=min(1.0, max(0.0, share)), seconds_left=seconds_left)
        self._job.write_status(self._status)


def find_settings(search: Search, *, sent_by_worker: bool = False) -> Status:
    """Wait for the machine, search in this process and return how it ended; see `Sweep.execute`."""
    return _Searching.execute(search, sent_by_worker=sent_by_worker)


class _Searching(Sweep[Search]):
    """`_done` and `_all` are estimated seconds of work."""

    def __init__(self, search: Search, status: Status) -> None:
        super().__init__(search, status)
        self._budget = 60 * self._plan.minutes
        self._began = self._done = self._done_before = self._all = 0.0

    def work(self) -> None:
        self._enter(Stage.LOADING)
        groups = question_groups(load_material(self._plan).validation)
        if "changes" not in self._job.read("search.json"):
            self._decide()
        decided = self._job.read("search.json")
        self._changes, self._epochs, self._all = decided["changes"], decided["epochs"], decided["seconds"]
        self._cost = Cost(**decided["cost"])
        self._began = time.monotonic()
        self._halve(groups)
        result = self._compared(groups)
        if not result or len(result.tried) < 2:
            raise Failure("settings_time", _TOO_LITTLE_TIME)
        for run in self._job.parts():
            _forget_checkpoints(run)
        self._job.keep(result)

    def _decide(self) -> None:
        """Write what is tried and how far it goes, by the estimate of an epoch."""
        self._enter(Stage.ESTIMATING)
        options = self._plan.options
        one_epoch = replace(options, epochs=1.0, evaluation_steps=0, save_steps=0)
        estimate = self._estimate(replace(self._plan, options=one_epoch, minutes=0.0))
        import mrc_workbench.training.trainers  # noqa: F401

        # libraries and analyses are loaded by now, as they are when a trial loads
        began = time.monotonic()
        recipe_of(self._plan.kind)(options, load_material(self._plan)).task(find_model(options.base))
        estimate = replace(estimate, seconds_loading=time.monotonic() - began)
        if self._job.asked_to_stop:
            raise AskedToStop
        try:
            left = self._budget - self._spent - estimate.seconds_teaching
            planned = schedule(options, changes_of(options), estimate, left)
        except Failure as failure:
            self._job.write("search.json", failure.details)
            raise
        self._job.write("search.json", asdict(planned))

    def _estimate(self, plan: Plan) -> Estimate:
        rehearsal = Rehearsal.of(plan, RehearsalTask.ESTIMATE)
        if not (rehearsal.done or rehearsal.running):
            rehearsal.start(plan)
        while rehearsal.running:
            if self._is_over():
                rehearsal.end()
                break
            self._write_soon(0.0)
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        if rehearsal.done:
            return rehearsal.estimate()
        if self._is_over() and not self._job.asked_to_stop:
            raise Failure("settings_time", _TOO_LITTLE_TIME)
        if rehearsal.asked_to_stop:  # here, or where the page shows it
            raise AskedToStop
        raise TrainingError(*rehearsal.problem())

    def _halve(self, groups: np.ndarray) -> None:
        """Take the trials through the rounds; ends early when time is up."""
        running = list(range(DEFAULTS, len(self._changes) + 1))
        for number_of_round, (before, share) in enumerate(pairwise((0.0, *SHARES)), start=1):
            for number in running:
                relative = relative_time(self._plan.options, self._changes[number - 1])
                weight = self._cost.leg(relative, self._epochs * (share - before))
                if not self._takes(number, share, weight, number_of_round):
                    return
                self._done += weight
                if result := self._compared(groups):
                    self._job.keep(result, so_far=True)
            if share < 1:
                # a trial that failed is behind all others
                scores = {number: measured(self._job.trial(number)).get(share) for number in running}
                best_by = self._plan.options.best_by
                values = {number: at[1].means()[best_by] if at else -1.0 for number, at in scores.items()}
                running = going_on(values, survivors(len(self._changes), number_of_round))
                for number in set(values) - set(running):
                    _forget_checkpoints(self._job.trial(number))

    def _takes(self, number: int, share: float, weight: float, number_of_round: int) -> bool:
        """Take a trial as far as `share`; False if time is up before. A failed trial does not end the search."""
        run = self._job.trial(number)
        failed = number != DEFAULTS and find_run(run.id) is not None and run.status().state is State.FAILED
        if share in measured(run) or failed:
            self._done_before += weight  # by a process before this one
            return True
        if self._is_over():
            return False
        self._enter(Stage.TRYING, number_of_round, step=number, total_steps=len(self._changes))
        ready = self._taken_up(run, lambda: self._create(number))
        first = run.status().step / max(1, run.status().total_steps)

        def report(done: float) -> None:
            self._write_soon((done - first) / (share - first) * weight if share > first else weight)

        from mrc_workbench.training.trainers import TrialWatch  # imports transformers

        ended = execute(ready, TrialWatch(run, share, self._is_over, report))
        if self._job.asked_to_stop:
            raise AskedToStop
        if ended.state is State.FAILED and number == DEFAULTS:
            raise TrainingError(ended.code, ended.message)
        return share in measured(run) or ended.state is State.FAILED

    def _create(self, number: int) -> Run:
        options = trial_options(self._plan.options, self._changes[number - 1], self._epochs)
        run = self._job.create_trial(number, options, len(self._changes))
        known = self._job.trial(DEFAULTS).folder / "before.json"
        if known.is_file():  # the base is the same
            run.write(known.name, json.loads(known.read_text(encoding="utf-8")))
        return run

    def _compared(self, groups: np.ndarray) -> Findings | None:
        """Return the comparison of the trials so far; None before the defaults are measured."""
        runs = {number: self._job.trial(number) for number in range(DEFAULTS, len(self._changes) + 1)}
        known = {number: scores for number, run in runs.items() if (scores := measured(run))}
        if DEFAULTS not in known:
            return None
        losses = {
            number: [entry["loss"] for entry in run.progress() if "loss" in entry] for number, run in runs.items()
        }
        before = runs[DEFAULTS].read("before.json")
        # earlier versions stored the results on these questions alone
        untrained = before.get("validation", before)[self._plan.options.best_by]
        return findings(
            self._plan.options.best_by,
            self._changes,
            known,
            {number: float(np.mean(last[-_LOSSES:])) for number, last in losses.items() if last},
            groups,
            epochs=self._epochs,
            untrained=float(np.mean(untrained)),
            failed=tuple(
                number for number, run in runs.items() if find_run(run.id) and run.status().state is State.FAILED
            ),
        )

    @property
    def _spent(self) -> float:
        return self._status.seconds + time.time() - self._status.started

    def _is_over(self) -> bool:
        return self._job.asked_to_stop or self._spent > self._budget

    def _write_soon(self, more: float) -> None:
        if not self._is_due():
            return
        done = self._done + more
        here, passed = done - self._done_before, time.monotonic() - self._began
        pace = passed / here if here > 0 and passed > _ENOUGH_TO_TELL_THE_PACE else 1.0
        left = max(0.0, min(pace * (self._all - done), self._budget - self._spent))
        self._report(done / self._all if self._all else 0.0, left)


def _forget_checkpoints(run: Run) -> None:
    shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)


def measured(run: Run) -> Measured:
    """Return a trial's measurements; empty if there are none."""
    rounds = run.read(ROUNDS).items()
    return {float(share): (round_["step"], QuestionScores.of(round_["scores"])) for share, round_ in rounds}


def findings(
    measure: str,
    changes: list[Changes],
    measured: Mapping[int, Measured],
    losses: Mapping[int, float],
    groups: np.ndarray,
    *,
    epochs: float,
    untrained: float,
    failed: tuple[int, ...] = (),
) -> Findings:
    """Compare each trial with the defaults after the same fraction of their training.

    The differences are paired by question, and those of all trials are tested together (`paired_tests`), so the best of
    them is one of the family. The best trial has the largest difference among those trained furthest; without a
    difference above 0 it is the defaults. Raises `KeyError` if the defaults were not measured.
    """
    defaults = measured[DEFAULTS]
    last = {number: max(share for share in of if share in defaults) for number, of in measured.items() if of}
    others = [number for number in last if number != DEFAULTS]
    pairs = []
    for number in others:
        a, b = (of[last[number]][1].per_question[measure] for of in (measured[number], defaults))
        pairs.append(Pair(str(number), "defaults", measure, a, b))
    tests = dict(zip(others, paired_tests(pairs, groups), strict=True))
    tried = []
    for number, share in sorted(last.items()):
        step, scores = measured[number][share]
        low, high = intervals_of(scores, groups)[measure]
        test = tests.get(number)
        tried.append(
            Tried(
                number,
                changes[number - 1],
                share=share,
                epochs=epochs * share,
                steps=step,
                value=scores.means()[measure],
                low=low,
                high=high,
                difference=test.difference if test else 0.0,
                difference_low=test.low if test else 0.0,
                difference_high=test.high if test else 0.0,
                p_family=test.p_family if test else 1.0,
                loss=losses.get(number),
            )
        )
    furthest = max((last[number] for number in others), default=0.0)
    candidates = [trial for trial in tried if trial.number != DEFAULTS and trial.share == furthest]
    best = max(candidates, key=lambda trial: trial.difference, default=tried[0])
    if best.difference <= 0:
        best = tried[0]
    return Findings(
        measure=measure,
        questions=len(groups),
        untrained=untrained,
        best=best.number,
        chosen=best.number if best.p_family < 1 - LEVEL and best.difference > 0 else DEFAULTS,
        tried=tuple(tried),
        failed=failed,
        untried=tuple(set(range(1, len(changes) + 1)) - set(last) - set(failed)),
    )
