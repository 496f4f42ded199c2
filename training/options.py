"""What every training takes, and every training on a question set, with defaults, units and ranges."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

from mrc_workbench.data.problems import Failure
from mrc_workbench.models.inference import Precision, in_bfloat16
from mrc_workbench.models.sources import STARTER, ModelSource, default_model
from mrc_workbench.models.windows import WindowOptions


class TrainingError(Failure):
    """A training that cannot go on."""


Problem = tuple[str, str, str]


class AttentionDropout(StrEnum):
    """Dropout of attention while training. On a CPU it takes three times as long, and as much memory."""

    AUTO = "auto"  # none on a CPU, the base's on a GPU
    BASE = "base"
    NONE = "none"


class EmbeddingTable(StrEnum):
    """Whether the table of token vectors is trained: most rows of a large vocabulary never occur in the data."""

    AUTO = "auto"  # frozen above 100,000 pieces
    TRAINED = "trained"
    FROZEN = "frozen"


class LoraAlso(StrEnum):
    """Weights trained in full beside low-rank adapters: few, and Chen et al. 2024 (LongLoRA) found them to matter."""

    NONE = "none"
    NORMS = "norms"
    NORMS_AND_EMBEDDINGS = "norms-and-embeddings"


class Report(StrEnum):
    """Where else the curves go, besides the run folder."""

    NONE = "none"
    TENSORBOARD = "tensorboard"
    WANDB = "wandb"
    TRACKIO = "trackio"


def option(default: Any, text: str, low: float | None = None, high: float | None = None) -> Any:
    """Declare a field: its default, a line of help, and its smallest and largest value."""
    return field(default=default, metadata={"help": text, "low": low, "high": high})


class OptionError(Failure, ValueError):
    """An option with a wrong value; `option` is the field's name."""

    def __init__(self, option: str, code: str, message: str) -> None:
        super().__init__(code, message)
        self.option = option


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """What all trainings share. Raises `OptionError` where an option is out of its range or does not fit another."""

    base: str = option(STARTER, "starting point: starter, a hub id, a folder, or a finished run")
    epochs: float = option(3.0, "passes over the training examples", 0.01, 1000)
    batch_size: int = option(64, "examples a training step", 2, 65536)
    evaluation_batch_size: int = option(128, "texts or pairs at a time while measuring", 1, 65536)
    learning_rate: float = option(2e-5, "largest step of the optimizer", 1e-9, 10)
    weight_decay: float = option(0.01, "pull of the weights towards zero (AdamW)", 0, 1)
    warmup: float = option(0.1, "share of the steps over which the learning rate rises", 0, 1)
    max_length: int = option(0, "tokens read of a text, or of a pair; 0: as many as the base reads", 0, 65536)
    frozen_layers: int = option(0, "lowest layers kept as they are, the token embeddings with them", 0, 1000)
    lora_rank: int = option(0, "rank of low-rank adapters trained instead of the weights (LoRA); 0: none", 0, 1024)
    lora_also: LoraAlso = option(LoraAlso.NONE, "weights trained in full beside the adapters")
    attention_dropout: AttentionDropout = option(AttentionDropout.AUTO, "random forgetting of attention")
    embedding_table: EmbeddingTable = option(EmbeddingTable.AUTO, "whether the table of token vectors is trained")
    recompute: bool = option(False, "hold one pass at a time and compute it twice: less memory, a third more time")
    precision: Precision = option(Precision.AUTO, "numbers that matrix products are computed in")
    patience: int = option(0, "measurements without a better one after which training ends; 0: never", 0, 1000)
    evaluation_steps: int = option(0, "steps between measurements; 0: once an epoch", 0, 10**9)
    save_steps: int = option(0, "steps between checkpoints, a multiple of evaluation-steps; 0: as often as measured", 0)
    save_minutes: float = option(10.0, "longest time between checkpoints; 0: no limit", 0, 10**6)
    logging_steps: int = option(0, "steps between entries of the loss curve; 0: so that there are up to 100", 0, 10**9)
    save_limit: int = option(2, "checkpoints kept besides the best", 1, 1000)
    evaluation_limit: int = option(500, "validation examples measured during training; 0: all", 0, 10**9)
    report_to: Report = option(Report.NONE, "where else the curves go; its package must be installed")
    seed: int = option(0, "seed of every random choice", 0, 2**31 - 1)
    # a kind says which there are, and which is its default
    objective: StrEnum  # what training makes smaller
    best_by: StrEnum  # what picks the best checkpoint

    @classmethod
    def defaults_for(cls, base: str = "") -> Self:
        """Return options that suit the base, by default the kind's own."""
        return cls(base=base or cls.base)  # type: ignore[call-arg]  # every kind has a default objective

    @classmethod
    def defaults_for_objective(cls, objective: str) -> dict[str, Any]:
        """Return options that an objective wants otherwise than the others of its kind."""
        del objective
        return {}

    @classmethod
    def available_bases(cls) -> tuple[str, ...]:
        """Return the bases of this machine that a training can start from, the default first."""
        return tuple(dict.fromkeys((default_model(), STARTER)))

    @classmethod
    def check_base(cls, source: ModelSource) -> None:
        """Raise `ModelError` if no such training can start from this base, as far as is known before a download."""

    @property
    def has_layers(self) -> bool:
        """Whether the model multiplies matrices, as all do but a starter."""
        return self.base != STARTER

    @property
    def mines_negatives(self) -> bool:
        return False

    @property
    def rerank_depth(self) -> int:
        """How many of BM25's first passages are reranked in evaluation; 0: all passages are searched."""
        return 0

    @property
    def helpers(self) -> dict[str, str]:
        """Models that take part besides the base, by the option that names them."""
        return {}

    def __post_init__(self) -> None:
        for option_field in fields(self):
            value = getattr(self, option_field.name)
            low = option_field.metadata.get("low")
            high = option_field.metadata.get("high")
            # written this way round, a value that is not a number is refused too
            if not ((low is None or value >= low) and (high is None or value <= high)):
                raise _range_error(
                    option_field.name, f"between {low} and {high}" if high is not None else f"{low} or more", value
                )
            if isinstance(option_field.default, StrEnum):  # read from JSON, it is a plain word
                choices = type(option_field.default)
                if value not in list(choices):
                    raise _range_error(option_field.name, f"one of {', '.join(choices)}", value)
                object.__setattr__(self, option_field.name, choices(value))
        for name, code, message in self._problems():
            raise OptionError(name, code, f"{name} {message}")

    def _problems(self) -> Iterator[Problem]:
        """What does not fit: the option's name, the reason's code, and words that go on after the name."""
        if not self.base.strip():
            yield "base", "empty", "must name a model"
        if self.save_steps % (self.evaluation_steps or 1):
            reason = "must be a multiple of evaluation_steps: the best checkpoint is one measured"
            yield "save_steps", "save_steps", reason
        if self.save_steps and not self.evaluation_steps:
            yield "save_steps", "save_steps", "needs evaluation_steps: the best checkpoint is one measured"
        if self.base == STARTER:
            for name in ("max_length", "frozen_layers", "lora_rank"):
                if getattr(self, name):
                    yield name, "starter", "must be 0 for the starter: it has no such part"
            if self.recompute:
                yield "recompute", "starter", "must be off for the starter: it takes a batch only as a whole"
            if self.precision is Precision.BFLOAT16:
                yield "precision", "starter", "must be float32 for the starter"
        if self.lora_rank and self.frozen_layers:
            yield "frozen_layers", "lora", "must be 0 with lora_rank: adapters leave every weight as it is"
        if self.lora_also is not LoraAlso.NONE and not self.lora_rank:
            yield "lora_also", "lora_also", "must be none without lora_rank: every weight is trained then"
        if self.lora_also is LoraAlso.NORMS_AND_EMBEDDINGS and self.embedding_table is EmbeddingTable.FROZEN:
            yield "lora_also", "lora_table", "must not be norms-and-embeddings where embedding_table is frozen"


