"""A stub of OpenSearch with its plugins for vectors and for hybrid search."""

import math
import re
import statistics
from dataclasses import dataclass, field
from typing import Any

from tests.engines import base
from tests.engines.elastic import Elastic, Index, _unknown_key, _unsupported, check_term_weights, refused, require

_LATE_INTERACTION = re.compile(
    r"lateInteractionScore\(params\.query_vectors, '(\w+)', params\._source, params\.space_type\)"
)
TECHNIQUES = {"normalization-processor": ("min_max", "l2", "z_score"), "score-ranker-processor": ("rrf",)}


@dataclass
class OpenSearch(Elastic):
    version: tuple[int, int] = (3, 3)
    settings: tuple[str, ...] = ("number_of_shards", "number_of_replicas", "similarity", "knn")
    search_params: frozenset[str] = frozenset({"search_pipeline"})
    pipelines: dict[str, dict[str, Any]] = field(default_factory=dict)

    def answer(self, request: base.Received) -> Any:
        start = "/_search/pipeline/"
        if not request.path.startswith(start):
            return super().answer(request)
        is_json = request.method == "PUT" and request.form == "application/json"
        require(is_json, "illegal_argument_exception", "a pipeline is put as JSON", 405)
        body = request.json()
        base.require_known(body, ("phase_results_processors", "request_processors", "description"), _unknown_key)
        (processor,) = body["phase_results_processors"]
        (kind,) = processor
        base.require_known(processor, tuple(TECHNIQUES), _unknown_key)
        of = processor[kind]
        base.require_known(of, ("normalization", "combination"), _unknown_key)
        technique = of["combination"]["technique"] if kind.startswith("score") else of["normalization"]["technique"]
        weights = of["combination"]["parameters"]["weights"]
        is_valid = technique in TECHNIQUES[kind] and math.isclose(sum(weights), 1, abs_tol=1e-6)
        message = f"no technique {technique}, or sum of weights is not 1.0: {weights}"
        require(is_valid, "illegal_argument_exception", message)
        self.pipelines[request.path.removeprefix(start)] = of | {"technique": technique, "weights": weights}
        return {"acknowledged": True}

    def check_field(self, of: dict[str, Any], settings: dict[str, Any]) -> None:
        if of["type"] in ("boolean", "rank_features") or of == {"type": "object", "enabled": False}:
            base.require_known(of, ("type", "enabled"), _unsupported)
            return
        if of["type"] != "knn_vector":
            super().check_field(of, settings)
            return
        base.require_known(of, ("type", "dimension", "method"), _unsupported)
        if "method" in of:
            base.require_known(of["method"], ("name", "space_type", "engine", "parameters"), _unsupported)
            base.require_known(of["method"]["parameters"], ("m", "ef_construction"), _unsupported)

    def check_vector(self, index: Index, name: str, value: Any) -> None:
        if index.fields[name]["type"] == "object":  # it is stored as it is
            return
        if index.fields[name]["type"] == "rank_features":
            check_term_weights(name, value)
            return
        dimension = index.fields[name]["dimension"]
        message = f"Vector dimension mismatch. Expected: {dimension}"
        require(len(value) == dimension, "mapper_parsing_exception", message)

    def scores(self, index: Index, body: dict[str, Any], params: dict[str, str]) -> dict[str, float]:
        query = body["query"]
        if "hybrid" not in query:
            return self.matching(index, query)
        base.require_known(query["hybrid"], ("queries", "pagination_depth", "filter"), _unknown_key)
        name = params.get("search_pipeline", "")
        require(name in self.pipelines, "illegal_argument_exception", f"Pipeline {name} is not defined")
        pipeline = self.pipelines[name]
        queries = query["hybrid"]["queries"]
        is_valid = len(pipeline["weights"]) == len(queries) <= 5
        message = "number of weights must match number of sub-queries in hybrid query"
        require(is_valid, "illegal_argument_exception", message)
        lists = [base.first(self.matching(index, item), query["hybrid"]["pagination_depth"]) for item in queries]
        values = {
            "rrf": lambda item: base.ranks(item, pipeline["combination"]["rank_constant"]),
            "min_max": lambda item: base.min_max(item, 0.001),
            "z_score": _z_score,
        }[pipeline["technique"]]
        return base.weighted([(values(item), weight) for item, weight in zip(lists, pipeline["weights"], strict=True)])

    def matching(self, index: Index, query: dict[str, Any]) -> dict[str, float]:
        if "neural_sparse" in query:
            return self.neural_sparse(index, query["neural_sparse"])
        if "script_score" in query:
            base.require_known(query["script_score"], ("query", "script", "min_score", "boost"), _unknown_key)
            script = query["script_score"]["script"]
            base.require_known(script, ("source", "params", "lang"), _unknown_key)
            if script.get("lang", "painless") == "painless":
                return self.late_interaction(index, query["script_score"]["query"], script)
            params = script["params"]
            base.require_known(params, ("field", "query_value", "space_type"), _unknown_key)
            return self.exact(index, params["field"], params["query_value"])
        if "knn" not in query:
            return super().matching(index, query)
        ((name, of),) = query["knn"].items()
        has_index = index.settings.get("knn") and "method" in index.fields[name]
        require(has_index, "query_shard_exception", f"Field '{name}' is not knn_vector type with an index")
        base.require_known(of, ("vector", "k", "filter"), _unknown_key)
        return base.first(self.exact(index, name, of["vector"]), of["k"])

    def neural_sparse(self, index: Index, query: dict[str, Any]) -> dict[str, float]:
        ((name, of),) = query.items()
        base.require_known(of, ("query_tokens", "model_id", "query_text", "boost"), _unknown_key)
        if index.fields[name]["type"] != "rank_features":
            raise refused("illegal_argument_exception", "[neural_sparse] query only works on [rank_features] fields")
        check_term_weights(name, of["query_tokens"])
        largest = max(of["query_tokens"].values(), default=0)
        require(0 < largest <= 64, "illegal_argument_exception", "weight must be in (0, 64]")
        return base.dot_products(index.values(name), of["query_tokens"])

    def late_interaction(self, index: Index, query: dict[str, Any], script: dict[str, Any]) -> dict[str, float]:
        """Score by `cosinesimil`: 0 to 1 for each token of the question."""
        match = _LATE_INTERACTION.fullmatch(script["source"])
        if not match or self.version < (3, 3):
            raise refused("script_exception", f"compile error: {script['source']}: unknown call")
        base.require_known(script["params"], ("query_vectors", "space_type"), _unknown_key)
        if script["params"]["space_type"] != "cosinesimil":
            raise refused("illegal_argument_exception", "this stub has cosinesimil alone")
        ((name, value),) = query["term"].items()
        require(index.fields[name]["type"] == "boolean", "query_shard_exception", f"[{name}] is no boolean field")
        query_vectors = script["params"]["query_vectors"]
        scores = {}
        for key, document in index.searchable.items():
            if document.get(name) is not value:
                continue
            if not query_vectors or not document.get(match[1]):
                raise refused("script_exception", "Document vectors cannot be null or empty")
            scores[key] = sum((1 + similar) / 2 for similar in base.max_sim(document[match[1]], query_vectors))
        return scores

    def exact(self, index: Index, name: str, vector: list[float]) -> dict[str, float]:
        self.check_vector(index, name, vector)
        if not any(vector):
            raise refused("illegal_argument_exception", "zero vector is not supported when space type is [cosinesimil]")
        return {key: 1 + cosine for key, cosine in base.cosines(index.values(name), vector).items()}


def _z_score(scores: dict[str, float]) -> dict[str, float]:
    mean = statistics.fmean(scores.values()) if scores else 0.0
    deviation = statistics.stdev(scores.values()) if len(scores) > 1 else 0.0
    return {key: max((score - mean) / deviation, 0.001) if deviation else score for key, score in scores.items()}
