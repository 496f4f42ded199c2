"""Partitions that share few passages, on graphs whose best partition is known and on random ones."""

import hashlib

import numpy as np
import pytest

from mrc_workbench.data.split.partition import FOLDS, Lessons, draw_groups, least_shared, shared_questions
from mrc_workbench.data.store import CATALOG, read_entry
from tests.data.split.worlds import chain, faq, set_of, tangle


def rest_of(relevance: object, rows: np.ndarray) -> np.ndarray:
    return np.setdiff1d(np.arange(relevance.shape[0]), rows)  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("wanted", [1, 20, 150, 299])
def test_a_chain_is_cut_once(wanted: int, seed: int) -> None:
    relevance = chain(300).relevance
    rows = least_shared(relevance, wanted, np.random.default_rng(seed))
    assert len(np.unique(rows)) == wanted
    assert shared_questions(relevance, rows, rest_of(relevance, rows)) == 1


def test_whole_components_come_first() -> None:
    relevance = faq(answers=50, questions_each=4).relevance
    rows = least_shared(relevance, 40, np.random.default_rng(0))
    assert len(rows) == 40
    assert shared_questions(relevance, rows, rest_of(relevance, rows)) == 0


def test_clusters_with_few_links_stay_whole() -> None:
    rng = np.random.default_rng(0)
    near = [[8 * (row // 10) + int(one) for one in rng.integers(0, 8, 3)] for row in range(500)]
    linked = [
        dict.fromkeys([*rows, int(rng.integers(400))] if row % 10 == 0 else rows) for row, rows in enumerate(near)
    ]
    relevance = set_of(linked, 400).relevance
    rows = least_shared(relevance, 100, rng)
    by_chance = rng.permutation(500)[:100]
    assert shared_questions(relevance, by_chance, rest_of(relevance, by_chance)) > 90
    assert shared_questions(relevance, rows, rest_of(relevance, rows)) < 20


@pytest.mark.parametrize("seed", range(20))
def test_any_graph_gives_as_many_as_wanted_and_the_same_by_one_seed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_questions, n_passages = int(rng.integers(1, 120)), int(rng.integers(1, 150))
    relevance = set_of(
        (dict.fromkeys(rng.integers(0, n_passages, int(rng.integers(1, 4))).tolist()) for _ in range(n_questions)),
        n_passages,
    ).relevance
    wanted = int(rng.integers(0, n_questions + 1))
    first, again = (least_shared(relevance, wanted, np.random.default_rng(seed)) for _ in range(2))
    assert len(np.unique(first)) == len(first) == wanted
    assert np.array_equal(first, again)
    assert not wanted or (first.min() >= 0 and first.max() < n_questions)


def test_shared_questions_are_counted() -> None:
    relevance = set_of([[0], [0, 1], [2], [1]], 3).relevance
    assert shared_questions(relevance, np.array([0, 2, 3]), np.array([1])) == 2
    assert shared_questions(relevance, np.array([1]), np.array([], dtype=np.int64)) == 0
    assert shared_questions(tangle(10).relevance, np.arange(5), np.arange(5, 10)) == 5


def test_groups_are_drawn_up_to_the_wanted_questions() -> None:
    groups = np.repeat([0, 1, 2, 3], [30, 2, 3, 4])
    assert draw_groups(groups, 5, np.array([0, 2, 1, 3])).tolist() == [2, 1]
    assert draw_groups(groups, 0, np.array([0, 1, 2, 3])).tolist() == []


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
