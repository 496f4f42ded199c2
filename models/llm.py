"""A chat endpoint that speaks OpenAI's protocol: a server of your own (vLLM, Ollama, llama.cpp) or a service.

Its address and key come from the environment or from one session; they are never written or logged.
"""

import logging
import os
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

from mrc_workbench.data.workspace import limits, user
from mrc_workbench.models.llm_answers import EndpointError, Failures, broken_off

ADDRESS, MODEL, KEY = "OPENAI_BASE_URL", "OPENAI_MODEL", "OPENAI_API_KEY"  # variables of the environment
TIMEOUT_SECONDS = 60.0
_SECONDS_TO_CONNECT = 10.0
_SHORTEST_KEY = 8  # a server of one's own takes any word for a key, and an answer may hold that word
T = TypeVar("T")


def sound(text: str) -> str:
    """Return a text that can be written: half of a pair of surrogates, which JSON allows, becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def without_thoughts(answer: str) -> str:
    """Return an answer without what a model that thinks aloud says before it, up to `</think>`."""
    return answer.rpartition("</think>")[2]


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


def returned(stream: Generator[Any, None, T]) -> T:
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
    def of(cls, address: str = "", key: str = "") -> Self:
        """Return the endpoint given or, where no address is, that of the environment.

        The environment's key goes to the environment's address alone, and so does an organization, a project, or a
        header that it has for the library: whoever can type an address must not get them.
        Raises `EndpointError`: also `address_refused`, where a user gives one and `addresses` does not let them, since
        the server would reach what they cannot.
        """
        if address.strip():
            if not may_be_given():
                raise EndpointError("address_refused", "the address of a language model is the server's own here")
            return cls(address.strip(), key.strip())
        own = os.environ.get(ADDRESS, "").strip(), key.strip() or os.environ.get(KEY, "").strip()
        return cls(*own, is_operators=True)

    def without_key(self, answer: str) -> str:
        """Return an answer without the key, should the server have repeated it: answers are kept."""
        return answer.replace(self.key, "…") if len(self.key) >= _SHORTEST_KEY else answer


def may_be_given() -> bool:
    """Whether an address may be typed here."""
    return not user() or limits().addresses


class Chat:
    """Asks a model at an endpoint. Threads may share it.

    Silence of `timeout_seconds` (60 if 0) ends a call, and so do the limits of `models.llm_connection`.
    """

    def __init__(self, endpoint: Endpoint, model: str, temperature: float, timeout_seconds: float = 0) -> None:
        from httpx2 import Timeout
        from openai import DefaultHttpxClient, OpenAI

        from mrc_workbench.models.llm_connection import Connection

        for name in ("openai", "httpx", "httpx2", "httpcore", "httpcore2"):  # they would log addresses
            logging.getLogger(name).setLevel(logging.WARNING)
        seconds = timeout_seconds or TIMEOUT_SECONDS
        self._endpoint, self._model, self._temperature = endpoint, model, temperature
        self._failures = Failures(model, seconds, (endpoint.key, endpoint.address))
        key = endpoint.key or "none"  # a server of one's own needs none, but the library does
        self._connection = Connection(None if endpoint.is_operators else key)
        self._client = OpenAI(
            base_url=endpoint.address,
            api_key=key,
            timeout=Timeout(seconds, connect=min(seconds, _SECONDS_TO_CONNECT)),
            max_retries=0,  # the connection asks again: a wait of the library's could not be stopped
            http_client=DefaultHttpxClient(transport=self._connection, follow_redirects=False),
        )

    def stop(self) -> None:
        """End all calls at once, from any thread, and let none begin: `EndpointError` (`hung_up`) is raised there."""
        self._connection.stop()

    def answer(self, instruction: str, text: str) -> str:
        told = self._asked(instruction, text)
        try:
            return self._endpoint.without_key(sound(str(told.choices[0].message.content or "")))
        except (AttributeError, IndexError, TypeError) as error:
            raise self._failures.of_request(error) from error

    def stream(self, instruction: str, text: str) -> Generator[str, None, Answer]:
        """Yield what the model answers, piece by piece as it comes, and return the whole with what it took.

        Close it to stop: the server then sees the connection end. Raises `EndpointError`. What may pass is asked again
        while no answer has begun; one that breaks off is `broken_off`, and what came of it is no answer.
        """
        import openai

        began = time.perf_counter()
        pieces: list[str] = []
        first, usage, whole = 0.0, None, False
        with self._asked(instruction, text, stream=True, stream_options={"include_usage": True}) as stream:
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
                raise self._failures.of_stream(error, events=events, begun=bool(first)) from None
            if not whole:  # an answer ends with a reason for its end, and a connection that ends does not say why
                raise self._failures.of_stream(None, events=events, begun=bool(first))
            seconds = time.perf_counter() - began
        counts = (getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens"))
        prompt, completion = (count if type(count) is int and count >= 0 else None for count in counts)
        answer = self._endpoint.without_key(sound("".join(pieces)))
        return Answer(answer, Usage(prompt, completion, first or seconds, seconds))

    def _asked(self, instruction: str, text: str, **how: Any) -> Any:
        import httpx2
        import openai

        messages = [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
        try:
            return self._client.chat.completions.create(
                model=self._model, messages=messages, temperature=self._temperature, **how
            )
        except httpx2.HTTPError:  # the library lets it pass where the words of a refusal break off
            raise broken_off() from None
        except (openai.OpenAIError, ValueError, RecursionError) as error:  # where it calls itself JSON, and is not
            raise self._failures.of_request(error) from None  # what was raised may hold the address or the key
