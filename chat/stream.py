"""An answer as it comes, and what it took."""

import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from chat.answers import sound
from chat.problems import Failures

T = TypeVar("T")


@dataclass(frozen=True)
class Usage:
    """Tokens as the server counts them, None where it tells none; seconds to the first piece, and in all."""

    prompt_tokens: int | None
    completion_tokens: int | None
    first_seconds: float
    seconds: float


class Answer(NamedTuple):
    """All that a model said, and what that took."""

    text: str
    usage: Usage


def answer_pieces(stream: Any, began: float, failures: Failures) -> Generator[str, None, Answer]:
    """Yield the pieces of an answer from the library's stream; `began` is when it was asked for, by `perf_counter`.

    An answer ends with a reason for its end. Raises `EndpointError` where none comes.
    """
    import openai

    pieces: list[str] = []
    first, usage, whole = 0.0, None, False
    events = "event-stream" in stream.response.headers.get("content-type", "")
    try:
        for chunk in stream:
            usage = getattr(chunk, "usage", None) or usage
            for choice in getattr(chunk, "choices", None) or ():
                whole = whole or bool(choice.finish_reason)
                if piece := choice.delta.content:
                    first = first or time.perf_counter() - began
                    pieces.append(str(piece))
                    yield sound(pieces[-1])
    except (openai.OpenAIError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise failures.of_stream(error, events=events, begun=bool(first)) from None
    if not whole:  # a connection that ends does not say why
        raise failures.of_stream(None, events=events, begun=bool(first))
    prompt, completion = (_count(usage, name) for name in ("prompt_tokens", "completion_tokens"))
    seconds = time.perf_counter() - began
    return Answer(sound("".join(pieces)), Usage(prompt, completion, first or seconds, seconds))


def returned(stream: Generator[Any, None, T]) -> T:
    """Let a stream come to its end; returns what it returns."""
    while True:
        try:
            next(stream)
        except StopIteration as end:
            result: T = end.value
            return result


def _count(usage: Any, name: str) -> int | None:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
