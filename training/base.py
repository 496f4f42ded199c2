"""Base classes of all kinds of training: the `Recipe` of a kind, the `Task` of a trainer, and the `Family`."""

import os
import time
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.split import SplitOptions
from mrc_workbench.models.sources import ModelSource
from mrc_workbench.retrieval.comparison.multistage import HybridSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.training.options import Report, TrainingOptions, uses_bfloat16

if TYPE_CHECKING:
    from mrc_workbench.training.engine.speed import LowerStates

Columns = dict[str, list[Any]]  # inputs of the loss, one entry per example
FeatureBuilder = Callable[[list[int]], dict[str, Any]]  # from rows of the examples to a model's input
OnProgress = Callable[[float], None]  # receives the fraction done, 0 to 1
MarkedNegatives = tuple[tuple[str, str], ...]  # ids of a question and of a passage that a user marked as its negative
LOSS = "loss"  # selects the best checkpoint by the held-out loss
VALIDATION = "validation"  # measures are logged as eval_validation_<measure>
MEMORY_FRACTION = 0.25  # of the free memory, for stored states of frozen layers; other texts are always computed
CARDS = tomllib.loads(Path(__file__).with_name("recipes").joinpath("cards.toml").read_text(encoding="utf-8"))
_SAMPLE_SIZE = 64  # texts or pairs
_SAMPLES_PER_ROUND = 16


