"""Late interaction: scores by hand, candidates of another retriever, texts without tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.models.vectors import TokenVectors
from mrc_workbench.retrieval.dense import ENCODING, Late, max_sim
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, top_k
from tests.doubles import PASSAGES, QUESTIONS, KeywordTokens, texts_of

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=9)


def vectors_of(lengths: list[int], seed: int) -> TokenVectors:
    """Random vectors of length 1, so many of each text."""
    drawn = np.random.default_rng(seed).normal(size=(sum(lengths), 4))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return TokenVectors(drawn.astype(np.float16), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def by_loop(questions: TokenVectors, passages: TokenVectors) -> np.ndarray:
    scores = np.full((len(questions), len(passages)), -np.inf)
    for asked in range(len(questions)):
        for read in range(len(passages)):
            ours = questions.between(asked, asked + 1).vectors.astype(float)
            theirs = passages.between(read, read + 1).vectors.astype(float)
            if len(ours) and len(theirs):
                scores[asked, read] = np.mean([max(float(one @ other) for other in theirs) for one in ours])
    return scores


@given(LENGTHS, LENGTHS, st.integers(0, 9))
def test_a_plain_loop(asked: list[int], read: list[int], seed: int) -> None:
    questions, passages = vectors_of(asked, seed), vectors_of(read, seed + 1)
    np.testing.assert_allclose(max_sim(questions, passages), by_loop(questions, passages), atol=1e-6)


def test_passages_are_compared_in_parts_as_together(monkeypatch: pytest.MonkeyPatch) -> None:
    questions, passages = vectors_of([3, 5], 1), vectors_of([7, 0, 2, 30, 4, 4, 1], 2)
    together = max_sim(questions, passages)
    monkeypatch.setattr("mrc_workbench.retrieval.dense._PLACES", 8)
    np.testing.assert_array_equal(max_sim(questions, passages), together)


@pytest.mark.slow
def test_the_library_scores_the_same() -> None:
    from sentence_transformers.util import maxsim

    questions, passages = vectors_of([3, 5, 1], 3), vectors_of([7, 2, 30, 4], 4)
    lists = [
        [vectors.between(row, row + 1).vectors.astype(np.float32) for row in range(len(vectors))]
        for vectors in (questions, passages)
    ]
    theirs = maxsim(*lists, length_normalize=True).numpy()
    np.testing.assert_allclose(max_sim(questions, passages), theirs, atol=1e-6)


class Upwards:
    """The passages from the last to the first, whatever is asked."""

    name = "upwards"

    def search(self, questions: list[str], k: int) -> Rankings:
        return top_k(np.tile(np.arange(len(PASSAGES), dtype=np.float32), (len(questions), 1)), k)


def test_it_holds_the_tokens_and_tells_how_far_it_is() -> None:
    texts, shares = [passage.text for passage in PASSAGES], list[float]()
    late = Late("late", PASSAGES, KeywordTokens(), title=False, on_progress=shares.append)
    assert late.memory_bytes == KeywordTokens().encode_passages(texts).vectors.nbytes > 0
    late.search(["서울"] * 40, 3)
    assert shares == pytest.approx([ENCODING + (1 - ENCODING) * 32 / 40, 1.0])


def test_only_the_first_passages_of_another_retriever_are_ordered_anew() -> None:
    asked = texts_of(QUESTIONS)
    alone = Late("alone", PASSAGES, KeywordTokens()).search(asked, 5)
    late = Late("late", PASSAGES, KeywordTokens(), first=Upwards(), depth=2)  # type: ignore[arg-type]
    found = late.search(asked, 5)
    assert (found.indices[:, 2:] == [2, 1, 0]).all()  # as they were
    for row, indices in enumerate(found.indices[:, :2].tolist()):
        assert {*indices} == {3, 4}
        of = dict(zip(alone.indices[row].tolist(), alone.scores[row].tolist(), strict=True))
        for place, passage in enumerate(indices):
            expected = of.get(passage)
            assert expected is None or found.scores[row, place] == pytest.approx(expected)
    assert (np.diff(found.scores, axis=1) <= 0).all()


def test_all_candidates_are_as_good_as_searching_all() -> None:
    asked = texts_of(QUESTIONS)
    alone = Late("alone", PASSAGES, KeywordTokens()).search(asked, 5)
    among = Late("among", PASSAGES, KeywordTokens(), first=Upwards(), depth=5).search(asked, 5)  # type: ignore[arg-type]
    found = alone.indices != NOT_FOUND
    np.testing.assert_array_equal(among.indices[found], alone.indices[found])
    np.testing.assert_allclose(among.scores[found], alone.scores[found], rtol=1e-6)


def test_a_question_of_which_nothing_is_known_finds_nothing() -> None:
    found = Late("late", PASSAGES, KeywordTokens()).search(["zebra", "서울"], 3)
    assert (found.indices[0] == NOT_FOUND).all()
    assert {*found.indices[1, :2].tolist()} == {1, 2}
