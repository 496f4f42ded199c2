"""What a training on sentence pairs learns from, and the pairs that a model is measured on."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from data.pairs.records import PairKind, PairSet
from data.pairs.split import split_pairs
from data.pairs.store import find
from data.split import Part, SplitOptions
from embeddings.distinct import Distinct
from training.engine.task import LOSS
from training.options.common import OptionError, TrainingError
from training.options.sentences import JudgedBy, PairOptions, SentenceOptions

SPEARMAN, PEARSON, ACCURACY = "spearman", "pearson", "accuracy"
_SAMPLE = 500  # training pairs that are measured beside those that judge, at most


@dataclass(frozen=True)
class PairMaterial:
    """The pairs to learn from, those of the same data that are held out, and those that a model is measured on.

    `measure` is what it is told by: Spearman's correlation, accuracy, or nothing where people said nothing of the
    pairs that it is measured on. `sample` are pairs that it learns from, measured beside them; None where they say
    nothing, or other data judges.
    """

    train: PairSet
    validation: PairSet
    judge: PairSet
    sample: PairSet | None
    measure: str
    judged_by: str  # what picks the best checkpoint: the measure or `training.engine.task.LOSS`
    judged_on: str  # the name of the set that judges

    @classmethod
    def of(cls, data: PairSet, shares: SplitOptions, options: PairOptions) -> Self:
        """Split the set as planned, and the one that judges.

        Raises `DataError` where that is gone, `OptionError` where one of them does not fit the objective, and
        `TrainingError` where there is nothing to learn from or to measure on.
        """
        judging = judging_set(data, options)
        rows = split_pairs(data, shares)
        validation = rows[Part.VALIDATION] if judging is data else split_pairs(judging, shares)[Part.VALIDATION]
        if len(rows[Part.TRAIN]) < 2 or len(validation) < 2:
            raise TrainingError(
                "too_few_pairs",
                f"{len(rows[Part.TRAIN])} training and {len(validation)} validation pairs are too few: "
                "use more pairs, or change the split",
            )
        measure = measure_of(judging, options)
        drawn = _some(rows[Part.TRAIN], min(len(validation), _SAMPLE), shares.seed)
        return cls(
            train=data.at(rows[Part.TRAIN]),
            validation=data.at(_some(rows[Part.VALIDATION], options.evaluation_limit, shares.seed)),
            judge=judging.at(_some(validation, options.evaluation_limit, shares.seed)),
            sample=data.at(drawn) if measure and judging is data else None,
            measure=measure,
            judged_by=measure if measure and options.best_by is JudgedBy.AUTO else LOSS,
            judged_on=judging.name,
        )

    def require_judge(self, held_out: object) -> None:
        """Raise `TrainingError` where a checkpoint is picked by the loss, and nothing is held out to read it of."""
        if self.judged_by == LOSS and held_out is None:
            message = "nothing is held out whose loss could pick a checkpoint: name a scored set to be judged on"
            raise TrainingError("nothing_judges", message)

    @cached_property
    def judged(self) -> Distinct:
        """The sentences of the pairs that judge."""
        return Distinct.of(self.judge)

    @cached_property
    def sampled(self) -> Distinct | None:
        """The sentences of the sample."""
        return Distinct.of(self.sample) if self.sample else None

    @cached_property
    def texts(self) -> list[str]:
        """Every sentence that is learned from."""
        return self.train.sentences


def judging_set(data: PairSet, options: PairOptions) -> PairSet:
    """Return the set whose validation part judges a model. Raises `DataError` and `OptionError`: there is none."""
    if not options.judged_on.strip():
        return data
    found = find(options.judged_on)
    wanted = PairKind.SCORED if isinstance(options, SentenceOptions) else data.kind
    if found.kind is not wanted:
        message = f"judged_on must name a set of {wanted} pairs, and {found.name} holds {found.kind}"
        raise OptionError("judged_on", "judged_on", message)
    return found


def measure_of(judging: PairSet, options: PairOptions) -> str:
    """What a model is told by on these pairs; empty where nobody said what is right."""
    if judging.kind is PairKind.SCORED:
        return SPEARMAN
    labelled = judging.kind is PairKind.LABELLED and not isinstance(options, SentenceOptions)
    return ACCURACY if labelled else ""


def _some(rows: np.ndarray, most: int, seed: int) -> np.ndarray:
    """At most so many of the rows, by chance and in their order; all where `most` is 0."""
    if not 0 < most < len(rows):
        return rows
    return np.asarray(rows[np.sort(np.random.default_rng(seed).permutation(len(rows))[:most])])
