"""Bytes become text: UTF-8, UTF-16 and CP949 are told by content."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from io import StringIO, TextIOWrapper
from typing import NamedTuple

from data.files.cells import REPLACEMENT
from data.files.columns import NAMES
from data.files.content import Content
from data.problems import DataError, Problem, ProblemCode

_HANGUL = re.compile("[가-힣]")
_FOREIGN_LETTER = re.compile("[\\u3131-\\u318e\\u4e00-\\u9fff\\uf900-\\ufaff]")  # jamo, Hanja
_FAMILIAR = re.compile("[\t\n\r -~가-힣]")
_KOREAN_NAMES = [name for names in NAMES.values() for name in names if len(name) > 1 and not name.isascii()]
_HEAD = 1_000_000  # characters
_UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


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


def encoding_of(content: Content) -> Encoding:
    """Tell how bytes become text. Raises `DataError` where no known encoding fits."""
    if content.start.startswith(_UTF32_MARKS):
        raise _unknown(content.whole, 0)
    if content.start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _strictly(content.whole, "utf-16")
    if any(b"\x00" in part for part in content.parts()) and (codec := _utf16_without_mark(content.whole)) is not None:
        return Encoding(codec, "UTF-16")
    if _is_utf8(content):
        return Encoding("utf-8-sig", "UTF-8")
    return _cp949(content.whole) or _damaged_utf8(content.whole)


def _is_utf8(content: Content) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for part in content.parts():
            decoder.decode(part)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _strictly(content: bytes, codec: str) -> Encoding:
    try:
        content.decode(codec)
    except UnicodeDecodeError as error:
        raise _unknown(content, error.start) from error
    return Encoding(codec, "UTF-16")


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
    first = _first_broken(content)
    if not _mostly_utf8(content):
        raise _unknown(content, first)
    count = content.decode("utf-8-sig", "replace").count(REPLACEMENT)
    problem = Problem.of(ProblemCode.MENDED_BYTES, count=count, line=content.count(b"\n", 0, first) + 1)
    return Encoding("utf-8-sig", "UTF-8", "replace", (problem,))


def _first_broken(content: bytes) -> int:
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return error.start
    return len(content)


def _unknown(content: bytes, position: int) -> DataError:
    line = content.count(b"\n", 0, position) + 1
    return DataError.of(ProblemCode.UNKNOWN_ENCODING, byte=f"0x{content[position]:02X}", line=line)
