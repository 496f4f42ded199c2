"""Search of weighed terms against the whole product of both matrices."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from data.records import Passage
from retrieval.lexical.learned import LearnedSparse
from retrieval.rankings import top_k

WEIGHTS = st.sampled_from([0.0, 0.0, 0.0, 0.25, 0.5, 1.0, 1.5, 3.0])  # few, so that many scores tie


class Given:
    """Matrices that were made before, whatever the texts."""

    fingerprint = "given"

    def __init__(self, questions: np.ndarray, passages: np.ndarray) -> None:
        self._questions, self._passages = csr_array(questions), csr_array(passages)

    def encode_questions(self, texts: Sequence[str]) -> csr_array:
        assert len(texts) == self._questions.shape[0]
        return self._questions

    def encode_passages(self, texts: Sequence[str]) -> csr_array:
        assert len(texts) == self._passages.shape[0]
        return self._passages


def searched(questions: np.ndarray, passages: np.ndarray) -> LearnedSparse:
    corpus = [Passage(str(row), str(row)) for row in range(len(passages))]
    return LearnedSparse("sparse", corpus, Given(questions, passages))


def matrix(rows: int, columns: int) -> st.SearchStrategy[np.ndarray]:
    cells = st.lists(WEIGHTS, min_size=rows * columns, max_size=rows * columns)
    return cells.map(lambda values: np.array(values, dtype=np.float32).reshape(rows, columns))


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(1, 20), st.integers(1, 12), st.integers(1, 15))
def test_the_best_are_those_of_the_matrix_product(data: st.DataObject, n: int, m: int, k: int) -> None:
    questions, passages = data.draw(matrix(m, 5)), data.draw(matrix(n, 5))
    found = searched(questions, passages).search([""] * m, k)
    products = questions @ passages.T  # exact: all weights are quarters
    expected = top_k(np.where(products > 0, products, -np.inf), k)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_real_numbers_too() -> None:
    rng = np.random.default_rng(0)
    questions, passages = (
        np.where(rng.random((rows, 3000)) < 0.02, rng.gamma(2.0, size=(rows, 3000)), 0).astype(np.float32)
        for rows in (40, 900)
    )
    found = searched(questions, passages).search([""] * 40, 100)
    products = questions.astype(np.float64) @ passages.T.astype(np.float64)
    expected = top_k(np.where(products > 0, products, -np.inf), 100)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)
    np.testing.assert_array_equal(found.indices, expected.indices)


def test_ties_are_in_the_order_of_rows_and_what_is_not_above_0_is_not_found() -> None:
    passages = np.array([[0, 1], [2, 0], [1, 1], [2, 0], [2, 4]], dtype=np.float32)
    found = searched(np.array([[1, -0.5]], dtype=np.float32), passages).search([""], 5)
    assert found.indices.tolist() == [[1, 3, 2, -1, -1]]
    assert found.scores.tolist() == [[2, 2, 0.5, -np.inf, -np.inf]]


def test_questions_of_another_vocabulary_are_refused() -> None:
    with pytest.raises(ValueError, match="terms that its passages cannot have"):
        searched(np.ones((1, 3), dtype=np.float32), np.ones((2, 2), dtype=np.float32)).search([""], 1)
