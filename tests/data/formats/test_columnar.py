"""Tests of Parquet and Arrow: names of classes, damaged files."""

import io
import re
from collections.abc import Sequence
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features, List, Value
from datasets import Image as ImageFeature

from mrc_workbench.data.formats import columnar
from mrc_workbench.data.formats.columnar import parquet_table
from mrc_workbench.data.formats.opening import Format, recognise, table_opener
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import QuestionSetReading, read
from tests.data.sample_files import ROWS, as_parquet, mutations, rezipped, workbook
from tests.doubles import raises_failure


def parquet(rows: pa.Table, **options: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(rows, out, **options)
    return out.getvalue()


def _read_parquet(columns: dict[str, object], **options: object) -> QuestionSetReading:
    return read(parquet(pa.table(columns), **options), "set.parquet")


def test_reads_squad_rows_of_the_hub() -> None:
    answers = [{"text": ["서울", "한양"], "answer_start": [1, 2]}, {"text": [], "answer_start": []}, None]
    reading = _read_parquet({"question": ["가?", "나?", "다?"], "context": ["x", "x", "y"], "answers": answers})
    questions = [(q.text, q.answers, q.relevant) for q in reading.question_set.questions]
    assert questions == [("가?", ("서울", "한양"), ("p1",)), ("나?", (), ("p1",)), ("다?", (), ("p2",))]
    reading = _read_parquet({"question": ["가?", "나?"], "context": ["x", "y"], "is_impossible": [False, True]})
    assert [question.relevant for question in reading.question_set.questions] == [("p1",), ()]


def test_converts_other_types_to_text_and_repairs_invalid_utf8() -> None:
    reading = _read_parquet({"id": [1.0, 2.0], "question": ["가?", None], "context": [b"\xea\xb0\x80", b"x"]})
    assert [(q.id, q.text) for q in reading.question_set.questions] == [("1", "가?")]
    assert [passage.text for passage in reading.question_set.passages] == ["가", "x"]
    assert [(problem.row, problem.code) for problem in reading.problems] == [(None, ProblemCode.NO_QUESTION_IN_ROW)]
    broken = pa.array([b"\xea\xb0?", b"x?"]).view(pa.string())
    reading = _read_parquet({"question": broken, "context": ["가", "나"]})
    assert [question.text for question in reading.question_set.questions] == ["�?", "x?"]


def test_rejects_small_file_that_repeats_a_long_text() -> None:
    indices = pa.array(np.zeros(100_000, dtype=np.int32))
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 50_000]))
    with pytest.raises(DataError, match=r"claims [\d,]+ unpacked bytes; at most 2,147,483,648 are read"):
        _read_parquet({"question": column, "context": column}, store_schema=False)


def test_rejects_too_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "MAX_VALUES", 1_000_000)
    nothing = pa.nulls(1_000_001)
    column = pa.ListArray.from_arrays(pa.array([0, len(nothing)], pa.int32()), nothing)
    with pytest.raises(DataError, match=r"claims 1,000,003 values; at most 1,000,000 are read"):
        _read_parquet({"question": ["a?"], "context": ["b"], "more": column})


SHEET = "xl/worksheets/sheet1.xml"
BROKEN_LINES = [["#N/A", "부산", 2], ["강은?", "#REF!", 3]]
LINES = [[], ["질문", "지문", "번호"], ["수도는?", "서울", 1], [], *BROKEN_LINES, [date(2020, 1, 2), 12.5, 4.0]]


def test_numbers_rows_as_the_sheet_does() -> None:
    reading = read(workbook(LINES), "set.xlsx")
    assert [(q.id, q.text) for q in reading.question_set.questions] == [("1", "수도는?"), ("4", "2020-01-02")]
    assert [passage.text for passage in reading.question_set.passages] == ["서울", "12.5"]
    messages = [problem.message for problem in reading.problems]
    assert messages == [
        "Row 5: the cell 질문 contains the formula error #N/A instead of text. Correct the formula or type the text.",
        "Row 6: the cell 지문 contains the formula error #REF! instead of text. Correct the formula or type the text.",
    ]
    columns = {"질문": ["#N/A", "강은?"], "지문": ["부산", "#REF!"], "번호": ["2", "3"]}
    assert reading.rejected.to_dict("list") == {"row": [5, 6], "problem": messages, **columns}


