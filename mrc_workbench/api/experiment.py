"""The experiment of a comparison: its dataset, argument checks, and stored rankings from outside."""

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from mrc_workbench.api.data import Dataset, Source, load
from mrc_workbench.api.retrievers import Items, RetrieverRequest
from mrc_workbench.api.values import ApiError, OnProgress, is_whole_number, store_run
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import RELEVANT_GRADE, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import find
from mrc_workbench.data.workspace import LimitError, error_message
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.experiment import NO_PATH, Experiment, RunSpec, read_experiment, store_measured
from mrc_workbench.retrieval.comparison.multistage import DefaultRetrievers
from mrc_workbench.retrieval.measures import DEFAULT_KS
from mrc_workbench.retrieval.outside.adapt import measure
from mrc_workbench.retrieval.rankings import MAX_PASSAGES

logger = logging.getLogger(__name__)


def dataset_and_items(data: Source | Experiment | None, retrievers: Items | None) -> tuple[Dataset, Items]:
    """Return the dataset and the retrievers; an experiment names its data."""
    experiment = retrievers
    if retrievers is None and _is_experiment(data):
        data, experiment = None, data
    if data is None:
        if isinstance(experiment, Experiment):
            return load(experiment.data), experiment
        if not isinstance(experiment, str | os.PathLike) or not _is_experiment(experiment):
            raise ApiError("no_data", "compare needs data, or an experiment that names its data")
        path = Path(experiment).expanduser()
        source = read_experiment(path).data
        return Dataset(find(source, path.parent), source=source), str(path)
    if isinstance(data, Experiment):
        raise ApiError("two_experiments", "give either an experiment or data with retrievers")
    dataset = load(data)
    if retrievers is not None:
        return dataset, retrievers
    # the default retrievers that the Compare page selects first
    defaults = DefaultRetrievers.of(len(dataset.question_set.passages), len(dataset.question_set.questions))
    selected = [*defaults.first_stage, *([defaults.mix] if defaults.offers_mix else defaults.combined)]
    return dataset, [spec.name for spec in selected]


def _is_experiment(item: object) -> bool:
    if isinstance(item, str | os.PathLike):
        return os.fspath(item).endswith(".toml")
    return isinstance(item, Experiment)


def base_experiment(
    request: RetrieverRequest, *, part: str | None, split: object, ks: object, relevance_level: object
) -> Experiment:
    """Return the experiment without its retrievers: split, part, cutoffs and relevance level."""
    experiment = request.experiment
    if not request.specs:
        raise ApiError("no_retriever", "compare needs at least one retriever")
    if part is not None and part not in [*Part]:
        raise ApiError("unknown_part", f"part must be one of {', '.join(Part)}, not {part!r}")
    if split is not None and not isinstance(split, SplitOptions):
        raise ApiError("wrong_split", f"split must be a SplitOptions, not {split!r}")
    if not is_whole_number(relevance_level) or relevance_level < RELEVANT_GRADE:
        message = f"relevance_level must be a whole number of {RELEVANT_GRADE} or more, not {relevance_level!r}"
        raise ApiError("wrong_grade", message)
    depths = experiment.ks if experiment else DEFAULT_KS
    if ks is not None:
        depths = tuple(ks) if isinstance(ks, Iterable) and not isinstance(ks, str) else ()
        if not depths or not all(is_whole_number(k) and 1 <= k <= MAX_PASSAGES for k in depths):
            raise ApiError("wrong_ks", f"ks must be a list of whole numbers from 1 to {MAX_PASSAGES:,}, not {ks!r}")
    plans = [model.plan for model in request.models]
    split_options = split or (plans[-1].split if plans else experiment.split_options if experiment else SplitOptions())
    first_part = Part.TEST if plans else experiment.split if experiment else Part.ALL
    return Experiment.model_construct(
        data="",
        split=Part(part) if part else first_part,
        validation_fraction=split_options.validation,
        test_fraction=split_options.test,
        seed=split_options.seed,
        strict_split=split_options.strict,
        relevance_level=experiment.relevance_level if experiment else int(relevance_level),
        ks=tuple(map(int, depths)),
        lab=None,
        retriever=(),
    )


def require_questions(experiment: Experiment, question_set: QuestionSet) -> None:
    """Raise `ApiError` if an experiment compares no question of the dataset."""
    if experiment.evaluation_set(question_set).questions:
        return
    part = "dataset" if experiment.split is Part.ALL else f"{experiment.split.value} part"
    grade = experiment.relevance_level
    graded = f" of grade {grade} or higher; choose a lower relevance_level" if grade > RELEVANT_GRADE else ""
    raise ApiError("no_question", f"no question of the {part} has a relevant passage{graded}")


def check_query(query: object, k: object) -> None:
    """Raise `ApiError` if a query is not text, or if k is not a positive whole number."""
    if not isinstance(query, str):
        raise ApiError("wrong_query", f"the query must be text, not {query!r}")
    if not is_whole_number(k) or k < 1:
        raise ApiError("wrong_k", f"k must be a whole number of 1 or more, not {k!r}")


def store_rankings(
    request: RetrieverRequest, base: Experiment, question_set: QuestionSet, report: OnProgress
) -> dict[str, Exception]:
    """Search with the retrievers from outside, store all rankings as runs, and put their specs into the request.

    The spec of a failed retriever has its error message. Returns the errors by name. Raises `OSError` and `LimitError`
    if the workspace cannot be written.
    """
    depths = Experiment.model_validate(dict(base) | {"retriever": tuple(request.specs.values())}).depths
    questions = base.evaluation_set(question_set) if request.objects else question_set
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
            message = error_message(error)
            failure = message if is_expected else f"{type(error).__name__}: {message}"
            spec = RunSpec(name=name, path=NO_PATH, failure=failure)
        request.specs[name] = spec
    return errors


def require_scores(comparison: Comparison, errors: dict[str, Exception]) -> None:
    """Raise `ApiError` if every retriever failed. `errors` are those of `store_rankings`."""
    if comparison.scores:
        return
    failed = [f"{result.name} failed: {result.error_message}" for result in comparison.results]
    first = comparison.results[0]
    raise ApiError("all_failed", "; ".join(failed)) from errors.get(first.name, first.error)
