"""How a text becomes tokens: the choice that decides most of what BM25 can find.

Every analyzer composes the text first (Unicode NFC: Korean typed on some systems arrives as loose letters) and
is named, so that results and caches can say which one they saw.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import cache
from typing import Any

import regex

from data.script import Script, script_of

VERSION = 1  # part of every cache key: raise it when any analyzer's output changes

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")

_REMEMBERED_TEXTS = 20_000
_morphemes: dict[str, list[str]] = {}

# Kiwi's tags: nouns, verbs and adjectives, modifiers, roots; foreign letters, Chinese characters, numbers.
_CONTENT_TAGS = ("N", "V", "M", "XR", "SL", "SH", "SN")


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


def analyze(analyzer: Analyzer, texts: Sequence[str]) -> list[list[str]]:
    """Tokens of each text, repeated as often as they occur. Raises `KeyError` for `AUTO`: `choose` first."""
    return _FUNCTIONS[analyzer]([unicodedata.normalize("NFC", text) for text in texts])


def _whitespace(texts: list[str]) -> list[list[str]]:
    return [text.split() for text in texts]


def _words(texts: list[str]) -> list[list[str]]:
    return [_WORD.findall(text.lower()) for text in texts]


def _bigrams(texts: list[str]) -> list[list[str]]:
    return [[gram for word in words for gram in _bigrams_of_word(word)] for words in _words(texts)]


def _bigrams_of_word(word: str) -> list[str]:
    return [word] if len(word) == 1 else [word[i : i + 2] for i in range(len(word) - 1)]


def _kiwi(texts: list[str]) -> list[list[str]]:
    # by far the slowest step, and BM25 and both starter models ask for the same texts
    if len(_morphemes) > _REMEMBERED_TEXTS:
        _morphemes.clear()
    new = list(dict.fromkeys(text for text in texts if text not in _morphemes))
    for text, tokens in zip(new, kiwi_tokens(new), strict=True):
        content = (token.form.lower() for token in tokens if token.tag.startswith(_CONTENT_TAGS))
        # Kiwi knows names of several words: their parts are tokens of their own
        _morphemes[text] = [part for form in content for part in form.split()]
    return [_morphemes[text] for text in texts]


def kiwi_tokens(texts: Sequence[str]) -> list[Any]:
    """Return Kiwi's tokens of each text; a token has `form`, `tag`, `start` and `len` (its letters in the text)."""
    return list(_kiwi_instance().tokenize(list(texts)))


def _kiwi_bigrams(texts: list[str]) -> list[list[str]]:
    # the mark keeps a two-letter morpheme apart from the same two letters found inside another word
    return [
        [f"{morpheme}/" for morpheme in morphemes] + bigrams
        for morphemes, bigrams in zip(_kiwi(texts), _bigrams(texts), strict=True)
    ]


@cache
def _kiwi_instance() -> Any:
    from kiwipiepy import Kiwi

    return Kiwi()  # as many threads as there are cores


_FUNCTIONS: dict[Analyzer, Callable[[list[str]], list[list[str]]]] = {
    Analyzer.WHITESPACE: _whitespace,
    Analyzer.WORD: _words,
    Analyzer.BIGRAM: _bigrams,
    Analyzer.KIWI: _kiwi,
    Analyzer.KIWI_BIGRAM: _kiwi_bigrams,
}
