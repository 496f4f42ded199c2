"""Retrieval-augmented generation (Lewis et al. 2020): a language model answers from retrieved passages.

Requests run concurrently within a budget. Answers are stored by the text that was sent, so no request is sent twice.
"""

import math
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.problems import Failure, as_missing_extra
from mrc_workbench.data.workspace import read_number, require_storage, workspace, write_json
from mrc_workbench.labs.reading import generator as generation
from mrc_workbench.labs.reading.generator import GeneratedAnswer, GenerationRequest, Generator, GeneratorSpec
from mrc_workbench.labs.reading.scores import ReadingError, ScoringRules
from mrc_workbench.models import llm
from mrc_workbench.retrieval.comparison.compare import Comparison

if TYPE_CHECKING:
    from mrc_workbench.models.llm_connection import Chat  # imports the library

AnswerStream = abc.Generator[str, None, GeneratedAnswer]
OnBatchProgress = Callable[[int, int, float], None]  # distinct requests done, their total number, and the cost


@dataclass(frozen=True)
class Prices:
    """Prices of a million tokens, in any currency, and the limit of a batch's cost, None if unlimited.

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
    """The cost of a batch and its limit. Not thread-safe.

    Estimates use the most tokens per byte and the longest answer so far; before the first answer, one token per byte
    and 500 tokens of answer. So a much longer answer can still exceed the limit. If a server reports no tokens, or an
    answer breaks off, the estimate counts as spent: `estimated` is that part of `spent`.
    """

    def __init__(self, prices: Prices | None) -> None:
        self.spent = 0.0
        self.estimated = 0.0
        self._prices = prices or Prices(0, 0)
        self._reserved: dict[str, tuple[int, float]] = {}  # bytes of a request, and its estimated cost
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

    def settle(self, request: str, usage: llm.Usage | None) -> None:
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


class GeneratedAnswers(llm.StoredAnswers[llm.ChatAnswer]):
    """Stored answers of a model with one prompt and temperature, `workspace/generated/<key>/answers.jsonl`.

    The key of an answer is the text sent, so any retriever and server can reuse it.
    """

    def __init__(self, generator: Generator) -> None:
        self._settings = {"model": generator.model, "temperature": float(generator.temperature)}
        self._settings["prompt"] = asdict(generator.prompt)
        self._folder = workspace() / "generated" / key_of(self._settings)[:16]
        super().__init__(self._folder / "answers.jsonl", "key", _parse_entry, {"asked": "key", "said": "response"})

    def save(self, messages: generation.ChatMessages, answer: llm.ChatAnswer) -> None:
        """Store an answer. Raises `OSError`."""
        if not (self._folder / "generator.json").exists():
            write_json(self._folder / "generator.json", self._settings)
        self.add(messages.key, answer, {"response": answer.text, **asdict(answer.usage)})


def _parse_entry(entry: dict[str, Any]) -> llm.ChatAnswer:
    if not isinstance(entry["response"], str):
        raise TypeError("the response is not a text")
    counts = (entry.get(name) for name in ("prompt_tokens", "completion_tokens"))
    prompt, completion = (count if isinstance(count, int) and not isinstance(count, bool) else None for count in counts)
    usage = llm.Usage(prompt, completion, read_number(entry, "first_seconds"), read_number(entry, "seconds"))
    return llm.ChatAnswer(entry["response"], usage)


def _has_text(answer: llm.ChatAnswer) -> bool:
    return bool(llm.remove_thoughts(answer.text).strip())


def _empty_answer_error() -> ReadingError:
    return ReadingError("empty_answer", "the model returned an empty answer")


def _request_answers(
    new: Mapping[str, generation.ChatMessages],
    chat: "Chat",
    concurrency: int,
    *,
    stored_answers: GeneratedAnswers,
    budget: CostBudget,
    on_progress: OnBatchProgress,
    stopped: Callable[[], bool],
) -> tuple[dict[str, Failure], Failure | None]:
    """Request and store answers; returns failures by the messages' keys, and why requests remain, if any."""
    failures: dict[str, Failure] = {}
    done = 0
    ended = None

    def request_answer(messages: generation.ChatMessages) -> llm.ChatAnswer:
        answer = llm.exhaust(chat.stream(messages.system, messages.text))
        if _has_text(answer):  # stored by this thread, since the caller may have stopped waiting
            stored_answers.save(messages, answer)
        return answer

    def reserve(messages: generation.ChatMessages) -> bool:
        return budget.reserve(messages.key, messages.size)

    with closing(llm.run_requests(new.values(), request_answer, concurrency, reserve)) as outcomes:
        try:
            for outcome in outcomes:
                if outcome:
                    done += 1
                    messages, answer = outcome
                    if failure := _settle(budget, messages.key, answer):
                        failures[messages.key] = failure
                elif stopped():
                    return failures, ReadingError("generation_stopped", "stopped: finished answers are stored")
                else:
                    on_progress(done, len(new), budget.spent)
        except llm.EndpointError as error:
            ended = error
    on_progress(done, len(new), budget.spent)
    n_remaining = len(new) - done
    if n_remaining and not ended:
        message = f"{n_remaining:,} more might exceed the price limit"
        return failures, ReadingError("price_ceiling", message, left=n_remaining)
    return failures, ended


