"""How the rows of one source are read: which columns hold lists of passages, and what makes rows one question."""

from dataclasses import dataclass
from typing import Self

from data.formats.columns import Columns
from data.formats.opening import Format
from data.layouts.columns.cells import NOT_RELEVANT, holds_lists, separates_answers
from data.layouts.columns.roles import sibling_columns
from data.layouts.sources import Source
from data.records import RELEVANT_GRADE

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
        fields, names, sample = source.fields, source.names, source.sample
        is_table = source.recognised.format in _WITHOUT_NULL
        if not isinstance(fields, Columns):
            grade_of = {"positive": RELEVANT_GRADE, "negative": NOT_RELEVANT}
            lists = [(role, (name,), grade) for role, grade in grade_of.items() if (name := getattr(fields, role))]
            return cls(Columns(), tuple(lists), has_marks=is_table)
        is_list = fields.context is not None and holds_lists(fields.context, sample)
        found: list[ListColumns] = []
        if is_list and fields.context is not None:
            found.append(("context", (fields.context,), RELEVANT_GRADE))
        grades = {"positives": RELEVANT_GRADE, "negatives": NOT_RELEVANT, "candidates": None}
        for role, grade in grades.items():
            if name := getattr(fields, role):
                found.append((role, sibling_columns(role, name, names), grade))
        text = None if is_list else fields.context
        return cls(
            fields,
            tuple(found),
            has_context=text is not None,
            merges_questions=bool(found) or fields.label is not None,
            separates_answers=fields.answers is not None and separates_answers(fields.answers, text, sample),
            has_marks=is_table or fields.question is not None,
        )
