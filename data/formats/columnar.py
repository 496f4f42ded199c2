"""Reads Parquet and Arrow files (IPC streams and files, Feather), also those of `datasets` with names of classes."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mrc_workbench.data.formats.tables import RawRow, RawTable, column_names, wrap_errors
from mrc_workbench.data.formats.text import Content, check_size
from mrc_workbench.data.problems import ProblemCode

MAX_ROWS = 10_000_000
MAX_VALUES = 200_000_000
MAX_UNPACKED_BYTES_OF_COLUMNS = 2**31
_BATCH_ROWS = 4_096
_MEDIA = ("Image", "Audio", "Video", "Pdf", "Nifti")  # features of `datasets` without text
_NO_CLASS = -1


def parquet_table(content: Content) -> RawTable:
    """Read a Parquet file; its rows are read lazily. Raises `DataError` if it is broken or too large."""
    with wrap_errors(ProblemCode.BROKEN_PARQUET, first_line=True):
        file = pq.ParquetFile(content.open(), page_checksum_verification=True)  # if the file has checksums
        metadata = file.metadata
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        check_size(metadata.num_rows, "rows", MAX_ROWS)
        check_size(sum(group.total_byte_size for group in groups), "unpacked bytes", MAX_UNPACKED_BYTES_OF_COLUMNS)
        # reading the columns of a broken file crashes the process (Arrow 26), so a scan detects it first
        file.scan_contents()
        values = sum(group.column(index).num_values for group in groups for index in range(group.num_columns))
        check_size(values, "values", MAX_VALUES)
        # measured before unpacking: with a dictionary, a small file can repeat a long text a million times
        paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
        size = 0
        for batch in pq.ParquetFile(content.open(), read_dictionary=paths).iter_batches(batch_size=_BATCH_ROWS):
            size += sum(map(unpacked_bytes, batch.columns))
            check_size(size, "unpacked bytes", MAX_UNPACKED_BYTES_OF_COLUMNS)
        names = column_names(file.schema_arrow.names)
    opened = (file.schema_arrow, file.iter_batches(batch_size=_BATCH_ROWS))
    return RawTable(names, _rows(ProblemCode.BROKEN_PARQUET, lambda: opened, names))


def unpacked_bytes(array: Any) -> int:
    """Return the size in bytes of an Arrow array without dictionary encoding."""
    if pa.types.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary)
        return pc.sum(pc.take(pc.cast(lengths, pa.int64()), array.indices)).as_py() or 0
    if pa.types.is_struct(array.type):
        return sum(map(unpacked_bytes, array.flatten()))
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return unpacked_bytes(array.flatten())
    return int(array.nbytes)


def _rows(
    broken: ProblemCode, open_batches: Callable[[], tuple[Any, Iterator[Any]]], names: tuple[str, ...]
) -> Iterator[RawRow]:
    with wrap_errors(broken, first_line=True):
        schema, batches = open_batches()
        features = _features(schema)
        column_features = [features.get(name) for name in schema.names]
        number = count(1)
        for batch in batches:
            columns = _BatchColumns(zip(names, zip(batch.columns, column_features, strict=True), strict=True))
            for position in range(batch.num_rows):
                yield RawRow(next(number), _BatchRow(columns, position))


def _features(schema: Any) -> Mapping[str, Any]:
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _class_names(feature: Any) -> Sequence[Any] | None:
    if isinstance(feature, list):
        feature = {"_type": "List", "feature": feature[0] if len(feature) == 1 else None}
    if not isinstance(feature, dict):
        return None
    if feature.get("_type") in ("List", "LargeList", "Sequence"):
        return _class_names(feature.get("feature"))
    names = feature.get("names")
    return names if feature.get("_type") == "ClassLabel" and isinstance(names, list) else None


def _with_class_names(value: Any, names: Sequence[Any]) -> Any:
    if isinstance(value, list):
        return [_with_class_names(item, names) for item in value]
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if value == _NO_CLASS:
        return None
    return names[value] if 0 <= value < len(names) else value


class _BatchColumns(dict[str, list[Any]]):
    """The columns of a batch as Python values, converted when the first cell is read."""

    def __init__(self, arrays: Iterable[tuple[str, tuple[Any, Any]]]) -> None:
        super().__init__()
        self.arrays = dict(arrays)

    def __missing__(self, name: str) -> list[Any]:
        array, feature = self.arrays[name]
        class_names = _class_names(feature)
        is_media = isinstance(feature, dict) and feature.get("_type") in _MEDIA
        values = [None] * len(array) if is_media else _values(array)
        self[name] = values if class_names is None else _with_class_names(values, class_names)
        return self[name]


class _BatchRow(Mapping[str, object]):
    """A row of a batch; columns that are not read are never converted."""

    __slots__ = ("_columns", "_position")

    def __init__(self, columns: _BatchColumns, position: int) -> None:
        self._columns = columns
        self._position = position

    def __getitem__(self, name: str) -> object:
        if name not in self._columns.arrays:
            raise KeyError(name)
        return self._columns[name][self._position]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns.arrays)

    def __len__(self) -> int:
        return len(self._columns.arrays)


def _values(column: Any) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ArithmeticError, LookupError, ValueError):  # texts that are not UTF-8, dates beyond those of Python
        return [_value(scalar) for scalar in column]


def _value(scalar: Any) -> Any:
    """Convert a cell: invalid UTF-8 to bytes, dates out of range to Arrow's text, else to the name of the type."""
    if pa.types.is_list(scalar.type) or pa.types.is_large_list(scalar.type):
        return [_value(item) for item in scalar.values] if scalar.is_valid else None
    if pa.types.is_struct(scalar.type):
        return {name: _value(scalar[name]) for name in scalar.type.names} if scalar.is_valid else None
    is_text = pa.types.is_string(scalar.type) or pa.types.is_large_string(scalar.type)
    try:
        return scalar.cast(pa.binary()).as_py() if is_text else scalar.as_py()
    except (ArithmeticError, LookupError, ValueError):
        pass
    try:
        return scalar.cast(pa.string()).as_py()
    except (pa.ArrowException, ValueError):
        return f"({scalar.type})"


