"""Text files without column names: lines of ids, judgements and triples, TREC's markup, and SMART's entries.

Markup is SGML or XML between <top>, <topic> or <DOC> tags. Regular expressions find the tags; no XML parser reads the
file, so entities that a file declares are never expanded. An unclosed tag, as in TREC's first topics, ends where the
next one begins. CACM, CISI, MEDLINE and Cranfield are published as SMART entries (.I, .T, .W).
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

WHOLE_NUMBER = re.compile(r"[+-]?\d{1,9}(?:\.0{1,9})?")  # as in judgements
_SAMPLE = 200  # lines
_SAMPLE_CHARACTERS = 500_000
_MIN_MATCHING_FRACTION = 0.8  # of the sampled lines; the other lines become rows with a problem
_MIN_TRIPLE_CHARACTERS = 20  # mean length of the passages
_MAX_ENTRY_CHARACTERS = 4 * MAX_CHARACTERS  # the rest of an entry is not read: its text is too long anyway
_TAG = r"<(/?)({names})\b([^<>]{{0,1000}})>"
_TOPIC = re.compile(_TAG.format(names="top|topic"), re.IGNORECASE)
_DOCUMENT = re.compile(_TAG.format(names="doc"), re.IGNORECASE)
_ANY = re.compile(_TAG.format(names=r"[a-z][\w-]{0,50}"), re.IGNORECASE)
_MARKUP = re.compile(r"<[!?/]?[a-z\-\[][^<>]{0,10000}>", re.IGNORECASE)
_NUMBER = re.compile(r"""\b(?:number|num|id|qid)\s*=\s*["']?([^"'\s>]+)""", re.IGNORECASE)
_FIELD_LABEL = re.compile(r"^\s*(?:number|num|topic|title|description|query)\s*:", re.IGNORECASE)
_QUESTION_FIELDS = ("title", "query", "question", "desc", "description")  # the best name first
_TITLE_TAGS = ("title", "headline", "hl", "head", "ttl")
_ENTRY = re.compile(r"\.I\s+(\S+)\s*")
_FIELD = re.compile(r"(\.[A-Z])\s*")


class LineKind(Enum):
    """The columns that the lines of a file hold."""

    TEXTS = ("id", "text")
    JUDGEMENTS = ("query-id", "iteration", "corpus-id", "score")
    SHORT_JUDGEMENTS = ("query-id", "corpus-id", "score")
    SMART_JUDGEMENTS = ("query-id", "corpus-id", "zero", "score")  # the last two are 0 in every line
    TRIPLES = ("query", "positive", "negative")


def detect_line_kind(text: EncodedText, is_known_column: Callable[[str], bool]) -> LineKind | None:
    """Detect the columns of the lines; None if they fit no kind, or if the first line names columns."""
    head = text.head[:_SAMPLE_CHARACTERS]
    lines = head.split("\n")
    if len(head) < len(text.head):
        del lines[-1]  # incomplete
    lines = [line for line in lines[:_SAMPLE] if line.strip()]
    if not lines or lines[0].lstrip()[:1] in ("<", "{", "["):
        return None
    rows = [[cell.strip() for cell in line.split("\t")] for line in lines]
    if any(map(is_known_column, rows[0])):
        return None
    words = [line.split() for line in lines]
    judgements = [len(row) for row in words if WHOLE_NUMBER.fullmatch(row[-1])]
    for kind in (LineKind.JUDGEMENTS, LineKind.SHORT_JUDGEMENTS):
        if judgements.count(len(kind.value)) >= _MIN_MATCHING_FRACTION * len(words):
            # SMART lines end in zeros; as TREC lines they would all judge a passage with the id 0
            ends_in_zeros = all(len(row) != 4 or (row[2] == "0" and not row[3].strip("0.")) for row in words)
            return LineKind.SMART_JUDGEMENTS if kind is LineKind.JUDGEMENTS and ends_in_zeros else kind
    ids = {row[0] for row in rows if len(row) == 2 and len(row[0].split()) == 1 and row[1]}
    if len(ids) >= _MIN_MATCHING_FRACTION * len(rows):
        return LineKind.TEXTS
    triples = [row for row in rows if len(row) == 3 and all(row)]
    lengths = [len(cell) for row in triples for cell in row[1:]]
    if len(triples) >= _MIN_MATCHING_FRACTION * len(rows) and sum(lengths) >= _MIN_TRIPLE_CHARACTERS * len(lengths):
        return LineKind.TRIPLES
    return None


def line_rows(text: EncodedText, kind: LineKind) -> RawTable:
    """Read the lines; a line with another number of fields becomes a row with a problem."""
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
    """Whether the first ids look like those that programs assign: each contains a digit."""
    first = [str(row.cells.get("id", "")) for row in islice(table.rows, _SAMPLE)]
    return all(any(map(str.isdigit, id_)) for id_ in first if id_)


class Markup(Enum):
    """The columns of the entries of marked-up text."""

    DOCUMENTS = ("DOCNO", "TITLE", "TEXT")
    TOPICS = ("num", "title")
    SMART = (".I", ".T", ".W")


def detect_markup(text: EncodedText) -> tuple[Markup, Callable[[], RawTable]] | None:
    """Return the kind of a text's markup and an opener of its entries; None for text without markup."""
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
    tag: str
    attributes: str
    text: str = ""
    is_closed: bool = False


def _entries(text: EncodedText, tag: re.Pattern[str]) -> Iterator[_Entry]:
    """Yield the text between an opening and a closing tag, or the next opening tag if the closing tag is missing."""
    parts: list[str] = []
    size = 0
    opened: _Entry | None = None
    for number, line in enumerate(text.lines(""), start=1):
        position = 0
        for match in tag.finditer(line):
            closes, name, attributes = match.groups()
            if opened is not None:
                parts.append(line[position : match.start()][: max(0, _MAX_ENTRY_CHARACTERS - size)])
                yield opened._replace(text="".join(parts), is_closed=bool(closes))
            opened = None if closes else _Entry(number, name, attributes)
            parts = []
            size = 0
            position = match.end()
        if opened is not None and size < _MAX_ENTRY_CHARACTERS:
            parts.append(line[position:][: _MAX_ENTRY_CHARACTERS - size])
            size += len(parts[-1])
    if opened is not None:
        yield opened._replace(text="".join(parts))


def _topic_row(entry: _Entry) -> RawRow:
    fields: dict[str, str] = {}
    tags = [*_ANY.finditer(entry.text)]
    ends = (*(tag.start() for tag in tags[1:]), len(entry.text))
    for tag, end in zip(tags, ends, strict=False):
        closes, name, _ = tag.groups()
        value = _strip_markup(_FIELD_LABEL.sub("", entry.text[tag.end() : end]))
        if not closes and value:
            fields.setdefault(name.lower(), " ".join(value.split()))
    attribute = _NUMBER.search(entry.attributes)
    numbers = [fields[name] for name in ("num", "number", "id") if name in fields]
    numbers += [html.unescape(attribute[1])] if attribute else []
    number = numbers[0] if numbers else ""
    text = "" if tags else _strip_markup(entry.text)  # without tags the whole text is the question
    question = next((fields[name] for name in _QUESTION_FIELDS if name in fields), text)
    return _entry_row(entry, dict(zip(Markup.TOPICS.value, (number, question), strict=True)))


def _document_row(entry: _Entry) -> RawRow:
    def between(name: str) -> list[str]:
        return [entry.text[start:end] for start, end in _spans(entry.text, name)]

    number = " ".join(map(_strip_markup, between("docno"))).strip()
    parts = between("text")
    title_tags = _TITLE_TAGS if parts else _TITLE_TAGS[:1]  # the head of a web page contains its scripts
    titles = (" ".join(_strip_markup(part).split()) for name in title_tags for part in between(name))
    title = next(filter(None, titles), "")
    text = "\n".join(filter(None, map(_strip_markup, parts or [_body_text(entry.text)])))
    return _entry_row(entry, dict(zip(Markup.DOCUMENTS.value, (number, title, text), strict=True)))


def _entry_row(entry: _Entry, cells: dict[str, object]) -> RawRow:
    problem = None if entry.is_closed else Problem.from_code(ProblemCode.BROKEN_ENTRY, entry.row, tag=f"</{entry.tag}>")
    return RawRow(entry.row, cells, problem)


def _spans(text: str, name: str) -> list[tuple[int, int]]:
    """Return the spans between an opening and a closing tag, or the next opening tag if the closing tag is missing."""
    spans: list[tuple[int, int]] = []
    start = -1
    for tag in re.finditer(_TAG.format(names=name), text, re.IGNORECASE):
        if start >= 0:
            spans.append((start, tag.start()))
        start = -1 if tag[1] else tag.end()
    return [*spans, (start, len(text))] if start >= 0 else spans


def _body_text(text: str) -> str:
    """Return the text after the document number and the server's header, without title, scripts and styles."""
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
    row = 0  # where the entry begins
    id_ = ""
    fields: dict[str, list[str]] = {}
    lines: list[str] = []
    size = 0
    for number, line in enumerate(text.lines(""), start=1):
        stripped = line.strip()
        if match := _ENTRY.fullmatch(stripped):
            if row:
                yield _smart_row(row, id_, fields)
            row = number
            id_ = match[1]
            fields = {}
            lines = []
            size = 0
        elif row and (match := _FIELD.fullmatch(stripped)):
            lines = fields.setdefault(match[1], [])
        elif row and size < _MAX_ENTRY_CHARACTERS:
            lines.append(stripped[: _MAX_ENTRY_CHARACTERS - size])
            size += len(stripped)
    if row:
        yield _smart_row(row, id_, fields)


def _smart_row(row: int, id_: str, fields: dict[str, list[str]]) -> RawRow:
    cells = {name: (" " if name == ".T" else "\n").join(lines).strip() for name, lines in fields.items()}
    return RawRow(row, {".I": id_, **cells})