def changed_sheet(pattern: bytes, new: bytes) -> bytes:
    return rezipped(workbook(LINES), SHEET, lambda part: re.sub(pattern, new, part, count=1))


def test_ignores_wrong_sheet_dimensions() -> None:
    content = changed_sheet(rb"<dimension[^>]*>", b'<dimension ref="A1"/>')
    assert len(read(content, "set.xlsx").question_set.questions) == 2


def test_unescapes_carriage_returns() -> None:
    reading = read(workbook([["question", "context"], ["a?", "b_x000D_\nc"]]), "set.xlsx")
    assert reading.question_set.passages[0].text == "b\r\nc"


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
def test_rejects_hostile_sheets(old: bytes, new: bytes, code: ProblemCode) -> None:
    with raises_failure(code):
        read(changed_sheet(old, new), "set.xlsx")


@pytest.mark.slow
def test_sparse_sheet_takes_little_memory() -> None:
    corner = b'<row r="1048576"><c r="XFD1048576" t="n"><v>1</v></c></row></sheetData>'
    assert len(read(changed_sheet(b"</sheetData>", corner), "set.xlsx").question_set.questions) == 2


@pytest.mark.parametrize(
    ("content", "sizes", "message"),
    [
        (as_parquet(ROWS), (4, 8, 100, -4, -100), r"The Parquet file cannot be read \(.*get it or write it again"),
        (workbook(LINES), (4, 100, 1000, -10), r"The Excel workbook cannot be read \(.*save it again as .xlsx or CSV"),
    ],
    ids=["Parquet", "Excel"],
)
def test_rejects_truncated_files(content: bytes, sizes: Sequence[int], message: str) -> None:
    for size in sizes:
        with pytest.raises(DataError, match=message):
            read(content[:size], "set")


