"""A set's questions on disk: a Parquet file beside its passages."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from data.records import Question

FILE = "questions.parquet"
_TEXTS = pa.list_(pa.string())
_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("text", pa.string()),
        ("answers", _TEXTS),
        ("relevant", _TEXTS),
        ("kind", pa.string()),
        ("made", pa.string()),
        ("hidden", pa.bool_()),
        ("starts", pa.list_(pa.int32())),
        ("rejected", _TEXTS),
    ]
)


def write_questions(folder: Path, questions: tuple[Question, ...]) -> None:
    """Write the questions into a folder that is not in use yet."""
    columns = [pa.array([getattr(one, field.name) for one in questions], field.type) for field in _SCHEMA]
    pq.write_table(pa.Table.from_arrays(columns, schema=_SCHEMA), folder / FILE, compression="zstd")


def open_questions(folder: Path) -> tuple[Question, ...]:
    """Read the questions of a folder. Raises `OSError`, an Arrow error, or one of Python's where it holds none."""
    return tuple(map(_question, pq.read_table(folder / FILE).to_pylist()))


def _question(row: dict[str, Any]) -> Question:
    # sets of earlier versions lack the last two
    lists = {name: tuple(row.get(name) or ()) for name in ("answers", "relevant", "starts", "rejected")}
    return Question(**row | lists)
