"""Files of text without column names: lines of ids, judgements and triples, TREC's markup, and SMART's entries.

Markup is what stands between <top>, <topic> or <DOC>, as SGML or XML. Regular expressions find the tags; no XML parser
reads the file, so entities that a file declares are never expanded. Unclosed tags, as in TREC's first topics, end where
the next one begins. CACM, CISI, MEDLINE and Cranfield are published in SMART's entries (.I, .T, .W).
"""

import html
import re
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import islice
from typing import NamedTuple

from mrc_workbench.data.formats.tables import MAX_CHARACTERS, RawRow, RawTable
from mrc_workbench.data.formats.text import EncodedText
from mrc_workbench.data.problems import Problem, ProblemCode

WHOLE_NUMBER = re.compile(r"[+-]?\d{1,9}(?:\.0{1,9})?")  # a whole number, as judgements are
# lines that are looked at
_SAMPLE = 200
_SAMPLE_CHARACTERS = 500_000
_MIN_MATCHING_FRACTION = 0.8  # share of them that must be of a kind: the others are rows with a problem
_MIN_TRIPLE_CHARACTERS = 20  # letters of its passages on average
_MAX_ENTRY_CHARACTERS = 4 * MAX_CHARACTERS  # of an entry: what follows is not read, as its text is too long anyway
_TAG = r"<(/?)({names})\b([^<>]{{0,1000}})>"
_TOPIC = re.compile(_TAG.format(names="top|topic"), re.IGNORECASE)
_DOCUMENT = re.compile(_TAG.format(names="doc"), re.IGNORECASE)
_ANY = re.compile(_TAG.format(names=r"[a-z][\w-]{0,50}"), re.IGNORECASE)
_MARKUP = re.compile(r"<[!?/]?[a-z\-\[][^<>]{0,10000}>", re.IGNORECASE)
_NUMBER = re.compile(r"""\b(?:number|num|id|qid)\s*=\s*["']?([^"'\s>]+)""", re.IGNORECASE)
_FIELD_LABEL = re.compile(r"^\s*(?:number|num|topic|title|description|query)\s*:", re.IGNORECASE)
_QUESTION_FIELDS = ("title", "query", "question", "desc", "description")  # what asks, the best one first
_TITLE_TAGS = ("title", "headline", "hl", "head", "ttl")
_ENTRY = re.compile(r"\.I\s+(\S+)\s*")
_FIELD = re.compile(r"(\.[A-Z])\s*")


class LineKind(Enum):
    """What the lines of a file hold: the names of their columns."""

    TEXTS = ("id", "text")
    JUDGEMENTS = ("query-id", "iteration", "corpus-id", "score")
    SHORT_JUDGEMENTS = ("query-id", "corpus-id", "score")
    SMART_JUDGEMENTS = ("query-id", "corpus-id", "zero", "score")  # the last two are 0 in every line
    TRIPLES = ("query", "positive", "negative")


def detect_line_kind(text: EncodedText, is_known_column: Callable[[str], bool]) -> LineKind | None:
    """Tell what the lines of a text hold, None where they are of no kind, or the first one names columns (`knows`)."""
    head = text.head[:_SAMPLE_CHARACTERS]
    lines = head.split("\n")
    if len(head) < len(text.head):
        lines = lines[:-1]  # it is cut
    lines = [line for line in lines[:_SAMPLE] if line.strip()]
    if not lines or lines[0].lstrip()[:1] in ("<", "{", "["):
        return None
    rows = [[cell.strip() for cell in line.split("\t")] for line in lines]
    if any(map(is_known_column, rows[0])):
        return None
    words = [line.split() for line in lines]
    for kind in (LineKind.JUDGEMENTS, LineKind.SHORT_JUDGEMENTS):
        if sum(
            len(row) == len(kind.value) and bool(WHOLE_NUMBER.fullmatch(row[-1])) for row in words
        ) >= _MIN_MATCHING_FRACTION * len(words):
            # SMART's end in zeros: in TREC's the third column would be passage 0 in every line
            ends_in_zeros = all(len(row) != 4 or (row[2] == "0" and not row[3].strip("0.")) for row in words)
            return LineKind.SMART_JUDGEMENTS if kind is LineKind.JUDGEMENTS and ends_in_zeros else kind
    ids = {row[0] for row in rows if len(row) == 2 and len(row[0].split()) == 1 and row[1]}  # each of one text
    if len(ids) >= _MIN_MATCHING_FRACTION * len(rows):
        return LineKind.TEXTS
    triples = [row for row in rows if len(row) == 3 and all(row)]
    lengths = [len(cell) for row in triples for cell in row[1:]]
    if len(triples) >= _MIN_MATCHING_FRACTION * len(rows) and sum(lengths) >= _MIN_TRIPLE_CHARACTERS * len(lengths):
        return LineKind.TRIPLES
    return None


