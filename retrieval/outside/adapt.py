"""Adapters of external Python objects to retrievers of this project, and retrievers that are registered by name.

    as_retriever(item, question_set, name="", batched=None, id_key="", order="score", concurrency=1) -> OutsideRetriever
    measure(item, question_set, k=100, **options) -> MeasuredRun

`question_set` has the questions to search and the whole corpus; `options` are further arguments of `as_retriever`.
`mrc_workbench.retrieval.comparison.experiment.store_measured(measured, whole_set) -> RunSpec` stores the measured
rankings as an imported run with latency. `item` is one of

- an object with `search(query, k)` or `search(queries, k)`, or such a function: see `retrieval.outside`;
- a retriever of LangChain (`invoke`, with k if the retriever takes it) or LlamaIndex (`retrieve`; set
  `similarity_top_k` yourself);
- a retriever of this project, with a `search` that returns `Rankings`;
- a class of one of these, created with the passages if it has a required argument.

The operator of an installation registers retrievers: of packages by an entry point of the group
`mrc_workbench.retrievers` (`mine = "my_package.search:MySearch"`), of other code by the variable `MRC_RETRIEVERS`
(`mine=my_module:MySearch,my_module:other`). Experiment files name a registered retriever (`mine`), never a module, so
that a foreign file runs no code. A class or a function is a factory, `factory(passages, **options)`, which gets a
sequence of passages with `id`, `text` and `title` and returns an `item`. Any other object is the retriever.
"""

import hashlib
import importlib
import importlib.util
import inspect
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.metadata import entry_points
from inspect import Parameter
from pathlib import Path
from typing import Any

import numpy as np

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval import outside
from mrc_workbench.retrieval.outside import Caller, OutsideError
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, rank_candidates

GROUP = "mrc_workbench.retrievers"
VARIABLE = "MRC_RETRIEVERS"
_REFERENCE = re.compile(r"(?:(?P<name>[\w.-]+)\s*=\s*)?(?P<module>\w+(?:\.\w+)*)\s*:\s*(?P<attribute>\w+(?:\.\w+)*)")


