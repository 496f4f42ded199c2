"""Parquet files become a table."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from data.formats.tables import RawRow, Table, broken_told, column_names
from data.formats.text import Content, check_size
from data.problems import ProblemCode

MAX_ROWS = 10_000_000
MAX_VALUES = 200_000_000
_MAX_UNPACKED_BYTES = 2**31
_BATCH_ROWS = 4_096


def parquet_table(content: Content) -> Table:
    """Read a Parquet file, its rows as they are asked for. Raises `DataError` where it is broken or claims too much."""
    with broken_told(ProblemCode.BROKEN_PARQUET, first_line=True):
        file = pq.ParquetFile(content.open(), page_checksum_verification=True)  # of writers that note some
        metadata = file.metadata
        groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
        check_size(metadata.num_rows, "rows", MAX_ROWS)
        check_size(sum(group.total_byte_size for group in groups), "unpacked bytes", _MAX_UNPACKED_BYTES)
        # Arrow 26 aborts the whole process when a broken file is asked for its columns: a scan refuses it first.
        file.scan_contents()
        values = sum(group.column(place).num_values for group in groups for place in range(group.num_columns))
        check_size(values, "values", MAX_VALUES)
        # texts are measured before unpacking: by its dictionary a small file can hold a long text a million times
        paths = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
        size = 0
        for batch in pq.ParquetFile(content.open(), read_dictionary=paths).iter_batches(batch_size=_BATCH_ROWS):
            size += sum(map(_unpacked_bytes, batch.columns))
            check_size(size, "unpacked bytes", _MAX_UNPACKED_BYTES)
        names = column_names(file.schema_arrow.names)
    return Table(names, _rows(file, names))


def _unpacked_bytes(array: Any) -> int:
    if pa.types.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary)
        return pc.sum(pc.take(pc.cast(lengths, pa.int64()), array.indices)).as_py() or 0
    if pa.types.is_struct(array.type):
        return sum(map(_unpacked_bytes, array.flatten()))
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return _unpacked_bytes(array.flatten())
    return int(array.nbytes)


def _rows(file: Any, names: tuple[str, ...]) -> Iterator[RawRow]:
    number = count(1)
    with broken_told(ProblemCode.BROKEN_PARQUET, first_line=True):
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            columns = _BatchColumns(zip(names, batch.columns, strict=True))
            for place in range(batch.num_rows):
                yield RawRow(next(number), _BatchRow(columns, place))


class _BatchColumns(dict[str, list[Any]]):
    """The columns of a batch as Python values. A column is converted when its first cell is read."""

    def __init__(self, arrays: Iterable[tuple[str, Any]]) -> None:
        super().__init__()
        self.arrays = dict(arrays)

    def __missing__(self, name: str) -> list[Any]:
        self[name] = _values(self.arrays[name])
        return self[name]


class _BatchRow(Mapping[str, object]):
    """One row of a batch: a column that nobody reads is never converted, whatever it holds."""

    __slots__ = ("_columns", "_place")

    def __init__(self, columns: _BatchColumns, place: int) -> None:
        self._columns = columns
        self._place = place

    def __getitem__(self, name: str) -> object:
        if name not in self._columns.arrays:
            raise KeyError(name)
        return self._columns[name][self._place]

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
    """Return one cell as a Python value: bytes for text that is not UTF-8, Arrow's text for an odd date.

    A value that has neither is told as its type, so that one odd cell does not refuse the whole file.
    """
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
