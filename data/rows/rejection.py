"""Rows that are left out: the first of them are kept with their problem, to be mended."""

from dataclasses import dataclass, field
from itertools import chain, islice

import pandas as pd

from data.files.cells import shown
from data.files.tables import RawRow, column_names
from data.problems import DataError, Problem, ProblemCode, Problems

_MOST_BAD_ROWS = 100_000  # without a single good one: no set begins like that
_SHOWN_COLUMNS = 100  # rows of JSON can each name columns of their own
_SHOWN_CHARACTERS = 10_000  # of a cell
_MOST_SHOWN = 32_000_000  # characters of all rows left out


@dataclass
class Rejection:
    """The problems of a file, and the first rows they leave out with their cells as text."""

    problems: Problems = field(default_factory=Problems)
    rows: list[tuple[Problem, dict[str, str]]] = field(default_factory=list)
    _shown_left: int = _MOST_SHOWN

    def add(self, row: RawRow, problem: Problem, *, any_good: bool) -> None:
        """Count a problem of a row. Raises `DataError` where none of very many rows was good."""
        is_kept = self.problems.add(problem)
        if problem.leaves_out_row and is_kept:
            self.rows.append((problem, self._shown(row)))
        if self.problems.total == _MOST_BAD_ROWS and not any_good:
            raise self.no_good(ProblemCode.NO_GOOD_START, self.problems.total)

    def no_good(self, code: ProblemCode, rows: int) -> DataError:
        """Return the error for so many rows of which none can be used."""
        first = next((one for one in self.problems.kept if one.leaves_out_row), self.problems.kept[0]).message
        return DataError(Problem.of(code, rows=rows, first=first), self.problems.kept)

    def table(self) -> pd.DataFrame:
        """Return the rows left out, `(n_rejected, 2 + columns)`: row, problem, then the row's own content as text."""
        names = list(dict.fromkeys(chain.from_iterable(cells for _, cells in self.rows)))[:_SHOWN_COLUMNS]
        records = [
            [problem.row, problem.message, *(cells.get(name, "") for name in names)] for problem, cells in self.rows
        ]
        return pd.DataFrame(records, columns=list(column_names(["row", "problem", *names])))

    def _shown(self, row: RawRow) -> dict[str, str]:
        """The cells of a row as text, for whoever wants to mend it."""
        if self._shown_left <= 0:
            return {}
        cells = {name: shown(cell, _SHOWN_CHARACTERS) for name, cell in islice(row.cells.items(), _SHOWN_COLUMNS)}
        self._shown_left -= sum(map(len, cells.values()))
        return cells
