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
from mrc_workbench.data.workspace import read_number, require_storage, workspace, write_json
from mrc_workbench.labs.reading.generator import (
    ChatMessages,
    GeneratedAnswer,
    GeneratedScores,
    GenerationRequest,
    Generator,
    GeneratorSpec,
    load_prompts,
    require_range,
    score_generated_answers,
)
from mrc_workbench.labs.reading.scores import ReadingError, ScoringRules
from mrc_workbench.models.llm import (
    ChatAnswer,
    Endpoint,
    EndpointError,
    StoredAnswers,
    Usage,
    exhaust,
    remove_thoughts,
    run_requests,
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
    limit: float | None = None

    def __post_init__(self) -> None:
        for value in (self.prompt, self.completion, self.limit or 0.0):
            if not 0 <= value < math.inf:
                raise ReadingError("price_range", f"a price is a number from 0, not {value}")

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float:
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1_000_000


class CostBudget:
    """The cost of a batch so far, and what it may still spend. For one thread.

    A request is estimated by the most tokens a byte and the longest answer so far; before the first answer, by one
    token a byte and an answer of 500 tokens. So a much longer answer can still exceed the limit. If a server reports no
    tokens, or an answer breaks off, the estimate counts as spent: `estimated` is that part of `spent`.
    """

    def __init__(self, prices: Prices | None) -> None:
        self.spent = 0.0
        self.estimated = 0.0
        self._prices = prices or Prices(0, 0)
        self._reserved: dict[str, tuple[int, float]] = {}  # bytes of a request, and what it may cost
        self._tokens_per_byte = 0.0
        self._completion_tokens = 0

    def reserve(self, request: str, size: int) -> bool:
        """Reserve the estimated cost of a request of `size` bytes; False if it might exceed the limit."""
        cost = self._prices.cost(size * (self._tokens_per_byte or 1.0), self._completion_tokens or 500)
        limit = self._prices.limit
        reserved = sum(cost for _, cost in self._reserved.values())
        if limit is not None and self.spent + reserved + cost > limit:
            return False
        self._reserved[request] = size, cost
        return True

    def settle(self, request: str, usage: Usage | None) -> None:
        """Count the cost of a request: by its tokens, or else by the estimate."""
        size, cost = self._reserved.pop(request)
        if usage and usage.prompt_tokens is not None and usage.completion_tokens is not None:
            cost = self._prices.cost(usage.prompt_tokens, usage.completion_tokens)
            self._tokens_per_byte = max(self._tokens_per_byte, usage.prompt_tokens / max(1, size))
            self._completion_tokens = max(self._completion_tokens, usage.completion_tokens)
        else:
            self.estimated += cost
        self.spent += cost

    def release(self, request: str) -> None:
        del self._reserved[request]


class GeneratedAnswers(StoredAnswers[ChatAnswer]):
    """Stored answers of a model with one prompt and temperature, `workspace/generated/<key>/answers.jsonl`.

    An answer's key is the text that was sent, so it is reused for any retriever and any server.
    """

    def __init__(self, generator: Generator) -> None:
        self._settings = {"model": generator.model, "temperature": float(generator.temperature)}
        self._settings["prompt"] = asdict(generator.prompt)
        self._folder = workspace() / "generated" / key_of(self._settings)[:16]
        super().__init__(self._folder / "answers.jsonl", "asked", _parse_entry)

    def save(self, messages: ChatMessages, answer: ChatAnswer) -> None:
        """Store an answer. Raises `OSError`."""
        if not (self._folder / "generator.json").exists():
            write_json(self._folder / "generator.json", self._settings)
        self.add(messages.key, answer, {"said": answer.text, **asdict(answer.usage)})


def _parse_entry(entry: dict[str, Any]) -> ChatAnswer:
    if not isinstance(entry["said"], str):
        raise TypeError("what was said is a text")
    counts = (entry.get(name) for name in ("prompt_tokens", "completion_tokens"))
    prompt, completion = (count if isinstance(count, int) and not isinstance(count, bool) else None for count in counts)
    usage = Usage(prompt, completion, read_number(entry, "first_seconds"), read_number(entry, "seconds"))
    return ChatAnswer(entry["said"], usage)


OnBatchProgress = Callable[[int, int, float], None]  # different requests done, those in all, and what was spent


def _has_text(answer: ChatAnswer) -> bool:
    return bool(remove_thoughts(answer.text).strip())


def _empty_answer_error() -> ReadingError:
    return ReadingError("nothing_said", "the model said nothing")


def _request_answers(
    new: Mapping[str, ChatMessages],
    chat: "Chat",
    concurrency: int,
    *,
    stored_answers: GeneratedAnswers,
    budget: CostBudget,
    on_progress: OnBatchProgress,
    stopped: Callable[[], bool],
) -> tuple[dict[str, Failure], Failure | None]:
    """Ask, and store the answers; returns failures by the messages' keys, and why the rest was not asked."""
    failures: dict[str, Failure] = {}
    done = 0
    ended = None

    def request_answer(messages: ChatMessages) -> ChatAnswer:
        answer = exhaust(chat.stream(messages.system, messages.text))
        if _has_text(answer):  # kept by this thread: perhaps nobody waits for it any more
            stored_answers.save(messages, answer)
        return answer

    def settle(messages: ChatMessages, answer: ChatAnswer | EndpointError) -> None:
        if not isinstance(answer, EndpointError):
            budget.settle(messages.key, answer.usage)
            if not _has_text(answer):
                failures[messages.key] = _empty_answer_error()
            return
        if answer.code in ("truncated", "timeout", "too_long", "answer_too_large"):
            budget.settle(messages.key, None)  # it may have cost
        else:
            budget.release(messages.key)
        if not answer.is_fatal:
            failures[messages.key] = answer

    affordable = run_requests(
        new.values(), request_answer, concurrency, lambda pending: budget.reserve(pending.key, pending.size)
    )
    with closing(affordable) as answers:
        try:
            for outcome in answers:
                if outcome:
                    done += 1
                    settle(*outcome)
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
    n_remaining: int
    end_reason: Failure | None
    spent: float
    estimated: float


def stored_answer(generator: Generator, request: GenerationRequest) -> GeneratedAnswer | None:
    """Return the stored answer of a request, None if there is none."""
    messages = generator.build_messages(request)
    stored = GeneratedAnswers(generator).get(messages.key)
    return generator.parse_answer(stored, messages.passages) if stored else None


def stream_answer(
    generator: Generator, chat: "Chat", request: GenerationRequest
) -> abc.Generator[str, None, GeneratedAnswer]:
    """Yield the answer to a request piece by piece, return it, and store it once it is complete.

    Close it to stop, or stop the `chat` from another thread. Raises `EndpointError`, `ReadingError` (`nothing_said`),
    `LimitError` (`megabytes`), and `OSError`.
    """
    messages = generator.build_messages(request)
    require_storage()
    response = yield from chat.stream(messages.system, messages.text)
    if not _has_text(response):
        raise _empty_answer_error()
    GeneratedAnswers(generator).save(messages, response)
    return generator.parse_answer(response, messages.passages)


def generate(
    generator: Generator,
    requests: Sequence[GenerationRequest],
    endpoint: Endpoint | None,
    *,
    prices: Prices | None = None,
    concurrency: int = 4,
    on_progress: OnBatchProgress | None = None,
    stopped: Callable[[], bool] | None = None,
) -> Batch:
    """Answer many requests (their ids differ), `concurrency` at a time; without an endpoint, return stored answers.

    Each answer is stored as it comes and never requested again, even if `stopped` (polled twice a second), an error of
    `on_progress` or a kill ends the batch. A request that might exceed `prices.most` is not started (`ended` is
    `price_ceiling`), nor is any after an error of the endpoint that the others would meet, too (`ended` is that error).
    Raises `ReadingError` (`generator_range`), `LimitError` (`megabytes`), and `OSError`.
    """
    require_range("concurrency", concurrency, 1, 64)
    stored_answers = GeneratedAnswers(generator)
    budget = CostBudget(prices)
    messages = {request.id: generator.build_messages(request) for request in requests}
    new = {message.key: message for message in messages.values() if not stored_answers.get(message.key)}
    failed = dict[str, Failure]()
    ended = None
    if endpoint and new:
        require_storage()
        failed, ended = _request_answers(
            new,
            generator.chat(endpoint),
            concurrency,
            stored_answers=stored_answers,
            budget=budget,
            on_progress=on_progress or (lambda *_: None),
            stopped=stopped or (lambda: False),
        )
    answers = {
        id_: generator.parse_answer(stored, message.passages)
        for id_, message in messages.items()
        if (stored := stored_answers.get(message.key))
    }
    failures = {id_: failed[message.key] for id_, message in messages.items() if message.key in failed}
    left = len(messages) - len(answers) - len(failures)
    return Batch(answers, failures, left, ended, budget.spent, budget.estimated)


@dataclass(frozen=True)
class RetrieverAnswers:
    """What came of the questions asked over one retriever's passages; no scores where nothing was answered."""

    batch: Batch
    scores: GeneratedScores | None


@dataclass(frozen=True)
class GeneratorResult:
    """A language model's answers by retriever, or its `error`."""

    name: str
    by_retriever: Mapping[str, RetrieverAnswers] = field(default_factory=dict)
    error: Exception | None = None


def run_generator(
    spec: GeneratorSpec,
    comparison: Comparison,
    rules: ScoringRules,
    seed: int,
    report_progress: Callable[[float], None],
) -> GeneratorResult:
    """Query a language model at the environment's endpoint; without an endpoint, return its stored answers.

    Samples `spec.questions` of more questions. `most_cost` is for all retrievers together, in their order. `tell`
    reports the fraction of the questions done.
    """
    try:
        generator = build_generator(spec)
        rows = list(range(len(comparison.question_set.questions)))
        if 0 < spec.questions < len(rows):
            rows = sorted(np.random.default_rng(seed).permutation(len(rows))[: spec.questions].tolist())
        sample = comparison.question_set.with_questions(rows)
        ids = {question.id for question in sample.questions}
        endpoint = Endpoint.from_input()
        answers_by_retriever = {}
        spent = 0.0
        for number, (name, rankings) in enumerate(comparison.rankings.items()):

            def report(done: int, total: int, cost: float, number: int = number) -> None:
                del cost
                report_progress((number + done / max(1, total)) / len(comparison.rankings))

            requests = generator.requests(comparison.question_set, rankings)
            requests = [request for request in requests if request.id in ids and request.passages]
            left = None if spec.most_cost is None else max(0.0, spec.most_cost - spent)
            prices = Prices(spec.price_prompt, spec.price_completion, left)
            batch = generate(generator, requests, endpoint, prices=prices, on_progress=report)
            spent += batch.spent
            answers_by_retriever[name] = RetrieverAnswers(
                batch, score_generated_answers(sample, batch.answers, rules) if batch.answers else None
            )
        return GeneratorResult(spec.name, answers_by_retriever)
    except Exception as error:  # the others go on
        return GeneratorResult(spec.name, error=with_extra(error))


def build_generator(spec: GeneratorSpec) -> Generator:
    """Return the generator of a specification. Raises `ReadingError`: also `no_prompt`."""
    if spec.prompt not in load_prompts():
        known = ", ".join(load_prompts())
        raise ReadingError("no_prompt", f"there is no prompt {spec.prompt!r}; there are {known}", known=known)
    settings = spec.model_dump(include={"name", "model", "temperature", "most_passages", "most_characters"})
    return Generator(prompt=load_prompts()[spec.prompt], **settings)
