"""What a training can be told that learns from questions and is measured by what a search finds."""

from dataclasses import dataclass
from enum import StrEnum

from training.options.common import TrainingOptions, option


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
