"""Candidates by centroids: exact scores of what is found, what is missed, what is kept, texts without tokens."""

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.vectors import TokenVectors
from mrc_workbench.retrieval.centroids import CANDIDATES, Block, TokenIndex, mapped_index, pack
from mrc_workbench.retrieval.dense import Late, LateIndex, max_sim
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, joined
from tests.doubles import PASSAGES, QUESTIONS, KeywordTokens, texts_of

pytestmark = pytest.mark.slow  # compiles, and reads FAISS


def unit(drawn: np.ndarray) -> np.ndarray:
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float16)


def tokens(lengths: list[int], seed: int = 0, dimensions: int = 16, topics: int = 40) -> TokenVectors:
    """Vectors around some topics, of which a text has few."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(topics, dimensions))
    of = [rng.choice(rng.integers(0, topics, 4), length) for length in lengths]
    chosen = np.concatenate([np.zeros(0, dtype=int), *of])
    drawn = centres[chosen] + 0.4 * rng.normal(size=(len(chosen), dimensions))
    return TokenVectors(unit(drawn), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def blocks(passages: TokenVectors, of: int = 3) -> Iterator[Block]:
    for first in range(min(of, len(passages))):
        rows = np.arange(first, len(passages), of)
        yield rows, passages.at(rows)


def index_of(passages: TokenVectors, bits: int = 0) -> TokenIndex:
    return TokenIndex.of(blocks(passages), len(passages), bits)


MANY = tokens(np.random.default_rng(5).integers(0, 30, 3000).tolist(), 1)
ASKED = tokens([8] * 30, 2)


@cache
def index_of_many(bits: int = 0) -> TokenIndex:
    return index_of(MANY, bits)


def searched(index: TokenIndex, questions: TokenVectors, k: int) -> Rankings:
    return joined([index.search(questions.between(row, row + 1).vectors, k) for row in range(len(questions))])


def share_of_the_best(rankings: Rankings, exact: np.ndarray) -> float:
    k = rankings.indices.shape[1]
    best = np.argsort(-exact, axis=1)[:, :k]
    return float(np.mean([np.isin(*rows).mean() for rows in zip(best, rankings.indices, strict=True)]))


def test_what_is_found_has_its_exact_score_and_few_of_the_best_are_missed() -> None:
    assert len(MANY) > 5 * CANDIDATES
    exact = max_sim(ASKED, MANY)
    for k in (10, 100):
        rankings = searched(index_of_many(), ASKED, k)
        np.testing.assert_allclose(rankings.scores, np.take_along_axis(exact, rankings.indices, 1), atol=1e-6)
        assert share_of_the_best(rankings, exact) >= 0.95


def test_weighted_tokens_have_their_exact_scores_and_few_of_the_best_are_missed() -> None:
    """Products with vectors longer than 1 exceed the range of a cosine."""
    rng = np.random.default_rng(7)
    weights = rng.uniform(0, 6, len(ASKED.vectors)) * rng.integers(0, 2, len(ASKED.vectors))
    weighted = TokenVectors((ASKED.vectors * weights[:, None]).astype(np.float16), ASKED.starts)
    exact, rankings = max_sim(weighted, MANY), searched(index_of_many(), weighted, 10)
    np.testing.assert_allclose(rankings.scores, np.take_along_axis(exact, rankings.indices, 1), atol=2e-5)
    assert share_of_the_best(rankings, exact) > 0.9


def test_all_passages_as_candidates_are_an_exact_search() -> None:
    passages = tokens([3, 0, 7, 1, 4, 4, 12], 3)
    rankings, exact = searched(index_of(passages), ASKED, 7), max_sim(ASKED, passages)
    np.testing.assert_array_equal(rankings.indices[:, :6], np.argsort(-exact, axis=1, kind="stable")[:, :6])
    assert (rankings.indices[:, 6] == NOT_FOUND).all()  # the passage without tokens


@pytest.mark.parametrize("lengths", [[5], [0, 1, 0], [2, 2], [0, 0]])
def test_few_tokens(lengths: list[int]) -> None:
    passages = tokens(lengths, 4)
    found = index_of(passages).search(ASKED.between(0, 1).vectors, 2)
    known = np.flatnonzero(lengths)
    assert {*found.indices[0].tolist()} - {NOT_FOUND} == {*known.tolist()}


def test_passages_that_are_the_same_tie_by_row() -> None:
    one = tokens([6], 7)
    passages = TokenVectors(np.tile(one.vectors, (5, 1)), np.arange(6) * 6)
    found = index_of(passages).search(ASKED.between(0, 1).vectors, 5)
    assert found.indices[0].tolist() == [0, 1, 2, 3, 4]
    assert len({*found.scores[0].tolist()}) == 1


def test_a_question_without_tokens_finds_nothing() -> None:
    nothing = np.zeros((0, 16), dtype=np.float16)
    assert not index_of_many().candidates(nothing, 10).size
    assert (index_of_many().search(nothing, 3).indices == NOT_FOUND).all()


@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("dimensions", [16, 13])
def test_bits_are_packed_and_unpacked_as_by_a_loop(bits: int, dimensions: int) -> None:
    passages = tokens([4, 9, 2], 8, dimensions)
    index = index_of(passages, bits)
    kept, rows = index._arrays, np.array([2, 0, 1])
    vectors, starts = index._vectors_of(index._place[rows])
    expected = []
    size = -(-dimensions * bits // 8)
    for row in rows:
        place = index._place[row]
        for token in range(kept.starts[place], kept.starts[place + 1]):
            one = kept.centroids[kept.codes[token]].astype(float)
            for dimension in range(dimensions):
                byte = int(kept.residuals[token, dimension % size])
                one[dimension] += kept.levels[byte >> (bits * (dimension // size)) & (2**bits - 1)]
            expected.append(one / np.linalg.norm(one))
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert np.diff(starts).tolist() == [2, 4, 9]


@pytest.mark.parametrize("bits", [1, 2])
def test_a_value_has_the_bits_of_the_cuts_below_it(bits: int) -> None:
    cuts = np.array({1: [0.0], 2: [-0.5, 0.0, 0.5]}[bits], dtype=np.float32)
    left = np.random.default_rng(0).normal(size=(7, 13)).astype(np.float32)
    packed = pack(left, cuts, bits)
    size = packed.shape[1]
    for row, dimension in np.ndindex(*left.shape):
        digit = packed[row, dimension % size] >> (bits * (dimension // size)) & (2**bits - 1)
        assert digit == (left[row, dimension] > cuts).sum()


def test_more_bits_come_closer_and_take_more_memory() -> None:
    exact = max_sim(ASKED, MANY)[:, np.diff(MANY.starts) > 0]
    known, off, sizes = np.flatnonzero(np.diff(MANY.starts)), [], []
    for bits in (1, 2, 0):
        index = index_of_many(bits)
        scores = [index.scores(ASKED.between(row, row + 1).vectors, known) for row in range(len(ASKED))]
        off.append(np.abs(np.array(scores) - exact).mean())
        sizes.append(index.memory_bytes)
    assert off[0] > off[1] > off[2]
    assert off[2] < 1e-6
    assert sizes[0] < sizes[1]


def test_the_same_vectors_give_the_same_index() -> None:
    for bits in (0, 2):
        for one, other in zip(index_of_many(bits)._arrays, index_of(MANY, bits)._arrays, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("bits", [0, 2])
def test_a_kept_index_is_read_as_it_was_made(bits: int) -> None:
    times = []

    def made() -> Iterator[Block]:
        times.append(1)
        return blocks(MANY)

    anew = index_of_many(bits)
    for _ in range(2):
        kept = mapped_index("key", made, len(MANY), bits)
        for one, other in zip(kept._arrays, anew._arrays, strict=True):
            np.testing.assert_array_equal(one, other)
        assert isinstance(kept._arrays.rows.base, np.memmap)
    assert len(times) == 1
    (folder,) = (path for path in (workspace() / "cache" / "token-index").iterdir() if path.is_dir())
    (folder / "held").write_bytes(b"damaged")
    np.testing.assert_array_equal(mapped_index("key", made, len(MANY), bits)._arrays.held, anew._arrays.held)
    assert len(times) == 2


@pytest.mark.parametrize("first", [False, True])
def test_late_finds_the_same_by_an_index(first: bool) -> None:
    asked = [*texts_of(QUESTIONS), "zebra"]
    alone = Late("alone", PASSAGES, KeywordTokens())
    late = Late("late", PASSAGES, KeywordTokens(), first=alone if first else None, depth=5, index=LateIndex.CENTROIDS)
    expected, found = alone.search(asked, 5), late.search(asked, 5)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)
    assert late.memory_bytes > 0
