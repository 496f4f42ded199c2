"""Folds of cross-validation: by group where that leaves enough to learn from, else with minimum leakage."""

import hashlib

import numpy as np

from mrc_workbench.data.split.partition import FOLDS, Lessons
from mrc_workbench.data.store import CATALOG, read_entry
from tests.data.split.worlds import chain, faq, set_of, tangle


def test_folds_by_group_are_those_they_always_were() -> None:
    sample = read_entry(CATALOG["sample"]).question_set
    folds = Lessons.of(sample, sample.answerable).folds
    assert hashlib.sha256(folds.astype("<i8").tobytes()).hexdigest()[:16] == "c270913098c12ba6"
    assert Lessons.of(sample, sample.answerable).leaks == 0


def test_a_chain_is_folded_with_a_cut_between_folds() -> None:
    lessons = Lessons.of(chain(323), np.arange(323))
    assert np.bincount(lessons.folds).tolist() == [64, 64, 65, 65, 65]
    assert 0 < lessons.leaks <= 2 * (FOLDS - 1)


def test_questions_that_all_share_a_passage_are_folded_one_by_one() -> None:
    lessons = Lessons.of(tangle(200), np.arange(200))
    assert np.bincount(lessons.folds).tolist() == [40] * FOLDS
    assert lessons.leaks == 200


def test_passages_of_one_article_are_folded() -> None:
    question_set = set_of(([row // 2] for row in range(100)), 50, titles=["The handbook"])
    lessons = Lessons.of(question_set, np.arange(100))
    assert lessons.leaks == 0
    assert np.bincount(lessons.folds).tolist() == [20] * FOLDS


def test_a_giant_group_beside_small_ones_is_cut() -> None:
    rows = [*([row, row + 1] for row in range(200)), *([201 + row] for row in range(8))]
    lessons = Lessons.of(set_of(rows, 209), np.arange(208))
    assert np.bincount(lessons.folds).max() <= 42
    assert lessons.leaks <= 2 * (FOLDS - 1)


def test_few_answers_make_fewer_folds() -> None:
    lessons = Lessons.of(faq(answers=3, questions_each=50), np.arange(150))
    assert sorted(np.bincount(lessons.folds, minlength=FOLDS).tolist()) == [0, 0, 50, 50, 50]
    assert lessons.leaks == 0


def test_no_questions_have_no_folds() -> None:
    assert Lessons.of(chain(5), np.zeros(0, dtype=np.int64)).folds.tolist() == []
