"""A document of any kind becomes a table of passages: id, title and text."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath

from mrc_workbench.data.documents.markup import html_blocks, html_title, markdown_blocks, text_blocks
from mrc_workbench.data.documents.office import office_blocks
from mrc_workbench.data.documents.pdf import pdf_blocks
from mrc_workbench.data.documents.sections import Block, split_document
from mrc_workbench.data.formats.opening import Format
from mrc_workbench.data.formats.tables import RawRow, Table
from mrc_workbench.data.formats.text import Content, check_size
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

DOCUMENT_COLUMNS = ("id", "title", "text")
MOST_CHARACTERS_OF_A_DOCUMENT = 50_000_000
SECTION_MARK = "#"
_CHARSET = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([\w\-]+)""", re.IGNORECASE)


def document_table(content: Content, format_: Format, file_id: str) -> Table:
    """Return the passages of a document, read as they are asked for.

    The id of a passage is `file_id`, with `#` and the name of the section if there are several.

    Reading the rows raises `DataError` if the document is broken, has a password, or contains no text.
    """
    return Table(DOCUMENT_COLUMNS, _rows(content, format_, unicodedata.normalize("NFC", file_id)))


def file_of_passage(passage_id: str) -> str:
    """Return the id of the document that a passage belongs to."""
    return passage_id.partition(SECTION_MARK)[0]


def _rows(content: Content, format_: Format, file_id: str) -> Iterator[RawRow]:
    blocks = list(_checked(_READERS[format_](content)))
    title, sections = split_document(blocks)
    empty_pages = sum(1 for block in blocks if block.page and not block.text.strip())
    if not sections:
        raise DataError.of(ProblemCode.SCANNED_DOCUMENT if empty_pages else ProblemCode.DOCUMENT_WITHOUT_TEXT)
    if empty_pages:
        yield RawRow(0, {}, Problem.of(ProblemCode.PAGES_WITHOUT_TEXT, pages=empty_pages))
    title = title or unicodedata.normalize("NFC", PurePosixPath(file_id).stem)
    for number, section in enumerate(sections, start=1):
        id_ = f"{file_id}{SECTION_MARK}{section.anchor}" if section.anchor else file_id
        yield RawRow(number, {"id": id_, "title": title, "text": section.text})


def _checked(blocks: Iterable[Block]) -> Iterator[Block]:
    size = 0
    for block in blocks:
        size += len(block.text)
        check_size(size, "characters", MOST_CHARACTERS_OF_A_DOCUMENT)
        yield block


def _text(content: Content) -> str:
    encoding = content.encoding
    return content.whole.decode(encoding.codec, encoding.errors)


def _page_text(content: Content) -> str:
    """Return the text of a web page, whose head may name its encoding."""
    try:
        return _text(content)
    except DataError:
        named = _CHARSET.search(content.mark)
        if named is None:
            raise
        try:
            return content.whole.decode(named[1].decode("ascii"))
        except (LookupError, UnicodeDecodeError):
            pass
        raise


def _html_document(content: Content) -> Iterator[Block]:
    text = _page_text(content)
    yield Block(html_title(text), level=1)
    yield from html_blocks(text)


_READERS: dict[Format, Callable[[Content], Iterator[Block]]] = {
    Format.TEXT: lambda content: text_blocks(_text(content)),
    Format.MARKDOWN: lambda content: markdown_blocks(_text(content)),
    Format.HTML: _html_document,
    Format.PDF: pdf_blocks,
    Format.WORD: office_blocks,
    Format.SLIDES: office_blocks,
    Format.HANGUL: office_blocks,
}
