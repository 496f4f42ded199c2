"""A search server of the tests, as strict as real ones: unexpected requests get a 4xx.

`POST /search` needs the header `x-tenant: tests`, JSON as content type and `{"query": str, "k": int}`; `GET /search`
needs `q` and `k`. Both rank the passages by the characters shared with the query.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mrc_workbench.data.records import Passage

Answer = tuple[int, dict[str, str], bytes]


class SearchServer:
    """`requests` are those answered; `wants` must come as the header `x-key` if it is set; `instead` answers all."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages
        self.address = ""
        self.requests: list[tuple[str, str, bytes]] = []
        self.required_key = ""
        self.replacement: Callable[[str, bytes], Answer] | None = None

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> Answer:
        self.requests.append((method, target, body))
        if self.replacement:
            return self.replacement(target, body)
        parts = urlsplit(target)
        if parts.path != "/search":
            return error_response(404, "no such index")
        if self.required_key and headers.get("x-key") != self.required_key:
            return error_response(401, f"wrong key {headers.get('x-key')}")
        if method == "GET":
            return self._answer_address(parts.query)
        return self._answer_body(headers, body)

    def _answer_address(self, given: str) -> Answer:
        values = {name: texts[0] for name, texts in parse_qs(given, strict_parsing=True).items()}
        if values.keys() != {"q", "k"} or not values["k"].isdecimal():
            return error_response(400, "expected q and k")
        return search_response(self.passages, values["q"], int(values["k"]))

    def _answer_body(self, headers: Any, body: bytes) -> Answer:
        if headers.get("content-type") != "application/json":
            return error_response(415, "expected application/json")
        if headers.get("x-tenant") != "tests":
            return error_response(403, "expected x-tenant")
        try:
            request = json.loads(body)
        except ValueError:
            return error_response(400, "no JSON")
        if not isinstance(request, dict) or request.keys() != {"query", "k"}:
            return error_response(400, "expected query and k")
        if not isinstance(request["query"], str) or type(request["k"]) is not int or request["k"] < 1:
            return error_response(400, "query must be text, k a number")
        return search_response(self.passages, request["query"], request["k"])


def error_response(status: int, reason: str) -> Answer:
    return status, {"content-type": "application/json"}, json.dumps({"error": reason}).encode()


def scored(passages: Sequence[Passage], query: str, k: int) -> list[tuple[str, int]]:
    """Return ids and scores of the best k passages that share a letter with the query, ties in order of the corpus."""
    query_characters = {letter for letter in query if letter.isalnum()}
    scores = [(passage.id, len(query_characters & {*passage.text})) for passage in passages]
    return sorted((pair for pair in scores if pair[1]), key=lambda pair: -pair[1])[:k]


class CharacterSearch:
    """The same search without a server, as a registered factory makes it."""

    name = "letters"

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages

    def search(self, query: str, k: int) -> list[tuple[str, int]]:
        return scored(self.passages, query, k)


def search_response(passages: Sequence[Passage], query: str, k: int) -> Answer:
    hits = [{"_id": id_, "_score": score} for id_, score in scored(passages, query, k)]
    return 200, {"content-type": "application/json"}, json.dumps({"hits": {"hits": hits}}).encode()


@contextmanager
def searching(passages: Sequence[Passage]) -> Iterator[SearchServer]:
    """Serve the passages on a free port of this machine."""
    server = SearchServer(passages)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status, headers, content = server.answer(self.command, self.path, self.headers, body)
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(content)
            except OSError:  # the client has hung up
                self.close_connection = True

        do_GET = do_POST = _reply  # noqa: N815

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        threading.Thread(target=http.serve_forever, args=[0.01], daemon=True).start()
        server.address = f"http://127.0.0.1:{http.server_address[1]}"
        yield server
        http.shutdown()
