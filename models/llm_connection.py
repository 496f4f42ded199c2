"""The way to a chat endpoint: what goes there, and how much of what comes back, for how long."""

import socket
import struct
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import httpx2

from mrc_workbench.models.llm import EndpointError, hung_up

MOST_BYTES = 16 * 2**20  # of an answer, unpacked; a model that thinks aloud for an hour says less
MOST_LINES = 100_000  # or pieces: what comes in ever smaller ones keeps the program busy, and fills no memory
MOST_SECONDS = 600.0  # from the question to the end of the answer, whatever comes in between
RETRIES = 4  # for what passes: too many requests, a server's own fault, a lost connection
_PASSING = (408, 409, 429, *range(500, 600))
_LONGEST_PAUSE = 120.0  # seconds; nobody waits longer for a server that asks for it


class Connection(httpx2.BaseTransport):
    """Carries the library's requests: as the environment wants it (proxies, certificates), and to no other address.

    An answer may have `MOST_BYTES` in `MOST_LINES` and take `MOST_SECONDS`. `stop` ends all that is under way, from any
    thread, also while nothing comes. What passes is asked for again. `only_key` is the key of an address that is not
    the operator's own: nothing that the environment adds (an organization, a project, headers) is sent there.
    """

    def __init__(self, only_key: str | None) -> None:
        # a connection of its own for each call: what is idle would stay open, and could not be told apart
        self._client = httpx2.Client(follow_redirects=False, limits=httpx2.Limits(max_keepalive_connections=0))
        self._only_key = only_key
        self._calls: set[_Call] = set()
        self._stopped = False

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and again where that may help. Raises `EndpointError`: its time is up, or it is stopped."""
        call = _Call()
        self._calls.add(call)
        if self._stopped:
            call.end(hung_up())
        try:
            with call.watched():
                response = self._sent(self._addressed(request, call), call)
        except BaseException:
            self._forget(call)
            raise
        headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
        body = _Body(response, call, lambda: self._forget(call))
        return httpx2.Response(response.status_code, headers=headers, stream=body)

    def stop(self) -> None:
        self._stopped = True
        for call in [*self._calls]:
            call.end(hung_up())

    def _addressed(self, request: httpx2.Request, call: "_Call") -> httpx2.Request:
        headers = request.headers
        if self._only_key is not None:
            agent = self._client.headers["user-agent"]
            own = {"authorization": f"Bearer {self._only_key}", "content-type": "application/json", "user-agent": agent}
            headers = httpx2.Headers(own)
        body, extensions = request.read(), {**request.extensions, "trace": call.note}
        return httpx2.Request(request.method, request.url, headers=headers, content=body, extensions=extensions)

    def _sent(self, request: httpx2.Request, call: "_Call") -> httpx2.Response:
        for taken in range(RETRIES + 1):
            call.check()
            try:
                response = self._client.send(request, stream=True)
            except httpx2.ConnectTimeout as error:
                raise httpx2.ConnectError(str(error)) from error
            except httpx2.TimeoutException:  # it had its time
                raise
            except httpx2.TransportError:
                if taken == RETRIES or call.over:
                    raise
                call.rest(_pause(taken, {}))
                continue
            pause = _pause(taken, response.headers)
            if response.status_code not in _PASSING or taken == RETRIES or pause > _LONGEST_PAUSE:
                break
            response.close()
            call.rest(pause)
        return response

    def _forget(self, call: "_Call") -> None:
        call.timer.cancel()
        self._calls.discard(call)


class _Call:
    """One call: it can be ended from another thread, and ends by itself when its time is up."""

    def __init__(self) -> None:
        self.over: EndpointError | None = None
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._socket: socket.socket | None = None
        text = f"the answer had not come to its end after {MOST_SECONDS:g} seconds"
        late = EndpointError("too_long", text, ends=False, seconds=f"{MOST_SECONDS:g}")
        self.timer = threading.Timer(MOST_SECONDS, self.end, (late,))
        self.timer.daemon = True
        self.timer.start()

    def note(self, event: str, told: dict[str, Any]) -> None:
        """Note the socket, which is told of when it is connected, and again when it is encrypted."""
        stream: Any = told.get("return_value")
        if event.endswith(".complete") and hasattr(stream, "get_extra_info"):
            with self._lock:
                self._socket = stream.get_extra_info("socket")
                if self.over:
                    self._hang_up()

    def end(self, why: EndpointError) -> None:
        """Hang up, whatever the call waits for; the first to end it tells why."""
        with self._lock:
            self.over = self.over or why
            self._ended.set()
            self._hang_up()

    def rest(self, seconds: float) -> None:
        """Wait until it may be asked again. Raises `EndpointError` where the call ends before."""
        self._ended.wait(seconds)
        self.check()

    def check(self) -> None:
        if self.over:
            raise self.over

    @contextmanager
    def watched(self) -> Generator[None]:
        """Tell why a call was ended, and not how that looks on the line, which may be like an end."""
        try:
            yield
        except httpx2.HTTPError:
            if self.over:
                raise self.over from None
            raise
        self.check()

    def _hang_up(self) -> None:
        if self._socket:
            with suppress(OSError):  # it may be closed already
                # cut off once it is closed: a server that floods would wait for room, and not hear of an end
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # not the method of an encrypted socket, which another thread reads from
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _Body(httpx2.SyncByteStream):
    """What is answered, unpacked, piece by piece."""

    def __init__(self, response: httpx2.Response, call: _Call, done: Callable[[], None]) -> None:
        self._response, self._call, self._done = response, call, done

    def __iter__(self) -> Iterator[bytes]:
        taken, lines = 0, 0
        with self._call.watched():
            for piece in self._response.iter_bytes():
                self._call.check()
                taken, lines = taken + len(piece), lines + max(1, piece.count(b"\n"), piece.count(b"\r"))
                if taken > MOST_BYTES or lines > MOST_LINES:
                    megabytes = MOST_BYTES // 2**20
                    text = f"the answer was larger than {megabytes} MB and was not read on"
                    raise EndpointError("too_much", text, ends=False, megabytes=megabytes)
                yield piece

    def close(self) -> None:
        self._done()
        self._response.close()


def _pause(taken: int, headers: Mapping[str, str]) -> float:
    """Seconds until it is asked again: as the server wants it, else each time twice as many."""
    for name, second in (("retry-after-ms", 1000), ("retry-after", 1)):
        with suppress(ValueError):
            if (wanted := float(headers.get(name, "")) / second) >= 0:
                return wanted
    return 0.5 * float(2**taken)
