"""A search engine behind HTTP: requests to a strict server, refusals, and hostile servers."""

import gzip
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from mrc_workbench.data.workspace import acting_as, user_of
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import HttpSpec
from mrc_workbench.retrieval.comparison.spec import RetrieverContext
from mrc_workbench.retrieval.outside import OutsideError, http_search
from mrc_workbench.retrieval.outside.adapt import as_retriever
from mrc_workbench.retrieval.outside.http_search import PRESETS, HttpRequest
from tests.doubles import PASSAGES, QUESTIONS, small_set, texts_of
from tests.retrieval.test_contract import http_spec
from tests.search_server import Answer, SearchServer, scored, searching

QUERIES = texts_of(QUESTIONS)
JSON = {"content-type": "application/json"}


@pytest.fixture
def server() -> Iterator[SearchServer]:
    with searching(PASSAGES) as serving:
        yield serving


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_search.time, "sleep", lambda _: None)


def failure(spec: HttpSpec) -> OutsideError:
    (result,) = compare(Experiment(data="x", retriever=(spec,)), small_set()).results
    assert result.scores is None
    assert isinstance(result.error, OutsideError)
    return result.error


def test_compares_http_retriever(server: SearchServer) -> None:
    spec = http_spec(server)
    (result,) = compare(Experiment(data="x", retriever=(spec,)), small_set()).results
    expected = as_retriever(lambda query, k: scored(PASSAGES, query, k), small_set()).search(QUERIES, 5)
    assert result.rankings is not None
    np.testing.assert_array_equal(result.rankings.indices, expected.indices)
    assert result.query_seconds > 0
    assert result.notes["latency"]["p95"] >= result.notes["latency"]["p50"] > 0
    sent = [json.loads(body) for _, _, body in server.requests]
    assert sorted(request["query"] for request in sent) == sorted(QUERIES)
    assert {request["k"] for request in sent} == {len(PASSAGES)}


def test_caches_results_until_version_changes(server: SearchServer) -> None:
    for spec in (http_spec(server), http_spec(server), http_spec(server, version="2"), http_spec(server, version="2")):
        compare(Experiment(data="x", retriever=(spec,)), small_set())
    assert len(server.requests) == 2 * len(QUERIES)


def test_get_and_results_without_scores(server: SearchServer) -> None:
    url = f"{server.address}/search?q={{query}}&k={{k}}"
    spec = http_spec(server, url=url, method="GET", body="", headers={}, scores="")
    rankings = spec.make(RetrieverContext(small_set())).search(["서울 & 한강?", "가을 #1"], 3)
    assert rankings.scores[0].tolist() == [0.0, -1.0, -2.0]
    targets = {target for _, target, _ in server.requests}
    assert targets == {f"/search?q={quote(text)}&k=3" for text in ("서울 & 한강?", "가을 #1")}


@pytest.mark.parametrize("query", ['"}, "size": 9, "x": {"', "{k}", "{query}", "\\", "줄\n바꿈", "\ud800"])
def test_escapes_query_in_body_and_url(query: str) -> None:
    request = HttpRequest("http://x", body='{"a": ["{query}", "{k} of {query}"], "k": {k}}')
    sent = json.loads(request.content_for(query, 7) or b"")
    assert sent == {"a": [query, f"7 of {query}"], "k": 7}


