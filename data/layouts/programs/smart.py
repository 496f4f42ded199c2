"""SMART's layout: documents and queries in entries (.I, .T, .W) as CACM, CISI, MEDLINE and Cranfield publish them."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from mrc_workbench.data.formats.tables import MOST_CHARACTERS, RawRow, Table
from mrc_workbench.data.formats.text import EncodedText

ID, TITLE, TEXT = ".I", ".T", ".W"
_ENTRY = re.compile(r"\.I\s+(\S+)\s*")
_FIELD = re.compile(r"(\.[A-Z])\s*")
_LONGEST = 4 * MOST_CHARACTERS  # characters of an entry that are read; a longer text is refused anyway


class _Entry(NamedTuple):
    row: int
    id: str
    lines: dict[str, list[str]]


def holds_smart_entries(head: str) -> bool:
    """Whether the beginning of a text is an entry with a text or a title."""
    lines = [line.strip() for line in head.lstrip().split("\n", 50)[:50]]
    return _ENTRY.fullmatch(lines[0]) is not None and any(line in (TITLE, TEXT) for line in lines)


def smart_table(text: EncodedText) -> Table:
    """Read one row per entry; its columns are the fields that the beginning of the text has."""
    fields = re.findall(r"^(\.[A-Z])\s*$", text.head, re.MULTILINE)
    names = tuple(dict.fromkeys([ID, TITLE, TEXT, *fields]))
    return Table(names, map(_row, _entries(text)))


def _row(entry: _Entry) -> RawRow:
    fields = {name: (" " if name == TITLE else "\n").join(lines).strip() for name, lines in entry.lines.items()}
    return RawRow(entry.row, {ID: entry.id, **fields})


def _entries(text: EncodedText) -> Iterator[_Entry]:
    entry: _Entry | None = None
    lines = list[str]()
    size = 0
    for number, line in enumerate(text.lines(""), start=1):
        stripped = line.strip()
        if match := _ENTRY.fullmatch(stripped):
            if entry is not None:
                yield entry
            entry, lines, size = _Entry(number, match[1], {}), [], 0
        elif entry is None:
            continue
        elif match := _FIELD.fullmatch(stripped):
            lines = entry.lines.setdefault(match[1], [])
        elif size < _LONGEST:
            lines.append(stripped[: _LONGEST - size])
            size += len(stripped)
    if entry is not None:
        yield entry
