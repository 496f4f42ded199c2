"""What may be asked over HTTP, by whom and how much; whatever is sent, the answer is JSON that tells no secrets."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.problems import Failure
from mrc_workbench.retrieval.searcher import Searcher
from mrc_workbench.workbench.serving.app import HEADERS, app_of
from mrc_workbench.workbench.serving.protocol import Limits
from tests.doubles import PASSAGES, QUESTIONS
from tests.retrieval.test_contract import bm25, dense

KEY = "correct-horse-battery-staple"
ASKED = QUESTIONS[0].text
SEARCHERS = {one.name: Searcher(one, Passages.of(PASSAGES)) for one in (bm25(PASSAGES), dense(PASSAGES))}
ONE = {"bm25": SEARCHERS["bm25"]}


def client(stack: ExitStack, searchers: dict[str, Searcher] = ONE, key: str = "", **limits: Any) -> TestClient:
    app = app_of(searchers, Limits(**limits), key)
    return stack.enter_context(TestClient(app, "http://127.0.0.1", raise_server_exceptions=False))


@pytest.fixture(scope="module")
def service() -> Iterator[TestClient]:
    with ExitStack() as stack:
        yield client(stack, max_query_length=60, max_queries=3, max_k=4, max_request_bytes=2000)


def test_passages_come_with_their_texts_best_first_as_the_searcher_finds_them() -> None:
    with ExitStack() as stack:
        both = client(stack, SEARCHERS)
        answer = both.post("/search", json={"questions": [ASKED, "zebra"], "k": 2, "retriever": "dense"})
        assert answer.status_code == 200
        found = [[hit._asdict() for hit in hits] for hits in SEARCHERS["dense"].search([ASKED, "zebra"], 2)]
        ranked = [[{"rank": rank, **hit} for rank, hit in enumerate(hits, 1)] for hits in found]
        results = [{"question": text, "hits": hits} for text, hits in zip([ASKED, "zebra"], ranked, strict=True)]
        assert answer.json() == {"retriever": "dense", "results": results}
        assert results[0]["hits"]
        assert not results[1]["hits"]
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        for asked in ({"question": ASKED}, {"question": ASKED, "retriever": "x"}):
            refusal = both.post("/search", json=asked)
            assert (refusal.status_code, refusal.json()["code"]) == (404, "unknown_retriever")
            assert "bm25, dense" in refusal.json()["error"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "either question or questions"),
        ({"question": ASKED, "questions": [ASKED]}, "either question or questions"),
        ({"question": ""}, "question: "),
        ({"question": "가" * 61}, "at most 60"),
        ({"questions": []}, "at least 1"),
        ({"questions": [ASKED] * 4}, "at most 3"),
        ({"question": ASKED, "k": 0}, "k: "),
        ({"question": ASKED, "k": 5}, "less than or equal to 4"),
        ({"question": ASKED, "k": "3"}, "valid integer"),
        ({"question": 7}, "valid string"),
        ({"question": ASKED, "<b>": 1}, "field that is not known"),
    ],
)
def test_what_may_not_be_asked_is_said_in_words(service: TestClient, asked: object, words: str) -> None:
    refusal = service.post("/search", json=asked)
    assert (refusal.status_code, refusal.json()["code"]) == (422, "not_understood")
    assert words in refusal.json()["error"]
    assert "<b>" not in refusal.text
    assert "Value error" not in refusal.text


def test_other_places_methods_contents_and_sizes_are_refused(service: TestClient) -> None:
    typed = {"Content-Type": "application/json"}
    refusals = {
        404: service.get("/docs"),
        405: service.get("/search"),
        413: service.post("/search", content=b"[" * 2001, headers=typed),
        415: service.post("/search", content=json.dumps({"question": ASKED}), headers={"Content-Type": "text/plain"}),
        421: service.post("/search", json={"question": ASKED}, headers={"Host": "evil.example:80"}),
        422: service.post("/search", content=iter([b'{"question"', b":"]), headers=typed),
    }
    for status, refusal in refusals.items():
        assert refusal.status_code == status
        assert set(refusal.json()) == {"code", "error"}
        assert {name: refusal.headers[name] for name in HEADERS} == HEADERS
    assert service.post("/search", json={"question": ASKED}, headers={"Host": "[::1]:8700"}).status_code == 200


def test_without_the_key_nobody_searches_and_probes_need_none() -> None:
    with ExitStack() as stack:
        kept = client(stack, key=KEY)
        for path in ("/livez", "/readyz", "/healthz", "/openapi.json"):
            assert kept.get(path, headers={"Host": "search.example"}).status_code == 200
        asked = {"json": {"question": ASKED}}
        for given in ({}, {"Authorization": "Bearer "}, {"Authorization": f"Bearer {KEY}x"}, {"Authorization": "ké"}):
            headers = {name: text.encode("latin-1") for name, text in given.items()}
            refusal = kept.post("/search", **asked, headers=headers)
            assert (refusal.status_code, refusal.json()["code"]) == (401, "no_key")
            assert refusal.headers["WWW-Authenticate"] == "Bearer"
        let_in = {"Authorization": f"Bearer {KEY}", "Host": "search.example"}
        assert kept.post("/search", **asked, headers=let_in).status_code == 200
        assert kept.get("/healthz").json() == {"status": "ready"}
        assert KEY not in kept.get("/openapi.json").text


class Held:
    """Finds nothing before it is let go; fails where it is told to."""

    name = "held"

    def __init__(self) -> None:
        self.go, self.began = threading.Event(), threading.Event()

    def search(self, questions: list[str], k: int) -> Any:
        self.began.set()
        assert self.go.wait(20)
        if "fail" in questions:
            raise RuntimeError("/home/somebody/secret")
        if "away" in questions:
            raise Failure("milvus_unreachable", "http://secret:19530 does not answer")
        return bm25(PASSAGES).search(questions, k)


def test_more_requests_than_may_wait_are_asked_to_come_again_and_so_is_whoever_waits_too_long() -> None:
    held, asked = Held(), {"question": ASKED}
    with ExitStack() as stack:
        stack.callback(held.go.set)  # whatever fails, nobody waits for it
        service = client(stack, {"held": Searcher(held, Passages.of(PASSAGES))}, max_concurrency=1, timeout=1.0)
        with ThreadPoolExecutor(1) as others:
            first = others.submit(service.post, "/search", json=asked)
            assert held.began.wait(10)
            busy = service.post("/search", json=asked)
            assert (busy.status_code, busy.json()["code"], busy.headers["Retry-After"]) == (429, "busy", "1")
            late = first.result(20)
            assert (late.status_code, late.json()["code"], late.headers["Retry-After"]) == (503, "too_slow", "1")
        held.go.set()
        assert service.post("/search", json=asked).status_code == 200
        failed = service.post("/search", json={"question": "fail"})
        assert (failed.status_code, failed.json()["code"]) == (500, "failed")
        assert "secret" not in failed.text
        assert "Traceback" not in failed.text
        away = service.post("/search", json={"question": "away"})
        assert (away.status_code, away.json()["code"], away.headers["Retry-After"]) == (503, "milvus_unreachable", "1")
        assert "secret" not in away.text
        service.app.state.service.is_ending = True  # type: ignore[attr-defined]
        assert service.get("/healthz").status_code == 503
        assert service.post("/search", json=asked).headers["Connection"] == "close"


# the head of a request: key, host, id


def test_the_key_needs_the_bearer_scheme() -> None:
    right = [f"{start}{KEY}" for start in ("Bearer ", "bearer ", "BEARER ", "Bearer   ")]
    wrong = [f"{start}{KEY}" for start in ("", "Basic ", "Bearer", "Bearer Bearer ", "Token ", " ")]
    statuses = dict.fromkeys(right, 200) | dict.fromkeys([*wrong, f"Bearer {KEY} x", "Bearer", "Bearer ", ""], 401)
    with ExitStack() as stack:
        service = client(stack, key=KEY)
        for header, status in statuses.items():
            headers = {"Authorization": header}
            assert service.post("/search", json={"question": ASKED}, headers=headers).status_code == status, header
            for path in ("/info", "/metrics"):
                assert service.get(path, headers=headers).status_code == status, (header, path)


GET_PATHS = ("/livez", "/readyz", "/healthz", "/info", "/metrics", "/openapi.json")
OTHER_HOSTS = ("evil.com", "evil.com:8700", "127.0.0.1.evil.com", "localhost.evil.com", "127.0.0.2", "", "[::2]")


@pytest.mark.parametrize("host", [*OTHER_HOSTS, "0.0.0.0"])  # noqa: S104
def test_without_a_key_no_path_answers_to_another_host(service: TestClient, host: str) -> None:
    for path, method in product([*GET_PATHS, "/search", "/nowhere"], ("GET", "HEAD", "OPTIONS", "POST")):
        answer = service.request(method, path, headers={"Host": host})
        assert answer.status_code == 421
        assert "bm25" not in answer.text


@pytest.mark.parametrize("path", ["/livez/", "/search/", "//livez"])
def test_a_path_that_is_not_served_is_refused_and_not_redirected(path: str, service: TestClient) -> None:
    for method in ("GET", "HEAD", "POST"):
        answer = service.request(method, path, follow_redirects=False)
        assert answer.status_code == 404
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS


def test_probes_may_use_head_and_options(service: TestClient) -> None:
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


def test_a_valid_request_id_is_returned_and_another_one_replaced(service: TestClient) -> None:
    for request_id in ("abc-123", "a" * 128, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"):
        headers = {"X-Request-ID": request_id}
        for answer in (
            service.post("/search", json={"question": ASKED}, headers=headers),
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
NEARLY = st.fixed_dictionaries(
    {}, optional={"question": st.text() | JSON, "questions": st.lists(st.text()) | JSON, "k": st.integers(-2, 9) | JSON}
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary() | (JSON | NEARLY).map(lambda one: json.dumps(one).encode()))
def test_whatever_is_sent_is_answered_or_refused_in_json(service: TestClient, body: bytes) -> None:
    answer = service.post("/search", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 413, 422)
    assert set(answer.json()) == ({"retriever", "results"} if answer.status_code == 200 else {"code", "error"})


@pytest.mark.parametrize("body", [b'{"question": "\\ud800"}', b'{"\\udfff": 1}', b"[" * 1500, b'{"k":' + b"9" * 1900])
def test_what_json_readers_stumble_over_is_refused(service: TestClient, body: bytes) -> None:
    answer = service.post("/search", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (422, "not_understood")


def test_the_description_tells_limits_and_its_examples_are_answered() -> None:
    with ExitStack() as stack:
        both = client(stack, SEARCHERS, key=KEY, max_query_length=77)
        told = both.get("/openapi.json").json()
        assert told["openapi"].startswith("3.")
        assert set(told["paths"]) == {"/search", "/livez", "/readyz", "/healthz", "/info", "/metrics"}
        assert told["paths"]["/metrics"]["get"]["security"]
        assert "security" not in told["paths"]["/livez"]["get"]
        asked = told["paths"]["/search"]["post"]["requestBody"]["content"]["application/json"]
        assert '"maxLength": 77' in json.dumps(asked["schema"])
        assert told["paths"]["/search"]["post"]["security"]
        for example in asked["examples"].values():
            answer = both.post("/search", json=example["value"], headers={"Authorization": f"Bearer {KEY}"})
            assert answer.status_code == 200


@pytest.mark.parametrize("wrong", [{"max_k": 0}, {"timeout": -1.0}, {"batch_wait_ms": float("nan")}])
def test_a_limit_is_a_positive_number(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Limits(**wrong)


# what an answer holds, and what the description says


@pytest.fixture(scope="module")
def both() -> Iterator[TestClient]:
    with ExitStack() as stack:
        yield client(stack, SEARCHERS, max_k=5)


def hits(both: TestClient, **asked: Any) -> list[dict[str, Any]]:
    answer = both.post("/search", json={"question": ASKED, "retriever": "dense", "k": 5, **asked})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["results"][0]["hits"])


def refusal(both: TestClient, **asked: Any) -> str:
    answer = both.post("/search", json={"question": ASKED, "retriever": "dense", **asked})
    assert (answer.status_code, answer.json()["code"]) == (422, "not_understood")
    return str(answer.json()["error"])


@pytest.mark.parametrize(
    "asked",
    [
        {"query": ASKED, "top_k": 2},
        {"queries": [ASKED], "top_k": 2},
        {"questions": [ASKED], "k": 2},
        {"query": ASKED, "k": 2},
    ],
)
def test_names_of_the_field_are_accepted(both: TestClient, asked: dict[str, Any]) -> None:
    of_both = [
        both.post("/search", json={"retriever": "dense", **one}).json() for one in (asked, {"question": ASKED, "k": 2})
    ]
    assert of_both[0] == of_both[1]
    assert len(of_both[0]["results"][0]["hits"]) == 2


@pytest.mark.parametrize(
    "asked", [{"query": ASKED}, {"questions": [ASKED]}, {"queries": [ASKED]}, {"k": 1, "top_k": 1}]
)
def test_a_question_given_twice_is_refused(both: TestClient, asked: dict[str, Any]) -> None:
    assert refusal(both, **asked)


def test_an_offset_skips_the_best_passages(both: TestClient) -> None:
    everything = hits(both)
    for offset in range(5):
        assert hits(both, k=5 - offset, offset=offset) == everything[offset:]
    assert "at most 5" in refusal(both, k=3, offset=3)
    assert refusal(both, offset=-1)


def test_passages_below_the_least_score_are_left_out(both: TestClient) -> None:
    everything = hits(both)
    for hit in everything:
        found = hits(both, min_score=hit["score"])
        assert found == [one for one in everything if one["score"] >= hit["score"]]
    assert hits(both, min_score=1e9) == []
    assert refusal(both, min_score="1")


def test_only_the_fields_asked_for_are_sent(both: TestClient) -> None:
    everything = hits(both)
    assert set(everything[0]) == {"rank", "id", "title", "text", "score"}
    assert hits(both, fields=["id", "score"]) == [{"id": hit["id"], "score": hit["score"]} for hit in everything]
    for wrong in (["body"], [], "id", [3]):
        assert refusal(both, fields=wrong)


def schema(both: TestClient) -> dict[str, Any]:
    told = both.get("/openapi.json").json()
    content = told["paths"]["/search"]["post"]["requestBody"]["content"]["application/json"]
    return dict(content["schema"])


def test_the_description_names_retrievers_and_what_is_required(both: TestClient) -> None:
    told = schema(both)
    assert told["properties"]["retriever"]["enum"] == ["bm25", "dense"]
    assert told["required"] == ["retriever"]
    assert {one["required"][0] for one in told["oneOf"]} == {"question", "questions", "query", "queries"}
    assert {"top_k", "offset", "min_score", "fields"} <= told["properties"].keys()
    with ExitStack() as stack:
        single = client(stack, ONE)
        assert "required" not in schema(single)
        assert schema(single)["properties"]["retriever"]["enum"] == ["bm25"]
        responses = single.get("/openapi.json").json()["paths"]["/search"]["post"]["responses"]
        assert {"401", "405", "413", "421", "429", "503"} <= responses.keys()
