"""The format of a file, told by content and never by name."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from data.files.columns import is_known
from data.files.content import Content, check_size
from data.files.delimited import find_delimiter
from data.files.encodings import EncodedText, encoding_of
from data.files.json_rows import is_jsonl, leading_object, parse_json
from data.files.plain_text import holds_passages
from data.files.squad import squad_articles
from data.problems import DataError, Problem, ProblemCode

MAX_BYTES = 2**33
MAX_WHOLE_BYTES = 2**30  # of JSON in one piece and Excel, which are read whole
_OLD_OFFICE = bytes.fromhex("D0CF11E0A1B11AE1")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")


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


@dataclass(frozen=True)
class RecognisedFile:
    """A format, and what telling it has already brought to light."""

    format: Format
    encoding: str = ""
    text: EncodedText | None = None
    delimiter: str = ""
    value: Any = None  # the parsed JSON; None where there is an object a line
    problems: tuple[Problem, ...] = ()


def recognise(content: bytes | Content, knows: Callable[[str], bool] = is_known) -> RecognisedFile:
    """Tell the format of a file's bytes; `knows` tells whether a name is one of a column.

    Raises `DataError` where it is none that can be read.
    """
    content = Content.of(content)
    if all(part.isspace() for part in content.parts()):
        raise DataError.of(ProblemCode.EMPTY_FILE)
    check_size(content.size, "bytes", MAX_BYTES)
    return _binary(content) or _text(content, knows)


def _binary(content: Content) -> RecognisedFile | None:
    if content.start.startswith(b"PAR1"):
        return RecognisedFile(Format.PARQUET)
    if content.start.startswith(_OLD_OFFICE):
        raise DataError.of(ProblemCode.OLD_WORKBOOK)
    if not content.start.startswith(b"PK\x03\x04"):
        return None
    check_size(content.size, "bytes", MAX_WHOLE_BYTES)
    from data.files.workbooks import is_workbook  # openpyxl: only who reads a workbook waits for it

    if not is_workbook(content.whole):
        raise DataError.of(ProblemCode.NOT_A_WORKBOOK)
    return RecognisedFile(Format.EXCEL)


def _text(content: Content, knows: Callable[[str], bool]) -> RecognisedFile:
    try:
        encoding = encoding_of(content)
    except DataError:
        _refuse_binary(content.start[:4096].decode("latin-1"), most=0.03)
        raise
    text = EncodedText(content, encoding)
    _refuse_binary(text.head[:4096], most=0.1)
    start = (text.head.lstrip() or text.whole.lstrip())[:1]
    if not start:
        raise DataError.of(ProblemCode.EMPTY_FILE)
    if start == "<":
        raise DataError.of(ProblemCode.UNKNOWN_FORMAT, found="it begins with <, as a web page does")
    if start in "{[":
        format_, value = _json(text)
        return RecognisedFile(format_, encoding.name, text, value=value, problems=encoding.problems)
    delimiter = find_delimiter(text.head, knows)
    if delimiter is None and knows(text.head.lstrip().partition("\n")[0].strip('\r" ')):
        # one column with its name: commas in it are no delimiters
        return RecognisedFile(Format.CSV, encoding.name, text, "\t", problems=encoding.problems)
    if delimiter is None and holds_passages(text.head):
        return RecognisedFile(Format.TEXT, encoding.name, text, problems=encoding.problems)
    if delimiter is None:
        raise DataError.of(ProblemCode.UNKNOWN_FORMAT, found="text without columns")
    format_ = Format.TSV if delimiter == "\t" else Format.CSV
    return RecognisedFile(format_, encoding.name, text, delimiter, problems=encoding.problems)


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
