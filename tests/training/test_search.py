"""A search: every trial is a run, the same however often it was interrupted; time is kept, and none wins by chance."""

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
from mrc_workbench.data.jobs.processes import PROGRAM, detached, process_of
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import find, keep
from mrc_workbench.retrieval.measures import Scores
from mrc_workbench.retrieval.significance import pair_tests, question_groups
from mrc_workbench.training import search as finding
from mrc_workbench.training.jobs import (
    QUEUE,
    Estimate,
    Findings,
    Rehearsal,
    RehearsalTask,
    Search,
    all_jobs,
    create_search,
    find_job,
    job_at,
)
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions
from mrc_workbench.training.runs import Plan, all_runs, find_run, new_plan
from mrc_workbench.training.search import Measured, find_settings, findings, measured
from mrc_workbench.training.train import load_material
from tests.programs import have_libraries_read
from tests.training.test_resume import again
from tests.training.worlds import all_searches, logged, misleading_set, wait_until

pytestmark = pytest.mark.slow

OPTIONS = BiEncoderOptions(batch_size=4, epochs=2.0, learning_rate=1e-3, best_by="recall@1", evaluation_limit=0)
CHANGES = [{}, {"learning_rate": 0.05}, {"learning_rate": 1e-7}]


def planned(question_set: QuestionSet, options: BiEncoderOptions = OPTIONS) -> Plan:
    kept = keep(question_set)
    return new_plan(BI_ENCODER, "mine", (kept.key, kept.name, kept.fingerprint), SplitOptions(0.3, 0.2), options)


