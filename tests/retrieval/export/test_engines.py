"""Requests and files of engines, compared with those of their published clients."""

import json
import re
from typing import Any

import elasticsearch
import numpy as np
import opensearchpy
import pytest
from elastic_transport import ApiResponseMeta, BaseNode, HttpHeaders
from elastic_transport._node._base import NodeApiResponse
from vespa import package as vespa
from weaviate.classes.config import Configure, DataType, Property, StopwordsPreset, Tokenization, VectorDistances
from weaviate.collections.classes.config import _CollectionConfigCreate

from mrc_workbench.retrieval.comparison.compare import build_context
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.dense import IndexKind
from mrc_workbench.retrieval.export.engines import EngineRequest, engine_config
from mrc_workbench.retrieval.export.fusion import ExportTarget, Mix, candidate_count
from mrc_workbench.retrieval.export.payloads import _format_question_values, documents, question_values
from mrc_workbench.retrieval.export.scripts.engine import fill_template
from mrc_workbench.retrieval.export.signals import Terms, Vectors
from tests.doubles import PASSAGES, QUESTIONS, KeywordEncoder, small_set, texts_of
from tests.retrieval.compared import BIGRAMS, experiment_of

pytestmark = pytest.mark.slow  # importing the clients of three engines takes seconds
INDEX = "passages_0123456789ab"
WEIGHTS = (0.7, 0.3)
TECHNIQUES = {ExportTarget.OPENSEARCH: "z_score", ExportTarget.WEAVIATE: "relativeScoreFusion"}
sent: list[EngineRequest] = []


class Keywords(Vectors):
    """Vectors of the keyword encoder; the third passage has no known word."""

    def __init__(self, index: IndexKind = IndexKind.EXACT) -> None:
        # type: ignore[assignment]
        self.field = "vector"
        self.name = "dense"
        self.index = index
        self.encoder = KeywordEncoder()
        self.vectors = KeywordEncoder().encode_passages([passage.text for passage in PASSAGES])
        self.vectors[2] = 0


def terms() -> Terms:
    context = build_context(experiment_of(BIGRAMS), small_set())
    return Terms("terms", BM25Spec.model_validate(BIGRAMS), context)


def mix_for(engine: ExportTarget, *, by_rank: bool = False, index: IndexKind = IndexKind.EXACT, alone: int = -1) -> Mix:
    signals: tuple[Terms | Vectors, ...] = (terms(), Keywords(index))
    signals, weights = ((signals[alone],), (1.0,)) if alone >= 0 else (signals, WEIGHTS)
    technique = "rrf" if by_rank else TECHNIQUES.get(engine, "minmax")
    return Mix(engine, signals, weights, (2.0, 0.5)[: len(signals)], 100, technique, by_rank)


class ElasticNode(BaseNode):
    def perform_request(self, method: str, target: str, body: bytes | None = None, **_: Any) -> Any:
        sent.append(EngineRequest(method, target, json.loads(body or b"{}")))
        headers = HttpHeaders({"content-type": "application/json", "x-elastic-product": "Elasticsearch"})
        meta = ApiResponseMeta(200, "1.1", headers, 0.0, self.config)
        return NodeApiResponse(meta, b"{}")


class OpenSearchConnection(opensearchpy.Connection):
    def perform_request(self, method: str, url: str, params: Any = None, body: Any = None, *_: Any, **__: Any) -> Any:
        query = "?" + "&".join(f"{name}={value}" for name, value in params.items()) if params else ""
        sent.append(EngineRequest(method, url + query, json.loads(body or b"{}")))
        return 200, {}, "{}"


@pytest.mark.parametrize("by_rank", [False, True])
@pytest.mark.parametrize("index", [IndexKind.EXACT, IndexKind.HNSW, IndexKind.INT8])
@pytest.mark.parametrize("alone", [-1, 0, 1])
def test_elasticsearch_requests_match_client(by_rank: bool, index: IndexKind, alone: int) -> None:
    config = engine_config(mix_for(ExportTarget.ELASTICSEARCH, by_rank=by_rank, index=index, alone=alone), INDEX)
    client = elasticsearch.Elasticsearch("http://engine:9200", node_class=ElasticNode)
    sent.clear()
    assert config.setup[0].body
    client.indices.create(index=INDEX, **config.setup[0].body)
    query = config.query.body  # type: ignore[union-attr]
    client.search(index=INDEX, retriever=query["retriever"], size=query["size"], source=query["_source"])
    assert sent == [config.setup[0], config.query]
    kind = "retriever" if alone < 0 else ""
    (name,) = query["retriever"]
    assert name == ({True: "rrf", False: "linear"}[by_rank] if kind else ["standard", "knn"][alone])
    if kind:
        assert [entry["weight"] for entry in query["retriever"][name]["retrievers"]] == list(WEIGHTS)


