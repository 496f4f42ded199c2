"""The contract of all retrievers."""

import atexit
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.models.sources import Meter, ModelSource
from mrc_workbench.retrieval import milvus_connection as connection
from mrc_workbench.retrieval.combine import Fusion, Hybrid, RerankedRetriever
from mrc_workbench.retrieval.comparison import experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, HttpSpec, PluginSpec
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, RetrieverContext, Spec
from mrc_workbench.retrieval.dense import Dense, IndexKind, SparseRetriever
from mrc_workbench.retrieval.lexical import BM25Engine
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options, WindowedBM25
from mrc_workbench.retrieval.milvus import EngineFusion, MilvusRetriever, TermField, VectorField
from mrc_workbench.retrieval.milvus_connection import MilvusSettings, milvus_settings
from mrc_workbench.retrieval.rankings import Retriever
from tests.doubles import PASSAGES, QUESTIONS, KeywordEncoder, KeywordTerms, KeywordTokens, SharedWordScorer, texts_of
from tests.milvus_server import serving
from tests.retrieval.compared import assert_equal_rankings
from tests.search_server import SearchServer, searching

Make = Callable[[Sequence[Passage]], Retriever]
# more passages than the small set's, in groups that hold the same words: many tie
MANY = tuple(
    Passage(f"{passage.id}-{copy}", f"{passage.text}{mark}", passage.title)
    for copy, mark in enumerate((".", "!", "?", " ;", ""))
    for passage in PASSAGES
)
QUERIES = [*texts_of(QUESTIONS), "", "?!", "zebra", "서울"]
# values without which a kind is no retriever, or would load an analyzer or a model
GIVEN: dict[str, dict[str, object]] = {
    "bm25": {"analyzer": "bigram"},
    "bm25-windows": {"analyzer": "bigram"},
    "sparse": {"model": "keywords"},
    "hybrid": {"retrievers": ("one", "other"), "top_k": 4},
    "late": {"model": "keywords"},
    "learned": {"retrievers": ("one", "other"), "top_k": 4},
    "rerank": {"first_stage": "one", "weight": 0.5, "rerank_top_k": 3},
}
DOUBLES = {
    **{"encoder": KeywordEncoder, "term_encoder": KeywordTerms},
    **{"token_encoder": KeywordTokens, "scorer": SharedWordScorer},
}
_SERVERS = ExitStack()


def bm25(passages: Sequence[Passage]) -> BM25:
    return BM25("bm25", passages, BM25Options("bigram"))


def reference(passages: Sequence[Passage]) -> BM25:
    return BM25("reference", passages, BM25Options("bigram", engine=BM25Engine.RANK_BM25))


def windowed(passages: Sequence[Passage]) -> WindowedBM25:
    return WindowedBM25("windowed", passages, BM25Options("bigram"))


def dense(passages: Sequence[Passage], index: IndexKind = IndexKind.EXACT) -> Dense:
    return Dense("dense", passages, KeywordEncoder(), index=index)


def sparse(passages: Sequence[Passage]) -> SparseRetriever:
    return SparseRetriever("sparse", passages, KeywordTerms())


def hybrid(passages: Sequence[Passage], fusion: Fusion = Fusion.RRF) -> Hybrid:
    parts = [bm25(passages), dense(passages), reference(passages)]
    return Hybrid("hybrid", parts, n_passages=len(passages), depth=4, fusion=fusion, weights=(0.5, 0.3, 0.2))


def reranked(passages: Sequence[Passage]) -> RerankedRetriever:
    return RerankedRetriever("reranked", hybrid(passages), SharedWordScorer(), passages, depth=3, weight=0.5)


def cached(passages: Sequence[Passage]) -> CachedRetriever:
    return CachedRetriever("cached", f"key of {len(passages)}", lambda: bm25(passages))


def milvus(passages: Sequence[Passage], *searches: str) -> MilvusRetriever:
    terms = TermField(passages, BM25Options("bigram"))
    vectors = VectorField(passages, KeywordEncoder())
    fields = [{"bm25": terms, "dense": vectors}[search] for search in searches]
    fusion = EngineFusion(depth=4) if len(fields) > 1 else None
    return MilvusRetriever("milvus", len(passages), fields, milvus_settings(), fusion=fusion)


