"""Chats with a model at an endpoint, and connections with limits. Import it inside functions, as it needs openai."""

import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx2
import openai

from mrc_workbench.models.llm import TIMEOUT_SECONDS, ChatAnswer, Endpoint, EndpointError, Usage, replace_surrogates

MAX_BYTES = 16 * 2**20  # of a decompressed answer
MAX_LINES = 100_000  # or pieces: tiny ones would keep the program busy
MAX_SECONDS = 600.0  # from the request to the end of the answer
RETRIES = 4  # for temporary problems: too many requests, server errors, a lost connection
_RETRIED_STATUSES = (408, 409, 429, *range(500, 600))
_SECONDS_TO_CONNECT = 10.0
_MAX_PAUSE = 120.0  # seconds
_FATAL_ERRORS = {  # errors of the library that all other requests would have: code and message
    "AuthenticationError": ("key", "the endpoint refuses the key; OPENAI_API_KEY may hold another"),
    "PermissionDeniedError": ("key", "the endpoint refuses the key; OPENAI_API_KEY may hold another"),
    "NotFoundError": ("model_unknown", "the endpoint knows no model {model}, or its address lacks a part such as /v1"),
    "RateLimitError": ("rate", "the endpoint takes no more requests for now: continue later"),
    "APIConnectionError": ("unreachable", "the endpoint cannot be reached: check its address"),
}
_MAX_REASON = 200  # characters of a server's message


def stopped_call() -> EndpointError:
    """Return the error of a stopped call."""
    return EndpointError("call_stopped", "the call was stopped")


def _truncated_answer() -> EndpointError:
    return EndpointError("truncated", "the answer ended early", is_fatal=False)


