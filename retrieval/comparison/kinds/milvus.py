"""Milvus, an engine of its own."""

from typing import Annotated, Literal

from pydantic import Field as Value
from pydantic import model_validator

from models.precision import Precision
from models.sources import STARTER
from retrieval.comparison.kinds.first_stage import BM25Spec, DenseSpec
from retrieval.comparison.spec import CachedRetriever, Count, Materials, Spec, Weight
from retrieval.dense.index import IndexKind
from retrieval.lexical.bm25 import BM25Options
from retrieval.milvus.connection import place
from retrieval.milvus.fields import Field, TermField, VectorField
from retrieval.milvus.retriever import EngineFusion, Milvus, Ranker, Search
from text.analyzers import Analyzer

Share = Annotated[float, Value(ge=0, le=1)]


class MilvusSpec(Spec):
    """BM25, a bi-encoder or both of them fused, searched in Milvus; see `retrieval.milvus`.

    Where Milvus is, and what opens it, is no part of an experiment: `MILVUS_URI` and `MILVUS_TOKEN` tell it. `depth`,
    `fusion` and `weights` (0 to 1 each, of BM25 and of the bi-encoder) are for `hybrid`; `weighted` alone has weights.
    """

    kind: Literal["milvus"] = "milvus"
    search: Search = Search.BM25
    analyzer: Analyzer = Analyzer.AUTO
    k1: Weight = 0.9
    b: float = Value(default=0.4, ge=0, le=1)
    title: bool = True
    model: str = STARTER
    index: IndexKind = IndexKind.EXACT
    depth: Count = 100
    fusion: Ranker = Ranker.RRF
    weights: tuple[Share, Share] | None = None

    @model_validator(mode="after")
    def _weights_where_they_count(self) -> "MilvusSpec":
        if self.weights is not None and (self.fusion is Ranker.RRF or not any(self.weights)):
            raise ValueError('weights are for fusion = "weighted", and not both 0')
        return self

    @property
    def score_kind(self) -> str:
        """By ranks it fuses as a hybrid does; otherwise its scores are its own."""
        return "hybrid" if self.fusion is Ranker.RRF else self.kind

    @property
    def local(self) -> "BM25Spec | DenseSpec | MilvusSpec":
        """The local retriever of the same name and scores, which explains them; itself where Milvus fuses."""
        if self.search is Search.BM25:
            return BM25Spec(name=self.name, analyzer=self.analyzer, k1=self.k1, b=self.b, title=self.title)
        if self.search is Search.DENSE:
            return DenseSpec(name=self.name, model=self.model, title=self.title, index=self.index)
        return self

    def make(self, materials: Materials) -> CachedRetriever:
        """Return the retriever."""
        where, passages = place(), materials.passages
        of_model = None if self.search is Search.BM25 else materials.encoder(self.model, self.title, Precision.AUTO)

        def build() -> Milvus:
            fields: list[Field] = []
            if self.search is not Search.DENSE:
                fields.append(TermField(passages, BM25Options(self.analyzer, self.k1, self.b, self.title)))
            if of_model:
                fields.append(VectorField(passages, of_model, title=self.title, index=self.index))
            fusion = EngineFusion(self.fusion, self.depth, self.weights) if len(fields) > 1 else None
            return Milvus(self.name, len(passages), fields, where, fusion=fusion, on_progress=materials.on_progress)

        # the address, without what opens it, tells the times of one server from another's
        known_by = (where.shown, of_model.fingerprint if of_model else "")
        return materials.kept(self, build, *known_by, meter=of_model.meter if of_model else None)
