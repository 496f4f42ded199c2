"""Which settings a search tries: those it begins from, then one of them changed at a time.

What matters most comes first, so that a short search may leave out the last ones. That two changes together do better
than each alone is not looked for.
"""

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from training.options.common import OptionError, TrainingOptions
from training.options.questions import RankerOptions
from training.options.rankers import (
    TAUGHT,
    BatchesOf,
    BiEncoderObjective,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
    SparseEncoderOptions,
)

Changes = dict[str, Any]
_FACTOR = 3.0  # between learning rates
_TEMPERATURES = (0.02, 0.05)  # of most published bi-encoders: E5, GTE and BGE are below 0.03, SimCSE is at 0.05
_SOFTMAX = (BiEncoderObjective.MULTIPLE_NEGATIVES, BiEncoderObjective.GIST)
_SIDE_BY_SIDE = (BiEncoderObjective.MULTIPLE_NEGATIVES, *TAUGHT)  # a question's negatives stand in one example


def changes_of(options: TrainingOptions) -> list[Changes]:
    """Return what each trial changes of the options; the first one changes nothing."""
    if isinstance(options, BiEncoderOptions):
        proposed = _bi_encoder(options)
    elif isinstance(options, CrossEncoderOptions):
        proposed = _cross_encoder(options)
    elif isinstance(options, SparseEncoderOptions):
        proposed = _sparse_encoder(options)
    else:
        proposed = _learning_rates(options)
    return [{}, *(changes for changes in proposed if _possible(options, changes))]


def passages_a_question(options: TrainingOptions) -> float:
    """Passages that one training question has the model read in an epoch: what its time follows."""
    if not isinstance(options, RankerOptions):
        return 1.0
    if isinstance(options, BiEncoderOptions):
        in_rows = options.objective not in _SIDE_BY_SIDE and options.negatives
        return 2.0 * options.negatives if in_rows else 1.0 + options.negatives
    in_pairs = isinstance(options, CrossEncoderOptions) and options.objective is CrossEncoderObjective.MARGIN_MSE
    return 2.0 * options.negatives if in_pairs else 1.0 + options.negatives


def examples_a_question(options: TrainingOptions) -> int:
    """Examples that one training question makes: with the batch size they say how many steps an epoch has."""
    if isinstance(options, CrossEncoderOptions):
        if options.objective is CrossEncoderObjective.BINARY_CROSS_ENTROPY:
            return 1 + options.negatives
        return options.negatives if options.objective is CrossEncoderObjective.MARGIN_MSE else 1
    if isinstance(options, BiEncoderOptions) and options.objective not in _SIDE_BY_SIDE:
        return max(1, options.negatives)
    return 1


def load(options: TrainingOptions, changes: Changes) -> float:
    """Return how many times as long an epoch takes with the changes."""
    return passages_a_question(replace(options, **changes)) / passages_a_question(options)


def _learning_rates(options: TrainingOptions) -> Iterator[Changes]:
    yield {"learning_rate": float(f"{options.learning_rate * _FACTOR:.0e}")}
    yield {"learning_rate": float(f"{options.learning_rate / _FACTOR:.0e}")}


def _bi_encoder(options: BiEncoderOptions) -> Iterator[Changes]:
    faster, slower = _learning_rates(options)
    low, high = _TEMPERATURES
    multiple_negatives = {"objective": BiEncoderObjective.MULTIPLE_NEGATIVES.value}
    yield faster
    if options.objective in (*_SOFTMAX, *TAUGHT):
        yield {"temperature": high if options.temperature < (low + high) / 2 else low}
    else:
        yield multiple_negatives | {"temperature": high}
    yield slower
    if options.contrasts:
        yield _other_batches(options)
    if options.objective is BiEncoderObjective.MULTIPLE_NEGATIVES:
        yield {"negatives": 0 if options.negatives else 1}
    elif options.objective not in _SOFTMAX:
        yield multiple_negatives | {"temperature": low}


def _sparse_encoder(options: SparseEncoderOptions) -> Iterator[Changes]:
    faster, slower = _learning_rates(options)
    yield faster
    yield {"passage_regularizer": float(f"{options.passage_regularizer * _FACTOR:.0e}")}
    yield slower
    yield _other_batches(options)
    yield {"negatives": 0 if options.negatives else 1}


def _other_batches(options: BiEncoderOptions | SparseEncoderOptions) -> Changes:
    lengths = options.batches_of is BatchesOf.LENGTHS
    return {"batches_of": (BatchesOf.ARTICLES if lengths else BatchesOf.LENGTHS).value}


def _cross_encoder(options: CrossEncoderOptions) -> Iterator[Changes]:
    yield from _learning_rates(options)
    negatives = {"negatives": options.negatives * 2 if options.negatives <= 4 else options.negatives // 2}
    pairs = 1 + options.negatives
    if options.objective is not CrossEncoderObjective.BINARY_CROSS_ENTROPY:
        objective = CrossEncoderObjective.BINARY_CROSS_ENTROPY.value
        yield {"objective": objective, "batch_size": options.batch_size * pairs}
        yield negatives
        return
    lists = {"batch_size": max(2, options.batch_size // pairs)}  # read whole: fewer of them are as many pairs a step
    yield {"objective": CrossEncoderObjective.LAMBDA.value} | lists
    yield negatives
    yield {"objective": CrossEncoderObjective.LISTNET.value} | lists


def _possible(options: TrainingOptions, changes: Changes) -> bool:
    try:
        changed = replace(options, **changes)
    except OptionError:
        return False
    return asdict(changed) != asdict(options)
