"""Cross-fitted selection: no question is scored with a setting that it helped to select."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split.partition import FOLDS, TrainingQueries
from mrc_workbench.retrieval.analysis.labs import CrossFit, cross_fit
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.significance import question_groups
from tests.data.split.worlds import set_of
from tests.retrieval.compared import comparison_of

PRESENT = "present"
HIT = "hit@1"
WORLD = set_of(([row] for row in range(40)), 40, titles=[f"article {row}" for row in range(20)])


def folds_of(question_set: QuestionSet) -> np.ndarray:
    return TrainingQueries.from_question_set(question_set, np.arange(len(question_set.questions))).folds


def lab(right: Mapping[str, Sequence[bool]], question_set: QuestionSet = WORLD) -> Comparison:
    """A comparison in which each retriever ranks the relevant passage first for some questions, and last for others."""
    n_passages = len(question_set.passages)
    rankings = {
        name: [[row if is_right else (row + 1) % n_passages] for row, is_right in enumerate(rows)]
        for name, rows in right.items()
    }
    return comparison_of(rankings, question_set, ks=(1,), depth=1)


def fitted(comparison: Comparison, *names: str, current: str = PRESENT) -> CrossFit | None:
    table = pd.DataFrame({"name": names, "is_variant": True})
    return cross_fit(comparison, table, current, HIT, question_groups(comparison.question_set))


def test_selection_gains_nothing_on_its_own_questions() -> None:
    folds = folds_of(WORLD)
    lucky = {f"fold {fold}": (folds == fold).tolist() for fold in range(FOLDS)}
    comparison = lab({PRESENT: [False] * 40, **lucky})
    assert max(comparison.scores[name].per_question[HIT].mean() for name in lucky) >= 1 / FOLDS
    fit = fitted(comparison, *lucky)
    assert fit is not None
    assert (fit.test.difference, fit.test.wins, fit.test.losses) == (0, 0, 0)
    assert not fit.test.is_significant


def test_better_setting_keeps_its_gain() -> None:
    better = [row % 4 > 0 for row in range(40)]
    fit = fitted(lab({PRESENT: [False] * 40, "better": better, "equal": [False] * 40}), "equal", "better")
    assert fit is not None
    assert fit.test.difference == pytest.approx(np.mean(better))
    assert fit.selections == {"better": FOLDS}
    assert fit.folds == FOLDS
    assert fit.test.is_significant
    assert fit.test.low > 0


def test_scores_each_fold_with_best_setting_of_others() -> None:
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


def test_returns_none_without_reference_value_or_second_fold() -> None:
    assert fitted(lab({PRESENT: [True] * 40, "a": [True] * 40}), "a", current="failed") is None
    single = set_of([[0]], 2)
    assert fitted(lab({PRESENT: [False], "a": [True]}, single), "a") is None