def processes() -> int:
    """Return the number of processes of the training, set by `torchrun`."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def estimate_seconds(
    work: Callable[[list[Any]], object],
    items: Sequence[Any],
    limit: float = 2.0,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Estimate the seconds that `work` takes for all items, which are sorted by length, from evenly spaced samples."""
    work(list(items[:2]))  # warm up
    sampled_items = items[:: max(1, len(items) // _SAMPLE_SIZE)]
    rounds = max(1, len(sampled_items) // _SAMPLES_PER_ROUND)
    started = clock()
    processed_count = 0
    for number in range(rounds):
        sample = sampled_items[number::rounds]
        work(list(sample))
        processed_count += len(sample)
        if clock() - started > limit:
            break
    return (clock() - started) / processed_count * len(items)


@dataclass(frozen=True)
class Examples:
    """The training examples as batch samplers read them."""

    question: np.ndarray  # (n_examples,) int, row of `relevance`
    passages: np.ndarray  # (n_examples, 1 + n_negatives) int32 rows of the corpus, the positive first; -1: missing
    relevance: csr_array  # (n_questions, n_passages), nonzero where relevant
    lengths: np.ndarray  # (n_examples,) text lengths in any unit
    in_batch_negatives: bool  # whether passages of other examples are negatives
    article: np.ndarray | None = None  # (n_examples,) int: group batches by article, not by length
    shared: bool = False  # whether batches hold passages with all their questions

    @classmethod
    def independent(
        cls, lengths: np.ndarray, *, in_batch_negatives: bool = False, article: np.ndarray | None = None
    ) -> Self:
        """Return examples that share no texts: any of them can form a batch."""
        rows = np.arange(len(lengths))
        identity_matrix = csr_array((np.ones(len(rows), dtype=np.int32), (rows, rows)), shape=(len(rows), len(rows)))
        passages = rows[:, None].astype(np.int32)
        return cls(rows, passages, identity_matrix, lengths.astype(float), in_batch_negatives, article)

    def passage_matrix(self) -> csr_array:
        """Return the passages of each example, bool `(n_examples, n_passages)`."""
        rows, columns = np.nonzero(self.passages >= 0)
        shape = (len(self.passages), self.relevance.shape[1])
        return csr_array((np.ones(len(rows), dtype=bool), (rows, self.passages[rows, columns])), shape=shape)

    def forbidden(self) -> csr_array:
        """Return the passages that other examples of a batch must not contain: its own and relevant ones."""
        return self.passage_matrix() + self.relevance[self.question].astype(bool)

    def usable_rows(self) -> np.ndarray:
        """Return the rows of examples without a repeated passage or a relevant negative."""
        sorted_passages = np.sort(self.passages, axis=1)
        negatives = self.passages[:, 1:]
        if not self.in_batch_negatives or not negatives.size:
            return np.arange(len(self.question))
        is_repeated = (sorted_passages[:, 1:] == sorted_passages[:, :-1]) & (sorted_passages[:, 1:] >= 0)
        is_relevant = self.relevance[self.question[:, None], np.maximum(negatives, 0)].toarray().astype(bool)
        return np.flatnonzero(~(is_repeated | (is_relevant & (negatives >= 0))).any(axis=1))


class Teacher(Protocol):
    """Labels examples before training: one label per example."""

    def labels(self, on_progress: OnProgress) -> list[Any]: ...
    def placeholder_labels(self) -> list[Any]:
        """Return labels of the same shape without computing them."""

    def estimate_seconds(self) -> float: ...


class EvaluationScores(Protocol):
    """Results on some examples."""

    def means(self) -> dict[str, float]: ...
    def to_dict(self) -> dict[str, Any]: ...


S = TypeVar("S", bound=EvaluationScores)


@dataclass(frozen=True)
class Measurement(Generic[S]):
    """A model's results on validation examples, on a sample of training examples, and on test examples.

    `training` is None if the sample has no labels. Test examples select nothing. `evaluation_key` identifies the
    validation examples if the data does not determine them.
    """

    validation: S
    training: S | None = None
    test: S | None = None
    evaluation_key: str = ""

    def means(self) -> dict[str, dict[str, float]]:
        return {"validation": self.validation.means(), "training": self.training.means() if self.training else {}}

    def metrics(self) -> dict[str, float]:
        """Return the means by name: `validation_ndcg@10`, `training_ndcg@10` and so on."""
        return {f"{part}_{name}": value for part, means in self.means().items() for name, value in means.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the content of `before.json`."""
        parts = {"validation": self.validation, "training": self.training, "test": self.test}
        key_entry = {"evaluation_key": self.evaluation_key} if self.evaluation_key else {}
        return key_entry | {name: part.to_dict() for name, part in parts.items() if part}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], parse: Callable[[Any], S]) -> Self | None:
        """Read the content of `before.json`; None if parts are missing, as in files of earlier versions."""
        if "validation" not in stored:
            return None
        parts = {name: parse(stored[name]) for name in ("validation", "training", "test") if name in stored}
        return cls(**parts, evaluation_key=stored.get("evaluation_key", ""))


@dataclass(frozen=True)
class ValidationExamples:
    """Validation examples as the loss reads them."""

    columns: Columns
    examples: Examples
    teacher: Teacher | None = None
    features: FeatureBuilder | None = None

    @classmethod
    def create_if_usable(cls, columns: Columns, examples: Examples, **extra_fields: Any) -> Self | None:
        """Return None if no two examples can form a batch, or for several processes: their negatives differ."""
        return None if processes() > 1 or len(examples.usable_rows()) < 2 else cls(columns, examples, **extra_fields)


@dataclass(frozen=True)
class Task:
    """The input of a trainer. With `features`, the model computes its loss; the columns are only for estimates."""

    model: Any
    loss: Any
    columns: Columns
    examples: Examples
    evaluate: Callable[[Any], Measurement[Any]]
    prompts: dict[str, str] = field(default_factory=dict)  # by column: the prefix of its texts
    routes: dict[str, str] = field(default_factory=dict)  # by column: the route of a model with several modules
    resolved_options: dict[str, str] = field(default_factory=dict)  # values of options that were `auto`
    metadata: dict[str, Any] = field(default_factory=dict)  # for the provenance
    teacher: Teacher | None = None
    held_out: ValidationExamples | None = None
    features: FeatureBuilder | None = None
    max_snapshots: int = 0  # how many evaluated models are stored, see `training.engine.checkpoints`
    lower_states: "LowerStates | None" = None  # of the frozen layers
    best_by: str = ""  # the measure, or `LOSS`, that selects the best checkpoint if the options say `auto`

    def with_labels(self, compute_labels: Callable[[Teacher], list[Any]]) -> "Task":
        """Add the teacher's labels to the training and the validation examples."""
        if not self.teacher:
            return self
        labels = compute_labels(self.teacher)
        held_out = self.held_out
        if held_out and held_out.teacher:
            columns = held_out.columns | {"label": compute_labels(held_out.teacher)}
            held_out = ValidationExamples(columns, held_out.examples)
        return replace(self, columns=self.columns | {"label": labels}, teacher=None, held_out=held_out)


def trainer_arguments(checkpoints: Path, options: TrainingOptions, sampler: Any, best_by: str = "") -> dict[str, Any]:
    """Return keyword arguments of all trainers; `best_by` is by default that of the options."""
    import torch

    by_steps = options.evaluation_steps > 0
    best_by = best_by or options.best_by
    gpu = torch.cuda.is_available()
    return {
        "output_dir": str(checkpoints),
        "batch_sampler": sampler,
        "num_train_epochs": options.epochs,
        "per_device_train_batch_size": max(1, options.batch_size // processes()),
        "per_device_eval_batch_size": options.evaluation_batch_size,
        "learning_rate": options.learning_rate,
        "weight_decay": options.weight_decay,
        "warmup_steps": min(options.warmup, 1 - 1e-9),  # a share of all steps; from 1 on it would be a number of them
        "bf16": uses_bfloat16(options),
        "use_cpu": not gpu,
        "logging_steps": options.logging_steps or 0.01,  # of all steps: up to 100 entries
        "logging_first_step": True,
        "eval_strategy": "steps" if by_steps else "epoch",
        "eval_steps": options.evaluation_steps or None,
        "save_strategy": "steps" if by_steps else "epoch",
        "save_steps": options.save_steps or options.evaluation_steps or 500,
        "load_best_model_at_end": True,
        "metric_for_best_model": "eval_loss" if best_by == LOSS else f"eval_{VALIDATION}_{best_by}",
        "greater_is_better": best_by != LOSS,
        "restore_callback_states_from_checkpoint": True,
        "seed": options.seed,
        "dataloader_pin_memory": gpu,
        "report_to": [] if options.report_to is Report.NONE else [options.report_to.value],
        "disable_tqdm": True,
        **({"ddp_backend": "nccl" if gpu else "gloo", "ddp_find_unused_parameters": True} if processes() > 1 else {}),
    }


class Family(ABC):
    """The kinds of training that use one kind of data; `card.md.jinja` has a section for each `tag`."""

    measures: ClassVar[Mapping[str, str]]  # by name: the label on a card
    curves: ClassVar[tuple[str, ...]]  # the measures in a training's progress
    tag: ClassVar[str]

    @abstractmethod
    def find(self, reference: str) -> Any:
        """Return the data, which has a `name` and a `fingerprint`. Raises `DataError`."""

    def check(self, data: Any, options: Any) -> None:  # noqa: B027 - most families take any data
        """Raise `OptionError` if the options do not fit the data."""

    @abstractmethod
    def texts(self, data: Any, options: Any) -> Sequence[str]:
        """Return the texts from which a starter is built."""

    @abstractmethod
    def describe(self, data: Any, split_options: SplitOptions, options: Any) -> dict[str, Any]:
        """Return the counts of the data and of its parts as JSON, for the provenance."""

    @abstractmethod
    def prepare_training_data(self, data: Any, plan: Any, on_progress: OnProgress | None) -> Any:
        """Return a recipe's data for a `TrainingPlan`; `on_progress` receives the progress of slow steps.

        It has `baselines()`, measurements of other methods by name, `read_measurement(stored)`, which is None if that
        is incomplete or of other data, and `summarize(measured, options)`, the content of `scores.json` from
        measurements named `before`, `after` and so on. Raises `TrainingError` if a part has too few examples.
        """

    def card_rows(self, options: Any, scores: Mapping[str, Any]) -> dict[str, str]:
        """Return the rows of a card's table: labels by names of measurements."""
        return {"before": "The base", "after": "**This model**"}


Options = TypeVar("Options", bound=TrainingOptions)
Data = TypeVar("Data")  # what a family makes of its data


class Recipe(ABC, Generic[Options, Data]):
    """A kind of training; an instance is one training. Texts for cards and pages are in `recipes/cards.toml`."""

    kind: ClassVar[str]
    family: ClassVar[Family]
    options: ClassVar[type[TrainingOptions]]
    base: ClassVar[str]  # hub id that a page offers besides the bases of the options
    measure: ClassVar[str]  # the metric that a page displays for a finished training
    colour: ClassVar[str]  # of its curves
    description: ClassVar[str] = ""  # by the command
    summary: ClassVar[str]  # the words of a finished model's card
    hub_task: ClassVar[str]
    loading: ClassVar[tuple[str, str]]
    loading_starter: ClassVar[tuple[str, str] | tuple[()]] = ()
    usage: ClassVar[str]
    # name and spec of a retriever that searches with a finished model
    retriever_spec: ClassVar[tuple[str, Callable[..., Spec]] | tuple[()]] = ()

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        for name, text in CARDS.get(vars(cls).get("kind", ""), {}).items():
            setattr(cls, name, text)

    def __init__(self, options: Options, data: Data) -> None:
        self._options = options
        self._data = data

    @abstractmethod
    def evaluate(self, source: ModelSource) -> Measurement[Any]:
        """Evaluate a model on the validation examples and on a sample of the training examples."""

    @abstractmethod
    def build_task(self, source: ModelSource) -> Task:
        """Load the base and adapt it for training. Raises `OptionError`, `ModelError` and `TrainingError`."""

    def evaluate_finished(self, model_folder: Path) -> tuple[Mapping[str, Measurement[Any]], dict[str, Any]]:
        """Return measurements of the finished model by name, `after` among them, and other entries of `scores.json`."""
        return {"after": self.evaluate(finished_model_source(model_folder))}, {}

    @abstractmethod
    def estimate_evaluation_seconds(self, model: Any) -> float:
        """Estimate the seconds of one evaluation from a part of it."""

    @classmethod
    def retrievers(cls, model: str, first: str, *, title: bool, name_for: Callable[[str], str]) -> list[Spec]:
        """Return retrievers that use a finished model, without and with the BM25 retriever named `first`."""
        if not cls.retriever_spec:
            return []
        name, spec = cls.retriever_spec
        retriever = spec(name=name_for(name), model=model, title=title)
        return [retriever, HybridSpec(name=name_for("Hybrid"), retrievers=(first, retriever.name))]


def finished_model_source(model_folder: Path) -> ModelSource:
    """Return the source of a finished model."""
    return ModelSource(str(model_folder), folder=model_folder)


def transformer_layers(network: Any) -> Any:
    """Return the layers of a transformer as a `ModuleList`, lowest first; None for an unknown architecture."""
    backbone = getattr(network, network.base_model_prefix, network)
    encoder = getattr(backbone, "encoder", None) or getattr(backbone, "transformer", None) or backbone
    layers = getattr(encoder, "layer", None)
    return layers if layers is not None else getattr(backbone, "layers", None)
