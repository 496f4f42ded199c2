"""A search engine behind an HTTP endpoint: concurrent requests, one per query, each with its latency.

`{query}` and `{k}` are percent-encoded in the URL. In the JSON body they are JSON values: a query cannot leave its
string, and `"{k}"` or a bare `{k}` becomes a number.
"""

import json
import logging
import os
import re
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlsplit

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.workspace import user
from mrc_workbench.models.llm import users_may_set_address
from mrc_workbench.retrieval.outside import Answers, Order, OutsideError, ResultReader, shorten
from mrc_workbench.retrieval.outside.adapt import OutsideRetriever

if TYPE_CHECKING:
    import httpx

Method = Literal["GET", "POST"]
SECRETS = "MRC_SECRET_"  # prefix of environment variables that may be sent as headers
_BARE_K = re.compile(r"""(?<=[:\[,\s])\{k\}(?=[,\]}\s])""")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_NOT_PUBLIC = re.compile(r"authorization|cookie|token|secret|password|api[-_]?key", re.IGNORECASE)
MAX_BYTES = 16 * 2**20  # of a decompressed response
_TRIES = 3  # for temporary problems: too many requests, gateway errors, a lost connection
_RETRIED_STATUSES = (429, 502, 503, 504)
_MAX_PAUSE = 10.0  # seconds
_MAX_KEYS = 8
_PRESETS = Path(__file__).with_name("presets.toml")


