"""Tests of column names, headers below titles, cells as text, and invalid cells."""

import json
from datetime import date, datetime
from xml.parsers import expat

import numpy as np
import pandas as pd
import pytest

from mrc_workbench.data.formats import columns, tables
from mrc_workbench.data.formats.columns import PAIR_NAMES, PairColumns, find_header, is_known
from mrc_workbench.data.formats.tables import MAX_ANSWERS, MAX_CHARACTERS, CellError
from mrc_workbench.data.pairs.store import assign_pair_columns
from mrc_workbench.data.problems import ProblemCode
from mrc_workbench.data.questions.read import QuestionSetReading, read
from tests.data.sample_files import questions_with_passages, rezipped, workbook

HEADER = ["질문", "지문", "정답"]
ROWS = [["강은?", "한강이 흐른다.", "한강"], ["산은?", "북한산이 있다.", "북한산"]]
UNKNOWN = ["묻는 말", "근거가 되는 글", "맞는 말"]


@pytest.mark.parametrize(
    ("records", "position"),
    [
        ([HEADER, *ROWS], 0),
        ([["2024년 목록"], HEADER, *ROWS], 1),
        ([["2024년 목록", "", ""], HEADER, *ROWS], 1),
        ([["목록"], ["작성일: 2024-01-02", "작성자: 김"], HEADER, *ROWS], 2),
        ([["기관", "서울"], HEADER, *ROWS], 1),
        ([["목록"], UNKNOWN, *ROWS], 1),
        ([["질문 목록"], ["질문", "지문"], ["강은?", "한강"]], 1),
        ([["", "질문", "지문"], ["1", "강은?", "한강"], ["2", "질문", "지문"]], 0),  # a row that repeats the header
        ([["", "text", "text", "", "text"], ["1", "2", "3", "4", "5"]], 0),
        ([["지문"], ["한강이 흐른다."], ["산, 들"]], 0),
        ([["a", "b"], ["1", "2"]], 0),
        ([["a"], ["1", "2"], ["3", "4"]], 0),  # numbers name no columns
        ([], 0),
    ],
)
def test_finds_the_header(records: list[list[str]], position: int) -> None:
    assert find_header(records, is_known) == position


def as_csv_lines(rows: list[list[str]]) -> bytes:
    return "\n".join(",".join(row) for row in rows).encode()


EXPECTED = [("q1", "강은?", ("한강",), "한강이 흐른다.", ""), ("q2", "산은?", ("북한산",), "북한산이 있다.", "")]
TITLES = [["2024년 목록"], [], ["담당: 김"]]


@pytest.mark.parametrize("write", [as_csv_lines, workbook])
@pytest.mark.parametrize("titles", [TITLES, [["2024년 목록", "", ""], ["", "", ""], ["담당: 김", "", ""]]])
def test_reports_title_lines_and_does_not_read_them(write: object, titles: list[list[str]]) -> None:
    reading = read(write([*titles, HEADER, *ROWS]), "표")
    assert questions_with_passages(reading.question_set) == EXPECTED
    (problem,) = reading.problems
    assert (problem.code, problem.row) == (ProblemCode.TITLE_LINES, None)
    assert problem.details == {"count": 2, "words": "2024년 목록; 담당: 김"}
    assert reading.row_count == 2


@pytest.mark.parametrize("write", [as_csv_lines, workbook])
@pytest.mark.parametrize(
    "notes", [[["※ 출처: 시청", "", ""]], [["", "", ""], ["이 표는 해마다 새로 씁니다", "", ""], ["문의: 02", "", ""]]]
)
def test_rejects_and_lists_notes_below_the_table(write: object, notes: list[list[str]]) -> None:
    table = [["지문", "제목", "쪽"], ["한강이 흐른다.", "강", "1"], ["북한산이 있다.", "산", "2"]]
    reading = read(write([*table, *notes]), "표")
    assert list(reading.question_set.passages.texts) == ["한강이 흐른다.", "북한산이 있다."]
    assert [problem.code for problem in reading.problems] == [ProblemCode.NOTE_ROW] * sum(map(any, notes))
    assert list(reading.rejected["지문"]) == [note[0] for note in notes if note[0]]


