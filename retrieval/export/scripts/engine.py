"""Load this folder's documents into the engine, search it, and compare its results with those of the workbench.

    python engine.py load [--recreate]
    python engine.py check [--free]
    python engine.py ask "a question" [--free]

`load` refuses an existing index; `--recreate` deletes it first. `--free` sends Elasticsearch one query per signal and
fuses the results here, which needs no paid licence. Environment variables:

    ENGINE_URL            address of the engine
    ENGINE_AUTHORIZATION  header Authorization: "ApiKey ..." or "Basic ..."
    ENGINE_CA             file with the certificate authority of an https address

The script needs only Python, and for Milvus `pip install pymilvus` (and milvus-lite, for a file instead of a server).
`ask` needs the workbench, which computes terms and vectors of a new question: set PYTHONPATH to its folder.
"""

import json
import math
import os
import re
import ssl
import sys
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CUT = 10
BATCH = 200  # documents in a request
CONNECTIONS = 8  # if each document is a request
OPTIONS = ("--recreate", "--free")
NOT_LOADED = "\nIf the passages are not loaded, run `python engine.py load` first"
ADDRESS = re.compile(r"https?://([\w.-]+|\[[\da-fA-F:.]+\])(:\d+)?(/\S*)?")


def main(words: list[str]) -> int:
    """Run a command; returns the exit status."""
    options = {word for word in words if word in OPTIONS}
    match [word for word in words if word not in OPTIONS]:
        case ["load"]:
            count = engine().load(recreate="--recreate" in options)
            write_line(f"{count} passages are in {config()['engine']}")
        case ["check"]:
            metrics = config()["metrics"]
            measured = check(engine(), free="--free" in options)
            expected = f"{metrics['engine_score']:.4f} expected there, {metrics['workbench_score']:.4f} here"
            write_line(f"nDCG@{CUT}: {measured:.4f} there, {expected}")
        case ["ask", question]:
            for hit in engine().ask(values_of(question), free="--free" in options):
                write_line(json.dumps(hit, ensure_ascii=False))
        case _:
            write_line((__doc__ or "").strip())
            return 2
    return 0


def engine() -> "HttpEngine | MilvusEngine":
    """Return the engine of this folder."""
    return MilvusEngine() if config()["client"] else HttpEngine()


def check(engine: "HttpEngine | MilvusEngine", *, free: bool = False) -> float:
    """Return the mean nDCG@10 of the engine's results for the compared questions."""
    answers = [(engine.ask(question["values"], free=free), question["relevant"]) for question in lines("questions")]
    if not any(hits for hits, _ in answers):
        raise SystemExit(f"{config()['engine']} finds no passage for any question{NOT_LOADED}")
    return sum(ndcg([hit["row"] for hit in hits], relevant) for hits, relevant in answers) / len(answers)


def ndcg(rows: list[int], grades: dict[str, int]) -> float:
    """Return nDCG of the ranked rows: the sum of grade / log2(rank + 1), divided by that of the ideal ranking."""
    orders = [grades.get(str(row), 0) for row in rows[:CUT]], sorted(grades.values(), reverse=True)[:CUT]
    gained, ideal = (sum(grade / math.log2(rank + 1) for rank, grade in enumerate(ordered, 1)) for ordered in orders)
    return gained / ideal if ideal else 0.0


@cache
def config() -> dict[str, Any]:
    """Return the requests of the engine."""
    return dict(json.loads((HERE / "engine.json").read_text(encoding="utf-8")))


