"""The public way in: the bytes of some files become one set of pairs, and a list of what was wrong with them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from data.apart import File, Work, carried_out
from data.formats.columns import (
    PAIR_NAMES,
    SENTENCES,
    Cells,
    PairColumns,
    guess_pair_columns,
    is_pair_column,
    require_columns,
    wanted_names,
)
from data.formats.encodings.detection import ENCODING_PROBLEMS
from data.formats.opening import (
    Format,
    Proposal,
    RecognisedFile,
    collector_paused,
    file_content,
    looked_at,
    recognise,
    set_name,
    table_opener,
    told_of,
)
from data.formats.rows import FileReading, understood
from data.formats.tables import RawRow, Table, as_text, is_blank, is_collection, shown
from data.formats.text import Content, encodings_to_choose, line_table
from data.pairs.assembly import (
    LARGEST,
    GatheredPairs,
    PairAssembly,
    Scale,
    Values,
    guessed_kind,
    part_in_name,
    without_part,
)
from data.pairs.records import Label, PairKind, PairSet, open_pairs, write_pairs
from data.problems import DataError, Problem, ProblemCode
from data.split import PARTS, Part

LEAST_ROWS = 10
_SQUAD = ("data", "paragraphs", "qas")  # what such a file has in place of columns


@dataclass(frozen=True)
class PairOptions:
    """What is told and not guessed: names of columns by role, the kind, the ends of the scale, and each file's part.

    Without `parts` the names of the files tell them; None is of no published part. Raises `ValueError`.
    """

    columns: Mapping[str, str | None] = field(default_factory=dict)
    kind: PairKind | None = None
    scale: Scale | None = None
    parts: tuple[Part | None, ...] = ()

    def __post_init__(self) -> None:
        if unknown := self.columns.keys() - {role.name for role in fields(PairColumns)}:
            raise ValueError(f"no roles of columns: {', '.join(sorted(unknown))}")
        if self.scale is not None and not -LARGEST <= self.scale[0] < self.scale[1] <= LARGEST:
            raise ValueError(f"the scale must be two numbers up to {LARGEST:g}, the lower one first")
        if Part.ALL in self.parts:
            raise ValueError("a file is published for training, validation or test, or for none of them")


@dataclass(frozen=True, kw_only=True)
class PairFileReading(FileReading):
    """One file of a set, and what was understood of it. `part` is None where it was published for none."""

    name: str
    part: Part | None
    columns: PairColumns


@dataclass(frozen=True)
class PairReading:
    """A set of pairs, and the files it was read from."""

    pairs: PairSet
    files: tuple[PairFileReading, ...]

    @property
    def left_out(self) -> int:
        """How many rows cannot be used."""
        return sum(file.left_out for file in self.files)


def read_pairs(files: Sequence[tuple[bytes | Content, str]], options: PairOptions | None = None) -> PairReading:
    """Read the content of some files, each with its name, into one set.

    The format of each is told by content, and what `options` do not say is guessed: columns by their names, the kind by
    what stands beside the sentences, the scale by the scores, and the part by the file's name or a column of its own.
    Rows that cannot be used are left out and listed. Raises `DataError` for a file that cannot be read or has no
    sentences (of several, the detail `file` names it), for too few rows, and where all scores or labels are equal;
    `ValueError` where `options` have another number of parts than there are files.
    """
    options = options or PairOptions()
    is_told = options.kind is not None and (options.kind is not PairKind.SCORED or options.scale is not None)
    opened: list[_OpenedFile] = []
    values: dict[str, list[Values]] = {"score": [], "label": []}
    with collector_paused():
        for content, name in files:
            with told_of(name, files):
                file = _opened(Content.of(content), name, options.columns)
                opened.append(file)
                for role, found in values.items():
                    if not is_told and (column := getattr(file.columns, role)) is not None:
                        found.append(file.values(column))
        gathered = GatheredPairs(*_meaning(opened, values, options))
        read = list(_read_all(opened, options, gathered))
    problems = [problem for reading in read for problem in reading.problems]
    if not len(gathered) and any(reading.left_out for reading in read):
        rows, first = sum(reading.row_count for reading in read), next(one for one in problems if one.leaves_out_row)
        raise DataError(Problem.of(ProblemCode.NO_GOOD_ROW, rows=rows, first=first.message), problems)
    pairs = gathered.pairs(_name([file.name for file in read]))
    if useless := _useless(pairs):
        raise DataError(useless, problems)
    return PairReading(pairs, tuple(read))


def propose_pair_columns(content: bytes | Content, name: str = "") -> Proposal[PairColumns]:
    """Return what can be chosen of a file, also where `read_pairs` misses a column. Raises `DataError`."""
    file = _opened(Content.of(content), name, {})
    return Proposal(file.columns, file.available, file.first_rows)


def read_pair_files_apart(paths: Sequence[Path], options: PairOptions | None = None, encoding: str = "") -> PairReading:
    """Read files from disk in a process of its own; see `read_pairs_apart`.

    `encoding` is that of their text; if empty, it is detected.
    """
    return read_pairs_apart([(Content(file_content(path).source, encoding), path.name) for path in paths], options)


def read_pairs_apart(files: Sequence[tuple[bytes | Content, str]], options: PairOptions | None = None) -> PairReading:
    """Read files as `read_pairs` does, in a process of its own.

    Raises `UnusableFileError`, also where reading takes more than its `Limits` or the process ends, and `OSError` where
    the disk is full.
    """
    given = [File(Content.of(content), name) for content, name in files]
    return carried_out(WORK, given, _OPTIONS.dump_python(options or PairOptions(), mode="json"))


@dataclass(frozen=True)
class _OpenedFile:
    """A file to be read. An object in a cell is columns of its own, such as `labels.label` of KLUE-STS."""

    name: str
    recognised: RecognisedFile = field(repr=False)
    table: Callable[[], Table] = field(repr=False)  # opened anew at each call
    columns: PairColumns
    available: tuple[str, ...]
    first_rows: tuple[dict[str, str], ...] = field(repr=False)
    objects: tuple[str, ...]  # the columns that hold objects

    def rows(self) -> Iterator[RawRow]:
        for row in self.table().rows:
            yield row._replace(cells=_flat(row.cells, self.objects)) if self.objects else row

    def values(self, column: str) -> Values:
        found = Values()
        for row in self.rows():
            value = None if row.problem else row.cells.get(column)
            found.add("" if is_collection(value) else as_text(value))
        return found

    def fitted(self, kind: PairKind) -> "_OpenedFile":
        """Return the file with the columns that rows of a kind are read from. Raises `DataError` where one is missing.

        A label that is a number can be a score, and what is called a score can be a label.
        """
        columns = self.columns
        if kind is PairKind.SCORED:
            columns = replace(columns, score=columns.score or columns.label, label=None)
        elif kind is PairKind.LABELLED:
            columns = replace(columns, label=columns.label or columns.score, score=None)
        else:
            columns = replace(columns, label=None, score=None)
        columns = replace(columns, **dict.fromkeys(SENTENCES[kind.width :]))
        value = {PairKind.SCORED: ("score",), PairKind.LABELLED: ("label",)}.get(kind, ())
        for role in (*SENTENCES[: kind.width], *value):
            if getattr(columns, role) is None:
                found, wanted = shown(", ".join(self.available), 300), wanted_names(PAIR_NAMES[role])
                if role == SENTENCES[0]:
                    raise DataError.of(ProblemCode.NO_SENTENCE, found=found, wanted=wanted)
                flags = f"--columns {role}=NAME"
                raise DataError.of(ProblemCode.MISSING_COLUMN, role=role, found=found, wanted=wanted, flags=flags)
        return replace(self, columns=columns)


def _opened(content: Content, name: str, chosen: Mapping[str, str | None]) -> _OpenedFile:
    """Open a file; columns that are not chosen are guessed."""
    recognised = recognise(content, is_pair_column, name)
    if recognised.format is Format.SQUAD:
        return _OpenedFile(name, recognised, lambda: Table((), ()), PairColumns(), _SQUAD, (), ())
    lines = recognised.text if recognised.format is Format.TEXT else None
    opener = partial(line_table, lines) if lines is not None else table_opener(content, recognised)
    table, sample = looked_at(opener())
    filled = {name: [one for cells in sample if not is_blank(one := cells.get(name))] for name in table.names}
    # most cells of the column: a few among texts are slips
    objects = tuple(name for name, held in filled.items() if 2 * sum(isinstance(one, dict) for one in held) > len(held))
    flat = [_flat(cells, objects) for cells in sample]
    names = tuple(dict.fromkeys(name for cells in (dict.fromkeys(table.names), *flat) for name in cells))
    names = tuple(name for name in names if name not in objects) if objects else table.names
    first_rows = looked_at(Table(names, (RawRow(0, cells) for cells in flat)))[0].first
    columns = replace(guess_pair_columns(names, flat), **chosen)
    require_columns(chosen, names)
    return _OpenedFile(name, recognised, opener, columns, names, first_rows, objects)


def _flat(cells: Cells, objects: Sequence[str]) -> Cells:
    """The cells with those of objects among them, named behind a dot."""
    flat: dict[str, object] = {}
    for name, value in cells.items():
        if name in objects and isinstance(value, dict):
            flat |= {f"{name}.{inner}": one for inner, one in value.items()}
        else:
            flat[name] = value
    return flat


def _meaning(
    files: Sequence[_OpenedFile], values: Mapping[str, Sequence[Values]], options: PairOptions
) -> tuple[PairKind, Scale]:
    """The kind of all files together and the scale of their scores, as given or guessed."""
    score, label = (Values.together(values[role]) if values[role] else None for role in ("score", "label"))
    kind = options.kind or guessed_kind(min(len(file.columns.sentences) for file in files), score, label)
    if kind is not PairKind.SCORED:
        return kind, (0.0, 0.0)
    low, high = options.scale or (score or label or Values()).scale()
    return kind, (float(low), float(high))


def _read_all(files: Sequence[_OpenedFile], options: PairOptions, gathered: GatheredPairs) -> Iterator[PairFileReading]:
    places = [part_in_name(set_name(file.name, "")) for file in files]
    parts = options.parts or [None if place < 0 else PARTS[place] for place in places]
    for file, part in zip(files, parts, strict=True):
        with told_of(file.name, files):
            fitted = file.fitted(gathered.kind)
            assembly = PairAssembly(fitted.columns, -1 if part is None else PARTS.index(part), gathered)
            assembly.rejection.begin(file.recognised)
            for row in fitted.rows():
                assembly.add(row)
            assembly.end()
            told = understood(file.recognised, assembly.rejection, file.available, file.first_rows, assembly.row_count)
            yield PairFileReading(name=file.name, part=part, columns=fitted.columns, **told)


def _useless(pairs: PairSet) -> Problem | None:
    """Why a set is too small to be split, or its values tell no row from another; None where it can be used."""
    if len(pairs) < LEAST_ROWS:
        return Problem.of(ProblemCode.TOO_FEW_ROWS, rows=len(pairs), least=LEAST_ROWS)
    if len(np.unique(pairs.values)) != 1:
        return None
    value = pairs.values[0]
    told = Label(value).name.lower() if pairs.kind is PairKind.LABELLED else f"{value:g}"
    return Problem.of(ProblemCode.ONE_VALUE, rows=len(pairs), value=told)


def _name(names: Sequence[str]) -> str:
    """The name of one file, and of several what they are called without the words of their parts."""
    plain = [set_name(name, "pairs") for name in names]
    if len(plain) > 1:
        plain = list(dict.fromkeys(without_part(name) or "pairs" for name in plain))
    return shown(", ".join(plain), 200)


def _proposed(files: Sequence[File]) -> Proposal[PairColumns]:
    try:
        return propose_pair_columns(*files[0])
    except DataError as error:
        if error.problem.code not in ENCODING_PROBLEMS:
            raise
        return Proposal(PairColumns(), encodings=encodings_to_choose(file.content for file in files))


def _leave(folder: Path, reading: PairReading) -> dict[str, Any]:
    write_pairs(folder, reading.pairs)
    return {"name": reading.pairs.name, "files": _FILES.dump_python(reading.files, mode="json")}


_OPTIONS, _FILES = TypeAdapter(PairOptions), TypeAdapter(tuple[PairFileReading, ...])
WORK = Work(
    "pairs",
    PairColumns,
    read=lambda files, options: read_pairs(files, _OPTIONS.validate_python(options)),
    propose=_proposed,
    leave=_leave,
    open=lambda folder, told: PairReading(open_pairs(folder, told["name"]), _FILES.validate_python(told["files"])),
)
