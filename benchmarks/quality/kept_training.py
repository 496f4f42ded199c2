"""A training of a benchmark that takes most of an hour, and goes on where it was interrupted.

With BENCH_WORKSPACE a folder keeps what was done: a training that is done is not done again, and pairs that were scored
and texts that were encoded are read.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.material import korquad
from benchmarks.quality.article_split import compared, figures
from data.records import QuestionSet
from data.split import Part, SplitOptions
from jobs.status import RESUMABLE, State, Status
from retrieval.comparison.spec import Spec
from training.options.common import TrainingOptions
from training.runs.runs import Run, all_runs, create_run, new_plan
from training.train import train


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


def trained(kind: str, name: str, question_set: QuestionSet, options: TrainingOptions, shares: SplitOptions) -> Run:
    """Return the run of these options over this set, where there is one as far as it has come, and finish it."""
    known = (one for one in all_runs() if one.plan().options == options and one.plan().split == shares)
    run = next((one for one in known if one.plan().fingerprint == question_set.fingerprint), None)
    if run is None:
        data = (str(korquad()), question_set.name, question_set.fingerprint)
        run = create_run(new_plan(kind, name, data, shares, options))
    return finished(run)


def finished(run: Run) -> Run:
    """Train as far as it goes; one that was interrupted goes on from its checkpoint. Raises `RuntimeError`."""
    status = run.status()
    if status.state in RESUMABLE:
        run.write_status(Status(State.QUEUED, queued=time.time(), seconds=status.spent))
    if status.state is not State.DONE and (ended := train(run)).state is not State.DONE:
        raise RuntimeError(f"{run.id} is {ended.state}: {ended.message}")
    return run


def best(question_set: QuestionSet, specs: list[Spec], tried: dict[float, Spec], shares: SplitOptions) -> float:
    """Return the value whose retriever is best on validation questions; `specs` are what the tried ones need."""
    reached = figures(compared(question_set, Part.VALIDATION, *specs, *tried.values(), split=shares))
    return max(tried, key=lambda value: reached[tried[value].name])
