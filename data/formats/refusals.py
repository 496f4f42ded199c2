"""Files that hold no rows and say how to save them instead: documents, pointers to files, web pages, other structures.

A document (Word, PowerPoint, Hangul, PDF) is recognised by content, then by name. The text of most becomes passages:
see `data.formats.documents`. Where rows are needed, and for the kinds that no library here reads, the error says in
which format to save them."""

import re
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import PurePath
from zipfile import BadZipFile, ZipFile

from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError, ProblemCode

OLE = bytes.fromhex("D0CF11E0A1B11AE1")
ZIP = b"PK\x03\x04"
_PDF, _RTF, _OLD_HANGUL = b"%PDF-", b"{\\rtf", b"HWP Document File"
_PDF_WITHIN = 1024  # bytes before the mark that readers of PDF allow
_DIRECTORY_BYTES = 1 << 16  # of an OLE file's directory, which names its streams
_BY_ENTRY = {  # of a zip archive, by the name of an entry
    "word/document.xml": ProblemCode.WORD_DOCUMENT,
    "ppt/presentation.xml": ProblemCode.PRESENTATION,
    "Contents/content.hpf": ProblemCode.HANGUL_DOCUMENT,
}
_BY_MIME_TYPE = {  # of a zip archive whose first entry is `mimetype`
    b"application/hwp+zip": ProblemCode.HANGUL_DOCUMENT,
    b"application/vnd.oasis.opendocument.text": ProblemCode.UNREAD_DOCUMENT,
    b"application/vnd.oasis.opendocument.presentation": ProblemCode.UNREAD_DOCUMENT,
}
_BY_STREAM = {  # of an OLE file
    "WordDocument": ProblemCode.WORD_DOCUMENT,
    "PowerPoint Document": ProblemCode.PRESENTATION,
    "HwpSummaryInformation": ProblemCode.HANGUL_DOCUMENT,
}
_OF_WORKBOOKS = ("Workbook", "Book")
_BY_SUFFIX = {
    **dict.fromkeys((".doc", ".docx"), ProblemCode.WORD_DOCUMENT),
    **dict.fromkeys((".odt", ".rtf", ".odp"), ProblemCode.UNREAD_DOCUMENT),
    **dict.fromkeys((".ppt", ".pptx"), ProblemCode.PRESENTATION),
    **dict.fromkeys((".hwp", ".hwpx"), ProblemCode.HANGUL_DOCUMENT),
    ".pdf": ProblemCode.PDF_DOCUMENT,
    **dict.fromkeys((".xls", ".ods"), ProblemCode.OLD_WORKBOOK),
}
DOCUMENTS = frozenset(_BY_SUFFIX.values())


def refuse_document(content: Content, name: str = "") -> None:
    """Raise `DataError` where a file is a document: by content, and by `name` where its content tells nothing."""
    if (code := document_kind(content, name)) is not None:
        raise DataError.of(code)


def document_kind(content: Content, name: str = "") -> ProblemCode | None:
    """Return which document a file is; None where it may hold data."""
    start = content.mark
    named = _BY_SUFFIX.get(PurePath(name).suffix.lower())
    if start.startswith(OLE):
        code = next((code for stream, code in _BY_STREAM.items() if _holds_stream(content.start, stream)), None)
        if code is None and _holds_stream(content.start, *_OF_WORKBOOKS):
            return None
        return code or named or ProblemCode.OLD_WORKBOOK  # with a password all it tells is that it is one of Office
    if start.startswith(ZIP):  # an .xlsx file may be called .xls
        return _kind_of_zip(content) or (None if named is ProblemCode.OLD_WORKBOOK else named)
    if _PDF in start[:_PDF_WITHIN]:
        return ProblemCode.PDF_DOCUMENT
    if start.startswith((_RTF, _OLD_HANGUL)):
        return ProblemCode.UNREAD_DOCUMENT
    is_binary = b"\x00" in start  # text under a wrong name is read as text
    return named if is_binary else None


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
    codes = [code for name, code in _BY_ENTRY.items() if name in names]
    codes += [code for type_, code in _BY_MIME_TYPE.items() if content.mark[30:].startswith(b"mimetype" + type_)]
    return next(iter(codes), None)


