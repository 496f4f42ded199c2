"""Where in a text each of its tokens stands, how a person reads a token, and a text cut by the weight of its tokens."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from data.passages import Passages
from data.records import Passage
from text.analysis import Analysis, names_of, written_tokens
from text.analyzers import Analyzer
from text.matching import Span
from text.morphemes import LocatedToken, morphemes

Piece = tuple[str, float]  # a stretch of text, and the sum of the weights of the tokens that stand there


class TokenKind(StrEnum):
    """`LETTERS` are two letters in a row, wherever they stand in a word, or a word of one letter."""

    WORD = "word"
    MORPHEME = "morpheme"
    LETTERS = "letters"


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


def reading(analysis: Analyzer | Analysis, token: str) -> tuple[str, TokenKind]:
    """Return a token as a person reads it, without the mark of a morpheme, and what it is."""
    analyzer = Analysis.of(analysis).analyzer
    if analyzer is Analyzer.KIWI_BIGRAM:
        return (token[:-1], TokenKind.MORPHEME) if token.endswith("/") else (token, TokenKind.LETTERS)
    kinds = {Analyzer.BIGRAM: TokenKind.LETTERS, Analyzer.KIWI: TokenKind.MORPHEME}
    return token, kinds.get(analyzer, TokenKind.WORD)


def spans_by_token(analysis: Analyzer | Analysis, texts: Sequence[str]) -> list[dict[str, tuple[Span, ...]]]:
    """Return for each text (composed, NFC) its distinct tokens in their order, and where each of them stands."""
    found = []
    for tokens in located(analysis, texts):
        spans: defaultdict[str, list[Span]] = defaultdict(list)
        for token, span in tokens:
            spans[token].append(span)
        found.append({token: tuple(places) for token, places in spans.items()})
    return found


def located(analysis: Analyzer | Analysis, texts: Sequence[str]) -> list[list[LocatedToken]]:
    """Return the tokens that `analyze` finds in each text (composed, NFC), in its order, with their places.

    A synonym stands where its letters do, under the name that it is read as.
    """
    analysis = Analysis.of(analysis)
    match analysis.analyzer:
        case Analyzer.KIWI:
            return list(morphemes(texts, analysis.compounds, analysis.dictionary))
        case Analyzer.KIWI_BIGRAM:
            found, pairs = located(replace(analysis, analyzer=Analyzer.KIWI), texts), located(Analyzer.BIGRAM, texts)
            marked = [[LocatedToken(f"{form}/", span) for form, span in tokens] for tokens in found]
            return [first + second for first, second in zip(marked, pairs, strict=True)]
    names = names_of(analysis)
    written = (_written(analysis.analyzer, text) for text in texts)
    return [[LocatedToken(names.get(token.lower(), token), span) for token, span in tokens] for tokens in written]


def weighted_pieces(text: str, weights: Iterable[tuple[Span, float]], start: int, end: int) -> list[Piece]:
    """Cut `text[start:end]` where the weight of its letters changes; a letter weighs what the spans over it sum to."""
    letters = np.zeros(len(text))
    for (first, last), weight in weights:
        letters[first:last] += weight
    cuts = [start, *(start + 1 + np.flatnonzero(np.diff(letters[start:end]))).tolist(), end]
    return [(text[a:b], float(letters[a])) for a, b in pairwise(cuts) if a < b]


def _written(analyzer: Analyzer, text: str) -> Iterator[LocatedToken]:
    (tokens,) = written_tokens(analyzer, [text])
    if analyzer is Analyzer.WHITESPACE:
        return _in_order(text, tokens)
    return _lowered_in_order(text, tokens, pairs=analyzer is Analyzer.BIGRAM)


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
