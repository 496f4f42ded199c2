"""Documents that hold no rows (Word, PowerPoint, Hangul, PDF): recognised by content, then by name.

The text of most becomes passages (`data.documents`). Where rows are needed, and for the kinds that no library here
reads, the error says in which format to save them.
"""

import struct
from pathlib import PurePath
from zipfile import BadZipFile, ZipFile

from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError, ProblemCode

OLE = bytes.fromhex("D0CF11E0A1B11AE1")
ZIP = b"PK\x03\x04"
_PDF, _RTF, _OLD_HANGUL = b"%PDF-", b"{\\rtf", b"HWP Document File"
_PDF_WITHIN = 1024  # bytes before the mark that readers of PDF allow
_DIRECTORY_BYTES = 1 << 16  # of an OLE file's directory, which names its streams
_BY_ENTRY = (  # of a zip archive, by the name of an entry
    ("word/document.xml", ProblemCode.WORD_DOCUMENT),
    ("ppt/presentation.xml", ProblemCode.PRESENTATION),
    ("Contents/content.hpf", ProblemCode.HANGUL_DOCUMENT),
)
_BY_MIME_TYPE = (  # of a zip archive whose first entry is `mimetype`
    (b"application/hwp+zip", ProblemCode.HANGUL_DOCUMENT),
    (b"application/vnd.oasis.opendocument.text", ProblemCode.UNREAD_DOCUMENT),
    (b"application/vnd.oasis.opendocument.presentation", ProblemCode.UNREAD_DOCUMENT),
)
_BY_STREAM = (  # of an OLE file
    ("WordDocument", ProblemCode.WORD_DOCUMENT),
    ("PowerPoint Document", ProblemCode.PRESENTATION),
    ("HwpSummaryInformation", ProblemCode.HANGUL_DOCUMENT),
)
_OF_WORKBOOKS = ("Workbook", "Book")
_BY_SUFFIX = {
    ".doc": ProblemCode.WORD_DOCUMENT,
    ".docx": ProblemCode.WORD_DOCUMENT,
    ".odt": ProblemCode.UNREAD_DOCUMENT,
    ".rtf": ProblemCode.UNREAD_DOCUMENT,
    ".ppt": ProblemCode.PRESENTATION,
    ".pptx": ProblemCode.PRESENTATION,
    ".odp": ProblemCode.UNREAD_DOCUMENT,
    ".hwp": ProblemCode.HANGUL_DOCUMENT,
    ".hwpx": ProblemCode.HANGUL_DOCUMENT,
    ".pdf": ProblemCode.PDF_DOCUMENT,
    ".xls": ProblemCode.OLD_WORKBOOK,
    ".ods": ProblemCode.OLD_WORKBOOK,
}
DOCUMENTS = frozenset(_BY_SUFFIX.values())


def refuse_document(content: Content, name: str = "") -> None:
    """Raise `DataError` where a file is a document: by content, and by `name` where its content tells nothing."""
    code = document_kind(content, name)
    if code is not None:
        raise DataError.of(code)


def document_kind(content: Content, name: str = "") -> ProblemCode | None:
    """Return which document a file is; None where it may hold data."""
    start = content.mark
    named = _BY_SUFFIX.get(PurePath(name).suffix.lower())
    if start.startswith(OLE):
        return _kind_of_ole(content.start, named)
    if start.startswith(ZIP):  # an .xlsx file may be called .xls
        return _kind_of_zip(content) or (None if named is ProblemCode.OLD_WORKBOOK else named)
    if _PDF in start[:_PDF_WITHIN]:
        return ProblemCode.PDF_DOCUMENT
    if start.startswith((_RTF, _OLD_HANGUL)):
        return ProblemCode.UNREAD_DOCUMENT
    is_binary = b"\x00" in start  # text under a wrong name is read as text
    return named if is_binary else None


def _kind_of_ole(start: bytes, named: ProblemCode | None) -> ProblemCode | None:
    code = next((code for stream, code in _BY_STREAM if _holds_stream(start, stream)), None)
    if code is None and _holds_stream(start, *_OF_WORKBOOKS):
        return None
    return code or named or ProblemCode.OLD_WORKBOOK  # with a password it tells no more than that it is one of Office


def _holds_stream(start: bytes, *streams: str) -> bool:
    """Look for the names of streams in the directory of an OLE file, whose header says where it begins."""
    try:
        sector_size = 1 << struct.unpack_from("<H", start, 30)[0]
        first_sector = struct.unpack_from("<I", start, 48)[0]
    except struct.error:
        return False
    begin = (first_sector + 1) * sector_size
    parts = (start[begin : begin + _DIRECTORY_BYTES], start)
    return any(stream.encode("utf-16-le") in part for part in parts for stream in streams)


def _kind_of_zip(content: Content) -> ProblemCode | None:
    try:
        with content.open() as file, ZipFile(file) as archive:
            names = {entry.filename for entry in archive.infolist()}
    except (BadZipFile, ValueError, NotImplementedError, struct.error):
        return None  # whoever unpacks it says what is wrong
    for name, code in _BY_ENTRY:
        if name in names:
            return code
    for mime_type, code in _BY_MIME_TYPE:
        if content.mark[30:].startswith(b"mimetype" + mime_type):
            return code
    return None
