"""The trials of a search for settings, and how long each is trained.

The first trial has the default settings; the others change one setting each, the most important first. A short search
omits the last ones. Combinations of changes are not tried.

The better half of the trials continues in each round: successive halving (Jamieson & Talwalkar 2016), in the rounds of
one bracket of Hyperband (Li et al. 2018) with a factor of 2. The defaults always continue, so that each trial can be
compared with them after the same fraction of the training. A trial that continues resumes its checkpoint. Its learning
rate follows the schedule of the longest trial from the beginning, so all trials have the same schedule.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import ceil, inf
from typing import Any

from mrc_workbench.data.problems import Failure
from mrc_workbench.training.jobs import DEFAULTS, Estimate
from mrc_workbench.training.options import OptionError, RankerOptions, Report, TrainingOptions
from mrc_workbench.training.ranker_options import (
    DISTILLATION_OBJECTIVES,
    BatchGrouping,
    BiEncoderObjective,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
    LateObjective,
    LateOptions,
    SparseEncoderObjective,
    SparseEncoderOptions,
)

OptionChanges = dict[str, Any]
ROUND_FRACTIONS = (0.25, 0.5, 1.0)  # of the longest trial: trials are evaluated there, and the worse half ends
_FACTOR = 3.0  # between learning rates
_TEMPERATURES = (0.02, 0.05)  # most published bi-encoders: E5, GTE and BGE are below 0.03, SimCSE has 0.05
_SOFTMAX_OBJECTIVES = (BiEncoderObjective.MULTIPLE_NEGATIVES, BiEncoderObjective.GIST)
_IN_BATCH_OBJECTIVES = (  # hard negatives are optional: the batch's other passages are negatives
    BiEncoderObjective.MULTIPLE_NEGATIVES,
    LateObjective.MULTIPLE_NEGATIVES,
    SparseEncoderObjective.SPLADE,
)
_MULTI_NEGATIVE_OBJECTIVES = (BiEncoderObjective.MULTIPLE_NEGATIVES, *DISTILLATION_OBJECTIVES)  # per example
_MIN_STEPS = 4  # of the longest trial: at least one per round
_ENOUGH_STEPS = 24  # with fewer steps, fewer trials are better
_MIN_TRIALS = 3
_PLANNED_TIME_FRACTION = 0.85  # the rest is a reserve
_MEMORY_FRACTION = 0.9


def propose_changes(options: TrainingOptions) -> list[OptionChanges]:
    """Return the changed options of each trial; the first one has none."""
    if isinstance(options, CrossEncoderOptions):
        proposed = _cross_encoder_changes(options)
    elif isinstance(options, BiEncoderOptions | SparseEncoderOptions | LateOptions):
        proposed = _encoder_changes(options)
    else:
        proposed = _learning_rate_changes(options)
    accepted: list[OptionChanges] = [{}]
    for changes in proposed:
        with suppress(OptionError):  # omits invalid combinations
            if asdict(replace(options, **changes)) != asdict(options):
                accepted.append(changes)
    return accepted


def passages_per_question(options: TrainingOptions) -> float:
    """Return the passages that the model reads per training question and epoch."""
    if not isinstance(options, RankerOptions):
        return 1.0
    if isinstance(options, BiEncoderOptions):
        is_pairwise = options.objective not in _MULTI_NEGATIVE_OBJECTIVES and options.negatives > 0
    else:
        is_pairwise = options.objective is CrossEncoderObjective.MARGIN_MSE
    return 2.0 * options.negatives if is_pairwise else 1.0 + options.negatives


def examples_per_question(options: TrainingOptions) -> int:
    """Return the number of examples per training question."""
    if isinstance(options, CrossEncoderOptions):
        if options.objective is CrossEncoderObjective.BINARY_CROSS_ENTROPY:
            return 1 + options.negatives
        return options.negatives if options.objective is CrossEncoderObjective.MARGIN_MSE else 1
    if isinstance(options, BiEncoderOptions) and options.objective not in _MULTI_NEGATIVE_OBJECTIVES:
        return max(1, options.negatives)
    return 1


def relative_time(options: TrainingOptions, changes: OptionChanges) -> float:
    """Return the duration of an epoch with the changes, relative to the defaults."""
    return passages_per_question(replace(options, **changes)) / passages_per_question(options)


def _learning_rate_changes(options: TrainingOptions) -> Iterator[OptionChanges]:
    yield {"learning_rate": float(f"{options.learning_rate * _FACTOR:.0e}")}
    yield {"learning_rate": float(f"{options.learning_rate / _FACTOR:.0e}")}


def _encoder_changes(options: BiEncoderOptions | SparseEncoderOptions | LateOptions) -> Iterator[OptionChanges]:
    faster, slower = _learning_rate_changes(options)
    low, high = _TEMPERATURES
    multiple_negatives = {"objective": BiEncoderObjective.MULTIPLE_NEGATIVES.value}
    yield faster
    if isinstance(options, SparseEncoderOptions):
        yield {"passage_regularizer": float(f"{options.passage_regularizer * _FACTOR:.0e}")}
    elif isinstance(options, LateOptions) or options.objective in (*_SOFTMAX_OBJECTIVES, *DISTILLATION_OBJECTIVES):
        yield {"temperature": high if options.temperature < (low + high) / 2 else low}
    else:
        yield multiple_negatives | {"temperature": high}
    yield slower
    if options.uses_in_batch_negatives:
        lengths = options.group_batches_by is BatchGrouping.LENGTHS
        yield {"group_batches_by": (BatchGrouping.ARTICLES if lengths else BatchGrouping.LENGTHS).value}
    if options.objective in _IN_BATCH_OBJECTIVES:
        yield {"negatives": 0 if options.negatives else 1}
    elif isinstance(options, BiEncoderOptions) and options.objective not in _SOFTMAX_OBJECTIVES:
        yield multiple_negatives | {"temperature": low}


def _cross_encoder_changes(options: CrossEncoderOptions) -> Iterator[OptionChanges]:
    yield from _learning_rate_changes(options)
    negatives = {"negatives": options.negatives * 2 if options.negatives <= 4 else options.negatives // 2}
    pairs = 1 + options.negatives
    if options.objective is not CrossEncoderObjective.BINARY_CROSS_ENTROPY:
        yield {"objective": CrossEncoderObjective.BINARY_CROSS_ENTROPY.value, "batch_size": options.batch_size * pairs}
        yield negatives
        return
    lists = {"batch_size": max(2, options.batch_size // pairs)}  # the same number of pairs per step
    yield {"objective": CrossEncoderObjective.LAMBDA.value} | lists
    yield negatives
    yield {"objective": CrossEncoderObjective.LISTNET.value} | lists


@dataclass(frozen=True)
class TrialCost:
    """Seconds of an epoch with the defaults, of one evaluation, and of loading."""

    epoch: float
    evaluation: float
    loading: float

    def total_seconds(self, times: Sequence[float], epochs: float) -> float:
        """Return the seconds of all trials if the slower ones continue; `times` are relative to the defaults."""
        seconds = self.evaluation
        previous_fraction = 0.0
        for number, fraction in enumerate(ROUND_FRACTIONS):
            running_trials = [times[0], *sorted(times[1:], reverse=True)[: count_survivors(len(times), number) - 1]]
            round_epochs = epochs * (fraction - previous_fraction)
            seconds += sum(self.round_seconds(relative, round_epochs) for relative in running_trials)
            previous_fraction = fraction
        return seconds + self.evaluation * len(running_trials)

    def round_seconds(self, relative_duration: float, epochs: float) -> float:
        return self.loading + self.evaluation + relative_duration * epochs * self.epoch


@dataclass(frozen=True)
class Schedule:
    """The changes of each trial, the epochs of the longest trial, and the estimated seconds of all trials."""

    changes: list[OptionChanges]
    epochs: float
    cost: TrialCost
    seconds: float


def schedule(options: TrainingOptions, changes: list[OptionChanges], estimate: Estimate, seconds: float) -> Schedule:
    """Plan the trials that fit into the seconds left, by the estimate of one epoch. Raises `Failure` if none fits."""
    if not estimate.fits:
        raise Failure("memory", "a step with these settings does not fit into memory")
    relative_memory = _MEMORY_FRACTION * estimate.memory_available / max(1, estimate.memory)
    # a training of one epoch is evaluated before, at the end of the epoch, and after
    epoch_seconds = estimate.steps * estimate.seconds_per_step
    cost = TrialCost(epoch_seconds, estimate.seconds_evaluating / 3, estimate.seconds_loading)
    feasible = []
    for change in changes:
        changed = replace(options, **change)
        duration = relative_time(options, change)
        examples = examples_per_question(changed) / examples_per_question(options)
        steps = estimate.steps * (examples * options.batch_size / changed.batch_size)
        if duration <= max(1.0, relative_memory) and steps * options.epochs >= _MIN_STEPS:
            feasible.append((change, duration))
    if len(feasible) < 2 or estimate.steps * options.epochs < _MIN_STEPS:
        raise Failure("settings_too_few", "the training has too few steps to compare settings")
    min_epochs = min(float(options.epochs), _ENOUGH_STEPS / estimate.steps)
    for count in range(len(feasible), min(_MIN_TRIALS, len(feasible)) - 1, -1):
        times = [duration for _, duration in feasible[:count]]
        # seconds are a linear function of the epochs
        fixed = cost.total_seconds(times, 0.0)
        seconds_per_epoch = cost.total_seconds(times, 1.0) - fixed
        max_epochs = (_PLANNED_TIME_FRACTION * seconds - fixed) / seconds_per_epoch if seconds_per_epoch else inf
        epochs = min(max_epochs, float(options.epochs))
        if epochs >= min_epochs:
            return Schedule([change for change, _ in feasible[:count]], epochs, cost, cost.total_seconds(times, epochs))
    minutes = ceil(cost.total_seconds(times, min_epochs) / _PLANNED_TIME_FRACTION / 60)
    raise Failure("settings_minutes", f"the shortest trials would take about {minutes} minutes", minutes=minutes)


def trial_options(options: TrainingOptions, changes: OptionChanges, epochs: float) -> TrainingOptions:
    """Return the options of a trial, in one round: the search controls its evaluations and its end."""
    if isinstance(options, BiEncoderOptions):
        options = replace(options, rounds=1)
    steps: dict[str, Any] = {"evaluation_steps": 0, "save_steps": 0, "save_limit": 1, "patience": 0, "logging_steps": 1}
    return replace(options, **changes, **steps, epochs=epochs, report_to=Report.NONE)


def count_survivors(count: int, round_number: int) -> int:
    """Return how many of `count` trials take part in a round, counted from 0; from the second on at least two."""
    return max(min(2, count), -(-count // int(2**round_number)))


def select_survivors(values: Mapping[int, float], count: int) -> list[int]:
    """Return the `count` trials that continue: the defaults, then the best ones."""
    others = sorted((number for number in values if number != DEFAULTS), key=lambda number: (-values[number], number))
    return [DEFAULTS, *others[: count - 1]]