def answered(plan: Plan, *, steps: int = 9, seconds: float = 0.01) -> None:
    """Leave the answer to what an epoch would take, as the page does after it was asked."""
    one_epoch = replace(plan, options=replace(plan.options, epochs=1.0, evaluation_steps=0, save_steps=0))
    told = Estimate(steps, seconds, 3 * seconds, 1.0, 1_000, 10**12, "cpu", fits=True, instead={})
    Rehearsal.of(one_epoch, RehearsalTask.ESTIMATE).write("estimate.json", asdict(told))


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three settings are tried."""
    monkeypatch.setattr(finding, "changes_of", lambda _: CHANGES)


@pytest.fixture
def search(three: None) -> Search:
    plan = planned(misleading_set(questions_a_passage=2))
    answered(plan)
    return create_search(plan, 60.0)


@pytest.fixture(scope="module")
def _whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Search]:
    folder = tmp_path_factory.mktemp("searches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(folder))
        patch.setattr(finding, "changes_of", lambda _: CHANGES)
        plan = planned(misleading_set(questions_a_passage=2))
        answered(plan)
        whole = create_search(plan, 60.0)
        status = find_settings(whole)
        assert status.state is State.DONE, status.message
        return folder, whole


@pytest.fixture
def whole(_whole: tuple[Path, Search]) -> Search:
    """A search that nothing interrupted."""
    return _whole[1]


@pytest.fixture
def there(_whole: tuple[Path, Search], monkeypatch: pytest.MonkeyPatch) -> Search:
    """The same; the test sees its workspace."""
    monkeypatch.setenv("MRC_WORKSPACE", str(_whole[0]))
    return _whole[1]


def values(job: Search) -> dict[int, dict[float, tuple[int, list[float]]]]:
    """What was measured of each trial, by share: the step, and the measure of each question."""
    return {
        number: {
            share: (step, scores.per_question["recall@1"].tolist())
            for share, (step, scores) in measured(job.trial(number)).items()
        }
        for number in (1, 2, 3)
    }


def test_trials_are_runs_that_halve(there: Search) -> None:
    found = there.found
    assert found is not None
    assert there.done
    states = {number: there.trial(number).status().state for number in (1, 2, 3)}
    assert sorted(states.values()) == [State.DONE, State.DONE, State.STOPPED]
    assert states[1] is State.DONE  # the defaults go on to the end
    behind = next(number for number, state in states.items() if state is State.STOPPED)
    lengths = {number: there.trial(number).status().total_steps for number in states}
    assert len(set(lengths.values())) == 1
    total = lengths[1]
    quarter, half = int(np.ceil(total / 4)), int(np.ceil(total / 2))
    for number, shares in values(there).items():
        expected = [quarter] if number == behind else [quarter, half, total]
        assert [step for step, _ in shares.values()] == expected
        steps = [entry["step"] for entry in there.trial(number).progress() if "loss" in entry]
        assert steps == list(range(1, expected[-1] + 1))  # it resumed, and did no step twice
    plan = there.trial(2).plan()
    assert (plan.name, plan.options.learning_rate, plan.options.batch_size) == ("settings 2 of 3", 0.05, 4)
    assert plan.trial is not None
    assert (plan.trial.search, plan.trial.number, plan.trial.count, plan.minutes) == (there.id, 2, 3, 0.0)
    assert not any((run.folder / "checkpoints").exists() for run in there.parts())


def test_the_figures_are_those_of_the_same_questions_tested_alone(there: Search) -> None:
    found = there.found
    assert found is not None
    validation = load_material(there.plan()).validation
    groups = question_groups(validation)
    first, one = found.tried[0], found.tried[1]
    mine, theirs = (measured(there.trial(number))[one.share][1] for number in (2, 1))
    test = pair_tests({"mine": mine, "theirs": theirs}, ["recall@1"], groups)[0]
    assert one.difference == test.difference
    assert one.difference_low <= test.low <= test.high <= one.difference_high  # it allows for the others, too
    assert one.p_family >= test.p
    assert found.questions == len(validation.questions)
    losses = logged(there.trial(1), "loss")
    assert first.loss == pytest.approx(np.mean(losses[-5:]))
    before = json.loads((there.trial(1).folder / "before.json").read_text())["validation"]["recall@1"]
    assert found.untrained == pytest.approx(np.mean(before))


def test_test_questions_are_never_looked_at(there: Search) -> None:
    plan = there.plan()
    known = len(load_material(plan).validation.questions)
    for run in there.parts():
        assert all(len(one) == known for shares in values(there).values() for _, one in shares.values())
        assert run.provenance()["data"]["validation_questions"] == known
    assert len(find(plan.data).questions) > known


def test_searches_are_no_trainings(there: Search) -> None:
    assert find_job(there.id) == there == job_at(there.folder)
    assert all_searches() == [there]
    assert all_jobs() == [there, *all_runs()]
    assert sorted(all_runs()) == there.parts()
    assert QUEUE.queued() == []


def stopped_in(search: Search, monkeypatch: pytest.MonkeyPatch, number: int, step: int) -> None:
    from mrc_workbench.training.trainers import TrialWatch

    told = TrialWatch.on_step_end

    def on_step_end(self: TrialWatch, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._run == search.trial(number) and state.global_step == step:
            search.ask_to_stop()
        told(self, args, state, control, **kwargs)

    monkeypatch.setattr(TrialWatch, "on_step_end", on_step_end)


def test_stopped_resumed_and_a_trial_deleted_it_comes_out_the_same(search: Search, whole: Search) -> None:
    assert QUEUE.queued() == all_jobs() == [search]
    for number, step in ((1, 1), (2, 3)):
        with pytest.MonkeyPatch.context() as patch:
            stopped_in(search, patch, number, step)
            assert find_settings(search).state is State.STOPPED
        assert not search.done
        again(search)
    search.trial(1).delete()
    assert find_run(search.trial(1).id) is None
    assert find_settings(search).state is State.DONE
    assert values(search) == values(whole)
    assert search.found == whole.found
    search.delete()
    assert all_jobs() == []
    assert not list(search.folder.parent.glob("2*"))


def test_killed_in_a_trial_it_goes_on(search: Search, whole: Search) -> None:
    search.write("search.json", whole.read("search.json"))  # of which the process would know six settings
    have_libraries_read()
    process = detached(PROGRAM, "internal", "runs", search.folder, log=search.folder / "log.txt")
    wait_until(lambda: bool(logged(search.trial(2), "loss")) or search.status().state is State.FAILED, seconds=300)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    assert search.status().state is State.INTERRUPTED, search.log()[-3000:]
    assert not any(run.status().at_work for run in search.parts())
    again(search)
    assert find_settings(search).state is State.DONE
    assert values(search) == values(whole)
    assert search.found == whole.found


def test_when_time_is_up_it_tells_what_there_is(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    over = finding._Searching._is_over
    monkeypatch.setattr(finding._Searching, "_is_over", lambda self: bool(measured(search.trial(2))) or over(self))
    assert find_settings(search).state is State.DONE
    found = search.found
    assert found is not None
    assert ([one.number for one in found.tried], found.untried) == ([1, 2], (3,))


def test_with_nothing_to_compare_when_time_is_up_it_fails(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding._Searching, "_is_over", lambda _: bool(measured(search.trial(1))))
    status = find_settings(search)
    assert (status.state, status.code) == (State.FAILED, "settings_time")


def test_an_estimate_that_takes_all_the_time_is_ended(three: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: Rehearsal, plan: Plan) -> None:
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        self.write_status(Status(State.RUNNING, pid=process.pid, pid_started=process_of(process.pid).started))

    monkeypatch.setattr(Rehearsal, "start", start)
    plan = planned(misleading_set(questions_a_passage=2))
    search = create_search(plan, 0.02)
    status = find_settings(search)
    assert (status.state, status.code) == (State.FAILED, "settings_time")
    options = replace(plan.options, epochs=1.0)
    assert not Rehearsal.of(replace(plan, options=options), RehearsalTask.ESTIMATE).running


def test_too_little_time_is_told_before_anything_is_tried(three: None) -> None:
    plan = planned(misleading_set(questions_a_passage=2))
    answered(plan, seconds=1000.0)
    search = create_search(plan, 60.0)
    status = find_settings(search)
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


def test_a_trial_that_fails_fails_alone(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "execute", failing(2))
    assert find_settings(search).state is State.DONE
    found = search.found
    assert found is not None
    assert ([one.number for one in found.tried], found.failed, found.untried) == ([1, 3], (2,), ())


def test_without_the_defaults_there_is_nothing_to_compare_with(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "execute", failing(1))
    status = find_settings(search)
    assert (status.state, status.code, status.message) == (State.FAILED, "memory", "no more")


# what came out: sums by hand, and no winner by chance

N = 200
GROUPS = np.repeat(np.arange(N // 2), 2)
RNG = np.random.default_rng(0)
DEFAULTS = RNG.random(N) * 0.5


def scored(values: np.ndarray) -> Scores:
    return Scores((1,), {"ndcg@10": values})


def found_of(measured: dict[int, Measured], count: int) -> Findings:
    changes = [{}, *({"learning_rate": float(number)} for number in range(2, count + 1))]
    return findings("ndcg@10", changes, measured, {1: 0.5}, GROUPS, epochs=2.0, untrained=0.2)


def test_one_that_is_surely_better_is_chosen() -> None:
    better = DEFAULTS + 0.2 + 0.1 * RNG.standard_normal(N)
    told = found_of(
        {
            1: {0.25: (5, scored(DEFAULTS - 0.1)), 1.0: (20, scored(DEFAULTS))},
            2: {0.25: (5, scored(better - 0.1)), 1.0: (20, scored(better))},
            3: {0.25: (5, scored(DEFAULTS - 0.2))},
        },
        4,
    )
    first, second, third = told.tried
    assert (told.best, told.chosen, told.changes) == (2, 2, {"learning_rate": 2.0})
    assert (first.value, first.difference, first.loss) == (pytest.approx(DEFAULTS.mean()), 0.0, 0.5)
    assert second.difference == pytest.approx((better - DEFAULTS).mean())
    assert second.difference_low < second.difference < second.difference_high
    assert (second.steps, second.epochs) == (20, 2.0)
    # compared with the defaults after as many of their steps
    assert (third.difference, third.share, third.epochs) == (pytest.approx(-0.1), 0.25, 0.5)
    assert told.untried == (4,)


def test_equal_ones_leave_the_defaults() -> None:
    told = found_of({number: {1.0: (20, scored(DEFAULTS))} for number in (1, 2, 3)}, 3)
    assert (told.best, told.chosen, told.changes) == (1, 1, {})
    assert [one.p_family for one in told.tried] == [1.0, 1.0, 1.0]


def test_one_that_is_better_on_a_few_questions_is_not_chosen() -> None:
    lucky = DEFAULTS.copy()
    lucky[:4] += 0.3
    told = found_of({1: {1.0: (20, scored(DEFAULTS))}, 2: {1.0: (20, scored(lucky))}}, 2)
    assert (told.best, told.chosen) == (2, 1)
    assert told.tried[1].p_family > 0.05


def test_all_trials_are_tested_together() -> None:
    """By hand, over all 64 swaps of 6 groups: the largest t of any trial, as Westfall & Young have it."""
    groups, zero = np.arange(6), np.zeros(6)
    apart = {
        2: np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.2]),
        3: np.array([1, -1] * 3) / 10,
        4: np.array([1, 1, -1] * 2) / 9,
    }
    changes = [{}, {"seed": 2}, {"seed": 3}, {"seed": 4}]
    signs = 1 - 2 * ((np.arange(64)[:, None] >> np.arange(6)) & 1)

    def told(numbers: tuple[int, ...]) -> Findings:
        some: dict[int, Measured] = {1: {share: (4, scored(zero)) for share in (0.25, 1.0)}}
        some |= {number: {1.0 if number == 2 else 0.25: (4, scored(apart[number]))} for number in numbers}
        return findings("ndcg@10", changes, some, {}, groups, epochs=1.0, untrained=0.0)

    def by_hand(numbers: tuple[int, ...]) -> float:
        t = np.stack([np.abs(signs @ apart[number]) / np.linalg.norm(apart[number]) for number in numbers])
        return float((t.max(axis=0) >= t[0, 0] - 1e-9).mean())

    for numbers in ((2,), (2, 3, 4)):
        found = told(numbers)
        assert found.tried[1].p_family == pytest.approx(by_hand(numbers))
        assert found.chosen == (2 if by_hand(numbers) < 0.05 else 1)
    assert (by_hand((2,)), by_hand((2, 3, 4))) == (2 / 64, 6 / 64)


def test_where_time_was_up_the_last_round_that_two_had_counts() -> None:
    """The defaults had gone on; what is compared is where the other one was left."""
    told = found_of(
        {1: {0.25: (5, scored(DEFAULTS)), 0.5: (10, scored(DEFAULTS + 0.3))}, 2: {0.25: (5, scored(DEFAULTS + 0.2))}}, 2
    )
    assert (told.best, told.chosen) == (2, 2)
    assert told.tried[1].difference == pytest.approx(0.2)
