"""Statistics of pairs, compared with simple counts."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data import pairs as module
from mrc_workbench.data.pairs import PairKind, PairSet, audit_pairs, split_pairs
from mrc_workbench.data.split import PARTS, Part, SplitOptions

SENTENCES = [["가", "나", "나", "라라", "가", "마"], ["나", "가", "다", "라라", "나", "바"]]
SCORES = [5, 4, 0, 5, 5, 2.4]
SCORED = PairSet.from_columns("짝", PairKind.SCORED, SENTENCES, SCORES, published=[0, 0, 0, 1, 2, 2], scale=(0, 5))


def test_counts_rows_sentences_and_scores() -> None:
    result = audit_pairs(SCORED)
    assert (result.row_count, result.sentence_count, result.equal_count) == (6, 6, 1)
    assert result.part_counts == {Part.TRAIN: 3, Part.VALIDATION: 1, Part.TEST: 2}
    assert result.published == (Part.TRAIN, Part.VALIDATION, Part.TEST)
    assert [column_lengths.tolist() for column_lengths in result.lengths] == [[1, 1, 1, 2, 1, 1]] * 2
    assert result.score_counts.tolist() == [1, 0, 0, 0, 1, 0, 0, 0, 1, 3]
    assert result.score_edges == pytest.approx(np.arange(0, 5.5, 0.5))
    assert result.labels == {}


def test_counts_repeated_and_disputed_pairs() -> None:
    result = audit_pairs(SCORED)
    assert (result.repeated.tolist(), result.disputed_count) == ([1, 4], 1)
    ordered = PairSet.from_columns("짝", PairKind.LABELLED, SCORED.texts, [0, 1, 2, 0, 0, 1])
    result = audit_pairs(ordered)
    assert (result.repeated.tolist(), result.disputed_count) == ([4], 0)
    assert result.labels == {module.Label.ENTAILMENT: 3, module.Label.NEUTRAL: 2, module.Label.CONTRADICTION: 1}
    assert len(result.score_counts) == 0


def test_counts_sentences_in_two_parts() -> None:
    leaks = audit_pairs(SCORED).leaks
    train_test_leak = leaks[Part.TRAIN, Part.TEST]
    assert (train_test_leak.sentences, train_test_leak.rows.tolist(), train_test_leak.repeated) == (2, [4], 1)
    for parts in ((Part.TRAIN, Part.VALIDATION), (Part.VALIDATION, Part.TEST)):
        assert (leaks[parts].sentences, leaks[parts].repeated) == (0, 0)


def test_sampled_parts_share_no_sentence() -> None:
    columns = [[f"전제 {row // 3}" for row in range(90)], [f"가설 {row}" for row in range(90)]]
    result = audit_pairs(PairSet.from_columns("짝", PairKind.PARALLEL, columns))
    assert result.published == ()
    assert all(part_leak.sentences == 0 for part_leak in result.leaks.values())


PAIRS = st.lists(st.tuples(st.sampled_from("가나다라마"), st.sampled_from("가나다라마바")), max_size=12)


@pytest.mark.slow
@given(first=PAIRS, second=PAIRS, kind=st.sampled_from([PairKind.PARALLEL, PairKind.SCORED]))
@settings(max_examples=200, deadline=None)
def test_leaks_match_set_overlaps(first: list[tuple[str, str]], second: list[tuple[str, str]], kind: PairKind) -> None:
    values = [0] * len(first + second) if kind is PairKind.SCORED else []
    columns = [[row[column] for row in first + second] for column in range(2)]
    pairs = PairSet.from_columns("짝", kind, columns, values, scale=(0, 5))
    train, test = np.split(np.arange(len(pairs)), [len(first)])
    parts = {Part.TRAIN: train, Part.VALIDATION: train[:0], Part.TEST: test}
    leak = audit_pairs(pairs, parts).leaks[Part.TRAIN, Part.TEST]
    known = {text for row in first for text in row}
    whole = set(first) | ({(b, a) for a, b in first} if kind is PairKind.SCORED else set())
    assert leak.sentences == len(known & {text for row in second for text in row})
    assert leak.rows.tolist() == [row for row, pair in zip(test.tolist(), second, strict=True) if known & set(pair)]
    assert leak.repeated == sum(row in whole for row in second)


TRAIN, VALIDATION, TEST = range(3)


def pairs_of(rows: Sequence[tuple[str, str]], published: Sequence[int] | None = None) -> PairSet:
    first, second = zip(*rows, strict=True)
    return PairSet.from_columns("짝", PairKind.PARALLEL, [first, second], published=published)


def disjoint_rows(count: int) -> list[tuple[str, str]]:
    return [(f"문장 {row}", f"다른 문장 {row}") for row in range(count)]


def sentences(pairs: PairSet, rows: np.ndarray) -> set[str]:
    return set(pairs.at(rows).sentences)


def test_groups_rows_that_share_sentences_transitively() -> None:
    pairs = pairs_of([("가", "나"), ("다", "라"), ("마", "나"), ("바", "마"), ("라", "다")])
    groups = module.row_groups(module.number_sentences(pairs)[0])
    assert groups.tolist() == [0, 1, 0, 0, 1]


def test_splits_unpublished_rows_by_fractions() -> None:
    rows = split_pairs(pairs_of(disjoint_rows(1000)), SplitOptions(validation=0.1, test=0.2))
    assert [len(rows[part]) for part in (Part.ALL, *PARTS)] == [1000, 700, 100, 200]
    assert sorted(np.concatenate([rows[part] for part in PARTS]).tolist()) == list(range(1000))


def test_split_depends_on_the_seed() -> None:
    pairs = pairs_of(disjoint_rows(100))
    first, again, other = (split_pairs(pairs, SplitOptions(seed=seed))[Part.TEST] for seed in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()


def test_keeps_published_parts_that_share_sentences() -> None:
    rows = [("가", "나"), ("가", "다"), ("가", "라")]
    rows_by_part = split_pairs(pairs_of(rows, [TEST, TRAIN, VALIDATION]))
    assert [rows_by_part[part].tolist() for part in PARTS] == [[1], [2], [0]]


@pytest.mark.parametrize(("given", "missing"), [(TEST, Part.VALIDATION), (VALIDATION, Part.TEST)])
def test_samples_missing_parts_from_training_rows(given: int, missing: Part) -> None:
    pairs = pairs_of(disjoint_rows(100), [TRAIN] * 80 + [given] * 20)
    rows_by_part = split_pairs(pairs, SplitOptions(validation=0.1, test=0.1))
    assert rows_by_part[PARTS[given]].tolist() == list(range(80, 100))
    assert len(rows_by_part[missing]) == 8
    assert rows_by_part[missing].max() < 80
    assert len(rows_by_part[Part.TRAIN]) == 72


@pytest.mark.parametrize("given", [TEST, VALIDATION])
def test_never_samples_from_published_test_rows(given: int) -> None:
    rows_by_part = split_pairs(pairs_of(disjoint_rows(50), [given] * 50))
    assert [len(rows_by_part[part]) for part in PARTS] == [50 * (index == given) for index in range(3)]
    assert module.evaluation_part(rows_by_part) is PARTS[given]


def test_uses_rows_without_part_for_training() -> None:
    rows_by_part = split_pairs(pairs_of(disjoint_rows(30), [TEST] * 10 + [-1] * 10 + [VALIDATION] * 10))
    assert rows_by_part[Part.TRAIN].tolist() == list(range(10, 20))


def test_does_not_sample_rows_that_leak_into_published_parts() -> None:
    rows = [("공통", f"가설 {row}") for row in range(50)] + disjoint_rows(50)
    pairs = pairs_of(rows, [TEST] + [TRAIN] * 99)
    validation_rows = split_pairs(pairs, SplitOptions(validation=0.2))[Part.VALIDATION]
    assert len(validation_rows) == 20
    assert validation_rows.min() >= 50


def test_keeps_large_groups_in_training() -> None:
    rows = [("공통", f"가설 {row}") for row in range(60)] + disjoint_rows(40)
    rows_by_part = split_pairs(pairs_of(rows), SplitOptions(validation=0.1, test=0.2))
    assert set(range(60)) <= set(rows_by_part[Part.TRAIN].tolist())
    assert (len(rows_by_part[Part.TEST]), len(rows_by_part[Part.VALIDATION])) == (20, 10)


def test_every_part_gets_rows_of_a_small_set() -> None:
    rows = [(f"전제 {row // 3}", f"가설 {row}") for row in range(15)]
    rows_by_part = split_pairs(pairs_of(rows), SplitOptions(validation=0.2, test=0.2))
    assert [len(rows_by_part[part]) for part in PARTS] == [9, 3, 3]


@pytest.mark.slow
@given(
    rows=st.lists(st.tuples(*[st.integers(0, 30).map(str)] * 2, st.sampled_from([-1, 0, 1, 2])), max_size=40),
    seed=st.integers(0, 5),
)
@settings(max_examples=150, deadline=None)
def test_parts_are_disjoint_without_shared_sentences(rows: list[tuple[str, str, int]], seed: int) -> None:
    published = [row[2] for row in rows]
    columns = [[row[index] for row in rows] for index in range(2)]
    pairs = PairSet.from_columns("짝", PairKind.PARALLEL, columns, published=published)
    rows_by_part = split_pairs(pairs, SplitOptions(seed=seed))
    assert sorted(np.concatenate([rows_by_part[part] for part in PARTS]).tolist()) == list(range(len(rows)))
    for index, part in enumerate(PARTS):
        if index and index in published:
            assert rows_by_part[part].tolist() == [row for row, p in enumerate(published) if p == index]
        elif index:
            others = np.setdiff1d(rows_by_part[Part.ALL], rows_by_part[part])
            assert not sentences(pairs, rows_by_part[part]) & sentences(pairs, others)


def test_splits_sentence_sets_and_empty_sets() -> None:
    alone = PairSet.from_columns("문장", PairKind.SENTENCES, [["가", "가", "나"]])
    assert module.row_groups(module.number_sentences(alone)[0]).tolist() == [0, 0, 1]
    empty = split_pairs(alone.at(np.array([], dtype=int)))
    assert [len(rows) for rows in empty.values()] == [0, 0, 0, 0]
    assert module.evaluation_part(empty) is Part.ALL
