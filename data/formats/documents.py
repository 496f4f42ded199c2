"""Reads documents as tables of passages: the whole document if it is short, else its sections.

`dochan` reads Word documents, slides and Hangul files, PDFium reads PDFs.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, count
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from mrc_workbench.data.formats.opening import Format
from mrc_workbench.data.formats.tables import RawRow, RawTable, display_text, wrap_errors
from mrc_workbench.data.formats.text import Content, EncodedText, check_size
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

WHOLE_CHARACTERS = 2_000  # a document up to this length is one passage
_MAX_SECTION_CHARACTERS = 4_000  # a longer section is split between paragraphs
_SENTENCE_END = re.compile(r"(?<=[.!?。！？…])\s+")
_NO_ANCHOR = re.compile(r"[^\w\- ]+")
_MAX_ANCHOR_CHARACTERS = 80


class DocumentBlock(NamedTuple):
    """A heading (`level` 1 to 6) or a paragraph (0), with its page (from 1) if the document has pages."""

    text: str
    level: int = 0
    page: int = 0


class Section(NamedTuple):
    """A passage of a document. `anchor` is its name in the document, empty for a whole document."""

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


def split_document(blocks: Iterable[DocumentBlock]) -> tuple[str, list[Section]]:
    """Return the title (the first heading, else "") and the passages of a document."""
    filled = [block._replace(text=block.text.strip()) for block in blocks if block.text.strip()]
    title = ""
    if len(filled) > 1 and filled[0].level:
        title = " ".join(filled[0].text.split())
        filled = filled[1:]
    if sum(len(block.text) for block in filled) <= WHOLE_CHARACTERS:
        return title, [Section("", "\n".join(block.text for block in filled))] if filled else []
    return title, list(_name_sections(_chunks(filled)))


def _chunks(blocks: Sequence[DocumentBlock]) -> list[_Chunk]:
    """Split at headings, or between pages without headings; headings without text precede the next section."""
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


def _name_sections(chunks: Sequence[_Chunk]) -> Iterator[Section]:
    used_names: set[str] = set()
    for chunk in chunks:
        anchor = _anchor(chunk.headings[-1]) if chunk.headings else f"page-{chunk.page}" if chunk.page else ""
        numbered = (f"{anchor}-{number}" if anchor else str(number) for number in count(2))
        names = chain([anchor or "1"], numbered)
        for text in _pieces(chunk):
            name = next(name for name in names if name not in used_names)
            used_names.add(name)
            yield Section(name, text)


def _pieces(chunk: _Chunk) -> Iterator[str]:
    """Yield the text of a chunk; a long one is split between paragraphs, and each part has the headings."""
    if chunk.size <= _MAX_SECTION_CHARACTERS:
        yield "\n".join([*chunk.headings, *chunk.paragraphs])
        return
    group = list(chunk.headings)
    size = 0
    for paragraph in chain.from_iterable(map(_split_paragraph, chunk.paragraphs)):
        if size and size + len(paragraph) > WHOLE_CHARACTERS:
            yield "\n".join(group)
            group = list(chunk.headings)
            size = 0
        group.append(paragraph)
        size += len(paragraph)
    yield "\n".join(group)


def _split_paragraph(paragraph: str) -> Iterator[str]:
    """Yield a paragraph; a long one is split at lines, else at sentences, else by length."""
    if len(paragraph) <= WHOLE_CHARACTERS:
        yield paragraph
        return
    lines = paragraph.split("\n")
    parts = lines if len(lines) > 1 else _SENTENCE_END.split(paragraph)
    if len(parts) == 1:
        yield from (paragraph[at : at + WHOLE_CHARACTERS] for at in range(0, len(paragraph), WHOLE_CHARACTERS))
        return
    for part in parts:
        yield from _split_paragraph(part)


def _anchor(heading: str) -> str:
    """Return the anchor of a heading as on GitHub: lower case, hyphens instead of spaces."""
    plain = _NO_ANCHOR.sub("", unicodedata.normalize("NFC", heading).lower())
    return "-".join(plain.split())[:_MAX_ANCHOR_CHARACTERS].strip("-")


_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE_LINE = re.compile(r"^title:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_WHITE_SPACE = re.compile(r"\s+")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_MAX_NESTING = 100  # of quotations and lists; deeper content is left out
_WITHOUT_TEXT = "script, style, noscript, template, svg, nav, aside, footer, button, iframe"
# elements that end a line
_BLOCKS = {
    "address", "article", "blockquote", "caption", "center", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "header", "hr", "li", "main", "ol", "p", "pre", "section", "summary", "table", "tr", "ul",
}  # fmt: skip


def text_blocks(text: str) -> Iterator[DocumentBlock]:
    """Yield the paragraphs between blank lines."""
    return map(DocumentBlock, _BLANK_LINES.split(_with_line_feeds(text)))


def markdown_blocks(text: str) -> Iterator[DocumentBlock]:
    """Yield headings and paragraphs of Markdown, without emphasis marks, link addresses and comments."""
    text = _with_line_feeds(text)
    if front := _FRONT_MATTER.match(text):
        if title := _TITLE_LINE.search(front[1]):
            yield DocumentBlock(title[1].strip("\"' "), level=1)
        text = text[front.end() :]
    level = 0
    cells: list[str] | None = None  # of the current row of a table
    for token in _markdown_parser().parse(text):
        match token.type:
            case "heading_open":
                level = _HEADINGS[token.tag]
            case "heading_close":
                level = 0
            case "tr_open":
                cells = []
            case "tr_close":
                yield DocumentBlock("\t".join(cells or []))
                cells = None
            case "inline" if cells is not None:
                cells.append(_plain(token))
            case "inline":
                yield DocumentBlock(_plain(token), level)
            case "fence" | "code_block":
                yield DocumentBlock(token.content)
            case "html_block":
                yield from html_blocks(_COMMENT.sub("", token.content))


@cache
def _markdown_parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable("table")


def _plain(inline: Any) -> str:
    tokens = (token for token in inline.children or [] if token.type != "html_inline")
    return "".join("\n" if token.type in ("softbreak", "hardbreak") else token.content for token in tokens)


def html_title(text: str) -> str:
    """Return the title in the head of a web page, else ""."""
    from selectolax.lexbor import LexborHTMLParser

    title = LexborHTMLParser(text).css_first("title")
    return " ".join(title.text().split()) if title is not None else ""


def html_blocks(text: str) -> Iterator[DocumentBlock]:
    """Yield headings and paragraphs of a web page without scripts, menus, side bars and footers."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(text)
    for node in tree.css(_WITHOUT_TEXT):
        node.decompose()
    root = tree.body
    if root is None:
        return
    parts: list[str] = []
    level = 0
    for is_start, node in _walk(root):
        if node.tag == "-text":
            parts.append(_WHITE_SPACE.sub(" ", node.text_content or ""))
        elif node.tag == "br" and is_start:
            parts.append("\n")
        elif node.tag in ("td", "th") and not is_start:
            parts.append("\t")
        elif node.tag in _BLOCKS or node.tag in _HEADINGS:
            yield DocumentBlock(_tidy(parts), level)
            parts = []
            if node.tag in _HEADINGS:
                level = _HEADINGS[node.tag] if is_start else 0
    yield DocumentBlock(_tidy(parts), level)


