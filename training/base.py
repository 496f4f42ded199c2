"""What all kinds of training share: a kind is a `Recipe`, and kinds that learn from the same data share a `Family`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from data.split import SplitOptions
from models.sources import ModelSource
from retrieval.comparison.first_stage import DenseSpec
from retrieval.comparison.multistage import HybridSpec
from retrieval.comparison.spec import Spec
from training.engine.task import Measurement, Task
from training.options.common import TrainingOptions

Options = TypeVar("Options", bound=TrainingOptions)
Learned = TypeVar("Learned")  # what a family makes of its data


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
        self,
        data: Any,
        shares: SplitOptions,
        options: Any,
        marked: tuple[tuple[str, str], ...] = (),
        on_progress: Callable[[float], None] | None = None,
    ) -> Any:
        """Return what a recipe works on; where that takes long, `on_progress` is told the share done, 0 to 1.

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
