"""Sets of pairs read in a process of its own, and how they cross from it: the rows as columns, the rest as JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from data.apart.exchange import File, Work
from data.apart.reading import carried_out
from data.formats.columns import PairColumns
from data.formats.opening import Proposal, file_content
from data.formats.text import Content
from data.pairs.reading import PairFileReading, PairOptions, PairReading, propose_pair_columns, read_pairs
from data.pairs.records import open_pairs, write_pairs


def read_pair_files_apart(paths: Sequence[Path], options: PairOptions | None = None) -> PairReading:
    """Read files from disk in a process of its own; see `read_pairs_apart`."""
    return read_pairs_apart([(file_content(path), path.name) for path in paths], options)


def read_pairs_apart(files: Sequence[tuple[bytes | Content, str]], options: PairOptions | None = None) -> PairReading:
    """Read files as `data.pairs.reading.read_pairs` does, in a process of its own.

    Raises `UnusableFileError`, also where reading takes more than its `Limits` or the process ends, and `OSError` where
    the disk is full.
    """
    given = [File(Content.of(content), name) for content, name in files]
    return carried_out(WORK, given, _OPTIONS.dump_python(options or PairOptions(), mode="json"))


def _read(files: Sequence[File], options: Mapping[str, Any]) -> PairReading:
    return read_pairs(files, _OPTIONS.validate_python(options))


def _propose(files: Sequence[File]) -> Proposal[PairColumns]:
    return propose_pair_columns(*files[0])


def _leave(folder: Path, reading: PairReading) -> dict[str, Any]:
    write_pairs(folder, reading.pairs)
    return {"name": reading.pairs.name, "files": _FILES.dump_python(reading.files, mode="json")}


def _open(folder: Path, found: dict[str, Any]) -> PairReading:
    return PairReading(open_pairs(folder, found["name"]), _FILES.validate_python(found["files"]))


_OPTIONS, _FILES = TypeAdapter(PairOptions), TypeAdapter(tuple[PairFileReading, ...])
WORK = Work("pairs", PairColumns, _read, _propose, _leave, _open)
