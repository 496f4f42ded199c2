"""What trainings on a question set can be told, of hard negatives too, and what that of a reader can."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from mrc_workbench.labs.reading.rules import Rules
from mrc_workbench.models.packaged import PREFIX
from mrc_workbench.models.reader import SpanOptions
from mrc_workbench.models.sources import DEFAULT_READER, STARTER, default_model
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.training.options.common import Problem, TrainingOptions, option


class BestBy(StrEnum):
    """What picks the best checkpoint, measured on validation questions."""

    RECALL_1 = "recall@1"
    RECALL_10 = "recall@10"
    MRR_10 = "mrr@10"
    NDCG_10 = "ndcg@10"


@dataclass(frozen=True, kw_only=True)
class QuestionOptions(TrainingOptions):
    """What the trainings on a question set share."""

    best_by: StrEnum = option(BestBy.NDCG_10, "measure on validation questions that picks the checkpoint")
    title: bool = option(True, "put the article title before the passage")


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
        searched = self.negatives and self.negatives_from is not NegativesFrom.BM25
        return {"negatives_model": self.negatives_model} if searched else {}

    @property
    def mines(self) -> bool:
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
        return WindowOptions() if self.windows else None


READER = "reader"


class ReaderObjective(StrEnum):
    """What a reader's training makes smaller."""

    SPAN = "span"  # Devlin et al. 2019: the cross-entropy of where an answer begins and where it ends


class ReaderBestBy(StrEnum):
    """What picks the best checkpoint, measured on validation questions."""

    EXACT = "em"
    OVERLAP = "f1"


@dataclass(frozen=True, kw_only=True)
class ReaderOptions(RankerOptions):
    """A question and a passage are read together, and the span that answers is pointed at, or nothing."""

    base: str = option(DEFAULT_READER, "starting point: a hub id, a folder, a packaged base, or a finished run")
    objective: ReaderObjective = option(ReaderObjective.SPAN, "what training makes smaller")
    best_by: ReaderBestBy = option(ReaderBestBy.OVERLAP, "measure on validation questions that picks the checkpoint")
    rules: Rules = option(Rules.KORQUAD, "whose rules say whether an answer is right")
    batch_size: int = option(16, "windows a training step", 2, 65536)
    evaluation_limit: int = option(300, "validation examples measured during training; 0: all", 0, 10**9)
    max_length: int = option(384, "tokens of a question and a window of its passage; 0: as many as the base reads", 0)
    overlap: int = option(128, "tokens that two windows of a passage share", 0, 65536)
    longest_answer: int = option(30, "tokens that an answer has at most", 1, 1000)
    title: bool = option(False, "put the article title before the passage")
    negatives: int = option(1, "passages without the answer, for each of the questions that are shown any", 1, 100)
    negatives_share: float = option(0.25, "share of the questions that are shown passages without the answer", 0, 1)

    @classmethod
    def suited_to(cls, base: str = DEFAULT_READER) -> Self:
        """A small packaged base moves by larger steps."""
        return cls(base=base, learning_rate=1e-4) if base.startswith(PREFIX) else cls(base=base, learning_rate=5e-5)

    @classmethod
    def offered(cls) -> tuple[str, ...]:
        return tuple(dict.fromkeys(base for base in (default_model(), DEFAULT_READER) if base != STARTER))

    @property
    def mines(self) -> bool:
        return self.negatives_share > 0

    @property
    def span_options(self) -> SpanOptions:
        return SpanOptions(self.max_length, self.overlap, self.longest_answer)

    def _problems(self) -> Iterator[Problem]:
        if self.base == STARTER:
            yield "base", "starter_reader", "must be a transformer: a starter knows words, not where they stand"
        yield from super()._problems()
        if self.max_length and self.max_length < 2 * self.overlap:
            yield "overlap", "overlap", "must be half of max_length at most"
