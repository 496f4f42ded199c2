"""The experiment file: which data, which questions, which retrievers. The page and the command line both run it."""

import tomllib
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from data.records import QuestionSet
from data.split import Part, SplitOptions
from retrieval.analyzers import VERSION as ANALYZER_VERSION
from retrieval.analyzers import Analyzer
from retrieval.bm25 import BM25, BM25Options, Engine, indexed_texts
from retrieval.cache import key_of
from retrieval.dense import Dense
from retrieval.fusion import Fusion
from retrieval.hybrid import Hybrid
from retrieval.imported import Imported, find_run, fingerprint
from retrieval.kept import Kept
from retrieval.meter import Meter
from retrieval.metrics import DEFAULT_KS, depth_of
from retrieval.models import STARTER, BiEncoder, CrossEncoderScorer, find_model
from retrieval.rankings import Retriever
from retrieval.recommended import recommended_weight
from retrieval.rerank import Reranked
from retrieval.vector_index import IndexKind
from retrieval.windows import WindowedBM25

VERSION = 2  # part of every kept ranking's key: raise it when a retriever's results change


class ExperimentError(Exception):
    """An experiment file that cannot be used; the message names the place and what was expected."""


class Lab(StrEnum):
    """Which laboratory of the page made an experiment, whose retrievers differ in the values it tries."""

    BM25 = "bm25"
    HYBRID = "hybrid"
    RERANK = "rerank"
    INDEX = "index"


Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Spec(BaseModel):
    """`chosen_on` is the part of the questions its values were tuned on: figures on that part flatter it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(min_length=1)
    chosen_on: Part | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the retrievers this one wraps."""
        return ()


class BM25Spec(_Spec):
    """A BM25 retriever; see `BM25Options`."""

    kind: Literal["bm25"] = "bm25"
    analyzer: Analyzer = Analyzer.AUTO
    k1: float = Field(default=0.9, ge=0)
    b: float = Field(default=0.4, ge=0, le=1)
    title: bool = True
    engine: Engine = Engine.BM25S


class WindowedBM25Spec(_Spec):
    """BM25 over windows of so many sentences, a passage scored by its best one; see `WindowedBM25`."""

    kind: Literal["bm25-windows"] = "bm25-windows"
    sentences: PositiveInt = 1
    analyzer: Analyzer = Analyzer.AUTO
    k1: float = Field(default=0.9, ge=0)
    b: float = Field(default=0.4, ge=0, le=1)
    title: bool = True


class DenseSpec(_Spec):
    """A bi-encoder (`starter`, a folder, a run or a hub id) whose passage vectors lie in an index of some kind."""

    kind: Literal["dense"] = "dense"
    model: str = STARTER
    title: bool = True
    index: IndexKind = IndexKind.EXACT


