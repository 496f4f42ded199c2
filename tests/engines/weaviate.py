"""A stub of Weaviate: schema, batches of objects, and GraphQL's `Get`."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from tests.engines import base

_CLASS = ("class", "vectorizer", "vectorIndexType", "vectorIndexConfig", "invertedIndexConfig", "properties")
_PROPERTY = ("name", "dataType", "indexSearchable", "indexFilterable", "tokenization")
_INDEX = ("distance", "skipDefaultQuantization")
_GRAPH = (*_INDEX, "maxConnections", "efConstruction", "ef")
_FUSIONS = ("rankedFusion", "relativeScoreFusion")
_SEARCH = re.compile(r"(hybrid|bm25|nearVector): (\{.*?\})(?=\) \{)", re.DOTALL)


def refused(message: str, status: int = 422) -> base.RefusedError:
    return base.RefusedError(status, {"error": [{"message": message}]})


@dataclass
class Weaviate(base.StubEngine):
    classes: dict[str, dict[str, Any]] = field(default_factory=dict)
    objects: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    def answer(self, request: base.Received) -> Any:
        if request.body and (request.method in ("GET", "DELETE") or request.form != "application/json"):
            raise refused(f'unsupported media type "{request.form}", only [application/json] are allowed', 415)
        match request.method, request.path.strip("/").split("/")[1:]:
            case "POST", ["schema"]:
                return self.create(request.json())
            case ("GET" | "DELETE") as method, ["schema", name]:
                return self.looked_up(method, name)
            case "POST", ["batch", "objects"]:
                return [self.stored(item) for item in request.json()["objects"]]
            case "POST", ["graphql"]:
                return self.graphql(request.json()["query"])
        raise base.RefusedError(404, {"code": 404, "message": f"path {request.path} was not found"})

    def create(self, body: dict[str, Any]) -> Any:
        base.require_known(body, _CLASS, lambda name: refused(f"unknown field {name}"))
        name = body["class"]
        if not re.fullmatch("[A-Z][_0-9A-Za-z]*", name):
            raise refused(f"'{name}' is not a valid class name")
        if name in self.classes:
            raise refused(f'class name "{name}" already exists')
        index = {"flat": _INDEX, "hnsw": _GRAPH}[body["vectorIndexType"]]
        base.require_known(body["vectorIndexConfig"], index, lambda entry: refused(f"unknown field {entry}"))
        for entry in body["properties"]:
            base.require_known(entry, _PROPERTY, lambda name: refused(f"unknown field {name}"))
            if entry["dataType"] not in (["text"], ["int"]):
                raise refused(f"invalid dataType: {entry['dataType']}")
        self.classes[name] = body
        self.objects[name] = {}
        return body

    def looked_up(self, method: str, name: str) -> Any:
        if method == "GET" and name not in self.classes:
            raise base.RefusedError(404, None)
        if method == "DELETE":
            self.objects.pop(name, None)
            return self.classes.pop(name, None) and None
        return self.classes[name]

    def stored(self, document: dict[str, Any]) -> dict[str, Any]:
        known_fields = ("class", "id", "properties", "vector")
        base.require_known(document, known_fields, lambda name: refused(f"unknown field {name}"))
        known = {of["name"] for of in self.classes[document["class"]]["properties"]}
        held = self.objects[document["class"]]
        lengths = {len(other.get("vector", [])) for other in held.values()}
        problems = [f"no such prop with name '{name}' found" for name in document["properties"] if name not in known]
        if lengths and len(document.get("vector", [])) not in lengths:
            problems.append(f"new node has a vector with length {len(document['vector'])}")
        if problems:
            return document | {"result": {"errors": {"error": [{"message": text} for text in problems]}}}
        held[str(document["properties"]["row"])] = document
        return document | {"result": {"status": "SUCCESS"}}

    def graphql(self, query: str) -> Any:
        head = re.match(r"\{ Get \{ (\w+)\(limit: (\d+), ", query)
        search = _SEARCH.search(query)
        selection = re.search(r"\) \{ ([\w ]+) _additional \{ (\w+) \} \} \} \}$", query)
        if not head or not search or not selection or head[1] not in self.classes:
            return {"errors": [{"message": f"Syntax Error GraphQL request: {query}"}]}
        names = selection[1].split()
        score = selection[2]
        known = {of["name"] for of in self.classes[head[1]]["properties"]}
        if not {*names} <= known or score not in ("score", "distance"):
            return {"errors": [{"message": f'Cannot query field "{names}" on type "{head[1]}".'}]}
        try:
            scores = base.first(self.scores(head[1], search[1], search[2]), int(head[2]))
        except base.RefusedError as error:
            return {"data": {"Get": {head[1]: None}}, "errors": error.content["error"]}
        held = self.objects[head[1]]
        hits = []
        for key, value in scores.items():
            additional = {"distance": 1 - value} if score == "distance" else {"score": str(value)}
            hits.append({name: held[key]["properties"][name] for name in names} | {"_additional": additional})
        return {"data": {"Get": {head[1]: hits}}}

    def scores(self, name: str, kind: str, text: str) -> dict[str, float]:
        given = json.loads(re.sub(r'("(?:[^"\\]|\\.)*")|(\w+)(?=:)|\b([a-z]\w+)\b(?=[,}])', _quoted, text))
        of = self.classes[name]
        held = self.objects[name]
        texts = dict[str, float]()
        vectors = dict[str, float]()
        if "query" in given:
            (field_name,) = given["properties"]
            settings = of["invertedIndexConfig"]["bm25"]
            documents = {key: document["properties"][field_name] for key, document in held.items()}
            texts = base.bm25(documents, given["query"], settings["k1"], settings["b"])
        if "vector" in given:
            if any(len(document["vector"]) != len(given["vector"]) for document in held.values()):
                raise refused("vector lengths don't match")
            vectors = base.cosines({key: document["vector"] for key, document in held.items()}, given["vector"])
        if kind != "hybrid":
            return texts or vectors
        if given["fusionType"] not in _FUSIONS:
            raise refused(f"unknown fusion type {given['fusionType']}")
        lists = [base.first(texts, 100), base.first(vectors, 100)]
        is_ranked = given["fusionType"] == "rankedFusion"
        values = [base.ranks(document, 60) if is_ranked else base.min_max(document) for document in lists]
        return base.weighted([(values[0], 1 - given["alpha"]), (values[1], given["alpha"])])


def _quoted(match: re.Match[str]) -> str:
    return match[1] or json.dumps(match[2] or match[3])
