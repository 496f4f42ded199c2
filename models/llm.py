"""A chat endpoint with OpenAI's protocol: a local server (vLLM, Ollama, llama.cpp) or a service.

Address and key come from the environment or from the session; they are never written or logged. Requests run
concurrently. Answers are appended to files of JSON lines as they arrive, so no request is sent twice.
"""

import json
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

from mrc_workbench.data.files import current_names
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.workspace import limits, user

A = TypeVar("A")
K = TypeVar("K")
T = TypeVar("T")
ADDRESS = "OPENAI_BASE_URL"
MODEL = "OPENAI_MODEL"
KEY = "OPENAI_API_KEY"
TIMEOUT_SECONDS = 60.0
_MIN_KEY = 8  # characters; local servers accept any word, which an answer may contain
_MAX_CONSECUTIVE_FAILURES = 8  # more mean a failure of the endpoint
_POLL_SECONDS = 0.5  # allows to stop while requests wait


class EndpointError(Failure):
    """A failed request, after which all others would fail if `is_fatal`; `code` is a key of `chat.` in the locales."""

    def __init__(self, code: str, message: str, *, is_fatal: bool = True, **details: str | int) -> None:
        super().__init__(code, message, **details)
        self.is_fatal = is_fatal


def run_requests(
    requests: Iterable[K], ask: Callable[[K], A], concurrency: int, may_begin: Callable[[K], bool] = lambda _: True
) -> Generator[tuple[K, A | EndpointError] | None]:
    """Run `ask` for each request in threads and yield the results; None before each wait, at least twice a second.

    A request that `may_begin` refuses waits for others; without others, this ends. Closing starts no further requests.
    Raises the errors of `ask`, and a fatal `EndpointError` after yielding it.
    """
    pool = ThreadPoolExecutor(concurrency)
    running = dict[Future[A], K]()
    pending = [*requests][::-1]
    consecutive_failures = 0
    fatal_error = None
    try:
        while (pending or running) and not fatal_error:
            yield None
            while pending and len(running) < concurrency and may_begin(pending[-1]):
                request = pending.pop()
                running[pool.submit(ask, request)] = request
            if not running:
                return
            for future in wait(running, _POLL_SECONDS, FIRST_COMPLETED).done:
                request = running.pop(future)
                try:
                    answer = future.result()
                    consecutive_failures = 0
                except EndpointError as error:
                    consecutive_failures += 1
                    if error.is_fatal or consecutive_failures == _MAX_CONSECUTIVE_FAILURES:
                        fatal_error = error
                    yield request, error
                else:
                    yield request, answer
        if fatal_error:
            raise fatal_error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class StoredAnswers(Generic[A]):
    """Answers by their key, a line of a file each, in which the key is named `asked`; any thread may add some.

    `read` returns the answer of a line; a line that it cannot read (`KeyError`, `TypeError`, `ValueError`) is skipped.
    """

    def __init__(
        self,
        path: Path,
        key_name: str,
        read: Callable[[dict[str, Any]], A],
        earlier_names: Mapping[str, str] | None = None,
    ) -> None:
        self._path = path
        self._key_name = key_name
        self._writing = threading.Lock()
        self._answers: dict[str, A] = {}
        for line in read_json_lines(path):
            entry = current_names(line, earlier_names or {}, path.name)
            with suppress(KeyError, TypeError, ValueError):
                self._answers[str(entry[key_name])] = read(entry)

    def get(self, key: str) -> A | None:
        return self._answers.get(key)

    def add(self, key: str, answer: A, entry: Mapping[str, Any]) -> None:
        with self._writing:
            append_line(self._path, {self._key_name: key, **entry})
            self._answers[key] = answer


def append_line(path: Path, entry: dict[str, Any]) -> None:
    """Append an object to a file; not thread-safe. Raises `OSError`, as for a full disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n{json.dumps(entry, ensure_ascii=False)}")  # the leading line break isolates a torn line


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file without unreadable lines, such as torn ones."""
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


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON allows but files do not, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def remove_thoughts(answer: str) -> str:
    """Return an answer without the reasoning before `</think>`."""
    return answer.rpartition("</think>")[2]


@dataclass(frozen=True)
class Usage:
    """Token counts of the server, None if missing; seconds to the first piece, and in total."""

    prompt_tokens: int | None
    completion_tokens: int | None
    first_seconds: float
    seconds: float


class ChatAnswer(NamedTuple):
    """A complete answer, and its usage."""

    text: str
    usage: Usage


def exhaust(stream: Generator[Any, None, T]) -> T:
    """Exhaust a stream and return its value."""
    while True:
        try:
            next(stream)
        except StopIteration as end:
            result: T = end.value
            return result


@dataclass(frozen=True)
class Endpoint:
    """The address and key of a server. Raises `EndpointError` for invalid ones."""

    address: str = field(repr=False)
    key: str = field(default="", repr=False)
    is_operators: bool = field(default=False, compare=False)  # of the environment, which may add headers

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.address)
            known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            known = known and self.address.isprintable()
        except ValueError:
            known = False
        if not known:
            text = f"the address must begin with http:// or https://; {ADDRESS} may hold it"
            raise EndpointError("address_wrong", text)
        if not (self.key.isascii() and self.key.isprintable()):
            raise EndpointError("key_wrong", "a key is one line of printable ASCII characters: paste it again")

    @classmethod
    def from_input(cls, address: str = "", key: str = "") -> Self:
        """Return the endpoint of a user's address, by default that of the environment.

        Key, organization, project and headers of the environment go only to the environment's address. Raises
        `EndpointError`: also `address_refused` if users may not enter addresses, which the server could reach and they
        could not.
        """
        if address.strip():
            if not users_may_set_address():
                raise EndpointError("address_refused", "users may not enter an address of a language model here")
            return cls(address.strip(), key.strip())
        environment_key = os.environ.get(KEY, "").strip()
        return cls(os.environ.get(ADDRESS, "").strip(), key.strip() or environment_key, is_operators=True)

    def without_key(self, answer: str) -> str:
        return answer.replace(self.key, "…") if len(self.key) >= _MIN_KEY else answer


def users_may_set_address() -> bool:
    """Whether users may enter addresses."""
    return not user() or limits().addresses
