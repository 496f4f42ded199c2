"""The figures of pairs, each against a count by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.pairs.audit import audit_pairs, leak
from data.pairs.records import Label, PairKind, PairSet
from data.split import Part

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
