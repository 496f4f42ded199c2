"""What all kinds of training share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from data.split import SplitOptions
from training.engine.task import Measurement


class DataSet(Protocol):
    """What a training learns from."""

    @property
    def name(self) -> str:
        """As people call it."""

    @property
    def fingerprint(self) -> str:
        """Of its content."""


class Family(Protocol):
    """What the kinds of training share that learn from the same kind of data.

    The names are those of a card: `measures` by how they are called there, what the data is `counted` in, what its
    split parts are `examples` of and is made `by`, and how two models are `compared`. `curves` are the measures that a
    training's progress has.
    """

    measures: Mapping[str, str]
    curves: tuple[str, ...]
    tag: str
    counted: tuple[str, ...]
    examples: str
    split_by: str
    compared: str

    def find(self, reference: str) -> DataSet:
        """Return the data that a person names. Raises `DataError`."""

    def check(self, data: Any, options: Any) -> None:
        """Raise `OptionError` where the options do not fit the data."""

    def texts(self, data: Any, options: Any) -> Sequence[str]:
        """Return its texts: a starter is made of them."""

    def about(self, data: Any, shares: SplitOptions, options: Any) -> dict[str, Any]:
        """Return what the provenance says of it, as JSON: how much there is in all and in each part."""

    def material(
        self,
        data: Any,
        shares: SplitOptions,
        options: Any,
        marked: tuple[tuple[str, str], ...] = (),
        on_progress: Callable[[float], None] | None = None,
    ) -> Any:
        """Return what a recipe works on; where that takes long, `on_progress` is told the share done, 0 to 1.

        Raises `TrainingError` where it cannot be learned from or measured on.
        """

    def baselines(self, material: Any) -> Mapping[str, Measurement]:
        """What is measured once beside the base, by name."""

    def measurement(self, kept: Mapping[str, Any], material: Any) -> Measurement | None:
        """Read again what was `kept` of a measurement; None where it says too little, or is of other data."""

    def summary(self, measured: Any, material: Any, options: Any) -> dict[str, Any]:
        """Return what `scores.json` holds of measurements by name, `before` and `after` among them."""

    def rows(self, options: Any, scores: Mapping[str, Any]) -> dict[str, str]:
        """What was measured, by name, as a card's table calls it."""

    def told(self, scores: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[str]:
        """Paragraphs of a card that say what the figures are of."""
