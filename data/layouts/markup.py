"""TREC's topics and documents between tags: <top>, <topic> and <DOC>, as SGML or XML.

Tags are found by expressions, and no parser of XML reads the file: entities that a file declares are never expanded,
and tags that nobody closed, as of TREC's first topics, end where the next one begins.
"""

import html
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from data.formats.tables import MOST_CHARACTERS, RawRow, Table
from data.formats.text import EncodedText
from data.problems import Problem, ProblemCode

TOPIC_NAMES, DOCUMENT_NAMES = ("num", "title"), ("DOCNO", "TITLE", "TEXT")
_LONGEST = 4 * MOST_CHARACTERS  # of an entry: what follows is not read, as its text is too long anyway
_TAG = r"<(/?)({names})\b([^<>]{{0,1000}})>"
_TOPIC = re.compile(_TAG.format(names="top|topic"), re.IGNORECASE)
_DOCUMENT = re.compile(_TAG.format(names="doc"), re.IGNORECASE)
_ANY = re.compile(_TAG.format(names=r"[a-z][\w-]{0,50}"), re.IGNORECASE)
_MARKUP = re.compile(r"<[!?/]?[a-z\-\[][^<>]{0,10000}>", re.IGNORECASE)
_NUMBER = re.compile(r"""\b(?:number|num|id|qid)\s*=\s*["']?([^"'\s>]+)""", re.IGNORECASE)
_LEAD = re.compile(r"^\s*(?:number|num|topic|title|description|query)\s*:", re.IGNORECASE)
_ASKED = ("title", "query", "question", "desc", "description")  # what asks, the best one first
_HEADS = ("title", "headline", "hl", "head", "ttl")
_UNSEEN = ("script", "style", "title")


class _Entry(NamedTuple):
    row: int  # the line that it begins in, from 1
    attributes: str
    text: str
    tag: str
    is_whole: bool


def holds_topics(head: str) -> bool:
    """Whether the beginning of a text is one of topics."""
    return head.lstrip().startswith("<") and _TOPIC.search(head) is not None


def holds_documents(head: str) -> bool:
    """Whether the beginning of a text is one of documents with numbers."""
    return head.lstrip().startswith("<") and _DOCUMENT.search(head) is not None and "<docno" in head.lower()


def topic_table(text: EncodedText) -> Table:
    """Read the topics; their question is the title, else what else is asked."""
    return Table(TOPIC_NAMES, map(_topic_row, _entries(text.lines(""), _TOPIC)))


def document_table(text: EncodedText) -> Table:
    """Read the documents; of a web page the text without its tags."""
    return Table(DOCUMENT_NAMES, map(_document_row, _entries(text.lines(""), _DOCUMENT)))


def _entries(lines: Iterable[str], tag: re.Pattern[str]) -> Iterator[_Entry]:
    """Yield what stands between two tags; where the second is missing, up to the next first one."""
    parts, size = list[str](), 0
    opened: tuple[int, str, str] | None = None
    for number, line in enumerate(lines, start=1):
        place = 0
        for found in tag.finditer(line):
            closes, name, attributes = found.groups()
            if opened is not None:
                parts.append(line[place : found.start()][: max(0, _LONGEST - size)])
                row, before, given = opened
                yield _Entry(row, given, "".join(parts), before, bool(closes))
            opened = None if closes else (number, name, attributes)
            parts, size, place = [], 0, found.end()
        if opened is not None and size < _LONGEST:
            parts.append(line[place:][: _LONGEST - size])
            size += len(parts[-1])
    if opened is not None:
        yield _Entry(opened[0], opened[2], "".join(parts), opened[1], is_whole=False)


def _topic_row(entry: _Entry) -> RawRow:
    fields: dict[str, str] = {}
    tags = [*_ANY.finditer(entry.text)]
    ends = (*(tag.start() for tag in tags[1:]), len(entry.text))
    for tag, end in zip(tags, ends, strict=False):  # without any tag the text asks
        closes, name, _ = tag.groups()
        value = _plain(_LEAD.sub("", entry.text[tag.end() : end]))
        if not closes and value:
            fields.setdefault(name.lower(), " ".join(value.split()))
    given = _NUMBER.search(entry.attributes)
    number = fields.get("num") or fields.get("number") or fields.get("id") or (html.unescape(given[1]) if given else "")
    asked = next((fields[name] for name in _ASKED if name in fields), "" if tags else _plain(entry.text))
    return _row(entry, dict(zip(TOPIC_NAMES, (number, asked), strict=True)))


def _document_row(entry: _Entry) -> RawRow:
    between = partial(_between, entry.text)
    number = " ".join(_plain(part) for part in between("docno")).strip()
    parts = between("text")
    heads = _HEADS if parts else _HEADS[:1]  # a web page has its scripts in its head
    title = next((found for name in heads for part in between(name) if (found := " ".join(_plain(part).split()))), "")
    parts = parts or [_rest(entry.text)]
    text = "\n".join(filter(None, map(_plain, parts)))
    return _row(entry, dict(zip(DOCUMENT_NAMES, (number, title, text), strict=True)))


def _row(entry: _Entry, cells: dict[str, object]) -> RawRow:
    problem = None if entry.is_whole else Problem.of(ProblemCode.BROKEN_ENTRY, entry.row, tag=f"</{entry.tag}>")
    return RawRow(entry.row, cells, problem)


def _between(text: str, name: str) -> list[str]:
    return [text[start:end] for start, end in _spans(text, name)]


def _spans(text: str, name: str) -> list[tuple[int, int]]:
    """Where something stands between two tags of a name; where the second is missing, up to the next first one."""
    found, start = list[tuple[int, int]](), -1
    for tag in re.finditer(_TAG.format(names=name), text, re.IGNORECASE):
        if start >= 0:
            found.append((start, tag.start()))
        start = -1 if tag[1] else tag.end()
    return [*found, (start, len(text))] if start >= 0 else found


def _rest(text: str) -> str:
    """What a document holds behind its number and the header of its server, without its title and its scripts."""
    for name in ("docno", "dochdr"):
        spans = _spans(text, name)
        text = text[spans[0][1] :] if spans else text
    for name in _UNSEEN:
        spans = _spans(text, name)
        starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)]
        text = " ".join(text[start:end] for start, end in zip(starts, ends, strict=True))
    return text


def _plain(text: str) -> str:
    return html.unescape(_MARKUP.sub(" ", text.replace("<![CDATA[", "").replace("]]>", ""))).strip()
