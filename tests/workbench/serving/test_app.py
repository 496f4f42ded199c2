"""The HTTP API: authentication, limits, request fields and errors, which are JSON without internal details."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.problems import Failure
from mrc_workbench.retrieval.searcher import Searcher
from mrc_workbench.workbench.serving.app import HEADERS, create_app
from mrc_workbench.workbench.serving.protocol import RequestLimits
from tests.doubles import PASSAGES, QUESTIONS
from tests.retrieval.test_contract import bm25, dense

KEY = "correct-horse-battery-staple"
QUESTION = QUESTIONS[0].text
CORPUS = Passages.from_passages(PASSAGES)
SEARCHERS = {retriever.name: Searcher(retriever, CORPUS) for retriever in (bm25(PASSAGES), dense(PASSAGES))}
SINGLE_SEARCHER = {"bm25": SEARCHERS["bm25"]}


@contextmanager
def client(searchers: dict[str, Searcher] = SINGLE_SEARCHER, key: str = "", **limits: Any) -> Iterator[TestClient]:
    app = create_app(searchers, RequestLimits(**limits), key)
    with TestClient(app, "http://127.0.0.1", raise_server_exceptions=False) as connected:
        yield connected


@pytest.fixture(scope="module")
def service() -> Iterator[TestClient]:
    with client(max_query_length=60, max_queries=3, max_k=4, max_request_bytes=2000) as connected:
        yield connected


@pytest.fixture(scope="module")
def both() -> Iterator[TestClient]:
    with client(SEARCHERS, max_k=5) as connected:
        yield connected


@pytest.fixture(scope="module")
def secured() -> Iterator[TestClient]:
    with client(SEARCHERS, KEY, max_query_length=77) as connected:
        yield connected


def test_returns_passages_with_texts_in_searcher_order(both: TestClient) -> None:
    answer = both.post("/search", json={"questions": [QUESTION, "zebra"], "k": 2, "retriever": "dense"})
    assert answer.status_code == 200
    expected_hits = [[hit._asdict() for hit in hits] for hits in SEARCHERS["dense"].search([QUESTION, "zebra"], 2)]
    ranked = [[{"rank": rank, **hit} for rank, hit in enumerate(hits, 1)] for hits in expected_hits]
    results = [{"question": text, "hits": hits} for text, hits in zip([QUESTION, "zebra"], ranked, strict=True)]
    assert answer.json() == {"retriever": "dense", "results": results}
    assert [bool(result["hits"]) for result in results] == [True, False]
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    for body in ({"question": QUESTION}, {"question": QUESTION, "retriever": "x"}):
        refusal = both.post("/search", json=body)
        assert (refusal.status_code, refusal.json()["code"]) == (404, "unknown_retriever")
        assert "bm25, dense" in refusal.json()["error"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "either question or questions"),
        ({"question": QUESTION, "questions": [QUESTION]}, "either question or questions"),
        ({"question": QUESTION, "queries": [QUESTION]}, "either question or questions"),
        ({"question": QUESTION, "query": QUESTION}, "unknown or repeated field"),
        ({"question": QUESTION, "k": 1, "top_k": 1}, "unknown or repeated field"),
        ({"question": ""}, "question: "),
        ({"question": "가" * 61}, "at most 60"),
        ({"questions": []}, "at least 1"),
        ({"questions": [QUESTION] * 4}, "at most 3"),
        ({"question": QUESTION, "k": 0}, "k: "),
        ({"question": QUESTION, "k": 5}, "less than or equal to 4"),
        ({"question": QUESTION, "k": "3"}, "valid integer"),
        ({"question": 7}, "valid string"),
        ({"question": QUESTION, "<b>": 1}, "unknown or repeated field"),
    ],
)
def test_rejects_invalid_requests_with_reasons(service: TestClient, body: object, words: str) -> None:
    refusal = service.post("/search", json=body)
    assert (refusal.status_code, refusal.json()["code"]) == (422, "not_understood")
    assert words in refusal.json()["error"]
    assert "<b>" not in refusal.text
    assert "Value error" not in refusal.text


def test_rejects_other_paths_methods_contents_and_sizes(service: TestClient) -> None:
    typed = {"Content-Type": "application/json"}
    refusals = {
        404: service.get("/docs"),
        405: service.get("/search"),
        413: service.post("/search", content=b"[" * 2001, headers=typed),
        415: service.post("/search", content=b"{}", headers={"Content-Type": "text/plain"}),
        421: service.post("/search", json={"question": QUESTION}, headers={"Host": "evil.example:80"}),
        422: service.post("/search", content=iter([b'{"question"', b":"]), headers=typed),
    }
    for status, refusal in refusals.items():
        assert refusal.status_code == status
        assert set(refusal.json()) == {"code", "error"}
        assert {name: refusal.headers[name] for name in HEADERS} == HEADERS
    assert service.post("/search", json={"question": QUESTION}, headers={"Host": "[::1]:8700"}).status_code == 200


def test_requires_key_for_search_but_not_for_probes(secured: TestClient) -> None:
    for path in ("/livez", "/readyz", "/healthz", "/openapi.json"):
        assert secured.get(path, headers={"Host": "search.example"}).status_code == 200
    right = [f"{start}{KEY}" for start in ("Bearer ", "bearer ", "BEARER ", "Bearer   ")]
    wrong = [f"{start}{KEY}" for start in ("", "Basic ", "Bearer", "Bearer Bearer ", "Token ", " ")]
    wrong += [f"Bearer {KEY} x", f"Bearer {KEY}x", "Bearer", "Bearer ", "", "ké"]
    body = {"question": QUESTION, "retriever": "bm25"}
    for header in (*right, *wrong):
        headers = {"Authorization": header.encode("latin-1"), "Host": b"search.example"}
        answers = [secured.post("/search", json=body, headers=headers)]
        answers += [secured.get(path, headers=headers) for path in ("/info", "/metrics")]
        assert [answer.status_code for answer in answers] == [200 if header in right else 401] * 3, header
        for answer in answers if header in wrong else ():
            assert (answer.json()["code"], answer.headers["WWW-Authenticate"]) == ("no_key", "Bearer")
    assert secured.post("/search", json=body).json()["code"] == "no_key"
    assert KEY not in secured.get("/openapi.json").text


class Held:
    """BM25 that waits for `go`, records the searched questions, and fails for two of them."""

    name = "held"

    def __init__(self) -> None:
        self.go = threading.Event()
        self.began = threading.Event()
        self.searched = list[str]()

    def search(self, questions: list[str], k: int) -> Any:
        self.began.set()
        assert self.go.wait(20)
        self.searched += questions
        if "fail" in questions:
            raise RuntimeError("/home/user/secret")
        if "away" in questions:
            raise Failure("milvus_unreachable", "http://secret:19530 does not answer")
        return bm25(PASSAGES).search(questions, k)


def outcome(answer: Any) -> tuple[int, str, str]:
    return answer.status_code, answer.json()["code"], answer.headers["Retry-After"]


def test_rejects_excess_requests_and_times_out_slow_ones() -> None:
    held = Held()
    body = {"question": QUESTION}
    with client({"held": Searcher(held, CORPUS)}, max_concurrency=1, timeout=1.0) as service, ExitStack() as stack:
        stack.callback(held.go.set)  # also if the test fails
        with ThreadPoolExecutor(1) as others:
            first = others.submit(service.post, "/search", json=body)
            assert held.began.wait(10)
            assert outcome(service.post("/search", json=body)) == (429, "busy", "1")
            assert outcome(first.result(20)) == (503, "too_slow", "1")
        held.go.set()
        assert service.post("/search", json=body).status_code == 200
        failed = service.post("/search", json={"question": "fail"})
        assert (failed.status_code, failed.json()["code"]) == (500, "failed")
        away = service.post("/search", json={"question": "away"})
        assert outcome(away) == (503, "milvus_unreachable", "1")
        assert not [word for word in ("secret", "Traceback") if word in failed.text + away.text]
        service.app.state.service.is_ending = True  # type: ignore[attr-defined]
        assert service.get("/healthz").status_code == 503
        assert service.post("/search", json=body).headers["Connection"] == "close"


GET_PATHS = ("/livez", "/readyz", "/healthz", "/info", "/metrics", "/openapi.json")
OTHER_HOSTS = ("evil.com", "evil.com:8700", "127.0.0.1.evil.com", "localhost.evil.com", "127.0.0.2", "", "[::2]")


@pytest.mark.parametrize("host", [*OTHER_HOSTS, "0.0.0.0"])  # noqa: S104
def test_without_key_rejects_other_hosts(service: TestClient, host: str) -> None:
    for path, method in product([*GET_PATHS, "/search", "/nowhere"], ("GET", "HEAD", "OPTIONS", "POST")):
        answer = service.request(method, path, headers={"Host": host})
        assert answer.status_code == 421
        assert "bm25" not in answer.text


@pytest.mark.parametrize("path", ["/livez/", "/search/", "//livez"])
def test_rejects_unknown_path_without_redirect(path: str, service: TestClient) -> None:
    for method in ("GET", "HEAD", "POST"):
        answer = service.request(method, path, follow_redirects=False)
        assert answer.status_code == 404
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS


def test_probes_accept_head_and_options(service: TestClient) -> None:
    for path in GET_PATHS:
        assert service.get(path).status_code == 200
        head = service.head(path)
        assert (head.status_code, head.content) == (200, b"")
        options = service.options(path)
        assert (options.status_code, options.headers["Allow"]) == (204, "GET, HEAD, OPTIONS")
        refusal = service.post(path)
        assert (refusal.status_code, refusal.headers["Allow"]) == (405, options.headers["Allow"])
    assert service.options("/search").headers["Allow"] == "POST, OPTIONS"
    refusal = service.get("/search")
    assert (refusal.status_code, refusal.json()["code"]) == (405, "method_not_allowed")
    assert refusal.headers["Allow"] == "POST, OPTIONS"
    assert not any(name.startswith("access-control") for name in service.options("/search").headers)


def test_returns_valid_request_id_and_replaces_invalid(service: TestClient) -> None:
    for request_id in ("abc-123", "a" * 128, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"):
        headers = {"X-Request-ID": request_id}
        for answer in (
            service.post("/search", json={"question": QUESTION}, headers=headers),
            service.get("/nowhere", headers=headers),
            service.get("/livez", headers={**headers, "Host": "evil.com"}),
        ):
            assert answer.headers["X-Request-ID"] == request_id
    for request_id in ("", "a" * 129, "a b", "<script>", 'a"b'):
        assert len(service.get("/livez", headers={"X-Request-ID": request_id}).headers["X-Request-ID"]) == 32


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.sampled_from(["question", "k"]), inner),
    max_leaves=8,
)
FIELDS = {"question": st.text() | JSON, "questions": st.lists(st.text()) | JSON, "k": st.integers(-2, 9) | JSON}
NEARLY = st.fixed_dictionaries({}, optional=FIELDS)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary() | (JSON | NEARLY).map(lambda value: json.dumps(value).encode()))
def test_answers_any_body_with_json(service: TestClient, body: bytes) -> None:
    answer = service.post("/search", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 413, 422)
    assert set(answer.json()) == ({"retriever", "results"} if answer.status_code == 200 else {"code", "error"})


@pytest.mark.parametrize("body", [b'{"question": "\\ud800"}', b'{"\\udfff": 1}', b"[" * 1500, b'{"k":' + b"9" * 1900])
def test_rejects_json_that_readers_disagree_on(service: TestClient, body: bytes) -> None:
    answer = service.post("/search", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (422, "not_understood")


def test_openapi_has_limits_and_working_examples(secured: TestClient, service: TestClient) -> None:
    openapi = secured.get("/openapi.json").json()
    assert openapi["openapi"].startswith("3.")
    assert set(openapi["paths"]) == {"/search", "/livez", "/readyz", "/healthz", "/info", "/metrics"}
    assert openapi["paths"]["/metrics"]["get"]["security"]
    assert "security" not in openapi["paths"]["/livez"]["get"]
    search = openapi["paths"]["/search"]["post"]
    assert search["security"]
    assert {"401", "405", "413", "421", "429", "503"} <= search["responses"].keys()
    content = search["requestBody"]["content"]["application/json"]
    for example in content["examples"].values():
        answer = secured.post("/search", json=example["value"], headers={"Authorization": f"Bearer {KEY}"})
        assert answer.status_code == 200
    schema = content["schema"]
    assert '"maxLength": 77' in json.dumps(schema)
    assert schema["properties"]["retriever"]["enum"] == ["bm25", "dense"]
    assert schema["required"] == ["retriever"]
    names = {variant["required"][0] for variant in schema["oneOf"]}
    assert names == {"question", "questions", "query", "queries"}
    assert {"top_k", "offset", "min_score", "fields"} <= schema["properties"].keys()
    single = service.get("/openapi.json").json()["paths"]["/search"]["post"]["requestBody"]["content"]
    schema = single["application/json"]["schema"]
    assert "required" not in schema
    assert schema["properties"]["retriever"]["enum"] == ["bm25"]


@pytest.mark.parametrize("wrong", [{"max_k": 0}, {"timeout": -1.0}, {"batch_wait_ms": float("nan")}])
def test_requires_positive_limits(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RequestLimits(**wrong)


def hits(both: TestClient, **fields: Any) -> list[dict[str, Any]]:
    answer = both.post("/search", json={"question": QUESTION, "retriever": "dense", "k": 5, **fields})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["results"][0]["hits"])


def refusal(both: TestClient, **fields: Any) -> str:
    answer = both.post("/search", json={"question": QUESTION, "retriever": "dense", **fields})
    assert (answer.status_code, answer.json()["code"]) == (422, "not_understood")
    return str(answer.json()["error"])


@pytest.mark.parametrize("queries", [{"query": QUESTION}, {"queries": [QUESTION]}, {"questions": [QUESTION]}])
@pytest.mark.parametrize("count", ["k", "top_k"])
def test_accepts_field_aliases(both: TestClient, queries: dict[str, Any], count: str) -> None:
    answer = both.post("/search", json={"retriever": "dense", count: 2, **queries}).json()
    assert answer["results"] == [{"question": QUESTION, "hits": hits(both, k=2)}]
    assert len(answer["results"][0]["hits"]) == 2


def test_offset_skips_best_passages(both: TestClient) -> None:
    everything = hits(both)
    for offset in range(5):
        assert hits(both, k=5 - offset, offset=offset) == everything[offset:]
    assert "at most 5" in refusal(both, k=3, offset=3)
    assert refusal(both, offset=-1)


def test_min_score_leaves_out_lower_passages(both: TestClient) -> None:
    everything = hits(both)
    for hit in everything:
        remaining = hits(both, min_score=hit["score"])
        assert remaining == [row for row in everything if row["score"] >= hit["score"]]
    assert hits(both, min_score=1e9) == []
    assert refusal(both, min_score="1")


def test_returns_only_requested_fields(both: TestClient) -> None:
    everything = hits(both)
    assert set(everything[0]) == {"rank", "id", "title", "text", "score"}
    assert hits(both, fields=["id", "score"]) == [{"id": hit["id"], "score": hit["score"]} for hit in everything]
    for wrong in (["body"], [], "id", [3]):
        assert refusal(both, fields=wrong)
