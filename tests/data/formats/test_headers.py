"""Lines of title above a table's header, and notes below the table."""

import pytest

from mrc_workbench.data.formats.columns import find_header, is_known
from mrc_workbench.data.problems import ProblemCode
from mrc_workbench.data.questions.read import Reading, read
from tests.data.sample_files import workbook

HEADER, ROWS = ["질문", "지문", "정답"], [["강은?", "한강이 흐른다.", "한강"], ["산은?", "북한산이 있다.", "북한산"]]
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


def _questions(reading: Reading) -> list[tuple[str, str, tuple[str, ...]]]:
    texts = {passage.id: passage.text for passage in reading.question_set.passages}
    return [(one.text, texts[one.relevant[0]], one.answers) for one in reading.question_set.questions]


EXPECTED = [("강은?", "한강이 흐른다.", ("한강",)), ("산은?", "북한산이 있다.", ("북한산",))]
TITLES = [["2024년 목록"], [], ["담당: 김"]]


@pytest.mark.parametrize("write", [as_csv_lines, workbook])
@pytest.mark.parametrize("titles", [TITLES, [["2024년 목록", "", ""], ["", "", ""], ["담당: 김", "", ""]]])
def test_titles_are_reported_and_no_row(write: object, titles: list[list[str]]) -> None:
    reading = read(write([*titles, HEADER, *ROWS]), "표")
    assert _questions(reading) == EXPECTED
    (problem,) = reading.problems
    assert (problem.code, problem.row) == (ProblemCode.TITLE_LINES, None)
    assert problem.details == {"count": 2, "words": "2024년 목록; 담당: 김"}
    assert reading.row_count == 2


@pytest.mark.parametrize("write", [as_csv_lines, workbook])
@pytest.mark.parametrize(
    "notes", [[["※ 출처: 시청", "", ""]], [["", "", ""], ["이 표는 해마다 새로 씁니다", "", ""], ["문의: 02", "", ""]]]
)
def test_notes_below_the_table_are_left_out_and_listed(write: object, notes: list[list[str]]) -> None:
    reading = read(
        write([["지문", "제목", "쪽"], ["한강이 흐른다.", "강", "1"], ["북한산이 있다.", "산", "2"], *notes]), "표"
    )
    assert list(reading.question_set.passages.texts) == ["한강이 흐른다.", "북한산이 있다."]
    assert [problem.code for problem in reading.problems] == [ProblemCode.NOTE_ROW] * sum(map(any, notes))
    assert list(reading.rejected["지문"]) == [note[0] for note in notes if note[0]]


@pytest.mark.parametrize("write", [as_csv_lines, workbook])
def test_rows_of_one_cell_among_others_are_no_notes(write: object) -> None:
    rows = [["지문", "제목"], ["한강이 흐른다.", ""], ["북한산이 있다.", "산"], ["", ""], ["※ 표가 있는 글이다.", ""]]
    assert len(read(write(rows), "표").question_set.passages) == 3
    rows = [["지문", "제목"], ["북한산이 있다.", "산"], ["※ 표가 있는 글이다.", ""], ["한강이 흐른다.", "강"]]
    assert len(read(write(rows), "표").question_set.passages) == 3


@pytest.mark.parametrize("write", [as_csv_lines, workbook])
def test_a_header_that_is_repeated_is_no_row(write: object) -> None:
    header = ["질문", "지문"]
    rows = [header, ["question", "context"], ["강은?", "한강이 흐른다."], header, ["산은?", "북한산이 있다."]]
    reading = read(write(rows), "표")
    assert [question.text for question in reading.question_set.questions] == ["강은?", "산은?"]
    repeated = [(problem.code, problem.row) for problem in reading.problems]
    assert repeated == [(ProblemCode.REPEATED_HEADER, 2), (ProblemCode.REPEATED_HEADER, 4)]


def test_a_row_of_words_that_may_name_columns_is_data_among_others() -> None:
    reading = read("질문,지문\n강은?,한강이 흐른다.\n질문,지문에 대한 물음이다.\n".encode(), "표.csv")
    assert [question.text for question in reading.question_set.questions] == ["강은?", "질문"]
