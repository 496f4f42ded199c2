"""Helpers for KorQuAD dev split by shuffled articles: 40 for testing, 14 for validation, 86 for training.

A training takes most of an hour and resumes after an interruption. `BENCH_WORKSPACE` is a permanent workspace, in which
finished trainings, scored pairs and encoded texts are reused.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from benchmarks.synthetic_data import korquad
from mrc_workbench.data.jobs.folder import RESUMABLE, State, Status
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.measures import Scores
from mrc_workbench.retrieval.significance import Pair, PairTest, intervals_of, paired_tests, question_groups
from mrc_workbench.training.options import TrainingOptions
from mrc_workbench.training.runs import Run, TrainingPlan, all_runs, create_run, new_plan
from mrc_workbench.training.train import train

SPLIT = SplitOptions(validation=0.1, test=40 / 140)
# 28 validation articles: on 14, BM25 retrieves nearly everything, and the few other questions select poor values
MORE_VALIDATION = SplitOptions(validation=0.2, test=40 / 140)
MEASURE = "ndcg@10"


def compare_part(
    question_set: QuestionSet,
    part: Part,
    *retrievers: Spec,
    split: SplitOptions = SPLIT,
    ks: tuple[int, ...] = (1, 10),
) -> Comparison:
    """Compare retrievers on a part of the questions."""
    experiment = Experiment(
        data=str(korquad()),
        split=part,
        validation_fraction=split.validation,
        test_fraction=split.test,
        seed=split.seed,
        ks=ks,
        retriever=retrievers,
    )
    return compare(experiment, question_set)


def scores(comparison: Comparison) -> dict[str, Scores]:
    """Return the scores by retriever. Raises `RuntimeError` if a retriever failed."""
    if failed := [result for result in comparison.results if result.error]:
        raise RuntimeError(f"{failed[0].name}: {failed[0].error}")
    return comparison.scores


def mean_ndcg(comparison: Comparison) -> dict[str, float]:
    """Return mean nDCG@10 by retriever."""
    return {name: retriever_scores.means()[MEASURE] for name, retriever_scores in scores(comparison).items()}


def table(tested: Comparison) -> list[str]:
    """Return a Markdown table with a row per retriever, in percent."""
    groups = question_groups(tested.question_set)
    lines = [
        f"| {len(tested.question_set.questions):,} test questions | R@1 | R@10 | nDCG@10 | 95% interval |",
        "|---|---:|---:|---:|---:|",
    ]
    return lines + [f"| {name} | {metric_cells(values, groups)} |" for name, values in scores(tested).items()]


def metric_cells(
    values: Scores, groups: np.ndarray, measures: Sequence[str] = ("recall@1", "recall@10", MEASURE)
) -> str:
    """Return table cells in percent: the mean of each measure, and the 95% interval of nDCG@10."""
    means = values.means()
    low, high = intervals_of(values, groups)[MEASURE]
    return " | ".join(
        [*(f"{100 * means[measure]:.2f}" for measure in measures), f"{100 * low:.2f} to {100 * high:.2f}"]
    )


def differences(tested: Comparison, *pairs: tuple[str, str]) -> list[str]:
    """Return a sentence per pair with the difference of the second retriever from the first, and its test."""
    values = {name: retriever_scores.per_question[MEASURE] for name, retriever_scores in scores(tested).items()}
    family = [Pair(second, first, MEASURE, values[second], values[first]) for first, second in pairs]
    return [describe_test(test, len(pairs)) for test in paired_tests(family, question_groups(tested.question_set))]


def describe_test(test: PairTest, n_tests: int) -> str:
    """Return a sentence with the difference in points, its interval and its p-value, corrected for `n_tests`."""
    is_above = test.difference >= 0
    ends = (test.low, test.high) if is_above else (0 - test.high, 0 - test.low)  # 0 - x: no "-0.00"
    low, high = (f"{100 * end:.2f}" for end in ends)
    points = f"{100 * abs(test.difference):.2f} points of nDCG@10 {'above' if is_above else 'below'} {test.b}"
    p = f"p = {test.p_family:.4f}" + (f", corrected for {n_tests} tests" if n_tests > 1 else "")
    wins = f"better for {test.wins} questions, worse for {test.losses}"
    return f"{test.a} is {points} ({low} to {high}; {p}); {wins}."


@contextmanager
def workspace() -> Iterator[None]:
    """Use the workspace `BENCH_WORKSPACE`, or a temporary one."""
    if folder := os.environ.get("BENCH_WORKSPACE"):
        os.environ["MRC_WORKSPACE"] = folder
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        yield


def train_or_resume(
    kind: str, name: str, question_set: QuestionSet, options: TrainingOptions, split: SplitOptions
) -> Run:
    """Return the finished run of these options on KorQuAD; see `finish_run`."""
    return finish_run(kind, name, (str(korquad()), question_set.name, question_set.fingerprint), split, options)


def finish_run(kind: str, name: str, data: tuple[str, str, str], split: SplitOptions, options: TrainingOptions) -> Run:
    """Return the run of these options on `data` (reference, name, fingerprint); train or resume it if necessary.

    Raises `RuntimeError` if the training fails.
    """
    plan = new_plan(kind, name, data, split, options)
    run = next((run for run in all_runs() if _identity(run.plan()) == _identity(plan)), None) or create_run(plan)
    status = run.status()
    if status.state in RESUMABLE:
        run.write_status(Status(State.QUEUED, queued=time.time(), seconds=status.total_seconds))
    if status.state is not State.DONE and (ended := train(run)).state is not State.DONE:
        raise RuntimeError(f"{run.id} is {ended.state}: {ended.message}")
    return run


def _identity(plan: TrainingPlan) -> tuple[TrainingOptions, SplitOptions, str]:
    return plan.options, plan.split, plan.fingerprint


def best_value(
    question_set: QuestionSet, specs: list[Spec], spec_of_value: dict[float, Spec], split: SplitOptions
) -> float:
    """Return the value whose retriever is best on validation questions; `specs` are their first stages."""
    ndcg_of_retriever = mean_ndcg(
        compare_part(question_set, Part.VALIDATION, *specs, *spec_of_value.values(), split=split)
    )
    return max(spec_of_value, key=lambda value: ndcg_of_retriever[spec_of_value[value].name])
