from collections.abc import Iterator

import pytest

from mrc_workbench.data.formats import text_tables
from mrc_workbench.data.formats.text_tables import delimited_tables, find_table
from mrc_workbench.data.problems import DataError, ProblemCode


def _rows(text: str, delimiter: str = ",") -> list[tuple[int, list[object], ProblemCode | None]]:
    rows = delimited_tables(text, delimiter)().rows
    return [(row.number, list(row.cells.values()), row.problem and row.problem.code) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("질문,지문\n수도는?,서울; 그렇다\n", ","),
        ("질문;지문\n수도는?;서울, 그렇다, 정말\n", ";"),
        ("질문\t지문\n수도는, 어디?\t서울, 그렇다\n", "\t"),
        ('"질문";"지문"\n"가;나?";"서울, 그렇다"\n', ";"),
        ("sep=;\n질문;지문\n가?;나\n", ";"),
        ("수도는 서울이다\n", None),
    ],
)
def test_detects_delimiters(text: str, delimiter: str | None) -> None:
    table = find_table(text)
    assert (table and table.delimiter) == delimiter


HEAD = "question,context\n"
TABS = "질문\t지문\n"
FIELD_COUNT = ProblemCode.FIELD_COUNT
BROKEN_QUOTES = ProblemCode.BROKEN_QUOTES


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (  # numbered by the line in which a row begins
            f'\n{HEAD[:-1]}\r\n"a?","one\ntwo"\r\n\r\n"b?","x"\r\n,\r\nc?,y',
            [(3, ["a?", "one\ntwo"], None), (6, ["b?", "x"], None), (8, ["c?", "y"], None)],
        ),
        (f"{HEAD}a?,one\u2028two\x0bthree\x85\n", [(2, ["a?", "one\u2028two\x0bthree\x85"], None)]),
        (
            f"{HEAD}a?,b,c\nd?\ne?,f,,\n",
            [(2, ["a?", "b", "c"], FIELD_COUNT), (3, ["d?"], FIELD_COUNT), (4, ["e?", "f"], None)],
        ),
        # a quotation mark that never closes costs one row, and so do those inside a quoted field
        (
            f'{HEAD}a?,"b\nc?,d\ne?,"f"\n',
            [(2, ['a?,"b\n'], BROKEN_QUOTES), (3, ["c?", "d"], None), (4, ["e?", "f"], None)],
        ),
        (
            f'{HEAD}"그는 "안녕" 했나?",b\nc?,d\n',
            [(2, ['"그는 "안녕" 했나?",b\n'], BROKEN_QUOTES), (3, ["c?", "d"], None)],
        ),
        # tab-separated files may never quote, or quote
        (
            f'{TABS}"안녕"이라 한 이는?\t"안녕"이라 철수가 말했다\n"누구?\t"끝"\n',
            [(2, ['"안녕"이라 한 이는?', '"안녕"이라 철수가 말했다'], None), (3, ['"누구?', '"끝"'], None)],
        ),
        (f'{TABS}"a ""b""?"\t"x\ty\nz"\n', [(2, ['a "b"?', "x\ty\nz"], None)]),
        (f"{HEAD}a?," + "가" * 1_000_000, [(2, ["a?", "가" * 1_000_000], None)]),
    ],
    ids=["numbers", "separators", "field counts", "open quote", "inner quotes", "no quotes", "tab quotes", "long"],
)
def test_parses_rows(text: str, rows: list[tuple[int, list[object], ProblemCode | None]]) -> None:
    assert _rows(text, "\t" if text.startswith(TABS) else ",") == rows


def test_reports_wrong_field_count() -> None:
    (row,) = delimited_tables("question,context\na?,b,c\n", ",")().rows
    assert row.problem is not None
    message = "Row 2: this row has 3 fields, the header has 2. Quote fields that contain the delimiter."
    assert row.problem.message == message
    assert row.cells == {"question": "a?", "context": "b", "column 3": "c"}


def test_makes_column_names_unique() -> None:
    names = delimited_tables(",text,text, ,text\n1,2,3,4,5\n", ",")().names
    assert names == ("column 1", "text", "text (2)", "column 4", "text (3)")


def test_rejects_broken_header() -> None:
    with pytest.raises(DataError, match="Row 1: a quotation mark is not closed"):
        delimited_tables('question,"context\na?,b\n', ",")()


def test_rejects_file_of_delimiters_as_empty() -> None:
    with pytest.raises(DataError, match="The file is empty"):
        delimited_tables(",,\n,,\n", ",")()


@pytest.mark.slow
@pytest.mark.parametrize("line", ['b"c,"a\n', '"\n', 'a,"b\n', '"a"b,c\n'])
def test_parses_broken_quotes_in_linear_time(line: str) -> None:
    rows = list(delimited_tables("question,context\n" + line * 20_001, ",")().rows)
    assert rows[-1].problem is not None
    assert len(rows) <= 20_001


def test_rereads_lines_of_an_unterminated_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_tables, "_MAX_RECORD_CHARACTERS", 100)
    text = 'question,context\n"a?,b\n' + "".join(f"q{row}?,c{row}\n" for row in range(50))
    table = delimited_tables(text, ",")()
    rows = list(table.rows)
    assert [row.number for row in rows if row.problem is not None] == [2]
    assert [row.cells["context"] for row in rows[1:]] == [f"c{row}" for row in range(50)]


def test_cost_per_line_with_broken_quotes_is_constant() -> None:
    """Count the lines: each is read at most twice."""
    lines_read = 0

    def lines() -> Iterator[str]:
        nonlocal lines_read
        for _ in range(20_000):
            lines_read += 1
            yield 'q?\t"abc\n'

    rereadable = text_tables._Rereadable(lines())
    for _ in range(10_000):
        rereadable.begin_record()
        next(rereadable), next(rereadable)
        rereadable.go_back()
    assert lines_read == 10_001
