"""The experiment file: which data, which questions, which retrievers. The page and the command line both run it."""

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from data.split import Part, SplitOptions
from models.precision import Precision
from models.sources import STARTER
from retrieval.dense.index import IndexKind
from retrieval.evaluation.measures import DEFAULT_KS
from retrieval.lexical.engines import Engine
from retrieval.milvus.kinds import Ranker, Search
from retrieval.multistage.fusion import Fusion
from text.analyzers import Analyzer

VERSION = 3  # part of every kept ranking's key: raise it when a retriever's results change


class ExperimentError(ValueError):
    """An experiment file that cannot be used; the message names the place and what was expected."""


class Lab(StrEnum):
    """Which laboratory of the page made an experiment, whose retrievers differ in the values it tries."""

    BM25 = "bm25"
    HYBRID = "hybrid"
    RERANK = "rerank"
    INDEX = "index"


Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


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
    engine: Engine = Engine.POSTINGS


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
    precision: Precision = Precision.AUTO


class HybridSpec(_Spec):
    """Fusion of the first `depth` passages of two or more retrievers; see `retrieval.multistage.fusion`.

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
    precision: Precision = Precision.AUTO

    @property
    def parts(self) -> tuple[str, ...]:
        """Name of the retriever reranked."""
        return (self.first,)


class RunSpec(_Spec):
    """Rankings made elsewhere: a TREC run, its path from the experiment file."""

    kind: Literal["run"] = "run"
    path: str = Field(min_length=1)


class MilvusSpec(_Spec):
    """BM25, a bi-encoder or both of them fused, searched in Milvus; see `retrieval.milvus`.

    Where Milvus is, and what opens it, is no part of an experiment: `MILVUS_URI` and `MILVUS_TOKEN` tell it. `depth`,
    `fusion` and `weights` (0 to 1 each, of BM25 and of the bi-encoder) are for `hybrid`; `weighted` alone has weights.
    """

    kind: Literal["milvus"] = "milvus"
    search: Search = Search.BM25
    analyzer: Analyzer = Analyzer.AUTO
    k1: float = Field(default=0.9, ge=0)
    b: float = Field(default=0.4, ge=0, le=1)
    title: bool = True
    model: str = STARTER
    index: IndexKind = IndexKind.EXACT
    depth: PositiveInt = 100
    fusion: Ranker = Ranker.RRF
    weights: tuple[Share, Share] | None = None

    @model_validator(mode="after")
    def _weights_where_they_count(self) -> "MilvusSpec":
        if self.weights is not None and (self.fusion is Ranker.RRF or not any(self.weights)):
            raise ValueError('weights are for fusion = "weighted", and not both 0')
        return self

    @property
    def local(self) -> "BM25Spec | DenseSpec | MilvusSpec":
        """The local retriever of the same name and scores, which explains them; itself where Milvus fuses."""
        if self.search is Search.BM25:
            return BM25Spec(name=self.name, analyzer=self.analyzer, k1=self.k1, b=self.b, title=self.title)
        if self.search is Search.DENSE:
            return DenseSpec(name=self.name, model=self.model, title=self.title, index=self.index)
        return self


Spec = Annotated[
    BM25Spec | WindowedBM25Spec | DenseSpec | HybridSpec | RerankSpec | RunSpec | MilvusSpec,
    Field(discriminator="kind"),
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
