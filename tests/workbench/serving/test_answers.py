"""What an answer holds: aliases, fields, offset and the least score; and what the description says of them."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.doubles import QUESTIONS
from tests.workbench.serving.test_app import KEY, ONE, SEARCHERS, client

ASKED = QUESTIONS[0].text


@pytest.fixture(scope="module")
def service() -> Iterator[TestClient]:
    with ExitStack() as stack:
        yield client(stack, SEARCHERS, max_k=5)


def hits(service: TestClient, **asked: Any) -> list[dict[str, Any]]:
    answer = service.post("/search", json={"question": ASKED, "retriever": "dense", "k": 5, **asked})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["results"][0]["hits"])


def refusal(service: TestClient, **asked: Any) -> str:
    answer = service.post("/search", json={"question": ASKED, "retriever": "dense", **asked})
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
def test_names_of_the_field_are_accepted(service: TestClient, asked: dict[str, Any]) -> None:
    of_both = [
        service.post("/search", json={"retriever": "dense", **one}).json()
        for one in (asked, {"question": ASKED, "k": 2})
    ]
    assert of_both[0] == of_both[1]
    assert len(of_both[0]["results"][0]["hits"]) == 2


@pytest.mark.parametrize(
    "asked", [{"query": ASKED}, {"questions": [ASKED]}, {"queries": [ASKED]}, {"k": 1, "top_k": 1}]
)
def test_a_question_given_twice_is_refused(service: TestClient, asked: dict[str, Any]) -> None:
    assert refusal(service, **asked)


def test_an_offset_skips_the_best_passages(service: TestClient) -> None:
    everything = hits(service)
    for offset in range(5):
        assert hits(service, k=5 - offset, offset=offset) == everything[offset:]
    assert "at most 5" in refusal(service, k=3, offset=3)
    assert refusal(service, offset=-1)


def test_passages_below_the_least_score_are_left_out(service: TestClient) -> None:
    everything = hits(service)
    for hit in everything:
        found = hits(service, min_score=hit["score"])
        assert found == [one for one in everything if one["score"] >= hit["score"]]
    assert hits(service, min_score=1e9) == []
    assert refusal(service, min_score="1")


def test_only_the_fields_asked_for_are_sent(service: TestClient) -> None:
    everything = hits(service)
    assert set(everything[0]) == {"rank", "id", "title", "text", "score"}
    assert hits(service, fields=["id", "score"]) == [{"id": hit["id"], "score": hit["score"]} for hit in everything]
    for wrong in (["body"], [], "id", [3]):
        assert refusal(service, fields=wrong)


def schema(service: TestClient) -> dict[str, Any]:
    told = service.get("/openapi.json").json()
    content = told["paths"]["/search"]["post"]["requestBody"]["content"]["application/json"]
    return dict(content["schema"])


def test_the_description_names_retrievers_and_what_is_required(service: TestClient) -> None:
    told = schema(service)
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


def test_the_description_is_openapi_3() -> None:
    with ExitStack() as stack:
        told = client(stack, SEARCHERS, key=KEY).get("/openapi.json").json()
    assert told["openapi"].startswith("3.")
    assert set(told["paths"]) == {"/search", "/livez", "/readyz", "/healthz", "/info", "/metrics"}
    assert told["paths"]["/metrics"]["get"]["security"]
    assert "security" not in told["paths"]["/livez"]["get"]