class HttpEngine:
    """An engine with an HTTP interface."""

    def load(self, *, recreate: bool) -> int:
        if self.exists():
            if not recreate:
                raise SystemExit(already_there(config()["index"]))
            self.remove()
        for request in config()["setup"]:
            self.send(**request)
        count = 0
        documents = lines("documents")
        while batch := list(islice(documents, BATCH)):
            self.send_documents(batch)
            count += len(batch)
        for request in config()["finish"]:
            self.send(**request)
        return count

    def exists(self) -> bool:
        answer = self.send(**config()["exists"], may_be_missing=True)
        return answer is not None and bool(answer.get("documents", True))

    def remove(self) -> None:
        request = config()["remove"]
        part = ""
        while True:
            answer = self.send(request["method"], request["path"] + part)
            if not (token := answer.get("continuation")):
                return
            part = f"&continuation={token}"

    def send_documents(self, documents: list[dict[str, Any]]) -> None:
        bulk = config()["bulk"]
        if bulk["form"] == "lines":
            pairs = [part for entry in documents for part in ({"index": {"_id": str(entry["row"])}}, entry)]
            body = "".join(json.dumps(part) + "\n" for part in pairs)
            raise_if_refused(self.send("POST", bulk["path"], body, form="application/x-ndjson"))
        elif bulk["form"] == "objects":
            objects = []
            for entry in documents:
                properties = {name: value for name, value in entry.items() if name != bulk["vector"]}
                name = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{bulk['class']} {entry['row']}"))
                vector = {"vector": entry[bulk["vector"]]} if bulk["vector"] else {}
                objects.append({"class": bulk["class"], "id": name, "properties": properties, **vector})
            raise_if_refused(self.send("POST", bulk["path"], {"objects": objects}))
        else:
            paths = [f"{bulk['path']}{document['fields']['row']}" for document in documents]
            bodies = [{"fields": document["fields"]} for document in documents]
            is_refused = threading.Event()  # no further document is sent after a refusal

            def post(path: str, body: dict[str, Any]) -> None:
                if is_refused.is_set():
                    return
                try:
                    self.send("POST", path, body)
                except BaseException:
                    is_refused.set()
                    raise

            with ThreadPoolExecutor(CONNECTIONS) as pool:
                list(pool.map(post, paths, bodies))

    def ask(self, values: dict[str, Any], *, free: bool = False) -> list[dict[str, Any]]:
        """Return the hits for a question's values, best first: row, passage, title and score."""
        if not free:
            return self.search(config()["query"], values)
        if not config()["free_queries"]:
            raise SystemExit("--free is for several signals in Elasticsearch, without late interaction: leave it out")
        return self.mix_results(config()["free_queries"], values)

    def search(self, query: dict[str, Any], values: dict[str, Any]) -> list[dict[str, Any]]:
        body = fill_template(query["body"], values, config()["empty_queries"])
        answer = self.send(query["method"], query["path"], body)
        root = answer.get("root") or {}
        shards = answer.get("_shards") or {}
        if errors := answer.get("errors") or root.get("errors") or shards.get("failures"):
            raise SystemExit(f"{config()['engine']} could not answer: {str(errors)[:500]}{NOT_LOADED}")
        hit_paths = config()["hit_paths"]
        answer_hits = answer
        for name in hit_paths["list"]:
            answer_hits = (answer_hits or {}).get(name)
        hits = []
        for answer_hit in answer_hits or []:
            fields = answer_hit[hit_paths["fields"]] if hit_paths["fields"] else answer_hit
            score = answer_hit
            for name in hit_paths["score"]:
                score = score[name]
            score = 1 - float(score) if hit_paths["is_distance"] else float(score)
            hits.append({name: fields.get(name) for name in ("row", "passage", "title")} | {"score": score})
        return hits

    def mix_results(self, mix: dict[str, Any], values: dict[str, Any]) -> list[dict[str, Any]]:
        """Send one query per signal, and fuse the results like Elasticsearch's `rrf` and `linear`."""
        hits: dict[int, dict[str, Any]] = {}
        for query, weight in zip(mix["queries"], mix["weights"], strict=True):
            query_hits = self.search(query, values)
            scores = [hit["score"] for hit in query_hits]
            for rank, hit in enumerate(query_hits, start=1):
                value = 1 / (mix["rank_constant"] + rank) if mix["by_rank"] else min_max_scaled(hit["score"], scores)
                known = hits.setdefault(hit["row"], hit | {"score": 0.0})
                known["score"] += weight * value
        return sorted(hits.values(), key=lambda hit: -hit["score"])[:CUT]

    @cached_property
    def address(self) -> str:
        address: str = os.environ.get("ENGINE_URL", config()["address"]).rstrip("/")
        if not ADDRESS.fullmatch(address):
            raise SystemExit(f"ENGINE_URL is an http:// or https:// address, not {address!r}")
        return address

    @cached_property
    def authorization(self) -> str:
        header = os.environ.get("ENGINE_AUTHORIZATION", "").strip()
        if not (header.isascii() and header.isprintable()):
            raise SystemExit("ENGINE_AUTHORIZATION is one line of ASCII characters, such as 'ApiKey ...'")
        return header

    @cached_property
    def context(self) -> ssl.SSLContext:
        authority = os.environ.get("ENGINE_CA")
        try:
            return ssl.create_default_context(cafile=authority)
        except OSError as error:
            raise SystemExit(f"ENGINE_CA names no file of certificates: {authority} ({error})") from None

    def send(
        self, method: str, path: str, body: Any = None, *, form: str = "application/json", may_be_missing: bool = False
    ) -> Any:
        """Send a request and return the JSON of the response, None for an allowed 404."""
        data = None if body is None else (json.dumps(body) if isinstance(body, dict) else body).encode()
        headers = {} if data is None else {"Content-Type": form}
        if self.authorization:
            headers["Authorization"] = self.authorization
        request = urllib.request.Request(self.address + path, data, headers, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=120, context=self.context) as answer:  # noqa: S310
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            if may_be_missing and error.code == 404:
                return None
            message = error.read()[:500].decode(errors="replace")
            advice = ""
            if "license" in message and config()["free_queries"]:
                advice = "\nThis licence does not include the mixed query: add --free"
            elif "license" in message:
                advice = "\nREADME.md says which licence is needed"
            elif error.code in (401, 403):
                advice = '\nSet ENGINE_AUTHORIZATION, for example to "ApiKey ..." or "Basic ..."'
            elif error.code == 404:
                advice = NOT_LOADED
            raise SystemExit(f"{method} {path}: {error.code} {message}{advice}") from None
        except (OSError, HTTPException) as error:
            raise SystemExit(unreachable(self.address, error)) from None
        except ValueError:
            raise SystemExit(f"{self.address} answers no JSON: it is no {config()['engine']}") from None


