"""Tables of results, declared once: pages, CSV files, reports and terminals show the same columns."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

import pandas as pd

from mrc_workbench.data.terminal import aligned

Result = TypeVar("Result")


class Unit(StrEnum):
    """What the values of a column are."""

    TEXT = "text"
    COUNT = "count"
    NUMBER = "number"
    FRACTION = "fraction"  # 0 to 1, displayed as a percentage
    SECONDS = "seconds"
    BYTES = "bytes"


@dataclass(frozen=True)
class Column:
    """A column: its name in the DataFrame, the unit of its values, and the decimals to display."""

    name: str
    unit: Unit = Unit.NUMBER
    digits: int = 2

    @property
    def title(self) -> str:
        """The name as words, for places without translations."""
        words = self.name.replace("_", " ")
        return f"{words} (%)" if self.unit is Unit.FRACTION else words

    def displayed(self, value: Any) -> Any:
        """Return the value in the displayed unit: fractions as percentages."""
        return value * 100 if self.unit is Unit.FRACTION else value

    def text(self, value: Any) -> str:
        """Return a value as text; a missing one is "-"."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "-"
        match self.unit:
            case Unit.TEXT:
                return str(value)
            case Unit.COUNT | Unit.BYTES:
                return f"{value:,.0f}"
        return f"{self.displayed(value):,.{self.digits}f}"


@dataclass(frozen=True)
class Chart:
    """One of the generic charts over the columns of a table; `x` is a category for bars, else a number."""

    kind: Literal["bars", "lines", "points"]
    x: str
    y: str
    color: str = ""


@dataclass(frozen=True)
class Table(Generic[Result]):
    """A table of a result: a function that returns its DataFrame, and its columns in display order."""

    name: str
    frame: Callable[[Result], pd.DataFrame]
    columns: Sequence[Column]
    chart: Chart | None = None

    def rows(self, result: Result) -> pd.DataFrame:
        """Return the DataFrame with the declared columns, in stored units (fractions from 0 to 1)."""
        return self.frame(result)[[column.name for column in self.columns]]

    def texts(self, result: Result) -> list[list[str]]:
        """Return the cells as texts, row by row."""
        records = self.rows(result).to_dict("records")
        return [[column.text(record[column.name]) for column in self.columns] for record in records]

    def lines(self, result: Result) -> list[str]:
        """Return the lines of the table for a terminal."""
        rows = [(cells[0], cells[1:]) for cells in self.texts(result)]
        titles = [column.title for column in self.columns[1:]]
        width = max([len(title) for title in titles] + [len(cell) for _, cells in rows for cell in cells], default=0)
        return aligned(titles, rows, width)

    def markdown(self, result: Result) -> str:
        """Return the table in Markdown."""
        titles = [column.title for column in self.columns]
        rules = [":--" if column.unit is Unit.TEXT else "--:" for column in self.columns]
        cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in self.texts(result)]
        return "\n".join(f"| {' | '.join(row)} |" for row in [titles, rules, *cells])
