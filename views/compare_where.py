"""Where retrievers win and lose: on which questions, in which step, and what their candidates would allow."""

from views import compare_ceilings, compare_lost, compare_slices
from views.shown import Shown


def draw(shown: Shown) -> None:
    """Draw the slices of the questions, the steps that lose them, and the ceilings."""
    compare_slices.draw(shown)
    compare_lost.draw(shown)
    compare_ceilings.draw(shown)