@dataclass(eq=False)
class OutsideRetriever:
    """Searches with an external retriever, and reads the results as passages of a question set.

    `measured_seconds` is the sum of latencies of the last search. `notes` are those of `ParsedResults`, and the
    `latency` of a query in milliseconds: `mean`, `p50` and `p95`.
    """

    name: str
    caller: Caller
    reader: outside.ResultReader
    question_set: QuestionSet
    measured_seconds: float = field(default=0.0, init=False)
    notes: dict[str, Any] = field(default_factory=dict, init=False)

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question. Raises `OutsideError`, also if there are no results."""
        n_passages = len(self.question_set.passages)
        k = min(k, n_passages)
        if not questions or not k:
            return Rankings.empty(len(questions), k)
        results, seconds = self.caller(questions, k)
        self.measured_seconds = sum(seconds)
        milliseconds = np.array(seconds) * 1000
        p50, p95 = np.percentile(milliseconds, [50, 95]).tolist()
        mean = round(float(milliseconds.mean()), 3)
        latency = {"latency": {"mean": mean, "p50": round(p50, 3), "p95": round(p95, 3)}}
        if isinstance(results, Rankings):
            self.notes = latency
            return _validate_rankings(results, len(questions), n_passages, k)
        reading = self.reader.read(results, k)
        self.notes = {**reading.notes(), **latency}
        if len(questions) == 1 or (reading.rankings.indices != NOT_FOUND).any():
            return reading.rankings
        example = reading.unknown_example
        if not example:
            raise OutsideError("outside_empty", f"{self.name} returned no results for any question", name=self.name)
        own = self.question_set.passages.ids[0]
        ids = f"its ids are like {example!r}, those of the dataset like {own!r}"
        message = f"{self.name} names no passage of the dataset: {ids}"
        raise OutsideError("outside_ids", message, name=self.name, theirs=example, own=own)

    def preview(self, question: str, k: int) -> tuple[list[outside.ExternalHit], float]:
        results, seconds = self.caller([question], k)
        if isinstance(results, Rankings):
            pairs = zip(results.indices[0].tolist(), results.scores[0].tolist(), strict=True)
            ids = self.question_set.passages.ids
            return [outside.ExternalHit(ids[row], row, score) for row, score in pairs if row >= 0], seconds[0]
        return self.reader.hits(results[0])[:k], seconds[0]


def as_retriever(
    item: object,
    question_set: QuestionSet,
    *,
    name: str = "",
    batched: bool | None = None,
    id_key: str = "",
    order: outside.Order = "score",
    concurrency: int = 1,
) -> OutsideRetriever:
    """Adapt a Python object to a retriever over the passages of a question set.

    `batched`: its search takes several queries; `id_key`: field of the passage id in its results; `order`: by score or
    as returned; `concurrency`: number of threads. Raises `OutsideError`.
    """
    if isinstance(item, OutsideRetriever):
        return item
    own_name = getattr(item, "name", None)
    retriever_name = name or (own_name if isinstance(own_name, str) else "")
    retriever_name = retriever_name or str(getattr(item, "__name__", None) or type(item).__name__)
    if isinstance(item, type):
        item = _instantiate(item, retriever_name, question_set)
    reader = outside.ResultReader(question_set, id_key=id_key, order=order)
    caller = _build_caller(item, retriever_name, batched, concurrency)
    return OutsideRetriever(retriever_name, caller, reader, question_set)


@dataclass(frozen=True)
class MeasuredRun:
    """Rankings of an external retriever, `(n_questions, k)`, and its latency."""

    name: str
    question_set: QuestionSet = field(repr=False)  # the questions that were searched, and the whole corpus
    rankings: Rankings = field(repr=False)
    seconds_per_query: float
    notes: dict[str, Any] = field(default_factory=dict)


def measure(item: object, question_set: QuestionSet, k: int = 100, **options: Any) -> MeasuredRun:
    """Search each question once, for k passages. `options` are those of `as_retriever`. Raises `OutsideError`."""
    retriever = as_retriever(item, question_set, **options)
    questions = [question.text for question in question_set.questions]
    rankings = retriever.search(questions, k)
    seconds = retriever.measured_seconds / max(1, len(questions))
    return MeasuredRun(retriever.name, question_set, rankings, seconds, retriever.notes)


def _build_caller(item: Any, name: str, batched: bool | None, concurrency: int) -> Caller:
    has = {method for method in ("search", "invoke", "retrieve") if callable(getattr(item, method, None))}
    if "search" not in has and "invoke" in has:
        inner = getattr(item, "_get_relevant_documents", None)
        takes_k = callable(inner) and outside.accepts_parameter(inner, "k")
        invoke = (lambda query, k: item.invoke(query, k=k)) if takes_k else (lambda query, _: item.invoke(query))
        return partial(outside.call_each, invoke, concurrency)
    if "search" not in has and "retrieve" in has:
        return partial(outside.call_each, lambda query, _: item.retrieve(query), concurrency)
    if not has and not callable(item):
        message = f"{name} cannot be searched: it needs a method search, invoke or retrieve, or must be a function"
        raise OutsideError("outside_kind", message, name=name)
    search = item.search if has else item
    if outside.is_batched(search, item, name) if batched is None else batched:
        return partial(outside.call_batch, outside.with_k(search))
    return partial(outside.call_each, outside.with_k(search), concurrency)


def _instantiate(item: type[Any], name: str, question_set: QuestionSet) -> object:
    try:
        needs_passages = any(
            parameter.default is Parameter.empty and parameter.kind in outside.POSITIONAL
            for parameter in inspect.signature(item).parameters.values()
        )
        return item(question_set.passages) if needs_passages else item()
    except Exception as error:
        raise _plugin_error(error, f"no object of the class {name} can be made", name) from error


def _plugin_error(error: Exception, problem: str, name: str) -> OutsideError:
    reason = outside.shorten(f"{type(error).__name__}: {error}")
    return OutsideError("outside_plugin_failed", f"{problem}: {reason}", name=name, reason=reason)


def _validate_rankings(rankings: Rankings, n_questions: int, n_passages: int, k: int) -> Rankings:
    indices = np.asarray(rankings.indices)
    if len(indices) != n_questions or (indices.size and not -1 <= indices.min() <= indices.max() < n_passages):
        message = f"expected rankings of {n_questions} questions with rows from 0 to {n_passages - 1}"
        raise OutsideError("outside_rankings", message, questions=n_questions, passages=n_passages - 1)
    return rank_candidates(indices, np.asarray(rankings.scores), k)


@dataclass(frozen=True)
class Plugin:
    """A registered retriever; `distribution` and `version` are those of its package, empty for `MRC_RETRIEVERS`."""

    name: str
    module: str
    attribute: str
    distribution: str = ""
    version: str = ""

    def fingerprint(self) -> list[str]:
        """Return the identity of the code: among others the package's version and the sha256 of the module."""
        digest = ""
        with suppress(Exception):  # creating the retriever reports the error
            spec = importlib.util.find_spec(self.module)
            if spec is not None and spec.origin:
                digest = hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
        return [self.module, self.attribute, self.distribution, self.version, digest]

    def retriever(self, name: str, question_set: QuestionSet, options: Mapping[str, Any]) -> OutsideRetriever:
        try:
            target: Any = importlib.import_module(self.module)
            for part in self.attribute.split("."):
                target = getattr(target, part)
            is_factory = isinstance(target, type) or inspect.isroutine(target)
            instance = target(question_set.passages, **options) if is_factory else target
        except Exception as error:
            raise _plugin_error(error, f"the retriever {self.name!r} cannot be made", self.name) from error
        if options and not is_factory:
            message = f"the retriever {self.name!r} is an object, which takes no options"
            raise OutsideError("outside_plugin_options", message, name=self.name)
        return as_retriever(instance, question_set, name=name)


