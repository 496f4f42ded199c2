"""Validation questions as examples, so that the loss of what is not learned stands beside the loss of what is."""

from collections.abc import Callable

from training.engine.arguments import processes
from training.engine.task import Columns, Examples, HeldOut, Lesson
from training.options.common import TrainingError
from training.rankers.material import Material
from training.rankers.shown import Cut, ShownPassages


def held_out(
    material: Material,
    examples_of: Callable[[Material], tuple[Columns, Examples]],
    cut: Cut | None = None,
    lesson_of: Callable[[Examples, Material], Lesson | None] = lambda *_: None,
) -> HeldOut | None:
    """Make examples of the validation questions as they are made of the training questions.

    None where they make no two, and for several processes, which would each see other negatives.
    """
    asked = material.held_out
    try:
        columns, examples = examples_of(asked)
    except TrainingError:  # no negative can be drawn
        return None
    if processes() > 1 or len(examples.sound()) < 2:
        return None
    return HeldOut(ShownPassages(asked, cut).columns(columns, examples), examples, lesson_of(examples, asked))
