"""Asking a model many things, several at a time, and keeping what it answered, so that nobody is asked twice.

Answers are kept in files of JSON lines, added as they come: what is there stays, however the work ends.
"""

import json
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from chat.problems import EndpointError

A = TypeVar("A")
K = TypeVar("K")
_FAILED_IN_A_ROW = 8  # then the endpoint itself is at fault
_SECONDS_BETWEEN_WORDS = 0.5  # it can be stopped while all wait for answers


def ask_each(
    requests: Iterable[K], ask: Callable[[K], A], concurrency: int, may_begin: Callable[[K], bool] = lambda _: True
) -> Generator[tuple[K, A | EndpointError] | None]:
    """Ask about each request in a thread, so many at a time, and yield what came of it; None before each wait.

    None comes twice a second at least. A request that `may_begin` refuses waits until others have ended; where none are
    under way, this ends. Closed early, it begins no further one. Raises what `ask` raises, and an `EndpointError` that
    the others would meet, too, once it was yielded.
    """
    pool, waiting, left = ThreadPoolExecutor(concurrency), dict[Future[A], K](), [*requests][::-1]
    in_a_row, ended = 0, None
    try:
        while (left or waiting) and not ended:
            yield None
            while left and len(waiting) < concurrency and may_begin(left[-1]):
                request = left.pop()
                waiting[pool.submit(ask, request)] = request
            if not waiting:
                return
            for future in wait(waiting, _SECONDS_BETWEEN_WORDS, FIRST_COMPLETED).done:
                request = waiting.pop(future)
                try:
                    answer, in_a_row = future.result(), 0
                except EndpointError as error:
                    in_a_row += 1
                    ended = error if error.ends or in_a_row == _FAILED_IN_A_ROW else ended
                    yield request, error
                else:
                    yield request, answer
        if ended:
            raise ended
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class KeptAnswers(Generic[A]):
    """Answers by the key of what was asked, a line of a file each, under the name `asked`; any thread may add some.

    `read` returns the answer in a line; one of which it cannot (`KeyError`, `TypeError`, `ValueError`) is passed over.
    Where the model was served is no part of what is kept.
    """

    def __init__(self, path: Path, asked: str, read: Callable[[dict[str, Any]], A]) -> None:
        self._path, self._asked = path, asked
        self._writing = threading.Lock()
        self._answers: dict[str, A] = {}
        for entry in lines_of(path):
            with suppress(KeyError, TypeError, ValueError):
                self._answers[str(entry[asked])] = read(entry)

    def get(self, key: str) -> A | None:
        """Return what was answered, None where it was not yet."""
        return self._answers.get(key)

    def add(self, key: str, answer: A, entry: Mapping[str, Any]) -> None:
        """Keep an answer, as `read` finds it in the entry. Raises `OSError`: a full disk."""
        with self._writing:
            append_line(self._path, {self._asked: key, **entry})
            self._answers[key] = answer


def append_line(path: Path, entry: dict[str, Any]) -> None:
    """Add an object to a file, made where there is none; for one thread at a time. Raises `OSError`: a full disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n{json.dumps(entry, ensure_ascii=False)}")  # led by the break: a torn line spoils no other


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file; what cannot be read, as a line torn by a kill, is passed over."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return
    for line in filter(None, lines):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield entry
