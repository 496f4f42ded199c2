"""Ablations: jobs beside the trainings, in `workspace/runs/<id>/`, whose trainings differ in one thing at a time.

Besides what every job's folder holds: `run.json` (the training of a language model that the others differ from, and the
experiment file) and `table.json` (what came out; `so_far.json` until then). Each training is a run of its own.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from training.runs.parts import Whole
from training.runs.runs import Plan, create_run

MEASURES = ("perplexity", "masked_accuracy", "next_accuracy", "spearman_before", "spearman", "ndcg@10")  # in order
REFERENCE = 1  # the number of the variant that the others are held against
UNTRAINED = 0  # of the base as it is


class Stage(StrEnum):
    """What an ablation is doing; of its variants it says the number, too: `learning_1`."""

    LOADING = "loading"
    LEARNING = "learning"  # a language model
    TUNING = "tuning"  # fine-tuning a bi-encoder that starts from it
    MEASURING = "measuring"


class Interval(NamedTuple):
    """A figure and the ends of its 95% interval."""

    value: float
    low: float
    high: float


class Difference(NamedTuple):
    """How far a figure is above that of the reference; `low`, `high` and `p` allow for all variants tested together."""

    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Variant:
    """What one variant came to. `model` and `tuned` are ids of runs, or a base; empty where there is none (yet).

    `alike` says that its perplexity is of the same hidden tokens as the reference's: others are not comparable.
    """

    number: int
    changed: dict[str, Any]  # options that differ from the reference
    model: str = ""
    tuned: str = ""
    alike: bool = True
    figures: dict[str, Interval] | None = None  # by measure, shares but for perplexity
    differences: dict[str, Difference] | None = None
    code: str = ""  # of what went wrong, and its message
    message: str = ""


@dataclass(frozen=True)
class Table:
    """The variants in their order, and how many questions and pairs the measures are of."""

    variants: tuple[Variant, ...]
    questions: int = 0
    pairs: int = 0

    @property
    def measures(self) -> list[str]:
        """The measures that any variant has, in the order of `MEASURES`."""
        return [name for name in MEASURES if any(name in (one.figures or ()) for one in self.variants)]


_TABLE = TypeAdapter(Table)


@dataclass(frozen=True, order=True)
class Ablation(Whole):
    """The job of one ablation."""

    @property
    def result(self) -> Path:
        """What came out."""
        return self.folder / "table.json"

    @property
    def table(self) -> Table | None:
        """What came out, or what is known so far; None before anything is, and where it cannot be read."""
        try:
            return _TABLE.validate_python(self.read("table.json") or self.read("so_far.json"))
        except ValidationError:
            return None


def create_ablation(plan: Plan, experiment: dict[str, Any], *, attended: bool = False) -> Ablation:
    """Make the folder of an ablation around a plan; it stands in line at once, see `create_run`."""
    return Ablation(create_run(replace(plan, ablation=experiment), attended=attended).folder)
