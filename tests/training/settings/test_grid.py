"""What a search tries, and how much longer each of it takes."""

from dataclasses import replace

import pytest

from models.packaged import DEFAULT
from training.options.common import TrainingOptions
from training.options.rankers import (
    TAUGHT,
    BiEncoderObjective,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
    SparseEncoderOptions,
)
from training.sweeps.halving import changes_of, examples_a_question, load, passages_a_question

BASES = ["starter", "org/base", DEFAULT.reference]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("made", [BiEncoderOptions, CrossEncoderOptions, SparseEncoderOptions])
def test_the_defaults_come_first_and_everything_tried_is_possible_and_different(
    made: type[TrainingOptions], base: str
) -> None:
    options = made.suited_to(base)
    changes = changes_of(options)
    assert changes[0] == {}
    tried = [replace(options, **one) for one in changes]
    assert 3 <= len(tried) == len({repr(one) for one in tried}) <= 6
    assert {one.base for one in tried} == {options.base}


def test_around_a_packaged_base() -> None:
    options = BiEncoderOptions.suited_to(DEFAULT.reference)
    assert changes_of(options) == [
        {},
        {"learning_rate": 9e-5},
        {"temperature": 0.05},
        {"learning_rate": 1e-5},
        {"batches_of": "lengths"},
        {"negatives": 1},
    ]


def test_a_list_is_read_whole_so_a_batch_holds_fewer_of_them() -> None:
    options = CrossEncoderOptions.suited_to("org/base")
    assert (options.batch_size, options.negatives) == (16, 4)
    lists = [one for one in changes_of(options) if "objective" in one]
    assert lists == [{"objective": "lambda", "batch_size": 3}, {"objective": "listnet", "batch_size": 3}]


@pytest.mark.parametrize("objective", list(BiEncoderObjective))
def test_every_objective_has_settings_around_it(objective: BiEncoderObjective) -> None:
    negatives = 2 if objective in (BiEncoderObjective.TRIPLET, *TAUGHT) else 0
    teacher = "org/teacher" if objective in TAUGHT else ""
    options = BiEncoderOptions(base="org/base", objective=objective, negatives=negatives, teacher=teacher)
    assert len(changes_of(options)) >= 4


@pytest.mark.parametrize(
    ("options", "passages", "examples"),
    [
        (BiEncoderOptions(), 1, 1),
        (BiEncoderOptions(objective=BiEncoderObjective.MULTIPLE_NEGATIVES, negatives=3), 4, 1),
        (BiEncoderOptions(objective=BiEncoderObjective.TRIPLET, negatives=3), 6, 3),
        (CrossEncoderOptions(negatives=4), 5, 5),
        (CrossEncoderOptions(objective=CrossEncoderObjective.LISTNET, negatives=4), 5, 1),
        (CrossEncoderOptions(objective=CrossEncoderObjective.MARGIN_MSE, negatives=4, teacher="org/t"), 8, 4),
    ],
)
def test_what_a_question_has_a_model_read(options: TrainingOptions, passages: float, examples: int) -> None:
    assert passages_a_question(options) == passages
    assert examples_a_question(options) == examples


def test_how_much_longer_a_change_takes() -> None:
    options = CrossEncoderOptions(base="org/base", negatives=4)
    assert load(options, {"negatives": 8}) == 9 / 5
    assert load(options, {"learning_rate": 1e-4}) == 1
