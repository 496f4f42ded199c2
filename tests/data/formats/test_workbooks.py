"""Tests of workbooks: the sheet with the table, merged cells, older formats."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from mrc_workbench.data.formats.opening import Format
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.formats.workbooks import Merge, open_workbook
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import WORK, File, QuestionSetReading, read
from tests.data.sample_files import questions_with_passages
from tests.doubles import raises_failure

HEADER = ["번호", "질문", "지문", "제목"]
ROWS = [[1, "강은?", "한강이 흐른다.", "서울"], [2, "길이는?", None, None], [3, "산은?", "금정산이 있다.", "부산"]]
# a sheet 표지 with one cell, and a sheet 자료 with a title, a header in row 4, and a passage merged over two rows
XLS = Path(__file__).with_name("old.xls").read_bytes()


def book(change: Callable[[Any], None], rows: list[list[Any]] | None = None) -> bytes:
    """Return a workbook of one sheet, changed before it is written."""
    workbook = openpyxl.Workbook()
    for row in rows or [HEADER, *ROWS]:
        workbook.active.append(row)
    change(workbook)
    out = io.BytesIO()
    workbook.save(out)
    return out.getvalue()


def ods(*rows: str, merged: str = "") -> bytes:
    cells = "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)
    namespace = 'xmlns:{0}="urn:oasis:names:tc:opendocument:xmlns:{0}:1.0"'
    names = " ".join(map(namespace.format, ("office", "table", "text")))
    content = (
        f'<?xml version="1.0"?><office:document-content {names}><office:body><office:spreadsheet>'
        f'<table:table table:name="자료">{cells}</table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    manifest = '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
    parts = {"mimetype": kind, "content.xml": content, "META-INF/manifest.xml": manifest}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:  # the first part is not compressed
        for name, part in parts.items():
            archive.writestr(name, part)
    return out.getvalue()


def cell(text: str) -> str:
    return f'<table:table-cell office:value-type="string"><text:p>{text}</text:p></table:table-cell>'


def texts_and_titles(reading: QuestionSetReading) -> list[tuple[object, ...]]:
    rows = questions_with_passages(reading.question_set)
    return [(question, passage, title) for _, question, _, passage, title in rows]


def codes(reading: QuestionSetReading) -> list[ProblemCode]:
    return [problem.code for problem in reading.problems]


def test_merged_cells_fill_all_their_rows() -> None:
    def merge(workbook: Any) -> None:
        workbook.active.merge_cells("C2:C3")
        workbook.active.merge_cells("D2:D3")

    reading = read(book(merge), "표.xlsx")
    *rivers, mountain = texts_and_titles(reading)
    assert rivers == [("강은?", "한강이 흐른다.", "서울"), ("길이는?", "한강이 흐른다.", "서울")]
    assert mountain == ("산은?", "금정산이 있다.", "부산")
    (problem,) = reading.problems
    assert (problem.code, problem.details) == (ProblemCode.MERGED_CELLS, {"columns": "지문, 제목", "count": 2})


@pytest.mark.parametrize(
    ("merged", "rows", "questions"),
    [
        ("A2:A3", [ROWS[0], [None, "길이는?", "한강은 길다.", "서울"]], ["강은?", "길이는?"]),  # an id is not copied
        ("C2:C4", [ROWS[0], [None] * 4, [None] * 4, ROWS[2]], ["강은?", "산은?"]),  # blank rows stay blank
    ],
)
def test_does_not_fill_merged_ids_and_blank_rows(merged: str, rows: list[list[Any]], questions: list[str]) -> None:
    reading = read(book(lambda workbook: workbook.active.merge_cells(merged), [HEADER, *rows]), "표.xlsx")
    assert [text for text, _, _ in texts_and_titles(reading)] == questions
    assert reading.left_out == 0


def test_joins_header_of_two_rows() -> None:
    rows = [["질문", "지문", None, "비고"], [None, "본문", "제목", None], ["강은?", "한강이 흐른다.", "서울", "x"]]

    def merge(workbook: Any) -> None:
        for name in ("A1:A2", "B1:C1", "D1:D2"):
            workbook.active.merge_cells(name)

    assert open_workbook(book(merge, rows)).names == ("질문", "지문 본문", "지문 제목", "비고")


def test_finds_merged_ranges_of_the_sheet() -> None:
    opened = open_workbook(book(lambda workbook: workbook.active.merge_cells("C2:C3")))
    texts = [list(row.cells.values())[2] for row in opened.table().rows]
    assert texts == ["한강이 흐른다.", "한강이 흐른다.", "금정산이 있다."]
    assert Merge(2, 3, 3, 3) < Merge(2, 4, 3, 4)


def test_reads_sheet_with_the_table_and_names_the_others() -> None:
    def add(workbook: Any) -> None:
        cover = workbook.create_sheet("표지", 0)
        cover.append(["질문과 지문 모음"])
        workbook.create_sheet("빈 시트")
        old = workbook.create_sheet("옛 자료")
        old.append(HEADER)
        old.append([9, "들은?", "들이 넓다.", "김제"])
        old.sheet_state = "hidden"

    reading = read(book(add), "표.xlsx")
    assert len(reading.question_set.questions) == 2  # the passage of the second row is missing
    problem = next(other for other in reading.problems if other.code is ProblemCode.OTHER_SHEETS)
    assert problem.details == {"name": "Sheet", "others": "표지, 옛 자료 (hidden)"}


def test_reads_hidden_sheet_if_no_visible_sheet_has_a_table() -> None:
    def add(workbook: Any) -> None:
        workbook.create_sheet("안내").append(["자료는 숨긴 시트에 있습니다"])
        workbook.active = 1
        workbook.worksheets[0].sheet_state = "hidden"

    reading = read(book(add, [HEADER, ROWS[0], ROWS[2]]), "표.xlsx")
    assert [text for text, _, _ in texts_and_titles(reading)] == ["강은?", "산은?"]
    assert codes(reading) == [ProblemCode.OTHER_SHEETS]


def test_question_merged_over_its_passages_is_a_single_question() -> None:
    rows = [["질문", "지문"], ["강은?", "한강이 흐른다."], [None, "낙동강이 흐른다."], ["산은?", "금정산이 있다."]]
    reading = read(book(lambda workbook: workbook.active.merge_cells("A2:A3"), rows), "표.xlsx")
    assert [len(question.relevant) for question in reading.question_set.questions] == [2, 1]


Sheets = dict[str, list[list[Any]]]


def sheets(content: Sheets) -> bytes:
    def write(workbook: Any) -> None:
        workbook.remove(workbook.active)
        for name, rows in content.items():
            sheet = workbook.create_sheet(name)
            for row in rows:
                sheet.append(row)

    return book(write)


RIVER = ["강은?", "한강이 흐른다."]
MOUNTAIN = ["산은?", "금정산이 있다."]
GUIDE = [["항목", "내용"], ["질문", "묻는 말을 적습니다."]]
COUNTS = [["분류", "질문 수"], ["강", 1]]


def test_reads_sheets_of_the_same_layout_and_names_the_others() -> None:
    seoul = [["서울 자료"], ["질문", "지문"], RIVER]
    busan = [["질문", "지문", "비고"], [*MOUNTAIN, "확인"]]
    content = {"안내": GUIDE, "서울": seoul, "부산": busan, "통계": COUNTS}
    reading = read(sheets(content), "자료.xlsx")
    assert texts_and_titles(reading) == [(*RIVER, ""), (*MOUNTAIN, "")]
    assert [file.name for file in reading.files] == ["자료.xlsx/서울", "자료.xlsx/부산"]
    problem = next(other for other in reading.problems if other.code is ProblemCode.OTHER_SHEETS)
    assert problem.details["others"] == "안내, 통계"
    assert reading.question_set.name == "자료"


def test_joins_document_sheet_to_the_questions() -> None:
    content: Sheets = {
        "질문": [["질문", "문서번호"], ["강은?", "D1"], ["산은?", "D2"]],
        "문서": [["문서번호", "내용"], ["D1", RIVER[1]], ["D2", MOUNTAIN[1]], ["D3", "들이 넓다."]],
    }
    reading = read(sheets(content), "자료.xlsx")
    assert texts_and_titles(reading) == [(*RIVER, ""), (*MOUNTAIN, "")]
    assert len(reading.question_set.passages) == 3


def test_sheet_names_define_the_split() -> None:
    content = {"train": [["question", "context"], RIVER], "test": [["question", "context"], MOUNTAIN]}
    reading = read(sheets(content), "set.xlsx")
    parts = {question.text: question.part for question in reading.question_set.questions}
    assert parts == {"강은?": "train", "산은?": "test"}


def test_applies_selected_columns_to_every_sheet() -> None:
    content = {"서울": [["질문", "답변"], RIVER], "부산": [["질문", "답변"], MOUNTAIN]}
    with raises_failure(ProblemCode.ANSWERS_ALONE):
        read(sheets(content), "자료.xlsx")
    reading = WORK.read([File(Content(sheets(content)), "자료.xlsx")], {"context": "답변"})
    assert texts_and_titles(reading) == [(*RIVER, ""), (*MOUNTAIN, "")]


def test_reads_xls_and_ods() -> None:
    reading = read(XLS, "자료.xls")
    assert reading.format is Format.EXCEL
    assert texts_and_titles(reading) == [("강은?", "한강은 길다", ""), ("길이는?", "한강은 길다", "")]
    assert [question.id for question in reading.question_set.questions] == ["1", "2"]
    assert codes(reading) == [ProblemCode.TITLE_LINES, ProblemCode.MERGED_CELLS, ProblemCode.OTHER_SHEETS]
    rows = ["".join(map(cell, row)) for row in (["질문", "지문"], ["강은?", "한강이 흐른다."])]
    assert texts_and_titles(read(ods(*rows), "자료.ods")) == [("강은?", "한강이 흐른다.", "")]


@pytest.mark.slow
@pytest.mark.parametrize("content", [XLS, ods(cell("질문") + cell("지문"), cell("강은?") + cell("한강"))])
def test_rejects_broken_spreadsheets(content: bytes) -> None:
    messages = []
    for position in range(0, len(content), max(1, len(content) // 40)):
        for broken in (content[:position], content[:position] + b"\xff\x00\xfe" + content[position + 3 :]):
            try:
                read(broken, "자료.xls")
            except DataError as error:
                messages.append(str(error))
    assert messages
    assert all(messages)