_LFS = re.compile(r"version https://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/")
_LFS_SIZE = re.compile(r"^size (\d+)\s*$", re.MULTILINE)
_ANNEX = re.compile(r"(?:\.\./)*(?:\.git)?/annex/objects/\S+\s*")
_WEB_PAGE = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)
_TITLE = re.compile(r"<title[^>]*>\s*([^<]{1,200}?)\s*</title>", re.IGNORECASE)
_MOST_LINES = 200
_LEAST_LINES = 3
_REPEATED = 0.9  # fraction of the lines in which a delimiter stands equally often
# between fields, and seldom in prose
_SEPARATORS = re.compile("[#$%&@^~|]{2,}|[|^~]|::+|;;|[=-]>|[\t;¦¬§│‖\x01\x02\x1c-\x1f]")
_JUDGEMENTS = "a list of judgements for learning to rank (grade, qid, document); give it together with the corpus"
# what most lines look like: those of the first kind may pass for a table, so they are looked for before one is
_FIRST_STRUCTURES = (
    (re.compile(r"\d+\s+qid:\S+"), _JUDGEMENTS),
    (re.compile(r"\s*(?:insert into|create table|drop table)\b", re.IGNORECASE), "an SQL dump"),
)
_OTHER_STRUCTURES = (
    (re.compile(r"\s*(?:- )?[\w.\-]+:(?:\s|$)"), "lines of keys and values, such as YAML"),
    (re.compile(r"[A-Z][A-Z0-9] {2}- "), "a list of references (RIS)"),
    (re.compile(r"\s*\w+\s*=\s*[{\"]"), "BibTeX or settings"),
    (re.compile(r"\s*</?[a-z][\w:-]*(?:\s[^<>]*)?/?>", re.IGNORECASE), "markup (XML or HTML)"),
)


def refuse_pointer(start: str) -> None:
    """Raise `DataError` if a text only points to the file."""
    if _LFS.match(start):
        size = _LFS_SIZE.search(start)
        raise DataError.of(ProblemCode.LFS_POINTER, size=f"{int(size[1]):,}" if size else "?")
    if _ANNEX.match(start) and len(start.split("\n")) <= 2:
        raise DataError.of(ProblemCode.ANNEX_POINTER)


def refuse_web_page(start: str) -> None:
    """Raise `DataError` if a text is a web page, as servers send it in place of a file."""
    if _WEB_PAGE.match(start[:5000]):
        title = _TITLE.search(start)
        raise DataError.of(ProblemCode.WEB_PAGE, title=f": {title[1]}" if title else "")


def refuse_structure(head: str) -> None:
    """Raise `DataError` if lines have a structure that may pass for a table, and is none."""
    _refuse(_lines(head), _FIRST_STRUCTURES)


def refuse_lines(head: str) -> None:
    """Raise `DataError` if lines that are no table have a delimiter or a structure: no line of them is a passage."""
    lines = _lines(head)
    _refuse(lines, _OTHER_STRUCTURES)
    if (delimiter := _repeated(lines)) is not None:
        raise DataError.of(ProblemCode.UNKNOWN_DELIMITER, delimiter=delimiter)


def _lines(head: str) -> list[str]:
    """Return the first lines that are neither blank nor comments."""
    lines = (line for line in head[:200_000].split("\n") if line.strip() and not line.startswith("#"))
    return list(islice(lines, _MOST_LINES))


def _refuse(lines: Sequence[str], structures: Iterable[tuple[re.Pattern[str], str]]) -> None:
    for pattern, found in structures:
        if sum(pattern.match(line) is not None for line in lines) > 0.5 * max(1, len(lines)):
            raise DataError.of(ProblemCode.UNKNOWN_STRUCTURE, found=found)


def _repeated(lines: Sequence[str]) -> str | None:
    """Return a separator that stands equally often inside nearly every line."""
    if len(lines) < _LEAST_LINES:
        return None
    counts: dict[str, Counter[int]] = {}
    for line in lines:
        for separator, count in Counter(_SEPARATORS.findall(line.strip()[1:-1])).items():
            counts.setdefault(separator, Counter())[count] += 1
    for separator, by_count in counts.items():
        if max(by_count.values()) >= _REPEATED * len(lines):
            return separator if separator.isprintable() else repr(separator)
    return None
