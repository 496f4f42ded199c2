"""The requests of each engine: to create its index, to send documents, and to search.

Requests of the HTTP interface, or arguments of Milvus's client, are data that the folder's script sends. It replaces
marks such as `{{terms}}` and `{{vector}}` by the values of a query. Fields contain the tokens of this program, and the
engine does not analyze them, so that BM25 counts the same terms.

Elasticsearch and OpenSearch are built on Lucene and share the index body, the bulk interface and the `match` query.
They differ in the fields of vectors and term weights, the scripts of late interaction, and the fusion of queries.

Late interaction is a script that scores every passage with tokens. Scores of scripts must not be negative: the mean
cosine of late interaction gets + 1 in Elasticsearch; OpenSearch sums values between 0 and 1 over the query's tokens.

Vespa gets an application with one schema: the first phase ranks the results of all signals, the global one fuses them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from mrc_workbench.retrieval.combine import RRF_CONSTANT
from mrc_workbench.retrieval.dense import HNSW_CANDIDATES, HNSW_CANDIDATES_TO_BUILD, HNSW_NEIGHBOURS, IndexKind
from mrc_workbench.retrieval.export.fusion import ExportTarget, Mix, candidate_count, first_phase_signals
from mrc_workbench.retrieval.export.payloads import presence_field
from mrc_workbench.retrieval.export.signals import LateTokens, Signal, SparseTerms, Terms, Vectors
from mrc_workbench.retrieval.milvus import index_parameters
from mrc_workbench.retrieval.report.words import template

HITS = 10  # default number of passages
HIT_FIELDS = ("row", "passage", "title")
NAMESPACE = "mrc"  # of Vespa's document ids
Body = dict[str, Any]
_HERE = Path(__file__).parent
_CLUSTER = "passages"  # of Vespa
_MATCH_NONE: Body = {"match_none": {}}
_HNSW_OPTIONS = {"m": HNSW_NEIGHBOURS, "ef_construction": HNSW_CANDIDATES_TO_BUILD}


@dataclass(frozen=True)
class EngineRequest:
    """One request of an engine's HTTP interface; the body is JSON, or None."""

    method: str
    path: str
    body: Body | None = None


@dataclass(frozen=True)
class EngineConfig:
    """The requests of an engine, or the arguments of Milvus's client.

    `hit_paths` locate hits in a response, and fields and score (or cosine distance) in a hit. `free_queries` search one
    signal each, without a paid licence. By kind of query, `empty_queries` have no results, for questions without
    values. `files` are further files by name.
    """

    index: str
    setup: Sequence[EngineRequest] = ()
    exists: EngineRequest | None = None
    remove: EngineRequest | None = None
    bulk: Mapping[str, str] = field(default_factory=dict)
    finish: Sequence[EngineRequest] = ()
    query: EngineRequest | None = None
    hit_paths: Body = field(default_factory=dict)
    free_queries: Body = field(default_factory=dict)
    empty_queries: Body = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    client: Body = field(default_factory=dict)


def engine_config(mix: Mix, index: str) -> EngineConfig:
    """Return the requests for the engine of the mix; the name of the index has lower-case letters, digits and `_`."""
    engines = {
        ExportTarget.ELASTICSEARCH: elasticsearch,
        ExportTarget.OPENSEARCH: opensearch,
        ExportTarget.VESPA: _vespa,
        ExportTarget.WEAVIATE: _weaviate,
        ExportTarget.MILVUS: _milvus,
    }
    return engines[mix.engine](mix, index)


def mark(signal: Signal) -> str:
    """Return the mark of a query's value for a signal."""
    return "{{" + signal.field + "}}"


def is_exact(signal: Vectors) -> bool:
    """Whether the index compares all vectors."""
    return signal.index in (IndexKind.EXACT, IndexKind.INT8)


