"""A stub of Vespa with a deployed schema: sparse encoders rank by dot product, all else by shared terms."""

import re
from dataclasses import dataclass, field
from typing import Any

from tests.engines.base import Received, RefusedError, StubEngine, first, require_known

_OPERATIONS = {
    "GET": {"cluster", "wantedDocumentCount", "continuation", "selection"},
    "DELETE": {"selection", "cluster", "continuation"},
    "POST": {"timeout", "create"},
}
_SPARSE_ALONE = re.compile(r"first-phase \{\s*expression: sparse_(\w+)\s*rank-score-drop-limit: 0\.0\s*\}")
_AT_ONCE = 3  # documents deleted by one request


def refused(message: str, status: int = 400) -> RefusedError:
    return RefusedError(status, {"pathId": "/document/v1", "message": message})


@dataclass
class Vespa(StubEngine):
    schema: str = ""
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(re.search(r"schema (\w+) ", self.schema)[1])  # type: ignore[index]

    @property
    def fields(self) -> dict[str, str]:
        return dict(re.findall(r"field (\w+) type (\S+) ", self.schema))

    @property
    def inputs(self) -> dict[str, str]:
        return dict(re.findall(r"query\((\w+)\) (tensor\S+)", self.schema))

    def answer(self, request: Received) -> Any:
        if request.path == "/search/":
            return self.search(request.json())
        match = re.fullmatch(r"/document/v1/(\w+)/(\w+)/docid(?:/(\w+))?", request.path)
        if not match or match[2] != self.name:
            raise refused(f"Document type {match and match[2]} does not exist", 404)
        for name in request.params:
            if name not in _OPERATIONS[request.method]:
                raise refused(f"unknown parameter {name}")
        if request.body and request.method != "POST":
            raise refused("a body is for POST and PUT")
        return self.operated(request, match[3])

    def operated(self, request: Received, key: str | None) -> Any:
        if request.method == "POST" and key:
            body = request.json()
            require_known(body, ("fields", "condition", "create"), lambda name: refused(f"unknown key {name}"))
            for name, value in body["fields"].items():
                self.check(name, value)
            self.documents[key] = body["fields"]
            return {"id": f"id:mrc:{self.name}::{key}"}
        if request.params.get("cluster") != "passages":
            raise refused("must specify 'cluster', one of [passages]")
        if request.method == "GET":
            some = [*self.documents][: int(request.params["wantedDocumentCount"])]
            prefix = f"id:mrc:{self.name}::"
            return {"documents": [{"id": f"{prefix}{id_}", "fields": self.documents[id_]} for id_ in some]}
        if "selection" not in request.params:
            raise refused("must specify 'selection' to delete documents")
        for document_id in [*self.documents][:_AT_ONCE]:
            del self.documents[document_id]
        return {"documentCount": _AT_ONCE} | ({"continuation": "AAAA"} if self.documents else {})

    def check(self, name: str, value: Any) -> None:
        if name not in self.fields:
            raise refused(f"No field '{name}' in the structure of type '{self.name}'")
        kind = self.fields[name]
        if size := re.fullmatch(r"tensor<float>\(x\[(\d+)\]\)", kind):
            if len(value["values"]) != int(size[1]):
                raise refused(f"Tensor of size {len(value['values'])} does not fit {kind}")
        elif kind == "tensor<float>(term{})":
            require_known(value, ("cells",), lambda key: refused(f"unknown key {key}"))
            if not all(isinstance(weight, float) for weight in value["cells"].values()):
                raise refused(f"{value} does not fit {kind}")
        elif kind.startswith("tensor"):
            require_known(value, ("blocks",), lambda key: refused(f"unknown key {key}"))
        elif not isinstance(value, int if kind == "int" else str):
            raise refused(f"field '{name}' is of type {kind}")

    def search(self, body: dict[str, Any]) -> Any:
        if body["ranking"] not in re.findall(r"rank-profile (\w+)", self.schema):
            return {"root": {"errors": [{"code": 8, "message": f"No such rank profile: {body['ranking']}"}]}}
        for name, kind in self.inputs.items():
            given = body.get(f"input.query({name})")
            size = re.search(r"x\[(\d+)\]", kind)
            if given is None or (isinstance(given, list) and size and len(given) != int(size[1])):
                return {"root": {"errors": [{"code": 4, "message": f"Could not set query({name}) of {kind}"}]}}
        query_terms = [(name, body[name].split()) for name in re.findall(r"userInput\(@(\w+)\)", body["yql"])]
        scores: dict[str, float] = {}
        for key, document in self.documents.items():
            scores[key] = float(sum(term in document[name].split() for name, terms in query_terms for term in terms))
        if sparse := _SPARSE_ALONE.search(self.schema):
            query_weights = body[f"input.query(query_{sparse[1]})"]["cells"]
            held = {key: document.get(sparse[1], {"cells": {}})["cells"] for key, document in self.documents.items()}
            scores = {
                key: sum(query_weights.get(term, 0.0) * term_weights[term] for term in term_weights)
                for key, term_weights in held.items()
            }
            scores = {key: score for key, score in scores.items() if score > 0}
        selected_fields = re.match(r"select ([\w, ]+) from", body["yql"])[1].split(", ")  # type: ignore[index]
        hits = [
            {"relevance": score, "fields": {name: self.documents[key][name] for name in selected_fields}}
            for key, score in first(scores, body["hits"]).items()
        ]
        return {"root": {"children": hits} if hits else {}}
