import math

import numpy as np
import pytest

from data import audit
from data.audit import Level, Overlap, Unit, histogram, kinds_table, overlap_level, parts_table, split_table
from data.records import Passage, Question, QuestionSet
from data.split import Part, split
from tests.doubles import small_set


def test_a_histogram_by_hand() -> None:
    table = histogram(np.array([10, 11, 11, 14]))
    assert table.to_numpy().tolist() == [[10, 11, 1], [11, 12, 2], [12, 13, 0], [13, 14, 0], [14, 15, 1]]


def test_ranges_are_wide_enough_and_hold_every_value() -> None:
    values = np.random.default_rng(0).integers(3, 2950, 1000)
    table = histogram(values)
    assert len(table) <= 40
    assert set(table["to"] - table["from"]) == {100}
    assert table["count"].sum() == 1000
    for start, end, count in table.to_numpy():
        assert count == ((values >= start) & (values < end)).sum()


def test_shares_fall_into_ranges_of_a_twentieth() -> None:
    table = histogram(np.array([0.0, 0.049, 0.05, 1.0, np.nan]), 0.05)
    assert len(table) == 20
    assert table["count"].tolist() == [2, 1, *[0] * 16, 0, 1]
    assert math.isclose(table["to"].iloc[-1], 1.0)


@pytest.mark.parametrize("values", [[7], [7, 7], [0], [0.0]])
def test_equal_values_are_one_range(values: list[float]) -> None:
    assert histogram(np.array(values))["count"].tolist() == [len(values)]


def test_nothing_has_no_range() -> None:
    assert histogram(np.array([np.nan])).empty


def test_the_levels_of_word_overlap() -> None:
    unknown = float("nan")
    known = [(0.67, 0.0), (0.41, 0.0), (0.17, 0.0), (unknown, unknown), (0.65, 0.23), (0.93, 0.9), (0.67, unknown)]
    levels = [overlap_level(Overlap(Unit.PAIRS, np.array([]), *means)) for means in known]
    first, above_chance = levels[:4], levels[4:]
    assert first == [Level.HIGH, Level.MIDDLE, Level.LOW, Level.UNKNOWN]
    assert above_chance == [Level.MIDDLE, Level.LOW, Level.HIGH]  # (0.65 - 0.23) / (1 - 0.23) is 0.545


def test_kinds_with_their_own_overlap() -> None:
    passages = (Passage("p1", "한글을 만든 왕"),)
    questions = (
        Question("q1", "한글을 만든", (), ("p1",), "same"),
        Question("q2", "문자 제정", (), ("p1",), "other"),
        Question("q3", "한글을 제정", (), ("p1",), "same"),
        Question("q4", "답이 없는 질문", (), (), "none"),
        Question("q5", "유형이 없는 질문", (), ("p1",)),
    )
    question_set = QuestionSet("kinds", passages, questions)
    table = kinds_table(question_set, audit(question_set)).set_index("kind")
    # of q1 all of 한글, 글을, 만든; of q3 한글, 글을 but not 제정
    assert table.loc["same"].tolist() == [2, 0.4, pytest.approx((1 + 2 / 3) / 2)]
    assert table.loc["other"].tolist() == [1, 0.2, 0.0]
    assert math.isnan(table.loc["none", "overlap"])


def test_parts_of_a_split() -> None:
    question_set = small_set()
    found = split(question_set)
    table = parts_table(found)
    assert table["part"].tolist() == ["train", "validation", "test"]
    assert table["groups"].sum() == found.group_counts[Part.ALL]
    assert table["share"].sum() == pytest.approx(1)
    assert table["questions"].sum() == len(question_set.answerable)
    parts = split_table(question_set, found)
    assert parts["question_id"].tolist() == [question.id for question in question_set.questions]
    for part in (Part.TRAIN, Part.VALIDATION, Part.TEST):
        ids = [question.id for question in found.questions(question_set, part).questions]
        assert parts[parts["part"] == part.value]["question_id"].tolist() == ids
