import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.records import Passage
from retrieval.dense.retriever import Dense
from tests.doubles import PASSAGES, QUESTIONS, KeywordEncoder, texts_of


class RowEncoder:
    """A text is its vector, written out: `1 0 0`."""

    fingerprint = "rows"

    def encode_questions(self, texts: list[str]) -> np.ndarray:
        return self.encode_passages(texts)

    def encode_passages(self, texts: list[str]) -> np.ndarray:
        return np.array([[float(number) for number in text.split()] for text in texts], dtype=np.float32)


def test_scores_are_cosines_counted_by_hand() -> None:
    rankings = Dense("dense", PASSAGES, KeywordEncoder(), title=False).search(["한강과 서울", "한글", "한강"], 5)
    # keywords of the passages: 세종 한글 | 한강 서울 | 서울 한강 | 산 | 도서관
    half = 1 / np.sqrt(2)
    assert rankings.indices.tolist() == [[1, 2, 0, 3, 4], [0, 1, 2, 3, 4], [1, 2, 0, 3, 4]]
    np.testing.assert_allclose(rankings.scores, [[1, 1, 0, 0, 0], [half, 0, 0, 0, 0], [half, half, 0, 0, 0]], atol=1e-6)


def test_a_question_nothing_is_known_of_finds_nothing() -> None:
    rankings = Dense("dense", PASSAGES, KeywordEncoder()).search(["아무것도", "도서관", ""], 2)
    assert rankings.indices.tolist() == [[-1, -1], [4, 0], [-1, -1]]
    assert np.isneginf(rankings.scores[[0, 2]]).all()


def test_the_title_counts_where_asked() -> None:
    titled = [Passage("p1", "이 강은 길다", "한강"), Passage("p2", "한강은 길다")]
    for title, scores in ((True, [1, 1]), (False, [1, 0])):
        assert Dense("dense", titled, KeywordEncoder(), title=title).search(["한강"], 2).scores.tolist() == [scores]


def test_random_vectors_against_a_full_product() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = [" ".join(map(repr, row.tolist())) for row in vectors]
    passages = [Passage(f"p{row}", text) for row, text in enumerate(texts[:250])]
    rankings = Dense("dense", passages, RowEncoder()).search(texts[250:], 10)
    cosines = vectors[250:].astype(np.float64) @ vectors[:250].T.astype(np.float64)
    assert rankings.indices.tolist() == np.argsort(-cosines, axis=1)[:, :10].tolist()
    np.testing.assert_allclose(rankings.scores, -np.sort(-cosines, axis=1)[:, :10], atol=1e-6)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 70))
def test_ties_go_to_the_lower_row_even_at_the_cut(axes: list[int], k: int) -> None:
    unit = np.eye(4)
    texts = [" ".join(map(str, unit[axis])) for axis in axes]
    passages = [Passage(f"p{row}", text) for row, text in enumerate(texts)]
    rankings = Dense("dense", passages, RowEncoder()).search([" ".join(map(str, row)) for row in unit], k)
    for axis, rows in enumerate(rankings.indices.tolist()):
        expected = [row for _, row in sorted((found != axis, row) for row, found in enumerate(axes))][:k]
        assert rows == expected + [-1] * (k - len(expected))


@pytest.mark.parametrize("k", [1, 3, 5, 8])
def test_deeper_searches_only_add(k: int) -> None:
    retriever = Dense("dense", PASSAGES, KeywordEncoder())
    questions = texts_of(QUESTIONS)
    whole, part = retriever.search(questions, 8), retriever.search(questions, k)
    assert whole.first(k).indices.tolist() == part.indices.tolist()
    assert whole.first(k).scores.tolist() == part.scores.tolist()