def of_its_kind(passages: Sequence[Passage], kind: type[Spec]) -> CachedRetriever:
    """What an experiment makes of a kind, with doubles of the models."""
    name = kind.model_fields["kind"].default
    specs = [BM25Spec(name="one", analyzer="bigram"), BM25Spec(name="other", analyzer="bigram", k1=2.0)]
    spec = kind.model_validate({"name": name, **GIVEN.get(name, {})})
    depths = {needed_spec.name: 1 for needed_spec in (*specs, spec)}
    context = RetrieverContext(QuestionSet("asked", passages, ()), depths=depths)
    for take, double in DOUBLES.items():
        setattr(context, take, partial(_metered, double))
    context.source = cache(ModelSource)
    context.retrievers |= {part.name: part.make(context) for part in specs}
    return spec.make(context)


atexit.register(_SERVERS.close)


@cache
def server_of(passages: Sequence[Passage]) -> SearchServer:
    return _SERVERS.enter_context(searching(passages))


def http_spec(server: SearchServer, **changes: Any) -> HttpSpec:
    request = {"url": f"{server.address}/search", "body": '{"query": "{query}", "k": {k}}'}
    paths = {"ids": "hits.hits[*]._id", "scores": "hits.hits[*]._score"}
    return HttpSpec.model_validate({"name": "http", "headers": {"x-tenant": "tests"}, **request, **paths, **changes})


def http(passages: Sequence[Passage]) -> CachedRetriever:
    return http_spec(server_of(tuple(passages))).make(RetrieverContext(QuestionSet("asked", passages, ())))


def plugin(passages: Sequence[Passage]) -> CachedRetriever:
    with patch.dict(os.environ, {"MRC_RETRIEVERS": "letters=tests.search_server:CharacterSearch"}):
        return PluginSpec(name="plugin", entry="letters").make(RetrieverContext(QuestionSet("asked", passages, ())))


ELSEWHERE = {"milvus": None, "http": http, "plugin": plugin}  # kinds that need more than doubles of models


def _metered(double: type, *of: object, **options: object) -> object:
    retriever = double()
    retriever.meter = Meter()
    return retriever


def makers() -> dict[str, Make]:
    """Return every retriever, and every kind of the registry that searches by itself: those in Milvus are below."""
    kinds = {kind.model_fields["kind"].default: kind for kind in experiment.KINDS if kind.searchable}
    return {
        **{make.__name__: make for make in (bm25, reference, windowed, sparse, reranked, cached)},
        **{f"dense {index}": partial(dense, index=index) for index in IndexKind},
        **{f"hybrid {fusion}": partial(hybrid, fusion=fusion) for fusion in Fusion},
        **{f"{name} kind": partial(of_its_kind, kind=kind) for name, kind in kinds.items() if name not in ELSEWHERE},
        **{f"{name} kind": make for name, make in ELSEWHERE.items() if make},
    }


MAKERS = makers()
MILVUS: dict[str, Make] = {
    "milvus bm25": lambda passages: milvus(passages, "bm25"),
    "milvus dense": lambda passages: milvus(passages, "dense"),
    "milvus hybrid": lambda passages: milvus(passages, "bm25", "dense"),
}
MILVUS_SETTINGS = ["file", "served", *(["given"] if "TESTED_MILVUS_URI" in os.environ else [])]


