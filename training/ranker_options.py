"""Options of bi-encoders, cross-encoders, sparse encoders and late interaction."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from mrc_workbench.models.packaged import PREFIX
from mrc_workbench.models.sources import (
    DEFAULT_BI_ENCODER,
    DEFAULT_MASKED_LANGUAGE_MODEL,
    STARTER,
    ModelSource,
    default_model,
    require_sparse,
    require_tokens,
)
from mrc_workbench.training.options import Problem, RankerOptions, WindowedOptions, option

BI_ENCODER = "bi-encoder"
# Packaged bases are meant for CPUs: each text passes the lower layers once, a step encodes each passage once, and a
# training of fewer than 100 steps is evaluated only at its end.
_PACKAGED_BASE_DEFAULTS: dict[str, Any] = {
    "shared_passages": True,
    "frozen_layers": 8,
    "learning_rate": 1e-4,
    "batch_size": 32,
    "epochs": 2.0,
    "evaluation_steps": 100,
}


class BiEncoderObjective(StrEnum):
    """Loss of a bi-encoder. With `mini_batch_size`, all but triplets are computed in parts."""

    MEGA_BATCH_MARGIN = "mega-batch-margin"  # Wieting & Gimpel 2018
    MULTIPLE_NEGATIVES = "multiple-negatives"  # Henderson et al. 2017; in parts: Gao et al. 2021
    GIST = "gist"  # Solatorio 2024: a guide model excludes negatives that look relevant
    TRIPLET = "triplet"  # Schroff et al. 2015, over mined hard negatives
    MARGIN_MSE = "margin-mse"  # Hofstätter et al. 2020: a reranker's score differences
    KL = "kl"  # Lin et al. 2020: a reranker's probability of each of a question's passages


# all kinds use these names for distillation from a cross-encoder
DISTILLATION_OBJECTIVES = (BiEncoderObjective.MARGIN_MSE, BiEncoderObjective.KL)


class BatchGrouping(StrEnum):
    """How questions are grouped into batches. The passages of a batch are each other's negatives."""

    LENGTHS = "lengths"  # similar lengths: little padding
    ARTICLES = "articles"  # same articles: neighbouring passages are the hardest negatives


class BiEncoderPooling(StrEnum):
    """How token vectors become a text's vector."""

    BASE = "base"  # as the base model does
    MEAN = "mean"
    CLS = "cls"
    MAX = "max"


@dataclass(frozen=True, kw_only=True)
class _DistillationOptions(WindowedOptions):
    """Options of trainings that can learn a cross-encoder's scores."""

    if TYPE_CHECKING:
        teacher: str  # declared by each kind

    @property
    def auxiliary_models(self) -> dict[str, str]:
        teacher = {"teacher": self.teacher} if self.objective in DISTILLATION_OBJECTIVES else {}
        return super().auxiliary_models | teacher

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        if self.objective in DISTILLATION_OBJECTIVES and not self.negatives:
            yield "negatives", "taught", "must be 1 or more: distillation compares a passage with its negatives"
        if self.objective in DISTILLATION_OBJECTIVES and not self.teacher.strip():
            yield "teacher", "teacher", f"must name a cross-encoder for {self.objective.value}"


