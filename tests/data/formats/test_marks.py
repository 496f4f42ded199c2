"""Cells that say that they are empty: NaN, N/A and others."""

import pytest

from mrc_workbench.data.problems import ProblemCode
from mrc_workbench.data.questions.read import read

ROW = "질문,지문,제목,정답\n강은?,한강이 흐른다.,서울,한강\n"


@pytest.mark.parametrize("mark", ["NaN", "N/A", "null", "None", "-", "없음"])
def test_marks_in_optional_columns_are_empty_and_counted(mark: str) -> None:
    reading = read(f"{ROW}산은?,북한산이 있다.,{mark},{mark}\n".encode(), "표.csv")
    assert list(reading.question_set.passages.titles) == ["서울", ""]
    assert [question.answers for question in reading.question_set.questions] == [("한강",), ()]
    told = [one.details for one in reading.problems if one.code is ProblemCode.BLANK_MARKS]
    assert sorted(told, key=str) == [{"column": column, "marks": mark, "count": 1} for column in ("정답", "제목")]
    assert reading.left_out == 0


def test_a_passage_of_a_mark_is_left_out_and_one_that_may_be_text_is_kept() -> None:
    reading = read(f"{ROW}산은?,NaN,산,\n-,-,-,-\n들은?,없음,들,\n".encode(), "표.csv")
    assert [question.text for question in reading.question_set.questions] == ["강은?", "들은?"]
    assert [one.row for one in reading.problems if one.code is ProblemCode.EMPTY_CONTEXT] == [3, 4]
