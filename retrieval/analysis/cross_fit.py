"""What selecting the best setting of a laboratory gains on questions that did not select it.

The best of many settings scores higher on the questions that selected it than on others. Cross-fitting measures the
selection instead (Stone 1974, "Cross-validatory choice and assessment of statistical predictions"): the questions are
divided into folds, by article where there are enough; every fold is scored with the setting that is best on the other
folds. No question is scored with a setting that it helped to select.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mrc_workbench.data.split.partition import Lessons
from mrc_workbench.retrieval.analysis.labs import best
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.evaluation.significance import Pair, PairTest, paired_tests

SELECTED = "selected"  # the name of the cross-fitted side of the test


@dataclass(frozen=True)
class CrossFit:
    """The gain of selecting a setting, cross-fitted.

    `test` compares what is selected (side `a`, positive where it scores higher) with the present setting (side `b`).
    `selections` says in how many folds each setting is selected, by name, the most frequent first.
    """

    test: PairTest
    selections: Mapping[str, int]

    @property
    def folds(self) -> int:
        return sum(self.selections.values())


def cross_fit(
    lab: Comparison, figures: pd.DataFrame, present: str, measure: str, groups: np.ndarray
) -> CrossFit | None:
    """Cross-fit the selection among the settings of `figures` (see `lab_figures`) against the setting `present`.

    `groups` `(n_questions,)` are those of `question_groups`. Returns None if `present` has no value of the measure, or
    if all questions are in one fold.
    """
    values = {
        name: scores.per_question[measure] for name, scores in lab.scores.items() if measure in scores.per_question
    }
    folds = Lessons.of(lab.question_set, np.arange(len(lab.question_set.questions))).folds
    numbers = np.unique(folds)
    if present not in values or len(numbers) < 2:
        return None
    per_setting = np.stack([values[name] for name in figures["name"]], axis=1)
    fitted = np.empty(len(folds))
    selections: Counter[str] = Counter()
    for fold in numbers.tolist():
        inside = folds == fold
        selected = best(figures.assign(value=per_setting[~inside].mean(axis=0)))
        fitted[inside] = values[selected][inside]
        selections[selected] += 1
    (test,) = paired_tests([Pair(SELECTED, present, measure, fitted, values[present])], groups)
    return CrossFit(test, dict(selections.most_common()))
