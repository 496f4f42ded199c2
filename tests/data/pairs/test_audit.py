"""The figures of pairs, each against a count by hand."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.pairs import (
    Label,
    PairKind,
    PairSet,
    audit_pairs,
    leak,
    numbers_of,
    part_to_measure,
    row_groups,
    split_pairs,
)
from mrc_workbench.data.split import PARTS, Part, SplitOptions

SCORED = PairSet.of(
    "짝",
    PairKind.SCORED,
    [["가", "나", "나", "라라", "가", "마"], ["나", "가", "다", "라라", "나", "바"]],
    [5, 4, 0, 5, 5, 2.4],
    published=[0, 0, 0, 1, 2, 2],
    scale=(0, 5),
)


def test_counts() -> None:
    figures = audit_pairs(SCORED)
    assert (figures.row_count, figures.sentence_count, figures.equal_count) == (6, 6, 1)
    assert figures.part_counts == {Part.TRAIN: 3, Part.VALIDATION: 1, Part.TEST: 2}
    assert figures.published == (Part.TRAIN, Part.VALIDATION, Part.TEST)
    assert [one.tolist() for one in figures.lengths] == [[1, 1, 1, 2, 1, 1]] * 2
    assert figures.score_counts.tolist() == [1, 0, 0, 0, 1, 0, 0, 0, 1, 3]
    assert figures.score_edges == pytest.approx(np.arange(0, 5.5, 0.5))
    assert figures.labels == {}


def test_scored_pairs_repeat_in_either_order_and_can_be_judged_differently() -> None:
    figures = audit_pairs(SCORED)
    assert (figures.repeated.tolist(), figures.disputed_count) == ([1, 4], 1)
    ordered = PairSet.of("짝", PairKind.LABELLED, SCORED.texts, [0, 1, 2, 0, 0, 1])
    figures = audit_pairs(ordered)
    assert (figures.repeated.tolist(), figures.disputed_count) == ([4], 0)
    assert figures.labels == {Label.ENTAILMENT: 3, Label.NEUTRAL: 2, Label.CONTRADICTION: 1}
    assert len(figures.score_counts) == 0


def test_sentences_that_stand_in_two_parts() -> None:
    leaks = audit_pairs(SCORED).leaks
    found = leaks[Part.TRAIN, Part.TEST]
    assert (found.sentences, found.rows.tolist(), found.repeated) == (2, [4], 1)
    for parts in ((Part.TRAIN, Part.VALIDATION), (Part.VALIDATION, Part.TEST)):
        assert (leaks[parts].sentences, leaks[parts].repeated) == (0, 0)


def test_drawn_parts_share_nothing() -> None:
    columns = [[f"전제 {row // 3}" for row in range(90)], [f"가설 {row}" for row in range(90)]]
    figures = audit_pairs(PairSet.of("짝", PairKind.PARALLEL, columns))
    assert figures.published == ()
    assert all(found.sentences == 0 for found in figures.leaks.values())


def test_what_two_sets_share() -> None:
    labelled = PairSet.of("판정", PairKind.LABELLED, [["나", "바", "사"], ["가", "사", "아"]], [0, 1, 2])
    found = leak(SCORED, labelled)
    assert (found.sentences, found.rows.tolist(), found.repeated) == (3, [0, 1], 1)
    sentences = PairSet.of("문장", PairKind.SENTENCES, [["마", "없음", "바", "마"]])
    found = leak(SCORED, sentences)
    assert (found.sentences, found.rows.tolist(), found.repeated) == (2, [0, 2, 3], 0)
    assert leak(sentences, SCORED).rows.tolist() == [5]


PAIRS = st.lists(st.tuples(st.sampled_from("가나다라마"), st.sampled_from("가나다라마바")), max_size=12)


@pytest.mark.slow
@given(first=PAIRS, second=PAIRS, kind=st.sampled_from([PairKind.PARALLEL, PairKind.SCORED]))
@settings(max_examples=200, deadline=None)
def test_leaks_are_what_sets_of_texts_tell(
    first: list[tuple[str, str]], second: list[tuple[str, str]], kind: PairKind
) -> None:
    def made(rows: list[tuple[str, str]]) -> PairSet:
        values = [0] * len(rows) if kind is PairKind.SCORED else []
        columns = [[row[place] for row in rows] for place in range(2)]
        return PairSet.of("짝", kind, columns, values, scale=(0, 5) if values or kind is PairKind.SCORED else (0, 0))

    found = leak(made(first), made(second))
    known = {text for row in first for text in row}
    whole = set(first) | ({(b, a) for a, b in first} if kind is PairKind.SCORED else set())
    assert found.sentences == len(known & {text for row in second for text in row})
    assert found.rows.tolist() == [place for place, row in enumerate(second) if known & set(row)]
    assert found.repeated == sum(row in whole for row in second)


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


@pytest.mark.slow
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
