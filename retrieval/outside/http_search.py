"""A search engine behind an HTTP endpoint: one request a query, several at a time, each measured."""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.outside.adapt import OutsideRetriever
from mrc_workbench.retrieval.outside.problems import OutsideError, shortened
from mrc_workbench.retrieval.outside.request import Request
from mrc_workbench.retrieval.outside.results import Order, ResultReader

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 16 * 2**20  # of an answer, unpacked
_TRIES = 3  # for what passes: too many requests, a gateway's fault, a lost connection
_PASSING = (429, 502, 503, 504)
_LONGEST_PAUSE = 10.0  # seconds
_KEYS_SHOWN = 8


@dataclass(frozen=True)
class HttpCaller:
    """Searches by an endpoint.

    `ids` and `scores` are JMESPath expressions; each must give a list, of the same length. A request that takes more
    than `timeout` seconds fails. Redirects are not followed, and an answer may have `MOST_BYTES`.
    """

    request: Request
    ids: str
    scores: str = ""
    timeout: float = 10.0
    concurrency: int = 4
    on_progress: Callable[[float], None] | None = None

    def results(self, queries: Sequence[str], k: int) -> tuple[Sequence[object], list[float]]:
        """Return the results of each query, and its seconds without pauses before another try.

        Raises the `OutsideError` of the first request that failed; the others are not sent then.
        """
        import httpx

        for library in ("httpx", "httpcore"):  # they would log addresses
            logging.getLogger(library).setLevel(logging.WARNING)
        headers = self.request.sent_headers()
        limits = httpx.Limits(max_connections=self.concurrency)
        answered: list[tuple[object, float]] = [(None, 0.0)] * len(queries)
        try:
            client = httpx.Client(headers=headers, timeout=self.timeout, follow_redirects=False, limits=limits)
        except (ValueError, TypeError, OSError) as error:  # a proxy or a certificate of the environment
            raise OutsideError("outside_unreachable", f"no connection: {shortened(error)}", reason="") from error
        pool = ThreadPoolExecutor(self.concurrency)
        try:
            places = {pool.submit(self._search, client, query, k): place for place, query in enumerate(queries)}
            for done, future in enumerate(as_completed(places), start=1):
                answered[places[future]] = future.result()
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
            begin = self.request.without_secrets(shortened(content[:400].decode(errors="replace")))
            message = f"the answer is not JSON; it begins with {begin!r}"
            raise OutsideError("outside_not_json", message, begin=begin) from error
        return self._read(answer), seconds

    def _answer(self, client: "httpx.Client", query: str, k: int) -> tuple[bytes, float]:
        """Return the body of an answer with status 200, and the seconds of the request that brought it."""
        import httpx

        for tried in range(1, _TRIES + 1):
            start = time.perf_counter()
            try:
                status, headers, content = self._sent(client, query, k)
            except httpx.TimeoutException as error:
                raise self._timeout() from error
            except (httpx.ConnectError, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
                raise self._unreachable(error) from error
            except httpx.DecodingError as error:
                message = "the answer is not compressed as it says"
                raise OutsideError("outside_not_json", message, begin="") from error
            except httpx.HTTPError as error:  # the connection was lost
                if tried == _TRIES:
                    raise self._unreachable(error) from error
                time.sleep(_pause(tried, {}))
                continue
            if status not in _PASSING or tried == _TRIES:
                break
            time.sleep(_pause(tried, headers))
        seconds = time.perf_counter() - start
        if 300 <= status < 400:
            message = "the endpoint redirects to another address: give that address instead"
            raise OutsideError("outside_redirected", message, status=status)
        if status != 200:
            reason = self.request.without_secrets(shortened(content[:400].decode(errors="replace")))
            raise OutsideError("outside_status", f"status {status}: {reason}", status=status, reason=reason)
        return content, seconds

    def _sent(self, client: "httpx.Client", query: str, k: int) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and read its answer within the time and the size allowed."""
        content = self.request.content_for(query, k)
        headers = {"content-type": "application/json"} if content is not None else {}
        until = time.perf_counter() + self.timeout
        url = self.request.url_for(query, k)
        with client.stream(self.request.method, url, content=content, headers=headers) as response:
            pieces, size = list[bytes](), 0
            for piece in response.iter_bytes():
                size += len(piece)
                if size > MOST_BYTES:
                    megabytes = MOST_BYTES // 2**20
                    message = f"the answer is larger than {megabytes} MB"
                    raise OutsideError("outside_too_large", message, megabytes=megabytes)
                if time.perf_counter() > until:  # it comes in small pieces
                    raise self._timeout()
                pieces.append(piece)
            return response.status_code, response.headers, b"".join(pieces)

    def _read(self, answer: object) -> list[object]:
        """Return the results in an answer: ids, or pairs of id and score."""
        ids = self._at(self.ids, answer, "ids")
        if not self.scores:
            return ids
        scores = self._at(self.scores, answer, "scores")
        if len(ids) != len(scores):
            message = f"the answer has {len(ids)} ids at {self.ids!r} but {len(scores)} scores at {self.scores!r}"
            raise OutsideError("outside_lengths", message, ids=len(ids), scores=len(scores))
        return list(zip(ids, scores, strict=True))

    def _at(self, path: str, answer: object, field: str) -> list[object]:
        import jmespath

        try:
            values = jmespath.search(path, answer)
        except (jmespath.exceptions.JMESPathError, RecursionError, TypeError, ValueError) as error:
            reason = self.request.without_secrets(shortened(error))
            message = f"{field}: {path!r} cannot be applied to the answer: {reason}"
            raise OutsideError("outside_path", message, path=path, has=reason) from error
        if not isinstance(values, list):
            has = self.request.without_secrets(_described(answer))
            message = f"{field}: {path!r} gives no list; the answer has {has}"
            raise OutsideError("outside_path", message, path=path, has=has)
        return values

    def _timeout(self) -> OutsideError:
        seconds = f"{self.timeout:g}"
        return OutsideError("outside_timeout", f"no answer within {seconds} seconds", seconds=seconds)

    def _unreachable(self, error: Exception) -> OutsideError:
        reason = self.request.without_secrets(shortened(error))
        return OutsideError("outside_unreachable", f"the endpoint cannot be reached: {reason}", reason=reason)


def http_retriever(
    name: str, caller: HttpCaller, question_set: QuestionSet, order: Order = "score"
) -> OutsideRetriever:
    """Return a retriever over the passages of a question set that asks an endpoint."""
    return OutsideRetriever(name, caller, ResultReader(question_set, order=order), question_set)


def _described(answer: object) -> str:
    """Return the keys of an answer, or what it is instead of an object."""
    if isinstance(answer, dict):
        return shortened(", ".join(map(str, [*answer][:_KEYS_SHOWN]))) or "no keys"
    return f"a list of {len(answer)}" if isinstance(answer, list) else shortened(json.dumps(answer))


def _pause(tried: int, headers: Mapping[str, str]) -> float:
    """Return the seconds before another try: as the endpoint asks for, else each time twice as many."""
    with suppress(ValueError):
        if (wanted := float(headers.get("retry-after", ""))) >= 0:
            return min(wanted, _LONGEST_PAUSE)
    return 0.25 * float(2**tried)