def elasticsearch(mix: Mix, index: str) -> EngineConfig:
    """Return the requests of Elasticsearch."""
    kinds = {IndexKind.EXACT: "flat", IndexKind.INT8: "int8_flat"}
    fields: dict[str, Body] = {}
    retrievers: list[Body] = []
    for signal in mix.signals:
        name = signal.field
        value = mark(signal)
        if isinstance(signal, LateTokens):
            fields[name] = {"type": "rank_vectors", "dims": signal.vectors.vectors.shape[1]}
            source = f"maxSimDotProduct(params.query_vector, '{name}') / params.query_vector.size() + 1.0"
            retrievers.append({"standard": {"query": _scripted(name, source=source, params={"query_vector": value})}})
        elif isinstance(signal, SparseTerms):
            fields[name] = {"type": "sparse_vector"}
            weights = {"field": name, "query_vector": value, "prune": False}  # the default depends on the version
            retrievers.append({"standard": {"query": {"sparse_vector": weights}}})
        elif isinstance(signal, Terms):
            fields[name] = _text_field(signal)
            retrievers.append({"standard": {"query": _match(signal)}})
        else:
            kind = kinds.get(signal.index, "hnsw")
            options = {"type": kind, **(_HNSW_OPTIONS if kind == "hnsw" else {})}
            dims = signal.vectors.shape[1]
            fields[name] = {"type": "dense_vector", "dims": dims, "similarity": "cosine", "index_options": options}
            knn = {"field": name, "query_vector": value, "k": mix.depth}
            retrievers.append({"knn": {**knn, "num_candidates": max(mix.depth, HNSW_CANDIDATES)}})
    weighted = [{"retriever": body, "weight": weight} for body, weight in zip(retrievers, mix.weights, strict=True)]
    window = {"rank_window_size": mix.depth}
    if len(retrievers) == 1:
        retriever = retrievers[0]
    elif mix.by_rank:  # earlier versions do not support weights
        children = weighted if is_weighted(mix) else retrievers
        retriever = {"rrf": {"retrievers": children, "rank_constant": RRF_CONSTANT, **window}}
    else:
        normalised = [body | {"normalizer": mix.technique} for body in weighted]
        retriever = {"linear": {"retrievers": normalised, **window}}
    config = _lucene_config(mix, index, fields, {"retriever": retriever})
    empty_queries = dict.fromkeys(("script_score", "sparse_vector"), _MATCH_NONE)
    config = replace(config, empty_queries=empty_queries | {"knn": {"standard": {"query": _MATCH_NONE}}})
    if not has_free_queries(mix):
        return config
    result_options = {"size": mix.depth, "_source": [*HIT_FIELDS]}
    bodies = ({"retriever": body, **result_options} for body in retrievers)
    queries = [asdict(EngineRequest("POST", f"/{index}/_search", body)) for body in bodies]
    fusion = {"weights": list(mix.weights), "by_rank": mix.by_rank, "rank_constant": RRF_CONSTANT}
    return replace(config, free_queries={"queries": queries, **fusion})


def has_free_queries(mix: Mix) -> bool:
    """Whether Elasticsearch's free licence supports a query for each signal, though not the fused query."""
    return len(mix.signals) > 1 and not any(isinstance(signal, LateTokens) for signal in mix.signals)


def is_weighted(mix: Mix) -> bool:
    """Whether signals have different weights."""
    return len({round(weight, 5) for weight in mix.weights}) > 1


