"""Bytes become text: UTF-8, UTF-16 and CP949 are told by content."""

import codecs
import re
from typing import NamedTuple

from data.cells import REPLACEMENT
from data.problems import DataError, Problem, ProblemCode

_HANGUL = re.compile("[가-힣]")
_FOREIGN_LETTER = re.compile("[\\u3131-\\u318e\\u4e00-\\u9fff\\uf900-\\ufaff]")  # jamo, Hanja
_FAMILIAR = re.compile("[\t\n\r -~가-힣]")
_UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


class Decoded(NamedTuple):
    """The text, the name of its encoding, and what was mended on the way."""

    text: str
    encoding: str
    problems: tuple[Problem, ...] = ()


def decode(content: bytes) -> Decoded:
    """Decode the bytes of a text file; a byte order mark is dropped.

    Raises `DataError` where no known encoding fits.
    """
    if content.startswith(_UTF32_MARKS):
        raise _unknown(content, 0)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return Decoded(_strictly(content, "utf-16"), "UTF-16")
    if b"\x00" in content and (text := _utf16_without_mark(content)) is not None:
        return Decoded(text, "UTF-16")
    try:
        return Decoded(content.decode("utf-8-sig"), "UTF-8")
    except UnicodeDecodeError as error:
        return _cp949(content) or _damaged_utf8(content, error.start)


def _strictly(content: bytes, codec: str) -> str:
    try:
        return content.decode(codec)
    except UnicodeDecodeError as error:
        raise _unknown(content, error.start) from error


def _utf16_without_mark(content: bytes) -> str | None:
    """The text, if one byte order makes most characters ASCII or Hangul and leaves no NUL."""
    best, best_share = None, 0.5
    for codec in ("utf-16-le", "utf-16-be"):
        try:
            text = content.decode(codec)
        except UnicodeDecodeError:
            continue
        start = text[:10_000]
        share = len(_FAMILIAR.findall(start)) / len(start)
        if share > best_share and "\x00" not in start:
            best, best_share = text, share
    return best


def _cp949(content: bytes) -> Decoded | None:
    """The text, if it is CP949. Damaged UTF-8 and Japanese or Latin text decode to jamo and Hanja instead."""
    try:
        text = content.decode("cp949")
    except UnicodeDecodeError:
        return None
    start = text[:100_000]
    if len(_HANGUL.findall(start)) < len(_FOREIGN_LETTER.findall(start)) or _mostly_utf8(content):
        return None
    return Decoded(text, "CP949")


def _mostly_utf8(content: bytes) -> bool:
    text = content[:1_000_000].decode("utf-8", "replace")
    broken = text.count(REPLACEMENT)
    return sum(not character.isascii() for character in text) - broken > 10 * broken


def _damaged_utf8(content: bytes, first: int) -> Decoded:
    """UTF-8 with a few broken places, which are mended; anything worse is refused."""
    if not _mostly_utf8(content):
        raise _unknown(content, first)
    text = content.decode("utf-8-sig", "replace")
    line = content.count(b"\n", 0, first) + 1
    problem = Problem.of(ProblemCode.MENDED_BYTES, count=text.count(REPLACEMENT), line=line)
    return Decoded(text, "UTF-8", (problem,))


def _unknown(content: bytes, position: int) -> DataError:
    line = content.count(b"\n", 0, position) + 1
    return DataError.of(ProblemCode.UNKNOWN_ENCODING, byte=f"0x{content[position]:02X}", line=line)