@pytest.mark.parametrize("preset", PRESETS)
def test_sends_presets(preset: str) -> None:
    known = PRESETS[preset]
    spec = HttpSpec(name="x", url=known.url, method=known.method, body=known.body, ids=known.ids, scores=known.scores)
    assert "{" not in spec.request.url_for("a", 3)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"url": "ftp://x/{query}"}, "http://"),
        ({"url": "http://user:word@x/"}, "password"),
        ({"url": "http://{query}.x/"}, "after the host"),
        ({"url": "http://x y/"}, "http://"),
        ({"body": "{}"}, "must hold {query}"),
        ({"body": "{query}"}, "must be JSON"),
        ({"body": "[" * 100_000}, "must be JSON"),
        ({"method": "GET"}, "method POST"),
        ({"method": "DELETE"}, "'GET' or 'POST'"),
        ({"ids": "hits[*"}, "JMESPath"),
        ({"scores": "]"}, "JMESPath"),
        ({"headers": {"Authorization": "Bearer x"}}, "secret_headers"),
        ({"headers": {"X-API-Key": "x"}}, "secret_headers"),
        ({"headers": {"a\nb": "x"}}, "printable"),
        ({"headers": {"a": "x\r\ny: z"}}, "printable"),
        ({"secret_headers": {"x-key": "AWS_SECRET_ACCESS_KEY"}}, "MRC_SECRET_"),
        ({"timeout": 0}, "greater than 0"),
        ({"concurrency": 1000}, "less than or equal to 64"),
    ],
)
def test_rejects_invalid_spec(server: SearchServer, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        http_spec(server, **changes)
    assert says in str(error.value)
    assert not server.requests


def test_path_may_select_whole_results(server: SearchServer) -> None:
    expected = http_spec(server).make(RetrieverContext(small_set())).search(QUERIES, 3)
    rankings = http_spec(server, ids="hits.hits", scores="").make(RetrieverContext(small_set())).search(QUERIES, 3)
    np.testing.assert_array_equal(rankings.scores, expected.scores)


def test_accepts_table_as_body() -> None:
    body = {"query": "{query}", "size": "{k}"}
    spec = HttpSpec.model_validate({"name": "x", "url": "http://x/", "ids": "ids", "body": body})
    assert json.loads(spec.request.content_for("a", 3) or b"") == {"query": "a", "size": 3}


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"headers": {}}, "outside_status", "status 403: "),
        ({"url_path": "/other"}, "outside_status", "no such index"),
        ({"body": '{"query": "{query}"}'}, "outside_status", "expected query and k"),
        ({"body": '{"query": "{query}", "k": "{k} hits"}'}, "outside_status", "k a number"),
        ({"ids": "hits.total"}, "outside_path", "the answer has hits"),
        ({"ids": "hits.hits[*].wrong", "scores": ""}, "outside_empty", "no results"),
        ({"ids": "hits.hits[*].wrong"}, "outside_lengths", "0 ids"),
        ({"ids": "sum(hits)"}, "outside_path", "cannot be applied"),
        ({"scores": "hits.hits[*]._id"}, "outside_score", "not a finite number"),
    ],
)
def test_reports_errors_of_strict_server(server: SearchServer, changes: dict[str, Any], code: str, says: str) -> None:
    if path := changes.pop("url_path", ""):
        changes = {"url": f"{server.address}{path}"}
    error = failure(http_spec(server, **changes))
    assert (error.code, says in str(error)) == (code, True), str(error)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((200, JSON, b"<html>"), "outside_not_json"),
        ((200, JSON, b'{"hits": '), "outside_not_json"),
        ((200, JSON, b""), "outside_not_json"),
        ((200, JSON, b"[" * 200_000), "outside_not_json"),
        ((200, JSON, b"\xff\xfe\x00"), "outside_not_json"),
        ((200, {**JSON, "content-encoding": "gzip"}, b"no gzip"), "outside_not_json"),
        ((200, {**JSON, "content-encoding": "gzip"}, gzip.compress(b" " * 50_000_000)), "outside_too_large"),
        ((200, JSON, b" " * (http_search.MAX_BYTES + 1)), "outside_too_large"),
        ((200, JSON, b"[]"), "outside_path"),
        ((200, JSON, b"null"), "outside_path"),
        ((200, JSON, b'{"hits": {"hits": [{"_id": "other", "_score": 1}]}}'), "outside_ids"),
        ((200, JSON, b'{"hits": {"hits": [{"_id": "p1", "_score": NaN}]}}'), "outside_score"),
        ((200, JSON, b'{"hits": {"hits": [{"_id": true, "_score": 1}]}}'), "outside_results"),
        ((302, {"location": "http://169.254.169.254/"}, b""), "outside_redirected"),
        ((204, {}, b""), "outside_status"),
        ((500, JSON, b"{}"), "outside_status"),
        ((503, JSON, b"{}"), "outside_status"),
    ],
)
def test_reports_reason_for_hostile_response(server: SearchServer, answer: Answer, code: str) -> None:
    server.replacement = lambda *_: answer
    assert failure(http_spec(server, concurrency=1)).code == code


def test_accepts_numeric_ids() -> None:
    passages = [passage.__class__(str(row), passage.text) for row, passage in enumerate(PASSAGES)]
    questions = small_set().__class__("numbers", passages, ())
    with searching(passages) as server:
        server.replacement = lambda *_: (200, JSON, b'{"hits": {"hits": [{"_id": 3, "_score": 1e2}]}}')
        rankings = http_spec(server).make(RetrieverContext(questions)).search(["a", "b"], 2)
    assert rankings.indices.tolist() == [[3, -1], [3, -1]]


def test_retries_transient_errors(server: SearchServer) -> None:
    failures_left = [True, True]

    def answer(target: str, body: bytes) -> Answer:
        if failures_left:
            failures_left.pop()
            return 503, {"retry-after": "0"}, b""
        return 200, JSON, b'{"hits": {"hits": [{"_id": "p1", "_score": 1}]}}'

    server.replacement = answer
    assert http_spec(server, concurrency=1).make(RetrieverContext(small_set())).search(["a"], 1).indices.tolist() == [
        [0]
    ]


def test_reports_refused_connection(server: SearchServer) -> None:
    assert failure(http_spec(server, url="http://127.0.0.1:1/{query}")).code == "outside_unreachable"


def test_reports_timeout(server: SearchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(0, 10**6, 100))
    monkeypatch.setattr(http_search.time, "perf_counter", lambda: next(times))
    error = failure(http_spec(server, concurrency=1))
    assert (error.code, error.details["seconds"]) == ("outside_timeout", "10")


def test_sends_secret_without_displaying_it(server: SearchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.required_key = "Bearer s3cret-value"
    spec = http_spec(server, secret_headers={"x-key": "MRC_SECRET_TESTS"})
    error = failure(spec)
    assert (error.code, error.details["variable"]) == ("outside_secret_missing", "MRC_SECRET_TESTS")
    monkeypatch.setenv("MRC_SECRET_TESTS", "Bearer another-value")
    assert "another-value" not in f"{failure(spec).as_dict()}"
    monkeypatch.setenv("MRC_SECRET_TESTS", "Bearer s3cret-value")
    (result,) = compare(Experiment(data="x", retriever=(spec,)), small_set()).results
    assert result.scores
    assert "s3cret" not in spec.model_dump_json()


def test_rejects_user_endpoints_on_server_with_sign_in(server: SearchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_SECRET_TESTS", "Bearer s3cret-value")
    with acting_as(user_of("https://issuer", "someone")):
        assert failure(http_spec(server)).code == "outside_address_refused"
        monkeypatch.setenv("MRC_USER_ADDRESSES", "1")
        assert failure(http_spec(server, secret_headers={"x-key": "MRC_SECRET_TESTS"})).code == "outside_secret_refused"
    assert not server.requests
