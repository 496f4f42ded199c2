"""The bytes of a file, their encoding (UTF-8, UTF-16 or CP949, by content), and text without columns as passages."""

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import BinaryIO, NamedTuple

from data.formats.columns import NAMES
from data.formats.tables import REPLACEMENT, RawRow, Table
from data.problems import DataError, Problem, ProblemCode

_PART = 1 << 20  # bytes
_START = 4 << 20
_HEAD = 1_000_000  # characters
_HANGUL = re.compile("[가-힣]")
_FOREIGN_LETTER = re.compile("[\\u3131-\\u318e\\u4e00-\\u9fff\\uf900-\\ufaff]")  # jamo, Hanja
_FAMILIAR = re.compile("[\t\n\r -~가-힣]")
_KOREAN_NAMES = [name for names in NAMES.values() for name in names if len(name) > 1 and not name.isascii()]
_UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_NAME = "text"  # of the only column; one of those that are guessed to hold passages


@dataclass(frozen=True)
class Content:
    """The bytes themselves, or the file they are in. Reading them raises `OSError` where the file has gone."""

    source: bytes | Path = field(repr=False)

    @classmethod
    def of(cls, given: "bytes | Content") -> "Content":
        """Return content for bytes; content is returned as it is."""
        return given if isinstance(given, Content) else cls(given)

    def open(self) -> BinaryIO:
        return BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb")

    @cached_property
    def size(self) -> int:
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    @cached_property
    def start(self) -> bytes:
        """The first 4 MiB."""
        with self.open() as file:
            return file.read(_START)

    @property
    def whole(self) -> bytes:
        """All bytes; those of a file are read anew at each call."""
        return self.source if isinstance(self.source, bytes) else self.source.read_bytes()

    @cached_property
    def encoding(self) -> "Encoding":
        """How the bytes become text, looked through once. Raises `DataError` where no known encoding fits."""
        if self.start.startswith(_UTF32_MARKS):
            raise _unknown(self.whole, 0)
        if self.start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            if (broken := _first_broken(self.whole, "utf-16")) is not None:
                raise _unknown(self.whole, broken)
            return Encoding("utf-16", "UTF-16")
        if any(b"\x00" in part for part in self.parts()) and (codec := _utf16_without_mark(self.whole)) is not None:
            return Encoding(codec, "UTF-16")
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            for part in self.parts():
                decoder.decode(part)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return _cp949(self.whole) or _damaged_utf8(self.whole)
        return Encoding("utf-8-sig", "UTF-8")

    def parts(self) -> Iterator[bytes]:
        """Yield all bytes, a MiB at a time."""
        with self.open() as file:
            yield from iter(lambda: file.read(_PART), b"")


def check_size(size: int, unit: str, limit: int) -> None:
    """Raise `DataError` where a file holds or claims more than is read."""
    if size > limit:
        raise DataError.of(ProblemCode.TOO_LARGE, size=f"{size:,}", unit=unit, limit=f"{limit:,}")


class Encoding(NamedTuple):
    """How bytes become text: Python's codec, its name for people, what becomes of broken bytes, and what was mended."""

    codec: str
    name: str
    errors: str = "strict"
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class EncodedText:
    """The text of a file, decoded a little at a time."""

    content: Content
    encoding: Encoding

    @cached_property
    def head(self) -> str:
        """The first million characters."""
        decoder = codecs.getincrementaldecoder(self.encoding.codec)(self.encoding.errors)
        return decoder.decode(self.content.start)[:_HEAD]

    @property
    def whole(self) -> str:
        """All of it, decoded anew at each call."""
        return self.content.whole.decode(self.encoding.codec, self.encoding.errors)

    def lines(self, newline: str) -> Iterator[str]:
        """Yield the lines with their ends, as `lines_of`."""
        return TextIOWrapper(self.content.open(), self.encoding.codec, self.encoding.errors, newline)


def lines_of(text: str | EncodedText, newline: str) -> Iterator[str]:
    """Yield the lines of a text with their ends: those `newline` ends, any usual end where it is "".

    `str.splitlines` would break at separators inside texts.
    """
    return StringIO(text, newline) if isinstance(text, str) else text.lines(newline)


