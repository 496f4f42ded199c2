"""What each engine is told: how its index is made, how documents are sent, and how a question is asked.

Tokens are ours, and what an engine does to texts is turned off, so that BM25 counts there what it counts here.
"""

from collections.abc import Callable, Sequence
from typing import cast

from retrieval.dense import HNSW_CANDIDATES, HNSW_CANDIDATES_TO_BUILD, HNSW_NEIGHBOURS, IndexKind
from retrieval.hybrid import RRF_CONSTANT
from retrieval.milvus.retriever import index_of
from retrieval.takeaway.documents import HITS, SHOWN, Body, Request, Told, is_exact, mark
from retrieval.takeaway.fusion import Engine, Mix
from retrieval.takeaway.signals import Signal, Terms, Vectors
from retrieval.takeaway.vespa import told_to_vespa


def told_to(mix: Mix, index: str) -> Told:
    """Return what the engine of the mix is told, the index called `index`: small letters, figures and `_`."""
    return _TOLD[mix.engine](mix, index)


def _elasticsearch(mix: Mix, index: str) -> Told:
    kinds = {IndexKind.EXACT: "flat", IndexKind.INT8: "int8_flat"}

    def vector(signal: Vectors) -> Body:
        kind = kinds.get(signal.index, "hnsw")
        graph = {"m": HNSW_NEIGHBOURS, "ef_construction": HNSW_CANDIDATES_TO_BUILD} if kind == "hnsw" else {}
        dims = signal.vectors.shape[1]
        return {"type": "dense_vector", "dims": dims, "similarity": "cosine", "index_options": {"type": kind, **graph}}

    def asked(signal: Signal) -> Body:
        if isinstance(signal, Terms):
            return {"standard": {"query": _match(signal)}}
        return {
            "knn": {
                "field": signal.field,
                "query_vector": mark(signal),
                "k": mix.depth,
                "num_candidates": max(mix.depth, HNSW_CANDIDATES),
            }
        }

    return _searched(mix, index, vector, {"retriever": _retriever(mix, asked)}, [])


def _retriever(mix: Mix, asked: Callable[[Signal], Body]) -> Body:
    if len(mix.signals) == 1:
        return asked(mix.signals[0])
    weighed = [{"retriever": asked(one), "weight": w} for one, w in zip(mix.signals, mix.weights, strict=True)]
    if mix.by_rank:
        return {"rrf": {"retrievers": weighed, "rank_constant": RRF_CONSTANT, "rank_window_size": mix.depth}}
    normalised = [one | {"normalizer": mix.technique} for one in weighed]
    return {"linear": {"retrievers": normalised, "rank_window_size": mix.depth}}


def _opensearch(mix: Mix, index: str) -> Told:
    def vector(signal: Vectors) -> Body:
        space = {"type": "knn_vector", "dimension": signal.vectors.shape[1]}
        if is_exact(signal):
            return space
        graph = {"m": HNSW_NEIGHBOURS, "ef_construction": HNSW_CANDIDATES_TO_BUILD}
        method = {"name": "hnsw", "space_type": "innerproduct", "engine": "faiss", "parameters": graph}
        return space | {"method": method}

    def asked(signal: Signal) -> Body:
        if isinstance(signal, Terms):
            return _match(signal)
        if isinstance(signal, Vectors) and not is_exact(signal):
            return {"knn": {signal.field: {"vector": mark(signal), "k": mix.depth}}}
        params = {"field": signal.field, "query_value": mark(signal), "space_type": "cosinesimil"}
        script = {"lang": "knn", "source": "knn_score", "params": params}
        return {"script_score": {"query": {"exists": {"field": signal.field}}, "script": script}}

    queries = [asked(signal) for signal in mix.signals]
    if len(queries) == 1:
        return _searched(mix, index, vector, {"query": queries[0]}, [])
    weights = {"weights": list(mix.weights)}
    by_rank = {"combination": {"technique": "rrf", "rank_constant": RRF_CONSTANT, "parameters": weights}}
    by_score = {
        "normalization": {"technique": mix.technique},
        "combination": {"technique": "arithmetic_mean", "parameters": weights},
    }
    processor = {"score-ranker-processor": by_rank} if mix.by_rank else {"normalization-processor": by_score}
    pipeline = Request("PUT", f"/_search/pipeline/{index}", {"phase_results_processors": [processor]})
    hybrid = {"query": {"hybrid": {"queries": queries, "pagination_depth": mix.depth}}}
    return _searched(mix, index, vector, hybrid, [pipeline])


