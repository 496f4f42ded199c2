"""Finds the header of a table that has lines of title above it, and leaves out the notes below it."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from mrc_workbench.data.formats.columns import is_known
from mrc_workbench.data.formats.tables import RawRow, as_text, is_blank, is_collection, shown
from mrc_workbench.data.problems import Problem, ProblemCode

Record = tuple[int, Sequence[object]]  # number of the row, and its cells
_MOST_TITLES = 20  # rows above a header
_MOST_NOTES = 20  # rows below a table
_LONGEST_NAME = 40  # of a column
_NUMBER = re.compile(r"[-+]?[\d.,:/%\s-]+")
_NOTE = re.compile(r"\s*([※*†]|주\s?[):.]|(비고|참고|출처|자료|source|notes?)\s?:)", re.IGNORECASE)


def find_header(records: Sequence[Sequence[object]], knows: Callable[[str], bool]) -> int:
    """Return the position of the record that names the columns; `knows` tells whether a name is one of a column.

    It is the first record unless that has fewer cells than the table below and a better one follows: two known names,
    or a text of its own in every column.
    """
    if not records:
        return 0
    widths = Counter(_width(record) for record in records)
    width = max(widths, key=lambda count: (widths[count], count))
    filled = [_filled(record) for record in records]
    known = [sum(map(knows, cells)) for cells in filled[: _MOST_TITLES + 1]]
    for position in range(1, len(known)):
        is_wider = all(len(cells) < len(filled[position]) for cells in filled[:position])
        if is_wider and known[position] > max(1, *known[:position]):
            return position
    if known[0] or 2 * len(filled[0]) > width:
        return 0
    for position in range(1, len(known)):
        cells = filled[position]
        if len(cells) == width > 1 and len(set(cells)) == width and not any(map(_NUMBER.fullmatch, cells)):
            return position
    return 0


def _filled(record: Sequence[object]) -> list[str]:
    return [as_text(cell) for cell in record if not is_collection(cell) and not is_blank(cell)]


def _width(record: Sequence[object]) -> int:
    """Return the number of cells up to the last that is not blank."""
    return max((place for place, cell in enumerate(record, start=1) if not is_blank(cell)), default=0)


def title_problems(titles: Sequence[Sequence[object]]) -> tuple[Problem, ...]:
    """Return the notice of the lines above a header, none if there are none."""
    if not titles:
        return ()
    words = "; ".join(" ".join(_filled(title)) for title in titles)
    return (Problem.of(ProblemCode.TITLE_LINES, count=len(titles), words=shown(words, 100)),)


def without_notes(rows: Iterator[RawRow], names: Sequence[str]) -> Iterator[RawRow]:
    """Yield rows; notes below the table get a problem, and rows that repeat the header.

    They are the last rows, of which only the first cell is filled while all others have more, and which begin as a
    note does or stand below a blank row.
    """
    held, before = list[RawRow](), None
    may_be_notes = len(names) > 1
    last = names[-1] if names else ""
    for row in _checked(rows, names):
        if not may_be_notes or row.cells.get(last) or not _is_alone(row):
            if not held:
                yield row
                before = row
                continue
            yield from held
            held = []
            yield row
        elif before is not None and len(held) < _MOST_NOTES and (held or _begins_note(row, before)):
            held.append(row)
        else:  # rows of one cell are usual here
            may_be_notes = False
            yield from held
            held = []
            yield row
        before = row
    for row in held:
        yield row._replace(problem=Problem.of(ProblemCode.NOTE_ROW, row.number))


def _checked(rows: Iterator[RawRow], names: Sequence[str]) -> Iterator[RawRow]:
    """Yield rows; those that repeat the names of the columns, as where tables were joined, get a problem.

    So does a first row of other known names, such as the English ones below Korean ones.
    """
    for number, row in enumerate(rows):
        is_header = len(names) > 1 and all(as_text(row.cells.get(name)) == name for name in names)
        if is_header or (number == 0 and len(names) > 1 and _names_columns(row)):
            yield row._replace(problem=Problem.of(ProblemCode.REPEATED_HEADER, row.number))
        else:
            yield row


def _names_columns(row: RawRow) -> bool:
    cells = [as_text(cell)[:_LONGEST_NAME] for cell in row.cells.values() if not is_collection(cell)]
    return len(cells) > 1 and all(map(is_known, cells))


def _is_alone(row: RawRow) -> bool:
    """Whether only the first cell is filled."""
    cells = iter(row.cells.values())
    return not is_blank(next(cells, None)) and all(map(is_blank, cells))


def _begins_note(row: RawRow, before: RawRow) -> bool:
    breaks = sum(cell.count("\n") for cell in before.cells.values() if isinstance(cell, str))
    return row.number - before.number > 1 + breaks or _NOTE.match(as_text(next(iter(row.cells.values())))) is not None