def _walk(root: Any) -> Iterator[tuple[bool, Any]]:
    """Yield the start and the end of each node below `root`, without recursion: pages may nest deeply."""
    pending = [(True, root.child)]
    while pending:
        is_start, node = pending.pop()
        if node is None:
            continue
        yield is_start, node
        if is_start:
            pending.append((True, node.next))
            if node.tag != "-text":
                pending += [(False, node), (True, node.child)]


def _tidy(parts: list[str]) -> str:
    rows = ((" ".join(cell.split()) for cell in line.split("\t")) for line in "".join(parts).split("\n"))
    return "\n".join("\t".join(cells).strip() for cells in rows)


def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


_ERROR = "ERR:"
_PASSWORD_WORDS = ("암호", "password", "encrypt")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_SKIPPED_ELEMENTS = ("header", "footer")  # repeated on each page
_PROPERTIES_FOLDER = "docProps/"  # author and title of the file


def office_blocks(content: Content) -> Iterator[DocumentBlock]:
    """Yield headings, paragraphs and rows of tables. Raises `DataError` for a password or a broken document."""
    from dochan import Dochan

    if _ENCRYPTED in content.start:
        raise DataError.from_code(ProblemCode.ENCRYPTED_DOCUMENT)
    with _path_of(content) as path:
        document = Dochan(str(path)).to_dict()
    elements = [element for section in document["sections"] for element in section["elements"]]
    blocks = [block for element in elements for block in _blocks_of(element)]
    errors = [error for error in document["metadata"].get("errors", []) if error.startswith(_ERROR)]
    if errors and not any(block.text.strip() for block in blocks):
        if any(word in errors[0].lower() for word in _PASSWORD_WORDS):
            raise DataError.from_code(ProblemCode.ENCRYPTED_DOCUMENT)
        reason = display_text(errors[0].removeprefix(_ERROR), 200)
        raise DataError.from_code(ProblemCode.BROKEN_DOCUMENT, reason=reason)
    yield from blocks


