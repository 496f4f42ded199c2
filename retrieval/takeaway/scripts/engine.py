"""Load this folder's documents into the engine, ask it, and hold what it finds against what was found before.

    python engine.py load
    python engine.py check
    python engine.py ask "a question"

ENGINE_URL says where the engine is, ENGINE_AUTHORIZATION what the header Authorization is to be, where one is wanted.
Python alone is needed; for Milvus `pip install pymilvus` (and milvus-lite, for a file in place of a server). `ask`
needs the workbench, whose analyzer and model turn a new question into terms and vectors: set PYTHONPATH to its folder.
"""

import json
import math
import os
import re
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CUT = 10
AT_ONCE = 200  # documents in a request


def main(words: list[str]) -> int:
    """Do what the words say; returns the exit status."""
    engine = Milvus() if told()["client"] else Http()
    match words:
        case ["load"]:
            say(f"{engine.load()} passages are in {told()['engine']}")
        case ["check"]:
            say(f"nDCG@{CUT}: {check(engine):.4f} there, {told()['figure']['there']:.4f} expected there, ", end="")
            say(f"{told()['figure']['here']:.4f} here")
        case ["ask", question]:
            for found in engine.ask(values_of(question)):
                say(json.dumps(found, ensure_ascii=False))
        case _:
            say((__doc__ or "").strip())
            return 2
    return 0


def check(engine: "Http | Milvus") -> float:
    """Return the mean nDCG@10 of the comparison's questions, as the engine answers them."""
    gains = [
        ndcg([one["row"] for one in engine.ask(asked["values"])], asked["relevant"]) for asked in lines("questions")
    ]
    return sum(gains) / max(1, len(gains))


def ndcg(rows: list[int], grades: dict[str, int]) -> float:
    """Return nDCG of the first rows found: grade / log2(rank + 1), divided by the same of the best order."""
    best = sorted(grades.values(), reverse=True)[:CUT]
    gained, ideal = (
        sum(grade / math.log2(place + 2) for place, grade in enumerate(found))
        for found in ([grades.get(str(row), 0) for row in rows[:CUT]], best)
    )
    return gained / ideal if ideal else 0.0


@cache
def told() -> dict[str, Any]:
    """Return what the engine is told."""
    read: dict[str, Any] = json.loads((HERE / "engine.json").read_text(encoding="utf-8"))
    return read


