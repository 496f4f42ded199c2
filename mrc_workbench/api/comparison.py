"""Compare retrievers over the same questions, open stored comparisons, and search with one retriever."""

import logging
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from mrc_workbench.api import retrievers as api_retrievers
from mrc_workbench.api import values as api_values
from mrc_workbench.api.data import Dataset, Source, load
from mrc_workbench.api.evaluation import ScoredRankings
from mrc_workbench.api.retrievers import Item, Items, RetrieverRequest
from mrc_workbench.api.values import ApiError, OnProgress, progress_bar
from mrc_workbench.data.problems import Failure, raise_missing_extra
from mrc_workbench.data.records import RELEVANT_GRADE, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import find
from mrc_workbench.data.workspace import LimitError, error_message
from mrc_workbench.retrieval.analysis.evidence import default_baseline, displayed_measures, label
from mrc_workbench.retrieval.comparison import compare as comparing
from mrc_workbench.retrieval.comparison import experiment as experiments
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import find_comparison, list_comparisons, store_comparison
from mrc_workbench.retrieval.comparison.store import load as load_comparison
from mrc_workbench.retrieval.measures import cutoff_of, own_measure
from mrc_workbench.retrieval.outside.adapt import measure
from mrc_workbench.retrieval.searcher import Searcher, build_searchers

logger = logging.getLogger(__name__)
_searcher_cache: dict[tuple[str, str], Searcher] = {}
_MAX_SEARCHERS = 4  # retrievers that stay in memory


class ComparisonResult(ScoredRankings):
    """The result of `compare`: tables, tests, charts, and each retriever by its name.

    Attributes
    ----------
    key
        the key under which the workspace stores it; empty if it is not stored
    dataset
        the whole dataset; `question_set` has only the questions that were searched
    comparison
        the record that the app and the command line read
    """

    def __init__(self, comparison: comparing.Comparison, dataset: Dataset, key: str = "") -> None:
        super().__init__(
            comparison.question_set,
            comparison.rankings,
            [label(measure) for measure in displayed_measures(comparison)],
            default_baseline(comparison),
        )
        self.comparison = comparison
        self.dataset = dataset
        self.key = key
        self._searchers: dict[str, Searcher] = {}

    def __getitem__(self, name: str) -> "RetrieverResult":
        return RetrieverResult(self, self.find(name))

    @cached_property
    def failures(self) -> dict[str, str]:
        """The error messages of failed retrievers by name; tables leave them out."""
        return {result.name: result.error_message for result in self.comparison.results if result.error}

    @property
    def warnings(self) -> list[str]:
        """Limits of the conclusions, such as too few questions, and notes on imported results."""
        return self.comparison.warnings

    def costs(self) -> pd.DataFrame:
        """Return the costs of each retriever: seconds to index, milliseconds per question, bytes of the index.

        Values are missing if unknown: those of imported runs, and the index size of a retriever from outside.
        """
        n_questions = len(self.question_set.questions)
        rows = [
            (
                result.name,
                None if result.imported else result.build_seconds,
                None if result.imported and not result.query_seconds else 1000 * result.query_seconds / n_questions,
                result.memory_bytes or None,
            )
            for result in self.comparison.results
            if result.scores
        ]
        table = pd.DataFrame(rows, columns=["retriever", "index_seconds", "ms_per_question", "index_bytes"])
        return table.astype({"index_bytes": "Int64"}).set_index("retriever")

    @raise_missing_extra("the retriever")
    def searcher(self, name: str, *, progress: bool = True) -> Searcher:
        """Build a retriever, and return a searcher for any question. Raises `ApiError` for an imported run."""
        full_name = self.find(name)
        if full_name not in self._searchers:
            experiment = self.comparison.experiment
            if any(not spec.searchable for spec in experiment.with_dependencies([full_name])):
                message = f"{full_name} is a run: it has rankings of the compared questions, and cannot search others"
                raise ApiError("not_searchable", message)
            with progress_bar("Opening", enabled=progress) as report:
                self._searchers |= build_searchers(experiment, self.dataset.question_set, None, [full_name], report)
        return self._searchers[full_name]

    def __repr__(self) -> str:
        stored = f", stored as {self.key}" if self.key else ""
        failed = f"; failed: {', '.join(self.failures)}" if self.failures else ""
        return f"<ComparisonResult {self.question_set.name!r}: {', '.join(self.names)}{failed}{stored}>"

    def _notes(self) -> list[str]:
        failed = [f"{name} failed: {reason}" for name, reason in self.failures.items()]
        return [*super()._notes(), *(line for note in failed for line in note.splitlines()), *self.warnings]

    def _score(self, name: str, metrics: Sequence[str]) -> dict[str, np.ndarray]:
        """Use the scores of the comparison; a metric with a deeper cutoff than the search has no value."""
        scores = self.comparison.scores[name].per_question
        depth = self._rankings[name].indices.shape[1]
        is_whole = depth >= len(self.question_set.passages)
        own_names = {metric: str(own_measure(metric)) for metric in metrics}  # "None": only ir_measures has it
        stored = {metric: scores[own] for metric, own in own_names.items() if own in scores}
        others = [metric for metric in metrics if metric not in stored]
        others = [metric for metric in others if is_whole or (cutoff_of(metric) or 0) <= depth]
        return stored | (super()._score(name, others) if others else {})


