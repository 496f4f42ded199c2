"""The requests of Elasticsearch and OpenSearch: index, documents and query.

Both are built on Lucene and share the index body, the bulk interface and the `match` query. They differ in the fields
of vectors and of term weights, in the scripts that score late interaction, and in how they mix several queries.

Late interaction is a script that scores every passage with tokens. A script must not return a negative score, so the
scripts return the mean cosine of `retrieval.late` on another scale: + 1 in Elasticsearch, times the number of the
question's tokens and between 0 and 1 for each of them in OpenSearch.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from mrc_workbench.retrieval.dense import HNSW_CANDIDATES, HNSW_CANDIDATES_TO_BUILD, HNSW_NEIGHBOURS, IndexKind
from mrc_workbench.retrieval.hybrid import RRF_CONSTANT
from mrc_workbench.retrieval.takeaway.asking import (
    HITS,
    SHOWN,
    Body,
    Request,
    Told,
    hits_at,
    is_exact,
    mark,
    presence_field,
)
from mrc_workbench.retrieval.takeaway.fusion import Engine, Mix
from mrc_workbench.retrieval.takeaway.signals import LateTokens, Signal, SparseTerms, Terms, Vectors

_MATCH_NONE: Body = {"match_none": {}}

_LINKS = {"m": HNSW_NEIGHBOURS, "ef_construction": HNSW_CANDIDATES_TO_BUILD}  # of a graph


def elasticsearch(mix: Mix, index: str) -> Told:
    """Return the requests of Elasticsearch."""
    kinds = {IndexKind.EXACT: "flat", IndexKind.INT8: "int8_flat"}

    def field_of(signal: Signal) -> Body:
        if isinstance(signal, LateTokens):
            return {"type": "rank_vectors", "dims": signal.vectors.vectors.shape[1]}
        if isinstance(signal, SparseTerms):
            return {"type": "sparse_vector"}
        if isinstance(signal, Terms):
            return _text_field(signal)
        kind = kinds.get(signal.index, "hnsw")
        options = {"type": kind, **(_LINKS if kind == "hnsw" else {})}
        dims = signal.vectors.shape[1]
        return {"type": "dense_vector", "dims": dims, "similarity": "cosine", "index_options": options}

    def asked(signal: Signal) -> Body:
        if isinstance(signal, Terms):
            return {"standard": {"query": _match(signal)}}
        if isinstance(signal, LateTokens):
            return {"standard": {"query": _max_sim(signal)}}
        if isinstance(signal, SparseTerms):  # versions differ in whether they prune by default
            weights = {"field": signal.field, "query_vector": mark(signal), "prune": False}
            return {"standard": {"query": {"sparse_vector": weights}}}
        of = {"field": signal.field, "query_vector": mark(signal), "k": mix.depth}
        return {"knn": {**of, "num_candidates": max(mix.depth, HNSW_CANDIDATES)}}

    retrievers = [asked(signal) for signal in mix.signals]
    weighed = [{"retriever": one, "weight": weight} for one, weight in zip(retrievers, mix.weights, strict=True)]
    window = {"rank_window_size": mix.depth}
    if len(retrievers) == 1:
        retriever = retrievers[0]
    elif mix.by_rank:  # without weights, earlier versions take it too
        children = weighed if is_weighted(mix) else retrievers
        retriever = {"rrf": {"retrievers": children, "rank_constant": RRF_CONSTANT, **window}}
    else:
        normalised = [one | {"normalizer": mix.technique} for one in weighed]
        retriever = {"linear": {"retrievers": normalised, **window}}
    told = _searched(mix, index, field_of, {"retriever": retriever})
    nothing = {
        "knn": {"standard": {"query": _MATCH_NONE}},
        "script_score": _MATCH_NONE,
        "sparse_vector": _MATCH_NONE,
    }
    return replace(told, nothing=nothing, free=_free(mix, index, retrievers) if has_free_queries(mix) else {})


def has_free_queries(mix: Mix) -> bool:
    """Whether Elasticsearch's free licence answers one query a signal where it does not answer the mixed query."""
    return len(mix.signals) > 1 and not any(isinstance(signal, LateTokens) for signal in mix.signals)


def _max_sim(signal: LateTokens) -> Body:
    source = f"maxSimDotProduct(params.query_vector, '{signal.field}') / params.query_vector.size() + 1.0"
    script = {"source": source, "params": {"query_vector": mark(signal)}}
    return {"script_score": {"query": {"exists": {"field": signal.field}}, "script": script}}


def is_weighted(mix: Mix) -> bool:
    """Whether signals count differently."""
    return len({round(weight, 5) for weight in mix.weights}) > 1


def _free(mix: Mix, index: str, retrievers: Sequence[Body]) -> Body:
    """Return what mixes the results of one query a signal: neither is part of a paid licence."""
    shown = {"size": mix.depth, "_source": [*SHOWN]}
    queries = [asdict(Request("POST", f"/{index}/_search", {"retriever": one, **shown})) for one in retrievers]
    return {
        "queries": queries,
        "weights": list(mix.weights),
        "by_rank": mix.by_rank,
        "rank_constant": RRF_CONSTANT,
    }


