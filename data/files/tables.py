"""The common stream every format becomes: numbered rows of named cells."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from data.files.cells import shown
from data.problems import Problem

MAX_COLUMNS = 2**14  # Excel's own limit


class RawRow(NamedTuple):
    """One row as given, numbered as a person counts it.

    `problem` is set where the row itself could not be read. In SQuAD files a row with `asks` False is a
    paragraph, followed by its questions, whose `is_paragraph` is False; in other formats each row is both.
    """

    number: int
    cells: Mapping[str, object]
    problem: Problem | None = None
    asks: bool = True
    is_paragraph: bool = True


@dataclass(frozen=True)
class Table:
    """The rows of a file and the names of their columns."""

    names: tuple[str, ...]
    rows: Iterable[RawRow]  # to be read once
    first: tuple[dict[str, str], ...] = ()  # a few of them as text, to look at


def column_names(header: Iterable[object]) -> tuple[str, ...]:
    """Make header cells into names that differ: a blank is "column 3", a second "text" is "text (2)"."""
    names: dict[str, None] = {}
    copies: Counter[str] = Counter()
    for number, cell in enumerate(header, start=1):
        name = wanted = shown(cell) or f"column {number}"
        while name in names:
            copies[wanted] += 1
            name = f"{wanted} ({copies[wanted] + 1})"
        names[name] = None
    return tuple(names)
