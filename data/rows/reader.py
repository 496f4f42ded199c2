"""The cells of one row by role, as text that can be kept."""

from dataclasses import dataclass

from data.files.cells import CellError, as_text, is_collection, is_fit, kind_of, mend, shown
from data.files.columns import Columns
from data.files.tables import RawRow
from data.problems import Problem, ProblemCode


@dataclass(slots=True)
class RowReader:
    """Reads one row, and remembers what was mended or unfit on the way."""

    row: RawRow
    columns: Columns
    mended: bool = False
    problem: Problem | None = None

    def cell(self, role: str) -> object:
        """Return what the cell of a role holds, None where there is no such column."""
        name = getattr(self.columns, role)
        return None if name is None else self.row.cells.get(name)

    def text(self, role: str, empty: ProblemCode | None = None) -> str:
        """Return the text of a role, "" where it has none; that is a problem where `empty` names one."""
        value = self.cell(role)
        if value is None and empty is None:
            return ""
        if type(value) is not str and (is_collection(value) or isinstance(value, CellError)):
            if empty is not None:
                self.problem = self._unfit(role, value)
            return ""
        text = self.fit(as_text(value))
        if not text and empty is not None:
            self.problem = Problem.of(empty, self.row.number, column=shown(getattr(self.columns, role), 80))
        return text

    def fit(self, text: str) -> str:
        """Return the text mended where it must be, and remember that."""
        if is_fit(text):
            return text
        self.mended = True
        return mend(text)

    def _unfit(self, role: str, value: object) -> Problem:
        column = shown(getattr(self.columns, role), 80)
        if isinstance(value, CellError):
            return Problem.of(ProblemCode.FORMULA_ERROR, self.row.number, column=column, error=str(value))
        return Problem.of(ProblemCode.NOT_TEXT, self.row.number, column=column, found=kind_of(value))
