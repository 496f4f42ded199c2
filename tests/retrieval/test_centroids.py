"""Candidates by centroids: exact scores, recall, stored indexes, texts without tokens."""

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.vectors import TokenVectors
from mrc_workbench.retrieval.centroids import CANDIDATES, Block, TokenIndex, mapped_index, pack
from mrc_workbench.retrieval.dense import LateIndex, LateInteraction, max_sim
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, concatenate
from tests.doubles import PASSAGES, QUESTIONS, KeywordTokens, texts_of
from tests.retrieval.compared import assert_equal_rankings, hits_of

pytestmark = pytest.mark.slow  # compiles, and reads FAISS


def tokens(lengths: list[int], seed: int = 0, dimensions: int = 16, topics: int = 40) -> TokenVectors:
    """Vectors around some topics, of which a text has few."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(topics, dimensions))
    centre_lists = [rng.choice(rng.integers(0, topics, 4), length) for length in lengths]
    centre_rows = np.concatenate([np.zeros(0, dtype=int), *centre_lists])
    vectors = centres[centre_rows] + 0.4 * rng.normal(size=(len(centre_rows), dimensions))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return TokenVectors(vectors.astype(np.float16), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def blocks(passages: TokenVectors, of: int = 3) -> Iterator[Block]:
    for first in range(min(of, len(passages))):
        rows = np.arange(first, len(passages), of)
        yield rows, passages.select(rows)


def index_of(passages: TokenVectors, bits: int = 0) -> TokenIndex:
    return TokenIndex.from_blocks(blocks(passages), len(passages), bits)


MANY = tokens(np.random.default_rng(5).integers(0, 30, 3000).tolist(), 1)
QUERIES = tokens([8] * 30, 2)


@cache
def index_of_many(bits: int = 0) -> TokenIndex:
    return index_of(MANY, bits)


def searched(index: TokenIndex, questions: TokenVectors, k: int) -> Rankings:
    return concatenate([index.search(questions.between(row, row + 1).vectors, k) for row in range(len(questions))])


def share_of_the_best(rankings: Rankings, exact: np.ndarray) -> float:
    k = rankings.indices.shape[1]
    best = np.argsort(-exact, axis=1)[:, :k]
    return float(np.mean([np.isin(*rows).mean() for rows in zip(best, rankings.indices, strict=True)]))


def test_hits_have_exact_scores_and_recall_is_high() -> None:
    assert len(MANY) > 5 * CANDIDATES
    exact = max_sim(QUERIES, MANY)
    for k in (10, 100):
        rankings = searched(index_of_many(), QUERIES, k)
        np.testing.assert_allclose(rankings.scores, np.take_along_axis(exact, rankings.indices, 1), atol=1e-6)
        assert share_of_the_best(rankings, exact) >= 0.95


def test_weighted_tokens_have_exact_scores_and_high_recall() -> None:
    """Products with vectors longer than 1 exceed the range of a cosine."""
    rng = np.random.default_rng(7)
    weights = rng.uniform(0, 6, len(QUERIES.vectors)) * rng.integers(0, 2, len(QUERIES.vectors))
    weighted = TokenVectors((QUERIES.vectors * weights[:, None]).astype(np.float16), QUERIES.starts)
    exact = max_sim(weighted, MANY)
    rankings = searched(index_of_many(), weighted, 10)
    np.testing.assert_allclose(rankings.scores, np.take_along_axis(exact, rankings.indices, 1), atol=2e-5)
    assert share_of_the_best(rankings, exact) > 0.9


def test_search_is_exact_if_all_passages_are_candidates() -> None:
    passages = tokens([3, 0, 7, 1, 4, 4, 12], 3)
    rankings = searched(index_of(passages), QUERIES, 7)
    exact = max_sim(QUERIES, passages)
    np.testing.assert_array_equal(rankings.indices[:, :6], np.argsort(-exact, axis=1, kind="stable")[:, :6])
    assert (rankings.indices[:, 6] == NOT_FOUND).all()  # the passage without tokens


@pytest.mark.parametrize("lengths", [[5], [0, 1, 0], [2, 2], [0, 0]])
def test_searches_fewer_tokens_than_centroids(lengths: list[int]) -> None:
    passages = tokens(lengths, 4)
    rankings = index_of(passages).search(QUERIES.between(0, 1).vectors, 2)
    assert hits_of(rankings)[0].keys() == {*np.flatnonzero(lengths).tolist()}


def test_breaks_ties_of_equal_passages_by_row() -> None:
    passage = tokens([6], 7)
    passages = TokenVectors(np.tile(passage.vectors, (5, 1)), np.arange(6) * 6)
    rankings = index_of(passages).search(QUERIES.between(0, 1).vectors, 5)
    assert rankings.indices[0].tolist() == [0, 1, 2, 3, 4]
    assert len({*rankings.scores[0].tolist()}) == 1


def test_question_without_tokens_returns_no_hits() -> None:
    nothing = np.zeros((0, 16), dtype=np.float16)
    assert not index_of_many().candidates(nothing, 10).size
    assert (index_of_many().search(nothing, 3).indices == NOT_FOUND).all()


@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("dimensions", [16, 13])
def test_packing_matches_reference_loop(bits: int, dimensions: int) -> None:
    passages = tokens([4, 9, 2], 8, dimensions)
    index = index_of(passages, bits)
    arrays = index._arrays
    rows = np.array([2, 0, 1])
    vectors, starts = index._vectors_of(index._positions[rows])
    expected = []
    size = -(-dimensions * bits // 8)
    for row in rows:
        position = index._positions[row]
        for token in range(arrays.starts[position], arrays.starts[position + 1]):
            centroid = arrays.centroids[arrays.codes[token]].astype(float)
            for dimension in range(dimensions):
                byte = int(arrays.residuals[token, dimension % size])
                centroid[dimension] += arrays.levels[byte >> (bits * (dimension // size)) & (2**bits - 1)]
            expected.append(centroid / np.linalg.norm(centroid))
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert np.diff(starts).tolist() == [2, 4, 9]


@pytest.mark.parametrize("bits", [1, 2])
def test_packs_number_of_cuts_below_value(bits: int) -> None:
    cuts = np.array({1: [0.0], 2: [-0.5, 0.0, 0.5]}[bits], dtype=np.float32)
    left = np.random.default_rng(0).normal(size=(7, 13)).astype(np.float32)
    packed = pack(left, cuts, bits)
    size = packed.shape[1]
    for row, dimension in np.ndindex(*left.shape):
        digit = packed[row, dimension % size] >> (bits * (dimension // size)) & (2**bits - 1)
        assert digit == (left[row, dimension] > cuts).sum()


def test_more_bits_reduce_error_and_take_more_memory() -> None:
    exact = max_sim(QUERIES, MANY)[:, np.diff(MANY.starts) > 0]
    known = np.flatnonzero(np.diff(MANY.starts))
    off = []
    sizes = []
    for bits in (1, 2, 0):
        index = index_of_many(bits)
        scores = [index.scores(QUERIES.between(row, row + 1).vectors, known) for row in range(len(QUERIES))]
        off.append(np.abs(np.array(scores) - exact).mean())
        sizes.append(index.memory_bytes)
    assert off[0] > off[1] > off[2]
    assert off[2] < 1e-6
    assert sizes[0] < sizes[1]


def test_index_is_deterministic() -> None:
    for bits in (0, 2):
        for array, other in zip(index_of_many(bits)._arrays, index_of(MANY, bits)._arrays, strict=True):
            np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize("bits", [0, 2])
def test_stored_index_equals_built_index(bits: int) -> None:
    times = []

    def build() -> Iterator[Block]:
        times.append(1)
        return blocks(MANY)

    anew = index_of_many(bits)
    for _ in range(2):
        stored = mapped_index("key", build, len(MANY), bits)
        for array, other in zip(stored._arrays, anew._arrays, strict=True):
            np.testing.assert_array_equal(array, other)
        assert isinstance(stored._arrays.rows.base, np.memmap)
    assert len(times) == 1
    (folder,) = (path for path in (workspace() / "cache" / "token-index").iterdir() if path.is_dir())
    (folder / "passage_centroids").write_bytes(b"damaged")
    rebuilt = mapped_index("key", build, len(MANY), bits)
    np.testing.assert_array_equal(rebuilt._arrays.passage_centroids, anew._arrays.passage_centroids)
    assert len(times) == 2


@pytest.mark.parametrize("first", [False, True])
def test_late_interaction_returns_same_hits_with_index(first: bool) -> None:
    queries = [*texts_of(QUESTIONS), "zebra"]
    alone = LateInteraction("alone", PASSAGES, KeywordTokens())
    options = {"first": alone if first else None, "depth": 5, "index": LateIndex.CENTROIDS}
    late = LateInteraction("late", PASSAGES, KeywordTokens(), **options)
    expected = alone.search(queries, 5)
    rankings = late.search(queries, 5)
    assert_equal_rankings(rankings, expected, rtol=1e-6)
    assert late.memory_bytes > 0
