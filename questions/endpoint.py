"""A chat endpoint that speaks OpenAI's protocol: a server of one's own (vLLM, Ollama, llama.cpp) or a service.

Its address and key come from the environment or from one session. They are never written, and never logged.
"""

import logging
import os
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from data.limits import limits
from data.workspace import user
from questions.options import QuestionsError

ADDRESS, MODEL, KEY = "OPENAI_BASE_URL", "OPENAI_MODEL", "OPENAI_API_KEY"  # variables of the environment
TIMEOUT_SECONDS = 60.0
RETRIES = 4  # by the library, for what passes: too many requests, a server's own fault, a lost connection
_ENDS = {  # the library's errors after which asking on is of no use
    "AuthenticationError": "key",
    "PermissionDeniedError": "key",
    "NotFoundError": "model_unknown",
    "RateLimitError": "rate",
    "APIConnectionError": "unreachable",
}
_WORDS = {
    "key": f"the endpoint refuses the key; {KEY} may hold another",
    "model_unknown": "the endpoint knows no model {model}, or its address lacks a part such as /v1",
    "rate": "the endpoint takes no more requests for now: go on later",
    "unreachable": "the endpoint cannot be reached: check its address",
}
_LOUD = ("openai", "httpx", "httpx2", "httpcore", "httpcore2")  # they would log addresses


class EndpointError(QuestionsError):
    """The endpoint did not answer as it should. `ends` says that it would not answer the next time either."""

    def __init__(self, code: str, message: str, *, ends: bool = True, **details: str | int) -> None:
        super().__init__(code, message, **details)
        self.ends = ends


@dataclass(frozen=True)
class Endpoint:
    """Where passages are sent. Raises `EndpointError` where the address is none of the web."""

    address: str = field(repr=False)
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.address)
            known = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            known = False
        if not known:
            text = f"the address must begin with http:// or https://; {ADDRESS} may hold it"
            raise EndpointError("address_wrong", text)

    @classmethod
    def of(cls, address: str = "", key: str = "") -> Self:
        """Return the endpoint given or, where no address is, that of the environment.

        The environment's key goes to the environment's address alone: whoever can type an address must not get it.
        Raises `EndpointError`: also `address_refused`, where a user gives one and `addresses` does not let them, since
        the server would reach what they cannot.
        """
        if address.strip():
            if not may_be_given():
                raise EndpointError("address_refused", "the address of a language model is the server's own here")
            return cls(address.strip(), key.strip())
        return cls(os.environ.get(ADDRESS, "").strip(), key.strip() or os.environ.get(KEY, "").strip())


def may_be_given() -> bool:
    """Whether an address may be typed here."""
    return not user() or limits().addresses


class Chat:
    """Asks a model at an endpoint. Safe to be shared by threads."""

    def __init__(self, endpoint: Endpoint, model: str, temperature: float) -> None:
        from openai import OpenAI

        for name in _LOUD:
            logging.getLogger(name).setLevel(logging.WARNING)
        self._endpoint, self._model, self._temperature = endpoint, model, temperature
        self._client = OpenAI(
            base_url=endpoint.address,
            api_key=endpoint.key or "none",  # a server of one's own needs none, but the library does
            timeout=TIMEOUT_SECONDS,
            max_retries=RETRIES,
        )

    def answer(self, instruction: str, text: str) -> str:
        """Return what the model answers. Raises `EndpointError`."""
        import openai

        messages = [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
        try:
            told: Any = self._client.chat.completions.create(
                model=self._model, messages=messages, temperature=self._temperature
            )
        except openai.OpenAIError as error:
            raise self._failure(error) from None  # what was raised may hold the address or the key
        except ValueError as error:  # it calls itself JSON, and is not
            raise _no_chat() from error
        try:
            return str(told.choices[0].message.content or "")
        except (AttributeError, IndexError, TypeError) as error:
            raise _no_chat() from error

    def _failure(self, error: Exception) -> EndpointError:
        import openai

        if code := _ENDS.get(type(error).__name__):
            return EndpointError(code, _WORDS[code].format(model=self._model), model=self._model)
        if isinstance(error, openai.APITimeoutError):
            seconds = int(TIMEOUT_SECONDS)
            return EndpointError("timeout", f"no answer in {seconds} seconds", ends=False, seconds=seconds)
        if isinstance(error, openai.APIStatusError):
            status, reason = error.status_code, self._said(error)
            return EndpointError("refused", f"status {status}: {reason}", ends=False, status=status, reason=reason)
        return _no_chat()

    def _said(self, error: Exception) -> str:
        """The first words of what a server said, without what is nobody's business."""
        said = " ".join(str(error).split())
        for secret in filter(None, (self._endpoint.key, self._endpoint.address)):
            said = said.replace(secret, "…")
        return said[:200]


def _no_chat() -> EndpointError:
    return EndpointError("no_chat", "what answers there speaks another protocol than a chat endpoint")
