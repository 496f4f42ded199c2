"""Where in a text each of its tokens stands, how a person reads a token, and a text cut by the weight of its tokens."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import regex

from data.passages import Passages
from data.records import Passage
from text.analyzers import _CONTENT_TAGS, Analyzer, analyze, kiwi_tokens
from text.matching import Span

Piece = tuple[str, float]  # a stretch of text, and the sum of the weights of the tokens that stand there

_SOME_SPACE = regex.compile(r"\S+")


class TokenKind(StrEnum):
    """`LETTERS` are two letters in a row, wherever they stand in a word, or a word of one letter."""

    WORD = "word"
    MORPHEME = "morpheme"
    LETTERS = "letters"


class LocatedToken(NamedTuple):
    """A token as the analyzer names it, and its letters in the composed text."""

    token: str
    span: Span


class IndexedText(NamedTuple):
    """A passage as it is indexed: composed (NFC), its title on the line before it where that is indexed too."""

    text: str
    start: int  # where the passage's own text begins

    def title_pieces(self, weights: Iterable[tuple[Span, float]]) -> list[Piece]:
        """Cut the title by the weights of spans of `text`; empty where it is not indexed."""
        return weighted_pieces(self.text, weights, 0, max(0, self.start - 1))

    def text_pieces(self, weights: Iterable[tuple[Span, float]]) -> list[Piece]:
        """Cut the passage's own text by the weights of spans of `text`."""
        return weighted_pieces(self.text, weights, self.start, len(self.text))


def indexed_text(passage: Passage, *, title: bool) -> IndexedText:
    """Return a passage as it is indexed."""
    text = unicodedata.normalize("NFC", Passages.of([passage]).indexed_texts(title=title)[0])
    # nothing composes with the line break between them, so the own text is as long as by itself
    return IndexedText(text, len(text) - len(unicodedata.normalize("NFC", passage.text)))


def reading(analyzer: Analyzer, token: str) -> tuple[str, TokenKind]:
    """Return a token as a person reads it, without the mark of a morpheme, and what it is."""
    if analyzer is Analyzer.KIWI_BIGRAM:
        return (token[:-1], TokenKind.MORPHEME) if token.endswith("/") else (token, TokenKind.LETTERS)
    kinds = {Analyzer.BIGRAM: TokenKind.LETTERS, Analyzer.KIWI: TokenKind.MORPHEME}
    return token, kinds.get(analyzer, TokenKind.WORD)


def spans_by_token(analyzer: Analyzer, texts: Sequence[str]) -> list[dict[str, tuple[Span, ...]]]:
    """Return for each text (composed, NFC) its distinct tokens in their order, and where each of them stands."""
    found = []
    for tokens in located(analyzer, texts):
        spans: defaultdict[str, list[Span]] = defaultdict(list)
        for token, span in tokens:
            spans[token].append(span)
        found.append({token: tuple(places) for token, places in spans.items()})
    return found


def located(analyzer: Analyzer, texts: Sequence[str]) -> list[list[LocatedToken]]:
    """Return the tokens that `analyze` finds in each text (composed, NFC), in its order, with their places."""
    if analyzer is Analyzer.KIWI:
        return [list(_morphemes(text, tokens)) for text, tokens in zip(texts, kiwi_tokens(texts), strict=True)]
    if analyzer is Analyzer.KIWI_BIGRAM:
        morphemes = [
            [LocatedToken(f"{form}/", span) for form, span in found] for found in located(Analyzer.KIWI, texts)
        ]
        return [first + second for first, second in zip(morphemes, located(Analyzer.BIGRAM, texts), strict=True)]
    documents = zip(texts, analyze(analyzer, texts), strict=True)
    if analyzer is Analyzer.WHITESPACE:
        return [list(_in_order(text, tokens)) for text, tokens in documents]
    pairs = analyzer is Analyzer.BIGRAM
    return [list(_lowered_in_order(text, tokens, pairs=pairs)) for text, tokens in documents]


def weighted_pieces(text: str, weights: Iterable[tuple[Span, float]], start: int, end: int) -> list[Piece]:
    """Cut `text[start:end]` where the weight of its letters changes; a letter weighs what the spans over it sum to."""
    letters = np.zeros(len(text))
    for (first, last), weight in weights:
        letters[first:last] += weight
    cuts = [start, *(start + 1 + np.flatnonzero(np.diff(letters[start:end]))).tolist(), end]
    return [(text[a:b], float(letters[a])) for a, b in pairwise(cuts) if a < b]


def _in_order(text: str, tokens: Sequence[str], *, pairs: bool = False) -> Iterator[LocatedToken]:
    start, end = -1, 0
    for token in tokens:
        # between two tokens stands no letter of either, so the first place is the right one; pairs overlap by a letter
        start = text.index(token, start + 1 if pairs and len(token) == 2 else end)
        end = start + len(token)
        yield LocatedToken(token, (start, end))


def _lowered_in_order(text: str, tokens: Sequence[str], *, pairs: bool) -> Iterator[LocatedToken]:
    origins = [place for place, letter in enumerate(text) for _ in letter.lower()]  # some letters are two in lower case
    for token, (start, end) in _in_order(text.lower(), tokens, pairs=pairs):
        yield LocatedToken(token, (origins[start], origins[end - 1] + 1))


def _morphemes(text: str, tokens: Sequence[Any]) -> Iterator[LocatedToken]:
    for token in tokens:
        if not token.tag.startswith(_CONTENT_TAGS):
            continue
        start, end = token.start, token.start + token.len
        forms = token.form.lower().split()
        places = [(start + match.start(), start + match.end()) for match in _SOME_SPACE.finditer(text[start:end])]
        if len(places) != len(forms):  # a name of several words, written as one
            places = [(start, end)] * len(forms)
        yield from map(LocatedToken, forms, places)