def opensearch(mix: Mix, index: str) -> EngineConfig:
    """Return the requests of OpenSearch."""
    fields: dict[str, Body] = {}
    queries: list[Body] = []
    for signal in mix.signals:
        name = signal.field
        value = mark(signal)
        if isinstance(signal, Terms):
            fields[name] = _text_field(signal)
            queries.append(_match(signal))
        elif isinstance(signal, LateTokens):
            fields[name] = {"type": "object", "enabled": False}  # the script reads the source document
            fields[presence_field(signal)] = {"type": "boolean"}
            source = f"lateInteractionScore(params.query_vectors, '{name}', params._source, params.space_type)"
            # the cosine is the only space with the same order in all versions
            script = {"source": source, "params": {"query_vectors": value, "space_type": "cosinesimil"}}
            has_tokens = {"term": {presence_field(signal): True}}
            queries.append({"script_score": {"query": has_tokens, "script": script}})
        elif isinstance(signal, SparseTerms):
            fields[name] = {"type": "rank_features"}
            queries.append({"neural_sparse": {name: {"query_tokens": value}}})
        else:
            fields[name] = {"type": "knn_vector", "dimension": signal.vectors.shape[1]}
            if is_exact(signal):
                params = {"field": name, "query_value": value, "space_type": "cosinesimil"}
                queries.append(_scripted(name, lang="knn", source="knn_score", params=params))
            else:
                method = {"name": "hnsw", "space_type": "innerproduct", "engine": "faiss", "parameters": _HNSW_OPTIONS}
                fields[name] |= {"method": method}
                queries.append({"knn": {name: {"vector": value, "k": mix.depth}}})
    if len(queries) == 1:
        return _lucene_config(mix, index, fields, {"query": queries[0]})
    weights = {"weights": list(mix.weights)}
    if mix.by_rank:
        by_rank = {"technique": "rrf", "rank_constant": RRF_CONSTANT, "parameters": weights}
        processor: Body = {"score-ranker-processor": {"combination": by_rank}}
    else:
        by_score = {"technique": "arithmetic_mean", "parameters": weights}
        normalization = {"technique": mix.technique}
        processor = {"normalization-processor": {"normalization": normalization, "combination": by_score}}
    pipeline = EngineRequest("PUT", f"/_search/pipeline/{index}", {"phase_results_processors": [processor]})
    hybrid = {"query": {"hybrid": {"queries": queries, "pagination_depth": mix.depth}}}
    return _lucene_config(mix, index, fields, hybrid, [pipeline])


def _lucene_config(
    mix: Mix, index: str, signal_fields: dict[str, Body], query: Body, pipeline: Sequence[EngineRequest] = ()
) -> EngineConfig:
    """Return the common requests of Elasticsearch and OpenSearch; one shard, for global term statistics."""
    plain = {"type": "text", "index": False}
    fields: Body = {"row": {"type": "integer"}, "passage": {"type": "keyword"}, "title": plain, "text": plain}
    settings: Body = {"number_of_shards": 1, "number_of_replicas": 0}
    if any("method" in field for field in signal_fields.values()):
        settings |= {"knn": True}
    terms = [signal for signal in mix.signals if isinstance(signal, Terms)]
    similarities = {signal.field: {"type": "BM25", "k1": signal.k1, "b": signal.b} for signal in terms}
    body = {
        "settings": {"index": settings | ({"similarity": similarities} if similarities else {})},
        "mappings": {"dynamic": "strict", "properties": fields | signal_fields},
    }
    path = f"/{index}/_search" + (f"?search_pipeline={index}" if pipeline else "")
    return EngineConfig(
        index,
        setup=[EngineRequest("PUT", f"/{index}", body), *pipeline],
        exists=EngineRequest("HEAD", f"/{index}"),
        remove=EngineRequest("DELETE", f"/{index}"),
        bulk={"form": "lines", "path": f"/{index}/_bulk"},
        finish=[EngineRequest("POST", f"/{index}/_refresh")],
        query=EngineRequest("POST", path, query | {"size": HITS, "_source": [*HIT_FIELDS]}),
        hit_paths={"list": ["hits", "hits"], "fields": "_source", "score": ["_score"], "is_distance": False},
        empty_queries=dict.fromkeys(("knn", "script_score", "neural_sparse"), _MATCH_NONE),
    )


def _text_field(signal: Terms) -> Body:
    return {"type": "text", "analyzer": "whitespace", "similarity": signal.field}


def _match(signal: Terms) -> Body:
    return {"match": {signal.field: {"query": mark(signal), "analyzer": "whitespace"}}}


def _scripted(field: str, **script: object) -> Body:
    return {"script_score": {"query": {"exists": {"field": field}}, "script": script}}


