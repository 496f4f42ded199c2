"""A document of any kind becomes a table of passages: id, title and text.

The paragraphs and headings of text, Markdown and web pages are read here, those of Word documents, slides and Hangul
files through `dochan`, and those of PDFs through PDFium."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from mrc_workbench.data.formats.opening import Format
from mrc_workbench.data.formats.sections import Block, split_document
from mrc_workbench.data.formats.tables import RawRow, Table, broken_told, shown
from mrc_workbench.data.formats.text import Content, check_size
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE_LINE = re.compile(r"^title:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_WHITE_SPACE = re.compile(r"\s+")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_MOST_NESTED = 100  # quotations and lists in each other; what is nested deeper is left out
_WITHOUT_TEXT = "script, style, noscript, template, svg, nav, aside, footer, button, iframe"
# elements that end a line; a cell of a table ends with a tab
_BLOCKS = {
    "address", "article", "blockquote", "caption", "center", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "header", "hr", "li", "main", "ol", "p", "pre", "section", "summary", "table", "tr", "ul",
}  # fmt: skip


def text_blocks(text: str) -> Iterator[Block]:
    """Yield the paragraphs between blank lines."""
    return map(Block, _BLANK_LINES.split(_with_line_feeds(text)))


def markdown_blocks(text: str) -> Iterator[Block]:
    """Yield headings and paragraphs of Markdown, without marks of emphasis, addresses of links and comments."""
    text = _with_line_feeds(text)
    if front := _FRONT_MATTER.match(text):
        if title := _TITLE_LINE.search(front[1]):
            yield Block(title[1].strip("\"' "), level=1)
        text = text[front.end() :]
    level = 0
    cells: list[str] | None = None  # of the row of a table that is being read
    for token in _markdown_parser().parse(text):
        match token.type:
            case "heading_open":
                level = _HEADINGS[token.tag]
            case "heading_close":
                level = 0
            case "tr_open":
                cells = []
            case "tr_close":
                yield Block("\t".join(cells or []))
                cells = None
            case "inline" if cells is not None:
                cells.append(_plain(token))
            case "inline":
                yield Block(_plain(token), level)
            case "fence" | "code_block":
                yield Block(token.content)
            case "html_block":
                yield from html_blocks(_COMMENT.sub("", token.content))


@cache
def _markdown_parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"maxNesting": _MOST_NESTED}).enable("table")


def _plain(inline: Any) -> str:
    """Return the text of a paragraph's tokens; an image is its description."""
    parts = []
    for token in inline.children or []:
        if token.type in ("softbreak", "hardbreak"):
            parts.append("\n")
        elif token.type != "html_inline":
            parts.append(token.content)
    return "".join(parts)


def html_title(text: str) -> str:
    """Return the title that a web page names in its head, else ""."""
    from selectolax.lexbor import LexborHTMLParser

    title = LexborHTMLParser(text).css_first("title")
    return " ".join(title.text().split()) if title is not None else ""


def html_blocks(text: str) -> Iterator[Block]:
    """Yield headings and paragraphs of a web page; scripts, menus, side bars and footers are left out."""
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
            yield Block(_tidy(parts), level)
            parts = []
            if node.tag in _HEADINGS:
                level = _HEADINGS[node.tag] if is_start else 0
    yield Block(_tidy(parts), level)


def _walk(root: Any) -> Iterator[tuple[bool, Any]]:
    """Yield each node below `root` as it begins and as it ends, without recursion: a page may nest deeply."""
    node = root.child
    path: list[Any] = []
    while node is not None or path:
        if node is None:
            node = path.pop()
            yield False, node
            node = node.next
            continue
        yield True, node
        if node.tag != "-text" and node.child is not None:
            path.append(node)
            node = node.child
            continue
        if node.tag != "-text":
            yield False, node
        node = node.next


def _tidy(parts: list[str]) -> str:
    """Return the lines of an element, with the cells of a table's row between tabs."""
    rows = ((" ".join(cell.split()) for cell in line.split("\t")) for line in "".join(parts).split("\n"))
    return "\n".join("\t".join(cells).strip() for cells in rows)


def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


_ERROR = "ERR:"
_PASSWORD_WORDS = ("암호", "password", "encrypt")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_LEFT_OUT = ("header", "footer")  # the same on each page
_ABOUT = "docProps/"  # author and title of the file, which are no text of it