_FILE_MARK = b"ARROW1"
_STREAM_MARK = b"\xff\xff\xff\xff"  # before the length of the schema


def is_arrow(start: bytes) -> bool:
    """Whether a file begins like an Arrow file or stream."""
    return start.startswith(_FILE_MARK) or (start.startswith(_STREAM_MARK) and start[4:8] not in (b"", _STREAM_MARK))


def arrow_table(content: Content) -> RawTable:
    """Read an Arrow file; its rows are read lazily. Raises `DataError` if it is broken or too large."""
    with wrap_errors(ProblemCode.BROKEN_ARROW, first_line=True):
        schema, _ = _open_batches(content)
        _require_names(schema)
        names = column_names(schema.names)
    return RawTable(names, _rows(ProblemCode.BROKEN_ARROW, partial(_open_batches, content), names))


def _require_names(fields: Iterable[Any]) -> None:
    """Raise the library's error if the name of a nested field is not valid text."""
    for field in fields:
        str(field.name)
        _require_names(field.type.field(index) for index in range(field.type.num_fields))


def _validate_batches(batches: Iterator[Any]) -> Iterator[Any]:
    rows = 0
    size = 0
    for whole in batches:
        whole.validate(full=True)
        rows += whole.num_rows
        check_size(rows, "rows", MAX_ROWS)
        size += sum(map(unpacked_bytes, whole.columns))
        check_size(size, "unpacked bytes", MAX_UNPACKED_BYTES_OF_COLUMNS)
        for first in range(0, whole.num_rows, _BATCH_ROWS):
            yield whole.slice(first, _BATCH_ROWS)


def _open_batches(content: Content) -> tuple[Any, Iterator[Any]]:
    source = content.in_memory_or_path
    reader = pa.memory_map(str(source)) if isinstance(source, Path) else pa.BufferReader(source)
    if content.start.startswith(_FILE_MARK):
        file = pa.ipc.open_file(reader)
        return file.schema, _validate_batches(file.get_batch(number) for number in range(file.num_record_batches))
    stream = pa.ipc.open_stream(reader)
    return stream.schema, _validate_batches(iter(stream))
