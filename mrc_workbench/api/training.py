"""Train models in this process, with the recipes of the Train page and of `mrc train`."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pandas as pd

from mrc_workbench.api.data import Dataset, Source, load
from mrc_workbench.api.values import ApiError, html_table, is_number, is_whole_number, progress_bar, unknown_name
from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.problems import Failure, raise_missing_extra
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.workspace import workspace
from mrc_workbench.training.options import current_options
from mrc_workbench.training.recipes import RECIPES, get_recipe, ranking_kinds
from mrc_workbench.training.runs import Run, TrainingPlan, create_rounds, plan_training
from mrc_workbench.training.text_options import READER

_MEASURED = ("before", "after", "interpolated", "bm25", "unigram")
_SECONDS_BETWEEN = 0.5
_NAMES_OF_TYPES = {bool: "True or False", int: "a whole number", float: "a number", str: "text"}


class TrainingFailedError(Failure, RuntimeError):
    """A failed training; the detail `run` is the id to resume it by."""


@dataclass(frozen=True, repr=False)
class TrainedModel:
    """A finished training: its metrics before and after, and the model that `compare` and `search` take.

    Attributes
    ----------
    run
        the job that the app lists on its Runs tab
    """

    run: Run

    @property
    def id(self) -> str:
        """The id of the run, which names the model in experiment files, in the app and on the command line."""
        return self.run.id

    @property
    def folder(self) -> Path:
        """The folder of the model, for sentence-transformers or transformers."""
        return self.run.model_folder

    @property
    def reference(self) -> str:
        """The value of the field `model` of a retriever."""
        in_workspace = self.run.folder.parent == workspace() / "runs"
        return self.run.id if in_workspace else str(self.run.model_folder)

    @cached_property
    def plan(self) -> TrainingPlan:
        """The plan: kind, data, split and every option."""
        return self.run.plan()

    @cached_property
    def scores(self) -> Mapping[str, Any]:
        """All metrics of the run, as in `scores.json`."""
        return self.run.scores()

    def table(self) -> pd.DataFrame:
        """Return the metrics on held-out questions, a column per metric.

        Rows are "before" (the base), "after" (the trained model), and others of the kind, such as "bm25".
        """
        names = get_recipe(self.plan.kind).family.measures
        rows = {name: self.scores[name] for name in _MEASURED if name in self.scores}
        table = pd.DataFrame.from_dict(rows, orient="index")
        return table.rename(columns={name: str(names.get(name, name)) for name in table.columns})

    def __repr__(self) -> str:
        return f"<TrainedModel {self.plan.name!r}: {self.plan.kind}, run {self.id}>"

    def _repr_html_(self) -> str:
        table = self.table().map(lambda value: f"{value:.4f}").rename_axis("").reset_index()
        return html_table(table, caption=repr(self)[1:-1], notes=[f"model: {self.folder}"])


@raise_missing_extra("mrc_workbench.train")
def train(
    kind: str,
    data: Source,
    *,
    name: str = "",
    test: float = SplitOptions.test,
    validation: float = SplitOptions.validation,
    split_seed: int = SplitOptions.seed,
    progress: bool = True,
    **options: Any,
) -> TrainedModel:
    """Train a model, and evaluate it before and after on held-out questions.

    The app and the command line list its run. A training in rounds returns the last round. Raises `ApiError` with
    suggestions, `DataError`, `OptionError`, and `TrainingFailedError`, for example out of memory.

    Parameters
    ----------
    kind
        "bi-encoder", "cross-encoder", "late-interaction", "sparse-encoder" or "reader" for a question set; "sentences"
        or "sentence-cross-encoder" for sentence pairs; "language-model" for text.
    data
        For a question set, anything that `load` takes; else a path or the name of a stored dataset.
    name
        The name of the run; by default its kind.
    test, validation, split_seed
        Fractions of the articles that are test and validation questions, and the seed of the split.
    options
        Options of the kind, as on the command line: `base="packaged:multilingual-e5-small"`, `epochs=1`,
        `batch_size=32`, `learning_rate=2e-5`. Others get the values that suit the base.
    """
    if not isinstance(kind, str) or kind not in RECIPES:
        raise unknown_name("kind of training", kind, RECIPES)
    checked = _checked_options(kind, options)
    split = _split_options(validation, test, split_seed)
    plan = plan_training(kind, _reference(kind, data), name, split, checked)
    from mrc_workbench.training.train import train as run_training  # loads torch

    runs = create_rounds(plan, attended=True)
    for number, run in enumerate(runs):
        with progress_bar("Training", enabled=progress) as report, _report_progress(run, report):
            status = run_training(run)
        if status.state is not State.DONE:
            for remaining_run in runs[number + 1 :]:
                remaining_run.stop()
            if status.code == "interrupted":
                raise KeyboardInterrupt(f"stopped; the run {run.id} can be resumed from its last checkpoint")
            message = f"the training {run.id} ended early: {status.message or status.state.value}"
            raise TrainingFailedError(status.code or "stopped", message, run=run.id)
    return TrainedModel(runs[-1])


def _checked_options(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    declared = get_recipe(kind).options
    known = [field.name for field in fields(declared)]
    types = get_type_hints(declared)
    checked: dict[str, Any] = {}
    for option, value in current_options(options).items():
        if option not in known:
            raise unknown_name(f"option of a {kind}", option, known)
        checked[option] = _convert_option(option, value, types[option])
    return checked


def _convert_option(option: str, value: object, expected_type: Any) -> object:
    """Return a value, which may be of NumPy or a path, as the number or text of Python. Raises `ApiError`."""
    if expected_type is bool and isinstance(value, bool | np.bool):
        return bool(value)
    if expected_type is int and is_whole_number(value):
        return int(value)
    if expected_type is float and is_number(value):
        return int(value) if is_whole_number(value) else float(value)
    if expected_type is str and isinstance(value, str | os.PathLike):
        return os.fspath(value)
    if expected_type not in _NAMES_OF_TYPES:  # an enumeration, which the options check
        return value
    raise ApiError("wrong_option", f"{option} must be {_NAMES_OF_TYPES[expected_type]}, not {value!r}")


def _split_options(validation: Any, test: Any, seed: object) -> SplitOptions:
    for name, fraction in (("validation", validation), ("test", test)):
        if not is_number(fraction) or not 0 <= fraction < 1:
            raise ApiError("wrong_split", f"{name} must be a fraction from 0 to less than 1, not {fraction!r}")
    if validation + test >= 1:
        raise ApiError("wrong_split", f"test + validation must be less than 1, not {validation + test:g}")
    if not is_whole_number(seed) or seed < 0:
        raise ApiError("wrong_split", f"split_seed must be a whole number of 0 or more, not {seed!r}")
    return SplitOptions(float(validation), float(test), int(seed))


def _reference(kind: str, data: Source) -> str:
    """Return the name of the training data; stores a question set in the workspace first."""
    if kind in (*ranking_kinds(), READER):
        return load(data).save()
    if isinstance(data, Dataset):
        raise ApiError("wrong_data", f"a {kind} does not learn from questions: give a path or the name of a dataset")
    return str(data)


@contextmanager
def _report_progress(run: Run, report: Any) -> Iterator[None]:
    is_finished = threading.Event()

    def watch() -> None:
        while not is_finished.wait(_SECONDS_BETWEEN):
            status = run.status()
            phase = (status.phase or status.state.value).replace("_", " ")
            report(phase, status.progress)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_finished.set()
        thread.join()
