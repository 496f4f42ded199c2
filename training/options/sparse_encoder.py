"""What a sparse encoder's training can be told."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from models.sources import DEFAULT_MASKED_LANGUAGE_MODEL, ModelSource, require_sparse
from training.options.bi_encoder import BatchesOf
from training.options.common import option
from training.options.questions import RankerOptions

SPARSE_ENCODER = "sparse-encoder"


class SparseEncoderObjective(StrEnum):
    """What a sparse encoder's training makes smaller. With `mini_batch_size` it is computed in parts."""

    SPLADE = "splade"  # Formal et al. 2021: multiple negatives, and the FLOPS of Paria et al. 2020 of both sides


class QuestionSide(StrEnum):
    """How questions become weighed terms."""

    BASE = "base"  # as the base does: a masked language model weighs and expands them as it does passages
    IDF = "idf"  # Geng et al. 2024: their own terms by their idf among the passages; no model reads a question


@dataclass(frozen=True, kw_only=True)
class SparseEncoderOptions(RankerOptions):
    """A batch is made of questions and one passage each, and their hard negatives; all passages of others are too."""

    base: str = option(DEFAULT_MASKED_LANGUAGE_MODEL, "masked language model, sparse encoder, folder or finished run")
    objective: SparseEncoderObjective = option(SparseEncoderObjective.SPLADE, "what training makes smaller")
    question_side: QuestionSide = option(QuestionSide.BASE, "how questions become weighed terms")
    question_regularizer: float = option(5e-5, "weight of the FLOPS of questions; more leaves fewer terms", 0, 10)
    passage_regularizer: float = option(3e-5, "weight of the FLOPS of passages; more leaves fewer terms", 0, 10)
    negatives: int = option(0, "hard negatives a question, besides the batch's passages", 0, 20)
    temperature: float = option(1.0, "what dot products are divided by", 0.001, 1000)
    mini_batch_size: int = option(0, "texts encoded at a time to save memory; 0: the whole batch", 0, 65536)
    batches_of: BatchesOf = option(BatchesOf.LENGTHS, "which questions stand in a batch together")

    @classmethod
    def suited_to(cls, base: str = DEFAULT_MASKED_LANGUAGE_MODEL) -> Self:
        """Each token has a logit for every term of the vocabulary, which takes memory: batches are small."""
        return cls(base=base, batch_size=16, evaluation_batch_size=32)

    @classmethod
    def offered(cls) -> tuple[str, ...]:
        """None: neither the starter nor a packaged base has the head of a masked language model."""
        return ()

    @classmethod
    def check_base(cls, source: ModelSource) -> None:
        """Raise `ModelError` `not_sparse` for a base without that head, as far as it is known before a download."""
        require_sparse(source)

    @property
    def contrasts(self) -> bool:
        """Passages of other examples in the batch are negatives."""
        return True

    @property
    def in_parts(self) -> bool:
        """Always."""
        return True
