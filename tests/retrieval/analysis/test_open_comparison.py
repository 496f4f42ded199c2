"""A comparison opened from its folder: the same figures as the analyses themselves, each worked out once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mrc_workbench.retrieval import significance
from mrc_workbench.retrieval.analysis import questions
from mrc_workbench.retrieval.analysis.evidence import evidence
from mrc_workbench.retrieval.analysis.open_comparison import OpenComparison
from mrc_workbench.retrieval.comparison.store import save_comparison
from mrc_workbench.retrieval.significance import intervals_of, question_groups
from tests.doubles import small_set
from tests.retrieval.compared import LATE, NONE, RIGHT, comparison_of


@pytest.fixture
def opened(tmp_path: Path) -> OpenComparison:
    save_comparison(comparison_of({"Right": RIGHT, "Late": LATE, "Lost": NONE, "Failed": None}), tmp_path)
    return OpenComparison(tmp_path, small_set())


def count_calls(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[Any]:
    """Record the calls of an analysis."""
    calls: list[Any] = []
    analysis = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *of: calls.append(of) or analysis(*of))
    return calls


def test_returns_results_of_analyses(opened: OpenComparison) -> None:
    groups = question_groups(opened.question_set)
    assert set(opened.comparison.scores) == set(opened.comparison.rankings) == {"Right", "Late", "Lost"}
    assert opened.intervals == {name: intervals_of(of, groups) for name, of in opened.comparison.scores.items()}
    assert opened.evidence.tests == evidence(opened.comparison).tests
    assert [(test.a, test.b) for test in opened.tests(("Right", "Lost"), "recall@1")] == [("Right", "Lost")]
    assert opened.outcomes(1).keys() == questions.find_outcomes(opened.comparison, 1).keys()


def test_separates_questions_by_rank(opened: OpenComparison) -> None:
    assert opened.ranks(("Late", "Right")).ranks.tolist() == [[2, 1]] * 5 + [[1, 1]]
    quadrants = opened.quadrants(("Right", "Late"), 1)
    assert quadrants[questions.Quadrant.BOTH].tolist() == [5]
    assert quadrants[questions.Quadrant.ONLY_FIRST].tolist() == [0, 1, 2, 3, 4]
    table = opened.questions(("Right", "Late"))
    assert table["rank_1"].tolist() == [2, 2, 2, 2, 2, 1]
    assert set(opened.disputed_rows(("Right", "Late"), 2)) < set(table.index)


def test_measures_slices_with_tests(opened: OpenComparison) -> None:
    by = opened.properties[0]
    table = opened.slice_results(by, ("Right", "Late", "Failed"), "recall@1")
    assert set(table["retriever"]) == {"Right", "Late"}
    assert "p_holm" in table
    assert sum(len(part.rows) for part in opened.slices(by)) >= len(opened.question_set.questions)


def test_rejects_folder_without_comparison(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no finished comparison"):
        OpenComparison(tmp_path, small_set())


def test_computes_analysis_once(opened: OpenComparison, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch, significance, "question_groups")
    assert opened.groups is opened.groups
    assert opened.tests(("Right", "Late"), "recall@1") is opened.tests(("Right", "Late"), "recall@1")
    assert len(calls) == 1


def test_computes_analysis_once_for_concurrent_sessions(
    opened: OpenComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Event()
    calls = []

    def slow(*arguments: Any) -> np.ndarray:
        calls.append(arguments)
        begun.wait(0.2)  # the others come meanwhile
        return question_groups(*arguments)

    monkeypatch.setattr(significance, "question_groups", slow)
    with ThreadPoolExecutor(10) as sessions:
        group_arrays = list(sessions.map(lambda _: opened.groups, range(10)))
    assert len(calls) == 1
    assert all(groups is group_arrays[0] for groups in group_arrays)


def test_caches_only_last_results(opened: OpenComparison, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch, questions, "rows_with_text")
    for row in range(100):
        opened.rows_with_text(f"word {row}")
    opened.rows_with_text("word 99")
    assert len(calls) == 100
    opened.rows_with_text("word 0")
    assert len(calls) == 101
    assert all(len(answers) <= 16 for answers in opened._cache.values())


def test_does_not_share_cache_between_comparisons(opened: OpenComparison, tmp_path: Path) -> None:
    again = OpenComparison(tmp_path, small_set())
    assert again.slices(questions.SliceProperty.OVERLAP) is not opened.slices(questions.SliceProperty.OVERLAP)
    assert again.changes_since(opened) is again.changes_since(opened)
    assert all(change.before == change.after for change in again.changes_since(opened))