class HybridSpec(_Spec):
    """Fusion of the first `depth` passages of two or more retrievers; see `retrieval.fusion`.

    `weights` are one number of 0 or more for each of them, in the same order; left out, all count the same.
    """

    kind: Literal["hybrid"] = "hybrid"
    of: tuple[str, ...] = Field(min_length=2)
    depth: PositiveInt = 100
    fusion: Fusion = Fusion.RRF
    weights: tuple[Weight, ...] | None = None

    @model_validator(mode="after")
    def _one_weight_a_retriever(self) -> "HybridSpec":
        if self.weights is not None and (len(self.weights) != len(self.of) or not any(self.weights)):
            raise ValueError(f"weights must be {len(self.of)} numbers, one for each in `of`, and not all 0")
        return self

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the retrievers fused."""
        return self.of


class RerankSpec(_Spec):
    """A cross-encoder over the first `depth` passages of `first`.

    `weight` (0 to 1) is the reranker's share of the score; left out, the share its training chose on validation
    questions, or 1 (0.5 for the untrained starter).
    """

    kind: Literal["rerank"] = "rerank"
    first: str
    model: str = STARTER
    depth: PositiveInt = 20
    weight: float | None = Field(default=None, ge=0, le=1)
    title: bool = True

    @property
    def parts(self) -> tuple[str, ...]:
        """Name of the retriever reranked."""
        return (self.first,)


class RunSpec(_Spec):
    """Rankings made elsewhere: a TREC run, its path from the experiment file."""

    kind: Literal["run"] = "run"
    path: str = Field(min_length=1)


Spec = Annotated[
    BM25Spec | WindowedBM25Spec | DenseSpec | HybridSpec | RerankSpec | RunSpec, Field(discriminator="kind")
]


class Experiment(BaseModel):
    """What is compared, on what. Retrievers wrap only retrievers listed before them."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    data: str
    split: Part = Part.ALL
    validation_share: float = 0.1
    test_share: float = 0.2
    seed: int = 0
    ks: tuple[PositiveInt, ...] = Field(default=DEFAULT_KS, min_length=1)
    lab: Lab | None = None
    retriever: tuple[Spec, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _wraps_what_is_listed_before(self) -> "Experiment":
        SplitOptions(self.validation_share, self.test_share, self.seed)
        known: set[str] = set()
        for spec in self.retriever:
            if spec.name in known:
                raise ValueError(f"two retrievers are named {spec.name!r}")
            if missing := [part for part in spec.parts if part not in known]:
                raise ValueError(f"{spec.name!r} uses {missing}, which must be listed before it")
            known.add(spec.name)
        return self

    @property
    def split_options(self) -> SplitOptions:
        """How the questions are split."""
        return SplitOptions(self.validation_share, self.test_share, self.seed)


def read_experiment(path: Path) -> Experiment:
    """Read an experiment file (TOML). Raises `ExperimentError`."""
    try:
        return Experiment.model_validate(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except ValidationError as error:
        places = (f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())
        raise ExperimentError(f"{path.name}: " + "; ".join(places)) from error
    except (OSError, ValueError) as error:
        raise ExperimentError(f"{path.name} cannot be read as an experiment file (TOML): {error}") from error


def write_experiment(experiment: Experiment) -> str:
    """Return the experiment as TOML that `read_experiment` takes."""
    return tomli_w.dumps(experiment.model_dump(mode="json", exclude_none=True))


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
) -> list[Kept | Exception]:
    """Make the experiment's retrievers over the set's passages; nothing is built before it is searched.

    Imported runs answer the questions of the set, no others. Where a model cannot be found, or a part could not be
    made, the place holds the exception instead: the others go on. `on_progress` is told how much of its work, 0 to 1,
    the retriever has done that is at work.
    """
    maker = _Maker(experiment, question_set, base, on_progress)
    made: dict[str, Kept | Exception] = {}
    for spec in experiment.retriever:
        try:
            made[spec.name] = maker.make(spec, [_usable(made[name]) for name in spec.parts])
        except Exception as error:
            made[spec.name] = error
    return list(made.values())


def _usable(part: Kept | Exception) -> Kept:
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
        self._texts = cache(lambda title: indexed_texts(self._passages, title=title))
        self._source = cache(lambda model: find_model(model, base))
        self._encoder = cache(
            lambda model, title: BiEncoder(self._source(model), self._texts(title), on_progress=on_progress)
        )
        self._scorer = cache(lambda model, title: CrossEncoderScorer(self._source(model), self._texts(title)))

    def make(self, spec: Spec, parts: list[Kept]) -> Kept:
        match spec:
            case BM25Spec():
                return self._kept(spec, lambda: self._bm25(spec))
            case WindowedBM25Spec():
                return self._kept(spec, lambda: self._windowed(spec))
            case DenseSpec():
                encoder = self._encoder(spec.model, spec.title)
                return self._kept(spec, lambda: self._dense(spec), encoder.fingerprint, meter=encoder.meter)
            case HybridSpec():
                return self._kept(spec, lambda: self._hybrid(spec, parts), parts=parts)
            case RerankSpec():
                weight = recommended_weight(self._source(spec.model)) if spec.weight is None else spec.weight
                content, meter = (self._scorer(spec.model, spec.title).fingerprint, weight), Meter()
                build = partial(self._reranked, spec, parts[0], weight, meter)
                return self._kept(spec, build, *content, parts=parts, meter=meter)
            case RunSpec():
                path = find_run(spec.path, self._base)
                build_run = partial(Imported, spec.name, path, self._questions, spec.path)
                return self._kept(spec, build_run, fingerprint(path), self._questions.fingerprint, timed=False)

    def _kept(
        self,
        spec: Spec,
        build: Callable[[], Retriever],
        *content: object,
        parts: Sequence[Kept] = (),
        meter: Meter | None = None,
        timed: bool = True,
    ) -> Kept:
        """Keep what it finds by all that this depends on: its values, its parts, and `content`."""
        values = spec.model_dump(mode="json", exclude={"name", "chosen_on", "of", "first", "path"})
        corpus = self._questions.corpus_fingerprint
        key = key_of(VERSION, ANALYZER_VERSION, corpus, values, [part.key for part in parts], *content)
        return Kept(spec.name, key, build, parts, depth=self._depths[spec.name], meter=meter, timed=timed)

    def _bm25(self, spec: BM25Spec) -> BM25:
        options = BM25Options(spec.analyzer, spec.k1, spec.b, spec.title, spec.engine)
        return BM25(spec.name, self._passages, options)

    def _windowed(self, spec: WindowedBM25Spec) -> WindowedBM25:
        options = BM25Options(spec.analyzer, spec.k1, spec.b, spec.title)
        return WindowedBM25(spec.name, self._passages, options, sentences=spec.sentences)

    def _dense(self, spec: DenseSpec) -> Dense:
        encoder = self._encoder(spec.model, spec.title)
        return Dense(spec.name, self._passages, encoder, title=spec.title, index=spec.index)

    def _hybrid(self, spec: HybridSpec, parts: Sequence[Kept]) -> Hybrid:
        return Hybrid(
            spec.name,
            parts,
            n_passages=len(self._passages),
            depth=spec.depth,
            fusion=spec.fusion,
            weights=spec.weights,
        )

    def _reranked(self, spec: RerankSpec, first: Kept, weight: float, meter: Meter) -> Reranked:
        return Reranked(
            spec.name,
            first,
            self._scorer(spec.model, spec.title),
            self._passages,
            depth=spec.depth,
            weight=weight,
            title=spec.title,
            meter=meter,
            on_progress=self._on_progress,
        )
