"""The analyzers by name: the choice that decides most of what BM25 can find; `text.analysis` carries them out.

They are named, so that results and caches can say which one they saw.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from typing import Any

from data.texts import Script, script_of

Span = tuple[int, int]  # first letter, and the one after the last

VERSION = 1  # part of every cache key: raise it when any analyzer's output changes

# Kiwi's tags: nouns, verbs and adjectives, modifiers, roots; foreign letters, Chinese characters, numbers.
CONTENT_TAGS = ("N", "V", "M", "XR", "SL", "SH", "SN")


class Analyzer(StrEnum):
    """The analyzers by name. `AUTO` looks at the script of the passages."""

    AUTO = "auto"
    WHITESPACE = "whitespace"
    WORD = "word"
    BIGRAM = "bigram"
    KIWI = "kiwi"
    KIWI_BIGRAM = "kiwi+bigram"


_OF_SCRIPT = {
    Script.KOREAN: Analyzer.KIWI_BIGRAM,
    Script.UNSPACED: Analyzer.BIGRAM,
    Script.SPACED: Analyzer.WORD,
}


def choose(analyzer: Analyzer, texts: Iterable[str]) -> Analyzer:
    """Resolve `AUTO` by script: Kiwi + bigrams for Korean, bigrams where words are not spaced, else words."""
    return analyzer if analyzer is not Analyzer.AUTO else _OF_SCRIPT[script_of(texts)]


def kiwi_tokens(texts: Sequence[str]) -> list[Any]:
    """Return Kiwi's tokens of each text; a token has `form`, `tag`, `start` and `len` (its letters in the text)."""
    return list(kiwi().tokenize(list(texts)))


@cache
def kiwi() -> Any:
    """Return the Kiwi that everything shares which needs no words of its own."""
    return new_kiwi()


def new_kiwi() -> Any:
    """Return a Kiwi of its own, which takes 400 MB."""
    from kiwipiepy import Kiwi

    return Kiwi()  # as many threads as there are cores
