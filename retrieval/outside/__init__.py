"""Calls other search libraries, and reads their results as corpus rows and scores.

A search takes a single query or several. The first of these decides: the argument `batched`; an attribute `batched` of
the object; the annotation of the first parameter (`str` or a sequence of `str`); its name (`_SINGLE` or `_SEVERAL`).
Otherwise `OutsideError` (`outside_signature`) is raised without a trial call. The number of results is passed to a
parameter named as in `K_NAMES`, else to a second parameter without a default, else not at all.

A result identifies a passage by its id, the id of a merged copy, or its exact text. These forms are read:

- `"p1"`, or the number `7` for the passage `"7"`;
- `("p1", 0.83)`, also with a document instead of the id; a mapping `{"p1": 0.83, ...}` as all results;
- a mapping with one of `ID_KEYS` or `TEXT_KEYS`, and optionally one of `SCORE_KEYS`, also nested, as in `metadata`;
- an object with such attributes: a LangChain `Document`, a LlamaIndex `NodeWithScore`, a hit of Pyserini;
- a tuple of two lists of equal length, ids and scores; a table (`pandas.DataFrame`) with such columns.
"""

import inspect
import time
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import QuestionSet, composed
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, rank_candidates

_MAX_QUOTED = 200  # characters of foreign text in a message
Order = Literal["score", "rank"]
ID_KEYS = ("id", "_id", "passage_id", "doc_id", "docid", "docno", "document_id", "id_", "node_id", "ref_doc_id")
SCORE_KEYS = ("score", "_score", "_rankingScore", "relevance_score", "similarity")
TEXT_KEYS = ("text", "page_content", "content", "contents", "passage")
_NESTED = ("node", "metadata", "document", "_source", "payload", "fields")
K_NAMES = ("k", "top_k", "topk", "n", "limit", "size", "num_results", "n_results")
_SINGLE = ("query", "question", "text", "q", "query_str", "input")
_SEVERAL = ("queries", "questions", "texts")
POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class OutsideError(Failure, ValueError):
    """An external retriever failed; `code` is a key of the section `outside` in the locale files."""


