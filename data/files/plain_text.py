"""Text without columns is passages: the blocks between blank lines or, where there are none, the lines."""

import re
from collections.abc import Iterator

from data.files.encodings import EncodedText, lines_of
from data.files.tables import RawRow, Table

_NAME = "text"  # of the only column; one of those that are guessed to hold passages
_BLANK_LINE = re.compile(r"\S[^\n]*\r?\n\s*\n\s*\S")


def holds_passages(head: str) -> bool:
    """Whether the beginning of a text has more than one line that is not blank: less is nothing to search."""
    return len(head.strip().splitlines()) > 1


def plain_text_table(text: str | EncodedText) -> Table:
    """Read the passages of a text, numbered by the line they begin in."""
    head = text if isinstance(text, str) else text.head
    passages = _blocks(text) if _BLANK_LINE.search(head) else _filled_lines(text)
    return Table((_NAME,), (RawRow(number, {_NAME: passage}) for number, passage in passages))


def line_table(text: str | EncodedText) -> Table:
    """Read the lines of a text that are not blank, numbered as they stand in it."""
    return Table((_NAME,), (RawRow(number, {_NAME: line}) for number, line in _filled_lines(text)))


def _filled_lines(text: str | EncodedText) -> Iterator[tuple[int, str]]:
    lines = enumerate(lines_of(text, ""), start=1)
    return ((number, line.strip()) for number, line in lines if line.strip())


def _blocks(text: str | EncodedText) -> Iterator[tuple[int, str]]:
    first, block = 0, list[str]()
    for number, line in enumerate(lines_of(text, ""), start=1):
        if line.strip():
            first = first if block else number
            block.append(line.rstrip())
        elif block:
            yield first, "\n".join(block)
            block = []
    if block:
        yield first, "\n".join(block)
