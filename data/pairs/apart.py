"""Sets of pairs read in a process of its own, and how they cross from it: the rows as columns, the rest as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from data.apart.exchange import File, Work, problem_of, table_left
from data.apart.reading import carried_out
from data.formats.columns import PairColumns
from data.formats.opening import Format, Proposal, file_content
from data.formats.text import Content
from data.pairs.reading import FileReading, PairOptions, PairReading, propose_pair_columns, read_pairs
from data.pairs.records import PairKind, open_pairs, write_pairs
from data.split import Part


def read_pair_files_apart(paths: Sequence[Path], options: PairOptions | None = None) -> PairReading:
    """Read files from disk in a process of its own; see `read_pairs_apart`."""
    return read_pairs_apart([(file_content(path), path.name) for path in paths], options)


def read_pairs_apart(files: Sequence[tuple[bytes | Content, str]], options: PairOptions | None = None) -> PairReading:
    """Read files as `data.pairs.reading.read_pairs` does, in a process of its own.

    Raises `UnusableFileError`, also where reading takes more than its `Limits` or the process ends, and `OSError` where
    the disk is full.
    """
    given = [File(Content.of(content), name) for content, name in files]
    return carried_out(WORK, given, asdict(options or PairOptions()))


def _read(files: Sequence[File], options: Mapping[str, Any]) -> PairReading:
    kind, scale = options["kind"], options["scale"]
    parts = tuple(None if part is None else Part(part) for part in options["parts"])
    told = PairOptions(
        options["columns"], None if kind is None else PairKind(kind), None if scale is None else tuple(scale), parts
    )
    return read_pairs(files, told)


def _propose(files: Sequence[File]) -> Proposal[PairColumns]:
    return propose_pair_columns(*files[0])


def _leave(folder: Path, reading: PairReading) -> dict[str, Any]:
    write_pairs(folder, reading.pairs)
    files = [vars(file) | {"rejected": table_left(file.rejected)} for file in reading.files]
    changed = ({"columns": asdict(file["columns"]), "problems": list(map(asdict, file["problems"]))} for file in files)
    return {"name": reading.pairs.name, "files": [file | new for file, new in zip(files, changed, strict=True)]}


def _open(folder: Path, found: dict[str, Any]) -> PairReading:
    return PairReading(open_pairs(folder, found["name"]), tuple(map(_file, found["files"])))


def _file(found: dict[str, Any]) -> FileReading:
    part = found.pop("part")
    return FileReading(
        format=Format(found.pop("format")),
        part=None if part is None else Part(part),
        columns=PairColumns(**found.pop("columns")),
        available_columns=tuple(found.pop("available_columns")),
        first_rows=tuple(found.pop("first_rows")),
        problems=tuple(map(problem_of, found.pop("problems"))),
        rejected=pd.DataFrame(**found.pop("rejected")),
        **found,
    )


WORK = Work("pairs", PairColumns, _read, _propose, _leave, _open)