def _weaviate(mix: Mix, index: str) -> EngineConfig:
    name = index.capitalize()
    terms = next((item for item in mix.signals if isinstance(item, Terms)), None)
    vectors = next((item for item in mix.signals if isinstance(item, Vectors)), None)
    plain = {"dataType": ["text"], "indexSearchable": False, "indexFilterable": False}
    properties: list[Body] = [{"name": "row", "dataType": ["int"]}]
    properties += [{"name": item, **plain} for item in ("passage", "title", "text")]
    # without stop words: all tokens count
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
        # otherwise a server may quantize vectors
        "vectorIndexConfig": {"distance": "cosine", "skipDefaultQuantization": True} | ({} if exact else graph),
        "invertedIndexConfig": inverted,
        "properties": properties,
    }
    if terms and vectors:
        alpha = mix.weights[mix.signals.index(vectors)]
        fusion = "rankedFusion" if mix.by_rank else mix.technique
        search_argument = (
            f"hybrid: {{query: {mark(terms)}, vector: {mark(vectors)}, alpha: {alpha}, "
            f'fusionType: {fusion}, properties: ["{terms.field}"]}}'
        )
    elif terms:
        search_argument = f'bm25: {{query: {mark(terms)}, properties: ["{terms.field}"]}}'
    else:
        search_argument = f"nearVector: {{vector: {mark(cast(Signal, vectors))}}}"
    score = "score" if terms else "distance"
    fields = f"row passage title _additional {{ {score} }}"
    query = f"{{ Get {{ {name}(limit: {mix.depth}, {search_argument}) {{ {fields} }} }} }}"
    vector_field = vectors.field if vectors else ""
    hit_paths = {"list": ["data", "Get", name], "fields": "", "score": ["_additional", score], "is_distance": not terms}
    return EngineConfig(
        name,
        setup=[EngineRequest("POST", "/v1/schema", body)],
        exists=EngineRequest("GET", f"/v1/schema/{name}"),
        remove=EngineRequest("DELETE", f"/v1/schema/{name}"),
        bulk={"form": "objects", "path": "/v1/batch/objects", "class": name, "vector": vector_field},
        query=EngineRequest("POST", "/v1/graphql", {"query": query}),
        hit_paths=hit_paths,
    )


def _milvus(mix: Mix, index: str) -> EngineConfig:
    fields: list[Body] = []
    for signal in mix.signals:
        if isinstance(signal, Terms | SparseTerms):
            search_options = {"metric_type": "IP", "params": {}}
            sparse_index = {"index_type": "SPARSE_INVERTED_INDEX", "build": {}, "search": search_options}
            fields.append({"name": signal.field, "dim": 0, **sparse_index})
        elif isinstance(signal, Vectors):
            kind, build, search = index_parameters(signal.index, len(signal.vectors))
            vector_index = {"index_type": kind, "build": build, "search": search}
            fields.append({"name": signal.field, "dim": signal.vectors.shape[1], **vector_index})
    ranker = {"weights": None if mix.by_rank else list(mix.weights), "constant": RRF_CONSTANT}
    return EngineConfig(index, client={"collection": index, "fields": fields, "depth": mix.depth, "ranker": ranker})


