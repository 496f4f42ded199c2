"""How the rows of one source are read: which columns hold lists of passages, and what makes rows one question."""

from dataclasses import dataclass
from typing import Self

from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.formats.opening import Format
from mrc_workbench.data.formats.workbooks import Workbook
from mrc_workbench.data.layouts.columns.cells import NOT_RELEVANT, holds_lists, separates_answers
from mrc_workbench.data.layouts.columns.roles import sibling_columns
from mrc_workbench.data.layouts.sources import Role, Source
from mrc_workbench.data.records import RELEVANT_GRADE

_WITHOUT_NULL = (Format.CSV, Format.TSV, Format.EXCEL)  # their programs write NaN for a missing value

ListColumns = tuple[str, tuple[str, ...], int | None]  # role, names, and the grade of their passages


@dataclass(frozen=True)
class RowPlan:
    """How rows are read. `lists` are the columns that hold lists of passages.

    With `merges_questions` rows of the same question are one question; `has_context` is whether the passage is a text.
    """

    columns: Columns
    lists: tuple[ListColumns, ...] = ()
    has_context: bool = False
    merges_questions: bool = False
    separates_answers: bool = False
    has_marks: bool = False  # whether NaN and N/A stand for missing values

    @property
    def has_lists(self) -> bool:
        return bool(self.lists)

    @classmethod
    def of(cls, source: Source) -> Self:
        """Make the plan for the rows of a source from its columns and some of its rows."""
        columns, names, sample = source.columns, source.names, source.sample
        asks_in_rows = source.role is Role.ROWS and columns.question is not None
        is_list = columns.context is not None and holds_lists(columns.context, sample)
        found: list[ListColumns] = []
        if is_list and columns.context is not None:
            found.append(("context", (columns.context,), RELEVANT_GRADE))
        grades = {"positives": RELEVANT_GRADE, "negatives": NOT_RELEVANT, "candidates": None}
        for role, grade in grades.items():
            if name := getattr(columns, role):
                found.append((role, sibling_columns(role, name, names), grade))
        text = None if is_list else columns.context
        return cls(
            columns,
            tuple(found),
            has_context=text is not None,
            merges_questions=bool(found) or columns.label is not None or _merges_cells(columns.question, source),
            separates_answers=columns.answers is not None and separates_answers(columns.answers, text, sample),
            has_marks=source.recognised.format in _WITHOUT_NULL or asks_in_rows,
        )


def _merges_cells(question: str | None, source: Source) -> bool:
    """Whether a question of a workbook is written once, in cells that are merged over its passages."""
    workbook = source.recognised.value
    return isinstance(workbook, Workbook) and question in workbook.merged
