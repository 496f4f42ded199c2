"""What the views of an evaluation are drawn from, and the work in a process of its own that they may wait for."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.pairs.store import StoredPairs
from mrc_workbench.data.split import Part
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.data.workspace import workspace
from mrc_workbench.labs.embeddings.encoder import Distinct
from mrc_workbench.labs.embeddings.judgement import BANDS
from mrc_workbench.labs.embeddings.results import Evaluation, ModelResult, Request, load
from mrc_workbench.labs.embeddings.study import STUDY, TaskResult, load_task
from mrc_workbench.models.files import ModelError
from mrc_workbench.retrieval.significance import Interval
from mrc_workbench.training.runs import Run
from mrc_workbench.workbench.views.resources.sets import cached, opened, pair_set, parts_of
from mrc_workbench.workbench.views.ui.job import draw_job
from mrc_workbench.workbench.views.ui.state import choose_named
from mrc_workbench.workbench.views.ui.words import failure_text, known, plain, word

CORRELATIONS = ("spearman", "pearson")
ACCURACY = "nli_accuracy"
SHARES = (*CORRELATIONS, ACCURACY)  # told a hundredfold, as papers do


@cached(max_entries=8)
def distinct_of(key: str, part: Part) -> Distinct:
    return Distinct.of(pair_set(key).at(parts_of(key)[part]))


def open_evaluation(folder: Path) -> Evaluation | None:
    return opened(load, folder)


def measures_of(kind: PairKind) -> tuple[str, ...]:
    """The measures that say which model is better on a set of this kind; none of one without scores or labels."""
    return {PairKind.SCORED: CORRELATIONS, PairKind.LABELLED: (ACCURACY,)}.get(kind, ())


@dataclass(frozen=True)
class EvaluationView:
    """An evaluation of a part of a stored set, and the measure looked at, empty where the set's kind has none.

    `names` are those of all models that can be picked, by reference in their fixed order; `runs` the trained ones.
    """

    data: StoredPairs
    evaluation: Evaluation
    names: Mapping[str, str]
    runs: Mapping[str, Run]
    measure: str

    @property
    def every(self) -> list[str]:
        """The names of all models, which decide the colours."""
        return [*self.names.values()]

    @property
    def part(self) -> Part:
        return self.evaluation.part

    @property
    def pairs(self) -> PairSet:
        return pair_set(self.data.key)

    @cached_property
    def measured(self) -> dict[str, ModelResult]:
        """The models that have figures, by name, those of the best measure first where there is one."""
        found = [(self.names[one.model], one) for one in self.evaluation.measured.values()]
        if self.measure:
            found.sort(key=lambda pair: -pair[1].figures[self.measure].value if self.measure in pair[1].figures else 1)
        return dict(found)

    @property
    def references(self) -> dict[str, str]:
        """References of the measured models by name, in the order picked."""
        return {self.names[reference]: reference for reference in self.evaluation.measured}


def kept_figures(data: StoredPairs, part: Part, measure: str) -> dict[str, Interval]:
    """Return a figure of every model that was measured on this part of the set, by its reference, the newest."""
    paths = sorted((workspace() / "embeddings").glob("*/scores.json"), key=lambda path: -path.stat().st_mtime)
    found: dict[str, Interval] = {}
    for path in paths:
        evaluation = open_evaluation(path.parent)
        if evaluation and (evaluation.data_fingerprint, evaluation.part) == (data.fingerprint, part):
            for model, one in evaluation.measured.items():
                if measure in one.figures:
                    found.setdefault(model, one.figures[measure])
    return found


def band_labels(scale: tuple[float, float]) -> list[str]:
    """Return the ends of each fifth of a scale, the lowest first."""
    return [f"{low:g} – {high:g}" for low, high in pairwise(np.linspace(*scale, BANDS + 1))]


def pick_model(view: EvaluationView, name: str, label: str = "embeddings.model") -> str:
    """Draw the choice, the best model first; it lies in the address by this name. Returns the reference."""
    names = {view.references[one]: one for one in view.measured}
    return choose_named(name, word(label), names, next(iter(names)), width=320)


def finished(
    request: Request, data: StoredPairs, names: Mapping[str, str], *, start: str | None = None
) -> TaskResult | None:
    """Return the result of a request; if there is none yet, draw the progress of its job and return None.

    It starts by itself, once a session, or by a button where it is given the words of one to `start` it.
    """
    try:
        job = STUDY.job(request, data.fingerprint)
    except ModelError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return None
    if job.done:
        return load_task(job.folder)
    draw(job, request, names, start=start)
    return None


def draw(
    job: StudyJob[Any, Any],
    request: Request,
    names: Mapping[str, str],
    *,
    start: str | None = None,
    about: str = "",
) -> None:
    """Draw a job's progress or why it failed. Without a `start` label, start it once per session.

    `about` is Markdown above the start button.
    """

    def at_work(status: Status) -> str:
        model = names.get(status.phase, status.phase)
        return word("embeddings.at_work", model=plain(model)) if model else word("embeddings.starting")

    def reason(status: Status) -> str:
        # in the person's language where the model is all that the words ask for, else as the process told it
        key = f"model.{status.code}" if known(f"model.{status.code}") else f"embeddings.failed_{status.code}"
        try:
            return word(key, model=getattr(request, "model", ""))
        except KeyError:
            return status.message

    begin, label = partial(job.start, request), start or word("embeddings.start")
    draw_job(job, begin, at_work, "embeddings", label, about=about, reason=reason, by_itself=start is None)
