"""Arrow files (IPC streams and files, Feather), as `datasets` saves them, and the features that `datasets` notes."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from mrc_workbench.data.formats.columnar.binary import (
    BATCH_ROWS,
    MAX_ROWS,
    MAX_UNPACKED_BYTES_OF_COLUMNS,
    batch_rows,
    unpacked_bytes,
)
from mrc_workbench.data.formats.tables import RawRow, Table, broken_told, column_names
from mrc_workbench.data.formats.text import Content, check_size
from mrc_workbench.data.problems import ProblemCode

_FILE_MARK = b"ARROW1"
_STREAM_MARK = b"\xff\xff\xff\xff"  # before the length of the schema


def is_arrow(start: bytes) -> bool:
    """Return whether a file that begins so is an Arrow file or stream."""
    return start.startswith(_FILE_MARK) or (start.startswith(_STREAM_MARK) and start[4:8] not in (b"", _STREAM_MARK))


def arrow_table(content: Content) -> Table:
    """Read an Arrow file, its rows as they are asked for. Raises `DataError` if it is broken or claims too much."""
    with broken_told(ProblemCode.BROKEN_ARROW, first_line=True):
        schema, _ = _opened(content)
        _require_names(schema)
        names = column_names(schema.names)
    return Table(names, _rows(content, names))


def _require_names(fields: Iterable[Any]) -> None:
    """Raise the library's error if the name of a nested field is no text."""
    for field in fields:
        _ = field.name
        _require_names(field.type.field(place) for place in range(field.type.num_fields))


def _rows(content: Content, names: tuple[str, ...]) -> Iterator[RawRow]:
    with broken_told(ProblemCode.BROKEN_ARROW, first_line=True):
        schema, batches = _opened(content)
        yield from batch_rows(_checked(batches), names, schema)


def _checked(batches: Iterator[Any]) -> Iterator[Any]:
    rows = 0
    size = 0
    for whole in batches:
        whole.validate(full=True)
        rows += whole.num_rows
        check_size(rows, "rows", MAX_ROWS)
        size += sum(map(unpacked_bytes, whole.columns))
        check_size(size, "unpacked bytes", MAX_UNPACKED_BYTES_OF_COLUMNS)
        for first in range(0, whole.num_rows, BATCH_ROWS):
            yield whole.slice(first, BATCH_ROWS)


def _opened(content: Content) -> tuple[Any, Iterator[Any]]:
    """Return the schema and the batches, which are mapped from the disk if the file is there."""
    source = content.in_memory_or_path
    reader = pa.memory_map(str(source)) if isinstance(source, Path) else pa.BufferReader(source)
    if content.start.startswith(_FILE_MARK):
        file = pa.ipc.open_file(reader)
        return file.schema, (file.get_batch(number) for number in range(file.num_record_batches))
    stream = pa.ipc.open_stream(reader)
    return stream.schema, iter(stream)
