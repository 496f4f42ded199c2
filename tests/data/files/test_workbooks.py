import re
from datetime import date

import pytest

from data.problems import DataError, ProblemCode
from data.read import Reading, read
from tests.data.sample_files import rezipped, workbook

SHEET = "xl/worksheets/sheet1.xml"
LINES = [
    [],
    ["질문", "지문", "번호"],
    ["수도는?", "서울", 1],
    [],
    ["#N/A", "부산", 2],
    ["강은?", "#REF!", 3],
    [date(2020, 1, 2), 12.5, 4.0],
]


def _read(content: bytes) -> Reading:
    return read(content, "set.xlsx")


def test_rows_are_sheet_rows() -> None:
    reading = _read(workbook(LINES))
    assert [(q.id, q.text) for q in reading.question_set.questions] == [("1", "수도는?"), ("4", "2020-01-02")]
    assert [passage.text for passage in reading.question_set.passages] == ["서울", "12.5"]
    assert [problem.message for problem in reading.problems] == [
        "Row 5: the cell 질문 holds the formula error #N/A where text was expected. Mend the formula or type the text.",
        "Row 6: the cell 지문 holds the formula error #REF! where text was expected. Mend the formula or type "
        "the text.",
    ]
    assert reading.rejected.to_dict("list") == {
        "row": [5, 6],
        "problem": [problem.message for problem in reading.problems],
        "질문": ["#N/A", "강은?"],
        "지문": ["부산", "#REF!"],
        "번호": ["2", "3"],
    }


def test_the_sheet_with_questions_is_found() -> None:
    reading = _read(workbook([["안내"], ["둘째 쪽을 보시오"]], [], [["question", "context"], ["a?", "b"]]))
    assert [question.text for question in reading.question_set.questions] == ["a?"]


def test_a_wrong_note_of_the_size_hides_nothing() -> None:
    content = rezipped(
        workbook(LINES), SHEET, lambda part: re.sub(rb"<dimension[^>]*>", b'<dimension ref="A1"/>', part)
    )
    assert len(_read(content).question_set.questions) == 2


def test_carriage_returns_are_unescaped() -> None:
    reading = _read(workbook([["question", "context"], ["a?", "b_x000D_\nc"]]))
    assert reading.question_set.passages[0].text == "b\r\nc"


def test_an_empty_workbook() -> None:
    with pytest.raises(DataError, match="The file is empty"):
        _read(workbook([]))


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b'<row r="7">', b'<row r="999999999999">', ProblemCode.TOO_LARGE),
        (b"<sheetData>", b"<sheetData><row", ProblemCode.BROKEN_WORKBOOK),
        (b'r="A3"', b'r="?"', ProblemCode.BROKEN_WORKBOOK),
        (b"<worksheet", b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///a">]>&a;<worksheet', ProblemCode.BROKEN_WORKBOOK),
    ],
)
def test_hostile_sheets_are_refused(old: bytes, new: bytes, code: ProblemCode) -> None:
    content = rezipped(workbook(LINES), SHEET, lambda part: part.replace(old, new, 1))
    with pytest.raises(DataError) as caught:
        _read(content)
    assert caught.value.problem.code is code


def test_two_cells_at_opposite_corners_take_no_memory() -> None:
    corner = b'<row r="1048576"><c r="XFD1048576" t="n"><v>1</v></c></row></sheetData>'
    content = rezipped(workbook(LINES), SHEET, lambda part: part.replace(b"</sheetData>", corner))
    assert len(_read(content).question_set.questions) == 2


@pytest.mark.parametrize("size", [4, 100, 1000, -10])
def test_a_workbook_cut_short(size: int) -> None:
    with pytest.raises(DataError, match=r"The Excel workbook cannot be read \(.*save it again as .xlsx or CSV"):
        _read(workbook(LINES)[:size])
