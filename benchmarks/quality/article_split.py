"""KorQuAD's dev set split by articles: 40 shuffled articles for testing, 14 for validation, 86 for training.

A training on it takes most of an hour and resumes after an interruption. With BENCH_WORKSPACE the folder is kept:
finished trainings, scored pairs and encoded texts are reused.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

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
from mrc_workbench.training.runs import Run, all_runs, create_run, new_plan
from mrc_workbench.training.train import train

SPLIT = SplitOptions(validation=0.1, test=40 / 140)
# 28 articles, not 14: BM25 retrieves nearly all there, and values selected on the few other questions were poor
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
    """The scores by retriever. Raises `RuntimeError` where one failed."""
    if failed := [result for result in comparison.results if result.error]:
        raise RuntimeError(f"{failed[0].name}: {failed[0].error}")
    return comparison.scores


def mean_ndcg(comparison: Comparison) -> dict[str, float]:
    """Mean nDCG@10 by retriever."""
    return {name: retriever_scores.means()[MEASURE] for name, retriever_scores in scores(comparison).items()}


def table(tested: Comparison) -> list[str]:
    """Markdown: a row a retriever, in percent, with the interval of nDCG@10."""
    groups = question_groups(tested.question_set)
    lines = [
        f"| {len(tested.question_set.questions):,} test questions | R@1 | R@10 | nDCG@10 | 95% interval |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, retriever_scores in scores(tested).items():
        means = retriever_scores.means()
        (low, high) = intervals_of(retriever_scores, groups)[MEASURE]
        cells = " | ".join(f"{means[measure] * 100:.2f}" for measure in ("recall@1", "recall@10", MEASURE))
        lines.append(f"| {name} | {cells} | {low * 100:.2f} to {high * 100:.2f} |")
    return lines


def differences(tested: Comparison, *pairs: tuple[str, str]) -> list[str]:
    """A sentence a pair: how far the second is above the first, and how sure that is."""
    by_retriever = scores(tested)
    family = [
        Pair(
            second,
            first,
            MEASURE,
            by_retriever[second].per_question[MEASURE],
            by_retriever[first].per_question[MEASURE],
        )
        for first, second in pairs
    ]
    correction = f", corrected for {len(pairs)} tests" if len(pairs) > 1 else ""
    return [
        f"{_describe_difference(test)}; p = {test.p_family:.4f}{correction}); better for {test.wins} questions, "
        f"worse for {test.losses}."
        for test in paired_tests(family, question_groups(tested.question_set))
    ]


def _describe_difference(test: PairTest) -> str:
    is_above = test.difference >= 0
    ends = (test.low, test.high) if is_above else (0 - test.high, 0 - test.low)  # 0 - x: no "-0.00"
    low, high = (f"{100 * end:.2f}" for end in ends)
    direction = "above" if is_above else "below"
    return f"{test.a} is {100 * abs(test.difference):.2f} points of nDCG@10 {direction} {test.b} ({low} to {high}"


@contextmanager
def workspace() -> Iterator[None]:
    """Work in the folder of BENCH_WORKSPACE, else in one that is deleted at the end."""
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
    """Return the finished run of these options over this dataset; an interrupted run is resumed."""
    candidates = (
        candidate for candidate in all_runs() if candidate.plan().options == options and candidate.plan().split == split
    )
    run = next(
        (candidate for candidate in candidates if candidate.plan().fingerprint == question_set.fingerprint), None
    )
    if run is None:
        data = (str(korquad()), question_set.name, question_set.fingerprint)
        run = create_run(new_plan(kind, name, data, split, options))
    return finish_run(run)


def finish_run(run: Run) -> Run:
    """Train as far as it goes; one that was interrupted goes on from its checkpoint. Raises `RuntimeError`."""
    status = run.status()
    if status.state in RESUMABLE:
        run.write_status(Status(State.QUEUED, queued=time.time(), seconds=status.total_seconds))
    if status.state is not State.DONE and (ended := train(run)).state is not State.DONE:
        raise RuntimeError(f"{run.id} is {ended.state}: {ended.message}")
    return run


def best_value(
    question_set: QuestionSet, specs: list[Spec], spec_of_value: dict[float, Spec], split: SplitOptions
) -> float:
    """Return the value whose retriever is best on validation questions; `specs` are what the tried ones need."""
    ndcg_of_retriever = mean_ndcg(
        compare_part(question_set, Part.VALIDATION, *specs, *spec_of_value.values(), split=split)
    )
    return max(spec_of_value, key=lambda value: ndcg_of_retriever[spec_of_value[value].name])