@pytest.mark.parametrize("write", [as_csv_lines, workbook])
def test_single_cell_rows_inside_the_table_are_not_notes(write: object) -> None:
    rows = [["지문", "제목"], ["한강이 흐른다.", ""], ["북한산이 있다.", "산"], ["", ""], ["※ 표가 있는 글이다.", ""]]
    assert len(read(write(rows), "표").question_set.passages) == 3
    rows = [["지문", "제목"], ["북한산이 있다.", "산"], ["※ 표가 있는 글이다.", ""], ["한강이 흐른다.", "강"]]
    assert len(read(write(rows), "표").question_set.passages) == 3


@pytest.mark.parametrize("write", [as_csv_lines, workbook])
def test_rejects_repeated_header_row(write: object) -> None:
    header = ["질문", "지문"]
    rows = [header, ["question", "context"], ["강은?", "한강이 흐른다."], header, ["산은?", "북한산이 있다."]]
    reading = read(write(rows), "표")
    assert [question.text for question in reading.question_set.questions] == ["강은?", "산은?"]
    repeated = [(problem.code, problem.row) for problem in reading.problems]
    assert repeated == [(ProblemCode.REPEATED_HEADER, 2), (ProblemCode.REPEATED_HEADER, 4)]


def test_column_name_in_a_later_row_is_data() -> None:
    reading = read("질문,지문\n강은?,한강이 흐른다.\n질문,지문에 대한 물음이다.\n".encode(), "표.csv")
    assert [question.text for question in reading.question_set.questions] == ["강은?", "질문"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("  가 나\n", "가 나"),
        (None, ""),
        (float("nan"), ""),
        (pd.NaT, ""),
        (3, "3"),
        (3.0, "3"),
        (3.25, "3.25"),
        (float("inf"), "inf"),
        (np.float64(2.0), "2"),
        (np.int64(7), "7"),
        (True, "True"),
        (b"\xea\xb0\x80\xff", "가�"),
        (datetime(2020, 1, 2), "2020-01-02"),
        (datetime(2020, 1, 2, 3, 4), "2020-01-02T03:04:00"),
        (date(2020, 1, 2), "2020-01-02"),
        (CellError("#N/A"), "#N/A"),
    ],
)
def test_converts_cells_to_text(value: object, expected: str) -> None:
    assert tables.as_text(value) == expected


def test_displays_any_value() -> None:
    deep: list[object] = []
    for _ in range(200_000):  # deeper than any version of Python writes as JSON
        deep = [deep]
    assert tables.display_text(deep) == "a list"
    assert tables.display_text(np.array(["가"], dtype=object)) == '["가"]'
    assert tables.display_text({"가": "\ud800"}) == '{"가": "�"}'
    assert tables.display_text("가나다라", 3) == "가나…"


def test_replaces_characters_that_xml_forbids() -> None:
    """Compare with an XML parser."""
    assert tables.mend_text("가\ud800나\x00😀") == "가�나�😀"
    of_slides = "첫째\x0b둘째\x0c셋째\x1b[31m\uffff"
    assert tables.mend_text(of_slides) == "첫째\n둘째\n셋째�[31m�", "line breaks stay"
    for number in [*range(0x300), 0xD7FF, 0xE000, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000, 0x10FFFF]:
        try:
            expat.ParserCreate().Parse(f"<a>{chr(number)}</a>" if chr(number) not in "<&" else "<a/>", True)
            passes = True
        except expat.ExpatError:
            passes = False
        # expat takes the two last of a plane, which the standard does not
        assert tables.is_valid_xml(chr(number)) is (passes and number not in (0xFFFE, 0xFFFF)), hex(number)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ("genre", "filename", "year", "id", "score", "sentence1", "sentence2"),
            PairColumns("sentence1", "sentence2", score="score"),
        ),
        (("sentence1", "sentence2", "gold_label"), PairColumns("sentence1", "sentence2", label="gold_label")),
        (
            ("guid", "source", "premise", "hypothesis", "gold_label", "author", "label2"),
            PairColumns("premise", "hypothesis", label="gold_label"),
        ),
        (
            ("sentence1", "sentence2", "labels.label", "labels.real-label", "labels.binary-label"),
            PairColumns("sentence1", "sentence2", label="labels.label"),
        ),
        (("문장1", "문장 2", "유사도 점수", "구분"), PairColumns("문장1", "문장 2", score="유사도 점수", part="구분")),
        (("전제", "가설", "레이블"), PairColumns("전제", "가설", label="레이블")),
        (("anchor", "positive", "negative"), PairColumns("anchor", "positive", "negative")),
        (("en", "ko"), PairColumns("ko", "en")),
        (("translation.ko", "translation.en"), PairColumns("translation.ko", "translation.en")),
        (("question1", "question2", "is_duplicate"), PairColumns("question1", "question2", score="is_duplicate")),
        (("번호", "문장"), PairColumns("문장")),
        (("문장1", "문장2"), PairColumns("문장1", "문장2")),
        (("가", "나"), PairColumns()),
    ],
)
def test_recognises_pair_columns_by_name(names: tuple[str, ...], expected: PairColumns) -> None:
    assert assign_pair_columns(names) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (  # a column that is filled wins
            [{"score": None, "similarity": "3", "sentence1": "가", "sentence2": "나"}],
            PairColumns("sentence1", "sentence2", score="similarity"),
        ),
        (  # columns of several words are sentences if no name tells
            [{"no": str(row), "가": f"첫 문장 {row}", "나": f"다른 문장 {row}", "다": "4"} for row in range(5)],
            PairColumns("가", "나"),
        ),
        ([dict.fromkeys("가나다라", "여러 낱말")], PairColumns()),  # more of them than sentences are not guessed
    ],
)
def test_recognises_pair_columns_by_cells(rows: list[dict[str, str | None]], expected: PairColumns) -> None:
    assert assign_pair_columns(tuple(rows[0]), rows) == expected


