"""The map of ranks against hand-made ranks, and against what it promises of any."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.analysis.questions import BANDS, Block, Quadrant, RankMap, bands_of, quadrants, rank_map
from tests.doubles import small_set
from tests.retrieval.analysis.test_disagreement import rankings_with_first_relevant_at

RANKS = st.lists(st.lists(st.integers(0, 130), min_size=3, max_size=3), max_size=40)


def map_of(ranks: list[list[int]]) -> RankMap:
    found = np.array(ranks, dtype=np.int64).reshape(len(ranks), 3)
    return RankMap(found, np.lexsort(bands_of(found).T[::-1]))


@pytest.mark.parametrize(
    ("rank", "band"),
    [(1, 0), (2, 1), (5, 1), (6, 2), (10, 2), (11, 3), (20, 3), (21, 4), (50, 4), (51, 5), (100, 5), (101, 6), (0, 6)],
)
def test_band_of_a_rank(rank: int, band: int) -> None:
    assert bands_of(np.array([rank])).tolist() == [band]


def test_map_of_two_rankings_by_hand() -> None:
    # ranks of five questions; 0 is not found
    first, second = [2, 1, 0, 3, 1], [1, 4, 5, 0, 1]
    found = rank_map(
        [rankings_with_first_relevant_at(ranks) for ranks in (first, second)],
        small_set().with_questions(range(5)),
    )
    assert found.ranks.tolist() == [[2, 1], [1, 4], [0, 5], [3, 0], [1, 1]]
    # bands: (1, 0), (0, 1), (6, 1), (1, 6), (0, 0)
    assert found.order.tolist() == [4, 1, 0, 3, 2]
    assert found.blocks() == [
        Block(0, 0, 2, 0),
        Block(0, 2, 4, 1),
        Block(0, 4, 5, 6),
        Block(1, 0, 1, 0),
        Block(1, 1, 2, 1),
        Block(1, 2, 3, 0),
        Block(1, 3, 4, 6),
        Block(1, 4, 5, 1),
    ]


def test_order_is_stable_where_bands_are_equal() -> None:
    assert map_of([[7, 1, 1], [6, 1, 1], [10, 1, 1]]).order.tolist() == [0, 1, 2]


@given(RANKS)
def test_blocks_show_every_question_of_every_retriever_once_in_its_band(ranks: list[list[int]]) -> None:
    found = map_of(ranks)
    painted = np.full((len(ranks), 3), -1)
    for block in found.blocks():
        assert (painted[block.start : block.end, block.column] == -1).all()
        painted[block.start : block.end, block.column] = block.band
    expected = [[sum(rank > last for last in BANDS) if rank else len(BANDS) for rank in row] for row in ranks]
    assert painted.tolist() == [expected[row] for row in found.order]


@given(RANKS)
def test_no_two_neighbouring_blocks_could_be_one(ranks: list[list[int]]) -> None:
    blocks = map_of(ranks).blocks()
    for before, after in pairwise(blocks):
        assert before.column != after.column or (before.end == after.start and before.band != after.band)


@given(RANKS)
def test_questions_stand_by_the_bands_of_the_first_retriever_then_of_the_next(ranks: list[list[int]]) -> None:
    found = map_of(ranks)
    bands = [tuple(bands_of(found.ranks[row])) for row in found.order]
    assert bands == sorted(bands)


def test_quadrants_by_hand() -> None:
    first, second = np.array([1, 3, 4, 0, 0, 3]), np.array([2, 0, 3, 1, 9, 4])
    assert {name: rows.tolist() for name, rows in quadrants(first, second, 3).items()} == {
        Quadrant.BOTH: [0],
        Quadrant.ONLY_FIRST: [1, 5],
        Quadrant.ONLY_SECOND: [2, 3],
        Quadrant.NEITHER: [4],
    }


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30), st.integers(1, 12))
def test_each_question_is_in_one_quadrant(pairs: list[tuple[int, int]], k: int) -> None:
    first, second = (np.array([pair[side] for pair in pairs], dtype=np.int64) for side in (0, 1))
    found = quadrants(first, second, k)
    assert sorted(row for rows in found.values() for row in rows.tolist()) == list(range(len(pairs)))
    for row in found[Quadrant.ONLY_FIRST]:
        assert 0 < pairs[row][0] <= k
        assert not 0 < pairs[row][1] <= k