@pytest.mark.parametrize("by_rank", [False, True])
@pytest.mark.parametrize("index", [IndexKind.EXACT, IndexKind.HNSW])
def test_opensearch_requests_match_client(by_rank: bool, index: IndexKind) -> None:
    config = engine_config(mix_for(ExportTarget.OPENSEARCH, by_rank=by_rank, index=index), INDEX)
    client = opensearchpy.OpenSearch("http://engine:9200", connection_class=OpenSearchConnection)
    sent.clear()
    client.indices.create(index=INDEX, body=config.setup[0].body)
    client.search_pipeline.put(id=INDEX, body=config.setup[1].body)
    client.search(index=INDEX, body=config.query.body, params={"search_pipeline": INDEX})  # type: ignore[union-attr]
    assert sent == [*config.setup, config.query]
    (processor,) = config.setup[1].body["phase_results_processors"]
    assert [*processor] == ["score-ranker-processor" if by_rank else "normalization-processor"]
    assert sum(next(iter(processor.values()))["combination"]["parameters"]["weights"]) == 1
    queries = config.query.body["query"]["hybrid"]["queries"]  # type: ignore[union-attr]
    assert [next(iter(entry)) for entry in queries] == ["match", "knn" if index is IndexKind.HNSW else "script_score"]


@pytest.mark.parametrize("index", [IndexKind.EXACT, IndexKind.HNSW])
def test_weaviate_requests_match_client(index: IndexKind) -> None:
    config = engine_config(mix_for(ExportTarget.WEAVIATE, index=index), INDEX)
    cosine = VectorDistances.COSINE
    hnsw = Configure.VectorIndex.hnsw(distance_metric=cosine, max_connections=32, ef_construction=128, ef=256)
    plain = {"data_type": DataType.TEXT, "index_searchable": False, "index_filterable": False}
    searched = plain | {"index_searchable": True, "tokenization": Tokenization.WHITESPACE}
    theirs = _CollectionConfigCreate(
        name=INDEX.capitalize(),
        properties=[
            Property(name="row", data_type=DataType.INT),
            *(Property(name=name, **plain) for name in ("passage", "title", "text")),
            Property(name="terms", **searched),
        ],
        vectorizer_config=Configure.Vectorizer.none(),
        vector_index_config=hnsw if index is IndexKind.HNSW else Configure.VectorIndex.flat(distance_metric=cosine),
        inverted_index_config=Configure.inverted_index(bm25_b=0.4, bm25_k1=0.9, stopwords_preset=StopwordsPreset.NONE),
    )
    expected = theirs._to_dict()
    expected["vectorIndexConfig"]["skipDefaultQuantization"] = True  # newer than this client
    assert config.setup[0].body == expected
    query_text = fill_template(config.query.body, {"terms": 'a "b" {{vector}}', "vector": [0.5, 1.0]})["query"]  # type: ignore[union-attr]
    assert r'hybrid: {query: "a \"b\" {{vector}}", vector: [0.5, 1.0], alpha: 0.3, ' in query_text
    assert "fusionType: relativeScoreFusion" in query_text
    assert query_text.count("{") == query_text.count("}")


@pytest.mark.parametrize("by_rank", [False, True])
def test_vespa_application_matches_client(by_rank: bool) -> None:
    mix = mix_for(ExportTarget.VESPA, by_rank=by_rank)
    config = engine_config(mix, INDEX)
    first = f"{0.7 / 2 / 1.9:.9g} * bm25(terms) + {0.3 / 0.5:.9g} * cosine_vector"
    by = "reciprocal_rank({}, 60)" if by_rank else "normalize_linear({})"
    scores = ("bm25(terms)", "cosine_vector")
    mixed = " + ".join(f"{weight} * {by.format(score)}" for weight, score in zip(WEIGHTS, scores, strict=True))
    length = f"{np.mean([len(text.split()) for text in mix.signals[0].passage_values(0, 5)]):.4f}".rstrip("0")
    properties = {"k1": "0.9", "b": "0.4", "averageFieldLength": length}
    theirs = vespa.Schema(
        name=INDEX,
        document=vespa.Document(
            fields=[
                vespa.Field("row", "int", ["attribute", "summary"]),
                vespa.Field("passage", "string", ["attribute", "summary"]),
                *(vespa.Field(name, "string", ["summary"]) for name in ("title", "text")),
                vespa.Field("terms", "string", ["index"], index="enable-bm25", stemming="none"),
                vespa.Field("vector", "tensor<float>(x[6])", ["attribute"], attribute=["distance-metric: dotproduct"]),
            ]
        ),
        rank_profiles=[
            vespa.RankProfile(
                "exported",
                inputs=[("query(query_vector)", "tensor<float>(x[6])")],
                functions=[vespa.Function("cosine_vector", "sum(query(query_vector) * attribute(vector))")],
                rank_properties=[(f"bm25(terms).{name}", value) for name, value in properties.items()],
                first_phase=first,
                global_phase=vespa.GlobalPhaseRanking(expression=mixed, rerank_count=candidate_count(mix)),
            )
        ],
    )
    ours = config.files[f"application/schemas/{INDEX}.sd"].replace("            normalizing: none\n", "")
    assert parts_of(ours) == parts_of(theirs.schema_to_text)
    nodes = re.findall(r"<(\w+[\w-]*)", vespa.ApplicationPackage(name="passages", schema=[theirs]).services_to_text)
    assert {*re.findall(r"<(\w+[\w-]*)", config.files["application/services.xml"])} <= {*nodes, "min-redundancy"}


