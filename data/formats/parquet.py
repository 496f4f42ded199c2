"""Parquet files become a table."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from data.formats.tables import RawRow, Table, column_names, shown
from data.formats.text import Content, check_size
from data.problems import DataError, ProblemCode

MAX_ROWS = 10_000_000
MAX_VALUES = 200_000_000
MAX_UNPACKED_BYTES = 2**31
_BATCH_ROWS = 4_096


def parquet_table(content: Content) -> Table:
    """Read a Parquet file, its rows as they are asked for. Raises `DataError` where it is broken or claims too much."""
    with _broken_told():
        file = pq.ParquetFile(content.open(), page_checksum_verification=True)  # of writers that note some
        _check_claims(file)
        # texts are measured before unpacking: by its dictionary a small file can hold a long text a million times
        paths = [file.metadata.schema.column(place).path for place in range(file.metadata.num_columns)]
        size = 0
        for batch in pq.ParquetFile(content.open(), read_dictionary=paths).iter_batches(batch_size=_BATCH_ROWS):
            size += sum(map(_unpacked_bytes, batch.columns))
            check_size(size, "unpacked bytes", MAX_UNPACKED_BYTES)
        names = column_names(file.schema_arrow.names)
    return Table(names, _rows(file, names))


@contextmanager
def _broken_told() -> Iterator[None]:
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:  # a broken part can surface as any of Arrow's errors, or as one of Python's
        reason = shown(str(error).split("\n")[0] or type(error).__name__, 200)
        raise DataError.of(ProblemCode.BROKEN_PARQUET, reason=reason) from error


def _check_claims(file: Any) -> None:
    metadata = file.metadata
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    check_size(metadata.num_rows, "rows", MAX_ROWS)
    check_size(sum(group.total_byte_size for group in groups), "unpacked bytes", MAX_UNPACKED_BYTES)
    # Arrow 26 aborts the whole process when a broken file is asked for its columns: a scan refuses it first.
    file.scan_contents()
    values = sum(group.column(place).num_values for group in groups for place in range(group.num_columns))
    check_size(values, "values", MAX_VALUES)


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
    with _broken_told():
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            columns = [_values(column) for column in batch.columns]
            for cells in zip(*columns, strict=True):
                yield RawRow(next(number), dict(zip(names, cells, strict=True)))


def _values(column: Any) -> list[Any]:
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:  # texts that are not UTF-8 stay bytes, and are mended cell by cell
        return list(column.cast(pa.binary()).to_pylist())
