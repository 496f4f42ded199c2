"""Nearest sentences and matrices against every cosine counted by hand."""

import numpy as np
import pytest

from embeddings.geometry import MOST, neighbours, similarity


def points(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 12)).astype(np.float32)


def every_cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(one, axis=1)[:, None] * np.linalg.norm(other, axis=1)
    return one @ other.T / lengths


def test_neighbours_are_those_of_a_search_by_hand() -> None:
    vectors, asked = points(500), points(20, 1)
    cosines, rows = neighbours(vectors, asked, 10)
    every = every_cosine(asked, vectors)
    assert rows.tolist() == np.argsort(-every, axis=1)[:, :10].tolist()
    assert cosines == pytest.approx(np.take_along_axis(every, rows, axis=1), abs=1e-6)


def test_a_sentence_is_its_own_nearest_and_of_equal_ones_the_first_row_stands_first() -> None:
    vectors = points(6)
    vectors[4] = vectors[2]
    cosines, rows = neighbours(vectors, vectors[[2, 0]], 3)
    assert rows[0, :2].tolist() == [2, 4]
    assert rows[1, 0] == 0
    assert cosines[:, 0] == pytest.approx([1, 1])


def test_there_are_no_more_neighbours_than_sentences() -> None:
    assert neighbours(points(3), points(2), 10)[1].shape == (2, 3)
    assert neighbours(points(0), points(2), 10)[1].shape == (2, 0)
    assert neighbours(points(3), points(0), 2)[1].shape == (0, 2)


def test_a_matrix_holds_every_cosine() -> None:
    vectors = points(9)
    assert similarity(vectors) == pytest.approx(every_cosine(vectors, vectors), abs=1e-6)
    vectors[3] = 0
    assert not similarity(vectors)[3].any()


def test_a_matrix_of_too_many_is_refused() -> None:
    with pytest.raises(ValueError, match=f"{MOST} sentences at most, these are {MOST + 1}"):
        similarity(points(MOST + 1))