def line_rows(text: EncodedText, kind: LineKind) -> RawTable:
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
                problem = Problem.from_code(ProblemCode.FIELD_COUNT, number, found=len(fields), expected=len(names))
                yield RawRow(number, {"line": line.rstrip("\r\n")}, problem)

    return RawTable(names, rows())


def has_numbered_ids(table: RawTable) -> bool:
    """Whether the ids at the beginning are such as programs give: without space, and with a digit."""
    first = [str(row.cells.get("id", "")) for row in islice(table.rows, _SAMPLE)]
    return all(any(letter.isdigit() for letter in id_) for id_ in first if id_)


class Markup(Enum):
    """What the markup of a text holds: the names of the columns of its entries."""

    DOCUMENTS = ("DOCNO", "TITLE", "TEXT")
    TOPICS = ("num", "title")
    SMART = (".I", ".T", ".W")


def detect_markup(text: EncodedText) -> tuple[Markup, Callable[[], RawTable]] | None:
    """Return the kind of a text's markup, and what opens its entries; None for a text without any."""
    start = text.head.lstrip()
    if start.startswith("<") and _DOCUMENT.search(start) and "<docno" in start.lower():
        return Markup.DOCUMENTS, lambda: RawTable(Markup.DOCUMENTS.value, map(_document_row, _entries(text, _DOCUMENT)))
    if start.startswith("<") and _TOPIC.search(start):
        return Markup.TOPICS, lambda: RawTable(Markup.TOPICS.value, map(_topic_row, _entries(text, _TOPIC)))
    lines = [line.strip() for line in start.split("\n", 50)[:50]]
    if _ENTRY.fullmatch(lines[0]) is None or not any(line in Markup.SMART.value[1:] for line in lines):
        return None
    fields = re.findall(r"^(\.[A-Z])\s*$", text.head, re.MULTILINE)
    names = tuple(dict.fromkeys([*Markup.SMART.value, *fields]))
    return Markup.SMART, lambda: RawTable(names, _smart_rows(text))


class _Entry(NamedTuple):
    row: int  # the line that it begins in, from 1
    attributes: str
    text: str
    tag: str
    is_closed: bool


def _entries(text: EncodedText, tag: re.Pattern[str]) -> Iterator[_Entry]:
    """Yield what stands between two tags; where the second is missing, up to the next first one."""
    parts = list[str]()
    size = 0
    opened: tuple[int, str, str] | None = None
    for number, line in enumerate(text.lines(""), start=1):
        position = 0
        for match in tag.finditer(line):
            closes, name, attributes = match.groups()
            if opened is not None:
                parts.append(line[position : match.start()][: max(0, _MAX_ENTRY_CHARACTERS - size)])
                row, opening_tag, opening_attributes = opened
                yield _Entry(row, opening_attributes, "".join(parts), opening_tag, bool(closes))
            opened = None if closes else (number, name, attributes)
            parts = []
            size = 0
            position = match.end()
        if opened is not None and size < _MAX_ENTRY_CHARACTERS:
            parts.append(line[position:][: _MAX_ENTRY_CHARACTERS - size])
            size += len(parts[-1])
    if opened is not None:
        yield _Entry(opened[0], opened[2], "".join(parts), opened[1], is_closed=False)