class RetrieverResult:
    """A retriever of a comparison: `result["mix"]`."""

    def __init__(self, result: ComparisonResult, name: str) -> None:
        self.name = name
        self._result = result

    def run(self) -> dict[str, dict[str, float]]:
        """Return the ranking as ir_measures and ranx read it: passage ids and scores by question id."""
        return self._result.run(self.name)

    def search(self, query: str, k: int = 10, *, progress: bool = True) -> pd.DataFrame:
        """Return the best k passages of any question: rank, score, passage_id, title, text.

        Raises `ApiError` if the retriever is an imported run.
        """
        return hits_table(self._result.searcher(self.name, progress=progress), query, k)

    def __repr__(self) -> str:
        return f"<RetrieverResult {self.name!r} of {self._result.question_set.name!r}>"


@api_values.accept_earlier_keywords(relevant_from="relevance_level")
def compare(
    data: Source | Experiment | None,
    retrievers: Items | None = None,
    *,
    part: str | None = None,
    split: SplitOptions | None = None,
    ks: Sequence[int] | None = None,
    relevance_level: int = RELEVANT_GRADE,
    store: bool = True,
    progress: bool = True,
) -> ComparisonResult:
    """Search every question with every retriever, and score the rankings. Raises `ApiError`.

    Parameters
    ----------
    data
        A `Dataset`, or anything that `load` takes; None for the data of an experiment in `retrievers`.
    retrievers
        One or several, by default those that the Compare page selects first: names of default retrievers ("bm25",
        "bm25-words", "dense", "lsa", "late", "hybrid", "rerank", "mix") and of registered ones; dictionaries and `Spec`
        objects with the fields of an experiment file; an experiment or its path; runs (a TREC file, a table, scores by
        passage id by question id), which the Compare page lists from then on; models of `train`; objects, classes and
        functions that search, and retrievers of LangChain and LlamaIndex. Components are added. A mapping names them:
        `{"mine": search, "baseline": "bm25"}`.
    part
        Questions to search: "all", "train", "validation" or "test", the default with a model of `train`, else all.
    split
        The split of the dataset; by default that of the trained model, or else that of the Compare page.
    ks
        Cutoffs of the tables: by default 1, 5, 10, 20, 50 and 100.
    relevance_level
        The minimum grade of a relevant passage, for all metrics except nDCG.
    store
        Whether to store the dataset and the result in the workspace, for the app, `mrc serve` and exports.

    Examples
    --------
    >>> import mrc_workbench as mrc
    >>> result = mrc.compare("sample", ["bm25", "bm25-words"], progress=False)
    >>> result.differences("bm25").columns[:4].tolist()
    ['retriever', 'baseline', 'metric', 'difference']
    """
    dataset, items = api_retrievers.dataset_and_items(data, retrievers)
    request = api_retrievers.build_request(items, dataset.question_set)
    base = api_retrievers.base_experiment(request, part=part, split=split, ks=ks, relevance_level=relevance_level)
    with progress_bar("Comparing", enabled=progress) as report:
        comparison = _compare(request, base, dataset.question_set, report)
    return ComparisonResult(comparison, dataset, _store(comparison, dataset) if store else "")


def _compare(
    request: RetrieverRequest, base: Experiment, question_set: QuestionSet, report: OnProgress
) -> comparing.Comparison:
    _require_questions(base, question_set)
    errors = _store_rankings(request, base, question_set, report)
    experiment = Experiment.model_validate(dict(base) | {"retriever": tuple(request.specs.values())})
    experiment = experiments.make_storable(experiment, question_set, Path.cwd())
    comparison = comparing.compare(experiment, question_set, base=Path.cwd(), on_progress=report)
    if not comparison.scores:
        failed = [f"{result.name} failed: {result.error_message}" for result in comparison.results]
        first = comparison.results[0]
        raise ApiError("all_failed", "; ".join(failed)) from errors.get(first.name, first.error)
    return comparison


def _require_questions(experiment: Experiment, question_set: QuestionSet) -> None:
    """Raise `ApiError` if an experiment compares no question of the dataset."""
    if experiment.evaluation_set(question_set).questions:
        return
    part = "dataset" if experiment.split is Part.ALL else f"{experiment.split.value} part"
    grade = experiment.relevance_level
    graded = f" of grade {grade} or higher; choose a lower relevance_level" if grade > RELEVANT_GRADE else ""
    raise ApiError("no_question", f"no question of the {part} has a relevant passage{graded}")