def _range_error(name: str, expected: str, value: object) -> OptionError:
    return OptionError(name, "range", f"{name} must be {expected}, not {value}")


def uses_bfloat16(options: TrainingOptions) -> bool:
    """Whether matrix products are computed in bfloat16: as the options say, or where this machine is made for it."""
    if options.precision is Precision.AUTO and not options.has_layers:
        return False  # a starter looks vectors up, it multiplies hardly any
    return in_bfloat16(options.precision)


class BestBy(StrEnum):
    """What picks the best checkpoint, measured on validation questions."""

    RECALL_1 = "recall@1"
    RECALL_10 = "recall@10"
    MRR_10 = "mrr@10"
    NDCG_10 = "ndcg@10"


@dataclass(frozen=True, kw_only=True)
class QuestionOptions(TrainingOptions):
    """What the trainings on a question set share."""

    best_by: StrEnum = option(BestBy.NDCG_10, "measure on validation questions that picks the checkpoint")
    title: bool = option(True, "put the article title before the passage")


class NegativesFrom(StrEnum):
    """The retriever whose near misses become hard negatives."""

    BM25 = "bm25"
    DENSE = "dense"
    HYBRID = "hybrid"


@dataclass(frozen=True, kw_only=True)
class RankerOptions(QuestionOptions):
    """What the trainings of bi-encoders and of cross-encoders share."""

    negatives: int = option(0, "hard negatives a question", 0, 100)
    negatives_from: NegativesFrom = option(NegativesFrom.BM25, "retriever whose near misses are hard negatives")
    negatives_model: str = option(STARTER, "bi-encoder of a dense or hybrid negatives-from")
    negatives_first: int = option(1, "rank from which hard negatives are drawn", 1, 1000)
    negatives_last: int = option(20, "rank down to which hard negatives are drawn", 1, 1000)
    negatives_margin: float = option(
        0.0, "share by which a negative's score must be below that of the question's passage; 0: may be above", 0, 1
    )
    negatives_with_answer: bool = option(False, "draw passages that hold the answer's text, too")

    @property
    def window_options(self) -> WindowOptions | None:
        """How long passages are cut; None where the model reads only their beginning."""
        return None

    @property
    def helpers(self) -> dict[str, str]:
        uses_encoder = self.negatives and self.negatives_from is not NegativesFrom.BM25
        return {"negatives_model": self.negatives_model} if uses_encoder else {}

    @property
    def mines_negatives(self) -> bool:
        return self.negatives > 0

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        if self.negatives_last < self.negatives_first:
            yield "negatives_last", "ranks", "must not be before negatives_first"
        if not self.negatives_model.strip():
            yield "negatives_model", "empty", "must name a model"


@dataclass(frozen=True, kw_only=True)
class WindowedOptions(RankerOptions):
    """What the trainings of models share whose search can read long passages in windows."""

    windows: bool = option(
        True, "of passages longer than the model reads, show the window with the answer and measure the best one"
    )

    @property
    def window_options(self) -> WindowOptions | None:
        return WindowOptions() if self.windows else None