def already_there(index: str) -> str:
    """Return the message about an index that exists."""
    recreate = "`python engine.py load --recreate` deletes it and loads it again"
    return f"{index} is in {config()['engine']} already: {recreate}"


def unreachable(address: str, error: Exception) -> str:
    """Return the message if no engine answers."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"the certificate of {address} is not trusted: set ENGINE_CA to the file of its certificate authority"
    return f"no {config()['engine']} answers at {address} ({reason}): start it, or set ENGINE_URL"


def min_max_scaled(score: float, scores: list[float]) -> float:
    """Return a score of a list scaled to 0 to 1; the score itself if all are equal."""
    span = max(scores) - min(scores)
    return (score - min(scores)) / span if span else score


def raise_if_refused(answer: Any) -> None:
    """End the program if a document was refused."""
    items = answer if isinstance(answer, list) else answer.get("items", [])
    for item in items:
        if error := item.get("index", {}).get("error") or item.get("result", {}).get("errors"):
            raise SystemExit(f"a document was not taken: {error}\n`load --recreate` begins again")


def fill_template(template: Any, values: dict[str, Any], empty_queries: dict[str, Any] | None = None) -> Any:
    """Return a template with values for its marks, as JSON in a text, and empty queries for missing values."""
    if isinstance(template, dict):
        kind = next(iter(template), "")
        if empty_queries and len(template) == 1 and kind in empty_queries:
            question_values = [values[name] for name in re.findall(r"\{\{(\w+)\}\}", json.dumps(template))]
            if any(isinstance(value, list | dict) and not is_known(value) for value in question_values):
                return empty_queries[kind]
        return {name: fill_template(value, values, empty_queries) for name, value in template.items()}
    if isinstance(template, list):
        return [fill_template(value, values, empty_queries) for value in template]
    if not isinstance(template, str):
        return template
    if single_mark := re.fullmatch(r"\{\{(\w+)\}\}", template):
        return values[single_mark[1]]
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: json.dumps(values[mark[1]], ensure_ascii=False), template)


class MilvusEngine:
    """Milvus with its client: a server, or a file beside this script."""

    def __init__(self) -> None:
        try:
            import pymilvus
        except ModuleNotFoundError:
            raise SystemExit("the client of Milvus is missing: pip install pymilvus milvus-lite") from None
        self.library: Any = pymilvus
        self.request = config()["client"]
        uri = os.environ.get("ENGINE_URL") or str(HERE / "milvus.db")
        try:
            self.client: Any = pymilvus.MilvusClient(uri, token=os.environ.get("ENGINE_AUTHORIZATION", ""))
        except pymilvus.MilvusException as error:
            raise SystemExit(unreachable(uri, error)) from None
        if self.client.has_collection(self.request["collection"]):
            self.client.load_collection(self.request["collection"])

    def load(self, *, recreate: bool) -> int:
        name = self.request["collection"]
        count = 0
        documents = lines("documents")
        if self.client.has_collection(name):
            if not recreate:
                raise SystemExit(already_there(name))
            self.client.drop_collection(name)
        schema = self.client.create_schema(auto_id=False)
        index = self.client.prepare_index_params()
        types = self.library.DataType
        schema.add_field("row", types.INT64, is_primary=True)
        for field in ("passage", "title", "text"):
            schema.add_field(field, types.VARCHAR, max_length=65535)
        for field in self.request["fields"]:
            kind = types.FLOAT_VECTOR if field["dim"] else types.SPARSE_FLOAT_VECTOR
            schema.add_field(field["name"], kind, **({"dim": field["dim"]} if field["dim"] else {}))
            form = {"index_type": field["index_type"], "params": {"params": field["build"]}}
            index.add_index(field["name"], metric_type="IP", **form)
        self.client.create_collection(name, schema=schema, index_params=index)
        while batch := list(islice(documents, BATCH)):
            self.client.insert(name, [self.typed(document) for document in batch])
            count += len(batch)
        self.client.load_collection(name)
        return count

    def ask(self, values: dict[str, Any], *, free: bool = False) -> list[dict[str, Any]]:
        del free  # Milvus has no licences
        values = self.typed(values)
        depth = self.request["depth"]
        name = self.request["collection"]
        if not self.client.has_collection(name):
            raise SystemExit(f"{name} is not in milvus{NOT_LOADED}")
        fields = enumerate(self.request["fields"])
        known = [(index, field) for index, field in fields if is_known(values[field["name"]])]
        if not known:
            return []
        result_options: dict[str, Any] = {"limit": depth, "output_fields": ["row", "passage", "title"]}
        if len(known) == 1:
            _, field = known[0]
            options = {"anns_field": field["name"], "search_params": field["search"], **result_options}
            (hits,) = self.client.search(name, data=[values[field["name"]]], **options)
        else:
            request = self.library.AnnSearchRequest
            weights = self.request["ranker"]["weights"]
            named = [(field["name"], field["search"]) for _, field in known]
            requests = [request([values[name]], name, search, limit=depth) for name, search in named]
            by_rank = self.library.RRFRanker(self.request["ranker"]["constant"])
            ranker = self.library.WeightedRanker(*(weights[index] for index, _ in known)) if weights else by_rank
            (hits,) = self.client.hybrid_search(name, requests, ranker, **result_options)
        return [{**hit["entity"], "score": hit["distance"]} for hit in hits]

    def typed(self, values: dict[str, Any]) -> dict[str, Any]:
        sparse = {name: value for name, value in values.items() if isinstance(value, dict)}
        return values | {name: {int(term): weight for term, weight in value.items()} for name, value in sparse.items()}


def is_known(value: Any) -> bool:
    """Whether a value has a known term, or a vector that is not zero."""
    return any(value.values() if isinstance(value, dict) else value)


def values_of(question: str) -> dict[str, Any]:
    """Return the terms and vectors of a new question, computed by the workbench."""
    try:
        from mrc_workbench.data.terminal import quiet

        quiet()  # before the libraries of models are imported
        from mrc_workbench.retrieval.export.payloads import new_question_values
    except ModuleNotFoundError as error:
        raise SystemExit(f"`ask` needs the workbench: set PYTHONPATH to its folder ({error})") from None
    return dict(new_question_values(HERE, [question])[0])


def lines(name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of one of the folder's files."""
    with (HERE / f"{name}.jsonl").open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def write_line(text: str) -> None:
    """Write a line to the terminal."""
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.stderr.write("Stopped. After an unfinished load, `load --recreate` begins again.\n")
        sys.exit(130)
