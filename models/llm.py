"""A chat endpoint that speaks OpenAI's protocol: a server of your own (vLLM, Ollama, llama.cpp) or a service.

Its address and key come from the environment or from one session; they are never written or logged. Many questions are
asked several at a time. Answers are stored in files of JSON lines, appended as they come: no question is sent twice,
however the work ends.
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

from mrc_workbench.data.earlier_names import current_names
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.workspace import limits, user

A = TypeVar("A")
K = TypeVar("K")
T = TypeVar("T")
# variables of the environment
ADDRESS = "OPENAI_BASE_URL"
MODEL = "OPENAI_MODEL"
KEY = "OPENAI_API_KEY"
TIMEOUT_SECONDS = 60.0
_SHORTEST_KEY = 8  # a server of one's own takes any word for a key, and an answer may hold that word
_MAX_CONSECUTIVE_FAILURES = 8  # then the endpoint itself is at fault
_POLL_SECONDS = 0.5  # it can be stopped while all wait for answers


class EndpointError(Failure):
    """No answer came, nor would one to the next question where it `ends`; `code` is a key of `chat.` in the locales."""

    def __init__(self, code: str, message: str, *, is_fatal: bool = True, **details: str | int) -> None:
        super().__init__(code, message, **details)
        self.is_fatal = is_fatal


def run_requests(
    requests: Iterable[K], ask: Callable[[K], A], concurrency: int, may_begin: Callable[[K], bool] = lambda _: True
) -> Generator[tuple[K, A | EndpointError] | None]:
    """Ask about each request in a thread, so many at a time, and yield the results; None before each wait.

    None comes twice a second at least. A request that `may_begin` refuses waits until others have ended; without
    others, this ends. Closed early, it begins no further one. Raises what `ask` raises, and an `EndpointError` that the
    other requests would meet, too, once it was yielded.
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
                    fatal_error = (
                        error if error.is_fatal or consecutive_failures == _MAX_CONSECUTIVE_FAILURES else fatal_error
                    )
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
    """Add an object to a file, made where there is none; for one thread at a time. Raises `OSError`: a full disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n{json.dumps(entry, ensure_ascii=False)}")  # led by the break: a torn line spoils no other


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
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


def replace_surrogates(text: str) -> str:
    """Return a text that can be written: half of a pair of surrogates, which JSON allows, becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def remove_thoughts(answer: str) -> str:
    """Return an answer without what a model that thinks aloud says before it, up to `</think>`."""
    return answer.rpartition("</think>")[2]


@dataclass(frozen=True)
class Usage:
    """Tokens as the server counts them, None where it tells none; seconds to the first piece, and in all."""

    prompt_tokens: int | None
    completion_tokens: int | None
    first_seconds: float
    seconds: float


class ChatAnswer(NamedTuple):
    """All that a model said, and what that took."""

    text: str
    usage: Usage


def exhaust(stream: Generator[Any, None, T]) -> T:
    """Let a stream come to its end; returns what it returns."""
    while True:
        try:
            next(stream)
        except StopIteration as end:
            result: T = end.value
            return result


@dataclass(frozen=True)
class Endpoint:
    """Where passages are sent. Raises `EndpointError`: the address is none of the web, or the key cannot be sent."""

    address: str = field(repr=False)
    key: str = field(default="", repr=False)
    is_operators: bool = field(default=False, compare=False)  # what the environment adds is meant for it

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
            raise EndpointError("key_wrong", "a key is one line of Latin letters, digits and signs: paste it again")

    @classmethod
    def from_input(cls, address: str = "", key: str = "") -> Self:
        """Return the endpoint given or, where no address is, that of the environment.

        The environment's key goes to the environment's address alone, and so does an organization, a project, or a
        header that it has for the library: whoever can type an address must not get them.
        Raises `EndpointError`: also `address_refused`, where a user gives one and `addresses` does not let them, since
        the server would reach what they cannot.
        """
        if address.strip():
            if not users_may_set_address():
                raise EndpointError("address_refused", "the address of a language model is the server's own here")
            return cls(address.strip(), key.strip())
        environment_values = os.environ.get(ADDRESS, "").strip(), key.strip() or os.environ.get(KEY, "").strip()
        return cls(*environment_values, is_operators=True)

    def without_key(self, answer: str) -> str:
        """Return an answer without the key, should the server have repeated it: answers are kept."""
        return answer.replace(self.key, "…") if len(self.key) >= _SHORTEST_KEY else answer


def users_may_set_address() -> bool:
    """Whether an address may be typed here."""
    return not user() or limits().addresses
