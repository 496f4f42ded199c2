"""Stubs of Elasticsearch and OpenSearch: the same REST interface, other queries."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.engines import base

# parameters of each interface, of the REST specifications
PARAMS = {
    "index": {"timeout", "master_timeout", "wait_for_active_shards"},
    "_bulk": {"refresh", "routing", "timeout", "pipeline", "wait_for_active_shards", "_source", "require_alias"},
    "_refresh": {"ignore_unavailable", "allow_no_indices", "expand_wildcards"},
    "_search": {"size", "from", "routing", "preference", "_source", "timeout"},
}
VECTOR_KINDS = ("flat", "int8_flat", "hnsw", "int8_hnsw")


def refused(kind: str, reason: str, status: int = 400) -> base.RefusedError:
    return base.RefusedError(status, {"error": {"type": kind, "reason": reason}, "status": status})


def require(condition: object, kind: str, reason: str, status: int = 400) -> None:
    """Refuse a request unless the condition holds."""
    if not condition:
        raise refused(kind, reason, status)


@dataclass
class Index:
    settings: dict[str, Any]
    fields: dict[str, dict[str, Any]]
    written: dict[str, dict[str, Any]] = field(default_factory=dict)
    searchable: dict[str, dict[str, Any]] = field(default_factory=dict)  # after a refresh

    def values(self, name: str) -> dict[str, Any]:
        return {key: document[name] for key, document in self.searchable.items() if name in document}


@dataclass
class Elastic(base.StubEngine):
    """The common API of both engines: indices, bulk, refresh, search."""

    version: tuple[int, int] = (9, 2)
    indices: dict[str, Index] = field(default_factory=dict)
    settings: tuple[str, ...] = ("number_of_shards", "number_of_replicas", "similarity")
    search_fields: tuple[str, ...] = ("query", "size", "from", "_source")
    search_params: frozenset[str] = frozenset()

    def unauthorized(self) -> base.RefusedError:
        return refused("security_exception", "missing authentication credentials for REST request", 401)

    def answer(self, request: base.Received) -> Any:
        index, _, interface = request.path.strip("/").partition("/")
        known = PARAMS.get(interface or "index", set()) | (self.search_params if interface == "_search" else set())
        for name in request.params:
            require(name in known, "illegal_argument_exception", f"request contains unrecognized parameter: [{name}]")
        if request.body:
            takes_body = interface in ("_bulk", "_search") or (request.method == "PUT" and not interface)
            require(takes_body, "illegal_argument_exception", f"[{request.path}] does not support having a body")
            forms = ("application/x-ndjson", "application/json") if interface == "_bulk" else ("application/json",)
            message = f"Content-Type header [{request.form}] is not supported"
            require(request.form in forms, "media_type_header_exception", message, 406)
        return self.handled(request, index, interface)

    def handled(self, request: base.Received, index: str, interface: str) -> Any:
        match request.method, interface:
            case "PUT", "":
                return self.create(index, request.json())
            case "HEAD" | "GET" | "DELETE", "":
                self.known(index)
                if request.method == "DELETE":
                    del self.indices[index]
                return {"acknowledged": True}
            case "POST" | "PUT", "_bulk":
                return self.bulk(self.known(index), request.body)
            case "POST" | "GET", "_refresh":
                self.known(index).searchable = dict(self.known(index).written)
                return {"_shards": {"total": 1, "successful": 1, "failed": 0}}
            case "POST" | "GET", "_search":
                return self.search(self.known(index), request.json(), request.params)
        raise base.RefusedError(405, {"error": f"Incorrect HTTP method for uri [{request.path}]", "status": 405})

    def known(self, index: str) -> Index:
        require(index in self.indices, "index_not_found_exception", f"no such index [{index}]", 404)
        return self.indices[index]

    def create(self, name: str, body: dict[str, Any]) -> Any:
        require(name not in self.indices, "resource_already_exists_exception", f"index [{name}] already exists")
        is_valid = name == name.lower() and not name.startswith(("_", "-", "+"))
        require(is_valid, "invalid_index_name_exception", f"Invalid index name [{name}], must be lowercase")
        base.require_known(body, ("settings", "mappings", "aliases"), _unknown_key)
        settings = body.get("settings", {}).get("index", {})
        base.require_known(settings, self.settings, _unknown_setting)
        mappings = body.get("mappings", {})
        base.require_known(mappings, ("dynamic", "properties"), _unsupported)
        for of in mappings["properties"].values():
            self.check_field(of, settings)
        self.indices[name] = Index(settings, mappings["properties"])
        return {"acknowledged": True, "shards_acknowledged": True, "index": name}

    def check_field(self, of: dict[str, Any], settings: dict[str, Any]) -> None:
        known = {"integer": (), "keyword": (), "text": ("index", "analyzer", "similarity")}
        require(of["type"] in known, "mapper_parsing_exception", f"No handler for type [{of['type']}]")
        base.require_known(of, ("type", *known[of["type"]]), _unsupported)
        name = of.get("similarity")
        is_known = not name or name in settings.get("similarity", {})
        require(is_known, "mapper_parsing_exception", f"Unknown Similarity type [{name}]")

    def bulk(self, index: Index, body: bytes) -> Any:
        require(body.endswith(b"\n"), "illegal_argument_exception", "The bulk request must be terminated by a newline")
        lines = [json.loads(line) for line in body.decode().splitlines()]
        items = []
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            (kind,) = action
            require(kind in ("index", "create"), "illegal_argument_exception", f"Malformed action line, found [{kind}]")
            item: dict[str, Any] = {"_id": action[kind]["_id"], "status": 201}
            try:
                self.check_document(index, document)
                index.written[action[kind]["_id"]] = document
            except base.RefusedError as error:
                item |= {"status": 400, "error": error.content["error"]}
            items.append({kind: item})
        return {"took": 1, "errors": any("error" in entry[kind] for entry in items), "items": items}

    def check_document(self, index: Index, document: dict[str, Any]) -> None:
        for name, value in document.items():
            message = f"mapping set to strict, dynamic introduction of [{name}]"
            require(name in index.fields, "strict_dynamic_mapping_exception", message)
            if isinstance(value, list | dict):
                self.check_vector(index, name, value)

    def check_vector(self, index: Index, name: str, value: Any) -> None:
        raise NotImplementedError

    def search(self, index: Index, body: dict[str, Any], params: dict[str, str]) -> Any:
        base.require_known(body, self.search_fields, _unknown_key)
        size = body.get("size", 10)
        scores = base.first(self.scores(index, body, params), size)
        hits = []
        for key, score in scores.items():
            source = {name: index.searchable[key].get(name) for name in body["_source"]}
            hits.append({"_id": key, "_score": score, "_source": source})
        return {"timed_out": False, "_shards": {"total": 1, "failed": 0}, "hits": {"hits": hits}}

    def scores(self, index: Index, body: dict[str, Any], params: dict[str, str]) -> dict[str, float]:
        raise NotImplementedError

    def matching(self, index: Index, query: dict[str, Any]) -> dict[str, float]:
        (kind,) = query
        if kind == "match_none":
            return {}
        require(kind == "match", "parsing_exception", f"unknown query [{kind}]")
        ((name, of),) = query["match"].items()
        base.require_known(of, ("query", "analyzer", "operator", "boost"), _unknown_key)
        similarity = index.settings["similarity"][index.fields[name]["similarity"]]
        return base.bm25(index.values(name), of["query"], similarity["k1"], similarity["b"])


def check_term_weights(name: str, value: Any) -> None:
    """Refuse what a feature field does not store: anything but weights above 0 by term."""
    weights = value.values() if isinstance(value, dict) else [None]
    are_weights = all(isinstance(weight, float | int) and weight > 0 for weight in weights)
    require(are_weights, "document_parsing_exception", f"[{name}] takes weights above 0 by term, of dimension 1")


_MAX_SIM = re.compile(r"maxSimDotProduct\(params\.query_vector, '(\w+)'\) / params\.query_vector\.size\(\) \+ 1\.0")


def _unknown_key(name: str) -> base.RefusedError:
    return refused("parsing_exception", f"Unknown key for a VALUE in [{name}].")


def _unknown_setting(name: str) -> base.RefusedError:
    return refused("illegal_argument_exception", f"unknown setting [index.{name}]")


def _unsupported(name: str) -> base.RefusedError:
    return refused("mapper_parsing_exception", f"unsupported parameters: [{name}]")


@dataclass
class Elasticsearch(Elastic):
    licence: str = "trial"
    search_fields: tuple[str, ...] = ("query", "retriever", "size", "from", "_source")

    def check_field(self, of: dict[str, Any], settings: dict[str, Any]) -> None:
        if of["type"] == "rank_vectors":
            self.check_rank_vectors(of)
            return
        if of["type"] == "sparse_vector":
            base.require_known(of, ("type", "store"), _unsupported)
            return
        if of["type"] != "dense_vector":
            super().check_field(of, settings)
            return
        base.require_known(of, ("type", "dims", "similarity", "index", "index_options"), _unsupported)
        options = of["index_options"]
        is_valid = 1 <= of["dims"] <= 4096 and options["type"] in VECTOR_KINDS
        require(is_valid, "mapper_parsing_exception", f"no dense_vector of {of['dims']} dims, {options['type']}")
        graph = ("m", "ef_construction") if "hnsw" in options["type"] else ()
        base.require_known(options, ("type", "confidence_interval", *graph), _unsupported)

    def check_rank_vectors(self, of: dict[str, Any]) -> None:
        require(self.version >= (9, 0), "mapper_parsing_exception", "No handler for type [rank_vectors]")
        is_licensed = self.licence in ("trial", "enterprise")
        require(is_licensed, "security_exception", "current license is non-compliant for [Rank Vectors]", 403)
        base.require_known(of, ("type", "dims", "element_type"), _unsupported)
        require(1 <= of["dims"] <= 4096, "mapper_parsing_exception", f"no rank_vectors of {of['dims']} dims")

    def check_vector(self, index: Index, name: str, value: Any) -> None:
        of = index.fields[name]
        if of["type"] == "rank_vectors":
            fits = value and all(len(vector) == of["dims"] for vector in value)
            require(fits, "document_parsing_exception", f"[{name}] has a different number of dimensions")
            return
        if of["type"] == "sparse_vector":
            check_term_weights(name, value)
            return
        fits = of["type"] == "dense_vector" and len(value) == of["dims"]
        message = f"[{name}] has {len(value)} dims, expected {of.get('dims')}: different"
        require(fits, "document_parsing_exception", message)
        message = "The [cosine] similarity does not support vectors with zero magnitude"
        require(of["similarity"] != "cosine" or any(value), "document_parsing_exception", message)

    def matching(self, index: Index, query: dict[str, Any]) -> dict[str, float]:
        if "script_score" in query:
            return self.max_sims(index, query["script_score"])
        if "sparse_vector" not in query:
            return super().matching(index, query)
        of = query["sparse_vector"]
        base.require_known(of, ("field", "query_vector", "prune", "pruning_config", "boost"), _unknown_key)
        has_terms = index.fields[of["field"]]["type"] == "sparse_vector" and of["query_vector"]
        require(has_terms, "illegal_argument_exception", "[sparse_vector] queries a sparse_vector field by its terms")
        # from 9.1 it prunes unless told otherwise
        require(of.get("prune") is False, "illegal_argument_exception", "this stub does not prune")
        check_term_weights(of["field"], of["query_vector"])
        return base.dot_products(index.values(of["field"]), of["query_vector"])

    def max_sims(self, index: Index, of: dict[str, Any]) -> dict[str, float]:
        base.require_known(of, ("query", "script", "min_score", "boost"), _unknown_key)
        base.require_known(of["script"], ("source", "params", "lang"), _unknown_key)
        match = _MAX_SIM.fullmatch(of["script"]["source"])
        if not match or index.fields[match[1]]["type"] != "rank_vectors":
            raise refused("script_exception", f"compile error: {of['script']['source']}")
        has_value = of["query"] == {"exists": {"field": match[1]}}
        require(has_value, "script_exception", f"A document doesn't have a value for a vector field [{match[1]}]")
        query_vectors = of["script"]["params"]["query_vector"]
        self.check_vector(index, match[1], query_vectors)
        held = index.values(match[1])
        n = len(query_vectors)
        scores = {key: sum(base.max_sim(vectors, query_vectors)) / n + 1.0 for key, vectors in held.items()}
        lowest = min(scores.values(), default=0.0)
        require(lowest >= 0, "illegal_argument_exception", "script_score script returned an invalid score: negative")
        return scores

    def scores(self, index: Index, body: dict[str, Any], params: dict[str, str]) -> dict[str, float]:
        has_both = "retriever" in body and "query" in body
        require(not has_both, "action_request_validation_exception", "cannot specify [retriever] and [query]")
        if "query" in body:
            return self.matching(index, body["query"])
        return self.retrieved(index, body["retriever"], body.get("size", 10))

    def retrieved(self, index: Index, retriever: dict[str, Any], size: int) -> dict[str, float]:
        (kind,) = retriever
        kinds: dict[str, Callable[[Index, dict[str, Any], int], dict[str, float]]] = {
            "standard": self.standard,
            "knn": self.nearest,
            "rrf": self.rrf,
            "linear": self.linear,
        }
        is_known = kind in kinds and (kind != "linear" or self.version >= (8, 18))
        require(is_known, "parsing_exception", f"unknown field [{kind}]: no retriever")
        is_licensed = kind not in ("rrf", "linear") or self.licence != "basic"
        reason = "current license is non-compliant for [Reciprocal Rank Fusion (RRF)]"
        require(is_licensed, "security_exception", reason, 403)
        return kinds[kind](index, retriever[kind], size)

    def standard(self, index: Index, of: dict[str, Any], size: int) -> dict[str, float]:
        base.require_known(of, ("query", "filter", "min_score"), _unknown_key)
        return self.matching(index, of["query"])

    def nearest(self, index: Index, of: dict[str, Any], size: int) -> dict[str, float]:
        base.require_known(of, ("field", "query_vector", "k", "num_candidates", "filter"), _unknown_key)
        is_valid = of["k"] <= of["num_candidates"] <= 10_000
        require(is_valid, "illegal_argument_exception", "[num_candidates] cannot be less than [k]")
        self.check_vector(index, of["field"], of["query_vector"])
        cosines_by_key = base.cosines(index.values(of["field"]), of["query_vector"])
        return base.first({key: (1 + cosine) / 2 for key, cosine in cosines_by_key.items()}, of["k"])

    def rrf(self, index: Index, of: dict[str, Any], size: int) -> dict[str, float]:
        base.require_known(of, ("retrievers", "rank_constant", "rank_window_size", "filter"), _unknown_key)
        window = self.window(of, size)
        parts = []
        for child in of["retrievers"]:
            weight = 1.0
            if "retriever" in child:
                require(self.version >= (9, 2), "parsing_exception", "unknown field [retriever]: no retriever")
                base.require_known(child, ("retriever", "weight"), _unknown_key)
                child, weight = child["retriever"], child["weight"]  # noqa: PLW2901
            hits = base.first(self.retrieved(index, child, size), window)
            parts.append((base.ranks(hits, of["rank_constant"]), weight))
        return base.weighted(parts)

    def linear(self, index: Index, of: dict[str, Any], size: int) -> dict[str, float]:
        base.require_known(of, ("retrievers", "rank_window_size", "filter", "min_score"), _unknown_key)
        window = self.window(of, size)
        parts = []
        for child in of["retrievers"]:
            base.require_known(child, ("retriever", "weight", "normalizer"), _unknown_key)
            normalizer = child["normalizer"]
            is_known = normalizer in ("minmax", "none", "l2_norm")
            require(is_known, "illegal_argument_exception", f"Unknown normalizer [{normalizer}]")
            hits = base.first(self.retrieved(index, child["retriever"], size), window)
            parts.append((base.min_max(hits), child["weight"]))
        return base.weighted(parts)

    def window(self, of: dict[str, Any], size: int) -> int:
        is_valid = len(of["retrievers"]) >= 2 and of["rank_window_size"] >= size
        require(is_valid, "action_request_validation_exception", "[rank_window_size] must be at least [size]")
        return int(of["rank_window_size"])