@pytest.fixture(scope="session")
def milvus_files(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A workspace for all tests: what one has loaded, another finds."""
    return str(tmp_path_factory.mktemp("milvus"))


@pytest.fixture(scope="session")
def held_open() -> Iterator[Callable[[MilvusSettings, str], AbstractContextManager[Any]]]:
    """A file stays open from one search to the next: to open one takes longer than to search it."""
    open_client = connection.open_client  # tests replace it
    with ExitStack() as stack:
        opened = cache(lambda at, collection: stack.enter_context(open_client(at, collection)))
        yield lambda at, collection: nullcontext(opened(at, collection))


@pytest.fixture(scope="session")
def milvus_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("served")) as address:
        yield address


@pytest.fixture(scope="session")
def retrievers() -> dict[object, Retriever]:
    """Cached retrievers: building one, and loading it into Milvus, takes longer than a search."""
    return {}


@pytest.fixture
def make(anew: Make, request: pytest.FixtureRequest, retrievers: dict[object, Retriever]) -> Make:
    kind = request.node.callspec.params["anew"]
    return lambda passages: retrievers.get((kind, passages)) or retrievers.setdefault((kind, passages), anew(passages))


IN_MILVUS = [pytest.param(f"{name} {where}", marks=pytest.mark.slow) for name in MILVUS for where in MILVUS_SETTINGS]


@pytest.fixture(params=[*MAKERS, *IN_MILVUS])
def anew(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    name, _, where = request.param.rpartition(" ")
    if name not in MILVUS:
        return MAKERS[request.param]
    if where == "file":
        monkeypatch.setenv("MRC_WORKSPACE", request.getfixturevalue("milvus_files"))
        monkeypatch.setattr(connection, "open_client", request.getfixturevalue("held_open"))
    else:
        served = request.getfixturevalue("milvus_served") if where == "served" else os.environ["TESTED_MILVUS_URI"]
        monkeypatch.setenv("MILVUS_URI", served)
    return MILVUS[name]


@pytest.mark.parametrize("passages", [PASSAGES, PASSAGES[:1], MANY], ids=["five", "one", "many"])
def test_every_retriever_meets_contract(make: Make, anew: Make, passages: Sequence[Passage]) -> None:
    another = anew(passages)
    for k in (1, 2, 5, 8, 40, 10**9):
        check_contract(make(passages), another, passages, k)


def check_contract(retriever: Retriever, another: Retriever, passages: Sequence[Passage], k: int) -> None:
    rankings = retriever.search(QUERIES, k)
    indices = rankings.indices
    scores = rankings.scores
    assert indices.shape == scores.shape == (len(QUERIES), min(k, len(passages)))  # never room for k of a few
    assert (indices.dtype, scores.dtype) == (np.int32, np.float32)
    np.testing.assert_array_equal(indices == -1, np.isneginf(scores))
    assert ((indices >= -1) & (indices < len(passages))).all()
    assert not np.isnan(scores).any()
    for rows, row_scores in zip(indices.tolist(), scores.tolist(), strict=True):
        scored_rows = [(-score, row) for score, row in zip(row_scores, rows, strict=True) if row >= 0]
        assert rows[len(scored_rows) :] == [-1] * (min(k, len(passages)) - len(scored_rows))
        assert len({row for _, row in scored_rows}) == len(scored_rows)
        assert scored_rows == sorted(scored_rows)

    for again in (retriever.search(QUERIES, k), another.search(QUERIES, k)):
        assert_equal_rankings(again, rankings)


def test_finds_hits_for_questions_and_none_for_empty_input(make: Make, request: pytest.FixtureRequest) -> None:
    indices = make(MANY).search(QUERIES, 5).indices
    assert (indices[: len(QUESTIONS), 0] >= 0).all()
    assert (indices[6:9] == -1).all()
    rankings = make(PASSAGES).search([], 3)
    assert rankings.indices.shape == rankings.scores.shape == (0, 3)
    assert (rankings.indices.dtype, rankings.scores.dtype) == (np.int32, np.float32)
    assert make(PASSAGES).name == request.node.callspec.params["anew"].partition(" ")[0]


def test_ranking_does_not_depend_on_batch(make: Make) -> None:
    together = make(MANY).search(QUERIES, 6)
    for row, question in enumerate(QUERIES):
        assert_equal_rankings(make(MANY).search([question], 6), together.select(slice(row, row + 1)), rtol=1e-6)


def test_first_hits_do_not_depend_on_k(make: Make) -> None:
    many = make(MANY).search(QUERIES, 24)
    for k in (1, 3, 8, 20):
        assert_equal_rankings(make(MANY).search(QUERIES, k), many.first(k))