@dataclass(frozen=True, kw_only=True)
class BiEncoderOptions(_DistillationOptions):
    """A batch holds questions and one passage each; the other passages of a batch are negatives."""

    objective: BiEncoderObjective = option(BiEncoderObjective.MEGA_BATCH_MARGIN, "loss function")
    negatives: int = option(0, "hard negatives per question, besides the batch's passages", 0, 20)
    positive_margin: float = option(0.8, "target minimum of the cosine of a question and its passage", -1, 1)
    negative_margin: float = option(0.3, "target maximum of the cosine of a question and another passage", -1, 1)
    rounds: int = option(1, "successive trainings; the previous model mines the next one's hard negatives", 1, 10)
    triplet_margin: float = option(0.3, "target difference of the cosines to the passage and to its negative", 0, 2)
    temperature: float = option(0.05, "divisor of cosines (multiple-negatives, gist, kl, margin-mse)", 0.001, 10)
    teacher: str = option("", "cross-encoder whose scores are learned (kl, margin-mse)")
    teacher_temperature: float = option(1.0, "divisor of the teacher's scores", 0.001, 1000)
    teacher_bm25: float = option(0.0, "weight of BM25 in the teacher's scores, scaled to their spread", 0, 1)
    distillation_weight: float = option(1.0, "weight of the teacher's loss; the rest is multiple-negatives", 0.01, 1)
    guide: str = option("", "bi-encoder that detects negatives that look relevant (gist); empty: the base")
    mini_batch_size: int = option(0, "texts encoded at a time to save memory; 0: the whole batch", 0, 65536)
    matryoshka: str = option("", "also train vectors of these lengths, such as 256,128,64; empty: only the full length")
    group_batches_by: BatchGrouping = option(BatchGrouping.LENGTHS, "which questions stand in a batch together")
    shared_passages: bool = option(False, "encode a passage once per step; batch-size counts passages")
    mix_loss_weight: float = option(0.0, "weight of learning the untrained mix's scores (shared-passages)", 0, 1)
    pooling: BiEncoderPooling = option(BiEncoderPooling.BASE, "how token vectors become the text's vector")

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        if self.base == STARTER and self.mini_batch_size:
            yield "mini_batch_size", "starter", "must be 0 for the starter, which processes whole batches"
        if self.base == STARTER and self.pooling is not BiEncoderPooling.BASE:
            yield "pooling", "starter", "must be base for the starter"
        if self.objective is BiEncoderObjective.GIST and self.base == STARTER:
            yield "objective", "gist_starter", "gist needs a base with a tokenizer"
        if self.objective is BiEncoderObjective.GIST and self.guide == STARTER:
            yield "guide", "gist_starter", "must have a tokenizer"
        if self.objective is BiEncoderObjective.TRIPLET and not self.negatives:
            yield "negatives", "triplet", "must be 1 or more for triplets"
        if self.objective is BiEncoderObjective.TRIPLET and self.mini_batch_size:
            yield "mini_batch_size", "triplet", "must be 0 for triplets"
        if self.rounds > 1 and not self.negatives:
            yield "rounds", "rounds", "must be 1 without hard negatives, which the previous model mines"
        if self.objective is BiEncoderObjective.MEGA_BATCH_MARGIN and self.negatives:
            yield "negatives", "mega_batch", "must be 0: mega-batch-margin takes them from the batch"
        if self.mix_loss_weight and not self.shares_passages:
            yield "mix_loss_weight", "mix", "must be 0 without shared_passages, with hard negatives or mini_batch_size"
        if 0 in self.matryoshka_dimensions:
            yield "matryoshka", "numbers", "must be whole numbers above 0"

    @classmethod
    def defaults_for(cls, base: str = STARTER) -> Self:
        if base == STARTER:  # a vector table learns by large steps, which would destroy a pretrained transformer
            return cls(batch_size=256, learning_rate=1e-3)
        if not base.startswith(PREFIX):
            return cls(base=base)
        # the base was trained with this loss at a low temperature
        defaults = {**_PACKAGED_BASE_DEFAULTS, "objective": BiEncoderObjective.MULTIPLE_NEGATIVES, "temperature": 0.02}
        return cls(base=base, group_batches_by=BatchGrouping.ARTICLES, **defaults)

    @property
    def auxiliary_models(self) -> dict[str, str]:
        guide = {"guide": self.guide or self.base} if self.objective is BiEncoderObjective.GIST else {}
        return super().auxiliary_models | guide

    @property
    def uses_in_batch_negatives(self) -> bool:
        """Whether passages of other examples in the batch are negatives."""
        if self.objective in DISTILLATION_OBJECTIVES:
            return self.distillation_weight < 1
        return self.objective is not BiEncoderObjective.TRIPLET

    @property
    def shares_passages(self) -> bool:
        """Whether batches hold passages with all their questions."""
        if self.base == STARTER or self.negatives or self.mini_batch_size:
            return False
        return self.shared_passages and self.objective is BiEncoderObjective.MULTIPLE_NEGATIVES

    @property
    def matryoshka_dimensions(self) -> list[int]:
        """The shorter vector lengths that are trained too, longest first."""
        sizes = self.matryoshka.replace(",", " ").split()
        return sorted({int(size) if size.isdecimal() else 0 for size in sizes}, reverse=True)  # 0: invalid


CROSS_ENCODER = "cross-encoder"


class CrossEncoderObjective(StrEnum):
    """Loss of a cross-encoder."""

    BINARY_CROSS_ENTROPY = "binary-cross-entropy"
    LAMBDA = "lambda"  # Wang et al. 2018, NDCG-Loss2++
    RANKNET = "ranknet"  # Burges et al. 2005
    LISTNET = "listnet"  # Cao et al. 2007
    MARGIN_MSE = "margin-mse"  # Hofstätter et al. 2020: another reranker's score differences


@dataclass(frozen=True, kw_only=True)
class CrossEncoderOptions(_DistillationOptions):
    """Each question is paired with its passage and with hard negatives."""

    objective: CrossEncoderObjective = option(CrossEncoderObjective.BINARY_CROSS_ENTROPY, "loss function")
    negatives: int = option(4, "hard negatives per question", 1, 100)
    teacher: str = option("", "cross-encoder whose scores are learned (margin-mse)")
    depth: int = option(20, "BM25 passages that are reranked in evaluation", 2, 1000)

    @classmethod
    def defaults_for(cls, base: str = STARTER) -> Self:
        if base == STARTER:  # its few weights learn by large steps
            return cls(epochs=2.0, learning_rate=1e-2)
        # a packaged base is for machines with little memory, and pairs need several times a bi-encoder's
        saves_memory = base.startswith(PREFIX)
        return cls(base=base, epochs=1.0, batch_size=16, evaluation_batch_size=32, gradient_checkpointing=saves_memory)

    @property
    def rerank_depth(self) -> int:
        return self.depth


