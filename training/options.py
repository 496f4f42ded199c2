"""Options of every training and of every training on a question set, with defaults, units and ranges."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

from mrc_workbench.data.files import current_names
from mrc_workbench.data.problems import Failure
from mrc_workbench.models.inference import Precision, in_bfloat16
from mrc_workbench.models.sources import STARTER, ModelSource, default_model
from mrc_workbench.models.windows import WindowOptions


class TrainingError(Failure):
    """A training cannot start or continue."""


Problem = tuple[str, str, str]
# options by their names in earlier versions
EARLIER_NAMES = {
    "batches_of": "group_batches_by",
    "judged_on": "evaluation_set",
    "kept_models": "max_snapshots",
    "lora_also": "lora_full_weights",
    "mask_share": "mask_fraction",
    "mix_weight": "mix_loss_weight",
    "negatives_share": "negative_question_fraction",
    "recompute": "gradient_checkpointing",
    "rules": "normalization",
    "shown_as_mask": "mask_token_fraction",
    "shown_as_random": "random_token_fraction",
}


def current_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options under their current names."""
    return current_names(options, EARLIER_NAMES, "training options")


def with_current_names(options: object) -> object:
    """Return options under their current names, and any other value unchanged: for pydantic validators."""
    return current_options(options) if isinstance(options, Mapping) else options


class AttentionDropout(StrEnum):
    """Attention dropout during training. On a CPU it triples time and memory."""

    AUTO = "auto"  # none on a CPU, the base's rate on a GPU
    BASE = "base"
    NONE = "none"


class EmbeddingTable(StrEnum):
    """Whether token embeddings are trained: most rows of a large vocabulary never occur in the data."""

    AUTO = "auto"  # frozen above 100,000 tokens
    TRAINED = "trained"
    FROZEN = "frozen"


class LoraFullWeights(StrEnum):
    """Weights that are trained in full in addition to low-rank adapters (LongLoRA: Chen et al. 2024)."""

    NONE = "none"
    NORMS = "norms"
    NORMS_AND_EMBEDDINGS = "norms-and-embeddings"


class Report(StrEnum):
    """A service that receives the curves in addition to the run folder."""

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
    """Options of all trainings. Raises `OptionError` if one is out of range or does not fit another."""

    base: str = option(STARTER, "starting point: starter, a hub id, a folder, or a finished run")
    epochs: float = option(3.0, "passes over the training examples", 0.01, 1000)
    batch_size: int = option(64, "examples per training step", 2, 65536)
    evaluation_batch_size: int = option(128, "texts or pairs per evaluation batch", 1, 65536)
    learning_rate: float = option(2e-5, "peak learning rate", 1e-9, 10)
    weight_decay: float = option(0.01, "weight decay (AdamW)", 0, 1)
    warmup: float = option(0.1, "fraction of the steps over which the learning rate rises", 0, 1)
    max_length: int = option(0, "tokens read of a text or pair; 0: the maximum of the base", 0, 65536)
    frozen_layers: int = option(0, "lowest layers that are frozen, with the token embeddings", 0, 1000)
    lora_rank: int = option(0, "rank of low-rank adapters trained instead of the weights (LoRA); 0: none", 0, 1024)
    lora_full_weights: LoraFullWeights = option(LoraFullWeights.NONE, "weights trained in full beside the adapters")
    attention_dropout: AttentionDropout = option(AttentionDropout.AUTO, "dropout of attention probabilities")
    embedding_table: EmbeddingTable = option(EmbeddingTable.AUTO, "whether token embeddings are trained")
    gradient_checkpointing: bool = option(False, "repeat each pass for its gradient: less memory, a third more time")
    precision: Precision = option(Precision.AUTO, "number format of matrix products")
    patience: int = option(0, "evaluations without improvement after which training ends; 0: never", 0, 1000)
    evaluation_steps: int = option(0, "steps between evaluations; 0: once per epoch", 0, 10**9)
    save_steps: int = option(0, "steps between checkpoints, a multiple of evaluation-steps; 0: each evaluation", 0)
    save_minutes: float = option(10.0, "longest time between checkpoints; 0: no limit", 0, 10**6)
    logging_steps: int = option(0, "steps between entries of the loss curve; 0: up to 100 entries", 0, 10**9)
    save_limit: int = option(2, "checkpoints stored besides the best", 1, 1000)
    evaluation_limit: int = option(500, "validation examples evaluated during training; 0: all", 0, 10**9)
    report_to: Report = option(Report.NONE, "service that also receives the curves; its package must be installed")
    seed: int = option(0, "random seed", 0, 2**31 - 1)
    # each kind declares its choices and defaults
    objective: StrEnum
    best_by: StrEnum

    @classmethod
    def defaults_for(cls, base: str = "") -> Self:
        """Return options that suit the base, by default that of the kind."""
        return cls(base=base or cls.base)  # type: ignore[call-arg]  # every kind has a default objective

    @classmethod
    def defaults_for_objective(cls, objective: str) -> dict[str, Any]:
        """Return the defaults that an objective changes."""
        del objective
        return {}

    @classmethod
    def available_bases(cls) -> tuple[str, ...]:
        """Return the bases on this machine that a training can start from, the default first."""
        return tuple(dict.fromkeys((default_model(), STARTER)))

    @classmethod
    def check_base(cls, source: ModelSource) -> None:
        """Raise `ModelError` if this kind cannot start from the base. A base that is not downloaded yet passes."""

    @property
    def has_layers(self) -> bool:
        """Whether the model is a transformer; a starter is not."""
        return self.base != STARTER

    @property
    def mines_negatives(self) -> bool:
        return False

    @property
    def rerank_depth(self) -> int:
        """How many BM25 passages are reranked in evaluation; 0: all passages are searched."""
        return 0

    @property
    def auxiliary_models(self) -> dict[str, str]:
        """Models that the training uses besides the base, by option name."""
        return {}

    def __post_init__(self) -> None:
        for option_field in fields(self):
            value = getattr(self, option_field.name)
            low = option_field.metadata.get("low")
            high = option_field.metadata.get("high")
            # this form also rejects NaN
            if not ((low is None or value >= low) and (high is None or value <= high)):
                expected = f"between {low} and {high}" if high is not None else f"{low} or more"
                raise _range_error(option_field.name, expected, value)
            if isinstance(option_field.default, StrEnum):  # JSON holds plain text
                choices = type(option_field.default)
                if value not in list(choices):
                    raise _range_error(option_field.name, f"one of {', '.join(choices)}", value)
                object.__setattr__(self, option_field.name, choices(value))
        for name, code, message in self._problems():
            raise OptionError(name, code, f"{name} {message}")

    def _problems(self) -> Iterator[Problem]:
        """Yield the option's name, an error code, and a message that continues after the name."""
        if not self.base.strip():
            yield "base", "empty", "must name a model"
        if self.save_steps % (self.evaluation_steps or 1):
            reason = "must be a multiple of evaluation_steps: only evaluated checkpoints can be the best"
            yield "save_steps", "save_steps", reason
        if self.save_steps and not self.evaluation_steps:
            yield "save_steps", "save_steps", "needs evaluation_steps: only evaluated checkpoints can be the best"
        if self.base == STARTER:
            for name in ("max_length", "frozen_layers", "lora_rank"):
                if getattr(self, name):
                    yield name, "starter", "must be 0 for the starter, which has no layers"
            if self.gradient_checkpointing:
                yield "gradient_checkpointing", "starter", "must be off for the starter, which processes whole batches"
            if self.precision is Precision.BFLOAT16:
                yield "precision", "starter", "must be float32 for the starter"
        if self.lora_rank and self.frozen_layers:
            yield "frozen_layers", "lora", "must be 0 with lora_rank: LoRA freezes all weights"
        if self.lora_full_weights is not LoraFullWeights.NONE and not self.lora_rank:
            yield "lora_full_weights", "lora_full_weights", "must be none without lora_rank, which trains all weights"
        trains_table = self.lora_full_weights is LoraFullWeights.NORMS_AND_EMBEDDINGS
        if trains_table and self.embedding_table is EmbeddingTable.FROZEN:
            yield "lora_full_weights", "lora_table", "must not be norms-and-embeddings if embedding_table is frozen"


