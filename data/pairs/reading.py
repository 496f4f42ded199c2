"""The public way in: the bytes of some files become one set of pairs, and a list of what was wrong with them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace

import numpy as np
import pandas as pd

from data.files.cells import shown
from data.files.content import Content
from data.files.formats import Format
from data.files.opening import Proposal, collector_paused, set_name
from data.pairs.assembly import GatheredPairs, PairAssembly
from data.pairs.columns import PairColumns
from data.pairs.opening import OpenedFile, opened
from data.pairs.records import PARTS, Label, PairKind, PairSet
from data.pairs.values import Scale, Values, guessed_kind, part_in_name, without_part
from data.problems import DataError, Problem, ProblemCode
from data.split import Part

LEAST_ROWS = 10


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
        if self.scale is not None and not -np.inf < self.scale[0] < self.scale[1] < np.inf:
            raise ValueError("the scale must be two numbers, the lower one first")
        if Part.ALL in self.parts:
            raise ValueError("a file is published for training, validation or test, or for none of them")


@dataclass(frozen=True)
class FileReading:
    """One file of a set, and what was understood of it.

    `problems` are the first of the rows left out and the first others; `problem_count` counts all, `left_out` the rows.
    `rejected` shows the first rows left out, `(n_rejected, 2 + columns)`: row, problem, then the row's own content.
    """

    name: str
    format: Format
    encoding: str
    part: Part | None
    columns: PairColumns
    available_columns: tuple[str, ...]
    first_rows: tuple[dict[str, str], ...] = field(repr=False)
    problems: tuple[Problem, ...]
    problem_count: int
    left_out: int
    row_count: int
    rejected: pd.DataFrame = field(repr=False, compare=False)


@dataclass(frozen=True)
class PairReading:
    """A set of pairs, and the files it was read from."""

    pairs: PairSet
    files: tuple[FileReading, ...]

    @property
    def left_out(self) -> int:
        """How many rows cannot be used."""
        return sum(file.left_out for file in self.files)


def read_pairs(files: Sequence[tuple[bytes | Content, str]], options: PairOptions | None = None) -> PairReading:
    """Read the content of some files, each with its name, into one set.

    The format of each is told by content, and what `options` do not say is guessed: columns by their names, the kind by
    what stands beside the sentences, the scale by the scores, and the part by the file's name or a column of its own.
    Rows that cannot be used are left out and listed. Raises `DataError` (whose detail `file` names the file, where it
    is of one) for a file that cannot be read, has no sentences, or too few rows, and where all scores or labels are
    equal; `ValueError` where `options` have another number of parts than there are files.
    """
    options = options or PairOptions()
    found = []
    for content, name in files:
        with _told_of(name):
            found.append(opened(Content.of(content), name, options.columns))
    by_role = {role: _values(found, role) for role in ("score", "label")}
    kind = options.kind or guessed_kind(min(len(file.columns.sentences) for file in found), **by_role)
    gathered = GatheredPairs(kind, _scale(kind, by_role, options))
    with collector_paused():
        parts = options.parts or [_part_in(file.name) for file in found]
        read = [_read(file, part, gathered) for file, part in zip(found, parts, strict=True)]
    if not len(gathered) and (bad := next((assembly for assembly, _ in read if assembly.rejection.rows), None)):
        raise bad.rejection.no_good(ProblemCode.NO_GOOD_ROW, sum(assembly.row_count for assembly, _ in read))
    pairs = gathered.pairs(_name([file.name for file in found]))
    _require_use(pairs)
    return PairReading(pairs, tuple(reading for _, reading in read))


def propose_pair_columns(content: bytes | Content, name: str = "") -> Proposal[PairColumns]:
    """Return what can be chosen of a file, also where `read_pairs` misses a column. Raises `DataError`."""
    return opened(Content.of(content), name, {}).proposal


@contextmanager
def _told_of(name: str) -> Iterator[None]:
    """Let an error say which file it is of."""
    try:
        yield
    except DataError as error:
        problem = replace(error.problem, details={**error.problem.details, "file": shown(name, 80)})
        raise DataError(problem, error.others) from error


def _values(files: Sequence[OpenedFile], role: str) -> Values | None:
    found = [values for file in files if (values := file.values(role)) is not None]
    return Values.together(found) if found else None


def _scale(kind: PairKind, by_role: Mapping[str, Values | None], options: PairOptions) -> Scale:
    if kind is not PairKind.SCORED:
        return 0.0, 0.0
    low, high = options.scale or (by_role["score"] or by_role["label"] or Values()).scale()
    return float(low), float(high)


def _part_in(name: str) -> Part | None:
    place = part_in_name(set_name(name, ""))
    return None if place < 0 else PARTS[place]


def _read(file: OpenedFile, part: Part | None, gathered: GatheredPairs) -> tuple[PairAssembly, FileReading]:
    with _told_of(file.name):
        fitted = file.fitted(gathered.kind)
        assembly = PairAssembly(fitted.columns, -1 if part is None else PARTS.index(part), gathered)
        for problem in file.recognised.problems:
            assembly.rejection.problems.add(problem)
        for row in fitted.rows():
            assembly.add(row)
    problems = assembly.rejection.problems
    return assembly, FileReading(
        name=file.name,
        format=file.recognised.format,
        encoding=file.recognised.encoding,
        part=part,
        columns=fitted.columns,
        available_columns=file.available,
        first_rows=file.first_rows,
        problems=tuple(problems.kept),
        problem_count=problems.total,
        left_out=problems.left_out,
        row_count=assembly.row_count,
        rejected=assembly.rejection.table(),
    )


def _require_use(pairs: PairSet) -> None:
    """Raise `DataError` for a set too small to be split, or whose values tell no row from another."""
    if len(pairs) < LEAST_ROWS:
        raise DataError.of(ProblemCode.TOO_FEW_ROWS, rows=len(pairs), least=LEAST_ROWS)
    if len(np.unique(pairs.values)) == 1:
        value = pairs.values[0]
        told = Label(value).name.lower() if pairs.kind is PairKind.LABELLED else f"{value:g}"
        raise DataError.of(ProblemCode.ONE_VALUE, rows=len(pairs), value=told)


def _name(names: Sequence[str]) -> str:
    """The name of one file, and of several what they are called without the words of their parts."""
    plain = [set_name(name, "pairs") for name in names]
    if len(plain) > 1:
        plain = list(dict.fromkeys(without_part(name) or "pairs" for name in plain))
    return shown(", ".join(plain), 200)
