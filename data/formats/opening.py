"""Detects the format of a file by its content, and rejects files without rows.

Documents (Word, PowerPoint, Hangul, PDF) are detected by content, then by name. `data.formats.documents` reads most of
them as passages; otherwise the error names a format to save them in.
"""

import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import chain, islice
from pathlib import Path, PurePath
from stat import S_ISREG
from typing import Any, Generic, NamedTuple, TypeVar
from zipfile import BadZipFile, ZipFile

from mrc_workbench.data.formats import text_tables
from mrc_workbench.data.formats.columnar import arrow_table, is_arrow, parquet_table
from mrc_workbench.data.formats.columns import is_known
from mrc_workbench.data.formats.encodings import EncodingCandidate
from mrc_workbench.data.formats.tables import IsKnownName, RawRow, RawTable, as_text, display_text, mend_text
from mrc_workbench.data.formats.text import Content, EncodedText, check_size, plain_text_table
from mrc_workbench.data.formats.workbooks import is_workbook, open_workbook
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

OLE = bytes.fromhex("D0CF11E0A1B11AE1")
ZIP = b"PK\x03\x04"
_PDF = b"%PDF-"
_RTF = b"{\\rtf"
_OLD_HANGUL = b"HWP Document File"
_PDF_WITHIN = 1024  # bytes in which the signature may begin
_DIRECTORY_BYTES = 1 << 16  # read from an OLE file's directory, which names its streams
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
    """Raise `DataError` if a file is a document, by content, or by `name` if the content is ambiguous."""
    if (code := document_kind(content, name)) is not None:
        raise DataError.from_code(code)


def document_kind(content: Content, name: str = "") -> ProblemCode | None:
    """Return the kind of document; None if the file may contain rows."""
    start = content.signature
    named = _BY_SUFFIX.get(PurePath(name).suffix.lower())
    if start.startswith(OLE):
        code = next((code for stream, code in _BY_STREAM.items() if _holds_stream(content.start, stream)), None)
        if code is None and _holds_stream(content.start, *_OF_WORKBOOKS):
            return None
        return code or named or ProblemCode.OLD_WORKBOOK  # an Office file with a password has no other sign
    if start.startswith(ZIP):  # an .xlsx file may be called .xls
        return _kind_of_zip(content) or (None if named is ProblemCode.OLD_WORKBOOK else named)
    if _PDF in start[:_PDF_WITHIN]:
        return ProblemCode.PDF_DOCUMENT
    if start.startswith((_RTF, _OLD_HANGUL)):
        return ProblemCode.UNREAD_DOCUMENT
    return named if b"\x00" in start else None  # text with a wrong name is read as text


def _holds_stream(start: bytes, *streams: str) -> bool:
    """Look for the names of streams in the directory of an OLE file, at the position in its header."""
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
        return None  # unpacking it raises the error
    codes = [code for name, code in _BY_ENTRY.items() if name in names]
    codes += [code for type_, code in _BY_MIME_TYPE.items() if content.signature[30:].startswith(b"mimetype" + type_)]
    return next(iter(codes), None)


_LFS = re.compile(r"version https://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/")
_LFS_SIZE = re.compile(r"^size (\d+)\s*$", re.MULTILINE)
_ANNEX = re.compile(r"(?:\.\./)*(?:\.git)?/annex/objects/\S+\s*")
_WEB_PAGE = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)
_TITLE = re.compile(r"<title[^>]*>\s*([^<]{1,200}?)\s*</title>", re.IGNORECASE)
_MAX_LINES = 200
_MIN_LINES = 3
_REPEATED = 0.9  # fraction of the lines with the same number of delimiters
# common between fields and rare in prose
_SEPARATORS = re.compile("[#$%&@^~|]{2,}|[|^~]|::+|;;|[=-]>|[\t;¦¬§│‖\x01\x02\x1c-\x1f]")
_JUDGEMENTS = "a list of judgements for learning to rank (grade, qid, document); give it together with the corpus"
# patterns of most lines; the first ones may look like a table, so they are checked before
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


def _refuse_placeholder(head: str) -> None:
    start = head[:1000].lstrip()
    if _LFS.match(start):
        size = _LFS_SIZE.search(start)
        raise DataError.from_code(ProblemCode.LFS_POINTER, size=f"{int(size[1]):,}" if size else "?")
    if _ANNEX.match(start) and len(start.split("\n")) <= 2:
        raise DataError.from_code(ProblemCode.ANNEX_POINTER)
    if _WEB_PAGE.match(head[:5000]):
        title = _TITLE.search(head)
        raise DataError.from_code(ProblemCode.WEB_PAGE, title=f": {title[1]}" if title else "")


def _lines(head: str) -> list[str]:
    lines = (line for line in head[:200_000].split("\n") if line.strip() and not line.startswith("#"))
    return list(islice(lines, _MAX_LINES))


