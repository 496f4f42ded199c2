"""Asking a model many things, several at a time, within a budget."""

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from chat.endpoint import Answer, Chat, returned, without_thoughts
from chat.problems import EndpointError
from data.failure import Failure
from reading.generate.generator import Messages
from reading.generation.kept import KeptAnswers
from reading.generation.prices import Budget
from reading.judge.rules import ReadingError

Progress = Callable[[int, int, float], None]  # different requests done, those in all, and what was spent

_FAILED_IN_A_ROW = 8  # then the endpoint itself is at fault
_MAY_HAVE_COST = ("broken_off", "timeout", "too_long", "too_much")
_SECONDS_BETWEEN_WORDS = 0.5  # it can be stopped while all wait for answers


def says_something(answer: Answer) -> bool:
    """Whether there is an answer in it: silence is none, and no refusal."""
    return bool(without_thoughts(answer.text).strip())


def nothing_said() -> ReadingError:
    """Return the failure of a request that was answered by silence."""
    return ReadingError("nothing_said", "the model said nothing")


@dataclass
class Asking:
    """One round of asking: what it may spend, whom it tells, what stops it; `failures` by the messages' keys."""

    kept: KeptAnswers
    budget: Budget
    on_progress: Progress
    stopped: Callable[[], bool]
    failures: dict[str, Failure] = field(default_factory=dict)
    in_a_row: int = 0

    def about(self, new: Mapping[str, Messages], chat: Chat, concurrency: int) -> Failure | None:
        """Ask, and keep the answers; returns why the rest was not asked, None where all were."""
        pool, waiting = ThreadPoolExecutor(concurrency), dict[Future[Answer], str]()
        left, ended = [*new.values()][::-1], None
        try:
            while (left or waiting) and not ended:
                if self.stopped():
                    return ReadingError("generation_stopped", "stopped: what was answered is kept")
                while left and len(waiting) < concurrency and self.budget.set_aside(left[-1].key, left[-1].size):
                    messages = left.pop()
                    waiting[pool.submit(self._ask, chat, messages)] = messages.key
                if not waiting:
                    return ReadingError("price_ceiling", f"{len(left):,} more might pass the price", left=len(left))
                self._tell(len(new) - len(left) - len(waiting), len(new))
                for future in wait(waiting, _SECONDS_BETWEEN_WORDS, FIRST_COMPLETED).done:
                    ended = self._settled(waiting.pop(future), future) or ended
            self._tell(len(new) - len(left) - len(waiting), len(new))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return ended

    def _tell(self, done: int, total: int) -> None:
        self.on_progress(done, total, self.budget.spent)

    def _ask(self, chat: Chat, messages: Messages) -> Answer:
        answer = returned(chat.stream(messages.system, messages.text))
        if says_something(answer):  # kept by this thread: perhaps nobody waits for it any more
            self.kept.add(messages, answer)
        return answer

    def _settled(self, key: str, future: "Future[Answer]") -> EndpointError | None:
        """Count what came of a request; returns the error that ends them all."""
        try:
            answer = future.result()
        except EndpointError as error:
            return self._failed(key, error)
        self.budget.settle(key, answer.usage)
        self.in_a_row = 0
        if not says_something(answer):
            self.failures[key] = nothing_said()
        return None

    def _failed(self, key: str, error: EndpointError) -> EndpointError | None:
        if error.code in _MAY_HAVE_COST:
            self.budget.settle(key, None)
        else:
            self.budget.release(key)
        self.in_a_row += 1
        if not error.ends:
            self.failures[key] = error
        return error if error.ends or self.in_a_row == _FAILED_IN_A_ROW else None