ODD_COLUMNS = {
    "date": pa.array([2147483647, 1], pa.int32()).cast(pa.date32()),
    "timestamp": pa.array([9223372036854775000, 1], pa.int64()).cast(pa.timestamp("us")),
    "duration": pa.array([9223372036854775807, 1], pa.int64()).cast(pa.duration("s")),
    "zone": pa.array([1, 2], pa.int64()).cast(pa.timestamp("us", "Nowhere/City")),
    "dates": pa.array([[2147483647], [1]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
    "struct": pa.StructArray.from_arrays([pa.array([2147483647, 1], pa.int32()).cast(pa.date32())], ["day"]),
}


def parquet_with(**columns: pa.Array) -> bytes:
    columns_with_text = {"question": ["누가?", "무엇?"], "context": ["가나다 라마바", "나다라 마바사"]}
    return parquet(pa.table({**columns_with_text, **columns}))


@pytest.mark.parametrize("name", ODD_COLUMNS)
def test_ignores_unsupported_values_in_unused_columns(name: str) -> None:
    reading = read(parquet_with(**{name: ODD_COLUMNS[name]}), "odd.parquet")
    assert [question.text for question in reading.question_set.questions] == ["누가?", "무엇?"]
    assert reading.problems == ()
    assert name in reading.first_rows[0]


def test_does_not_convert_unused_columns(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_reads_out_of_range_date_as_text() -> None:
    reading = read(parquet_with(id=ODD_COLUMNS["date"]), "odd.parquet")
    assert reading.question_set.questions[1].id == "1970-01-02"
    assert reading.question_set.questions[0].id


TEXTS = {"question": Value("string"), "context": Value("string")}
LABELS = {"label": ClassLabel(names=["아님", "맞음"]), "tags": List(ClassLabel(names=["x", "y"]))}
ANSWERS = {"text": List(Value("string")), "answer_start": List(Value("int32"))}
FEATURES = Features({**TEXTS, **LABELS, "image": ImageFeature(), "answers": ANSWERS})
ARROW_ROWS = {
    "question": ["곰은 어디에 사나?", "새는?"],
    "context": ["곰은 산에 산다.", "새는 난다."],
    "label": [1, -1],
    "tags": [[0, 1], []],
    "image": [{"bytes": b"\x89PNG", "path": None}, None],
    "answers": [{"text": ["산"], "answer_start": [4]}, {"text": [], "answer_start": []}],
}


def table() -> pa.Table:
    return Dataset.from_dict(ARROW_ROWS, features=FEATURES).data.table


def stream(rows: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_table(rows)
    return out.getvalue()


def file(rows: pa.Table, compression: str | None = None) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_file(out, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(rows)
    return out.getvalue()


def cells(content: bytes) -> list[dict[str, object]]:
    rows = table_opener(Content(content), recognise(content))().rows
    return [dict(row.cells) for row in rows]


@pytest.mark.parametrize("write", [stream, file, parquet])
def test_reads_arrow_files_like_the_dataset(write: object) -> None:
    content = write(table())  # type: ignore[operator]
    assert cells(content) == [
        {
            "question": "곰은 어디에 사나?", "context": "곰은 산에 산다.", "label": "맞음", "tags": ["x", "y"],
            "image": None, "answers": {"text": ["산"], "answer_start": [4]},
        },
        {
            "question": "새는?", "context": "새는 난다.", "label": None, "tags": [], "image": None,
            "answers": {"text": [], "answer_start": []},
        },
    ]  # fmt: skip
    reading = read(content, "set")
    assert reading.format is (Format.PARQUET if write is parquet else Format.ARROW)
    assert reading.question_set.questions[0].starts == (4,)
    assert reading.question_set == read(parquet(table()), "set").question_set


@pytest.mark.parametrize(
    "noted", [b"[]", b"{", b'{"info": {"features": 3}}', b'{"info": {"features": {"n": {"_type": 1}}}}']
)
def test_ignores_invalid_feature_metadata(noted: bytes) -> None:
    rows = pa.table({"text": ["a"], "n": [1]}).replace_schema_metadata({b"huggingface": noted})
    assert cells(stream(rows)) == [{"text": "a", "n": 1}]


def test_keeps_unknown_class_numbers_and_reads_compressed_feather() -> None:
    for compression in ("lz4", "zstd"):
        assert cells(file(table(), compression)) == cells(stream(table()))
    metadata = b'{"info": {"features": {"n": {"_type": "ClassLabel", "names": ["x"]}}}}'
    rows = pa.table({"n": [0, 1, -1, None]}).replace_schema_metadata({b"huggingface": metadata})
    assert [row["n"] for row in cells(stream(rows))] == ["x", 1, None, None]


def test_rejects_truncated_arrow_file() -> None:
    for content in (stream(table()), file(table())):
        with raises_failure(ProblemCode.BROKEN_ARROW):
            cells(content[: len(content) // 2])


def test_rejects_arrow_file_beyond_size_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "MAX_UNPACKED_BYTES_OF_COLUMNS", 10_000)
    rows = pa.table({"text": pa.array(["글" * 1000] * 20).dictionary_encode()})
    with pytest.raises(DataError, match="unpacked bytes"):
        cells(stream(rows))
    monkeypatch.setattr(columnar, "MAX_ROWS", 1)
    with pytest.raises(DataError, match="2 rows"):
        cells(stream(table()))


@pytest.mark.parametrize("write", [stream, file])
def test_mutated_files_raise_only_data_errors(write: object) -> None:
    refused = 0
    for mutated in mutations(write(table()), 3, start=8):  # type: ignore[operator]
        try:
            cells(bytes(mutated))
        except DataError:
            refused += 1
    assert refused > 20