class Http:
    """An engine that is spoken to by HTTP and JSON."""

    def load(self) -> int:
        """Make the index and send all documents; returns how many there are."""
        for request in told()["setup"]:
            self.send(request["method"], request["path"], json.dumps(request["body"]))
        bulk, count, documents = told()["bulk"], 0, lines("documents")
        while some := list(islice(documents, AT_ONCE)):
            if bulk["form"] == "lines":
                actions = ({"index": {"_id": str(one["row"])}} for one in some)
                pairs = (json.dumps(part) for both in zip(actions, some, strict=True) for part in both)
                refuse(self.send("POST", bulk["path"], "\n".join(pairs) + "\n", "application/x-ndjson"))
            elif bulk["form"] == "objects":
                objects = [self.as_object(one, bulk) for one in some]
                refuse(self.send("POST", bulk["path"], json.dumps({"objects": objects})))
            else:
                for one in some:
                    self.send("POST", f"{bulk['path']}{one['row']}", json.dumps({"fields": one}))
            count += len(some)
        for request in told()["finish"]:
            self.send(request["method"], request["path"], json.dumps(request["body"]))
        return count

    def ask(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what is found for the values of a question, best first."""
        query = told()["query"]
        answer = self.send(query["method"], query["path"], json.dumps(filled(query["body"], values)))
        if errors := answer.get("errors"):
            raise SystemExit(f"{told()['engine']} could not answer: {errors}")
        *way, last = told()["found"]
        for name in way:
            answer = answer.get(name) or {}
        if isinstance(answer, list):  # of hits, each with what it shows
            return [hit[last] for hit in answer]
        return answer.get(last) or []

    def as_object(self, document: dict[str, Any], bulk: dict[str, str]) -> dict[str, Any]:
        """Return a document as Weaviate takes it: the vector beside the properties."""
        properties = {name: value for name, value in document.items() if name != bulk["vector"]}
        name = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{bulk['class']} {document['row']}"))
        vector = {"vector": document[bulk["vector"]]} if bulk["vector"] else {}
        return {"class": bulk["class"], "id": name, "properties": properties, **vector}

    def send(self, method: str, path: str, body: str, form: str = "application/json") -> Any:
        """Send a request, and return the JSON of the answer."""
        headers = {"Content-Type": form}
        if authorization := os.environ.get("ENGINE_AUTHORIZATION"):
            headers["Authorization"] = authorization
        address = os.environ.get("ENGINE_URL", told()["address"]).rstrip("/")
        if not address.startswith(("http://", "https://")):
            raise SystemExit(f"ENGINE_URL is an http:// or https:// address, not {address!r}")
        request = urllib.request.Request(address + path, body.encode(), headers, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{method} {path}: {error.code} {error.read()[:500].decode(errors='replace')}") from error


def refuse(answer: Any) -> None:
    """End where a document was not taken."""
    failed = answer if isinstance(answer, list) else answer.get("items", [])
    for one in failed:
        error = one.get("index", {}).get("error") or one.get("result", {}).get("errors")
        if error:
            raise SystemExit(f"a document was not taken: {error}")


def filled(template: Any, values: dict[str, Any]) -> Any:
    """Return a template with values in place of their marks: a mark alone is the value, in a text it is JSON."""
    if isinstance(template, dict):
        return {name: filled(value, values) for name, value in template.items()}
    if isinstance(template, list):
        return [filled(value, values) for value in template]
    if not isinstance(template, str):
        return template
    if alone := re.fullmatch(r"\{\{(\w+)\}\}", template):
        return values[alone[1]]
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: json.dumps(values[mark[1]], ensure_ascii=False), template)


class Milvus:
    """Milvus, by its own client: a server, or a file beside this script."""

    def __init__(self) -> None:
        from pymilvus import MilvusClient

        self.asked, uri = told()["client"], os.environ.get("ENGINE_URL") or str(HERE / "milvus.db")
        self.client: Any = MilvusClient(uri, token=os.environ.get("ENGINE_AUTHORIZATION", ""))
        if self.client.has_collection(self.asked["collection"]):
            self.client.load_collection(self.asked["collection"])

    def load(self) -> int:
        """Make the collection and insert all documents; returns how many there are."""
        from pymilvus import DataType

        schema, index = self.client.create_schema(auto_id=False), self.client.prepare_index_params()
        schema.add_field("row", DataType.INT64, is_primary=True)
        for name in ("passage", "title", "text"):
            schema.add_field(name, DataType.VARCHAR, max_length=65535)
        for field in self.asked["fields"]:
            kind = DataType.FLOAT_VECTOR if field["dim"] else DataType.SPARSE_FLOAT_VECTOR
            schema.add_field(field["name"], kind, **({"dim": field["dim"]} if field["dim"] else {}))
            build = {"params": field["build"]}
            index.add_index(field["name"], index_type=field["index_type"], metric_type="IP", params=build)
        name, count, documents = self.asked["collection"], 0, lines("documents")
        if self.client.has_collection(name):
            self.client.drop_collection(name)
        self.client.create_collection(name, schema=schema, index_params=index)
        while some := list(islice(documents, AT_ONCE)):
            self.client.insert(name, [self.typed(one) for one in some])
            count += len(some)
        self.client.load_collection(name)
        return count

    def ask(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what is found for the values of a question, best first."""
        from pymilvus import AnnSearchRequest, RRFRanker, WeightedRanker

        values, depth, name = self.typed(values), self.asked["depth"], self.asked["collection"]
        known = [(place, one) for place, one in enumerate(self.asked["fields"]) if is_known(values[one["name"]])]
        shown: dict[str, Any] = {"limit": depth, "output_fields": ["row", "passage", "title"]}
        if not known:
            return []
        if len(known) == 1:
            _, one = known[0]
            data, of = [values[one["name"]]], one["search"]
            (hits,) = self.client.search(name, data=data, anns_field=one["name"], search_params=of, **shown)
        else:
            asked = [
                AnnSearchRequest([values[one["name"]]], one["name"], one["search"], limit=depth) for _, one in known
            ]
            weights = self.asked["ranker"]["weights"]
            by_rank = RRFRanker(self.asked["ranker"]["constant"])
            ranker = WeightedRanker(*(weights[place] for place, _ in known)) if weights else by_rank
            (hits,) = self.client.hybrid_search(name, asked, ranker, **shown)
        return [hit["entity"] for hit in hits]

    def typed(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return values with the numbers of terms as numbers, which JSON has as texts."""
        sparse = {name: value for name, value in values.items() if isinstance(value, dict)}
        return values | {name: {int(term): one for term, one in value.items()} for name, value in sparse.items()}


def is_known(value: Any) -> bool:
    """Whether a question has a term that some passage holds, or a vector that is not of zeros."""
    return any(value.values() if isinstance(value, dict) else value)


def values_of(question: str) -> dict[str, Any]:
    """Return the terms and vectors of a new question, as the workbench computes them."""
    from retrieval.takeaway.asking import values_of

    values: dict[str, Any] = values_of(HERE, [question])[0]
    return values


def lines(name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of one of the folder's files."""
    with (HERE / f"{name}.jsonl").open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def say(text: str, end: str = "\n") -> None:
    """Write a line to the terminal."""
    sys.stdout.write(text + end)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
