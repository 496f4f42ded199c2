"""What a model that learns from questions reaches: its scores, question by question."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from data.records import QuestionSet
from retrieval.evaluation.measures import Scores
from retrieval.evaluation.significance import intervals_of, mean_interval, question_groups

MEASURED_KS = (1, 5, 10)
_MIXED = ("bm25", "interpolated")  # what a reranker is used as, against what it reranks


@dataclass(frozen=True)
class Reached:
    """What a model reaches on the questions that judge it and, beside them, on a few that it learns from."""

    validation: Scores
    training: Scores

    def means(self) -> dict[str, dict[str, float]]:
        """Of both, the mean of every measure."""
        return {"validation": self.validation.means(), "training": self.training.means()}

    def kept(self) -> dict[str, Any]:
        """The scores of every question."""
        both = {"validation": self.validation, "training": self.training}
        return {name: {of: values.tolist() for of, values in one.per_question.items()} for name, one in both.items()}

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Self | None:
        """Read what was kept; earlier versions kept the validation questions alone, which says too little."""
        if not {"validation", "training"} <= kept.keys():
            return None
        return cls(*(_scores(kept[questions]) for questions in ("validation", "training")))


def summary(
    measured: Mapping[str, Reached], best_by: str, validation: QuestionSet, sample: QuestionSet
) -> dict[str, Any]:
    """Means on validation questions, their 95% intervals, and the gain; means and gain on the training sample, too.

    Of a reranker mixed with BM25, the gain over BM25 is told besides.
    """
    groups = question_groups(validation)
    judging = {name: reached.validation for name, reached in measured.items()}
    learned = {name: reached.training for name, reached in measured.items()}
    return {
        **{name: scores.means() for name, scores in judging.items()},
        "intervals": {name: intervals_of(scores, groups) for name, scores in judging.items()},
        "gain": _gain(judging, best_by, groups),
        **({"mixed_gain": _gain(judging, best_by, groups, *_MIXED)} if judging.keys() >= {*_MIXED} else {}),
        "training_sample": {
            **{name: scores.means() for name, scores in learned.items()},
            "gain": _gain(learned, best_by, question_groups(sample)),
            "questions": len(sample.questions),
        },
        "measured_on": "validation",
        "questions": len(validation.questions),
        **({"made_questions": validation.made} if validation.made else {}),
    }


def _scores(kept: dict[str, list[float]]) -> Scores:
    return Scores(MEASURED_KS, {name: np.array(values) for name, values in kept.items()})


def _gain(
    scores: dict[str, Scores], measure: str, groups: np.ndarray, over: str = "before", of: str = "after"
) -> dict[str, Any]:
    """The paired difference of two measurements, with its 95% interval."""
    gain = scores[of].per_question[measure] - scores[over].per_question[measure]
    return {"measure": measure, "difference": float(gain.mean()), "interval": list(mean_interval(gain, groups))}
