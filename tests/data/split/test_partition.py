"""Partitions that share few passages, on graphs whose best partition is known and on random ones."""

import numpy as np
import pytest

from mrc_workbench.data.split.partition import draw_groups, least_shared, shared_questions
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
