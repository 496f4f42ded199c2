"""How a Python object is searched: one query a call or all of them, and where it takes the number of results.

One query or several, by the first of these that decides:

1. the argument `batched`, then an attribute `batched` of the object;
2. the annotation of the first parameter: `str` means one query, a sequence of `str` several;
3. its name: `query`, `question`, `text` or `q` means one, `queries`, `questions` or `texts` several.

Anything else raises `OutsideError` (`outside_signature`): nothing is called to find out. The number of results goes to
a parameter named as in `K_NAMES`, else to the second parameter if that has no default, else nowhere.
"""

import inspect
import time
import typing
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, Protocol

from mrc_workbench.data.problems import Failure
from mrc_workbench.retrieval.outside.problems import OutsideError, shortened

K_NAMES = ("k", "top_k", "topk", "n", "limit", "size", "num_results", "n_results")
_SINGLE = ("query", "question", "text", "q", "query_str", "input")
_SEVERAL = ("queries", "questions", "texts")
POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Caller(Protocol):
    """Searches several queries."""

    def results(self, queries: Sequence[str], k: int) -> tuple[Sequence[object], list[float]]:
        """Return the results of each query, and the seconds that each took."""
        ...


@dataclass(frozen=True)
class QueryCaller:
    """Calls `search(query, k)` for each query, `concurrency` of them at a time."""

    search: Callable[[str, int], object]
    concurrency: int = 1

    def results(self, queries: Sequence[str], k: int) -> tuple[Sequence[object], list[float]]:
        """Return the results of each query, and its seconds. Raises `OutsideError` (`outside_raised`)."""
        if self.concurrency == 1:
            answered = [self._timed(query, k) for query in queries]
        else:
            pool = ThreadPoolExecutor(self.concurrency)
            try:
                answered = list(pool.map(lambda query: self._timed(query, k), queries))
            finally:
                pool.shutdown(cancel_futures=True)
        return [results for results, _ in answered], [seconds for _, seconds in answered]

    def _timed(self, query: str, k: int) -> tuple[object, float]:
        start = time.perf_counter()
        try:
            results = self.search(query, k)
        except Failure:
            raise
        except Exception as error:
            raise raised(error, query) from error
        seconds = time.perf_counter() - start
        _reject_awaitable(results)
        return results, seconds


@dataclass(frozen=True)
class BatchCaller:
    """Calls `search(queries, k)` once; each query has an equal share of its time."""

    search: Callable[[list[str], int], object]

    def results(self, queries: Sequence[str], k: int) -> tuple[Sequence[object], list[float]]:
        """Return the results of each query, and its seconds. Raises `OutsideError`."""
        start = time.perf_counter()
        try:
            results: Any = self.search(list(queries), k)
        except Failure:
            raise
        except Exception as error:
            raise raised(error, queries[0]) from error
        seconds = time.perf_counter() - start
        _reject_awaitable(results)
        if not hasattr(results, "indices"):
            results = list(results) if isinstance(results, list | tuple) else results
            if not isinstance(results, list) or len(results) != len(queries):
                message = f"expected a list with the results of each of {len(queries)} queries"
                raise OutsideError("outside_batch", message, queries=len(queries))
        return results, [seconds / len(queries)] * len(queries)


def _reject_awaitable(results: object) -> None:
    """Raise `OutsideError` (`outside_async`) for what an asynchronous search returns."""
    if inspect.isawaitable(results) or inspect.isasyncgen(results):
        if inspect.iscoroutine(results):
            results.close()  # else Python warns that it was never awaited
        function = "lambda query, k: asyncio.run(search(query, k))"
        message = f"async functions are not supported: give a function that returns results, such as `{function}`"
        raise OutsideError("outside_async", message)


def raised(error: Exception, query: str) -> OutsideError:
    """Return the failure of a search that raised an error."""
    reason, asked = shortened(f"{type(error).__name__}: {error}"), shortened(query)
    return OutsideError("outside_raised", f"the search for {asked!r} raised {reason}", reason=reason, query=asked)


def is_batched(search: Callable[..., object], holder: object, name: str) -> bool:
    """Whether a search takes several queries; see the module. Raises `OutsideError` (`outside_signature`)."""
    declared = getattr(holder, "batched", None)
    if isinstance(declared, bool):
        return declared
    parameters = _parameters(search)
    if parameters:
        first = parameters[0]
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
    """Return a function of queries and k that passes k as the search takes it; see the module."""
    parameters = _parameters(search)
    named = next((parameter for parameter in parameters[1:] if parameter.name in K_NAMES), None)
    if named is not None and named.kind is not Parameter.POSITIONAL_ONLY:
        return lambda queries, k: search(queries, **{named.name: k})
    positional = [parameter for parameter in parameters if parameter.kind in POSITIONAL]
    if named is not None or (len(positional) > 1 and positional[1].default is Parameter.empty):
        return search
    return lambda queries, _: search(queries)


def takes(function: Callable[..., object], name: str) -> bool:
    """Whether a function has a parameter of this name, or takes any."""
    parameters = _parameters(function)
    return any(one.name == name or one.kind is Parameter.VAR_KEYWORD for one in parameters)


def _parameters(function: Callable[..., object]) -> list[Parameter]:
    """Return the parameters of a function, without `self`; none if it has no readable signature."""
    try:
        signature: Signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    return list(signature.parameters.values())


def _annotation(function: Callable[..., object], parameter: Parameter) -> Any:
    """Return the type of a parameter, also if it is written as text."""
    target: Any = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    try:
        hints = typing.get_type_hints(target)
    except Exception:  # names that exist only for a type checker
        return str if parameter.annotation == "str" else None
    return hints.get(parameter.name)
