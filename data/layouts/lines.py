"""Files of lines without names of columns: ids with texts, judgements of TREC and MS MARCO, triples of texts."""

import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import islice

from data.formats.tables import RawRow, Table
from data.formats.text import EncodedText
from data.problems import Problem, ProblemCode

_SAMPLE, _SAMPLE_LETTERS = 200, 500_000  # lines that are looked at
_ALIKE = 0.8  # share of them that must be of a kind: the others are rows with a problem
WHOLE = re.compile(r"[+-]?\d{1,9}(?:\.0{1,9})?")
_LEAST_OF_A_TRIPLE = 20  # letters of its passages on average


class Lines(Enum):
    """What the lines of a file hold: the names of their columns."""

    TEXTS = ("id", "text")
    JUDGEMENTS = ("query-id", "iteration", "corpus-id", "score")
    SHORT_JUDGEMENTS = ("query-id", "corpus-id", "score")
    TRIPLES = ("query", "positive", "negative")


def lines_of_a_kind(text: EncodedText, knows: Callable[[str], bool]) -> Lines | None:
    """Tell what the lines of a text hold, None where they are of no kind, or the first one names columns (`knows`)."""
    head = text.head[:_SAMPLE_LETTERS]
    lines = head.split("\n")
    if len(head) < len(text.head):
        lines = lines[:-1]  # it is cut
    lines = [line for line in lines[:_SAMPLE] if line.strip()]
    if not lines or lines[0].lstrip()[:1] in ("<", "{", "["):
        return None
    rows = [[cell.strip() for cell in line.split("\t")] for line in lines]
    if any(map(knows, rows[0])):
        return None
    words = [line.split() for line in lines]
    for kind in (Lines.JUDGEMENTS, Lines.SHORT_JUDGEMENTS):
        if _share(len(row) == len(kind.value) and WHOLE.fullmatch(row[-1]) for row in words) >= _ALIKE:
            return kind
    ids = {row[0] for row in rows if len(row) == 2 and _is_id(row[0]) and row[1]}  # each of one text
    if len(ids) >= _ALIKE * len(rows):
        return Lines.TEXTS
    triples = [row for row in rows if len(row) == 3 and all(row)]
    letters = [len(cell) for row in triples for cell in row[1:]]
    if len(triples) >= _ALIKE * len(rows) and sum(letters) >= _LEAST_OF_A_TRIPLE * len(letters):
        return Lines.TRIPLES
    return None


def line_rows(text: EncodedText, kind: Lines) -> Table:
    """Read the lines; one with another number of fields is a row with a problem."""
    names = kind.value

    def rows() -> Iterator[RawRow]:
        for number, line in enumerate(text.lines(""), start=1):
            if not line.strip():
                continue
            fields = line.split() if names[-1] == "score" else line.rstrip("\r\n").split("\t", len(names))
            if len(fields) == len(names):
                yield RawRow(number, dict(zip(names, fields, strict=True)))
            else:
                told = {"found": len(fields), "expected": len(names)}
                yield RawRow(number, {"line": line.rstrip("\r\n")}, Problem.of(ProblemCode.FIELD_COUNT, number, **told))

    return Table(names, rows())


def has_numbers(table: Table) -> bool:
    """Whether the ids at the beginning are such as programs give: without space, and with a digit."""
    first = [str(row.cells.get("id", "")) for row in islice(table.rows, _SAMPLE)]
    return all(any(letter.isdigit() for letter in id_) for id_ in first if id_)


def _is_id(cell: str) -> bool:
    return bool(cell) and not any(map(str.isspace, cell))


def _share(hits: Iterable[object]) -> float:
    found = [bool(hit) for hit in hits]
    return sum(found) / len(found) if found else 0.0