SPARSE_ENCODER = "sparse-encoder"


class SparseEncoderObjective(StrEnum):
    """Loss of a sparse encoder. With `mini_batch_size` it is computed in parts."""

    SPLADE = "splade"  # Formal et al. 2021: multiple negatives, and the FLOPS loss (Paria et al. 2020) of both sides


class QuestionSide(StrEnum):
    """How questions become weighted terms."""

    BASE = "base"  # the base model weights and expands them like passages
    IDF = "idf"  # Geng et al. 2024: their terms weighted by idf; no model reads a question


@dataclass(frozen=True, kw_only=True)
class SparseEncoderOptions(RankerOptions):
    """A batch holds questions, one passage each and their hard negatives. Passages of other questions are negatives."""

    base: str = option(DEFAULT_MASKED_LANGUAGE_MODEL, "masked language model, sparse encoder, folder or finished run")
    objective: SparseEncoderObjective = option(SparseEncoderObjective.SPLADE, "loss function")
    question_side: QuestionSide = option(QuestionSide.BASE, "how questions become weighted terms")
    question_regularizer: float = option(5e-5, "weight of the questions' FLOPS loss; more leaves fewer terms", 0, 10)
    passage_regularizer: float = option(3e-5, "weight of the passages' FLOPS loss; more leaves fewer terms", 0, 10)
    negatives: int = option(0, "hard negatives per question, besides the batch's passages", 0, 20)
    temperature: float = option(1.0, "divisor of dot products", 0.001, 1000)
    mini_batch_size: int = option(0, "texts encoded at a time to save memory; 0: the whole batch", 0, 65536)
    group_batches_by: BatchGrouping = option(BatchGrouping.LENGTHS, "which questions stand in a batch together")

    @classmethod
    def defaults_for(cls, base: str = DEFAULT_MASKED_LANGUAGE_MODEL) -> Self:
        return cls(base=base, batch_size=16, evaluation_batch_size=32)  # a token has a logit for every term

    @classmethod
    def available_bases(cls) -> tuple[str, ...]:
        return ()  # neither the starter nor a packaged base has the head of a masked language model

    @classmethod
    def check_base(cls, source: ModelSource) -> None:
        require_sparse(source)

    @property
    def uses_in_batch_negatives(self) -> bool:
        return True


LATE_INTERACTION = "late-interaction"


class LateObjective(StrEnum):
    """Loss of late interaction. A score is the mean of a question's MaxSim over its tokens."""

    MULTIPLE_NEGATIVES = "multiple-negatives"  # Khattab & Zaharia 2020, and over the batch's other passages
    KL = "kl"  # Santhanam et al. 2022: a reranker's probability of each of a question's passages


@dataclass(frozen=True, kw_only=True)
class LateOptions(_DistillationOptions):
    """A batch holds questions, one passage each and their hard negatives. Passages of other questions are negatives."""

    base: str = option(DEFAULT_BI_ENCODER, "starting point: a hub id, a folder, a packaged base, or a finished run")
    objective: LateObjective = option(LateObjective.MULTIPLE_NEGATIVES, "loss function")
    dimensions: int = option(0, "length of token vectors, reached by a trained projection; 0: the base's", 0, 8192)
    negatives: int = option(0, "hard negatives per question, besides the batch's passages", 0, 20)
    temperature: float = option(0.02, "divisor of mean cosines", 0.001, 10)
    teacher: str = option("", "cross-encoder whose scores are learned (kl)")
    teacher_temperature: float = option(1.0, "divisor of the teacher's scores", 0.001, 1000)
    teacher_bm25: float = option(0.0, "weight of BM25 in the teacher's scores, scaled to their spread", 0, 1)
    distillation_weight: float = option(1.0, "weight of the teacher's loss; the rest is multiple-negatives", 0.01, 1)
    group_batches_by: BatchGrouping = option(BatchGrouping.ARTICLES, "which questions stand in a batch together")
    shared_passages: bool = option(False, "encode a passage once per step; batch-size counts passages")

    @classmethod
    def defaults_for(cls, base: str = DEFAULT_BI_ENCODER) -> Self:
        if not base.startswith(PREFIX):
            return cls(base=base, epochs=1.0, batch_size=32)
        # layer 8, which is read in addition to the last one, is the highest frozen one
        return cls(base=base, temperature=0.01, **_PACKAGED_BASE_DEFAULTS)

    @classmethod
    def available_bases(cls) -> tuple[str, ...]:
        return tuple(dict.fromkeys(base for base in (default_model(), DEFAULT_BI_ENCODER) if base != STARTER))

    @classmethod
    def check_base(cls, source: ModelSource) -> None:
        require_tokens(source)

    @property
    def shares_passages(self) -> bool:
        return self.shared_passages and not self.negatives and self.objective is LateObjective.MULTIPLE_NEGATIVES

    @property
    def uses_in_batch_negatives(self) -> bool:
        return self.objective is not LateObjective.KL or self.distillation_weight < 1
