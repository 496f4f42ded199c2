"""The paragraphs and headings of Word documents, slides and Hangul files, through `dochan`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mrc_workbench.data.documents.sections import Block
from mrc_workbench.data.formats.tables import shown
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError, ProblemCode

_ERROR = "ERR:"
_PASSWORD_WORDS = ("암호", "password", "encrypt")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_LEFT_OUT = ("header", "footer")  # the same on each page
_ABOUT = "docProps/"  # author and title of the file, which are no text of it


def office_blocks(content: Content) -> Iterator[Block]:
    """Yield headings and paragraphs; the cells of a table's row are one paragraph.

    Raises `DataError` if the document has a password or cannot be read.
    """
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
