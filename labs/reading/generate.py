"""Retrieval-augmented generation (Lewis et al. 2020): a language model answers from the passages that were found.

Many requests are asked several at a time within a budget, and what was answered is kept by all that the model was told,
so that nobody is asked twice.
"""

import math
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.problems import Failure, with_extra
from mrc_workbench.data.workspace import number_in, require_room, workspace, write_json
from mrc_workbench.labs.reading.generator import (
    GeneratedAnswer,
    GeneratedScores,
    Generator,
    GeneratorSpec,
    Messages,
    Request,
    generated_scores,
    prompts,
    require_range,
)
from mrc_workbench.labs.reading.scores import ReadingError, Rules
from mrc_workbench.models.llm import (
    Answer,
    Endpoint,
    EndpointError,
    KeptAnswers,
    Usage,
    ask_each,
    returned,
    without_thoughts,
)
from mrc_workbench.retrieval.comparison.compare import Comparison

if TYPE_CHECKING:
    from mrc_workbench.models.llm_connection import Chat  # imports the library


@dataclass(frozen=True)
class Prices:
    """Prices of a million tokens, in any currency, and the most that a batch may cost (None: no limit).

    Raises `ReadingError` (`price_range`) if one is negative or infinite.
    """

    prompt: float
    completion: float
    most: float | None = None

    def __post_init__(self) -> None:
        for value in (self.prompt, self.completion, self.most or 0.0):
            if not 0 <= value < math.inf:
                raise ReadingError("price_range", f"a price is a number from 0, not {value}")

    def of(self, prompt_tokens: float, completion_tokens: float) -> float:
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1_000_000


class Budget:
    """The cost of a batch so far, and what it may still spend. For one thread.

    A request is estimated by the most tokens a byte and the longest answer so far; before the first answer, by one
    token a byte and an answer of 500 tokens. So a much longer answer can still exceed the limit. If a server reports no
    tokens, or an answer breaks off, the estimate counts as spent: `estimated` is that part of `spent`.
    """

    def __init__(self, prices: Prices | None) -> None:
        self.spent, self.estimated = 0.0, 0.0
        self._prices = prices or Prices(0, 0)
        self._set_aside: dict[str, tuple[int, float]] = {}  # bytes of a request, and what it may cost
        self._tokens_a_byte, self._completion_tokens = 0.0, 0

    def set_aside(self, request: str, size: int) -> bool:
        """Reserve the estimated cost of a request of `size` bytes; False if it might exceed the limit."""
        cost = self._prices.of(size * (self._tokens_a_byte or 1.0), self._completion_tokens or 500)
        most, others = self._prices.most, sum(cost for _, cost in self._set_aside.values())
        if most is not None and self.spent + others + cost > most:
            return False
        self._set_aside[request] = size, cost
        return True

    def settle(self, request: str, usage: Usage | None) -> None:
        """Count the cost of a request: by its tokens, or else by the estimate."""
        size, cost = self._set_aside.pop(request)
        if usage and usage.prompt_tokens is not None and usage.completion_tokens is not None:
            cost = self._prices.of(usage.prompt_tokens, usage.completion_tokens)
            self._tokens_a_byte = max(self._tokens_a_byte, usage.prompt_tokens / max(1, size))
            self._completion_tokens = max(self._completion_tokens, usage.completion_tokens)
        else:
            self.estimated += cost
        self.spent += cost

    def release(self, request: str) -> None:
        del self._set_aside[request]


class GeneratedAnswers(KeptAnswers[Answer]):
    """Stored answers of a model with one prompt and temperature, `workspace/generated/<key>/answers.jsonl`.

    An answer's key is the text that was sent, so it is reused for any retriever and any server.
    """

    def __init__(self, generator: Generator) -> None:
        self._settings = {"model": generator.model, "temperature": float(generator.temperature)}
        self._settings["prompt"] = asdict(generator.prompt)
        self._folder = workspace() / "generated" / key_of(self._settings)[:16]
        super().__init__(self._folder / "answers.jsonl", "asked", _answer)

    def keep(self, messages: Messages, answer: Answer) -> None:
        """Store an answer. Raises `OSError`."""
        if not (self._folder / "generator.json").exists():
            write_json(self._folder / "generator.json", self._settings)
        self.add(messages.key, answer, {"said": answer.text, **asdict(answer.usage)})