def _refuse_structures(lines: Sequence[str], structures: Iterable[tuple[re.Pattern[str], str]]) -> None:
    for pattern, description in structures:
        if sum(pattern.match(line) is not None for line in lines) > 0.5 * max(1, len(lines)):
            raise DataError.from_code(ProblemCode.UNKNOWN_STRUCTURE, found=description)


def _repeated_separator(lines: Sequence[str]) -> str | None:
    if len(lines) < _MIN_LINES:
        return None
    counts: dict[str, Counter[int]] = {}
    for line in lines:
        for separator, count in Counter(_SEPARATORS.findall(line.strip()[1:-1])).items():
            counts.setdefault(separator, Counter())[count] += 1
    for separator, by_count in counts.items():
        if max(by_count.values()) >= _REPEATED * len(lines):
            return separator if separator.isprintable() else repr(separator)
    return None


MAX_BYTES = 2**33
MAX_WHOLE_BYTES = 2**30  # of JSON and Excel, which are read at once
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_SUFFIXES = (
    *(".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".xlsx", ".parquet", ".arrow", ".feather", ".zip"),
    *(".xml", ".trec", ".md", ".markdown", ".html", ".htm", ".xhtml", ".rst", ".pdf"),
    *(".docx", ".doc", ".pptx", ".ppt", ".hwpx", ".hwp"),
)
_SAMPLE_ROWS = 200
_PREVIEW_ROWS = 3
_PREVIEW_CELL_CHARACTERS = 150

C = TypeVar("C")


class Format(StrEnum):
    """The formats that can be read."""

    SQUAD = "squad"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"
    EXCEL = "excel"
    PARQUET = "parquet"
    TEXT = "text"  # passages without columns
    SGML = "sgml"  # TREC's topics and documents, read by data.layouts
    ARROW = "arrow"
    # documents, whose passages `data.formats.documents` reads
    MARKDOWN = "markdown"
    HTML = "html"
    PDF = "pdf"
    WORD = "word"
    SLIDES = "slides"
    HANGUL = "hangul"


@dataclass(frozen=True)
class RecognisedFile:
    """The format of a file, and the results of its detection."""

    format: Format
    encoding: str = ""
    text: EncodedText | None = None
    delimiter: str = ""
    titles: int = 0  # non-blank rows above the header
    value: Any = None  # the parsed JSON (None if it has an object per line), or the opened workbook
    problems: tuple[Problem, ...] = ()


class Proposal(NamedTuple, Generic[C]):
    """Choices for the user: the best guess of columns, the names of all columns, and the first rows as text."""

    columns: C
    available: tuple[str, ...] = ()
    first_rows: tuple[dict[str, str], ...] = ()
    candidates: tuple[C, ...] = ()  # complete alternatives, the likeliest first, if the user must choose
    encodings: tuple[EncodingCandidate, ...] = ()  # if the encoding is unknown


def recognise(content: bytes | Content, is_known_name: IsKnownName = is_known, name: str = "") -> RecognisedFile:
    """Return the format of a file's bytes. Raises `DataError` if it is unknown; `name` is for errors of documents."""
    content = Content.from_bytes(content)
    if all(part.isspace() for part in content.parts()):
        raise DataError.from_code(ProblemCode.EMPTY_FILE)
    check_size(content.size, "bytes", MAX_BYTES)
    if content.start.startswith(b"PAR1"):
        return RecognisedFile(Format.PARQUET)
    if is_arrow(content.start):
        return RecognisedFile(Format.ARROW)
    refuse_document(content, name)
    if not content.start.startswith((ZIP, OLE)):
        return _recognise_text(content, is_known_name)
    check_size(content.size, "bytes", MAX_WHOLE_BYTES)
    whole = content.whole
    if whole.startswith(ZIP) and not is_workbook(whole, name):
        raise DataError.from_code(ProblemCode.NOT_A_WORKBOOK)
    workbook = open_workbook(whole, is_known_name)
    return RecognisedFile(Format.EXCEL, value=workbook, problems=workbook.problems)


def _recognise_text(content: Content, is_known_name: IsKnownName) -> RecognisedFile:
    try:
        encoding = content.encoding
    except DataError:
        _refuse_binary(content.start[:4096].decode("latin-1"), max_fraction=0.03)
        raise
    text = EncodedText(content, encoding)
    _refuse_binary(text.head[:4096], max_fraction=0.1)
    start = (text.head.lstrip() or text.whole.lstrip())[:1]
    if not start:
        raise DataError.from_code(ProblemCode.EMPTY_FILE)
    _refuse_placeholder(text.head)
    if start == "<":
        raise DataError.from_code(ProblemCode.UNKNOWN_FORMAT, found="it begins with <, as a web page does")
    recognised = RecognisedFile(Format.TEXT, encoding.name, text, problems=encoding.problems)
    if start in "{[" or (start == '"' and text_tables.holds_json_text(text.head)):
        format_, value = _recognise_json(text)
        return replace(recognised, format=format_, value=value)
    lines = _lines(text.head)
    _refuse_structures(lines, _FIRST_STRUCTURES)
    if table := text_tables.find_table(text.head, is_known_name):
        format_ = Format.TSV if table.delimiter == "\t" else Format.CSV
        problems = (*encoding.problems, *table.problems)
        return replace(recognised, format=format_, delimiter=table.delimiter, titles=table.titles, problems=problems)
    if is_known_name(text.head.lstrip().partition("\n")[0].strip('\r" ')):
        # a single column: commas are no delimiters
        return replace(recognised, format=Format.CSV, delimiter="\t")
    if len(text.head.strip().splitlines()) < 2:  # a single line is no corpus
        raise DataError.from_code(ProblemCode.UNKNOWN_FORMAT, found="text without columns")
    _refuse_structures(lines, _OTHER_STRUCTURES)
    if (delimiter := _repeated_separator(lines)) is not None:  # not a text of passages
        raise DataError.from_code(ProblemCode.UNKNOWN_DELIMITER, delimiter=delimiter)
    return recognised


def _recognise_json(text: EncodedText) -> tuple[Format, Any]:
    first = text_tables.leading_object(text.head)
    if first is not None:
        return (Format.JSONL if text_tables.squad_articles(first) is None else Format.SQUAD), None
    check_size(text.content.size, "bytes of JSON in one piece", MAX_WHOLE_BYTES)
    whole = text.whole
    try:
        value = text_tables.parse_json(whole)
    except DataError:
        if text_tables.is_jsonl(whole):
            return Format.JSONL, None
        raise
    return (Format.JSON if text_tables.squad_articles(value) is None else Format.SQUAD), value


def _refuse_binary(start: str, max_fraction: float) -> None:
    if len(_CONTROL.findall(start)) > max_fraction * len(start):
        raise DataError.from_code(ProblemCode.UNKNOWN_FORMAT, found="binary data")


def file_content(path: Path) -> Content:
    """Return the content of a file. Raises `DataError` if it cannot be opened or is not a regular file."""
    try:
        status = path.stat()  # before it is opened: opening a pipe waits for its writer
        if not S_ISREG(status.st_mode):
            raise DataError.from_code(ProblemCode.NO_REGULAR_FILE, path=display_text(str(path)))
        if not status.st_size:  # also files of /proc
            raise DataError.from_code(ProblemCode.EMPTY_FILE)
        with path.open("rb"):
            return Content(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError.from_code(ProblemCode.UNREADABLE_FILE, path=display_text(str(path)), reason=reason) from error


def table_opener(content: Content, recognised: RecognisedFile) -> Callable[[], RawTable]:  # noqa: PLR0911 - a format each
    """Return a function that opens the table of a file at each call. Both raise `DataError` for a broken file."""
    text = recognised.text or ""
    match recognised.format:
        case Format.EXCEL:
            return recognised.value.table  # type: ignore[no-any-return]
        case Format.PARQUET:
            return partial(parquet_table, content)
        case Format.ARROW:
            return partial(arrow_table, content)
        case Format.JSON | Format.SQUAD if recognised.value is not None:
            return partial(text_tables.json_table, recognised.value)
        case Format.JSON | Format.JSONL | Format.SQUAD:
            return text_tables.item_opener(partial(text_tables.json_lines, text))
        case Format.TEXT:
            return partial(plain_text_table, text)
        case _:
            return text_tables.delimited_tables(text, recognised.delimiter, recognised.titles)


def preview_table(table: RawTable) -> tuple[RawTable, list[Mapping[str, object]]]:
    """Return the table with a preview of its first rows, and the cells of readable rows among the first 200."""
    rows = iter(table.rows)
    first = list(islice(rows, _SAMPLE_ROWS))
    sample = [row.cells for row in first if row.problem is None]
    whole = chain[RawRow](first, rows)
    previews = (
        {name: display_text(as_text(cells.get(name)), _PREVIEW_CELL_CHARACTERS) for name in table.names}
        for cells in sample
    )
    return replace(table, rows=whole, first=tuple(islice(previews, _PREVIEW_ROWS))), sample


def derive_name(name: str, default: str) -> str:
    """Return the name of a dataset for the name of its file."""
    plain = "".join(c for c in mend_text(PurePath(name.replace("\\", "/")).name) if c.isprintable()).strip()
    plain = plain.removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz")
    suffix = next((suffix for suffix in _SUFFIXES if plain.lower().endswith(suffix)), "")
    return plain[: len(plain) - len(suffix)] or default


@contextmanager
def name_file_in_errors(name: str, files: Sequence[object]) -> Iterator[None]:
    """Add the name of the file to errors if there are several files."""
    try:
        yield
    except DataError as error:
        if len(files) == 1:
            raise
        problem = replace(error.problem, details={**error.problem.details, "file": display_text(name, 80)})
        raise DataError(problem, error.others) from error
