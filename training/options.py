"""What a training can be told. Every option has a default, a unit and a range, and is saved with the run."""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from retrieval.models import DEFAULT_BI_ENCODER, DEFAULT_CROSS_ENCODER, STARTER


class Kind(StrEnum):
    """The two models that can be trained."""

    BI_ENCODER = "bi-encoder"
    CROSS_ENCODER = "cross-encoder"


def option(default: Any, text: str, low: float | None = None, high: float | None = None) -> Any:
    """Declare a field: its default, a line of help, and its smallest and largest value."""
    return field(default=default, metadata={"help": text, "low": low, "high": high})


@dataclass(frozen=True)
class TrainingOptions:
    """What both trainings share. Raises `ValueError` where an option is out of its range."""

    base: str = option(STARTER, "starting point: starter, a hub id, a folder, or a finished run")
    epochs: float = option(3.0, "passes over the training questions", 0.01, 1000)
    batch_size: int = option(64, "examples a training step", 2, 65536)
    evaluation_batch_size: int = option(128, "texts or pairs at a time while measuring", 1, 65536)
    learning_rate: float = option(2e-5, "largest step of the optimizer", 1e-9, 10)
    weight_decay: float = option(0.01, "pull of the weights towards zero (AdamW)", 0, 1)
    warmup: float = option(0.1, "share of the steps over which the learning rate rises", 0, 1)
    evaluation_steps: int = option(0, "steps between measurements; 0: once an epoch", 0, 10**9)
    save_steps: int = option(0, "steps between checkpoints, a multiple of evaluation-steps; 0: as often as measured", 0)
    logging_steps: int = option(5, "steps between entries of the loss curve", 1, 10**9)
    save_limit: int = option(2, "checkpoints kept", 1, 1000)
    evaluation_limit: int = option(500, "validation questions measured during training; 0: all", 0, 10**9)
    title: bool = option(True, "put the article title before the passage")
    seed: int = option(0, "seed of every random choice", 0, 2**31 - 1)

    def __post_init__(self) -> None:
        for known in fields(self):
            value, low, high = getattr(self, known.name), known.metadata.get("low"), known.metadata.get("high")
            # written this way round, a value that is not a number is refused too
            if not ((low is None or value >= low) and (high is None or value <= high)):
                wanted = f"between {low} and {high}" if high is not None else f"{low} or more"
                raise ValueError(f"{known.name} must be {wanted}, not {value}")
        if not self.base.strip():
            raise ValueError("base must name a model")
        if self.save_steps and self.save_steps % (self.evaluation_steps or self.save_steps):
            raise ValueError("save_steps must be a multiple of evaluation_steps: the best checkpoint is one measured")
        if self.save_steps and not self.evaluation_steps:
            raise ValueError("save_steps needs evaluation_steps: the best checkpoint is one measured")


@dataclass(frozen=True)
class BiEncoderOptions(TrainingOptions):
    """MegaBatchMarginLoss (Wieting & Gimpel 2018): the hardest of the batch's other passages is the negative."""

    positive_margin: float = option(0.8, "wanted cosine of a question and its passage, at least", -1, 1)
    negative_margin: float = option(0.3, "wanted cosine of a question and another passage, at most", -1, 1)
    mini_batch_size: int = option(0, "texts encoded at a time to save memory; 0: the whole batch", 0, 65536)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mini_batch_size and self.base == STARTER:
            raise ValueError("mini_batch_size must be 0 for the starter: it takes a batch only as a whole")


@dataclass(frozen=True)
class CrossEncoderOptions(TrainingOptions):
    """Binary cross-entropy over each question's passage and hard negatives that BM25 ranks high."""

    negatives: int = option(4, "hard negatives a question", 1, 100)
    depth: int = option(20, "first passages of BM25 from which negatives are drawn, and which are reranked", 2, 1000)


def default_options(kind: Kind, base: str | None = None) -> BiEncoderOptions | CrossEncoderOptions:
    """Return options that suit the base: a starter learns from large steps, a pretrained model from small ones."""
    starter = base in (None, STARTER)
    if kind is Kind.BI_ENCODER:
        if starter:
            return BiEncoderOptions(batch_size=256, learning_rate=1e-3)
        return BiEncoderOptions(base=base or DEFAULT_BI_ENCODER)
    if starter:
        return CrossEncoderOptions(epochs=2.0, learning_rate=1e-2)
    return CrossEncoderOptions(base=base or DEFAULT_CROSS_ENCODER, epochs=1.0, batch_size=16, evaluation_batch_size=32)
