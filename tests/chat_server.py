"""A stand-in for a chat endpoint: it speaks the part of OpenAI's protocol that is used here, on 127.0.0.1.

`ChatServer.reply` is given the text a model would read and returns its answer, or a `Reply` of another kind. `asked`
holds what came in.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

MODEL, KEY = "double-1", "sk-thisIsNoRealKey"
AT_ONCE = {"retry-after-ms": "1"}  # the library waits so long before it asks again


class Reply(NamedTuple):
    status: int
    body: object = None
    headers: dict[str, str] = {}


@dataclass
class ChatServer:
    reply: Callable[[str], str | Reply]
    address: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    def answer(self, path: str, key: str, request: dict[str, Any]) -> Reply:
        self.asked.append(request)
        self.keys.append(key)
        if path != "/v1/chat/completions":
            return Reply(404, {"error": {"message": f"no {path} here"}})
        if key != f"Bearer {KEY}":
            return Reply(401, {"error": {"message": f"wrong key {key}"}})
        if request["model"] != MODEL:
            return Reply(404, {"error": {"message": f"no model {request['model']}"}})
        said = self.reply(request["messages"][1]["content"])
        return Reply(200, completion(said)) if isinstance(said, str) else said


def completion(text: str) -> dict[str, Any]:
    message = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [message]}


@contextmanager
def chat_server(reply: Callable[[str], str | Reply]) -> Iterator[ChatServer]:
    """Serve until the block ends."""
    server = ChatServer(reply)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, body, headers = server.answer(self.path, self.headers.get("authorization", ""), request)
            content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

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