def _store_rankings(
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
                spec = api_values.store_run(request.runs[name], question_set, name)
            else:
                measured = measure(request.objects[name], questions, depths[name], name=name)
                spec = experiments.store_measured(measured, question_set)
        except (OSError, LimitError):
            raise
        except Exception as error:
            is_expected = isinstance(error, Failure | MemoryError)
            logger.log(logging.DEBUG if is_expected else logging.ERROR, "retriever %r failed", name, exc_info=True)
            errors[name] = error
            message = error_message(error)
            failure = message if is_expected else f"{type(error).__name__}: {message}"
            spec = experiments.RunSpec(name=name, path=experiments.NO_PATH, failure=failure)
        request.specs[name] = spec
    return errors


def _store(comparison: comparing.Comparison, dataset: Dataset) -> str:
    """Store a comparison in the workspace, and return its key; a full or read-only disk is a warning."""
    origin = comparing.provenance(comparison, dataset.question_set, Path.cwd())
    try:
        return str(store_comparison(comparison, dataset.question_set, origin, dataset.source).id)
    except OSError as error:
        message = f"the comparison is not stored in the workspace: {error_message(error)}"
        warnings.warn(message, stacklevel=3)
        return ""


def comparisons() -> pd.DataFrame:
    """List the stored comparisons, the newest first: those of notebooks, the app and the command line.

    Examples
    --------
    >>> import mrc_workbench as mrc
    >>> key = mrc.compare("sample", "bm25", progress=False).key
    >>> key in mrc.comparisons().index
    True
    """
    rows = []
    for stored in list_comparisons():
        compared = (stored.data, stored.part.value, stored.questions, ", ".join(stored.retrievers))
        rows.append((stored.key, stored.created_at, stored.name, *compared))
    columns = ["key", "created", "name", "data", "part", "questions", "retrievers"]
    return pd.DataFrame(rows, columns=columns).set_index("key")


def open_comparison(reference: str) -> ComparisonResult:
    """Open a stored comparison by its key, by its experiment file, or by the folder of `mrc compare --out`.

    Raises `ComparisonNotFoundError` if no comparison is stored there.

    Examples
    --------
    >>> import mrc_workbench as mrc
    >>> key = mrc.compare("sample", "bm25", progress=False).key
    >>> mrc.open_comparison(key).names
    ['BM25']
    """
    stored = find_comparison(reference)
    question_set = find(stored.reference, stored.folder)
    return ComparisonResult(load_comparison(stored.folder, question_set), Dataset(question_set), stored.key)


def hits_table(searcher: Searcher, query: str, k: int) -> pd.DataFrame:
    """Return the best k passages of a question as a table. Raises `ApiError`."""
    _check_query(query, k)
    (hits,) = searcher.search([query], k)
    rows = [(rank, hit.score, hit.id, hit.title, hit.text) for rank, hit in enumerate(hits, start=1)]
    return pd.DataFrame(rows, columns=["rank", "score", "passage_id", "title", "text"])


def _check_query(query: object, k: object) -> None:
    """Raise `ApiError` if a query is not text, or if k is not a positive whole number."""
    if not isinstance(query, str):
        raise ApiError("wrong_query", f"the query must be text, not {query!r}")
    if not api_values.is_whole_number(k) or k < 1:
        raise ApiError("wrong_k", f"k must be a whole number of 1 or more, not {k!r}")


@raise_missing_extra("mrc_workbench.search")
def search(data: Source, query: str, retriever: Item = "bm25", k: int = 10, *, progress: bool = True) -> pd.DataFrame:
    """Return the best k passages, best first: rank, score (higher is better), passage_id, title, text.

    Parameters
    ----------
    data
        A `Dataset`, or anything that `load` takes.
    retriever
        One of those that `compare` takes, except runs and retrievers from outside; of an experiment file, the last.

    Examples
    --------
    >>> import mrc_workbench as mrc
    >>> mrc.search("sample", "자격루는 누가 만들었는가?", k=3, progress=False).columns.tolist()
    ['rank', 'score', 'passage_id', 'title', 'text']
    """
    _check_query(query, k)
    dataset = load(data)
    request = api_retrievers.build_request(retriever, dataset.question_set)
    if request.runs or request.objects or not request.specs:
        raise ApiError("not_searchable", "search needs a retriever of this project: a name, a specification or a model")
    name = list(request.specs)[-1]
    values = {"data": dataset.key, "retriever": tuple(request.specs.values())}
    experiment = Experiment.model_validate(dict(request.experiment or ()) | values)
    if any(not spec.searchable for spec in experiment.with_dependencies([name])):
        raise ApiError("not_searchable", f"{name} is a run: it only has rankings of known questions")
    key = (dataset.question_set.fingerprint, experiment.model_dump_json())
    if key not in _searcher_cache:
        with progress_bar("Opening", enabled=progress) as report:
            searchers = build_searchers(experiment, dataset.question_set, None, [name], report)
        while len(_searcher_cache) >= _MAX_SEARCHERS:
            del _searcher_cache[next(iter(_searcher_cache))]
        _searcher_cache[key] = searchers[name]
    return hits_table(_searcher_cache[key], query, k)
