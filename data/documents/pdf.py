"""The text of a PDF's pages, through PDFium."""

import re
from collections.abc import Iterator

from mrc_workbench.data.documents.sections import Block
from mrc_workbench.data.formats.tables import broken_told
from mrc_workbench.data.formats.text import Content, check_size
from mrc_workbench.data.problems import DataError, ProblemCode

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