def _answer(entry: dict[str, Any]) -> Answer:
    if not isinstance(entry["said"], str):
        raise TypeError("what was said is a text")
    told = (entry.get(name) for name in ("prompt_tokens", "completion_tokens"))
    prompt, completion = (one if isinstance(one, int) and not isinstance(one, bool) else None for one in told)
    usage = Usage(prompt, completion, number_in(entry, "first_seconds"), number_in(entry, "seconds"))
    return Answer(entry["said"], usage)


Progress = Callable[[int, int, float], None]  # different requests done, those in all, and what was spent


def _says_something(answer: Answer) -> bool:
    return bool(without_thoughts(answer.text).strip())


def _nothing_said() -> ReadingError:
    return ReadingError("nothing_said", "the model said nothing")


def _ask(
    new: Mapping[str, Messages],
    chat: "Chat",
    concurrency: int,
    *,
    kept: GeneratedAnswers,
    budget: Budget,
    on_progress: Progress,
    stopped: Callable[[], bool],
) -> tuple[dict[str, Failure], Failure | None]:
    """Ask, and store the answers; returns failures by the messages' keys, and why the rest was not asked."""
    failures: dict[str, Failure] = {}
    done, ended = 0, None

    def ask(messages: Messages) -> Answer:
        answer = returned(chat.stream(messages.system, messages.text))
        if _says_something(answer):  # kept by this thread: perhaps nobody waits for it any more
            kept.keep(messages, answer)
        return answer

    def settle(messages: Messages, answer: Answer | EndpointError) -> None:
        if not isinstance(answer, EndpointError):
            budget.settle(messages.key, answer.usage)
            if not _says_something(answer):
                failures[messages.key] = _nothing_said()
            return
        if answer.code in ("broken_off", "timeout", "too_long", "too_much"):
            budget.settle(messages.key, None)  # it may have cost
        else:
            budget.release(messages.key)
        if not answer.ends:
            failures[messages.key] = answer

    affordable = ask_each(new.values(), ask, concurrency, lambda one: budget.set_aside(one.key, one.size))
    with closing(affordable) as answers:
        try:
            for told in answers:
                if told:
                    done += 1
                    settle(*told)
                elif stopped():
                    return failures, ReadingError("generation_stopped", "stopped: what was answered is kept")
                else:
                    on_progress(done, len(new), budget.spent)
        except EndpointError as error:
            ended = error
    on_progress(done, len(new), budget.spent)
    left = len(new) - done
    if left and not ended:
        return failures, ReadingError("price_ceiling", f"{left:,} more might pass the price", left=left)
    return failures, ended


@dataclass(frozen=True)
class Batch:
    """The results of many requests, by their ids.

    `failures` of single requests are retried the next time. `left` were not asked, or not waited for, for the reason
    `ended`. `spent` is of this batch alone, `estimated` the part that no server reported.
    """

    answers: dict[str, GeneratedAnswer]
    failures: dict[str, Failure]
    left: int
    ended: Failure | None
    spent: float
    estimated: float


def stored_answer(generator: Generator, request: Request) -> GeneratedAnswer | None:
    """Return the stored answer of a request, None if there is none."""
    messages = generator.messages(request)
    known = GeneratedAnswers(generator).get(messages.key)
    return generator.answer(known, messages.sent) if known else None


