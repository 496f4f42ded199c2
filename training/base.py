"""What all kinds of training share: the task that a trainer is given, and the `Recipe` of a kind, which makes it.

Kinds that learn from the same data share a `Family`.
"""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.split import SplitOptions
from mrc_workbench.models.sources import ModelSource
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.training.options import Report, TrainingOptions, uses_bfloat16

if TYPE_CHECKING:
    from mrc_workbench.training.engine.speed import LowerStates

Columns = dict[str, list[Any]]  # what the loss reads, one entry an example
FeaturesOf = Callable[[list[int]], dict[str, Any]]  # of rows of the examples, what a model reads at once
OnProgress = Callable[[float], None]  # is told the share done, 0 to 1
Marks = tuple[tuple[str, str], ...]  # ids of a question and of a passage marked as a hard negative of it
LOSS = "loss"  # of the examples held out, where that picks the best checkpoint
VALIDATION = "validation"  # what measures are logged as: eval_validation_<measure>
_PROBED = 64  # texts or pairs
_PROBED_AT_ONCE = 16


def processes() -> int:
    """How many processes share the training: what `torchrun` says, else 1."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def seconds_for(
    work: Callable[[list[Any]], object],
    everything: Sequence[Any],
    limit: float = 2.0,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Seconds that `work` would take for everything in order of its length, by some of it: short and long ones alike.

    Evenly spaced samples are tried one after the other until `limit` seconds are spent.
    """
    work(list(everything[:2]))  # what is only done once
    strides = max(1, len(everything) // _PROBED)
    probed = everything[::strides]
    rounds = max(1, len(probed) // _PROBED_AT_ONCE)
    began, done = clock(), 0
    for number in range(rounds):
        sample = probed[number::rounds]
        work(list(sample))
        done += len(sample)
        if clock() - began > limit:
            break
    return (clock() - began) / done * len(everything)


@dataclass(frozen=True)
class Examples:
    """What batches must know of the training examples."""

    question: np.ndarray  # (n_examples,) int, row of `relevance`
    passages: np.ndarray  # (n_examples, 1 + n_negatives) int32 rows of the corpus, the positive first; -1 where fewer
    relevance: csr_array  # (n_questions, n_passages), nonzero where relevant
    lengths: np.ndarray  # (n_examples,) how long the texts are, in any unit
    in_batch: bool  # whether passages of other examples are negatives; if not, any examples may stand together
    article: np.ndarray | None = None  # (n_examples,) int: then texts of one article go together, not of like length
    shared: bool = False  # whether batches are of passages with their questions, see `engine.shared_passages`

    @classmethod
    def apart(cls, lengths: np.ndarray, *, contrasts: bool = False, article: np.ndarray | None = None) -> Self:
        """Examples of these lengths of which none holds what another one does: any may stand together."""
        rows = np.arange(len(lengths))
        itself = csr_array((np.ones(len(rows), dtype=np.int32), (rows, rows)), shape=(len(rows), len(rows)))
        return cls(rows, rows[:, None].astype(np.int32), itself, lengths.astype(float), contrasts, article)

    def shown(self) -> csr_array:
        """Which passages an example shows, bool `(n_examples, n_passages)`."""
        rows, places = np.nonzero(self.passages >= 0)
        shape = (len(self.passages), self.relevance.shape[1])
        return csr_array((np.ones(len(rows), dtype=bool), (rows, self.passages[rows, places])), shape=shape)

    def forbidden(self) -> csr_array:
        """Which passages no other example of its batch may show: those shown and those relevant here; like `shown`."""
        return self.shown() + self.relevance[self.question].astype(bool)

    def sound(self) -> np.ndarray:
        """Rows of the examples that can stand in a batch at all: no passage twice, no negative that is relevant."""
        ordered, negatives = np.sort(self.passages, axis=1), self.passages[:, 1:]
        if not self.in_batch or not negatives.size:
            return np.arange(len(self.question))
        twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
        relevant = self.relevance[self.question[:, None], np.maximum(negatives, 0)].toarray().astype(bool)
        return np.flatnonzero(~(twice | (relevant & (negatives >= 0))).any(axis=1))


class TeacherLabels(Protocol):
    """What a teacher says of the examples before they are trained on."""

    def labels(self, on_progress: OnProgress) -> list[Any]:
        """Return what the loss reads, one entry an example."""

    def stand_ins(self) -> list[Any]:
        """Return as many of the same shape for which nobody was asked."""

    def seconds(self) -> float:
        """Seconds that the labels would take."""


class Measurement(Protocol):
    """What a model reaches."""

    def means(self) -> dict[str, dict[str, float]]:
        """Figures by name on `validation`, which judges it, and on `training`, a few examples that it learns from."""

    def kept(self) -> dict[str, Any]:
        """What it is made of again, as JSON."""


def figures(measurement: Measurement) -> dict[str, float]:
    """The figures, named `validation_ndcg@10`, `training_ndcg@10` and so on."""
    return {f"{of}_{name}": value for of, means in measurement.means().items() for name, value in means.items()}


@dataclass(frozen=True)
class HeldOut:
    """Validation questions as the loss reads them, with negatives: nothing is learned from them."""

    columns: Columns
    examples: Examples
    lesson: TeacherLabels | None = None
    features: FeaturesOf | None = None

    @classmethod
    def of(cls, columns: Columns, examples: Examples, **more: Any) -> Self | None:
        """None where no two can stand in a batch, and for several processes, which would each see other negatives."""
        return None if processes() > 1 or len(examples.sound()) < 2 else cls(columns, examples, **more)


@dataclass(frozen=True)
class Task:
    """What a trainer needs besides its options.

    With `features` the model reads these and itself says how wrong it is; the columns are only told of then.
    """

    model: Any
    loss: Any
    columns: Columns
    examples: Examples
    measure: Callable[[Any], Measurement]
    prompts: dict[str, str] = field(default_factory=dict)  # what stands before the texts of a column
    routes: dict[str, str] = field(default_factory=dict)  # by column: which modules of a model that has several
    settled: dict[str, str] = field(default_factory=dict)  # what became of the options that were left to the machine
    told: dict[str, Any] = field(default_factory=dict)  # what else the provenance says
    lesson: TeacherLabels | None = None
    held_out: HeldOut | None = None
    features: FeaturesOf | None = None
    kept_models: int = 0  # how many of those measured are kept on the way, see `training.engine.checkpoints`
    lower_states: "LowerStates | None" = None  # of the layers that the options freeze
    best_by: str = ""  # what picks the best checkpoint where the options leave it open: a figure's name, or `LOSS`

    def labelled(self, ask: Callable[[TeacherLabels], list[Any]]) -> "Task":
        """The task with its lessons learned by heart: labels beside its examples, and beside those held out."""
        if not self.lesson:
            return self
        labels, held_out = ask(self.lesson), self.held_out
        if held_out and held_out.lesson:
            held_out = HeldOut(held_out.columns | {"label": ask(held_out.lesson)}, held_out.examples)
        return replace(self, columns=self.columns | {"label": labels}, lesson=None, held_out=held_out)


def trainer_arguments(
    checkpoints: Path, options: TrainingOptions, batch_sampler: Any, best_by: str = ""
) -> dict[str, Any]:
    """Return keyword arguments that the trainers share; a batch is shared out among the processes.

    The best checkpoint is that of the highest figure `best_by`, of what the options say where that is empty, or of the
    smallest loss of what is held out.
    """
    import torch

    by_steps, best_by = options.evaluation_steps > 0, best_by or options.best_by
    gpu = torch.cuda.is_available()
    return {
        "output_dir": str(checkpoints),
        "batch_sampler": batch_sampler,
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
    """What the kinds of training share that learn from the same kind of data.

    The names are those of a card: `measures` by how they are called there, what the data is `counted` in, what its
    split parts are `examples` of and is made `by`, and how two models are `compared`. `curves` are the measures that a
    training's progress has.
    """

    measures: ClassVar[Mapping[str, str]]
    curves: ClassVar[tuple[str, ...]]
    tag: ClassVar[str]
    counted: ClassVar[tuple[str, ...]]
    examples: ClassVar[str]
    split_by: ClassVar[str]
    compared: ClassVar[str]

    @abstractmethod
    def find(self, reference: str) -> Any:
        """Return the data that a person names, with `name` and `fingerprint` of its content. Raises `DataError`."""

    def check(self, data: Any, options: Any) -> None:  # noqa: B027 - most families take any data
        """Raise `OptionError` where the options do not fit the data."""

    @abstractmethod
    def texts(self, data: Any, options: Any) -> Sequence[str]:
        """Return its texts: a starter is made of them."""

    @abstractmethod
    def about(self, data: Any, shares: SplitOptions, options: Any) -> dict[str, Any]:
        """Return what the provenance says of it, as JSON: how much there is in all and in each part."""

    @abstractmethod
    def material(
        self, data: Any, shares: SplitOptions, options: Any, marked: Marks = (), tell: OnProgress | None = None
    ) -> Any:
        """Return what a recipe works on; where that takes long, `tell` hears of it.

        Raises `OptionError`, and `TrainingError` where it cannot be learned from or measured on.
        """

    def baselines(self, material: Any) -> Mapping[str, Measurement]:
        """What is measured once beside the base, by name."""
        del material
        return {}

    @abstractmethod
    def measurement(self, kept: Mapping[str, Any], material: Any) -> Measurement | None:
        """Read again what was `kept` of a measurement; None where it says too little, or is of other data."""

    @abstractmethod
    def summary(self, measured: Any, material: Any, options: Any) -> dict[str, Any]:
        """Return what `scores.json` holds of measurements by name, `before` and `after` among them."""

    def rows(self, options: Any, scores: Mapping[str, Any]) -> dict[str, str]:
        """What was measured, by name, as a card's table calls it."""
        del options, scores
        return {"before": "The base", "after": "**This model**"}

    @abstractmethod
    def told(self, scores: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[str]:
        """Paragraphs of a card that say what the figures are of."""


Options = TypeVar("Options", bound=TrainingOptions)
Learned = TypeVar("Learned")  # what a family makes of its data


class Recipe(ABC, Generic[Options, Learned]):
    """The class says what a kind of training is; an instance is one training, whose methods are called in turn.

    `loading` and `loading_a_starter` are lines that import and an expression that loads a model from `{folder}`; the
    latter is empty for a kind that has no starter.
    """

    kind: ClassVar[str]
    family: ClassVar[Family]
    options: ClassVar[type[TrainingOptions]]
    base: ClassVar[str]  # hub id that a page offers to start from, besides what the options offer
    measure: ClassVar[str]  # what a finished training is told by
    colour: ClassVar[str]  # of its curves
    does: ClassVar[str]  # the words of a finished model's card
    hub_task: ClassVar[str]
    loading: ClassVar[tuple[str, str]]
    loading_a_starter: ClassVar[tuple[str, str] | tuple[()]] = ()
    usage: ClassVar[str]

    def __init__(self, options: Options, material: Learned) -> None:
        self._options, self._material = options, material

    @abstractmethod
    def measured(self, source: ModelSource) -> Measurement:
        """Measure a model on what judges it, and on a sample of what it learns from."""

    @abstractmethod
    def task(self, source: ModelSource) -> Task:
        """Load the base, change it as told, and gather what its training needs.

        Raises `OptionError`, `ModelError` and `TrainingError`.
        """

    def concluded(self, model_folder: Path) -> tuple[Mapping[str, Measurement], dict[str, Any]]:
        """Measure the finished model: measurements by name, `after` among them, and what else was found out."""
        return {"after": self.measured(finished(model_folder))}, {}

    @abstractmethod
    def seconds_to_measure(self, model: Any) -> float:
        """Seconds that measuring this model once would take, by the time a little of it takes."""

    @staticmethod
    def retrievers(model: str, first: str, *, title: bool, named: Callable[[str], str]) -> list[Spec]:
        """Return what can be searched with a finished model; `first` is the name of BM25, `named` makes names."""
        del model, first, title, named
        return []


def finished(model_folder: Path) -> ModelSource:
    """Return the source of a finished model."""
    return ModelSource(str(model_folder), folder=model_folder)


def dense_retrievers(model: str, first: str, *, title: bool, named: Callable[[str], str]) -> list[Spec]:
    """Search with a model's vectors, alone and together with BM25; see `Recipe.retrievers`."""
    dense = DenseSpec(name=named("Dense"), model=model, title=title, windows=True)
    return [dense, HybridSpec(name=named("Hybrid"), of=(first, dense.name))]
