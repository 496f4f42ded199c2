"""What wraps other retrievers: several fused, or one reranked."""

from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from models.encoders.vector_blocks import Meter
from models.precision import Precision
from models.sources import STARTER, ModelSource
from retrieval.comparison.spec import CachedRetriever, Count, Materials, ReadingSpec, Spec, Weight
from retrieval.hybrid import Fusion, Hybrid
from retrieval.rerank import Reranked, recommended_weight


class HybridSpec(Spec):
    """Fusion of the first `depth` passages of two or more retrievers; see `retrieval.hybrid`.

    `weights` are one number of 0 or more for each of them, in the same order; left out, all count the same.
    """

    kind: Literal["hybrid"] = "hybrid"
    of: tuple[str, ...] = Field(min_length=2)
    depth: Count = 100
    fusion: Fusion = Fusion.Z_SCORE
    weights: tuple[Weight, ...] | None = None

    @model_validator(mode="after")
    def _one_weight_a_retriever(self) -> "HybridSpec":
        if self.weights is not None and (len(self.weights) != len(self.of) or not any(self.weights)):
            raise ValueError(f"weights must be {len(self.of)} numbers, one for each in `of`, and not all 0")
        return self

    @property
    def parts(self) -> tuple[str, ...]:
        return self.of

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of those that bring candidates: one of weight 0 brings none."""
        weights = self.weights or [1.0] * len(self.of)
        return tuple(name for name, weight in zip(self.of, weights, strict=True) if weight)

    @property
    def weight(self) -> float | None:
        """The share of the first; None where all count the same."""
        return self.weights[0] if self.weights else None

    def candidates(self, k: int) -> int:
        """How many passages of each are fused, whatever is asked for."""
        del k
        return self.depth

    def make(self, materials: Materials) -> CachedRetriever:
        parts, n_passages = [materials.part(name) for name in self.of], len(materials.passages)
        build = partial(
            Hybrid, self.name, parts, n_passages=n_passages, depth=self.depth, fusion=self.fusion, weights=self.weights
        )
        return materials.kept(self, build)


class RerankSpec(ReadingSpec):
    """A cross-encoder over the first `depth` passages of `first`.

    `weight` (0 to 1) is the reranker's share of the score; left out, the share its training chose on validation
    questions, or 1 (0.5 for the untrained starter).
    """

    digits: ClassVar[int] = 3
    kind: Literal["rerank"] = "rerank"
    first: str
    model: str = STARTER
    depth: Count = 20
    weight: float | None = Field(default=None, ge=0, le=1)
    title: bool = True
    precision: Precision = Precision.AUTO

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.first,)

    def candidates(self, k: int) -> int:
        """How many passages it orders: those below its depth keep their order, and may be among the first k."""
        return max(self.depth, k)

    def letters_read(self, n_passages: int, n_questions: int, passages: int, questions: int) -> int:
        """Return the characters of all pairs: a question, and each of the passages that are reranked."""
        depth = min(self.depth, n_passages)
        return depth * (questions + round(n_questions * passages / max(1, n_passages)))

    def weight_with(self, source: ModelSource) -> float:
        """Return the weight, where it is left out that of the model."""
        return recommended_weight(source) if self.weight is None else self.weight

    def resolved(self, materials: Materials) -> dict[str, Any]:
        values = super().resolved(materials)
        if "error" not in values["model"]:
            values["weight"] = self.weight_with(materials.source(self.model))
        return values

    def make(self, materials: Materials) -> CachedRetriever:
        first, meter = materials.part(self.first), Meter()
        weight = self.weight_with(materials.source(self.model))
        scorer = materials.scorer(self.model, self.title, self.precision)
        build = partial(
            Reranked,
            self.name,
            first,
            scorer,
            materials.passages,
            depth=self.depth,
            weight=weight,
            title=self.title,
            windows=self.window_options,
            meter=meter,
            on_progress=materials.on_progress,
        )
        return materials.kept(self, build, scorer.fingerprint, weight, meter=meter)
