"""What a bi-encoder's training can be told."""

from dataclasses import dataclass
from enum import StrEnum

from models.sources import STARTER
from training.options.common import TrainingOptions, option


class BiEncoderObjective(StrEnum):
    """What a bi-encoder's training makes smaller. With `mini_batch_size` the first three are computed in parts."""

    MEGA_BATCH_MARGIN = "mega-batch-margin"  # Wieting & Gimpel 2018
    MULTIPLE_NEGATIVES = "multiple-negatives"  # Henderson et al. 2017; in parts: Gao et al. 2021
    GIST = "gist"  # Solatorio 2024: a guide model leaves out negatives that look relevant
    TRIPLET = "triplet"  # Schroff et al. 2015, over mined hard negatives


class Pooling(StrEnum):
    """How a bi-encoder makes one vector of a text's token vectors."""

    BASE = "base"  # as the base model does
    MEAN = "mean"
    CLS = "cls"
    MAX = "max"


@dataclass(frozen=True)
class BiEncoderOptions(TrainingOptions):
    """A batch is made of questions and one passage each; the other passages of a batch are negatives."""

    objective: BiEncoderObjective = option(BiEncoderObjective.MEGA_BATCH_MARGIN, "what training makes smaller")
    negatives: int = option(0, "hard negatives a question, besides the batch's passages", 0, 20)
    positive_margin: float = option(0.8, "wanted cosine of a question and its passage, at least", -1, 1)
    negative_margin: float = option(0.3, "wanted cosine of a question and another passage, at most", -1, 1)
    triplet_margin: float = option(0.3, "wanted difference of the cosines to the passage and to its negative", 0, 2)
    temperature: float = option(0.05, "what cosines are divided by (multiple-negatives, gist)", 0.001, 10)
    guide: str = option("", "bi-encoder that tells which negatives look relevant (gist); empty: the base, untrained")
    mini_batch_size: int = option(0, "texts encoded at a time to save memory; 0: the whole batch", 0, 65536)
    matryoshka: str = option("", "also train the first so many dimensions, such as 256,128,64; empty: all only")
    pooling: Pooling = option(Pooling.BASE, "how token vectors become the text's vector")

    def __post_init__(self) -> None:
        super().__post_init__()
        starter = self.base == STARTER
        self._check(
            not (starter and self.mini_batch_size),
            "mini_batch_size",
            "starter",
            "must be 0 for the starter: it takes a batch only as a whole",
        )
        self._check(
            not (starter and self.pooling is not Pooling.BASE), "pooling", "starter", "must be base for the starter"
        )
        if self.objective is BiEncoderObjective.GIST:
            self._check(not starter, "objective", "gist_starter", "gist needs a base with a tokenizer of its own")
            self._check(self.guide != STARTER, "guide", "gist_starter", "must have a tokenizer of its own")
        if self.objective is BiEncoderObjective.TRIPLET:
            self._check(self.negatives > 0, "negatives", "triplet", "must be 1 or more for triplets")
            self._check(not self.mini_batch_size, "mini_batch_size", "triplet", "must be 0 for triplets")
        if self.objective is BiEncoderObjective.MEGA_BATCH_MARGIN:
            self._check(
                not self.negatives, "negatives", "mega_batch", "must be 0: mega-batch-margin takes them of the batch"
            )
        _ = self.matryoshka_dimensions

    @property
    def matryoshka_dimensions(self) -> list[int]:
        """The shorter vectors trained too, longest first; empty where only the whole is."""
        try:
            dimensions = [int(word) for word in self.matryoshka.replace(",", " ").split()]
        except ValueError:
            dimensions = [0]
        self._check(all(size > 0 for size in dimensions), "matryoshka", "numbers", "must be whole numbers above 0")
        return sorted(set(dimensions), reverse=True)
