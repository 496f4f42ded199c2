"""An experiment's specifications made into retrievers that search."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

from data.cache import key_of
from data.records import QuestionSet
from models.bi_encoder import BiEncoder
from models.cross_encoder import CrossEncoderScorer
from models.meter import Meter
from models.precision import Precision
from models.sources import find_model
from retrieval.comparison.cached import CachedRetriever
from retrieval.comparison.experiment import (
    VERSION,
    BM25Spec,
    DenseSpec,
    Experiment,
    HybridSpec,
    MilvusSpec,
    RerankSpec,
    RunSpec,
    Spec,
    WindowedBM25Spec,
)
from retrieval.dense.retriever import Dense
from retrieval.evaluation.measures import depth_of
from retrieval.lexical.bm25 import BM25, BM25Options
from retrieval.lexical.windows import WindowedBM25
from retrieval.milvus.fields import Field, TermField, VectorField
from retrieval.milvus.kinds import Search
from retrieval.milvus.place import Place, place
from retrieval.milvus.retriever import EngineFusion, Milvus
from retrieval.multistage.hybrid import Hybrid
from retrieval.multistage.rerank import Reranked
from retrieval.multistage.weight import recommended_weight
from retrieval.rankings import Retriever
from retrieval.trec.run import ImportedRun, find_run, fingerprint
from text.analyzers import VERSION as ANALYZER_VERSION


def search_depths(experiment: Experiment) -> dict[str, int]:
    """Return how many passages a question each retriever is searched for: as many as the measures and all that wrap it
    ask for, so that it is searched once.
    """
    depths = {spec.name: depth_of(experiment.ks) for spec in experiment.retriever}
    for spec in reversed(experiment.retriever):
        if isinstance(spec, HybridSpec):
            wanted = spec.depth
        elif isinstance(spec, RerankSpec):
            wanted = max(spec.depth, depths[spec.name])
        for part in spec.parts:
            depths[part] = max(depths[part], wanted)
    return depths


def retrievers_of(
    experiment: Experiment,
    question_set: QuestionSet,
    base: Path | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> list[CachedRetriever | Exception]:
    """Make the experiment's retrievers over the set's passages; nothing is built before it is searched.

    Imported runs answer the questions of the set, no others. Where a model cannot be found, or a part could not be
    made, the place holds the exception instead: the others go on. `on_progress` is told how much of its work, 0 to 1,
    the retriever has done that is at work.
    """
    maker = _Maker(experiment, question_set, base, on_progress)
    made: dict[str, CachedRetriever | Exception] = {}
    for spec in experiment.retriever:
        try:
            made[spec.name] = maker.make(spec, [_usable(made[name]) for name in spec.parts])
        except Exception as error:
            made[spec.name] = error
    return list(made.values())


def _usable(part: CachedRetriever | Exception) -> CachedRetriever:
    if isinstance(part, Exception):
        raise part
    return part


class _Maker:
    """Makes retrievers of their specifications; those with the same model share it."""

    def __init__(
        self,
        experiment: Experiment,
        question_set: QuestionSet,
        base: Path | None,
        on_progress: Callable[[float], None] | None,
    ) -> None:
        self._questions, self._passages = question_set, question_set.passages
        self._base, self._on_progress = base, on_progress
        self._depths = search_depths(experiment)
        self._texts = cache(lambda title: self._passages.indexed_texts(title=title))
        self._source = cache(lambda model: find_model(model, base))
        self._encoder = cache(
            lambda model, title, precision: BiEncoder(
                self._source(model), self._texts(title), precision=precision, on_progress=on_progress
            )
        )
        self._scorer = cache(
            lambda model, title, precision: CrossEncoderScorer(
                self._source(model), self._texts(title), precision=precision
            )
        )

    def make(self, spec: Spec, parts: list[CachedRetriever]) -> CachedRetriever:  # noqa: PLR0911 - one for each kind
        match spec:
            case BM25Spec():
                return self._kept(spec, lambda: self._bm25(spec))
            case WindowedBM25Spec():
                return self._kept(spec, lambda: self._windowed(spec))
            case DenseSpec():
                encoder = self._encoder(spec.model, spec.title, spec.precision)
                return self._kept(spec, lambda: self._dense(spec), encoder.fingerprint, meter=encoder.meter)
            case HybridSpec():
                return self._kept(spec, lambda: self._hybrid(spec, parts), parts=parts)
            case RerankSpec():
                weight = recommended_weight(self._source(spec.model)) if spec.weight is None else spec.weight
                content, meter = (self._scorer(spec.model, spec.title, spec.precision).fingerprint, weight), Meter()
                build = partial(self._reranked, spec, parts[0], weight, meter)
                return self._kept(spec, build, *content, parts=parts, meter=meter)
            case RunSpec():
                path = find_run(spec.path, self._base)
                build_run = partial(ImportedRun, spec.name, path, self._questions, spec.path)
                return self._kept(spec, build_run, fingerprint(path), self._questions.fingerprint, timed=False)
            case MilvusSpec():
                where = place()
                encodes = spec.search is not Search.BM25
                asked = self._encoder(spec.model, spec.title, Precision.AUTO) if encodes else None
                # the address, without what opens it, tells the times of one server from another's
                known_by = (where.shown, asked.fingerprint if asked else "")
                build_there = partial(self._milvus, spec, where, asked)
                return self._kept(spec, build_there, *known_by, meter=asked.meter if asked else None)

    def _kept(
        self,
        spec: Spec,
        build: Callable[[], Retriever],
        *content: object,
        parts: Sequence[CachedRetriever] = (),
        meter: Meter | None = None,
        timed: bool = True,
    ) -> CachedRetriever:
        """Keep what it finds by all that this depends on: its values, its parts, and `content`."""
        # a precision is part of the model's fingerprint, where it makes a difference
        values = spec.model_dump(mode="json", exclude={"name", "chosen_on", "of", "first", "path", "precision"})
        corpus = self._questions.corpus_fingerprint
        key = key_of(VERSION, ANALYZER_VERSION, corpus, values, [part.key for part in parts], *content)
        return CachedRetriever(spec.name, key, build, parts, depth=self._depths[spec.name], meter=meter, timed=timed)

    def _bm25(self, spec: BM25Spec) -> BM25:
        options = BM25Options(spec.analyzer, spec.k1, spec.b, spec.title, spec.engine)
        return BM25(spec.name, self._passages, options, self._on_progress)

    def _windowed(self, spec: WindowedBM25Spec) -> WindowedBM25:
        options = BM25Options(spec.analyzer, spec.k1, spec.b, spec.title)
        return WindowedBM25(spec.name, self._passages, options, sentences=spec.sentences, on_progress=self._on_progress)

    def _dense(self, spec: DenseSpec) -> Dense:
        encoder = self._encoder(spec.model, spec.title, spec.precision)
        return Dense(spec.name, self._passages, encoder, title=spec.title, index=spec.index)

    def _hybrid(self, spec: HybridSpec, parts: Sequence[CachedRetriever]) -> Hybrid:
        return Hybrid(
            spec.name,
            parts,
            n_passages=len(self._passages),
            depth=spec.depth,
            fusion=spec.fusion,
            weights=spec.weights,
        )

    def _milvus(self, spec: MilvusSpec, where: Place, encoder: BiEncoder | None) -> Milvus:
        fields: list[Field] = []
        if spec.search is not Search.DENSE:
            fields.append(TermField(self._passages, BM25Options(spec.analyzer, spec.k1, spec.b, spec.title)))
        if encoder:
            fields.append(VectorField(self._passages, encoder, title=spec.title, index=spec.index))
        fusion = EngineFusion(spec.fusion, spec.depth, spec.weights) if len(fields) > 1 else None
        n_passages = len(self._passages)
        return Milvus(spec.name, n_passages, fields, where, fusion=fusion, on_progress=self._on_progress)

    def _reranked(self, spec: RerankSpec, first: CachedRetriever, weight: float, meter: Meter) -> Reranked:
        return Reranked(
            spec.name,
            first,
            self._scorer(spec.model, spec.title, spec.precision),
            self._passages,
            depth=spec.depth,
            weight=weight,
            title=spec.title,
            meter=meter,
            on_progress=self._on_progress,
        )