def _utf16_without_mark(content: bytes) -> str | None:
    """The codec, if one byte order makes most characters ASCII or Hangul and leaves no NUL."""
    best, best_share = None, 0.5
    for codec in ("utf-16-le", "utf-16-be"):
        try:
            start = content.decode(codec)[:10_000]
        except UnicodeDecodeError:
            continue
        share = len(_FAMILIAR.findall(start)) / len(start)
        if share > best_share and "\x00" not in start:
            best, best_share = codec, share
    return best


def _cp949(content: bytes) -> Encoding | None:
    """CP949, if it is that. Damaged UTF-8 and Japanese or Latin text decode to jamo and Hanja instead.

    Raises `DataError` where it may be either.
    """
    try:
        start = content.decode("cp949")[:100_000]
    except UnicodeDecodeError:
        return None
    if _mostly_utf8(content):
        return None
    names_columns = any(name in start.lstrip().partition("\n")[0] for name in _KOREAN_NAMES)
    if not names_columns and len(_HANGUL.findall(start)) < len(_FOREIGN_LETTER.findall(start)):
        raise DataError.of(ProblemCode.DOUBTFUL_ENCODING)
    return Encoding("cp949", "CP949")


def _mostly_utf8(content: bytes) -> bool:
    text = content[:1_000_000].decode("utf-8", "replace")
    broken = text.count(REPLACEMENT)
    return sum(not character.isascii() for character in text) - broken > 10 * broken


def _damaged_utf8(content: bytes) -> Encoding:
    """UTF-8 with a few broken places, which are mended; anything worse is refused."""
    first = _first_broken(content, "utf-8-sig") or 0
    if not _mostly_utf8(content):
        raise _unknown(content, first)
    count = content.decode("utf-8-sig", "replace").count(REPLACEMENT)
    problem = Problem.of(ProblemCode.MENDED_BYTES, count=count, line=content.count(b"\n", 0, first) + 1)
    return Encoding("utf-8-sig", "UTF-8", "replace", (problem,))


def _first_broken(content: bytes, codec: str) -> int | None:
    try:
        content.decode(codec)
    except UnicodeDecodeError as error:
        return error.start
    return None


def _unknown(content: bytes, position: int) -> DataError:
    line = content.count(b"\n", 0, position) + 1
    return DataError.of(ProblemCode.UNKNOWN_ENCODING, byte=f"0x{content[position]:02X}", line=line)


def holds_passages(head: str) -> bool:
    """Whether the beginning of a text has more than one line that is not blank: less is nothing to search."""
    return len(head.strip().splitlines()) > 1


def has_inner_blank_line(lines: Iterable[str]) -> bool:
    """Return whether a blank line stands between two filled lines. Reads each line once."""
    has_filled_line = False
    has_blank_line_after = False
    for line in lines:
        if not line.strip():
            has_blank_line_after = has_filled_line
        elif has_blank_line_after:
            return True
        else:
            has_filled_line = True
    return False


def plain_text_table(text: str | EncodedText) -> Table:
    """Read the passages of a text, numbered by the line they begin in."""
    head = text if isinstance(text, str) else text.head
    passages = _blocks(text) if has_inner_blank_line(lines_of(head, "")) else _filled_lines(text)
    return Table((_NAME,), (RawRow(number, {_NAME: passage}) for number, passage in passages))


def line_table(text: str | EncodedText) -> Table:
    """Read the lines of a text that are not blank, numbered as they stand in it."""
    return Table((_NAME,), (RawRow(number, {_NAME: line}) for number, line in _filled_lines(text)))


def _filled_lines(text: str | EncodedText) -> Iterator[tuple[int, str]]:
    lines = enumerate(lines_of(text, ""), start=1)
    return ((number, line.strip()) for number, line in lines if line.strip())


def _blocks(text: str | EncodedText) -> Iterator[tuple[int, str]]:
    first, block = 0, list[str]()
    for number, line in enumerate(lines_of(text, ""), start=1):
        if line.strip():
            first = first if block else number
            block.append(line.rstrip())
        elif block:
            yield first, "\n".join(block)
            block = []
    if block:
        yield first, "\n".join(block)
