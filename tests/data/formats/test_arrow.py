"""Arrow streams and files read as Parquet does; classes have their names, and damaged files are refused."""

import io
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features, List, Value
from datasets import Image as ImageFeature

from mrc_workbench.data.formats import columnar
from mrc_workbench.data.formats.opening import Format, recognise, table_opener
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import read

FEATURES = Features(
    {
        "question": Value("string"),
        "context": Value("string"),
        "label": ClassLabel(names=["아님", "맞음"]),
        "tags": List(ClassLabel(names=["x", "y"])),
        "image": ImageFeature(),
        "answers": {"text": List(Value("string")), "answer_start": List(Value("int32"))},
    }
)
ROWS = {
    "question": ["곰은 어디에 사나?", "새는?"],
    "context": ["곰은 산에 산다.", "새는 난다."],
    "label": [1, -1],
    "tags": [[0, 1], []],
    "image": [{"bytes": b"\x89PNG", "path": None}, None],
    "answers": [{"text": ["산"], "answer_start": [4]}, {"text": [], "answer_start": []}],
}


def table() -> pa.Table:
    return Dataset.from_dict(ROWS, features=FEATURES).data.table


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


def parquet(rows: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(rows, out)
    return out.getvalue()


def cells(content: bytes) -> list[dict[str, object]]:
    rows = table_opener(Content(content), recognise(content))().rows
    return [dict(row.cells) for row in rows]


@pytest.mark.parametrize("write", [stream, file, parquet])
def test_rows_are_those_of_the_dataset(write: object) -> None:
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


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_feather(compression: str) -> None:
    assert cells(file(table(), compression)) == cells(stream(table()))


@pytest.mark.parametrize(
    "noted", [b"[]", b"{", b'{"info": {"features": 3}}', b'{"info": {"features": {"n": {"_type": 1}}}}']
)
def test_odd_notes_are_ignored(noted: bytes) -> None:
    rows = pa.table({"text": ["a"], "n": [1]}).replace_schema_metadata({b"huggingface": noted})
    assert cells(stream(rows)) == [{"text": "a", "n": 1}]


def test_numbers_beyond_the_classes_stay() -> None:
    noted = b'{"info": {"features": {"n": {"_type": "ClassLabel", "names": ["x"]}}}}'
    rows = pa.table({"n": [0, 1, -1, None]}).replace_schema_metadata({b"huggingface": noted})
    assert [row["n"] for row in cells(stream(rows))] == ["x", 1, None, None]


def test_a_cut_file_is_refused() -> None:
    for content in (stream(table()), file(table())):
        with pytest.raises(DataError) as error:
            cells(content[: len(content) // 2])
        assert error.value.problem.code is ProblemCode.BROKEN_ARROW


def test_what_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "MAX_UNPACKED_BYTES_OF_COLUMNS", 10_000)
    rows = pa.table({"text": pa.array(["글" * 1000] * 20).dictionary_encode()})
    with pytest.raises(DataError, match="unpacked bytes"):
        cells(stream(rows))
    monkeypatch.setattr(columnar, "MAX_ROWS", 1)
    with pytest.raises(DataError, match="2 rows"):
        cells(stream(table()))


@pytest.mark.parametrize("write", [stream, file])
def test_mutated_files_never_raise_anything_else(write: object) -> None:
    content = write(table())  # type: ignore[operator]
    generator = random.Random(3)
    refused = 0
    for _ in range(200):
        mutated = bytearray(content)
        for _ in range(generator.randint(1, 5)):
            mutated[generator.randrange(8, len(mutated))] = generator.randrange(256)
        try:
            cells(bytes(mutated))
        except DataError:
            refused += 1
    assert refused > 20
