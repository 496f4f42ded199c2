"""What each engine is told: how its index is made, how documents are sent, and how a question is asked.

Tokens are ours, and what an engine does to texts is turned off, so that BM25 counts there what it counts here.

Elasticsearch and OpenSearch are both built on Lucene and share the index body, the bulk interface and the `match`
query. They differ in the fields of vectors and of term weights, in the scripts that score late interaction, and in how
they mix several queries.

Late interaction is a script that scores every passage with tokens. A script must not return a negative score, so the
scripts return the mean cosine of `retrieval.late` on another scale: + 1 in Elasticsearch, times the number of the
question's tokens and between 0 and 1 for each of them in OpenSearch.

Vespa is an application of one schema, whose first look orders all that any signal finds, and whose second mixes it;
what the two come to is told in `retrieval.takeaway.fusion`.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import NamedTuple, cast
from xml.sax.saxutils import quoteattr

from mrc_workbench.retrieval.dense import HNSW_CANDIDATES, HNSW_CANDIDATES_TO_BUILD, HNSW_NEIGHBOURS, IndexKind
from mrc_workbench.retrieval.hybrid import RRF_CONSTANT
from mrc_workbench.retrieval.milvus.retriever import index_of
from mrc_workbench.retrieval.takeaway.asking import (
    HITS,
    NAMESPACE,
    SHOWN,
    Body,
    Request,
    Told,
    hits_at,
    is_exact,
    mark,
    presence_field,
)
from mrc_workbench.retrieval.takeaway.fusion import Engine, Mix, candidates_of, first_look
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


def told_to(mix: Mix, index: str) -> Told:
    """Return what the engine of the mix is told, the index called `index`: small letters, figures and `_`."""
    told = {
        Engine.ELASTICSEARCH: elasticsearch,
        Engine.OPENSEARCH: opensearch,
        Engine.VESPA: _vespa,
        Engine.WEAVIATE: _weaviate,
        Engine.MILVUS: _milvus,
    }
    return told[mix.engine](mix, index)


def _weaviate(mix: Mix, index: str) -> Told:
    name, terms = index.capitalize(), next((one for one in mix.signals if isinstance(one, Terms)), None)
    vectors = next((one for one in mix.signals if isinstance(one, Vectors)), None)
    plain = {"dataType": ["text"], "indexSearchable": False, "indexFilterable": False}
    properties: list[Body] = [{"name": "row", "dataType": ["int"]}]
    properties += [{"name": one, **plain} for one in ("passage", "title", "text")]
    # the words that it would leave out stay, as every token counts here
    inverted: Body = {"stopwords": {"preset": "none"}}
    if terms:
        properties.append({"name": terms.field, **plain, "tokenization": "whitespace", "indexSearchable": True})
        inverted["bm25"] = {"k1": terms.k1, "b": terms.b}
    graph = {"maxConnections": HNSW_NEIGHBOURS, "efConstruction": HNSW_CANDIDATES_TO_BUILD, "ef": HNSW_CANDIDATES}
    exact = vectors is None or is_exact(vectors)
    body = {
        "class": name,
        "vectorizer": "none",
        "vectorIndexType": "flat" if exact else "hnsw",
        # a server may quantize vectors unless told otherwise
        "vectorIndexConfig": {"distance": "cosine", "skipDefaultQuantization": True} | ({} if exact else graph),
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
    score = "score" if terms else "distance"
    query = f"{{ Get {{ {name}(limit: {mix.depth}, {asked}) {{ row passage title _additional {{ {score} }} }} }} }}"
    beside = vectors.field if vectors else ""
    return Told(
        name,
        setup=[Request("POST", "/v1/schema", body)],
        exists=Request("GET", f"/v1/schema/{name}"),
        remove=Request("DELETE", f"/v1/schema/{name}"),
        bulk={"form": "objects", "path": "/v1/batch/objects", "class": name, "vector": beside},
        query=Request("POST", "/v1/graphql", {"query": query}),
        hits=hits_at("data", "Get", name, fields="", score=["_additional", score], is_distance=not terms),
    )


def _milvus(mix: Mix, index: str) -> Told:
    fields: list[Body] = []
    for signal in mix.signals:
        if isinstance(signal, Terms | SparseTerms):
            one = {"index_type": "SPARSE_INVERTED_INDEX", "build": {}, "search": {"metric_type": "IP", "params": {}}}
            fields.append({"name": signal.field, "dim": 0, **one})
        elif isinstance(signal, Vectors):
            kind, build, search = index_of(signal.index, len(signal.vectors))
            of = {"index_type": kind, "build": build, "search": search}
            fields.append({"name": signal.field, "dim": signal.vectors.shape[1], **of})
    ranker = {"weights": None if mix.by_rank else list(mix.weights), "constant": RRF_CONSTANT}
    return Told(index, client={"collection": index, "fields": fields, "depth": mix.depth, "ranker": ranker})


def _vespa(mix: Mix, index: str) -> Told:
    """Return the application, whose schema the index names, and the query."""
    parts, looked = [_part_of(signal, mix.depth) for signal in mix.signals], first_look(mix)
    properties = [line for part in parts for line in part.properties]
    inputs = [f"query({name}) {part.tensor}" for part in parts if part.tensor for name in part.asked]
    profile = ["inputs {", *inputs, "}"] if inputs else []
    profile += [line for part in parts if part.function for line in (f"function {part.score}() {{", part.function, "}")]
    profile += ["rank-properties {", *properties, "}"] if properties else []
    looks = [(mix.weights[place] / mix.units[place] / parts[place].factor, parts[place].score) for place in looked]
    first = " + ".join(f"{weight:.9g} * {score}" for weight, score in looks)
    profile += ["first-phase {", "expression: " + (first if len(parts) > 1 else parts[0].score)]
    # a tensor is compared with every passage: those that share no term are dropped
    profile += ["rank-score-drop-limit: 0.0"] if isinstance(mix.signals[0], SparseTerms) and len(parts) == 1 else []
    profile += ["}"]
    if len(parts) > 1:
        by = "reciprocal_rank({}, " + f"{RRF_CONSTANT})" if mix.by_rank else "normalize_linear({})"
        weighed = zip(mix.weights, parts, strict=True)
        mixed = " + ".join(f"{weight} * {by.format(part.score)}" for weight, part in weighed)
        profile += ["global-phase {", f"rerank-count: {candidates_of(mix)}", f"expression: {mixed}", "}"]
    fields, matches = "\n".join(part.field for part in parts), " or ".join(parts[place].match for place in looked)
    schema = _SCHEMA.format(index=index, fields=fields, profile="\n".join(profile))
    asked = {
        f"input.query({name})" if part.tensor else name: mark for part in parts for name, mark in part.asked.items()
    }
    yql = f"select {', '.join(SHOWN)} from {index} where {matches}"  # noqa: S608 - of our own words
    of_all = f"/document/v1/{NAMESPACE}/{index}/docid"
    return Told(
        index,
        exists=Request("GET", f"{of_all}?cluster={_CLUSTER}&wantedDocumentCount=1"),
        remove=Request("DELETE", f"{of_all}?selection=true&cluster={_CLUSTER}"),
        bulk={"form": "puts", "path": f"{of_all}/"},
        query=Request("POST", "/search/", {"yql": yql, "ranking": "taken_away", "hits": HITS, **asked}),
        hits=hits_at("root", "children", fields="fields", score=["relevance"]),
        files={
            f"application/schemas/{index}.sd": _indented(schema),
            "application/services.xml": _SERVICES.format(type=quoteattr(index), cluster=quoteattr(_CLUSTER)),
        },
    )


class _Part(NamedTuple):
    """A signal in the schema: its field, what scores it, and what of a question it is asked with.

    The `score` is `factor` times what it is here; it is that of a `function`, where there is one.
    """

    field: str
    score: str
    match: str
    asked: dict[str, str]
    tensor: str = ""
    function: str = ""
    properties: tuple[str, ...] = ()
    factor: float = 1.0


def _part_of(signal: Signal, depth: int) -> _Part:
    name, asked = signal.field, {f"asked_{signal.field}": mark(signal)}
    if isinstance(signal, Terms):
        of = {"k1": signal.k1, "b": signal.b, "averageFieldLength": round(signal.mean_length, 4)}
        properties = tuple(f'bm25({name}).{what}: "{value}"' for what, value in of.items())
        match = f'({{defaultIndex: "{name}", grammar: "any"}}userInput(@{name}))'
        field, factor = _TERMS.format(name=name), signal.k1 + 1  # which it multiplies by
        return _Part(field, f"bm25({name})", match, {name: mark(signal)}, properties=properties, factor=factor)
    if isinstance(signal, LateTokens):
        held = f"tensor<float>(token{{}},x[{signal.vectors.vectors.shape[1]}])"
        each = f"reduce(sum(query(asked_{name}) * attribute({name}), x), max, token)"
        function = f"expression: sum({each}, asked)"
        field = _TOKENS.format(name=name, tensor=held)
        return _Part(field, f"late_{name}", "true", asked, held.replace("token{}", "asked{}"), function)
    if isinstance(signal, SparseTerms):
        function = f"expression: sum(query(asked_{name}) * attribute({name}))"
        field = _TOKENS.format(name=name, tensor=_TERM_WEIGHTS)
        return _Part(field, f"sparse_{name}", "true", asked, _TERM_WEIGHTS, function)
    tensor = f"tensor<float>(x[{signal.vectors.shape[1]}])"
    graph = "" if is_exact(signal) else _GRAPH
    field = _VECTOR.format(name=name, tensor=tensor, graph=graph, index="index | " if graph else "")
    match = f"({{{'approximate: false, ' * is_exact(signal)}targetHits: {depth}}}nearestNeighbor({name}, asked_{name}))"
    function = f"expression: sum(query(asked_{name}) * attribute({name}))"
    return _Part(field, f"cosine_{name}", match, asked, tensor, function)


def _indented(text: str) -> str:
    """Return a schema with its blocks indented."""
    lines, depth = [], 0
    for line in (line.strip() for line in text.splitlines()):
        depth -= line.startswith("}")
        lines.append("    " * depth + line)
        depth += line.endswith("{")
    return "\n".join(filter(str.strip, lines)) + "\n"


_CLUSTER = "passages"
_TERM_WEIGHTS = "tensor<float>(term{})"
_TERMS = """field {name} type string {{
indexing: index
index: enable-bm25
stemming: none
normalizing: none
}}"""
_VECTOR = """field {name} type {tensor} {{
indexing: {index}attribute
attribute {{
distance-metric: dotproduct
}}
{graph}
}}"""
_TOKENS = """field {name} type {tensor} {{
indexing: attribute
}}"""
_GRAPH = f"""index {{
hnsw {{
max-links-per-node: {HNSW_NEIGHBOURS}
neighbors-to-explore-at-insert: {HNSW_CANDIDATES_TO_BUILD}
}}
}}"""
_SCHEMA = """schema {index} {{
document {index} {{
field row type int {{
indexing: attribute | summary
}}
field passage type string {{
indexing: attribute | summary
}}
field title type string {{
indexing: summary
}}
field text type string {{
indexing: summary
}}
{fields}
}}
rank-profile taken_away {{
{profile}
}}
}}"""
_SERVICES = """<?xml version="1.0" encoding="utf-8" ?>
<services version="1.0">
    <container id="default" version="1.0">
        <search/>
        <document-api/>
    </container>
    <content id={cluster} version="1.0">
        <min-redundancy>1</min-redundancy>
        <documents>
            <document type={type} mode="index"/>
        </documents>
        <nodes>
            <node hostalias="node1" distribution-key="0"/>
        </nodes>
    </content>
</services>
"""
