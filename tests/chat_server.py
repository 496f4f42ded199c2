"""A local stand-in for a chat endpoint: the part of OpenAI's protocol that the project uses.

`ChatServer.reply` gets the text that a model would read and returns its answer, or a `Reply` of another kind. `asked`
holds the requests. An answer is streamed if the request asks for it, with its usage if requested.
"""

import json
import select
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

MODEL = "double-1"
KEY = "sk-thisIsNoRealKey"
AT_ONCE = {"retry-after-ms": "1"}  # the library waits so long before it asks again
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}
_PIECE = 3  # characters


class Reply(NamedTuple):
    """The body to send: a text as it is, an iterator piece by piece, anything else as JSON.

    `dropped` promises more than is sent. An iterator that yields an empty piece makes the server check the connection;
    with status 0 it sends everything, including the status line.
    """

    status: int
    body: object = None
    headers: dict[str, str] = {}
    dropped: bool = False


@dataclass
class ChatServer:
    reply: Callable[[str], str | Reply]
    address: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)  # names in small letters
    disconnected: threading.Event = field(default_factory=threading.Event)  # in the middle of a stream

    @property
    def texts(self) -> list[str]:
        """The texts of the requests, in the order of arrival."""
        return [request["messages"][1]["content"] for request in self.requests]

    def answer(self, path: str, key: str, request: dict[str, Any]) -> Reply:
        self.requests.append(request)
        self.keys.append(key)
        if path != "/v1/chat/completions":
            return Reply(404, {"error": {"message": f"no {path} here"}})
        if key != f"Bearer {KEY}":
            return Reply(401, {"error": {"message": f"wrong key {key}"}})
        if request["model"] != MODEL:
            return Reply(404, {"error": {"message": f"no model {request['model']}"}})
        response = self.reply(request["messages"][1]["content"])
        if isinstance(response, Reply):
            return response
        if not request.get("stream"):
            return Reply(200, completion(response))
        includes_usage = request.get("stream_options", {}).get("include_usage")
        return Reply(200, events(pieces(response), usage_of(request, response) if includes_usage else None), EVENTS)


def completion(text: str) -> dict[str, Any]:
    message = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [message]}


def pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def usage_of(request: dict[str, Any], text: str) -> dict[str, int]:
    """Usage with one token per character of the request, and one per piece of the answer."""
    read = sum(len(message["content"]) for message in request["messages"])
    return {"prompt_tokens": read, "completion_tokens": len(pieces(text))}


def event(content: object) -> str:
    return f"data: {json.dumps(content)}\n\n"


def chunk(piece: str | None = None, *, ends: bool = False) -> str:
    """One event of a stream: a piece of the answer, and whether it is the last."""
    delta = {"role": "assistant", **({} if piece is None else {"content": piece})}
    choice = {"index": 0, "delta": delta, "finish_reason": "stop" if ends else None}
    return event({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]})


def events(texts: Iterable[str], usage: dict[str, int] | None = None) -> Iterator[str]:
    """Yield a whole stream, as it is served where nothing goes wrong."""
    yield chunk("")
    yield from map(chunk, texts)
    yield chunk(ends=True)
    if usage:
        yield event({"id": "1", "object": "chat.completion.chunk", "model": MODEL, "choices": [], "usage": usage})
    yield "data: [DONE]\n\n"


@contextmanager
def chat_server(reply: Callable[[str], str | Reply]) -> Iterator[ChatServer]:
    """Serve until the block ends."""
    server = ChatServer(reply)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            status, body, headers, dropped = server.answer(self.path, self.headers.get("authorization", ""), request)
            if not status:
                self.send_pieces(body)  # type: ignore[arg-type]
                return
            self.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            if isinstance(body, Iterator):  # it ends where the connection does
                self.send(body)
            elif isinstance(body, bytes):
                self.send_header("content-length", str(len(body)))
                self.send(iter([body]))
            else:
                content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_header("content-length", str(len(content) + dropped))
                self.send(iter([content.decode()]))

        def send(self, body: Iterator[str | bytes]) -> None:
            self.end_headers()
            self.send_pieces(body)

        def send_pieces(self, body: Iterator[str | bytes]) -> None:
            try:
                for piece in body:
                    self.wfile.write(piece.encode() if isinstance(piece, str) else piece)
                    if not piece and self.nobody_waits():
                        raise OSError
            except OSError:
                server.disconnected.set()

        def nobody_waits(self) -> bool:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        server.address = f"http://127.0.0.1:{http.server_port}/v1"
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