def _settle(budget: CostBudget, key: str, answer: llm.ChatAnswer | llm.EndpointError) -> Failure | None:
    """Count the cost of a request, and return why its question has no answer, None with an answer or a fatal error."""
    if not isinstance(answer, llm.EndpointError):
        budget.settle(key, answer.usage)
        return None if _has_text(answer) else _empty_answer_error()
    if answer.code in ("truncated", "timeout", "too_long", "answer_too_large"):
        budget.settle(key, None)  # it may have cost
    else:
        budget.release(key)
    return None if answer.is_fatal else answer


@dataclass(frozen=True)
class Batch:
    """The results of many requests, by their ids.

    `failures` of single requests are retried the next time. `n_remaining` requests were not sent, or not awaited, for
    `end_reason`. `spent` is the cost of this batch, `estimated` the part that no server reported.
    """

    answers: dict[str, GeneratedAnswer]
    failures: dict[str, Failure]
    n_remaining: int
    end_reason: Failure | None
    spent: float
    estimated: float


def stored_answer(generator: Generator, request: GenerationRequest) -> GeneratedAnswer | None:
    """Return the stored answer of a request, None if missing."""
    messages = generator.build_messages(request)
    stored = GeneratedAnswers(generator).get(messages.key)
    return generator.parse_answer(stored, messages.passages) if stored else None


def stream_answer(generator: Generator, chat: "Chat", request: GenerationRequest) -> AnswerStream:
    """Yield the pieces of an answer, store the complete answer and return it.

    Close the stream to stop, or stop the `chat` from another thread. Raises `EndpointError`, `ReadingError`
    (`empty_answer`), `LimitError` (`megabytes`), and `OSError`.
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
    endpoint: llm.Endpoint | None,
    *,
    prices: Prices | None = None,
    concurrency: int = 4,
    on_progress: OnBatchProgress | None = None,
    stopped: Callable[[], bool] | None = None,
) -> Batch:
    """Answer requests with distinct ids, `concurrency` at a time; without an endpoint, return stored answers.

    Stores each answer at once, so a batch that `stopped` (polled twice a second), an error of `on_progress` or a kill
    ends can continue. Requests that might exceed `prices.limit` are not sent (`end_reason` is `price_ceiling`), nor are
    any after a fatal error of the endpoint (`end_reason` is that error). Raises `ReadingError` (`generator_range`),
    `LimitError` (`megabytes`), and `OSError`.
    """
    generation.require_range("concurrency", concurrency, 1, 64)
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
    n_remaining = len(messages) - len(answers) - len(failures)
    return Batch(answers, failures, n_remaining, ended, budget.spent, budget.estimated)


@dataclass(frozen=True)
class RetrieverAnswers:
    """Answers from one retriever's passages; no scores without answers."""

    batch: Batch
    scores: generation.GeneratedScores | None


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

    Samples `spec.max_questions` if the part has more. `max_cost` limits the cost of all retrievers together.
    `report_progress` receives the fraction of the questions done.
    """
    try:
        generator = build_generator(spec)
        rows = list(range(len(comparison.question_set.questions)))
        if 0 < spec.max_questions < len(rows):
            rows = sorted(np.random.default_rng(seed).permutation(len(rows))[: spec.max_questions].tolist())
        sample = comparison.question_set.with_questions(rows)
        ids = {question.id for question in sample.questions}
        endpoint = llm.Endpoint.from_input()
        answers_by_retriever = {}
        spent = 0.0
        for number, (name, rankings) in enumerate(comparison.rankings.items()):

            def report(done: int, total: int, cost: float, number: int = number) -> None:
                del cost
                report_progress((number + done / max(1, total)) / len(comparison.rankings))

            requests = generator.requests(comparison.question_set, rankings)
            requests = [request for request in requests if request.id in ids and request.passages]
            limit = None if spec.max_cost is None else max(0.0, spec.max_cost - spent)
            prices = Prices(spec.price_prompt, spec.price_completion, limit)
            batch = generate(generator, requests, endpoint, prices=prices, on_progress=report)
            spent += batch.spent
            scores = generation.score_generated_answers(sample, batch.answers, rules) if batch.answers else None
            answers_by_retriever[name] = RetrieverAnswers(batch, scores)
        return GeneratorResult(spec.name, answers_by_retriever)
    except Exception as error:  # other generators continue
        return GeneratorResult(spec.name, error=as_missing_extra(error))


def build_generator(spec: GeneratorSpec) -> Generator:
    """Return the generator of a specification. Raises `ReadingError`: also `no_prompt`."""
    if spec.prompt not in generation.load_prompts():
        known = ", ".join(generation.load_prompts())
        raise ReadingError("no_prompt", f"there is no prompt {spec.prompt!r}; there are {known}", known=known)
    settings = spec.model_dump(include={"name", "model", "temperature", "max_passages", "max_characters"})
    return Generator(prompt=generation.load_prompts()[spec.prompt], **settings)
