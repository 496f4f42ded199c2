"""Retrieval-augmented generation (Lewis et al. 2020): a language model answers from the passages that were found."""

from collections import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chat.endpoint import Chat, Endpoint
from data.failure import Failure
from data.limits import require_room
from reading.generate.generator import GeneratedAnswer, Generator, Request, require_range
from reading.generation.asking import Asking, Progress, nothing_said, says_something
from reading.generation.kept import KeptAnswers
from reading.generation.prices import Budget, Prices

_MOST_AT_ONCE = 64


@dataclass(frozen=True)
class Batch:
    """What came of many requests, by their ids: answers, or why there is none.

    `failures` are of single requests (a timeout, a refusal, silence), which are asked again the next time. `left` were
    not asked, or their answers were not waited for; `ended` says why, None where nothing ended the batch. `spent` is of
    this batch alone, what was kept before costs nothing, and no server told the part of it that is `estimated`.
    """

    answers: dict[str, GeneratedAnswer]
    failures: dict[str, Failure]
    left: int
    ended: Failure | None
    spent: float
    estimated: float


def kept_answer(generator: Generator, request: Request) -> GeneratedAnswer | None:
    """Return what was answered before; None where nothing was."""
    messages = generator.messages(request)
    known = KeptAnswers(generator).get(messages)
    return generator.answer(known, messages.sent) if known else None


def answer(generator: Generator, chat: Chat, request: Request) -> abc.Generator[str, None, GeneratedAnswer]:
    """Yield the answer of the generator's model to a request piece by piece, return it, and keep it once it is whole.

    Close it to stop, or stop the `chat` from another thread. Raises `EndpointError`, `ReadingError` (`nothing_said`),
    `LimitError` (`megabytes`), `OSError`: a full disk.
    """
    messages = generator.messages(request)
    require_room()
    said = yield from chat.stream(messages.system, messages.text)
    if not says_something(said):
        raise nothing_said()
    KeptAnswers(generator).add(messages, said)
    return generator.answer(said, messages.sent)


def generate(
    generator: Generator,
    requests: Sequence[Request],
    endpoint: Endpoint | None,
    *,
    prices: Prices | None = None,
    concurrency: int = 4,
    on_progress: Progress | None = None,
    stopped: Callable[[], bool] | None = None,
) -> Batch:
    """Answer many requests (their ids differ), `concurrency` at a time; without an endpoint, take what was kept.

    Each answer is kept as it comes, and what was answered is never asked again, whoever ends this: `stopped`, asked
    twice a second, `on_progress` by an error of its own, or a kill. Answers under way are then not waited for, and kept
    if they still come. A request that might pass `prices.most` is not begun (`ended` is `price_ceiling`; `Budget` says
    how sure that is), nor is any after an error of the endpoint that the others would meet, too (`ended` is that
    error). Raises `ReadingError` (`generator_range`), `LimitError` (`megabytes`), `OSError`: a full disk.
    """
    require_range("concurrency", concurrency, 1, _MOST_AT_ONCE)
    kept, budget = KeptAnswers(generator), Budget(prices)
    messages = {request.id: generator.messages(request) for request in requests}
    new = {one.key: one for one in messages.values() if not kept.get(one)}
    asking = Asking(kept, budget, on_progress or _say_nothing, stopped or _never)
    ended = None
    if endpoint and new:
        require_room()
        ended = asking.about(new, generator.chat(endpoint), concurrency)
    answers = {id_: generator.answer(known, one.sent) for id_, one in messages.items() if (known := kept.get(one))}
    failures = {id_: asking.failures[one.key] for id_, one in messages.items() if one.key in asking.failures}
    left = len(messages) - len(answers) - len(failures)
    return Batch(answers, failures, left, ended, budget.spent, budget.estimated)


def _say_nothing(done: int, total: int, spent: float) -> None:
    del done, total, spent


def _never() -> bool:
    return False
