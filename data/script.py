"""The writing of a corpus, told by its letters: what search and audits count depends on it."""

import unicodedata
from collections.abc import Iterable
from enum import StrEnum
from itertools import islice

import regex

_HANGUL = regex.compile(r"\p{Hangul}")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
_LETTER = regex.compile(r"\p{L}")
_TEXTS, _CHARACTERS = 2000, 300  # that are looked at


class Script(StrEnum):
    """How words stand in a text."""

    KOREAN = "korean"  # spaced, with endings that grow onto them
    UNSPACED = "unspaced"  # one after the other
    SPACED = "spaced"


def script_of(texts: Iterable[str]) -> Script:
    """Tell the script of a corpus by the beginnings of its first texts.

    A script counts when it makes up a tenth of the letters: Korean passages are full of Latin names, not the reverse.
    """
    sample = unicodedata.normalize("NFC", "".join(text[:_CHARACTERS] for text in islice(texts, _TEXTS)))
    letters = max(1, len(_LETTER.findall(sample)))
    if len(_HANGUL.findall(sample)) >= letters / 10:
        return Script.KOREAN
    return Script.UNSPACED if len(_UNSPACED.findall(sample)) >= letters / 10 else Script.SPACED
