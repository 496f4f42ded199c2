"""Splits of pairs: published parts stay, drawn ones share no sentence."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.pairs.audit import part_to_measure, row_groups, split_pairs
from data.pairs.records import PARTS, PairKind, PairSet, numbers_of
from data.split import Part, SplitOptions

TRAIN, VALIDATION, TEST = range(3)


def pairs_of(rows: Sequence[tuple[str, str]], published: Sequence[int] | None = None) -> PairSet:
    first, second = zip(*rows, strict=True)
    return PairSet.of("짝", PairKind.PARALLEL, [first, second], published=published)


def apart(count: int) -> list[tuple[str, str]]:
    return [(f"문장 {row}", f"다른 문장 {row}") for row in range(count)]


def sentences(pairs: PairSet, rows: np.ndarray) -> set[str]:
    return set(pairs.at(rows).sentences)


def test_rows_that_share_sentences_are_one_group_through_others_too() -> None:
    groups = row_groups(numbers_of(pairs_of([("가", "나"), ("다", "라"), ("마", "나"), ("바", "마"), ("라", "다")]))[0])
    assert groups.tolist() == [0, 1, 0, 0, 1]


def test_nothing_published_is_drawn_by_shares_of_the_rows() -> None:
    rows = split_pairs(pairs_of(apart(1000)), SplitOptions(validation=0.1, test=0.2))
    assert {part: len(found) for part, found in rows.items()} == {
        Part.ALL: 1000,
        Part.TRAIN: 700,
        Part.VALIDATION: 100,
        Part.TEST: 200,
    }
    assert sorted(np.concatenate([rows[part] for part in PARTS]).tolist()) == list(range(1000))


def test_the_seed_decides() -> None:
    pairs = pairs_of(apart(100))
    first, again, other = (split_pairs(pairs, SplitOptions(seed=seed))[Part.TEST] for seed in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()


def test_published_parts_are_kept_even_where_they_share_sentences() -> None:
    rows = [("가", "나"), ("가", "다"), ("가", "라")]
    found = split_pairs(pairs_of(rows, [TEST, TRAIN, VALIDATION]))
    assert [found[part].tolist() for part in PARTS] == [[1], [2], [0]]


@pytest.mark.parametrize(("given", "missing"), [(TEST, Part.VALIDATION), (VALIDATION, Part.TEST)])
def test_a_part_that_was_not_published_comes_of_the_training_rows(given: int, missing: Part) -> None:
    pairs = pairs_of(apart(100), [TRAIN] * 80 + [given] * 20)
    found = split_pairs(pairs, SplitOptions(validation=0.1, test=0.1))
    assert found[PARTS[given]].tolist() == list(range(80, 100))
    assert len(found[missing]) == 8
    assert found[missing].max() < 80
    assert len(found[Part.TRAIN]) == 72


@pytest.mark.parametrize("given", [TEST, VALIDATION])
def test_nothing_is_drawn_of_what_was_published_for_testing(given: int) -> None:
    found = split_pairs(pairs_of(apart(50), [given] * 50))
    assert [len(found[part]) for part in PARTS] == [50 * (place == given) for place in range(3)]
    assert part_to_measure(found) is PARTS[given]


def test_rows_of_no_published_part_are_for_training() -> None:
    found = split_pairs(pairs_of(apart(30), [TEST] * 10 + [-1] * 10 + [VALIDATION] * 10))
    assert found[Part.TRAIN].tolist() == list(range(10, 20))


def test_a_training_row_that_shares_a_sentence_with_a_published_part_is_not_drawn() -> None:
    rows = [("공통", f"가설 {row}") for row in range(50)] + apart(50)
    pairs = pairs_of(rows, [TEST] + [TRAIN] * 99)
    drawn = split_pairs(pairs, SplitOptions(validation=0.2))[Part.VALIDATION]
    assert len(drawn) == 20
    assert drawn.min() >= 50


def test_a_group_of_most_rows_stays_with_the_training_rows() -> None:
    rows = [("공통", f"가설 {row}") for row in range(60)] + apart(40)
    found = split_pairs(pairs_of(rows), SplitOptions(validation=0.1, test=0.2))
    assert set(range(60)) <= set(found[Part.TRAIN].tolist())
    assert (len(found[Part.TEST]), len(found[Part.VALIDATION])) == (20, 10)


def test_few_rows_in_groups_of_three_still_leave_some_to_each_part() -> None:
    rows = [(f"전제 {row // 3}", f"가설 {row}") for row in range(15)]
    found = split_pairs(pairs_of(rows), SplitOptions(validation=0.2, test=0.2))
    assert [len(found[part]) for part in PARTS] == [9, 3, 3]


@given(
    rows=st.lists(st.tuples(*[st.integers(0, 30).map(str)] * 2, st.sampled_from([-1, 0, 1, 2])), max_size=40),
    seed=st.integers(0, 5),
)
@settings(max_examples=150, deadline=None)
def test_parts_are_disjoint_and_drawn_ones_share_no_sentence(rows: list[tuple[str, str, int]], seed: int) -> None:
    published = [row[2] for row in rows]
    columns = [[row[place] for row in rows] for place in range(2)]
    pairs = PairSet.of("짝", PairKind.PARALLEL, columns, published=published)
    found = split_pairs(pairs, SplitOptions(seed=seed))
    assert sorted(np.concatenate([found[part] for part in PARTS]).tolist()) == list(range(len(rows)))
    for place, part in enumerate(PARTS):
        if place and place in published:
            assert found[part].tolist() == [row for row, one in enumerate(published) if one == place]
        elif place:
            others = np.setdiff1d(found[Part.ALL], found[part])
            assert not sentences(pairs, found[part]) & sentences(pairs, others)


def test_a_set_of_sentences_and_an_empty_one() -> None:
    alone = PairSet.of("문장", PairKind.SENTENCES, [["가", "가", "나"]])
    assert row_groups(numbers_of(alone)[0]).tolist() == [0, 0, 1]
    empty = split_pairs(alone.at(np.array([], dtype=int)))
    assert [len(rows) for rows in empty.values()] == [0, 0, 0, 0]
    assert part_to_measure(empty) is Part.ALL