def shorten(text: object) -> str:
    """Return text of another program on one line, at most 200 characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= _MAX_QUOTED else f"{line[: _MAX_QUOTED - 1]}…"


@dataclass(frozen=True)
class ExternalHit:
    """A result of a query: its reference, its corpus row (-1 if unknown) and its score."""

    reference: str
    row: int
    score: float | None


@dataclass(frozen=True)
class ParsedResults:
    """The rankings of several queries, and problems of their results."""

    rankings: Rankings  # `(n_queries, k)`
    depth: int  # largest number of results of a query
    unknown_passages: int  # results that are not in the corpus
    unknown_example: str  # the first of them
    repeated: int  # duplicates of a passage, which counts once, with its best score
    rising_scores: int  # queries with the lowest score first, as distances have

    def notes(self) -> dict[str, Any]:
        names = ("unknown_passages", "unknown_example", "repeated", "rising_scores")
        return {"depth": self.depth, **{name: value for name in names if (value := getattr(self, name))}}


@dataclass(eq=False)
class ResultReader:
    """Reads results as passages of a question set.

    `id_key` is the attribute, key or metadata field of the passage id; by default `ID_KEYS` are tried, then texts. With
    `order="score"` results are ordered by score, higher is better, ties by row; with `order="rank"`, or without scores,
    they keep their order and have the scores 0, -1, -2, ...
    """

    question_set: QuestionSet
    id_key: str = ""
    order: Order = "score"

    def hits(self, results: object) -> list[ExternalHit]:
        """Return the results of one query in their order. Raises `OutsideError`: `outside_results`, `outside_score`."""
        return [self._hit(item) for item in _items(results)]

    def read(self, results: Iterable[object], k: int) -> ParsedResults:
        """Return the rankings of the results of each query, with k columns. Raises what `hits` raises."""
        answers = [self.hits(of_query) for of_query in results]
        known = [self._best_scores(hits) for hits in answers]
        width = max((len(scores) for scores in known), default=0)
        indices = np.full((len(known), width), NOT_FOUND, dtype=np.int64)
        scores = np.full((len(known), width), -np.inf)
        for query, best in enumerate(known):
            indices[query, : len(best)] = [*best]
            scores[query, : len(best)] = [*best.values()]
        unknown = [hit.reference for hits in answers for hit in hits if hit.row < 0]
        return ParsedResults(
            rank_candidates(indices, scores, k),
            depth=max(map(len, answers), default=0),
            unknown_passages=len(unknown),
            unknown_example=unknown[0] if unknown else "",
            repeated=sum(map(len, answers)) - len(unknown) - sum(map(len, known)),
            rising_scores=0 if self.order == "rank" else sum(map(_has_rising_scores, answers)),
        )

    def _best_scores(self, hits: Sequence[ExternalHit]) -> dict[int, float]:
        by_rank = self.order == "rank" or any(hit.score is None for hit in hits)
        best: dict[int, float] = {}
        for rank, hit in enumerate(hits):
            score = float(-rank) if by_rank or hit.score is None else hit.score
            if hit.row >= 0 and score > best.get(hit.row, -np.inf):
                best[hit.row] = score
        return best

    def _hit(self, item: Any) -> ExternalHit:
        score = None
        if isinstance(item, list | tuple) and len(item) == 2:
            item, score = item[0], _number(item[1])
        ids, texts = self._references(item)
        if score is None and not isinstance(item, str):
            score = _number(_first(item, SCORE_KEYS))
        for reference in ids:
            stored = self.question_set.aliases.get(reference, reference)
            if (row := self.question_set.row_of_passage.get(stored, NOT_FOUND)) >= 0:
                return ExternalHit(reference, row, score)
        for text in texts:
            if (row := self._row_of_text.get(composed(text), NOT_FOUND)) >= 0:
                return ExternalHit(self.question_set.passages.ids[row], row, score)
        return ExternalHit(shorten([*ids, *texts][0]), NOT_FOUND, score)

    def _references(self, item: Any) -> tuple[list[str], list[str]]:
        if isinstance(item, str):
            return [item], [item]
        if _is_id(item):
            return [str(item)], []
        levels = [item, *_nested(item)]
        id_keys = (self.id_key,) if self.id_key else ID_KEYS
        ids = [str(value) for level in levels for key in id_keys if _is_id(value := _value(level, key))]
        texts = [] if self.id_key else [text for level in levels if isinstance(text := _first(level, TEXT_KEYS), str)]
        if not ids and not texts:
            expected = f"the field {self.id_key!r}" if self.id_key else "an id or a text"
            message = f"a result has no {expected.removeprefix('the ')}: {shorten(repr(item))}"
            raise OutsideError("outside_results", message, result=shorten(repr(item)))
        return ids, texts

    @cached_property
    def _row_of_text(self) -> dict[str, int]:
        texts = enumerate(self.question_set.passages.texts)
        return {composed(text): row for row, text in reversed([*texts])}


def _has_rising_scores(hits: Sequence[ExternalHit]) -> bool:
    scores = [hit.score for hit in hits if hit.score is not None]
    return len(scores) == len(hits) > 1 and scores[0] < scores[-1] and scores == sorted(scores)


def _items(results: Any) -> Iterator[object]:
    if hasattr(results, "columns") and hasattr(results, "to_dict"):
        yield from results.to_dict("records")
    elif isinstance(results, Mapping) and all(isinstance(value, Real) for value in results.values()):
        yield from results.items()
    elif _are_columns(results):
        yield from zip(*results, strict=True)
    elif isinstance(results, Iterable) and not isinstance(results, str | bytes | Mapping):
        yield from results
    else:
        received = shorten(repr(results))
        message = f"expected a list of results for each query (ids, pairs of id and score, documents), not {received}"
        raise OutsideError("outside_results", message, result=received)


def _are_columns(results: Any) -> bool:
    if not (isinstance(results, tuple) and len(results) == 2):
        return False
    ids, scores = results
    if not all(isinstance(column, list | np.ndarray) for column in results) or len(ids) != len(scores):
        return False
    return all(isinstance(score, Real) for score in scores) and all(isinstance(id_, str | Integral) for id_ in ids)


def _nested(item: object) -> Iterator[object]:
    for key in _NESTED:
        value = _value(item, key)
        if value is not None and not isinstance(value, str | Real):
            yield value
            if (metadata := _value(value, "metadata")) is not None:
                yield metadata


def _value(item: object, key: str) -> Any:
    if isinstance(item, Mapping):
        return item.get(key)
    try:
        return getattr(item, key, None)
    except Exception:  # a property of another library: some raise errors other than AttributeError
        return None


def _first(item: object, keys: Iterable[str]) -> Any:
    return next((value for key in keys if (value := _value(item, key)) is not None), None)


def _is_id(value: Any) -> bool:
    return isinstance(value, str | Integral) and not isinstance(value, bool)


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if not isinstance(value, bool) and isinstance(value, Real):
        with np.errstate(over="ignore"):
            score = float(np.float32(value))
        if np.isfinite(score):
            return score
    message = f"a score is not a finite number: {shorten(repr(value))}"
    raise OutsideError("outside_score", message, score=shorten(repr(value)))


Answers = tuple[Sequence[object], list[float]]  # the results of each query, and its seconds
Caller = Callable[[Sequence[str], int], Answers]  # searches queries for k results


def call_each(search: Callable[[str, int], object], concurrency: int, queries: Sequence[str], k: int) -> Answers:
    """Call a search for each query, `concurrency` of them at a time."""

    def timed_search(query: str) -> tuple[object, float]:
        return timed(lambda: search(query, k), query)

    if concurrency == 1:
        answered = [timed_search(query) for query in queries]
    else:
        pool = ThreadPoolExecutor(concurrency)
        try:
            answered = list(pool.map(timed_search, queries))
        finally:
            pool.shutdown(cancel_futures=True)
    return [results for results, _ in answered], [seconds for _, seconds in answered]


def call_batch(search: Callable[[list[str], int], object], queries: Sequence[str], k: int) -> Answers:
    """Call a search once with all queries, which have equal fractions of its time."""
    results, seconds = timed(lambda: search(list(queries), k), queries[0])
    is_list = isinstance(results, list | tuple) and not hasattr(results, "indices")
    if not hasattr(results, "indices") and not (is_list and len(results) == len(queries)):
        message = f"expected a list with the results of each of {len(queries)} queries"
        raise OutsideError("outside_batch", message, queries=len(queries))
    return list(results) if is_list else results, [seconds / len(queries)] * len(queries)


def timed(search: Callable[[], object], query: str) -> tuple[Any, float]:
    """Return the results of a search, and its seconds. Raises `OutsideError`: `outside_raised`, `outside_async`."""
    start = time.perf_counter()
    try:
        results = search()
    except Failure:
        raise
    except Exception as error:
        reason = shorten(f"{type(error).__name__}: {error}")
        query = shorten(query)
        message = f"the search for {query!r} raised {reason}"
        raise OutsideError("outside_raised", message, reason=reason, query=query) from error
    seconds = time.perf_counter() - start
    if inspect.isawaitable(results) or inspect.isasyncgen(results):
        if inspect.iscoroutine(results):
            results.close()  # avoids a warning that it was never awaited
        function = "lambda query, k: asyncio.run(search(query, k))"
        message = f"async functions are not supported: give a function that returns results, such as `{function}`"
        raise OutsideError("outside_async", message)
    return results, seconds


def is_batched(search: Callable[..., object], holder: object, name: str) -> bool:
    """Whether a search takes several queries, see the module. Raises `OutsideError` (`outside_signature`)."""
    declared = getattr(holder, "batched", None)
    if isinstance(declared, bool):
        return declared
    for first in _parameters(search)[:1]:
        annotation = _annotation(search, first)
        if annotation is str:
            return False
        if typing.get_origin(annotation) in (list, tuple, Sequence, typing.get_origin(typing.Iterable[str])):
            return True
        if first.name in _SINGLE + _SEVERAL:
            return first.name in _SEVERAL
    message = (
        f"{name}: cannot tell whether search takes one query or several; name its first parameter `query` or "
        "`queries`, annotate it, or set the attribute `batched`"
    )
    raise OutsideError("outside_signature", message, name=name)


def with_k(search: Callable[..., object]) -> Callable[[Any, int], object]:
    """Return a function of queries and k that passes k as the search expects it, see the module."""
    parameters = _parameters(search)
    k_parameter = next((parameter for parameter in parameters[1:] if parameter.name in K_NAMES), None)
    if k_parameter is not None and k_parameter.kind is not Parameter.POSITIONAL_ONLY:
        return lambda queries, k: search(queries, **{k_parameter.name: k})
    positional = [parameter for parameter in parameters if parameter.kind in POSITIONAL]
    if k_parameter is not None or (len(positional) > 1 and positional[1].default is Parameter.empty):
        return search
    return lambda queries, _: search(queries)


def accepts_parameter(function: Callable[..., object], name: str) -> bool:
    """Whether a function has a parameter of this name, or takes any keyword."""
    return any(parameter.name == name or parameter.kind is Parameter.VAR_KEYWORD for parameter in _parameters(function))


def _parameters(function: Callable[..., object]) -> list[Parameter]:
    try:
        return [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return []


def _annotation(function: Callable[..., object], parameter: Parameter) -> Any:
    """Return the type of a parameter, also of a string annotation."""
    target: Any = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    try:
        hints = typing.get_type_hints(target)
    except Exception:  # names that exist only for a type checker
        return str if parameter.annotation == "str" else None
    return hints.get(parameter.name)
