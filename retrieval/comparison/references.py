"""The names of a comparison in a command: its key, an experiment file, or the folder that `compare --out` wrote.

A comparison is stored under the key that the page would give it: its question set is named by its key in the workspace,
and paths are absolute, so that it opens from any folder.
"""

import os
from pathlib import Path
from typing import Any

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import find
from mrc_workbench.data.store import keep as store_set
from mrc_workbench.data.store import stored as stored_sets
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.experiment import Experiment, read_experiment
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import (
    ComparisonJob,
    StoredComparison,
    keep,
    kept_comparison,
    origin_of,
    read_comparison,
)

_PATHS = ("model", "dictionary", "path")  # fields of retrievers that may name a file or a folder
_LIST = "`mrc list` lists the stored comparisons"


class ComparisonNotFoundError(Failure, ValueError):
    """No comparison is stored under this name."""


def find_comparison(reference: str) -> StoredComparison:
    """Return the comparison that a key, an experiment file or an `--out` folder names.

    Raises `ComparisonNotFoundError`, and `ExperimentError` or `DataError` if an experiment file cannot be used.
    """
    if found := kept_comparison(reference):
        return found
    path = Path(reference)
    if _is_output(path):
        experiment, origin = _experiment_in(path), origin_of(path)
        job = ComparisonJob.of(experiment, str(origin["data"].get("fingerprint")))
        if found := kept_comparison(job.folder.name) or read_comparison(path):
            return found
        raise _damaged(path)
    if not os.path.isfile(path):  # noqa: PTH113 - a name may be too long for the file system
        raise ComparisonNotFoundError("unknown_comparison", f"no comparison is stored as {reference!r}; {_LIST}")
    experiment = read_experiment(path)
    question_set = find(experiment.data, path.parent)
    job = ComparisonJob.of(storable(experiment, question_set, path.parent), question_set.fingerprint)
    if found := kept_comparison(job.folder.name):
        return found
    raise ComparisonNotFoundError("not_compared", f"{path} is not compared yet: run `mrc compare {path}` first")


def find_stored(reference: str) -> StoredComparison:
    """Return a named comparison as `find_comparison` does, but only one of the workspace."""
    found = find_comparison(reference)
    if kept_comparison(found.key) != found:
        raise ComparisonNotFoundError("not_stored", f"the comparison in {found.folder} is not stored in this workspace")
    return found


def find_experiment(reference: str | Path) -> tuple[Experiment, Path]:
    """Return the experiment that a key, an experiment file or an `--out` folder names, and the base of its paths.

    Raises `ExperimentError` or `ComparisonNotFoundError`.
    """
    if found := kept_comparison(str(reference)):
        return _experiment_in(found.folder), found.folder
    path = Path(reference)
    if _is_output(path):
        return _experiment_in(path), path
    if os.path.isfile(path):  # noqa: PTH113 - a name may be too long for the file system
        return read_experiment(path), path.parent
    expected = "give a key, an experiment file or a folder of `compare --out`"
    message = f"there is no comparison {str(reference)!r}: {expected}; {_LIST}"
    raise ComparisonNotFoundError("unknown_comparison", message)


def store_question_set(question_set: QuestionSet, source: str) -> None:
    """Store a question set in the workspace unless it is there. Raises `LimitError` and `OSError`."""
    if all(stored.fingerprint != question_set.fingerprint for stored in stored_sets()):
        store_set(question_set, source=source)


def store_comparison(
    comparison: Comparison, question_set: QuestionSet, origin: dict[str, Any], source: str
) -> ComparisonJob:
    """Store a comparison of a `storable` experiment and its set in the workspace, where the page finds them.

    Returns its job; `source` names where the set comes from. Raises `LimitError` and `OSError`.
    """
    job = ComparisonJob.of(comparison.experiment, question_set.fingerprint)
    store_question_set(question_set, source)
    keep(comparison, job.folder, origin)
    return job


def storable(experiment: Experiment, question_set: QuestionSet, base: Path) -> Experiment:
    """Return the experiment with the set's key as its data and with absolute paths."""
    retrievers = tuple(with_absolute_paths(spec, base) for spec in experiment.retriever)
    return experiment.model_copy(update={"data": question_set.fingerprint[:16], "retriever": retrievers})


def with_absolute_paths(spec: Spec, base: Path) -> Spec:
    """Return a spec whose files and folders, given from `base`, are named by absolute paths."""
    paths: dict[str, Any] = {}
    for name in _PATHS:
        value = getattr(spec, name, "")
        if value and value != STARTER and os.path.exists(base / value):  # noqa: PTH110 - a name may be too long
            paths[name] = str((base / value).absolute())
    return spec.model_copy(update=paths) if paths else spec


def _is_output(path: Path) -> bool:
    origin = origin_of(path)
    return isinstance(origin.get("experiment"), dict) and isinstance(origin.get("data"), dict)


def _experiment_in(folder: Path) -> Experiment:
    try:
        return Experiment.model_validate(origin_of(folder)["experiment"])
    except ValueError as error:
        raise _damaged(folder) from error


def _damaged(folder: Path) -> ComparisonNotFoundError:
    return ComparisonNotFoundError("damaged_comparison", f"the comparison in {folder} cannot be read")