def _blocks_of(element: Mapping[str, Any]) -> Iterator[DocumentBlock]:
    if element["type"] == "table":
        yield DocumentBlock(element.get("caption", {}).get("text", ""))
        for row in element["rows"]:
            yield DocumentBlock("\t".join(" ".join(cell["text"].split()) for cell in row))
        return
    path = element.get("provenance", {}).get("path", "")
    if element["type"] not in _SKIPPED_ELEMENTS and not path.startswith(_PROPERTIES_FOLDER):
        yield DocumentBlock(element.get("text", ""), element.get("heading_level", 0))


@contextmanager
def _path_of(content: Content) -> Iterator[Path]:
    if isinstance(content.source, Path):
        yield content.source
        return
    with TemporaryDirectory(prefix="mrc-document-") as folder:
        path = Path(folder) / "document"
        path.write_bytes(content.whole)
        yield path


MAX_PAGES = 10_000
_LOCKED = "Incorrect password"
_HYPHEN = re.compile("(?:\ufffe|\u00ad)(?:\r?\n)?")  # of a word that continues in the next line


def pdf_blocks(content: Content) -> Iterator[DocumentBlock]:
    """Yield a block per page, also for pages without text. Raises `DataError` if the file cannot be read."""
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        document = PdfDocument(content.in_memory_or_path)
    except PdfiumError as error:
        if _LOCKED in str(error):
            raise DataError.from_code(ProblemCode.ENCRYPTED_DOCUMENT) from error
        raise DataError.from_code(ProblemCode.BROKEN_DOCUMENT, reason=str(error)) from error
    with wrap_errors(ProblemCode.BROKEN_DOCUMENT):
        check_size(len(document), "pages", MAX_PAGES)
        try:
            for number in range(len(document)):
                page = document[number]
                text = page.get_textpage()
                yield DocumentBlock(_with_line_feeds(_HYPHEN.sub("", text.get_text_bounded())), page=number + 1)
                text.close()
                page.close()
        finally:
            document.close()


DOCUMENT_COLUMNS = ("id", "title", "text")
MAX_DOCUMENT_CHARACTERS = 50_000_000
_CHARSET = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([\w\-]+)""", re.IGNORECASE)


def document_table(content: Content, format_: Format, file_id: str) -> RawTable:
    """Return the passages of a document, which is read lazily.

    The id of a passage is `file_id`, with `#` and the anchor of the section if there are several. Iteration raises
    `DataError` if the document is broken, has a password, or contains no text.
    """
    return RawTable(DOCUMENT_COLUMNS, _rows(content, format_, unicodedata.normalize("NFC", file_id)))


def _rows(content: Content, format_: Format, file_id: str) -> Iterator[RawRow]:
    blocks = []
    size = 0
    for block in _READERS[format_](content):
        size += len(block.text)
        check_size(size, "characters", MAX_DOCUMENT_CHARACTERS)
        blocks.append(block)
    title, sections = split_document(blocks)
    empty_pages = sum(1 for block in blocks if block.page and not block.text.strip())
    if not sections:
        raise DataError.from_code(ProblemCode.SCANNED_DOCUMENT if empty_pages else ProblemCode.DOCUMENT_WITHOUT_TEXT)
    if empty_pages:
        yield RawRow(0, {}, Problem.from_code(ProblemCode.PAGES_WITHOUT_TEXT, pages=empty_pages))
    title = title or unicodedata.normalize("NFC", PurePosixPath(file_id).stem)
    for number, section in enumerate(sections, start=1):
        id_ = f"{file_id}#{section.anchor}" if section.anchor else file_id
        yield RawRow(number, {"id": id_, "title": title, "text": section.text})


def _html_document(content: Content) -> Iterator[DocumentBlock]:
    text = ""
    try:
        text = EncodedText(content, content.encoding).whole
    except DataError:
        if named := _CHARSET.search(content.signature):  # the page may declare its encoding
            with suppress(LookupError, UnicodeDecodeError):
                text = content.whole.decode(named[1].decode("ascii"))
        if not text:
            raise
    yield DocumentBlock(html_title(text), level=1)
    yield from html_blocks(text)


_READERS: dict[Format, Callable[[Content], Iterator[DocumentBlock]]] = {
    Format.TEXT: lambda content: text_blocks(EncodedText(content, content.encoding).whole),
    Format.MARKDOWN: lambda content: markdown_blocks(EncodedText(content, content.encoding).whole),
    Format.HTML: _html_document,
    Format.PDF: pdf_blocks,
    Format.WORD: office_blocks,
    Format.SLIDES: office_blocks,
    Format.HANGUL: office_blocks,
}
