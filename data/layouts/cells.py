"""Cells that hold several things: lists of ids in groups, and passages that stand in the row of their question."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from data.formats.rows import RowReader, parsed
from data.formats.tables import MOST_CHARACTERS, as_text, is_blank, is_collection, kind_of, shown
from data.problems import Problem, ProblemCode

_IDS_OF_A_PASSAGE = ("docid", "doc_id", "_id", "id", "pid", "passage_id")
_TEXTS_OF_A_PASSAGE = ("text", "contents", "content", "passage", "body")


def listed(cell: Any) -> list[Any]:
    """Return the parts of a cell: those of a list, also of one as text; nothing of a blank."""
    if isinstance(cell, str) and len(cell) <= MOST_CHARACTERS and cell.lstrip().startswith(("[", "{")):
        cell = parsed(cell.strip())
    cell = cell.tolist() if isinstance(cell, np.ndarray) else cell
    if isinstance(cell, (list, tuple, set)):
        return list(cell)
    return [] if is_blank(cell) else [cell]


def groups_in(reader: RowReader) -> list[list[str]]:
    """Return the groups of ids of a row: of lists in a list each is one; a flat list is one of them all."""
    given = listed(reader.cell("groups"))
    if not any(is_collection(one) for one in given):
        given = [given]
    groups = [[reader.fit(as_text(id_)) for id_ in listed(group)] for group in given]
    if any(isinstance(id_, dict) or is_collection(id_) for group in given for id_ in listed(group)):
        _refuse(reader, "groups")
    return [group for group in ([id_ for id_ in group if id_] for group in groups) if group]


def passages_in(reader: RowReader, role: str) -> list[tuple[str, str, str]]:
    """Return the passages of a row: id, text and title each."""
    return [one for given in listed(reader.cell(role)) for one in _held(reader, role, given)]


def _held(reader: RowReader, role: str, given: Any) -> Iterator[tuple[str, str, str]]:
    cells = given if isinstance(given, dict) else {"text": given}
    id_, text = (
        next((cells[name] for name in names if not is_blank(cells.get(name))), "")
        for names in (_IDS_OF_A_PASSAGE, _TEXTS_OF_A_PASSAGE)
    )
    title = cells.get("title") or ""
    if any(is_collection(one) for one in (id_, text, title)):
        _refuse(reader, role)
        return
    plain = tuple(reader.fit(as_text(one)) for one in (id_, text, title))
    if any(len(one) > MOST_CHARACTERS for one in plain):
        sizes = {"size": max(map(len, plain)), "limit": MOST_CHARACTERS}
        column = column_name(reader, role)
        reader.problem = reader.problem or Problem.of(ProblemCode.TOO_LONG, reader.row.number, column=column, **sizes)
    elif any(plain):
        yield plain[0], plain[1], plain[2]


def _refuse(reader: RowReader, role: str) -> None:
    told = {"column": column_name(reader, role), "found": kind_of(reader.cell(role))}
    reader.problem = reader.problem or Problem.of(ProblemCode.NO_LIST, reader.row.number, **told)


def column_name(reader: RowReader, role: str) -> str:
    """Return what the column of a role is called."""
    return shown(getattr(reader.columns, role), 80)
