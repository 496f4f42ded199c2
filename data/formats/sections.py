"""The paragraphs of a document become passages: the whole document if it is short, else its sections."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import NamedTuple

WHOLE_CHARACTERS = 2_000  # a document up to this length is one passage
_LONGEST_SECTION = 4_000  # a longer section is split between paragraphs
_SENTENCE_END = re.compile(r"(?<=[.!?。！？…])\s+")
_NO_ANCHOR = re.compile(r"[^\w\- ]+")
_LONGEST_ANCHOR = 80


class Block(NamedTuple):
    """A heading (`level` 1 to 6) or a paragraph (0), on a page (from 1) if the document has pages."""

    text: str
    level: int = 0
    page: int = 0


class Section(NamedTuple):
    """A passage of a document. `anchor` names it within the document; empty for a whole document."""

    anchor: str
    text: str


@dataclass
class _Chunk:
    """Paragraphs under one heading, or of one page."""

    headings: list[str] = field(default_factory=list)
    page: int = 0
    paragraphs: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(map(len, self.headings)) + sum(map(len, self.paragraphs))


def split_document(blocks: Iterable[Block]) -> tuple[str, list[Section]]:
    """Return the title (the heading that a document begins with, else "") and the passages of a document."""
    filled = [block._replace(text=text) for block in blocks if (text := block.text.strip())]
    title = ""
    if len(filled) > 1 and filled[0].level:
        title = " ".join(filled[0].text.split())
        filled = filled[1:]
    if sum(len(block.text) for block in filled) <= WHOLE_CHARACTERS:
        return title, [Section("", "\n".join(block.text for block in filled))] if filled else []
    return title, list(_named(_chunks(filled)))


def _chunks(blocks: Sequence[Block]) -> list[_Chunk]:
    """Split at headings, or between pages if there are none; a heading without text leads the next section."""
    chunks = [_Chunk()]
    has_headings = any(block.level for block in blocks)
    for block in blocks:
        last = chunks[-1]
        is_full = not has_headings and last.size + len(block.text) > WHOLE_CHARACTERS and block.page != last.page
        if last.paragraphs and (block.level or is_full):
            last = _Chunk()
            chunks.append(last)
        if not last.paragraphs:
            last.page = block.page
        if block.level:
            last.headings.append(" ".join(block.text.split()))
        else:
            last.paragraphs.append(block.text)
    return chunks


def _named(chunks: Sequence[_Chunk]) -> Iterator[Section]:
    taken: set[str] = set()
    for chunk in chunks:
        anchor = _anchor(chunk.headings[-1]) if chunk.headings else f"page-{chunk.page}" if chunk.page else ""
        numbered = (f"{anchor}-{number}" if anchor else str(number) for number in count(2))
        names = chain([anchor or "1"], numbered)
        for text in _pieces(chunk):
            name = next(name for name in names if name not in taken)
            taken.add(name)
            yield Section(name, text)


def _pieces(chunk: _Chunk) -> Iterator[str]:
    """Yield the text of a chunk; a long one in groups of paragraphs, each under the headings."""
    if chunk.size <= _LONGEST_SECTION:
        yield "\n".join([*chunk.headings, *chunk.paragraphs])
        return
    group = list(chunk.headings)
    size = 0
    for paragraph in chain.from_iterable(map(_short, chunk.paragraphs)):
        if size and size + len(paragraph) > WHOLE_CHARACTERS:
            yield "\n".join(group)
            group = list(chunk.headings)
            size = 0
        group.append(paragraph)
        size += len(paragraph)
    yield "\n".join(group)


def _short(paragraph: str) -> Iterator[str]:
    """Yield a paragraph; a long one line by line, sentence by sentence, or cut if it has neither."""
    if len(paragraph) <= WHOLE_CHARACTERS:
        yield paragraph
        return
    lines = paragraph.split("\n")
    parts = lines if len(lines) > 1 else _SENTENCE_END.split(paragraph)
    if len(parts) == 1:
        yield from (paragraph[at : at + WHOLE_CHARACTERS] for at in range(0, len(paragraph), WHOLE_CHARACTERS))
        return
    for part in parts:
        yield from _short(part)


def _anchor(heading: str) -> str:
    """Return a heading as GitHub writes it in an address: lower case, hyphens instead of spaces."""
    plain = _NO_ANCHOR.sub("", unicodedata.normalize("NFC", heading).lower())
    return "-".join(plain.split())[:_LONGEST_ANCHOR].strip("-")