def opensearch(mix: Mix, index: str) -> Told:
    """Return the requests of OpenSearch."""

    def field_of(signal: Signal) -> Body:
        if isinstance(signal, LateTokens):  # the script reads them from the document as it was sent
            return {"type": "object", "enabled": False}
        if isinstance(signal, SparseTerms):
            return {"type": "rank_features"}
        if isinstance(signal, Terms):
            return _text_field(signal)
        space = {"type": "knn_vector", "dimension": signal.vectors.shape[1]}
        if is_exact(signal):
            return space
        method = {"name": "hnsw", "space_type": "innerproduct", "engine": "faiss", "parameters": _LINKS}
        return space | {"method": method}

    def asked(signal: Signal) -> Body:
        if isinstance(signal, Terms):
            return _match(signal)
        if isinstance(signal, LateTokens):
            return _late_interaction(signal)
        if isinstance(signal, SparseTerms):
            return {"neural_sparse": {signal.field: {"query_tokens": mark(signal)}}}
        if not is_exact(signal):
            return {"knn": {signal.field: {"vector": mark(signal), "k": mix.depth}}}
        params = {"field": signal.field, "query_value": mark(signal), "space_type": "cosinesimil"}
        script = {"lang": "knn", "source": "knn_score", "params": params}
        return {"script_score": {"query": {"exists": {"field": signal.field}}, "script": script}}

    queries = [asked(signal) for signal in mix.signals]
    if len(queries) == 1:
        return _searched(mix, index, field_of, {"query": queries[0]})
    weights = {"weights": list(mix.weights)}
    if mix.by_rank:
        by_rank = {"technique": "rrf", "rank_constant": RRF_CONSTANT, "parameters": weights}
        processor: Body = {"score-ranker-processor": {"combination": by_rank}}
    else:
        by_score = {"technique": "arithmetic_mean", "parameters": weights}
        normalization = {"technique": mix.technique}
        processor = {"normalization-processor": {"normalization": normalization, "combination": by_score}}
    pipeline = Request("PUT", f"/_search/pipeline/{index}", {"phase_results_processors": [processor]})
    hybrid = {"query": {"hybrid": {"queries": queries, "pagination_depth": mix.depth}}}
    return _searched(mix, index, field_of, hybrid, [pipeline])


def _late_interaction(signal: LateTokens) -> Body:
    """Return the query of late interaction by cosines, the only space whose score all versions order alike."""
    source = f"lateInteractionScore(params.query_vectors, '{signal.field}', params._source, params.space_type)"
    params = {"query_vectors": mark(signal), "space_type": "cosinesimil"}
    has_tokens = {"term": {presence_field(signal): True}}
    return {"script_score": {"query": has_tokens, "script": {"source": source, "params": params}}}


def _searched(
    mix: Mix, index: str, field_of: Callable[[Signal], Body], query: Body, pipeline: Sequence[Request] = ()
) -> Told:
    """What Elasticsearch and OpenSearch are both told; one shard, so that all passages are counted together."""
    plain = {"type": "text", "index": False}
    fields: Body = {"row": {"type": "integer"}, "passage": {"type": "keyword"}, "title": plain, "text": plain}
    similarities, settings = {}, {"number_of_shards": 1, "number_of_replicas": 0}
    for signal in mix.signals:
        fields[signal.field] = field_of(signal)
        if isinstance(signal, Terms):
            similarities[signal.field] = {"type": "BM25", "k1": signal.k1, "b": signal.b}
        elif mix.engine is Engine.OPENSEARCH and isinstance(signal, LateTokens):
            fields[presence_field(signal)] = {"type": "boolean"}
        elif mix.engine is Engine.OPENSEARCH and isinstance(signal, Vectors) and not is_exact(signal):
            settings |= {"knn": True}
    body = {
        "settings": {"index": settings | ({"similarity": similarities} if similarities else {})},
        "mappings": {"dynamic": "strict", "properties": fields},
    }
    path = f"/{index}/_search" + (f"?search_pipeline={index}" if pipeline else "")
    return Told(
        index,
        setup=[Request("PUT", f"/{index}", body), *pipeline],
        exists=Request("HEAD", f"/{index}"),
        remove=Request("DELETE", f"/{index}"),
        bulk={"form": "lines", "path": f"/{index}/_bulk"},
        finish=[Request("POST", f"/{index}/_refresh")],
        query=Request("POST", path, query | {"size": HITS, "_source": [*SHOWN]}),
        hits=hits_at("hits", "hits", fields="_source", score=["_score"]),
        nothing=dict.fromkeys(("knn", "script_score", "neural_sparse"), _MATCH_NONE),
    )


def _text_field(signal: Terms) -> Body:
    return {"type": "text", "analyzer": "whitespace", "similarity": signal.field}


def _match(signal: Terms) -> Body:
    return {"match": {signal.field: {"query": mark(signal), "analyzer": "whitespace"}}}
