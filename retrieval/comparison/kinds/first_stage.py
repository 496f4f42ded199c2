"""What searches the passages by itself: BM25, of passages or windows, a bi-encoder, a sparse encoder, a run."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from models.precision import Precision
from models.sources import STARTER
from retrieval.comparison.cached import CachedRetriever
from retrieval.comparison.kinds.spec import Materials, ReadingSpec, Spec
from retrieval.dense.index import IndexKind
from retrieval.dense.retriever import Dense
from retrieval.lexical.bm25 import BM25, BM25Options
from retrieval.lexical.engines import Engine
from retrieval.lexical.learned import LearnedSparse
from retrieval.lexical.windows import WindowedBM25
from retrieval.trec.run import ImportedRun, find_run, fingerprint
from text.analyzers import Analyzer


class TermSpec(Spec):
    """The values of BM25 over texts of any length."""

    digits: ClassVar[int] = 2
    analyzer: Analyzer = Analyzer.AUTO
    k1: float = Field(default=0.9, ge=0)
    b: float = Field(default=0.4, ge=0, le=1)
    title: bool = True

    @property
    def score_kind(self) -> str:
        """A score of a window is one of BM25."""
        return "bm25"


class BM25Spec(TermSpec):
    """A BM25 retriever; see `BM25Options`."""

    kind: Literal["bm25"] = "bm25"
    engine: Engine = Engine.POSTINGS
    sentences: ClassVar[int] = 0  # a passage is searched as a whole

    def make(self, materials: Materials) -> CachedRetriever:
        """Return the retriever."""
        options = BM25Options(self.analyzer, self.k1, self.b, self.title, self.engine)
        return materials.kept(self, partial(BM25, self.name, materials.passages, options, materials.on_progress))


class WindowedBM25Spec(TermSpec):
    """BM25 over windows of so many sentences, a passage scored by its best one; see `WindowedBM25`."""

    kind: Literal["bm25-windows"] = "bm25-windows"
    sentences: PositiveInt = 1

    def make(self, materials: Materials) -> CachedRetriever:
        """Return the retriever."""
        options, tell = BM25Options(self.analyzer, self.k1, self.b, self.title), materials.on_progress
        build = partial(
            WindowedBM25, self.name, materials.passages, options, sentences=self.sentences, on_progress=tell
        )
        return materials.kept(self, build)


class DenseSpec(ReadingSpec):
    """A bi-encoder (`starter`, a folder, a run or a hub id) whose passage vectors lie in an index of some kind."""

    digits: ClassVar[int] = 3
    kind: Literal["dense"] = "dense"
    model: str = STARTER
    title: bool = True
    index: IndexKind = IndexKind.EXACT
    precision: Precision = Precision.AUTO

    def make(self, materials: Materials) -> CachedRetriever:
        """Return the retriever."""
        encoder = materials.encoder(self.model, self.title, self.precision)
        windows, passages = self.window_options, materials.passages
        build = partial(Dense, self.name, passages, encoder, title=self.title, index=self.index, windows=windows)
        return materials.kept(self, build, encoder.fingerprint, meter=encoder.meter)


class SparseSpec(Spec):
    """A sparse encoder (a folder, a run or a hub id), whose weighed terms are searched in postings."""

    digits: ClassVar[int] = 3
    kind: Literal["sparse"] = "sparse"
    model: str = Field(min_length=1)
    title: bool = True
    precision: Precision = Precision.AUTO

    def make(self, materials: Materials) -> CachedRetriever:
        """Return the retriever."""
        encoder = materials.term_encoder(self.model, self.title, self.precision)
        build = partial(LearnedSparse, self.name, materials.passages, encoder, title=self.title)
        return materials.kept(self, build, encoder.fingerprint, meter=encoder.meter)


class RunSpec(Spec):
    """Rankings made elsewhere: a TREC run, its path from the experiment file."""

    searchable: ClassVar[bool] = False
    kind: Literal["run"] = "run"
    path: str = Field(min_length=1)

    def resolved(self, materials: Materials) -> dict[str, Any]:
        """Return its values, and the sha256 of the file."""
        values = super().resolved(materials)
        try:
            content = ((materials.base or Path()) / self.path).read_bytes()
        except OSError:  # the retriever failed then, and says so itself
            return values
        return values | {"fingerprint": hashlib.sha256(content).hexdigest()}

    def make(self, materials: Materials) -> CachedRetriever:
        """Return the retriever."""
        path, questions = find_run(self.path, materials.base), materials.question_set
        build = partial(ImportedRun, self.name, path, questions, self.path)
        return materials.kept(self, build, fingerprint(path), questions.fingerprint, timed=False)