class Connection(httpx2.BaseTransport):
    """Sends the library's requests with the proxies and certificates of the environment, without redirects.

    An answer may have `MAX_BYTES` in `MAX_LINES` and take `MAX_SECONDS`. `stop` ends all calls from any thread, also
    while they wait. Temporary problems are retried. `only_key` is the key of a user's address, to which the
    environment's organization, project and headers are not sent.
    """

    def __init__(self, only_key: str | None) -> None:
        # a separate connection for each call, so that a call can be ended
        self._client = httpx2.Client(follow_redirects=False, limits=httpx2.Limits(max_keepalive_connections=0))
        self._only_key = only_key
        self._calls: set[_Call] = set()
        self._stopped = False

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request with retries. Raises `EndpointError` after a timeout or `stop`."""
        call = _Call()
        self._calls.add(call)
        if self._stopped:
            call.end(stopped_call())
        try:
            with call.watched():
                response = self._send_with_retries(self._for_endpoint(request, call), call)
        except BaseException:
            self._forget(call)
            raise
        headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
        body = _Body(response, call, lambda: self._forget(call))
        return httpx2.Response(response.status_code, headers=headers, stream=body)

    def stop(self) -> None:
        self._stopped = True
        for call in [*self._calls]:
            call.end(stopped_call())

    def _for_endpoint(self, request: httpx2.Request, call: "_Call") -> httpx2.Request:
        headers = request.headers
        if self._only_key is not None:
            own_headers = {"authorization": f"Bearer {self._only_key}", "content-type": "application/json"}
            headers = httpx2.Headers(own_headers | {"user-agent": self._client.headers["user-agent"]})
        body = request.read()
        extensions = {**request.extensions, "trace": call.note}
        return httpx2.Request(request.method, request.url, headers=headers, content=body, extensions=extensions)

    def _send_with_retries(self, request: httpx2.Request, call: "_Call") -> httpx2.Response:
        for attempt in range(RETRIES + 1):
            call.check()
            try:
                response = self._client.send(request, stream=True)
            except httpx2.ConnectTimeout as error:
                raise httpx2.ConnectError(str(error)) from error
            except httpx2.TimeoutException:
                raise
            except httpx2.TransportError:
                if attempt == RETRIES or call.ended_by:
                    raise
                call.wait(_pause(attempt, {}))
                continue
            pause = _pause(attempt, response.headers)
            if response.status_code not in _RETRIED_STATUSES or attempt == RETRIES or pause > _MAX_PAUSE:
                break
            response.close()
            call.wait(pause)
        return response

    def _forget(self, call: "_Call") -> None:
        call.timer.cancel()
        self._calls.discard(call)


class _Call:
    def __init__(self) -> None:
        self.ended_by: EndpointError | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._socket: socket.socket | None = None
        text = f"the answer was incomplete after {MAX_SECONDS:g} seconds"
        late = EndpointError("too_long", text, is_fatal=False, seconds=f"{MAX_SECONDS:g}")
        self.timer = threading.Timer(MAX_SECONDS, self.end, (late,))
        self.timer.daemon = True
        self.timer.start()

    def note(self, event: str, info: dict[str, Any]) -> None:
        stream: Any = info.get("return_value")
        if event.endswith(".complete") and hasattr(stream, "get_extra_info"):
            with self._lock:
                self._socket = stream.get_extra_info("socket")
                if self.ended_by:
                    self._hang_up()

    def end(self, why: EndpointError) -> None:
        with self._lock:
            self.ended_by = self.ended_by or why
            self._ended.set()
            self._hang_up()

    def wait(self, seconds: float) -> None:
        self._ended.wait(seconds)
        self.check()

    def check(self) -> None:
        if self.ended_by:
            raise self.ended_by

    @contextmanager
    def watched(self) -> Generator[None]:
        """Raise the reason of ending the call instead of the resulting connection error."""
        try:
            yield
        except httpx2.HTTPError:
            if self.ended_by:
                raise self.ended_by from None
            raise
        self.check()

    def _hang_up(self) -> None:
        if self._socket:
            with suppress(OSError):  # it may be closed
                # reset on close: a server that floods would not notice a normal end
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # not the method of an encrypted socket, from which another thread reads
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


@dataclass(eq=False)
class _Body(httpx2.SyncByteStream):
    response: httpx2.Response
    call: _Call
    done: Callable[[], None]

    def __iter__(self) -> Iterator[bytes]:
        taken = 0
        lines = 0
        with self.call.watched():
            for piece in self.response.iter_bytes():
                self.call.check()
                taken += len(piece)
                lines += max(1, piece.count(b"\n"), piece.count(b"\r"))
                if taken > MAX_BYTES or lines > MAX_LINES:
                    megabytes = MAX_BYTES // 2**20
                    text = f"the answer was larger than {megabytes} MB"
                    raise EndpointError("answer_too_large", text, is_fatal=False, megabytes=megabytes)
                yield piece

    def close(self) -> None:
        self.done()
        self.response.close()


def _pause(attempt: int, headers: Mapping[str, str]) -> float:
    for name, second in (("retry-after-ms", 1000), ("retry-after", 1)):
        with suppress(ValueError):
            if (delay := float(headers.get(name, "")) / second) >= 0:
                return delay
    return 0.5 * float(2**attempt)


class Chat:
    """Sends requests to a model at an endpoint; thread-safe. Silence of `timeout_seconds` (60 if 0) ends a call."""

    def __init__(self, endpoint: Endpoint, model: str, temperature: float, timeout_seconds: float = 0) -> None:
        for name in ("openai", "httpx", "httpx2", "httpcore", "httpcore2"):  # they log addresses
            logging.getLogger(name).setLevel(logging.WARNING)
        seconds = timeout_seconds or TIMEOUT_SECONDS
        self._endpoint = endpoint
        self._model = model
        self._temperature = temperature
        self._seconds = seconds
        key = endpoint.key or "none"  # the library requires a key
        self._connection = Connection(None if endpoint.is_operators else key)
        self._client = openai.OpenAI(
            base_url=endpoint.address,
            api_key=key,
            timeout=httpx2.Timeout(seconds, connect=min(seconds, _SECONDS_TO_CONNECT)),
            max_retries=0,  # the connection retries: waits of the library cannot be stopped
            http_client=openai.DefaultHttpxClient(transport=self._connection, follow_redirects=False),
        )

    def stop(self) -> None:
        """End all calls from any thread and prevent new ones: they raise `EndpointError` (`call_stopped`)."""
        self._connection.stop()

    def answer(self, instruction: str, text: str) -> str:
        response = self._request(instruction, text)
        try:
            return self._endpoint.without_key(replace_surrogates(str(response.choices[0].message.content or "")))
        except (AttributeError, IndexError, TypeError) as error:
            raise self._request_error(error) from error

    def stream(self, instruction: str, text: str) -> Generator[str, None, ChatAnswer]:
        """Yield the pieces of an answer, and return the whole with its usage.

        Closing the generator ends the connection. Temporary problems are retried before the first piece. Raises
        `EndpointError`, also `truncated` if the answer ends early.
        """
        began = time.perf_counter()
        pieces: list[str] = []
        first = 0.0
        usage = None
        is_complete = False
        with self._request(instruction, text, stream=True, stream_options={"include_usage": True}) as stream:
            is_event_stream = "event-stream" in stream.response.headers.get("content-type", "")
            try:
                for chunk in stream:
                    usage = getattr(chunk, "usage", None) or usage
                    for choice in getattr(chunk, "choices", None) or ():
                        is_complete = is_complete or bool(choice.finish_reason)
                        if piece := choice.delta.content:
                            first = first or time.perf_counter() - began
                            pieces.append(str(piece))
                            yield replace_surrogates(pieces[-1])
            except (openai.OpenAIError, ValueError, AttributeError, TypeError, RecursionError) as error:
                raise self._stream_error(error, events=is_event_stream, begun=bool(first)) from None
            if not is_complete:  # a complete answer has a finish reason
                raise self._stream_error(None, events=is_event_stream, begun=bool(first))
            seconds = time.perf_counter() - began
        counts = (getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens"))
        prompt, completion = (count if type(count) is int and count >= 0 else None for count in counts)
        answer = self._endpoint.without_key(replace_surrogates("".join(pieces)))
        return ChatAnswer(answer, Usage(prompt, completion, first or seconds, seconds))

    def _request(self, instruction: str, text: str, **options: Any) -> Any:
        messages = [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
        try:
            return self._client.chat.completions.create(
                model=self._model, messages=messages, temperature=self._temperature, **options
            )
        except httpx2.HTTPError:  # a refusal that ends early
            raise _truncated_answer() from None
        except (openai.OpenAIError, ValueError, RecursionError) as error:  # invalid JSON
            raise self._request_error(error) from None  # the error may contain the address or the key

    def _request_error(self, error: Exception) -> EndpointError:
        if known := _FATAL_ERRORS.get(type(error).__name__):
            code, message = known
            return EndpointError(code, message.format(model=self._model), model=self._model)
        if isinstance(error, openai.APITimeoutError):
            seconds = f"{self._seconds:g}"
            return EndpointError("timeout", f"no answer in {seconds} seconds", is_fatal=False, seconds=seconds)
        if isinstance(error, openai.APIStatusError) and error.response.is_redirect:
            return EndpointError("redirected", "the endpoint redirects to another address: use that address")
        if isinstance(error, openai.APIStatusError):
            return self._refused(error, str(error.status_code))
        return EndpointError("no_chat", "the address has another protocol than a chat endpoint")

    def _stream_error(self, error: Exception | None, *, events: bool, begun: bool) -> EndpointError:
        """Return why an answer ended early; `events`: the server declared a stream, `begun`: a piece arrived."""
        if not events or (isinstance(error, openai.APITimeoutError) and not begun):
            return self._request_error(error or ValueError())
        is_lost = isinstance(error, openai.APIConnectionError)
        if isinstance(error, openai.APIError) and not is_lost and not begun:  # reported within the stream
            return self._refused(error, error.code or "200")
        return _truncated_answer()

    def _refused(self, error: Exception, status: str) -> EndpointError:
        reason = " ".join(str(error).split())
        for secret in filter(None, (self._endpoint.key, self._endpoint.address)):
            reason = reason.replace(secret, "…")
        reason = reason[:_MAX_REASON]
        return EndpointError("refused", f"status {status}: {reason}", is_fatal=False, status=status, reason=reason)
