"""The cells of one row by role, as text that can be kept."""

from dataclasses import dataclass

from data.files.cells import (
    MOST_CHARACTERS,
    REPLACEMENT,
    CellError,
    as_text,
    is_collection,
    is_fit,
    kind_of,
    mend,
    shown,
)
from data.files.tables import RawRow
from data.problems import Problem, ProblemCode
from data.rows.answers import MOST_ANSWERS, answers_in


@dataclass(slots=True)
class RowReader:
    """Reads one row, and remembers what was mended, dropped or unfit on the way."""

    row: RawRow
    columns: object  # a dataclass that names the column of each role
    mended: bool = False
    dropped: Problem | None = None  # the first cell that was taken to be empty
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
            if empty is None:
                self._drop(role, value)
            else:
                self.problem = self._unfit(role, value)
            return ""
        text = self.fit(self._decoded(value))
        if len(text) > MOST_CHARACTERS:
            return self._too_long(role, text, empty)
        if not text and empty is not None:
            self.problem = Problem.of(empty, self.row.number, column=self._column(role))
        return text

    def answers(self) -> dict[str, int]:
        """Return the different answers, in order; none where there are more than anybody gave.

        Each with the letter of the row's passage at which it begins, -1 where nobody says.
        """
        value = self.cell("answers")
        if isinstance(value, CellError):
            self._drop("answers", value)
            return {}
        if isinstance(value, str) and len(value) > MOST_CHARACTERS:
            self._drop("answers", "too long a text")
            return {}
        found = answers_in(self._decoded(value) if isinstance(value, bytes) else value)
        if len(found) > MOST_ANSWERS:
            self._drop("answers", "too many answers")
            return {}
        context = self.cell("context")
        cut = len(context) - len(context.lstrip()) if isinstance(context, str) else 0  # of the passage as it is kept
        return {self.fit(text): max(start - cut, -1) for text, start in found.items()}

    def fit(self, text: str) -> str:
        """Return the text mended where it must be, and remember that."""
        if is_fit(text):
            return text
        self.mended = True
        return mend(text).strip()

    def _decoded(self, value: object) -> str:
        text = as_text(value)
        if isinstance(value, bytes) and REPLACEMENT in text:
            self.mended |= REPLACEMENT.encode() not in value
        return text

    def _column(self, role: str) -> str:
        return shown(getattr(self.columns, role), 80)

    def _too_long(self, role: str, text: str, empty: ProblemCode | None) -> str:
        if empty is None:
            self._drop(role, "too long a text")
        else:
            self.problem = Problem.of(
                ProblemCode.TOO_LONG, self.row.number, column=self._column(role), size=len(text), limit=MOST_CHARACTERS
            )
        return ""

    def _drop(self, role: str, value: object) -> None:
        if isinstance(value, CellError):
            found = f"the formula error {value}"
        else:
            found = value if isinstance(value, str) else kind_of(value)
        details = {"column": self._column(role), "found": found}
        self.dropped = self.dropped or Problem.of(ProblemCode.DROPPED_CELL, self.row.number or None, **details)

    def _unfit(self, role: str, value: object) -> Problem:
        column = self._column(role)
        if isinstance(value, CellError):
            return Problem.of(ProblemCode.FORMULA_ERROR, self.row.number, column=column, error=str(value))
        return Problem.of(ProblemCode.NOT_TEXT, self.row.number, column=column, found=kind_of(value))
