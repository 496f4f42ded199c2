"""A set's passages on disk: an Arrow file that every process maps into memory, and shares, instead of reading it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from data.passages import SCHEMA, Passages
from data.workspace import read_json, write_json

FILE = "passages.arrow"
_SEAL = "passages.json"  # what the file was when its content was last known
_OLDER = "passages.parquet"  # sets kept before there was an Arrow file
_BLOCK_ROWS = 1 << 16


def write_passages(folder: Path, passages: Passages) -> None:
    """Write the passages into a folder that is not in use yet."""
    with pa.OSFile(str(folder / FILE), "wb") as file, pa.ipc.new_file(file, SCHEMA) as writer:
        writer.write_table(passages.table, max_chunksize=_BLOCK_ROWS)
    _seal(folder, passages.fingerprint)


def open_passages(folder: Path) -> Passages:
    """Map the passages of a folder into memory; those of an older one are read.

    A file that has the size and time it had when its content was known is taken to hold that. Any other is read
    through, which tells its fingerprint. Raises `OSError` or an Arrow error where there is none to be read.
    """
    path = folder / FILE
    if not path.exists():
        return Passages(pq.read_table(folder / _OLDER, schema=SCHEMA))
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    seal = read_json(folder / _SEAL)
    if seal.get("file") == _state(path):
        return Passages(table, known=str(seal.get("fingerprint")))
    table.validate(full=True)  # a damaged file may point anywhere
    return Passages(table)


def _seal(folder: Path, fingerprint: str) -> None:
    write_json(folder / _SEAL, {"fingerprint": fingerprint, "file": _state(folder / FILE)})


def _state(path: Path) -> list[Any]:
    told = path.stat()
    return [told.st_size, told.st_mtime_ns]
