"""What answers cost, and where that must end."""

import math
from dataclasses import dataclass

from chat.endpoint import Usage
from reading.judge.rules import ReadingError

_MILLION = 1_000_000
_FIRST_COMPLETION = 500  # tokens of an answer, while none has come


@dataclass(frozen=True)
class Prices:
    """What a million tokens cost, in any currency, and the most that one batch may cost (None: whatever it does).

    Raises `ReadingError` (`price_range`) where one is no number from 0.
    """

    prompt: float
    completion: float
    most: float | None = None

    def __post_init__(self) -> None:
        for value in (self.prompt, self.completion, self.most or 0.0):
            if not 0 <= value < math.inf:
                raise ReadingError("price_range", f"a price is a number from 0, not {value}")

    def of(self, prompt_tokens: float, completion_tokens: float) -> float:
        """Return what so many tokens cost."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / _MILLION


class Budget:
    """What a batch has spent, and may spend yet. For one thread.

    What a request will cost nobody knows before. It is taken for as dear as those so far would make it: by the most
    tokens a byte of text that the server has told, and by its longest answer. Before the first answer it is a token a
    byte, which is never fewer than there are, and an answer of 500 tokens. So an answer much longer than any before it
    can still pass the most, by itself. Where a server tells no tokens, or an answer breaks off, what was set aside for
    it counts as spent: `estimated` is that part of `spent`.
    """

    def __init__(self, prices: Prices | None) -> None:
        self.spent, self.estimated = 0.0, 0.0
        self._prices = prices or Prices(0, 0)
        self._set_aside: dict[str, tuple[int, float]] = {}  # bytes of a request, and what it may cost
        self._tokens_a_byte, self._completion_tokens = 0.0, 0

    def set_aside(self, request: str, size: int) -> bool:
        """Set aside what a request of so many bytes may cost; False where the most might be passed by it."""
        cost = self._prices.of(size * (self._tokens_a_byte or 1.0), self._completion_tokens or _FIRST_COMPLETION)
        most, others = self._prices.most, sum(cost for _, cost in self._set_aside.values())
        if most is not None and self.spent + others + cost > most:
            return False
        self._set_aside[request] = size, cost
        return True

    def settle(self, request: str, usage: Usage | None) -> None:
        """Count what a request has cost: by the tokens told, or else what was set aside for it."""
        size, cost = self._set_aside.pop(request)
        if usage and usage.prompt_tokens is not None and usage.completion_tokens is not None:
            cost = self._prices.of(usage.prompt_tokens, usage.completion_tokens)
            self._tokens_a_byte = max(self._tokens_a_byte, usage.prompt_tokens / max(1, size))
            self._completion_tokens = max(self._completion_tokens, usage.completion_tokens)
        else:
            self.estimated += cost
        self.spent += cost

    def release(self, request: str) -> None:
        """Count a request that was refused, and cost nothing."""
        del self._set_aside[request]