def _range_error(name: str, expected: str, value: object) -> OptionError:
    return OptionError(name, "range", f"{name} must be {expected}, not {value}")


def uses_bfloat16(options: TrainingOptions) -> bool:
    """Whether matrix products are computed in bfloat16. AUTO decides by the hardware."""
    if options.precision is Precision.AUTO and not options.has_layers:
        return False  # a starter looks vectors up and multiplies hardly any
    return in_bfloat16(options.precision)


class BestBy(StrEnum):
    """The measure on validation questions that selects the best checkpoint."""

    RECALL_1 = "recall@1"
    RECALL_10 = "recall@10"
    MRR_10 = "mrr@10"
    NDCG_10 = "ndcg@10"


@dataclass(frozen=True, kw_only=True)
class QuestionOptions(TrainingOptions):
    """Options of trainings on a question set."""

    best_by: StrEnum = option(BestBy.NDCG_10, "measure on validation questions that selects the checkpoint")
    title: bool = option(True, "put the article title before the passage")


class NegativesFrom(StrEnum):
    """The retriever that mines hard negatives."""

    BM25 = "bm25"
    DENSE = "dense"
    HYBRID = "hybrid"


@dataclass(frozen=True, kw_only=True)
class RankerOptions(QuestionOptions):
    """Options of trainings that can use hard negatives."""

    negatives: int = option(0, "hard negatives per question", 0, 100)
    negatives_from: NegativesFrom = option(NegativesFrom.BM25, "retriever that mines hard negatives")
    negatives_model: str = option(STARTER, "bi-encoder of a dense or hybrid negatives-from")
    negatives_first: int = option(1, "first rank from which hard negatives are sampled", 1, 1000)
    negatives_last: int = option(20, "last rank from which hard negatives are sampled", 1, 1000)
    negatives_margin: float = option(0.0, "fraction of its score by which a question's passage must be better", 0, 1)
    negatives_with_answer: bool = option(False, "also sample passages that contain the answer's text")

    @property
    def window_options(self) -> WindowOptions | None:
        """How long passages are cut; None if the model reads only their beginning."""
        return None

    @property
    def auxiliary_models(self) -> dict[str, str]:
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
    """Options of trainings whose models read long passages in windows."""

    windows: bool = option(True, "read long passages in windows: train on the answer's, evaluate by the best one")

    @property
    def window_options(self) -> WindowOptions | None:
        return WindowOptions() if self.windows else None