def plugins() -> dict[str, Plugin]:
    """Return the registered retrievers by name, those of `MRC_RETRIEVERS` first, without malformed entries."""
    known: dict[str, Plugin] = {}
    for reference in _references():
        if match := _REFERENCE.fullmatch(reference):
            attribute = match["attribute"]
            name = match["name"] or attribute.rpartition(".")[2]
            known.setdefault(name, Plugin(name, match["module"], attribute))
    for plugin in _installed():
        known.setdefault(plugin.name, plugin)
    return known


def find_plugin(name: str) -> Plugin:
    """Return a registered retriever. Raises `OutsideError`: `outside_plugin_unknown`."""
    known = plugins()
    if name in known:
        return known[name]
    broken = [reference for reference in _references() if not _REFERENCE.fullmatch(reference)]
    listed = ", ".join(sorted(known)) or "none"
    message = f"no retriever is registered as {name!r} (registered: {listed}); see {VARIABLE}"
    if broken:
        message += f", which has an entry that is not name=module:object: {outside.shorten(broken[0])!r}"
    raise OutsideError("outside_plugin_unknown", message, name=outside.shorten(name), known=listed)


def _references() -> list[str]:
    return [reference.strip() for reference in os.environ.get(VARIABLE, "").split(",") if reference.strip()]


@lru_cache(maxsize=1)
def _installed() -> tuple[Plugin, ...]:
    installed = []
    for entry in entry_points(group=GROUP):
        if reference := _REFERENCE.fullmatch(entry.value.strip()):
            package = (entry.dist.name, entry.dist.version) if entry.dist else ("", "")
            installed.append(Plugin(entry.name, reference["module"], reference["attribute"], *package))
    return tuple(installed)
