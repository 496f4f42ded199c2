"""The format of a file, told by content and never by name, and the way from it to rows."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import chain, islice
from pathlib import Path, PurePath
from stat import S_ISREG
from typing import Any, Generic, NamedTuple, TypeVar

from mrc_workbench.data.formats.columnar import arrow_table, is_arrow, parquet_table
from mrc_workbench.data.formats.columns import is_known
from mrc_workbench.data.formats.encodings import EncodingCandidate
from mrc_workbench.data.formats.refusals import (
    OLE,
    ZIP,
    refuse_document,
    refuse_lines,
    refuse_pointer,
    refuse_structure,
    refuse_web_page,
)
from mrc_workbench.data.formats.tables import RawRow, Table, as_text, mend, shown
from mrc_workbench.data.formats.text import Content, EncodedText, check_size, plain_text_table
from mrc_workbench.data.formats.text_tables import (
    delimited_tables,
    find_table,
    holds_json_text,
    is_jsonl,
    json_table,
    jsonl_opener,
    leading_object,
    parse_json,
    squad_articles,
)
from mrc_workbench.data.formats.workbooks import is_workbook, open_workbook
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

MAX_BYTES = 2**33
MAX_WHOLE_BYTES = 2**30  # of JSON in one piece and Excel, which are read whole
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_SUFFIXES = (
    *(".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".xlsx", ".parquet", ".arrow", ".feather", ".zip"),
    *(".xml", ".trec", ".md", ".markdown", ".html", ".htm", ".xhtml", ".rst", ".pdf"),
    *(".docx", ".doc", ".pptx", ".ppt", ".hwpx", ".hwp"),
)
_SAMPLE_ROWS = 200
_LOOKED_AT, _CELL = 3, 150  # rows that tell what is in the columns, and letters of a cell

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
    SGML = "sgml"  # TREC's topics and documents, read with their fellows (data.layouts)
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
    """A format, and what telling it has already brought to light."""

    format: Format
    encoding: str = ""
    text: EncodedText | None = None
    delimiter: str = ""
    titles: int = 0  # filled rows above the header
    value: Any = None  # the parsed JSON, None where there is an object a line; the opened workbook
    problems: tuple[Problem, ...] = ()


class Proposal(NamedTuple, Generic[C]):
    """What a file offers to choose from: the best guess, the names of its columns, and its first rows as text.

    `candidates` are complete readings, the likeliest first, if the user must choose between them; `encodings` are the
    encodings to choose from if the encoding is unknown.
    """

    columns: C
    available: tuple[str, ...] = ()
    first_rows: tuple[dict[str, str], ...] = ()
    candidates: tuple[C, ...] = ()
    encodings: tuple[EncodingCandidate, ...] = ()


def recognise(content: bytes | Content, knows: Callable[[str], bool] = is_known, name: str = "") -> RecognisedFile:
    """Tell the format of a file's bytes; `knows` tells whether a name is one of a column.

    The `name` of the file matters only for documents without rows, whose error says how to save them.

    Raises `DataError` where it is none that can be read.
    """
    content = Content.of(content)
    if all(part.isspace() for part in content.parts()):
        raise DataError.of(ProblemCode.EMPTY_FILE)
    check_size(content.size, "bytes", MAX_BYTES)
    if content.start.startswith(b"PAR1"):
        return RecognisedFile(Format.PARQUET)
    if is_arrow(content.start):
        return RecognisedFile(Format.ARROW)
    refuse_document(content, name)
    if not content.start.startswith((ZIP, OLE)):
        return _text(content, knows)
    check_size(content.size, "bytes", MAX_WHOLE_BYTES)
    whole = content.whole
    if whole.startswith(ZIP) and not is_workbook(whole, name):
        raise DataError.of(ProblemCode.NOT_A_WORKBOOK)
    workbook = open_workbook(whole, knows)
    return RecognisedFile(Format.EXCEL, value=workbook, problems=workbook.problems)


def _text(content: Content, knows: Callable[[str], bool]) -> RecognisedFile:
    try:
        encoding = content.encoding
    except DataError:
        _refuse_binary(content.start[:4096].decode("latin-1"), most=0.03)
        raise
    text = EncodedText(content, encoding)
    _refuse_binary(text.head[:4096], most=0.1)
    start = (text.head.lstrip() or text.whole.lstrip())[:1]
    if not start:
        raise DataError.of(ProblemCode.EMPTY_FILE)
    refuse_pointer(text.head[:1000].lstrip())
    refuse_web_page(text.head)
    if start == "<":
        raise DataError.of(ProblemCode.UNKNOWN_FORMAT, found="it begins with <, as a web page does")
    found = RecognisedFile(Format.TEXT, encoding.name, text, problems=encoding.problems)
    if start in "{[" or (start == '"' and holds_json_text(text.head)):
        format_, value = _json(text)
        return replace(found, format=format_, value=value)
    refuse_structure(text.head)
    if table := find_table(text.head, knows):
        format_ = Format.TSV if table.delimiter == "\t" else Format.CSV
        problems = (*encoding.problems, *table.problems)
        return replace(found, format=format_, delimiter=table.delimiter, titles=table.titles, problems=problems)
    if knows(text.head.lstrip().partition("\n")[0].strip('\r" ')):
        # one column with its name: commas in it are no delimiters
        return replace(found, format=Format.CSV, delimiter="\t")
    if len(text.head.strip().splitlines()) < 2:  # one line is nothing to search
        raise DataError.of(ProblemCode.UNKNOWN_FORMAT, found="text without columns")
    refuse_lines(text.head)
    return found


def _json(text: EncodedText) -> tuple[Format, Any]:
    first = leading_object(text.head)
    if first is not None:
        return (Format.JSONL if squad_articles(first) is None else Format.SQUAD), None
    check_size(text.content.size, "bytes of JSON in one piece", MAX_WHOLE_BYTES)
    whole = text.whole
    try:
        value = parse_json(whole)
    except DataError:
        if is_jsonl(whole):
            return Format.JSONL, None
        raise
    return (Format.JSON if squad_articles(value) is None else Format.SQUAD), value


def _refuse_binary(start: str, most: float) -> None:
    if len(_CONTROL.findall(start)) > most * len(start):
        raise DataError.of(ProblemCode.UNKNOWN_FORMAT, found="binary data")


def file_content(path: Path) -> Content:
    """Return the content of a file. Raises `DataError` where it cannot be opened, or could be read for ever."""
    try:
        told = path.stat()  # before it is opened: a pipe would wait for its writer
        if not S_ISREG(told.st_mode):
            raise DataError.of(ProblemCode.NO_REGULAR_FILE, path=shown(str(path)))
        if not told.st_size:  # also what the system makes up while it is read, such as another process's memory
            raise DataError.of(ProblemCode.EMPTY_FILE)
        with path.open("rb"):
            return Content(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError.of(ProblemCode.UNREADABLE_FILE, path=shown(str(path)), reason=reason) from error


def table_opener(content: Content, recognised: RecognisedFile) -> Callable[[], Table]:  # noqa: PLR0911 - a format each
    """Return what opens the table of a file anew at each call. Both raise `DataError` if the file is broken."""
    text = recognised.text or ""
    match recognised.format:
        case Format.EXCEL:
            return recognised.value.table  # type: ignore[no-any-return]
        case Format.PARQUET:
            return partial(parquet_table, content)
        case Format.ARROW:
            return partial(arrow_table, content)
        case Format.JSON | Format.SQUAD if recognised.value is not None:
            return partial(json_table, recognised.value)
        case Format.JSON | Format.JSONL | Format.SQUAD:
            return jsonl_opener(text)
        case Format.TEXT:
            return partial(plain_text_table, text)
        case _:
            return delimited_tables(text, recognised.delimiter, recognised.titles)


def looked_at(table: Table) -> tuple[Table, list[Mapping[str, object]]]:
    """Return the table with its first rows to look at, and the cells of its first 200 rows that could be read."""
    rows = iter(table.rows)
    first = list(islice(rows, _SAMPLE_ROWS))
    sample = [row.cells for row in first if row.problem is None]
    whole = chain[RawRow](first, rows)
    to_look_at = ({name: shown(as_text(cells.get(name)), _CELL) for name in table.names} for cells in sample)
    return replace(table, rows=whole, first=tuple(islice(to_look_at, _LOOKED_AT))), sample


def set_name(name: str, otherwise: str) -> str:
    """Return what a set is called by the name of its file."""
    plain = "".join(c for c in mend(PurePath(name.replace("\\", "/")).name) if c.isprintable()).strip()
    plain = plain.removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz")
    suffix = next((suffix for suffix in _SUFFIXES if plain.lower().endswith(suffix)), "")
    return plain[: len(plain) - len(suffix)] or otherwise


@contextmanager
def told_of(name: str, files: Sequence[object]) -> Iterator[None]:
    """Let an error say which of several files it is of."""
    try:
        yield
    except DataError as error:
        if len(files) == 1:
            raise
        problem = replace(error.problem, details={**error.problem.details, "file": shown(name, 80)})
        raise DataError(problem, error.others) from error
