"""Reads the cells of a row by role, collects the rows left out, and reports on files."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from itertools import chain, islice
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import BeforeValidator, InstanceOf, PlainSerializer

from mrc_workbench.data.formats import tables
from mrc_workbench.data.formats.opening import Format, RecognisedFile
from mrc_workbench.data.formats.tables import UNKNOWN_START, CellError, RawRow, describe_kind, display_text
from mrc_workbench.data.problems import DataError, Problem, ProblemCode, Problems

MAX_BAD_ROWS = 100_000  # at the beginning of a file, before it is rejected
_MAX_DISPLAYED_COLUMNS = 100  # each row of JSON may have other columns
_MAX_CELL_CHARACTERS = 10_000
_MAX_DISPLAYED_CHARACTERS = 32_000_000  # of all rows left out


@dataclass(slots=True)
class RowReader:
    """Reads one row, and records mended characters, dropped cells and the problem of the row."""

    row: RawRow
    columns: object  # a dataclass of column names by role
    has_marks: bool = True  # whether texts such as "-" and "N/A" mark empty optional cells
    mended: bool = False
    dropped: Problem | None = None  # of the first invalid cell that was read as empty
    problem: Problem | None = None
    blanks: tuple[tuple[str, str], ...] = ()  # columns and marks that were read as empty

    def cell(self, role: str) -> object:
        name = getattr(self.columns, role)
        return None if name is None else self.row.cells.get(name)

    def text(self, role: str, empty: ProblemCode | None = None) -> str:
        """Return the text of a role, or "". `empty` is the problem of an empty text, for a required role."""
        name = getattr(self.columns, role)
        value = None if name is None else self.row.cells.get(name)
        if type(value) is str:
            text = value.strip()
            if not text.isprintable():
                text = self.mend_text(text)
        elif value is None and empty is None:
            return ""
        elif tables.is_collection(value) or isinstance(value, CellError):
            return self._no_text(role, value, empty)
        else:
            text = self.mend_text(self._decoded(value))
        if empty is None and self._is_mark(role, text):
            text = ""
        if not text and empty is not None:
            self.refuse(empty, role)
        if len(text) <= tables.MAX_CHARACTERS:
            return text
        if empty is None:
            self._drop(role, "too long a text")
        else:
            self.refuse(ProblemCode.TOO_LONG, role, size=len(text), limit=tables.MAX_CHARACTERS)
        return ""

    def _no_text(self, role: str, value: object, empty: ProblemCode | None) -> str:
        if empty is None:
            self._drop(role, value)
        elif isinstance(value, CellError):
            self.refuse(ProblemCode.FORMULA_ERROR, role, error=str(value))
        else:
            self.refuse(ProblemCode.NOT_TEXT, role, found=describe_kind(value))
        return ""

    def answers(self) -> dict[str, int]:
        """Return the distinct answers with their start in the passage, or -1; none if there are too many."""
        value = self.cell("answers")
        if getattr(self.columns, "start", None) is not None:
            value = tables.with_starts(value, self.cell("start"))
        if isinstance(value, str) and self._is_mark("answers", value.strip()):
            return {}
        if isinstance(value, CellError):
            self._drop("answers", value)
        elif isinstance(value, str) and len(value) > tables.MAX_CHARACTERS:
            self._drop("answers", "too long a text")
        else:
            answer_starts = tables.answers_in(self._decoded(value) if isinstance(value, bytes) else value)
            if len(answer_starts) <= tables.MAX_ANSWERS:
                context = self.cell("context")  # stored without white space at its ends
                cut = len(context) - len(context.lstrip()) if isinstance(context, str) else 0
                return {self.mend_text(text): max(start - cut, UNKNOWN_START) for text, start in answer_starts.items()}
            self._drop("answers", "too many answers")
        return {}

    def _is_mark(self, role: str, text: str) -> bool:
        if not self.has_marks or not tables.is_empty_mark(text):
            return False
        self.blanks = (*self.blanks, (self.column(role), text))
        return True

    def is_refused(self) -> bool:
        return self.problem is not None

    def refuse(self, code: ProblemCode, role: str, **details: str | int) -> None:
        self.problem = Problem.from_code(code, self.row.number, column=self.column(role), **details)

    def column(self, role: str) -> str:
        return display_text(getattr(self.columns, role), 80)

    def mend_text(self, text: str) -> str:
        if tables.is_valid_xml(text):
            return text
        self.mended = True
        return tables.mend_text(text).strip()

    def _decoded(self, value: object) -> str:
        text = tables.as_text(value)
        if isinstance(value, bytes) and tables.REPLACEMENT in text:
            self.mended |= tables.REPLACEMENT.encode() not in value
        return text

    def _drop(self, role: str, value: object) -> None:
        description = value if isinstance(value, str) else describe_kind(value)
        if isinstance(value, CellError):
            description = f"the formula error {value}"
        details = {"column": self.column(role), "found": description}
        self.dropped = self.dropped or Problem.from_code(ProblemCode.DROPPED_CELL, self.row.number or None, **details)


@dataclass
class Rejection:
    """The problems of files, and the first rows left out with their cells as text."""

    problems: Problems = field(default_factory=Problems)
    file: str | None = None  # the current one of several files, for the names in problems
    rows: list[tuple[Problem, dict[str, str]]] = field(default_factory=list)
    _characters_left: int = _MAX_DISPLAYED_CHARACTERS
    _blanks: dict[tuple[str | None, str], Counter[str]] = field(default_factory=dict)  # by file and column

    def begin(self, recognised: RecognisedFile, file: str | None = None) -> None:
        self.file = file
        for problem in recognised.problems:
            self.problems.add(self._named(problem))

    def add(self, row: RawRow, problem: Problem, *, has_good_rows: bool) -> None:
        """Add a problem of a row. Raises `DataError` after very many rows without a good one."""
        problem = self._named(problem)
        is_recorded = self.problems.add(problem)
        if problem.leaves_out_row and is_recorded:
            items = islice(row.cells.items(), _MAX_DISPLAYED_COLUMNS if self._characters_left > 0 else 0)
            cells = {name: display_text(cell, _MAX_CELL_CHARACTERS) for name, cell in items}
            self._characters_left -= sum(map(len, cells.values()))
            self.rows.append((problem, cells))
        if self.problems.total == MAX_BAD_ROWS and not has_good_rows:
            raise self.no_good_rows_error(ProblemCode.NO_GOOD_START, self.problems.total)

    def note(self, reader: RowReader) -> None:
        if reader.dropped is not None:
            self.problems.add(self._named(reader.dropped))
        for column, mark in reader.blanks:
            self._blanks.setdefault((self.file, column), Counter())[mark] += 1
        if reader.mended:
            self.problems.add(self._named(Problem.from_code(ProblemCode.MENDED_TEXT, reader.row.number or None)))

    def report(self, notices: Iterable[Problem]) -> None:
        for notice in notices:
            self.problems.add(notice)

    def note_blanks(self) -> None:
        for (file, column), marks in self._blanks.items():
            details: dict[str, str | int] = {"column": column, "marks": ", ".join(marks), "count": marks.total()}
            details |= {} if file is None else {"file": file}
            self.problems.add(Problem.from_code(ProblemCode.BLANK_MARKS, **details))
        self._blanks.clear()

    def _named(self, problem: Problem) -> Problem:
        return problem if self.file is None else replace(problem, details={**problem.details, "file": self.file})

    def no_good_rows_error(self, code: ProblemCode, rows: int) -> DataError:
        recorded = self.problems.recorded
        first = next((problem for problem in recorded if problem.leaves_out_row), recorded[0])
        return DataError(Problem.from_code(code, rows=rows, first=first.message), recorded)

    def no_rows_left_error(self, rows: int) -> DataError:
        if self.rows:
            return self.no_good_rows_error(ProblemCode.NO_GOOD_ROW, rows)
        return DataError(Problem.from_code(ProblemCode.NO_QUESTION), self.problems.recorded)

    def table(self) -> pd.DataFrame:
        """Return the rows left out, `(n_rejected, 2 + columns)`: row, problem, then the cells as text."""
        names = list(dict.fromkeys(chain.from_iterable(cells for _, cells in self.rows)))[:_MAX_DISPLAYED_COLUMNS]
        rows = (
            [problem.row, problem.message, *(cells.get(name, "") for name in names)] for problem, cells in self.rows
        )
        return pd.DataFrame(list(rows), columns=list(tables.column_names(["row", "problem", *names])))


AddRow = Callable[[RowReader], Problem | None]


class DatasetBuilder(ABC):
    """Builds a dataset from rows: `row_count` is the number of rows read, `rejection` has the rows left out."""

    def __init__(self) -> None:
        self.rejection = Rejection()
        self.row_count = 0

    @abstractmethod
    def has_good_rows(self) -> bool:
        """Whether any row could be used."""

    def read_rows(self, rows: Iterable[RawRow], columns: object, add_row: AddRow, *, has_marks: bool = True) -> None:
        """Read rows; `add_row` returns the problem of a row, or None. Raises `DataError` if none of many is good."""
        for row in rows:
            self.row_count += row.is_question
            reader = RowReader(row, columns, has_marks)
            problem = row.problem or add_row(reader)
            if problem is None:
                self.rejection.note(reader)
            else:
                self.rejection.add(row, problem, has_good_rows=self.has_good_rows())


FirstRows = tuple[dict[str, str], ...]
Frame = Annotated[
    InstanceOf[pd.DataFrame],
    BeforeValidator(lambda value: value if isinstance(value, pd.DataFrame) else pd.DataFrame(**value)),
    PlainSerializer(lambda table: {"columns": list(table.columns), "data": table.to_numpy().tolist()}),
]


@dataclass(frozen=True, kw_only=True)
class FileReading:
    """The report on one file; each of its columns is used, metadata (stored but not searched) or unused."""

    format: Format
    encoding: str
    available_columns: tuple[str, ...]
    first_rows: FirstRows = field(repr=False)  # cells by column
    problems: tuple[Problem, ...]  # the first ones of rows left out, and the first others
    problem_count: int
    left_out: int  # rows
    row_count: int
    rejected: Frame = field(repr=False, compare=False)  # the first rows left out: row, problem, cells
    used_columns: tuple[str, ...] = ()
    metadata_columns: tuple[str, ...] = ()
    unused_columns: tuple[str, ...] = ()


def reading_fields(
    recognised: RecognisedFile, rejection: Rejection, names: tuple[str, ...], first_rows: FirstRows, row_count: int
) -> dict[str, Any]:
    """Return values for the fields of a `FileReading`."""
    rejection.note_blanks()
    return {
        "format": recognised.format,
        "encoding": recognised.encoding,
        "available_columns": names,
        "first_rows": first_rows,
        "problems": tuple(rejection.problems.recorded),
        "problem_count": rejection.problems.total,
        "left_out": rejection.problems.left_out,
        "row_count": row_count,
        "rejected": rejection.table(),
    }


_MAX_DISPLAYED_PROBLEMS = 10


def problem_lines(reading: FileReading, location: str = "") -> list[str]:
    """Return the number of problems and the first problems; `location` names the file, such as " in dev.tsv"."""
    if not reading.problems:
        return [f"Problems{location}: none"]
    lines = [f"Problems{location}: {reading.problem_count:,}; rows left out: {reading.left_out:,}"]
    lines += [f"  {problem.message}" for problem in reading.problems[:_MAX_DISPLAYED_PROBLEMS]]
    more = reading.problem_count - min(len(reading.problems), _MAX_DISPLAYED_PROBLEMS)
    return [*lines, f"  and {more:,} more"] if more else lines


def column_lines(reading: FileReading, roles: Any, location: str = "") -> list[str]:
    """Return the columns by use, without those in `roles`; `location` as for `problem_lines`."""
    listed = set(asdict(roles).values()) if roles is not None else set()
    lists = {
        "Used columns": [name for name in reading.used_columns if name not in listed],
        "Metadata columns": reading.metadata_columns,
        "Unused columns": reading.unused_columns,
    }
    return [f"{title}{location}: {', '.join(names)}" for title, names in lists.items() if names]


def format_columns(columns: Any) -> str:
    """Return the columns of a dataclass of names by role, such as "question <- 질문, context <- 지문"."""
    return ", ".join(f"{role} <- {name}" for role, name in asdict(columns).items() if name is not None)


def format_range(lengths: np.ndarray) -> str:
    """Return the median and the range of lengths."""
    return f"median {np.median(lengths):,.0f}, {lengths.min():,} to {lengths.max():,}" if len(lengths) else "none"


def format_counts(counts: Mapping[Any, int]) -> str:
    """Return counts by name, such as "train 8, test 2"."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def reading_as_json(reading: FileReading, columns: Any) -> dict[str, Any]:
    """Return the report on a file as JSON; `columns` is a dataclass of names by role, or None."""
    return {
        "format": reading.format,
        "encoding": reading.encoding,
        "columns": asdict(columns) if columns else None,
        "available_columns": reading.available_columns,
        "row_count": reading.row_count,
        "rows_left_out": reading.left_out,
        "problem_count": reading.problem_count,
        "problems": [
            {"code": problem.code, "row": problem.row, "message": problem.message} for problem in reading.problems
        ],
    }


def columns_as_json(reading: FileReading) -> dict[str, tuple[str, ...]]:
    """Return the columns by use."""
    return {use: getattr(reading, use) for use in ("used_columns", "metadata_columns", "unused_columns")}


def value_as_json(value: object) -> object:
    """Return a dataclass as a dict, an array as its minimum, median, mean and maximum, and NaN as None."""
    if isinstance(value, np.ndarray):
        numbers = value[~np.isnan(value)]
        names = ("min", "median", "mean", "max") if len(numbers) else ()
        return {name: float(getattr(np, name)(numbers)) for name in names} or None
    if is_dataclass(value):
        return {field.name: value_as_json(getattr(value, field.name)) for field in fields(value)}
    return None if isinstance(value, float) and math.isnan(value) else value
