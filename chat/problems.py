"""Why a chat endpoint did not answer as it should."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from data.problems import Failure

_ENDS = {  # the library's errors after which asking on is of no use
    "AuthenticationError": "key",
    "PermissionDeniedError": "key",
    "NotFoundError": "model_unknown",
    "RateLimitError": "rate",
    "APIConnectionError": "unreachable",
}
_WORDS = {
    "key": "the endpoint refuses the key; OPENAI_API_KEY may hold another",
    "model_unknown": "the endpoint knows no model {model}, or its address lacks a part such as /v1",
    "rate": "the endpoint takes no more requests for now: go on later",
    "redirected": "what answers there sends to another address: give that one instead",
    "unreachable": "the endpoint cannot be reached: check its address",
}
_LONGEST = 200  # characters of what a server said


class EndpointError(Failure):
    """The endpoint gave no answer; `code` is a key of `chat.` in the locale files.

    `ends` says that it would not answer the next question either.
    """

    def __init__(self, code: str, message: str, *, ends: bool = True, **details: str | int) -> None:
        super().__init__(code, message, **details)
        self.ends = ends


def broken_off() -> EndpointError:
    """Return the failure of an answer that did not come to its end."""
    return EndpointError("broken_off", "the answer broke off before its end", ends=False)


def hung_up() -> EndpointError:
    """Return the failure of a call that somebody ended."""
    return EndpointError("hung_up", "the call was stopped")


@dataclass(frozen=True)
class Failures:
    """What the library's errors mean where a model is asked; `secrets` that a server repeats are told to nobody."""

    model: str
    seconds: float
    secrets: Sequence[str] = field(repr=False)

    def of_request(self, error: Exception) -> EndpointError:
        """Return why no answer began, after all retries."""
        import openai

        if code := _ENDS.get(type(error).__name__):
            return EndpointError(code, _WORDS[code].format(model=self.model), model=self.model)
        if isinstance(error, openai.APITimeoutError):
            seconds = f"{self.seconds:g}"
            return EndpointError("timeout", f"no answer in {seconds} seconds", ends=False, seconds=seconds)
        if isinstance(error, openai.APIStatusError) and error.response.is_redirect:
            return EndpointError("redirected", _WORDS["redirected"])
        if isinstance(error, openai.APIStatusError):
            return self._refused(error, str(error.status_code))
        return EndpointError("no_chat", "what answers there speaks another protocol than a chat endpoint")

    def of_stream(self, error: Exception | None, *, events: bool, begun: bool) -> EndpointError:
        """Return why an answer did not come to its end: `events` were promised, and a first piece of it had come."""
        import openai

        if not events or (isinstance(error, openai.APITimeoutError) and not begun):
            return self.of_request(error or ValueError())
        lost = isinstance(error, openai.APIConnectionError)
        if isinstance(error, openai.APIError) and not lost and not begun:  # the server tells of it within the stream
            return self._refused(error, error.code or "200")
        return broken_off()

    def _refused(self, error: Exception, status: str) -> EndpointError:
        """With the first words of what the server said, without what is nobody's business."""
        reason = " ".join(str(error).split())
        for secret in filter(None, self.secrets):
            reason = reason.replace(secret, "…")
        reason = reason[:_LONGEST]
        return EndpointError("refused", f"status {status}: {reason}", ends=False, status=status, reason=reason)
