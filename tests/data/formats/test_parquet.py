import io
import re
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mrc_workbench.data.formats import columnar
from mrc_workbench.data.formats.columnar import parquet_table
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import Reading, read
from tests.data.sample_files import ROWS, as_parquet, rezipped, workbook


def _read_parquet(columns: dict[str, object], **options: object) -> Reading:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, **options)
    return read(out.getvalue(), "set.parquet")


def test_squad_rows_as_the_hub_keeps_them() -> None:
    answers = [{"text": ["서울", "한양"], "answer_start": [1, 2]}, {"text": [], "answer_start": []}, None]
    reading = _read_parquet({"question": ["가?", "나?", "다?"], "context": ["x", "x", "y"], "answers": answers})
    assert [(q.text, q.answers, q.relevant) for q in reading.question_set.questions] == [
        ("가?", ("서울", "한양"), ("p1",)),
        ("나?", (), ("p1",)),
        ("다?", (), ("p2",)),
    ]


def test_is_impossible_makes_a_question_unanswerable() -> None:
    reading = _read_parquet({"question": ["가?", "나?"], "context": ["x", "y"], "is_impossible": [False, True]})
    assert [question.relevant for question in reading.question_set.questions] == [("p1",), ()]


def test_other_types_become_text() -> None:
    reading = _read_parquet({"id": [1.0, 2.0], "question": ["가?", None], "context": [b"\xea\xb0\x80", b"x"]})
    assert [(q.id, q.text) for q in reading.question_set.questions] == [("1", "가?")]
    assert [passage.text for passage in reading.question_set.passages] == ["가", "x"]
    assert [(problem.row, problem.code) for problem in reading.problems] == [(None, ProblemCode.NO_QUESTION_IN_ROW)]


def test_texts_that_are_no_utf8_are_mended() -> None:
    broken = pa.array([b"\xea\xb0?", b"x?"]).view(pa.string())
    reading = _read_parquet({"question": broken, "context": ["가", "나"]})
    assert [question.text for question in reading.question_set.questions] == ["�?", "x?"]


def test_a_small_file_of_one_long_text_many_times_is_refused() -> None:
    places = pa.array(np.zeros(100_000, dtype=np.int32))
    column = pa.DictionaryArray.from_arrays(places, pa.array(["x" * 50_000]))
    with pytest.raises(DataError, match=r"claims [\d,]+ unpacked bytes; at most 2,147,483,648 are read"):
        _read_parquet({"question": column, "context": column}, store_schema=False)


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "MAX_VALUES", 1_000_000)
    nothing = pa.nulls(1_000_001)
    column = pa.ListArray.from_arrays(pa.array([0, len(nothing)], pa.int32()), nothing)
    with pytest.raises(DataError, match=r"claims 1,000,003 values; at most 1,000,000 are read"):
        _read_parquet({"question": ["a?"], "context": ["b"], "more": column})


@pytest.mark.parametrize("size", [4, 8, 100, -4, -100])
def test_a_file_cut_short(size: int) -> None:
    with pytest.raises(DataError, match=r"The Parquet file cannot be read \(.*get it or write it again"):
        read(as_parquet(ROWS)[:size], "set.parquet")


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


def _read_workbook(content: bytes) -> Reading:
    return read(content, "set.xlsx")


def test_rows_are_sheet_rows() -> None:
    reading = _read_workbook(workbook(LINES))
    assert [(q.id, q.text) for q in reading.question_set.questions] == [("1", "수도는?"), ("4", "2020-01-02")]
    assert [passage.text for passage in reading.question_set.passages] == ["서울", "12.5"]
    assert [problem.message for problem in reading.problems] == [
        "Row 5: the cell 질문 contains the formula error #N/A instead of text. Correct the formula or type the text.",
        "Row 6: the cell 지문 contains the formula error #REF! instead of text. Correct the formula or type the text.",
    ]
    assert reading.rejected.to_dict("list") == {
        "row": [5, 6],
        "problem": [problem.message for problem in reading.problems],
        "질문": ["#N/A", "강은?"],
        "지문": ["부산", "#REF!"],
        "번호": ["2", "3"],
    }


