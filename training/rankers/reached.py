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
    """What a model reaches on the questions that judge it and, beside them, on a few that it learns from.

    On test questions, where it was asked these, too: nothing is chosen by them.
    """

    validation: Scores
    training: Scores
    test: Scores | None = None

    def means(self) -> dict[str, dict[str, float]]:
        """The mean of every measure, on the questions that judge and on those that it learns from."""
        return {"validation": self.validation.means(), "training": self.training.means()}

    def kept(self) -> dict[str, Any]:
        """The scores of every question."""
        every = {"validation": self.validation, "training": self.training, "test": self.test}
        return {
            name: {of: values.tolist() for of, values in one.per_question.items()}
            for name, one in every.items()
            if one is not None
        }

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Self | None:
        """Read what was kept; earlier versions kept the validation questions alone, which says too little."""
        if not {"validation", "training"} <= kept.keys():
            return None
        return cls(*(_scores(kept[questions]) for questions in ("validation", "training", "test") if questions in kept))


def summary(
    measured: Mapping[str, Reached],
    best_by: str,
    validation: QuestionSet,
    sample: QuestionSet,
    test: QuestionSet | None = None,
) -> dict[str, Any]:
    """Means on validation questions, their 95% intervals, and the gain; means and gain on the training sample, too.

    Of a reranker mixed with BM25, the gain over BM25 is told besides; on test questions the same, where both the base
    and the trained model were asked these.
    """
    judging = {name: reached.validation for name, reached in measured.items()}
    learned = {name: reached.training for name, reached in measured.items()}
    tested = {name: reached.test for name, reached in measured.items() if reached.test is not None}
    mixed = _gain(judging, best_by, question_groups(validation), *_MIXED) if judging.keys() >= {*_MIXED} else None
    return {
        **_figures(judging, best_by, validation),
        **({"mixed_gain": mixed} if mixed else {}),
        "training_sample": {
            **{name: scores.means() for name, scores in learned.items()},
            "gain": _gain(learned, best_by, question_groups(sample)),
            "questions": len(sample.questions),
        },
        **({"test": _figures(tested, best_by, test)} if test and tested.keys() >= {"before", "after"} else {}),
        "measured_on": "validation",
        **({"made_questions": validation.made} if validation.made else {}),
    }


def _scores(kept: dict[str, list[float]]) -> Scores:
    return Scores(MEASURED_KS, {name: np.array(values) for name, values in kept.items()})


def _figures(scores: Mapping[str, Scores], best_by: str, asked: QuestionSet) -> dict[str, Any]:
    """Means, intervals and gain on the questions that were asked."""
    groups = question_groups(asked)
    return {
        **{name: one.means() for name, one in scores.items()},
        "intervals": {name: intervals_of(one, groups) for name, one in scores.items()},
        "gain": _gain(scores, best_by, groups),
        "questions": len(asked.questions),
    }


def _gain(
    scores: Mapping[str, Scores], measure: str, groups: np.ndarray, over: str = "before", of: str = "after"
) -> dict[str, Any]:
    """The paired difference of two measurements, with its 95% interval."""
    gain = scores[of].per_question[measure] - scores[over].per_question[measure]
    return {"measure": measure, "difference": float(gain.mean()), "interval": list(mean_interval(gain, groups))}
