"""A comparison opened from its folder: the same figures as the analyses themselves, each worked out once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mrc_workbench.retrieval.analysis import open_comparison, questions
from mrc_workbench.retrieval.analysis.evidence import evidence
from mrc_workbench.retrieval.analysis.open_comparison import OpenComparison
from mrc_workbench.retrieval.analysis.questions import Property, Quadrant, fates
from mrc_workbench.retrieval.comparison.store import keep
from mrc_workbench.retrieval.significance import intervals_of, question_groups
from tests.doubles import small_set
from tests.retrieval.compared import LATE, NONE, RIGHT, comparison_of


@pytest.fixture
def opened(tmp_path: Path) -> OpenComparison:
    keep(comparison_of({"Right": RIGHT, "Late": LATE, "Lost": NONE, "Failed": None}), tmp_path)
    return OpenComparison(tmp_path, small_set())


def counted(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[Any]:
    """Note what an analysis of the module is asked for, and let it answer."""
    calls: list[Any] = []
    analysis = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *of: calls.append(of) or analysis(*of))
    return calls


def test_it_says_what_the_analyses_say(opened: OpenComparison) -> None:
    groups = question_groups(opened.question_set)
    assert set(opened.comparison.scores) == set(opened.comparison.rankings) == {"Right", "Late", "Lost"}
    assert opened.intervals == {name: intervals_of(of, groups) for name, of in opened.comparison.scores.items()}
    assert opened.evidence.tests == evidence(opened.comparison).tests
    assert [(test.a, test.b) for test in opened.tests(("Right", "Lost"), "recall@1")] == [("Right", "Lost")]
    assert opened.fates(1).keys() == fates(opened.comparison, 1).keys()


def test_questions_are_told_apart_by_rank(opened: OpenComparison) -> None:
    assert opened.ranks(("Late", "Right")).ranks.tolist() == [[2, 1]] * 5 + [[1, 1]]
    halves = opened.quadrants(("Right", "Late"), 1)
    assert halves[Quadrant.BOTH].tolist() == [5]
    assert halves[Quadrant.ONLY_FIRST].tolist() == [0, 1, 2, 3, 4]
    table = opened.questions(("Right", "Late"))
    assert table["rank_1"].tolist() == [2, 2, 2, 2, 2, 1]
    assert set(opened.disputed(2)) < set(table["question"])
    assert len(opened.disputed(2)) == 2


def test_slices_are_measured_with_their_tests(opened: OpenComparison) -> None:
    by = opened.properties[0]
    table = opened.slice_figures(by, ("Right", "Late", "Failed"), "recall@1")
    assert set(table["retriever"]) == {"Right", "Late"}
    assert "p_holm" in table
    assert sum(len(part.rows) for part in opened.slices(by)) >= len(opened.question_set.questions)


def test_a_folder_without_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no finished comparison"):
        OpenComparison(tmp_path, small_set())


def test_an_answer_is_worked_out_once(opened: OpenComparison, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch, open_comparison, "question_groups")
    assert opened.groups is opened.groups
    assert opened.tests(("Right", "Late"), "recall@1") is opened.tests(("Right", "Late"), "recall@1")
    assert len(calls) == 1


def test_ten_sessions_have_it_worked_out_once(opened: OpenComparison, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, calls = Event(), []

    def slow(*of: Any) -> np.ndarray:
        calls.append(of)
        begun.wait(0.2)  # the others come meanwhile
        return question_groups(*of)

    monkeypatch.setattr(open_comparison, "question_groups", slow)
    with ThreadPoolExecutor(10) as sessions:
        found = list(sessions.map(lambda _: opened.groups, range(10)))
    assert len(calls) == 1
    assert all(one is found[0] for one in found)


def test_only_the_last_answers_are_kept(opened: OpenComparison, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch, questions, "rows_with_text")
    for place in range(100):
        opened.rows_with(f"word {place}")
    opened.rows_with("word 99")
    assert len(calls) == 100
    opened.rows_with("word 0")
    assert len(calls) == 101
    assert all(len(answers) <= 16 for answers in opened._answers.values())


def test_another_run_of_it_has_answers_of_its_own(opened: OpenComparison, tmp_path: Path) -> None:
    again = OpenComparison(tmp_path, small_set())
    assert again.slices(Property.OVERLAP) is not opened.slices(Property.OVERLAP)
    assert again.changes_since(opened) is again.changes_since(opened)
    assert all(change.before == change.after for change in again.changes_since(opened))
