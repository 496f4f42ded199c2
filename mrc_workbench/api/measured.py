"""Runs and retrievers from outside: their rankings, stored before the comparison that they are part of."""

import logging
from typing import Any

from mrc_workbench.api.errors import ApiError
from mrc_workbench.api.progress import OnProgress
from mrc_workbench.api.retrievers import Request
from mrc_workbench.api.runs import store_run
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.workspace import LimitError, error_message
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.experiment import NO_PATH, Experiment, RunSpec, store_measured
from mrc_workbench.retrieval.outside.adapt import measure

logger = logging.getLogger(__name__)


def store_rankings(
    request: Request, base: Experiment, question_set: QuestionSet, report: OnProgress
) -> dict[str, Exception]:
    """Search with the retrievers from outside, store all rankings as runs, and put their specs into the request.

    A retriever that fails gets a spec which says why. Returns the errors by name. Raises `OSError` and `LimitError` if
    the workspace cannot be written.
    """
    depths = Experiment.model_validate(dict(base) | {"retriever": tuple(request.specs.values())}).depths
    questions = base.asked(question_set) if request.objects else question_set
    errors: dict[str, Exception] = {}
    for name in [*request.runs, *request.objects]:
        report(name, 0.0)
        try:
            if name in request.runs:
                spec = store_run(request.runs[name], question_set, name)
            else:
                measured = measure(request.objects[name], questions, depths[name], name=name)
                spec = store_measured(measured, question_set)
        except (OSError, LimitError):
            raise
        except Exception as error:
            is_expected = isinstance(error, Failure | MemoryError)
            logger.log(logging.DEBUG if is_expected else logging.ERROR, "retriever %r failed", name, exc_info=True)
            errors[name] = error
            spec = RunSpec(name=name, path=NO_PATH, failure=_reason(error))
        request.specs[name] = spec
    return errors


def require_scores(comparison: Comparison, errors: dict[str, Exception]) -> None:
    """Raise `ApiError` if every retriever failed. `errors` are those of `store_rankings`."""
    if comparison.scores:
        return
    failed = [f"{result.name} failed: {result.error_message}" for result in comparison.results]
    first = comparison.results[0]
    cause: Any = errors.get(first.name, first.error)
    raise ApiError("all_failed", "; ".join(failed)) from cause


def _reason(error: Exception) -> str:
    """Return what went wrong in words; of an error that is not expected with its type."""
    message = error_message(error)
    return message if isinstance(error, Failure | MemoryError) else f"{type(error).__name__}: {message}"
