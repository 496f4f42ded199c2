"""How a text becomes tokens: the choice that decides most of what BM25 can find.

Every analyzer composes the text first (Unicode NFC: Korean typed on some systems arrives as loose letters) and
is named, so that results and caches can say which one they saw.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np
import regex

from data.texts import fingerprint_of, in_blocks
from retrieval.cache import cached_arrays, key_of

VERSION = 1  # part of every cache key: raise it when any analyzer's output changes

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_HANGUL = regex.compile(r"\p{Hangul}")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
_LETTER = regex.compile(r"\p{L}")

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


def choose(analyzer: Analyzer, texts: Iterable[str]) -> Analyzer:
    """Resolve `AUTO` by script: Kiwi + bigrams for Korean, bigrams where words are not spaced, else words.

    A script counts when it makes up a tenth of the letters: Korean passages are full of Latin names, not the reverse.
    """
    if analyzer is not Analyzer.AUTO:
        return analyzer
    sample = unicodedata.normalize("NFC", "".join(text[:300] for _, text in zip(range(2000), texts, strict=False)))
    letters = max(1, len(_LETTER.findall(sample)))
    if len(_HANGUL.findall(sample)) >= letters / 10:
        return Analyzer.KIWI_BIGRAM
    return Analyzer.BIGRAM if len(_UNSPACED.findall(sample)) >= letters / 10 else Analyzer.WORD


def analyze(analyzer: Analyzer, texts: Sequence[str]) -> list[list[str]]:
    """Tokens of each text, repeated as often as they occur. Raises `KeyError` for `AUTO`: `choose` first."""
    return _FUNCTIONS[analyzer]([unicodedata.normalize("NFC", text) for text in texts])


@dataclass(frozen=True)
class Tokens:
    """Analyzed texts as arrays: text i holds `vocabulary[ids[offsets[i]:offsets[i + 1]]]`."""

    vocabulary: list[str]
    ids: np.ndarray  # (n_tokens,) int32
    offsets: np.ndarray  # (n_texts + 1,) int64

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def texts(self) -> list[list[str]]:
        """Tokens of each text as strings."""
        words = np.asarray(self.vocabulary, dtype=object)[self.ids]
        return [list(part) for part in np.split(words, self.offsets[1:-1])] if len(self) else []

    def flat_ids_in(self, vocabulary: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
        """Ids in another vocabulary, of the tokens it knows, and offsets `(n_texts + 1,)` of each text among them."""
        translation = np.array([vocabulary.get(token, -1) for token in self.vocabulary], dtype=np.int64)
        ids = translation[self.ids]
        known = ids >= 0
        return ids[known], np.concatenate([[0], np.cumsum(known)])[self.offsets]

    def ids_in(self, vocabulary: dict[str, int]) -> list[np.ndarray]:
        """Ids of each text in another vocabulary; tokens it does not know are left out."""
        ids, offsets = self.flat_ids_in(vocabulary)
        return np.split(ids, offsets[1:-1]) if len(self) else []


def tokens_of(analyzer: Analyzer, texts: Sequence[str]) -> Tokens:
    """Return the tokens of `texts`, from the disk cache where these texts were analyzed before."""

    def compute() -> dict[str, np.ndarray]:
        number: dict[str, int] = {}
        ids, lengths = [np.zeros(0, dtype=np.int32)], [0]
        for block in in_blocks(texts):  # the tokens of a corpus take far more memory as strings than as numbers
            documents = analyze(analyzer, block)
            lengths += map(len, documents)
            found = (number.setdefault(token, len(number)) for document in documents for token in document)
            ids.append(np.fromiter(found, dtype=np.int32))
        return {
            "vocabulary": np.frombuffer("\n".join(number).encode(), dtype=np.uint8),  # no analyzer keeps a newline
            "ids": np.concatenate(ids),
            "offsets": np.cumsum(lengths, dtype=np.int64),
        }

    key = key_of(VERSION, analyzer, fingerprint_of(texts))
    arrays = cached_arrays("tokens", key, compute, keep=len(texts) > 1)
    vocabulary = arrays["vocabulary"].tobytes().decode().split("\n") if len(arrays["vocabulary"]) else []
    return Tokens(vocabulary, arrays["ids"], arrays["offsets"])


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