def validate_url(url: str) -> str:
    """Return the address of an endpoint. Raises `OutsideError` unless it is http(s) without a password."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not url.isprintable() or " " in url:
        raise OutsideError("outside_url", "url must be an address that begins with http:// or https://")
    if "@" in parts.netloc:
        raise OutsideError("outside_url_password", "url must not hold a user or a password; use secret_headers")
    if "{" in parts.netloc:
        raise OutsideError("outside_url_host", "url may hold {query} and {k} only after the host")
    return url


def validate_body(body: str) -> str:
    """Return the template of a JSON body. Raises `OutsideError` if it is not JSON."""
    if body.strip():
        _parse_template(body)
    return body


def validate_headers(headers: Mapping[str, str]) -> None:
    """Raise `OutsideError` if a header cannot be sent, or has the name of a secret."""
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not (value.isascii() and value.isprintable()):
            message = f"headers: {name!r} and its value must be printable ASCII on one line"
            raise OutsideError("outside_header", message, name=shorten(name))
        if _NOT_PUBLIC.search(name):
            message = f"headers: {name!r} looks like a secret; name its environment variable in secret_headers"
            raise OutsideError("outside_header_secret", message, name=name)


def validate_secrets(secret_headers: Mapping[str, str]) -> None:
    """Raise `OutsideError` unless the headers come from variables with the prefix of secrets."""
    for name, variable in secret_headers.items():
        if not _HEADER.fullmatch(name):
            message = f"secret_headers: {name!r} is not the name of a header"
            raise OutsideError("outside_header", message, name=shorten(name))
        if not re.fullmatch(rf"{SECRETS}[A-Z0-9_]+", variable):
            message = f"secret_headers: {variable!r} must be an environment variable named {SECRETS}…"
            raise OutsideError("outside_variable", message, variable=shorten(variable))


def validate_path(path: str) -> str:
    """Return a JMESPath expression. Raises `OutsideError` if it is invalid."""
    import jmespath

    try:
        jmespath.compile(path)
    except (jmespath.exceptions.JMESPathError, RecursionError) as error:
        message = f"{path!r} is not a JMESPath expression: {shorten(error)}"
        raise OutsideError("outside_jmespath", message, path=shorten(path)) from error
    return path


def _parse_template(body: str) -> Any:
    try:
        return json.loads(_BARE_K.sub('"{k}"', body))
    except (ValueError, RecursionError) as error:
        reason = shorten(error)
        raise OutsideError("outside_body", f"body must be JSON: {reason}", reason=reason) from error


@dataclass(frozen=True)
class HttpRequest:
    """A request template. `secret_headers` maps headers to environment variables; their values are never stored."""

    url: str
    method: Method = "POST"
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    secret_headers: Mapping[str, str] = field(default_factory=dict)

    def url_for(self, query: str, k: int) -> str:
        return self.url.replace("{query}", quote(query, safe="", errors="replace")).replace("{k}", str(k))

    def content_for(self, query: str, k: int) -> bytes | None:
        if not self.body.strip():
            return None
        return json.dumps(_fill_template(_parse_template(self.body), query, k)).encode()

    def sent_headers(self) -> dict[str, str]:
        """Return the headers with the values of the secret ones. Raises `OutsideError`."""
        if not users_may_set_address():
            raise OutsideError("outside_address_refused", "the server's administrator allows no addresses of users")
        if self.secret_headers and user():
            raise OutsideError("outside_secret_refused", "environment variables of a shared server are not sent")
        secrets: dict[str, str] = {}
        for name, variable in self.secret_headers.items():
            value = os.environ.get(variable, "").strip()
            if not value or not (value.isascii() and value.isprintable()):
                message = f"the environment variable {variable} is not set, or is not one line of ASCII"
                raise OutsideError("outside_secret_missing", message, variable=variable)
            secrets[name] = value
        return {"accept": "application/json", **self.headers, **secrets}

    def without_secrets(self, text: str) -> str:
        for variable in self.secret_headers.values():
            for secret in os.environ.get(variable, "").split():  # also without a prefix such as Bearer
                text = text.replace(secret, "…") if len(secret) > 6 else text
        return text


def _fill_template(template: Any, query: str, k: int) -> Any:
    if isinstance(template, dict):
        return {key: _fill_template(value, query, k) for key, value in template.items()}
    if isinstance(template, list):
        return [_fill_template(value, query, k) for value in template]
    if not isinstance(template, str):
        return template
    return k if template == "{k}" else template.replace("{k}", str(k)).replace("{query}", query)


@dataclass(frozen=True)
class Preset:
    """Initial values for a known engine."""

    url: str
    ids: str
    method: Method = "POST"
    body: str = ""
    scores: str = ""
    secret_header: str = ""


PRESETS = {name: Preset(**values) for name, values in tomllib.loads(_PRESETS.read_text(encoding="utf-8")).items()}


@dataclass(frozen=True)
class HttpCaller:
    """Searches at an endpoint; `ids` and `scores` are JMESPath expressions of lists of the same length."""

    request: HttpRequest
    ids: str
    scores: str = ""
    timeout: float = 10.0
    concurrency: int = 4
    on_progress: Callable[[float], None] | None = None

    def __call__(self, queries: Sequence[str], k: int) -> Answers:
        """Return results and seconds without pauses. Raises the `OutsideError` of the first failed request."""
        import httpx

        for library in ("httpx", "httpcore"):  # they would log addresses
            logging.getLogger(library).setLevel(logging.WARNING)
        headers = self.request.sent_headers()
        limits = httpx.Limits(max_connections=self.concurrency)
        answered: list[tuple[object, float]] = [(None, 0.0)] * len(queries)
        try:
            client = httpx.Client(headers=headers, timeout=self.timeout, follow_redirects=False, limits=limits)
        except (ValueError, TypeError, OSError) as error:  # a proxy or a certificate of the environment
            raise OutsideError("outside_unreachable", f"no connection: {shorten(error)}", reason="") from error
        pool = ThreadPoolExecutor(self.concurrency)
        try:
            futures = {pool.submit(self._search, client, query, k): index for index, query in enumerate(queries)}
            for done, future in enumerate(as_completed(futures), start=1):
                answered[futures[future]] = future.result()
                if self.on_progress:
                    self.on_progress(done / len(queries))
        finally:
            pool.shutdown(cancel_futures=True)
            client.close()
        return [results for results, _ in answered], [seconds for _, seconds in answered]

    def _search(self, client: "httpx.Client", query: str, k: int) -> tuple[object, float]:
        content, seconds = self._answer(client, query, k)
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError) as error:
            begin = self._excerpt(content)
            raise OutsideError("outside_not_json", f"the answer is not JSON: {begin!r}", begin=begin) from error
        return self._read(answer), seconds

    def _answer(self, client: "httpx.Client", query: str, k: int) -> tuple[bytes, float]:
        import httpx

        for attempt in range(1, _TRIES + 1):
            start = time.perf_counter()
            try:
                status, headers, content = self._send(client, query, k)
            except httpx.TimeoutException as error:
                raise self._timeout() from error
            except (httpx.ConnectError, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
                raise self._unreachable(error) from error
            except httpx.DecodingError as error:
                message = "the answer has another compression than declared"
                raise OutsideError("outside_not_json", message, begin="") from error
            except httpx.HTTPError as error:  # the connection was lost
                if attempt == _TRIES:
                    raise self._unreachable(error) from error
                time.sleep(_pause(attempt, {}))
                continue
            if status not in _RETRIED_STATUSES or attempt == _TRIES:
                break
            time.sleep(_pause(attempt, headers))
        seconds = time.perf_counter() - start
        if 300 <= status < 400:
            message = "the endpoint redirects to another address: use that address"
            raise OutsideError("outside_redirected", message, status=status)
        if status != 200:
            reason = self._excerpt(content)
            raise OutsideError("outside_status", f"status {status}: {reason}", status=status, reason=reason)
        return content, seconds

    def _send(self, client: "httpx.Client", query: str, k: int) -> tuple[int, Mapping[str, str], bytes]:
        content = self.request.content_for(query, k)
        headers = {"content-type": "application/json"} if content is not None else {}
        until = time.perf_counter() + self.timeout
        url = self.request.url_for(query, k)
        with client.stream(self.request.method, url, content=content, headers=headers) as response:
            pieces = list[bytes]()
            size = 0
            for piece in response.iter_bytes():
                size += len(piece)
                if size > MAX_BYTES:
                    megabytes = MAX_BYTES // 2**20
                    message = f"the answer is larger than {megabytes} MB"
                    raise OutsideError("outside_too_large", message, megabytes=megabytes)
                if time.perf_counter() > until:  # a slow stream of small pieces
                    raise self._timeout()
                pieces.append(piece)
            return response.status_code, response.headers, b"".join(pieces)

    def _read(self, answer: object) -> list[object]:
        ids = self._extract(self.ids, answer, "ids")
        if not self.scores:
            return ids
        scores = self._extract(self.scores, answer, "scores")
        if len(ids) != len(scores):
            message = f"the answer has {len(ids)} ids at {self.ids!r} but {len(scores)} scores at {self.scores!r}"
            raise OutsideError("outside_lengths", message, ids=len(ids), scores=len(scores))
        return list(zip(ids, scores, strict=True))

    def _extract(self, path: str, answer: object, field: str) -> list[object]:
        import jmespath

        try:
            values = jmespath.search(path, answer)
        except (jmespath.exceptions.JMESPathError, RecursionError, TypeError, ValueError) as error:
            reason = self.request.without_secrets(shorten(error))
            message = f"{field}: {path!r} cannot be applied to the answer: {reason}"
            raise OutsideError("outside_path", message, path=path, has=reason) from error
        if not isinstance(values, list):
            has = self.request.without_secrets(_describe(answer))
            message = f"{field}: {path!r} gives no list; the answer has {has}"
            raise OutsideError("outside_path", message, path=path, has=has)
        return values

    def _excerpt(self, content: bytes) -> str:
        return self.request.without_secrets(shorten(content[:400].decode(errors="replace")))

    def _timeout(self) -> OutsideError:
        seconds = f"{self.timeout:g}"
        return OutsideError("outside_timeout", f"no answer within {seconds} seconds", seconds=seconds)

    def _unreachable(self, error: Exception) -> OutsideError:
        reason = self.request.without_secrets(shorten(error))
        return OutsideError("outside_unreachable", f"the endpoint cannot be reached: {reason}", reason=reason)


def http_retriever(
    name: str, caller: HttpCaller, question_set: QuestionSet, order: Order = "score"
) -> OutsideRetriever:
    """Return a retriever over the passages of a question set that searches at an endpoint."""
    return OutsideRetriever(name, caller, ResultReader(question_set, order=order), question_set)


def _describe(response: object) -> str:
    if isinstance(response, dict):
        return shorten(", ".join(map(str, [*response][:_MAX_KEYS]))) or "no keys"
    return f"a list of {len(response)}" if isinstance(response, list) else shorten(json.dumps(response))


def _pause(attempt: int, headers: Mapping[str, str]) -> float:
    with suppress(ValueError):
        if (retry_after := float(headers.get("retry-after", ""))) >= 0:
            return min(retry_after, _MAX_PAUSE)
    return 0.25 * float(2**attempt)