def parts_of(schema: str) -> list[str]:
    """The statements of a schema in no order, an expression in one line."""
    flat = re.sub(r"expression \{\s*(.*?)\s*\}", r"expression: \1", schema)
    return sorted(line.strip() for line in flat.splitlines() if line.strip())


def test_documents_and_questions_share_terms_and_vectors() -> None:
    for engine in (ExportTarget.ELASTICSEARCH, ExportTarget.WEAVIATE, ExportTarget.VESPA, ExportTarget.MILVUS):
        mix = mix_for(engine)
        held = documents(mix, small_set().passages, 0, len(PASSAGES))
        values_by_field = {entry.field: question_values(engine, entry, texts_of(QUESTIONS)) for entry in mix.signals}
        assert [entry["passage"] for entry in held] == [passage.id for passage in PASSAGES]
        words = [set(entry["terms"] if engine is ExportTarget.MILVUS else entry["terms"].split()) for entry in held]
        for row, question in enumerate(QUESTIONS[:5]):  # a passage shares most of its terms with its own question
            value = values_by_field["terms"][row]
            of = set(value if engine is ExportTarget.MILVUS else value.split())
            nearest = int(np.argmax([len(of & entry) for entry in words]))
            assert nearest == small_set().row_of_passage[question.relevant[0]]
        if engine is ExportTarget.VESPA:
            assert all(re.fullmatch("[a-p]{16}", word) for entry in words for word in entry)
        assert ("vector" in held[2]) == (engine is not ExportTarget.ELASTICSEARCH)  # it takes no vector of length 0


def test_fills_template_marks_once_as_json() -> None:
    values = {"terms": 'say "{{vector}}"', "vector": [1.0]}
    template = {"a": ["{{terms}}", {"b": "{{vector}}"}], "c": "x {{terms}} y", "d": 3}
    expected = {"a": [values["terms"], {"b": [1.0]}], "c": 'x "say \\"{{vector}}\\"" y', "d": 3}
    assert fill_template(template, values) == expected
    with pytest.raises(KeyError):
        fill_template("{{unknown}}", values)


def test_padded_vectors_keep_dot_product_order() -> None:
    """OpenSearch ignores lengths, and refuses vectors of length 0."""
    rng = np.random.default_rng(0)
    passages = rng.normal(size=(30, 8))
    passages /= np.linalg.norm(passages, axis=1, keepdims=True)
    weights = np.array([2.0, 0.0, 0.5, 1.5])
    query_vectors = rng.normal(size=(4, 8))
    query_vectors *= (weights / np.linalg.norm(query_vectors, axis=1))[:, None]

    def formatted(engine: ExportTarget, *, is_weighted: bool) -> np.ndarray:
        values = _format_question_values(engine, "tokens", [query_vectors.tolist()], is_weighted=is_weighted)
        return np.array(*values)

    longer = formatted(ExportTarget.OPENSEARCH, is_weighted=True)
    held = np.hstack([passages, np.zeros((30, 1))])
    assert (np.linalg.norm(longer, axis=1) > 0).all()
    cosines = longer @ held.T / np.linalg.norm(longer, axis=1, keepdims=True)
    np.testing.assert_allclose(cosines, query_vectors @ passages.T / 2.0, atol=1e-4)
    assert formatted(ExportTarget.OPENSEARCH, is_weighted=False).shape == (4, 8)
    assert formatted(ExportTarget.ELASTICSEARCH, is_weighted=True).shape == (4, 8)