def _searched(
    mix: Mix, index: str, vector: Callable[[Vectors], Body], query: Body, pipeline: Sequence[Request]
) -> Told:
    """What Elasticsearch and OpenSearch are both told; one shard, so that all passages are counted together."""
    plain = {"type": "text", "index": False}
    fields: Body = {"row": {"type": "integer"}, "passage": {"type": "keyword"}, "title": plain, "text": plain}
    similarities, settings = {}, {"number_of_shards": 1, "number_of_replicas": 0}
    for signal in mix.signals:
        if isinstance(signal, Terms):
            similarities[signal.field] = {"type": "BM25", "k1": signal.k1, "b": signal.b}
            fields[signal.field] = {"type": "text", "analyzer": "whitespace", "similarity": signal.field}
        elif isinstance(signal, Vectors):
            fields[signal.field] = vector(signal)
            if mix.engine is Engine.OPENSEARCH and not is_exact(signal):
                settings |= {"knn": True}
    body = {
        "settings": {"index": settings | ({"similarity": similarities} if similarities else {})},
        "mappings": {"dynamic": "strict", "properties": fields},
    }
    path = f"/{index}/_search" + (f"?search_pipeline={index}" if pipeline else "")
    return Told(
        setup=[Request("PUT", f"/{index}", body), *pipeline],
        bulk={"form": "lines", "path": f"/{index}/_bulk"},
        finish=[Request("POST", f"/{index}/_refresh", {})],
        query=Request("POST", path, query | {"size": HITS, "_source": [*SHOWN]}),
        found=["hits", "hits", "_source"],
    )


def _match(signal: Terms) -> Body:
    return {"match": {signal.field: {"query": mark(signal), "analyzer": "whitespace"}}}


def _weaviate(mix: Mix, index: str) -> Told:
    name, terms = index.capitalize(), next((one for one in mix.signals if isinstance(one, Terms)), None)
    vectors = next((one for one in mix.signals if isinstance(one, Vectors)), None)
    plain = {"dataType": ["text"], "indexSearchable": False, "indexFilterable": False}
    properties: list[Body] = [
        {"name": "row", "dataType": ["int"]},
        *({"name": one} | plain for one in ("passage", "title", "text")),
    ]
    if terms:
        properties.append({"name": terms.field, **plain, "tokenization": "whitespace", "indexSearchable": True})
    # the words that it would leave out stay, as every token counts here
    inverted: Body = {"stopwords": {"preset": "none"}}
    if terms:
        inverted["bm25"] = {"k1": terms.k1, "b": terms.b}
    graph = {"maxConnections": HNSW_NEIGHBOURS, "efConstruction": HNSW_CANDIDATES_TO_BUILD, "ef": HNSW_CANDIDATES}
    exact = vectors is None or is_exact(vectors)
    body = {
        "class": name,
        "vectorizer": "none",
        "vectorIndexType": "flat" if exact else "hnsw",
        "vectorIndexConfig": {"distance": "cosine"} | ({} if exact else graph),
        "invertedIndexConfig": inverted,
        "properties": properties,
    }
    if terms and vectors:
        alpha = mix.weights[mix.signals.index(vectors)]
        fusion = "rankedFusion" if mix.by_rank else mix.technique
        asked = (
            f"hybrid: {{query: {mark(terms)}, vector: {mark(vectors)}, alpha: {alpha}, "
            f'fusionType: {fusion}, properties: ["{terms.field}"]}}'
        )
    elif terms:
        asked = f'bm25: {{query: {mark(terms)}, properties: ["{terms.field}"]}}'
    else:
        asked = f"nearVector: {{vector: {mark(cast(Signal, vectors))}}}"
    query = f"{{ Get {{ {name}(limit: {mix.depth}, {asked}) {{ row passage title }} }} }}"
    return Told(
        setup=[Request("POST", "/v1/schema", body)],
        bulk={
            "form": "objects",
            "path": "/v1/batch/objects",
            "class": name,
            "vector": vectors.field if vectors else "",
        },
        query=Request("POST", "/v1/graphql", {"query": query}),
        found=["data", "Get", name],
    )


def _milvus(mix: Mix, index: str) -> Told:
    fields: list[Body] = []
    for signal in mix.signals:
        if isinstance(signal, Terms):
            one = {"index_type": "SPARSE_INVERTED_INDEX", "build": {}, "search": {"metric_type": "IP", "params": {}}}
            fields.append({"name": signal.field, "dim": 0, **one})
        elif isinstance(signal, Vectors):
            kind, build, search = index_of(signal.index, len(signal.vectors))
            of = {"index_type": kind, "build": build, "search": search}
            fields.append({"name": signal.field, "dim": signal.vectors.shape[1], **of})
    ranker = {"weights": None if mix.by_rank else list(mix.weights), "constant": RRF_CONSTANT}
    return Told(client={"collection": index, "fields": fields, "depth": mix.depth, "ranker": ranker})


_TOLD: dict[Engine, Callable[[Mix, str], Told]] = {
    Engine.ELASTICSEARCH: _elasticsearch,
    Engine.OPENSEARCH: _opensearch,
    Engine.VESPA: told_to_vespa,
    Engine.WEAVIATE: _weaviate,
    Engine.MILVUS: _milvus,
}
