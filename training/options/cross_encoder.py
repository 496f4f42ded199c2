"""What a cross-encoder's training can be told."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from models.packaged import PREFIX
from models.sources import STARTER
from training.options.common import Problem, option
from training.options.questions import WindowedOptions

CROSS_ENCODER = "cross-encoder"


class CrossEncoderObjective(StrEnum):
    """What a cross-encoder's training makes smaller."""

    BINARY_CROSS_ENTROPY = "binary-cross-entropy"
    LAMBDA = "lambda"  # Wang et al. 2018, NDCG-Loss2++
    RANKNET = "ranknet"  # Burges et al. 2005
    LISTNET = "listnet"  # Cao et al. 2007
    MARGIN_MSE = "margin-mse"  # Hofstätter et al. 2020: another reranker's score differences


@dataclass(frozen=True, kw_only=True)
class CrossEncoderOptions(WindowedOptions):
    """Each question comes with its passage and with hard negatives."""

    objective: CrossEncoderObjective = option(CrossEncoderObjective.BINARY_CROSS_ENTROPY, "what training makes smaller")
    negatives: int = option(4, "hard negatives a question", 1, 100)
    teacher: str = option("", "cross-encoder whose scores are learned (margin-mse)")
    depth: int = option(20, "first passages of BM25 that are reranked when measured", 2, 1000)

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        if self.objective is CrossEncoderObjective.MARGIN_MSE and not self.teacher.strip():
            yield "teacher", "teacher", "must name a cross-encoder for margin-mse"

    @classmethod
    def suited_to(cls, base: str = STARTER) -> Self:
        """A starter's few weights move by large steps.

        A packaged base is trained on machines of every day, where memory is short: questions and passages are read
        together, so that a batch holds several times what a bi-encoder's does.
        """
        if base == STARTER:
            return cls(epochs=2.0, learning_rate=1e-2)
        return cls(base=base, epochs=1.0, batch_size=16, evaluation_batch_size=32, recompute=base.startswith(PREFIX))

    @property
    def helpers(self) -> dict[str, str]:
        """A teacher, and what finds the hard negatives."""
        teacher = {"teacher": self.teacher} if self.objective is CrossEncoderObjective.MARGIN_MSE else {}
        return super().helpers | teacher

    @property
    def reranked(self) -> int:
        """The depth."""
        return self.depth