def answer(generator: Generator, chat: "Chat", request: Request) -> abc.Generator[str, None, GeneratedAnswer]:
    """Yield the answer to a request piece by piece, return it, and store it once it is complete.

    Close it to stop, or stop the `chat` from another thread. Raises `EndpointError`, `ReadingError` (`nothing_said`),
    `LimitError` (`megabytes`), and `OSError`.
    """
    messages = generator.messages(request)
    require_room()
    said = yield from chat.stream(messages.system, messages.text)
    if not _says_something(said):
        raise _nothing_said()
    GeneratedAnswers(generator).keep(messages, said)
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
    """Answer many requests (their ids differ), `concurrency` at a time; without an endpoint, return stored answers.

    Each answer is stored as it comes and never requested again, even if `stopped` (polled twice a second), an error of
    `on_progress` or a kill ends the batch. A request that might exceed `prices.most` is not started (`ended` is
    `price_ceiling`), nor is any after an error of the endpoint that the others would meet, too (`ended` is that error).
    Raises `ReadingError` (`generator_range`), `LimitError` (`megabytes`), and `OSError`.
    """
    require_range("concurrency", concurrency, 1, 64)
    kept, budget = GeneratedAnswers(generator), Budget(prices)
    messages = {request.id: generator.messages(request) for request in requests}
    new = {one.key: one for one in messages.values() if not kept.get(one.key)}
    failed, ended = dict[str, Failure](), None
    if endpoint and new:
        require_room()
        failed, ended = _ask(
            new,
            generator.chat(endpoint),
            concurrency,
            kept=kept,
            budget=budget,
            on_progress=on_progress or (lambda *_: None),
            stopped=stopped or (lambda: False),
        )
    answers = {id_: generator.answer(known, one.sent) for id_, one in messages.items() if (known := kept.get(one.key))}
    failures = {id_: failed[one.key] for id_, one in messages.items() if one.key in failed}
    left = len(messages) - len(answers) - len(failures)
    return Batch(answers, failures, left, ended, budget.spent, budget.estimated)


@dataclass(frozen=True)
class Generated:
    """What came of the questions asked over one retriever's passages; no scores where nothing was answered."""

    batch: Batch
    scores: GeneratedScores | None


@dataclass(frozen=True)
class GeneratorResult:
    """A language model's answers by retriever, or its `error`."""

    name: str
    by_retriever: Mapping[str, Generated] = field(default_factory=dict)
    error: Exception | None = None


def generated(
    spec: GeneratorSpec, comparison: Comparison, rules: Rules, seed: int, tell: Callable[[float], None]
) -> GeneratorResult:
    """Query a language model at the environment's endpoint; without an endpoint, return its stored answers.

    Samples `spec.questions` of more questions. `most_cost` is for all retrievers together, in their order. `tell`
    reports the fraction of the questions done.
    """
    try:
        generator = generator_of(spec)
        rows = list(range(len(comparison.question_set.questions)))
        if 0 < spec.questions < len(rows):
            rows = sorted(np.random.default_rng(seed).permutation(len(rows))[: spec.questions].tolist())
        asked = comparison.question_set.with_questions(rows)
        ids = {question.id for question in asked.questions}
        endpoint, found, spent = Endpoint.of(), {}, 0.0
        for number, (name, rankings) in enumerate(comparison.rankings.items()):

            def report(done: int, total: int, cost: float, number: int = number) -> None:
                del cost
                tell((number + done / max(1, total)) / len(comparison.rankings))

            requests = generator.requests(comparison.question_set, rankings)
            requests = [one for one in requests if one.id in ids and one.passages]
            left = None if spec.most_cost is None else max(0.0, spec.most_cost - spent)
            prices = Prices(spec.price_prompt, spec.price_completion, left)
            batch = generate(generator, requests, endpoint, prices=prices, on_progress=report)
            spent += batch.spent
            found[name] = Generated(batch, generated_scores(asked, batch.answers, rules) if batch.answers else None)
        return GeneratorResult(spec.name, found)
    except Exception as error:  # the others go on
        return GeneratorResult(spec.name, error=with_extra(error))


def generator_of(spec: GeneratorSpec) -> Generator:
    """Return the generator of a specification. Raises `ReadingError`: also `no_prompt`."""
    if spec.prompt not in prompts():
        known = ", ".join(prompts())
        raise ReadingError("no_prompt", f"there is no prompt {spec.prompt!r}; there are {known}", known=known)
    settings = spec.model_dump(include={"name", "model", "temperature", "most_passages", "most_characters"})
    return Generator(prompt=prompts()[spec.prompt], **settings)
