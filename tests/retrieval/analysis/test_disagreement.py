import numpy as np

from retrieval.analysis.questions import most_disputed
from retrieval.rankings import Rankings
from tests.doubles import small_set


def rankings_with_first_relevant_at(ranks: list[int]) -> Rankings:
    """Rankings of the small set's first five questions, whose relevant passage is the one of the same row."""
    indices = np.full((len(ranks), 5), -1, dtype=np.int32)
    for row, rank in enumerate(ranks):
        others = [other for other in range(5) if other != row]
        order = others if rank == 0 else [*others[: rank - 1], row, *others[rank - 1 :]]
        indices[row, : len(order)] = order
    return Rankings(indices, np.where(indices < 0, -np.inf, -np.arange(5)).astype(np.float32))


def disputed(*ranks: list[int], count: int = 3) -> list[int]:
    rankings = [rankings_with_first_relevant_at(each) for each in ranks]
    return most_disputed(rankings, small_set().with_questions(range(5)), count)


def test_the_widest_spread_is_first() -> None:
    # worst / best: 2, 5, 1, 6 (not found counts as rank 6 of 5), 4
    assert disputed([1, 1, 2, 1, 1], [2, 5, 2, 0, 4]) == [3, 1, 4]


def test_from_1_to_2_is_more_than_from_4_to_5() -> None:
    assert disputed([4, 1, 1, 1, 1], [5, 2, 1, 1, 1]) == [1, 0]


def test_each_retriever_leads_once_before_any_leads_twice() -> None:
    assert disputed([1, 1, 1, 3, 1], [5, 5, 5, 2, 1], count=2) == [0, 3]


def test_where_all_agree_nothing_is_disputed() -> None:
    assert disputed([1, 2, 3, 4, 0], [1, 2, 3, 4, 0]) == []
    assert disputed([1, 2, 3, 4, 5]) == []
