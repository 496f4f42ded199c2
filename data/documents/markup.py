"""The paragraphs and headings of plain text, Markdown and web pages."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from mrc_workbench.data.documents.sections import Block

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
    for paragraph in _BLANK_LINES.split(_with_line_feeds(text)):
        yield Block(paragraph)


def markdown_blocks(text: str) -> Iterator[Block]:
    """Yield headings and paragraphs of Markdown, without marks of emphasis, addresses of links and comments."""
    text = _with_line_feeds(text)
    if front := _FRONT_MATTER.match(text):
        if title := _TITLE_LINE.search(front[1]):
            yield Block(title[1].strip("\"' "), level=1)
        text = text[front.end() :]
    level = 0
    cells: list[str] = []
    is_in_row = False
    for token in _markdown_parser().parse(text):
        match token.type:
            case "heading_open":
                level = _HEADINGS[token.tag]
            case "heading_close":
                level = 0
            case "tr_open":
                cells = []
                is_in_row = True
            case "tr_close":
                is_in_row = False
                yield Block("\t".join(cells))
            case "inline" if is_in_row:
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
        if node.tag == "-text" or node.child is None:
            if node.tag != "-text":
                yield False, node
            node = node.next
            continue
        path.append(node)
        node = node.child


def _tidy(parts: list[str]) -> str:
    """Return the lines of an element, with the cells of a table's row between tabs."""
    lines = []
    for line in "".join(parts).split("\n"):
        cells = (" ".join(cell.split()) for cell in line.split("\t"))
        lines.append("\t".join(cells).strip())
    return "\n".join(lines)


def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