def office_blocks(content: Content) -> Iterator[Block]:
    """Yield headings, paragraphs and rows of tables. Raises `DataError` for a password or a broken document."""
    from dochan import Dochan

    if _ENCRYPTED in content.start:
        raise DataError.of(ProblemCode.ENCRYPTED_DOCUMENT)
    with _path_of(content) as path:
        document = Dochan(str(path)).to_dict()
    elements = [element for section in document["sections"] for element in section["elements"]]
    blocks = [block for element in elements for block in _blocks_of(element)]
    errors = [error for error in document["metadata"].get("errors", []) if error.startswith(_ERROR)]
    if errors and not any(block.text.strip() for block in blocks):
        if any(word in errors[0].lower() for word in _PASSWORD_WORDS):
            raise DataError.of(ProblemCode.ENCRYPTED_DOCUMENT)
        reason = shown(errors[0].removeprefix(_ERROR), 200)
        raise DataError.of(ProblemCode.BROKEN_DOCUMENT, reason=reason)
    yield from blocks


def _blocks_of(element: Mapping[str, Any]) -> Iterator[Block]:
    if element["type"] == "table":
        caption = element.get("caption", {}).get("text", "")
        yield Block(caption)
        for row in element["rows"]:
            yield Block("\t".join(" ".join(cell["text"].split()) for cell in row))
    elif element["type"] not in _LEFT_OUT and not element.get("provenance", {}).get("path", "").startswith(_ABOUT):
        yield Block(element.get("text", ""), element.get("heading_level", 0))


@contextmanager
def _path_of(content: Content) -> Iterator[Path]:
    """Yield the file of a content; bytes are written into a temporary one."""
    if isinstance(content.source, Path):
        yield content.source
        return
    with TemporaryDirectory(prefix="mrc-document-") as folder:
        path = Path(folder) / "document"
        path.write_bytes(content.whole)
        yield path


MOST_PAGES = 10_000
_LOCKED = "Incorrect password"
_HYPHEN = re.compile("(?:\ufffe|\u00ad)(?:\r?\n)?")  # of a word that goes on in the next line
_LINE_END = re.compile(r"\r\n?")


def pdf_blocks(content: Content) -> Iterator[Block]:
    """Yield one block for each page, also for a page without text. Raises `DataError` if the file cannot be read."""
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        document = PdfDocument(content.in_memory_or_path)
    except PdfiumError as error:
        if _LOCKED in str(error):
            raise DataError.of(ProblemCode.ENCRYPTED_DOCUMENT) from error
        raise DataError.of(ProblemCode.BROKEN_DOCUMENT, reason=str(error)) from error
    with broken_told(ProblemCode.BROKEN_DOCUMENT):
        check_size(len(document), "pages", MOST_PAGES)
        try:
            for number in range(len(document)):
                page = document[number]
                text = page.get_textpage()
                yield Block(_LINE_END.sub("\n", _HYPHEN.sub("", text.get_text_bounded())), page=number + 1)
                text.close()
                page.close()
        finally:
            document.close()


DOCUMENT_COLUMNS = ("id", "title", "text")
MOST_CHARACTERS_OF_A_DOCUMENT = 50_000_000
_CHARSET = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([\w\-]+)""", re.IGNORECASE)


def document_table(content: Content, format_: Format, file_id: str) -> Table:
    """Return the passages of a document, read as they are asked for.

    The id of a passage is `file_id`, with `#` and the name of the section if there are several. Reading the rows raises
    `DataError` if the document is broken, has a password, or contains no text.
    """
    return Table(DOCUMENT_COLUMNS, _rows(content, format_, unicodedata.normalize("NFC", file_id)))


def _rows(content: Content, format_: Format, file_id: str) -> Iterator[RawRow]:
    blocks = []
    size = 0
    for block in _READERS[format_](content):
        size += len(block.text)
        check_size(size, "characters", MOST_CHARACTERS_OF_A_DOCUMENT)
        blocks.append(block)
    title, sections = split_document(blocks)
    empty_pages = sum(1 for block in blocks if block.page and not block.text.strip())
    if not sections:
        raise DataError.of(ProblemCode.SCANNED_DOCUMENT if empty_pages else ProblemCode.DOCUMENT_WITHOUT_TEXT)
    if empty_pages:
        yield RawRow(0, {}, Problem.of(ProblemCode.PAGES_WITHOUT_TEXT, pages=empty_pages))
    title = title or unicodedata.normalize("NFC", PurePosixPath(file_id).stem)
    for number, section in enumerate(sections, start=1):
        id_ = f"{file_id}#{section.anchor}" if section.anchor else file_id
        yield RawRow(number, {"id": id_, "title": title, "text": section.text})


def _text(content: Content) -> str:
    encoding = content.encoding
    return content.whole.decode(encoding.codec, encoding.errors)


def _html_document(content: Content) -> Iterator[Block]:
    text = ""
    try:
        text = _text(content)
    except DataError:
        if named := _CHARSET.search(content.mark):  # a page may name its encoding
            with suppress(LookupError, UnicodeDecodeError):
                text = content.whole.decode(named[1].decode("ascii"))
        if not text:
            raise
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
