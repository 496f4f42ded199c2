"""The metrics of the retrievers that an unfinished comparison has searched, marked as a partial result."""

from collections.abc import Sequence
from typing import Literal

import pandas as pd
import streamlit as st

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.workbench.views.compare.scores import draw_table
from mrc_workbench.workbench.views.leading import leading_measure
from mrc_workbench.workbench.views.names import retriever_name
from mrc_workbench.workbench.views.ui.words import plain, word

Ending = Literal["stopped", "failed", "interrupted"]


def finished_names(job: ComparisonJob) -> list[str]:
    """Return the names of the retrievers that the job has searched, without those that failed."""
    return [name for name, retriever in job.finished().items() if not retriever.failed]


def how_it_ended(job: ComparisonJob) -> Ending:
    """Return whether a user stopped an unfinished job, it failed, or its process is gone without a word."""
    if job.is_stopped:
        return "stopped"
    return "failed" if job.status().state is State.FAILED else "interrupted"


def draw_heading(how: Ending | Literal["running"], names: Sequence[str]) -> None:
    """Say which retrievers the metrics below are of, and what became of the others."""
    st.markdown(word(f"compare.partial_{how}", names=_listed(names)))


def draw_missing(how: Ending, experiment: Experiment, finished: Sequence[str]) -> None:
    """Say which retrievers have no metrics yet, and why."""
    missing = [name for name in experiment.specs if name not in finished]
    st.markdown(word(f"compare.missing_{how}", names=_listed(missing)))


def draw_metrics(job: ComparisonJob, experiment: Experiment, names: Sequence[str]) -> None:
    """Draw a row for each of these retrievers, empty where the job has not searched it yet.

    A running comparison draws all rows from the beginning: a browser reads what draws a table before it is filled.
    """
    finished = job.finished()
    rows = []
    for name in names:
        figures = finished[name].figures if name in finished else {}
        rows.append({"retriever": name, **figures})
    questions = max((retriever.questions for retriever in finished.values()), default=0)
    draw_table(pd.DataFrame(rows), questions or 1, leading_measure(experiment.ks), experiment.ks)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(plain(retriever_name(name)) for name in names)