def _topic_row(entry: _Entry) -> RawRow:
    fields: dict[str, str] = {}
    tags = [*_ANY.finditer(entry.text)]
    ends = (*(tag.start() for tag in tags[1:]), len(entry.text))
    for tag, end in zip(tags, ends, strict=False):  # without any tag the text asks
        closes, name, _ = tag.groups()
        value = _strip_markup(_FIELD_LABEL.sub("", entry.text[tag.end() : end]))
        if not closes and value:
            fields.setdefault(name.lower(), " ".join(value.split()))
    given = _NUMBER.search(entry.attributes)
    number = fields.get("num") or fields.get("number") or fields.get("id") or (html.unescape(given[1]) if given else "")
    question = next(
        (fields[name] for name in _QUESTION_FIELDS if name in fields), "" if tags else _strip_markup(entry.text)
    )
    return _entry_row(entry, dict(zip(Markup.TOPICS.value, (number, question), strict=True)))


def _document_row(entry: _Entry) -> RawRow:
    def between(name: str) -> list[str]:
        return [entry.text[start:end] for start, end in _spans(entry.text, name)]

    number = " ".join(_strip_markup(part) for part in between("docno")).strip()
    parts = between("text")
    title_tags = _TITLE_TAGS if parts else _TITLE_TAGS[:1]  # a web page has its scripts in its head
    title = next(
        (
            candidate
            for name in title_tags
            for part in between(name)
            if (candidate := " ".join(_strip_markup(part).split()))
        ),
        "",
    )
    parts = parts or [_body_text(entry.text)]
    text = "\n".join(filter(None, map(_strip_markup, parts)))
    return _entry_row(entry, dict(zip(Markup.DOCUMENTS.value, (number, title, text), strict=True)))


def _entry_row(entry: _Entry, cells: dict[str, object]) -> RawRow:
    problem = None if entry.is_closed else Problem.from_code(ProblemCode.BROKEN_ENTRY, entry.row, tag=f"</{entry.tag}>")
    return RawRow(entry.row, cells, problem)


def _spans(text: str, name: str) -> list[tuple[int, int]]:
    """Where something stands between two tags of a name; where the second is missing, up to the next first one."""
    spans = list[tuple[int, int]]()
    start = -1
    for tag in re.finditer(_TAG.format(names=name), text, re.IGNORECASE):
        if start >= 0:
            spans.append((start, tag.start()))
        start = -1 if tag[1] else tag.end()
    return [*spans, (start, len(text))] if start >= 0 else spans


def _body_text(text: str) -> str:
    """What a document holds behind its number and the header of its server, without its title and its scripts."""
    for name in ("docno", "dochdr"):
        spans = _spans(text, name)
        text = text[spans[0][1] :] if spans else text
    for name in ("script", "style", "title"):
        spans = _spans(text, name)
        starts = [0, *(end for _, end in spans)]
        ends = [*(start for start, _ in spans), len(text)]
        text = " ".join(text[start:end] for start, end in zip(starts, ends, strict=True))
    return text


def _strip_markup(text: str) -> str:
    return html.unescape(_MARKUP.sub(" ", text.replace("<![CDATA[", "").replace("]]>", ""))).strip()


def _smart_rows(text: EncodedText) -> Iterator[RawRow]:
    row = 0
    id_ = ""
    fields: dict[str, list[str]] | None = None
    lines: list[str] = []
    size = 0
    for number, line in enumerate(text.lines(""), start=1):
        stripped = line.strip()
        if match := _ENTRY.fullmatch(stripped):
            if fields is not None:
                yield _smart_row(row, id_, fields)
            row = number
            id_ = match[1]
            fields = {}
            lines = []
            size = 0
        elif fields is None:
            continue
        elif match := _FIELD.fullmatch(stripped):
            lines = fields.setdefault(match[1], [])
        elif size < _MAX_ENTRY_CHARACTERS:
            lines.append(stripped[: _MAX_ENTRY_CHARACTERS - size])
            size += len(stripped)
    if fields is not None:
        yield _smart_row(row, id_, fields)


def _smart_row(row: int, id_: str, fields: dict[str, list[str]]) -> RawRow:
    cells = {name: (" " if name == ".T" else "\n").join(lines).strip() for name, lines in fields.items()}
    return RawRow(row, {".I": id_, **cells})