def _vespa(mix: Mix, index: str) -> EngineConfig:
    """Return the application, with a schema of the index's name, and the query."""
    parts = [_schema_field(signal, mix.depth) for signal in mix.signals]
    first = first_phase_signals(mix)
    first_phase_terms = [(mix.weights[row] / mix.units[row] / parts[row].factor, parts[row].score) for row in first]
    fusion_expression = "reciprocal_rank({}, " + f"{RRF_CONSTANT})" if mix.by_rank else "normalize_linear({})"
    weighted = zip(mix.weights, parts, strict=True)
    is_single = len(parts) == 1
    first_phase = " + ".join(f"{weight:.9g} * {score}" for weight, score in first_phase_terms)
    global_phase = " + ".join(f"{weight} * {fusion_expression.format(part.score)}" for weight, part in weighted)
    schema = template(_HERE / "vespa.sd.jinja", keep_newline=True).render(
        index=index,
        parts=parts,
        properties=[line for part in parts for line in part.properties],
        first=parts[0].score if is_single else first_phase,
        # a tensor scores all passages, also those that share no term
        drops_others=is_single and isinstance(mix.signals[0], SparseTerms),
        mixed="" if is_single else global_phase,
        candidates=candidate_count(mix),
        neighbours=HNSW_NEIGHBOURS,
        candidates_to_build=HNSW_CANDIDATES_TO_BUILD,
    )
    services = template(_HERE / "services.xml.jinja", autoescape=True, keep_newline=True)
    matches = " or ".join(parts[row].match for row in first)
    yql = f"select {', '.join(HIT_FIELDS)} from {index} where {matches}"  # noqa: S608 - no text of a user
    query_inputs = {f"input.query(query_{part.name})" if part.tensor else part.name: part.mark for part in parts}
    documents_path = f"/document/v1/{NAMESPACE}/{index}/docid"
    return EngineConfig(
        index,
        exists=EngineRequest("GET", f"{documents_path}?cluster={_CLUSTER}&wantedDocumentCount=1"),
        remove=EngineRequest("DELETE", f"{documents_path}?selection=true&cluster={_CLUSTER}"),
        bulk={"form": "puts", "path": f"{documents_path}/"},
        query=EngineRequest("POST", "/search/", {"yql": yql, "ranking": "exported", "hits": HITS, **query_inputs}),
        hit_paths={"list": ["root", "children"], "fields": "fields", "score": ["relevance"], "is_distance": False},
        files={
            f"application/schemas/{index}.sd": schema,
            "application/services.xml": services.render(index=index, cluster=_CLUSTER),
        },
    )


@dataclass(frozen=True)
class _SchemaField:
    """A signal in the schema: its field, its score, and the mark of a query's value.

    The `score` is `factor` times the score here, and may be a `function`. Text has no `tensor`; that of a query is
    `query_tensor`, if it differs.
    """

    name: str
    mark: str
    score: str
    match: str = "true"
    tensor: str = ""
    query_tensor: str = ""
    function: str = ""
    properties: tuple[str, ...] = ()
    factor: float = 1.0
    is_vector: bool = False
    has_graph: bool = False


def _schema_field(signal: Signal, depth: int) -> _SchemaField:
    name = signal.field
    value = mark(signal)
    product = f"query(query_{name}) * attribute({name})"
    if isinstance(signal, Terms):
        options = {"k1": signal.k1, "b": signal.b, "averageFieldLength": round(signal.mean_length, 4)}
        properties = tuple(f'bm25({name}).{option}: "{number}"' for option, number in options.items())
        match = f'({{defaultIndex: "{name}", grammar: "any"}}userInput(@{name}))'
        factor = signal.k1 + 1  # Vespa's constant factor
        return _SchemaField(name, value, f"bm25({name})", match, properties=properties, factor=factor)
    if isinstance(signal, LateTokens):
        tensor = f"tensor<float>(token{{}},x[{signal.vectors.vectors.shape[1]}])"
        function = f"sum(reduce(sum({product}, x), max, token), query_token)"
        query_tensor = tensor.replace("token{}", "query_token{}")
        return _SchemaField(name, value, f"late_{name}", tensor=tensor, query_tensor=query_tensor, function=function)
    if isinstance(signal, SparseTerms):
        return _SchemaField(name, value, f"sparse_{name}", tensor="tensor<float>(term{})", function=f"sum({product})")
    exact = is_exact(signal)
    match = f"({{{'approximate: false, ' * exact}targetHits: {depth}}}nearestNeighbor({name}, query_{name}))"
    tensor = f"tensor<float>(x[{signal.vectors.shape[1]}])"
    function = f"sum({product})"
    score = f"cosine_{name}"
    return _SchemaField(name, value, score, match, tensor, function=function, is_vector=True, has_graph=not exact)
