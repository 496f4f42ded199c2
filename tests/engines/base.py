"""What the stub servers share: HTTP, refusals, and scores of terms and vectors."""

import json
import math
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


class RefusedError(Exception):
    """A request that the engine does not take: a status and the content of the answer."""

    def __init__(self, status: int, content: Any) -> None:
        super().__init__(str(content))
        self.status = status
        self.content = content


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    params: dict[str, str]
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def form(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0]

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class StubEngine:
    """An engine; subclasses answer requests. `authorization` is the header it wants, where it wants one."""

    authorization: str = ""
    received: list[Received] = field(default_factory=list)

    def answer(self, request: Received) -> Any:
        raise NotImplementedError

    def unauthorized(self) -> RefusedError:
        return RefusedError(401, {"error": "missing authentication credentials"})


@contextmanager
def serving(engine: StubEngine, certificate: tuple[str, str] | None = None) -> Iterator[str]:
    """Serve an engine, by https where a certificate and its key are given; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Received(self.command, url.path, dict(parse_qsl(url.query)), dict(self.headers), body)
            engine.received.append(request)
            status = 200
            content = None
            try:
                if engine.authorization and self.headers.get("Authorization") != engine.authorization:
                    raise engine.unauthorized()
                content = engine.answer(request)
            except RefusedError as refused:
                status = refused.status
                content = refused.content
            except (KeyError, TypeError, ValueError) as error:
                status = 400
                content = {"error": f"cannot be parsed: {error!r}"}
            answer = b"" if self.command == "HEAD" or content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = respond  # noqa: N815 - as the library names them

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            scheme = "https"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{scheme}://127.0.0.1:{server.server_port}"
        server.shutdown()


def require_known(values: Mapping[str, Any], known: Sequence[str], refuse: Any) -> None:
    for name in values:
        if name not in known:
            raise refuse(name)


def bm25(texts: Mapping[str, str], query: str, k1: float, b: float) -> dict[str, float]:
    """Return Lucene's BM25 of the texts that share a token with the query, by id."""
    tokens = {key: text.split() for key, text in texts.items()}
    mean = sum(map(len, tokens.values())) / max(1, len(tokens))
    scores: dict[str, float] = {}
    for term, query_count in Counter(query.split()).items():
        holders = {key: of.count(term) for key, of in tokens.items() if term in of}
        idf = math.log(1 + (len(tokens) - len(holders) + 0.5) / (len(holders) + 0.5))
        for key, count in holders.items():
            length = 1 - b + b * len(tokens[key]) / mean
            scores[key] = scores.get(key, 0.0) + query_count * idf * count / (count + k1 * length)
    return scores


def cosines(vectors: Mapping[str, Sequence[float]], query: Sequence[float]) -> dict[str, float]:
    return {key: _cosine(vector, query) for key, vector in vectors.items()}


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    lengths = math.hypot(*a) * math.hypot(*b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def max_sim(passage: Sequence[Sequence[float]], query: Sequence[Sequence[float]]) -> list[float]:
    """Return the best dot product of each vector of the query with a vector of the passage."""
    return [max(sum(x * y for x, y in zip(query_vector, of, strict=True)) for of in passage) for query_vector in query]


def nine_bits(weight: float) -> float:
    """Return a weight as a feature field of Lucene stores it."""
    (bits,) = struct.unpack(">I", struct.pack(">f", weight))
    (stored,) = struct.unpack(">f", struct.pack(">I", bits & 0xFFFF8000))
    return float(stored)


def dot_products(documents: Mapping[str, Mapping[str, float]], query: Mapping[str, float]) -> dict[str, float]:
    """Return the dot product of term weights, stored with nine bits, of the documents that share a term."""
    products = {}
    for key, weights in documents.items():
        if shared := query.keys() & weights.keys():
            products[key] = sum(query[term] * nine_bits(weights[term]) for term in shared)
    return products


def first(scores: Mapping[str, float], size: int) -> dict[str, float]:
    """Return the best of the scores, best first; equal ones in the order of the documents."""
    return dict(sorted(scores.items(), key=lambda entry: (-entry[1], int(entry[0])))[:size])


def ranks(scores: Mapping[str, float], constant: int) -> dict[str, float]:
    return {key: 1 / (constant + rank) for rank, key in enumerate(scores, start=1)}


def min_max(scores: Mapping[str, float], least: float | None = None) -> dict[str, float]:
    """Scale scores to 0..1; equal scores are unchanged, or 1 with a `least`."""
    if not scores:
        return {}
    low = min(scores.values())
    high = max(scores.values())
    if high == low:
        return {key: score if least is None else 1.0 for key, score in scores.items()}
    return {key: max((score - low) / (high - low), least or 0.0) for key, score in scores.items()}


def weighted(parts: Sequence[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for scores, weight in parts:
        for key, score in scores.items():
            total[key] = total.get(key, 0.0) + weight * score
    return total
