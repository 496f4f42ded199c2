"""What the training of a model that ranks passages can be told of its hard negatives."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from models.sources import STARTER
from models.windows import WindowOptions
from training.options.common import Problem, option
from training.options.questions import QuestionOptions


class NegativesFrom(StrEnum):
    """The retriever whose near misses become hard negatives."""

    BM25 = "bm25"
    DENSE = "dense"
    HYBRID = "hybrid"


@dataclass(frozen=True, kw_only=True)
class RankerOptions(QuestionOptions):
    """What the trainings of bi-encoders and of cross-encoders share."""

    negatives: int = option(0, "hard negatives a question", 0, 100)
    negatives_from: NegativesFrom = option(NegativesFrom.BM25, "retriever whose near misses are hard negatives")
    negatives_model: str = option(STARTER, "bi-encoder of a dense or hybrid negatives-from")
    negatives_first: int = option(1, "rank from which hard negatives are drawn", 1, 1000)
    negatives_last: int = option(20, "rank down to which hard negatives are drawn", 1, 1000)
    negatives_margin: float = option(
        0.0, "share by which a negative's score must be below that of the question's passage; 0: may be above", 0, 1
    )
    negatives_with_answer: bool = option(False, "draw passages that hold the answer's text, too")

    @property
    def window_options(self) -> WindowOptions | None:
        """How long passages are cut; None where the model reads only their beginning."""
        return None

    @property
    def helpers(self) -> dict[str, str]:
        """The model that finds the hard negatives, where one does."""
        searched = self.negatives and self.negatives_from is not NegativesFrom.BM25
        return {"negatives_model": self.negatives_model} if searched else {}

    @property
    def mines(self) -> bool:
        """Whether there are any hard negatives."""
        return self.negatives > 0

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        if self.negatives_last < self.negatives_first:
            yield "negatives_last", "ranks", "must not be before negatives_first"
        if not self.negatives_model.strip():
            yield "negatives_model", "empty", "must name a model"


@dataclass(frozen=True, kw_only=True)
class WindowedOptions(RankerOptions):
    """What the trainings of models share whose search can read long passages in windows."""

    windows: bool = option(
        True, "of passages longer than the model reads, show the window with the answer and measure the best one"
    )

    @property
    def window_options(self) -> WindowOptions | None:
        """How long passages are cut; None where the model reads only their beginning."""
        return WindowOptions() if self.windows else None
