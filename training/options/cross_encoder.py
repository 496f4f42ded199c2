"""What a cross-encoder's training can be told."""

from dataclasses import dataclass
from enum import StrEnum

from training.options.common import TrainingOptions, option


class CrossEncoderObjective(StrEnum):
    """What a cross-encoder's training makes smaller."""

    BINARY_CROSS_ENTROPY = "binary-cross-entropy"
    LAMBDA = "lambda"  # Wang et al. 2018, NDCG-Loss2++
    RANKNET = "ranknet"  # Burges et al. 2005
    LISTNET = "listnet"  # Cao et al. 2007
    MARGIN_MSE = "margin-mse"  # Hofstätter et al. 2020: another reranker's score differences


@dataclass(frozen=True)
class CrossEncoderOptions(TrainingOptions):
    """Each question comes with its passage and with hard negatives."""

    objective: CrossEncoderObjective = option(CrossEncoderObjective.BINARY_CROSS_ENTROPY, "what training makes smaller")
    negatives: int = option(4, "hard negatives a question", 1, 100)
    teacher: str = option("", "cross-encoder whose scores are learned (margin-mse)")
    depth: int = option(20, "first passages of BM25 that are reranked when measured", 2, 1000)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(
            self.objective is not CrossEncoderObjective.MARGIN_MSE or bool(self.teacher.strip()),
            "teacher",
            "teacher",
            "must name a cross-encoder for margin-mse",
        )