def test_sentences_stop_at_the_first_missing_column() -> None:
    assert PairColumns("가", "나", "다").sentences == ("가", "나", "다")
    assert PairColumns("가", None, "다").sentences == ("가",)
    assert PairColumns(None, "나").sentences == ()


def test_each_column_name_has_a_single_role() -> None:
    names = [name for known in PAIR_NAMES.values() for name in known]
    assert len(names) == len(set(names))
    assert columns.is_pair_column("Sentence 1")
    assert not columns.is_pair_column("문단")
    assert columns.example_names(PAIR_NAMES["sentence3"]) == "문장3, 셋째문장, 부정, sentence3, sent3, text3"


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("서울", ("서울",)),
        (" 서울 ", ("서울",)),
        ("[1] 항목", ("[1] 항목",)),
        ("", ()),
        (None, ()),
        (float("nan"), ()),
        (1989, ("1989",)),
        (1989.0, ("1989",)),
        (["서울", "서울", "", "한양"], ("서울", "한양")),
        ('["서울", "한양"]', ("서울", "한양")),
        ("['서울', '한양']", ("서울", "한양")),
        ("['서울' '한양']", ("서울", "한양")),
        ({"text": ["서울"], "answer_start": [3]}, ("서울",)),
        ({"text": [], "answer_start": []}, ()),
        ([{"text": "서울", "answer_start": 3}, {"text": "한양"}], ("서울", "한양")),
        ({"text": np.array(["서울"], dtype=object), "answer_start": np.array([3])}, ("서울",)),
        (np.array(["서울", "한양"], dtype=object), ("서울", "한양")),
        ("{'text': array(['서울', '한양'], dtype=object), 'answer_start': array([1, 2])}", ("서울", "한양")),
        ("{'text': ['It\\'s'], 'answer_start': [1]}", ("It's",)),
        ("{'answer_start': [1]}", ()),
        ("[" * 5000, ("[" * 5000,)),
        ("[" * 20 + "'가'" + "]" * 20, ()),
    ],
)
def test_parses_every_answer_format(cell: object, expected: tuple[str, ...]) -> None:
    assert tuple(tables.answers_in(cell)) == expected


@pytest.mark.parametrize(
    ("cell", "starts"),
    [
        ("서울", [-1]),
        ({"text": ["서울", "한양"], "answer_start": [3, 0]}, [3, 0]),
        ({"text": ["서울", "한양"], "answer_start": [3]}, [-1, -1]),
        ({"text": "서울", "answer_start": 7}, [7]),
        ([{"text": "서울", "answer_start": "3"}, {"text": "한양"}, {"text": "서울", "answer_start": 9}], [3, -1]),
        ([{"text": "서울"}, {"text": "서울", "answer_start": 9}], [9]),
        ({"text": np.array(["서울"], dtype=object), "answer_start": np.array([3])}, [3]),
        ('{"text": ["서울"], "answer_start": [3]}', [3]),
        ({"text": ["가", "나", "다", "라"], "answer_start": [-4, "x", None, True]}, [-1, -1, -1, -1]),
    ],
)
def test_reads_answer_starts(cell: object, starts: list[int]) -> None:
    assert [*tables.answers_in(cell).values()] == starts


