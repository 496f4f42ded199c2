"""Specs of retrievers that wrap no other: BM25, encoders, late interaction, Milvus, an HTTP endpoint, a plugin."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.analysis import Analysis
from mrc_workbench.data.text.analyzers import Analyzer, Compounds
from mrc_workbench.data.text.dictionary import Dictionary, DictionaryError
from mrc_workbench.models.inference import Precision, TokenLayers
from mrc_workbench.models.sources import STARTER
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.retrieval import milvus
from mrc_workbench.retrieval.comparison.spec import (
    CachedRetriever,
    Count,
    CountOrZero,
    ReadingSpec,
    RetrieverContext,
    Spec,
    Weight,
    omit_if_default,
)
from mrc_workbench.retrieval.dense import Dense, IndexKind, LateIndex, LateInteraction, SparseRetriever
from mrc_workbench.retrieval.lexical import BM25Engine
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options, FeedbackOptions, WindowedBM25
from mrc_workbench.retrieval.milvus_connection import milvus_settings
from mrc_workbench.retrieval.outside import Order, OutsideError, http_search
from mrc_workbench.retrieval.outside.adapt import find_plugin
from mrc_workbench.retrieval.rankings import Retriever

Fraction = Annotated[float, Field(ge=0, le=1)]
_BM25_OPTIONS = {option.name for option in fields(BM25Options)}


class TermSpec(Spec):
    """The options of BM25 over texts of any length; see `BM25Options`.

    `dictionary` is a stored one (`dictionary:KEY`), or a path relative to the experiment file.
    """

    digits: ClassVar[int] = 2
    analyzer: Analyzer = Analyzer.AUTO
    k1: Weight = 0.9
    b: Fraction = 0.4
    title: bool = True
    title_weight: Weight | None = omit_if_default(None, gt=0)
    compounds: Compounds = omit_if_default(Compounds.AS_READ)
    dictionary: str = omit_if_default("")
    pairs: bool = omit_if_default(False)
    stop_words: bool = omit_if_default(False)

    @property
    def score_kind(self) -> str:
        return "bm25"

    def load_dictionary(self, context: RetrieverContext) -> Dictionary | None:
        return context.dictionary(self.dictionary) if self.dictionary else None

    def analysis(self, dictionary: Dictionary | None) -> Analysis:
        return Analysis(self.analyzer, self.compounds, dictionary, self.pairs, self.stop_words)

    def options(self, dictionary: Dictionary | None = None) -> BM25Options:
        values = {name: value for name, value in self if name in _BM25_OPTIONS}
        return BM25Options(**values | {"dictionary": dictionary})

    def _make(self, context: RetrieverContext, kind: Callable[..., Retriever], **options: Any) -> CachedRetriever:
        dictionary = self.load_dictionary(context)
        key = self.analysis(dictionary).resolved(context.texts(self.title)).resolved_key
        options["on_progress"] = context.on_progress
        build = partial(kind, self.name, context.passages, self.options(dictionary), **options)
        return context.cached_retriever(self, build, *key)

    @model_validator(mode="after")
    def _check_options(self) -> "TermSpec":
        self.options()
        return self

    def resolved_values(self, context: RetrieverContext) -> dict[str, Any]:
        values = super().resolved_values(context)
        if self.dictionary:
            values["dictionary"] = {"reference": self.dictionary}
            try:
                values["dictionary"] |= {"fingerprint": context.dictionary(self.dictionary).fingerprint}
            except DictionaryError as error:
                values["dictionary"] |= {"error": error.code}
        return values


class BM25Spec(TermSpec):
    """BM25, optionally with pseudo-relevance feedback (RM3); see `FeedbackOptions`."""

    kind: Literal["bm25"] = "bm25"
    engine: BM25Engine = BM25Engine.POSTINGS
    sentences: ClassVar[int] = 0  # whole passages
    fb_docs: CountOrZero = omit_if_default(0, serialization_alias="feedback_passages")
    fb_terms: Count = omit_if_default(FeedbackOptions.terms, serialization_alias="feedback_terms")
    fb_weight: Fraction = omit_if_default(FeedbackOptions.share, serialization_alias="feedback_share")

    @field_validator("engine", mode="before")
    @classmethod
    def _convert_legacy_engine(cls, value: object) -> object:
        return BM25Engine.POSTINGS if value == "bm25s" else value

    @model_validator(mode="after")
    def _check_feedback(self) -> "BM25Spec":
        default = FeedbackOptions.terms, FeedbackOptions.share
        if not self.fb_docs and (self.fb_terms, self.fb_weight) != default:
            raise ValueError("fb_terms and fb_weight are for fb_docs of 1 or more")
        return self

    def make(self, context: RetrieverContext) -> CachedRetriever:
        return self._make(context, BM25)


class WindowedBM25Spec(TermSpec):
    """BM25 over windows of `sentences`, without feedback; see `WindowedBM25`."""

    kind: Literal["bm25-windows"] = "bm25-windows"
    sentences: Count = 1

    def make(self, context: RetrieverContext) -> CachedRetriever:
        return self._make(context, WindowedBM25, sentences=self.sentences)


class DenseSpec(ReadingSpec):
    """A bi-encoder (`starter`, a folder, a run or a hub id) with an index of passage vectors."""

    digits: ClassVar[int] = 3
    kind: Literal["dense"] = "dense"
    model: str = STARTER
    title: bool = True
    index: IndexKind = IndexKind.EXACT
    precision: Precision = Precision.AUTO

    def make(self, context: RetrieverContext) -> CachedRetriever:
        encoder = context.encoder(self.model, self.title, self.precision)
        windows = self.window_options
        passages = context.passages
        build = partial(Dense, self.name, passages, encoder, title=self.title, index=self.index, windows=windows)
        return context.cached_retriever(self, build, encoder.fingerprint, meter=encoder.meter)


class SparseSpec(Spec):
    """A sparse encoder (a folder, a run or a hub id) with an inverted index of weighted terms."""

    digits: ClassVar[int] = 3
    kind: Literal["sparse"] = "sparse"
    model: str = Field(min_length=1)
    title: bool = True
    precision: Precision = Precision.AUTO

    def make(self, context: RetrieverContext) -> CachedRetriever:
        encoder = context.term_encoder(self.model, self.title, self.precision)
        build = partial(SparseRetriever, self.name, context.passages, encoder, title=self.title)
        return context.cached_retriever(self, build, encoder.fingerprint, meter=encoder.meter)


class LateSpec(ReadingSpec):
    """Late interaction by any transformer, or by a model trained for it; see `retrieval.dense`.

    `layers` represent the tokens of a transformer without such training, see `TokenLayers`. `dimensions` of each token
    vector are used, 0 for all. With `first_stage`, only its top `rerank_top_k` passages are scored. `index` scores all
    passages or candidates by centroids; `auto` uses centroids for more than 10,000 passages, with `bits` (1 or 2) per
    dimension of a residual, or 0 for half precision.
    """

    digits: ClassVar[int] = 3
    kind: Literal["late"] = "late"
    model: str = Field(min_length=1)
    title: bool = True
    layers: TokenLayers = TokenLayers.BALANCED
    dimensions: CountOrZero = 0
    first_stage: str = omit_if_default("", serialization_alias="first")
    rerank_top_k: Count = Field(default=100, serialization_alias="depth")
    index: LateIndex = omit_if_default(LateIndex.AUTO)
    bits: Literal[0, 1, 2] = omit_if_default(0)
    precision: Precision = Precision.AUTO

    @model_validator(mode="after")
    def _check_bits(self) -> "LateSpec":
        if self.bits and self.index is LateIndex.EXACT:
            raise ValueError('bits are for index = "centroids"')
        return self

    def scored_depth(self, k: int) -> int:
        return min(self.rerank_top_k, k) if self.first_stage else k

    def expected_bytes(self, passages: Passages) -> int:
        """Estimate the bytes of all token vectors in half precision, in memory and on disk."""
        # a multilingual vocabulary has 0.6 tokens per Korean character, and half as many per English one
        return round(0.6 * int(passages.texts.lengths().sum()) * (self.dimensions or 384) * 2)

    def characters_read(self, n_passages: int, n_questions: int, passages: int, questions: int) -> int:
        return passages + questions if n_passages and n_questions else 0

    def encoder(self, context: RetrieverContext) -> TokenEncoder:
        options: dict[str, Any] = {"precision": self.precision, "dimensions": self.dimensions, "layers": self.layers}
        return context.token_encoder(self.model, self.title, windows=self.window_options, **options)

    def make(self, context: RetrieverContext) -> CachedRetriever:
        encoder = self.encoder(context)
        first_stage = context.get_retriever(self.first_stage) if self.first_stage else None
        options: dict[str, Any] = {"title": self.title, "first": first_stage, "depth": self.rerank_top_k}
        options |= {"index": self.index, "bits": self.bits, "on_progress": context.on_progress}
        build = partial(LateInteraction, self.name, context.passages, encoder, **options)
        return context.cached_retriever(self, build, encoder.fingerprint, meter=encoder.meter)


class MilvusSpec(Spec):
    """BM25, a bi-encoder or a hybrid of both, searched in Milvus; see `retrieval.milvus`.

    `MILVUS_URI` and `MILVUS_TOKEN` contain the address and the token. `top_k`, `fusion` and `weights` (0 to 1 each, of
    BM25 and of the bi-encoder) are for `hybrid`; only `weighted` has weights.
    """

    kind: Literal["milvus"] = "milvus"
    search: milvus.MilvusSearchMode = milvus.MilvusSearchMode.BM25
    analyzer: Analyzer = Analyzer.AUTO
    k1: Weight = 0.9
    b: Fraction = 0.4
    title: bool = True
    model: str = STARTER
    index: IndexKind = IndexKind.EXACT
    top_k: Count = Field(default=100, serialization_alias="depth")
    fusion: milvus.Ranker = milvus.Ranker.RRF
    weights: tuple[Fraction, Fraction] | None = None

    @model_validator(mode="after")
    def _check_weights(self) -> "MilvusSpec":
        if self.weights is not None and (self.fusion is milvus.Ranker.RRF or not any(self.weights)):
            raise ValueError('weights are for fusion = "weighted", and not both 0')
        return self

    @property
    def score_kind(self) -> str:
        return "hybrid" if self.fusion is milvus.Ranker.RRF else self.kind

    @property
    def local_spec(self) -> "BM25Spec | DenseSpec | MilvusSpec":
        if self.search is milvus.MilvusSearchMode.BM25:
            return BM25Spec(name=self.name, analyzer=self.analyzer, k1=self.k1, b=self.b, title=self.title)
        if self.search is milvus.MilvusSearchMode.DENSE:
            return DenseSpec(name=self.name, model=self.model, title=self.title, index=self.index)
        return self

    def make(self, context: RetrieverContext) -> CachedRetriever:
        connection = milvus_settings()
        passages = context.passages
        has_encoder = self.search is not milvus.MilvusSearchMode.BM25
        encoder = context.encoder(self.model, self.title, Precision.AUTO) if has_encoder else None

        def build() -> milvus.MilvusRetriever:
            fields: list[milvus.TermField | milvus.VectorField] = []
            if self.search is not milvus.MilvusSearchMode.DENSE:
                fields.append(milvus.TermField(passages, BM25Options(self.analyzer, self.k1, self.b, self.title)))
            if encoder:
                fields.append(milvus.VectorField(passages, encoder, title=self.title, index=self.index))
            fusion = milvus.EngineFusion(self.fusion, self.top_k, self.weights) if len(fields) > 1 else None
            options: dict[str, Any] = {"fusion": fusion, "on_progress": context.on_progress}
            return milvus.MilvusRetriever(self.name, len(passages), fields, connection, **options)

        # the address, without the token, because each server has its own times
        identity = [connection.display_name, encoder.fingerprint if encoder else ""]
        if self.search is not milvus.MilvusSearchMode.DENSE:
            identity += Analysis(self.analyzer).resolved(context.texts(self.title)).resolved_key
        return context.cached_retriever(self, build, *identity, meter=encoder.meter if encoder else None)


class HttpSpec(Spec):
    """A search engine behind an HTTP endpoint, with one request per query.

    `{query}` and `{k}` in `url` and in `body` (JSON text or a table) are replaced. `ids` and `scores` are JMESPath
    expressions for lists of equal length, such as `hits.hits[*]._id`; without `scores` the results keep their order.
    `secret_headers` name environment variables (`MRC_SECRET_…`) with values of headers. `timeout` is in seconds;
    `concurrency` requests run at a time. Change `version`, any text, to search a changed engine again.
    """

    kind: Literal["http"] = "http"
    url: str = Field(min_length=1)
    method: http_search.Method = "POST"
    body: str = omit_if_default("")
    headers: dict[str, str] = omit_if_default({})
    secret_headers: dict[str, str] = omit_if_default({})
    ids: str = Field(min_length=1)
    scores: str = omit_if_default("")
    order: Order = omit_if_default("score")
    timeout: Annotated[float, Field(gt=0, le=600)] = 10.0
    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    version: str = omit_if_default("")

    @field_validator("body", mode="before")
    @classmethod
    def _encode_body(cls, value: object) -> object:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _check_request(self) -> "HttpSpec":
        http_search.validate_url(self.url)
        http_search.validate_headers(self.headers)
        http_search.validate_secrets(self.secret_headers)
        http_search.validate_path(self.ids)
        if self.scores:
            http_search.validate_path(self.scores)
        if self.method == "GET" and self.body.strip():
            raise OutsideError("outside_get_body", "body is for method POST; put {query} into url")
        if "{query}" not in self.url + http_search.validate_body(self.body):
            raise OutsideError("outside_no_query", "url or body must hold {query}")
        return self

    @property
    def request(self) -> http_search.HttpRequest:
        return http_search.HttpRequest(self.url, self.method, self.body, self.headers, self.secret_headers)

    def caller(self, context: RetrieverContext) -> http_search.HttpCaller:
        limits = self.timeout, self.concurrency
        return http_search.HttpCaller(self.request, self.ids, self.scores, *limits, context.on_progress)

    def make(self, context: RetrieverContext) -> CachedRetriever:
        self.request.sent_headers()  # raises an error if a secret is missing
        questions = context.question_set
        build = partial(http_search.http_retriever, self.name, self.caller(context), questions, self.order)
        return context.cached_retriever(self, build, *alias_fingerprints(questions))


class PluginSpec(Spec):
    """A retriever that an installed package or `MRC_RETRIEVERS` registers under the name `entry`.

    `options` are passed to its factory. Results are cached by them, the package's version and the module's content.
    """

    kind: Literal["plugin"] = "plugin"
    entry: str = Field(min_length=1)
    options: dict[str, str | int | float | bool | list[str] | list[float]] = omit_if_default({})

    def make(self, context: RetrieverContext) -> CachedRetriever:
        plugin = find_plugin(self.entry)
        questions = context.question_set
        build = partial(plugin.retriever, self.name, questions, self.options)
        return context.cached_retriever(self, build, plugin.fingerprint(), *alias_fingerprints(questions))

    def resolved_values(self, context: RetrieverContext) -> dict[str, Any]:
        values = super().resolved_values(context)
        with suppress(OutsideError):
            values["code"] = find_plugin(self.entry).fingerprint()
        return values


def alias_fingerprints(questions: QuestionSet) -> list[str]:
    """Return the fingerprint of the ids of merged duplicates, which results may contain, if there are any."""
    return [questions.alias_fingerprint] if questions.alias_fingerprint else []
