"""Cross-fitted selection: no question is scored with a setting that it helped to select."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split.partition import FOLDS, Lessons
from mrc_workbench.retrieval.analysis.labs import CrossFit, cross_fit
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.significance import question_groups
from tests.data.split.worlds import set_of
from tests.retrieval.compared import comparison_of

PRESENT, HIT = "present", "hit@1"
WORLD = set_of(([row] for row in range(40)), 40, titles=[f"article {row}" for row in range(20)])


def folds_of(question_set: QuestionSet) -> np.ndarray:
    return Lessons.of(question_set, np.arange(len(question_set.questions))).folds


def lab(right: Mapping[str, Sequence[bool]], question_set: QuestionSet = WORLD) -> Comparison:
    """A comparison in which each retriever ranks the relevant passage first for some questions, and last for others."""
    n_passages = len(question_set.passages)
    found = {
        name: [[row if is_right else (row + 1) % n_passages] for row, is_right in enumerate(rows)]
        for name, rows in right.items()
    }
    return comparison_of(found, question_set, ks=(1,), depth=1)


def fitted(comparison: Comparison, *names: str, present: str = PRESENT) -> CrossFit | None:
    figures = pd.DataFrame({"name": names, "tried": True})
    return cross_fit(comparison, figures, present, HIT, question_groups(comparison.question_set))


def test_a_setting_gains_nothing_by_the_questions_that_select_it() -> None:
    folds = folds_of(WORLD)
    lucky = {f"fold {fold}": (folds == fold).tolist() for fold in range(FOLDS)}
    comparison = lab({PRESENT: [False] * 40, **lucky})
    assert max(comparison.scores[name].per_question[HIT].mean() for name in lucky) >= 1 / FOLDS
    fit = fitted(comparison, *lucky)
    assert fit is not None
    assert (fit.test.difference, fit.test.wins, fit.test.losses) == (0, 0, 0)
    assert not fit.test.sure


def test_a_setting_that_is_better_everywhere_keeps_its_gain() -> None:
    better = [row % 4 > 0 for row in range(40)]
    fit = fitted(lab({PRESENT: [False] * 40, "better": better, "equal": [False] * 40}), "equal", "better")
    assert fit is not None
    assert fit.test.difference == pytest.approx(np.mean(better))
    assert fit.selections == {"better": FOLDS}
    assert fit.folds == FOLDS
    assert fit.test.sure
    assert fit.test.low > 0


def test_every_fold_is_scored_with_the_best_setting_of_the_others() -> None:
    random = np.random.default_rng(0)
    right = {name: (random.random(40) < 0.5).tolist() for name in (PRESENT, "a", "b", "c")}
    comparison = lab(right)
    fit = fitted(comparison, "a", "b", "c")
    values = {name: np.array(rows, dtype=float) for name, rows in right.items()}
    folds = folds_of(WORLD)
    expected = 0.0
    for fold in range(FOLDS):
        means = {name: values[name][folds != fold].mean() for name in ("a", "b", "c")}
        selected = max(means, key=means.__getitem__)
        expected += (values[selected] - values[PRESENT])[folds == fold].sum()
    assert fit is not None
    assert fit.test.difference == pytest.approx(expected / 40)
    assert sum(fit.selections.values()) == FOLDS
    assert list(fit.selections.values()) == sorted(fit.selections.values(), reverse=True)


def test_nothing_is_said_without_a_value_to_compare_with_or_a_second_fold() -> None:
    assert fitted(lab({PRESENT: [True] * 40, "a": [True] * 40}), "a", present="failed") is None
    single = set_of([[0]], 2)
    assert fitted(lab({PRESENT: [False], "a": [True]}, single), "a") is None