GOOD = {"question": "수도는?", "context": "서울은 수도이다."}


def _read(**cells: object) -> QuestionSetReading:
    return read(json.dumps([GOOD, {"question": "강은?", "context": "한강", **cells}]).encode(), "set")


@pytest.mark.parametrize("role", ["question", "context"])
def test_rejects_row_with_too_long_text(role: str) -> None:
    reading = _read(**{role: "가" * (MAX_CHARACTERS + 1)})
    (problem,) = reading.problems
    assert (problem.code, problem.row) == (ProblemCode.TOO_LONG, 2)
    sentence = f"Row 2: the column {role} contains 1,000,001 characters; a text may have 1,000,000."
    assert problem.message == f"{sentence} Split it into several rows."
    assert len(reading.rejected[role][0]) == 10_000
    assert not _read(**{role: "가" * MAX_CHARACTERS}).problems


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"title": ["서울"]}, "a list"),
        ({"title": "가" * (MAX_CHARACTERS + 1)}, "too long a text"),
        ({"answers": [str(number) for number in range(MAX_ANSWERS + 1)]}, "too many answers"),
        ({"answers": "가" * (MAX_CHARACTERS + 1)}, "too long a text"),
    ],
)
def test_reports_dropped_optional_cells(cells: dict[str, object], expected: str) -> None:
    reading = _read(**cells)
    (problem,) = reading.problems
    assert (problem.code, problem.row, problem.details["found"]) == (ProblemCode.DROPPED_CELL, 2, expected)
    assert reading.question_set.questions[1].answers == ()
    assert reading.question_set.passages[1].title == ""
    assert (reading.left_out, len(reading.question_set.questions)) == (0, 2)


def test_reports_formula_errors_and_reads_them_as_empty() -> None:
    content = workbook([["question", "context", "answers"], ["a?", "b", "#N/A"], ["c?", "d", "#DIV/0!"]])

    def as_text(part: bytes) -> bytes:
        return part.replace(b't="e"><v>#N/A</v>', b't="str"><v>#N/A</v>')

    reading = read(rezipped(content, "xl/worksheets/sheet1.xml", tables.as_text), "set")
    assert [question.answers for question in reading.question_set.questions] == [(), ()]
    error, mark = reading.problems
    assert (mark.code, mark.details["marks"]) == (ProblemCode.BLANK_MARKS, "#N/A")
    sentence = "Row 3: the column answers contains the formula error #DIV/0!; it was read as empty."
    assert error.message == f"{sentence} Type the text there if you need it."


ROW = "질문,지문,제목,정답\n강은?,한강이 흐른다.,서울,한강\n"


@pytest.mark.parametrize("mark", ["NaN", "N/A", "null", "None", "-", "없음"])
def test_counts_missing_marks_in_optional_columns(mark: str) -> None:
    reading = read(f"{ROW}산은?,북한산이 있다.,{mark},{mark}\n".encode(), "표.csv")
    assert list(reading.question_set.passages.titles) == ["서울", ""]
    assert [question.answers for question in reading.question_set.questions] == [("한강",), ()]
    details = [problem.details for problem in reading.problems if problem.code is ProblemCode.BLANK_MARKS]
    assert sorted(details, key=str) == [{"column": column, "marks": mark, "count": 1} for column in ("정답", "제목")]
    assert reading.left_out == 0


def test_rejects_passage_of_a_missing_mark_only() -> None:
    reading = read(f"{ROW}산은?,NaN,산,\n-,-,-,-\n들은?,없음,들,\n".encode(), "표.csv")
    assert [question.text for question in reading.question_set.questions] == ["강은?", "들은?"]
    assert [problem.row for problem in reading.problems if problem.code is ProblemCode.EMPTY_CONTEXT] == [3, 4]