def test_the_sheet_with_questions_is_found() -> None:
    reading = _read_workbook(workbook([["안내"], ["둘째 쪽을 보시오"]], [], [["question", "context"], ["a?", "b"]]))
    assert [question.text for question in reading.question_set.questions] == ["a?"]


def test_a_wrong_note_of_the_size_hides_nothing() -> None:
    content = rezipped(
        workbook(LINES), SHEET, lambda part: re.sub(rb"<dimension[^>]*>", b'<dimension ref="A1"/>', part)
    )
    assert len(_read_workbook(content).question_set.questions) == 2


def test_carriage_returns_are_unescaped() -> None:
    reading = _read_workbook(workbook([["question", "context"], ["a?", "b_x000D_\nc"]]))
    assert reading.question_set.passages[0].text == "b\r\nc"


def test_an_empty_workbook() -> None:
    with pytest.raises(DataError, match="The file is empty"):
        _read_workbook(workbook([]))


@pytest.mark.slow
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
        _read_workbook(content)
    assert caught.value.problem.code is code


@pytest.mark.slow
def test_two_cells_at_opposite_corners_take_no_memory() -> None:
    corner = b'<row r="1048576"><c r="XFD1048576" t="n"><v>1</v></c></row></sheetData>'
    content = rezipped(workbook(LINES), SHEET, lambda part: part.replace(b"</sheetData>", corner))
    assert len(_read_workbook(content).question_set.questions) == 2


@pytest.mark.parametrize("size", [4, 100, 1000, -10])
def test_a_workbook_cut_short(size: int) -> None:
    with pytest.raises(DataError, match=r"The Excel workbook cannot be read \(.*save it again as .xlsx or CSV"):
        _read_workbook(workbook(LINES)[:size])


ODD_COLUMNS = {
    "date": pa.array([2147483647, 1], pa.int32()).cast(pa.date32()),
    "timestamp": pa.array([9223372036854775000, 1], pa.int64()).cast(pa.timestamp("us")),
    "duration": pa.array([9223372036854775807, 1], pa.int64()).cast(pa.duration("s")),
    "zone": pa.array([1, 2], pa.int64()).cast(pa.timestamp("us", "Nowhere/City")),
    "dates": pa.array([[2147483647], [1]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
    "struct": pa.StructArray.from_arrays([pa.array([2147483647, 1], pa.int32()).cast(pa.date32())], ["day"]),
}


def parquet_with(**columns: pa.Array) -> bytes:
    out = io.BytesIO()
    held = {"question": ["누가?", "무엇?"], "context": ["가나다 라마바", "나다라 마바사"]}
    pq.write_table(pa.table({**held, **columns}), out)
    return out.getvalue()


@pytest.mark.parametrize("name", ODD_COLUMNS)
def test_an_odd_value_in_an_unused_column_refuses_nothing(name: str) -> None:
    reading = read(parquet_with(**{name: ODD_COLUMNS[name]}), "odd.parquet")
    assert [question.text for question in reading.question_set.questions] == ["누가?", "무엇?"]
    assert reading.problems == ()
    assert name in reading.first_rows[0]


def test_columns_that_no_reader_uses_are_not_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    converted = []
    values = columnar._values

    def counted(column: pa.Array) -> list[object]:
        converted.append(column.type)
        return values(column)

    monkeypatch.setattr(columnar, "_values", counted)
    rows = list(parquet_table(Content(parquet_with(vector=pa.array([[1.0, 2.0]] * 2)))).rows)
    assert [row.cells.get("question") for row in rows] == ["누가?", "무엇?"]
    assert converted == [pa.string()]
    assert rows[0].cells.get("missing") is None
    assert dict(rows[0].cells) == {"question": "누가?", "context": "가나다 라마바", "vector": [1.0, 2.0]}


def test_an_odd_date_in_a_used_column_is_read_as_text() -> None:
    reading = read(parquet_with(id=ODD_COLUMNS["date"]), "odd.parquet")
    assert reading.question_set.questions[1].id == "1970-01-02"
    assert reading.question_set.questions[0].id
