"""Where the tokens of an analyzer are in a text, how a person reads them, and the text cut by what its tokens weigh."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage
from mrc_workbench.data.text import languages
from mrc_workbench.data.text.analysis import WRITTEN, Analysis, stems_of, words_in
from mrc_workbench.data.text.analyzers import Analyzer, LocatedToken, Span, morphemes
from mrc_workbench.data.text.japanese import KANJI, RUN, kanji_and_runs

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


def reading(analysis: Analyzer | Analysis, token: str, written: str = "") -> tuple[str, TokenKind]:
    """Return a token as a person reads it, without the mark of a morpheme, and what it is.

    A stem follows the word of the text, `written`, where that differs: "running (run)".
    """
    analysis = Analysis.of(analysis)
    analyzer = analysis.analyzer
    if analysis.language and written and written != token:
        return f"{written} ({token})", TokenKind.WORD
    if analysis.pairs:
        return token, TokenKind.WORD
    if analyzer is Analyzer.KIWI_BIGRAM:
        return (token[:-1], TokenKind.MORPHEME) if token.endswith("/") else (token, TokenKind.LETTERS)
    if analyzer is Analyzer.JAPANESE:
        kind = TokenKind.WORD if token.endswith(RUN) else TokenKind.LETTERS
        return token.removesuffix(RUN).removesuffix(KANJI), kind
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
    if analysis.pairs:
        return [
            [LocatedToken(f"{a} {b}", (first, last)) for (a, (first, _)), (b, (_, last)) in pairwise(tokens)]
            for tokens in located(analysis.of_one, texts)
        ]
    match analysis.analyzer:
        case Analyzer.KIWI:
            return list(morphemes(texts, analysis.compounds, analysis.dictionary))
        case Analyzer.KIWI_BIGRAM:
            found, pairs = located(replace(analysis, analyzer=Analyzer.KIWI), texts), located(Analyzer.BIGRAM, texts)
            marked = [[LocatedToken(f"{form}/", span) for form, span in tokens] for tokens in found]
            return [first + second for first, second in zip(marked, pairs, strict=True)]
        case Analyzer.JAPANESE:
            return [[*_located(Analyzer.BIGRAM, text), *_located_kanji_and_runs(text)] for text in texts]
    if analysis.language:
        return [list(_located_stems(analysis, text)) for text in texts]
    names, written = analysis.names, (_located(analysis.analyzer, text) for text in texts)
    return [[LocatedToken(names.get(token.lower(), token), span) for token, span in tokens] for tokens in written]


def weighted_pieces(text: str, weights: Iterable[tuple[Span, float]], start: int, end: int) -> list[Piece]:
    """Cut `text[start:end]` where the weight of its letters changes; a letter weighs what the spans over it sum to."""
    letters = np.zeros(len(text))
    for (first, last), weight in weights:
        letters[first:last] += weight
    cuts = [start, *(start + 1 + np.flatnonzero(np.diff(letters[start:end]))).tolist(), end]
    return [(text[a:b], float(letters[a])) for a, b in pairwise(cuts) if a < b]


def _located(analyzer: Analyzer, text: str) -> Iterator[LocatedToken]:
    lowered = text if analyzer is Analyzer.WHITESPACE else text.lower()
    (tokens,) = WRITTEN[analyzer]([text])
    return _placed(tokens, text, lowered, overlap=analyzer is Analyzer.BIGRAM)


def _located_kanji_and_runs(text: str) -> Iterator[LocatedToken]:
    lowered = text.lower()
    origins = _origins(text, lowered)
    for token, (start, end) in kanji_and_runs(lowered):
        yield LocatedToken(token, (origins[start], origins[end - 1] + 1))


def _origins(text: str, lowered: str) -> Sequence[int]:
    """The position in a text of each character of it in lower case: some become two characters then."""
    if len(lowered) == len(text):
        return range(len(text))
    return [place for place, character in enumerate(text) for _ in character.lower()]


def _located_stems(analysis: Analysis, text: str) -> Iterator[LocatedToken]:
    (words,) = words_in(analysis.language, [text])
    located_words = _placed(words, text, languages.lower(analysis.language, text))
    for stem, (_, span) in zip(stems_of(analysis, words), located_words, strict=True):
        if stem:
            yield LocatedToken(stem, span)


def _placed(tokens: Sequence[str], text: str, lowered: str, *, overlap: bool = False) -> Iterator[LocatedToken]:
    """Yield the tokens with their characters of the text, which has been lowered."""
    origins = _origins(text, lowered)
    start, end = -1, 0
    for token in tokens:
        # no characters of either token are between two tokens, so the first place is right; pairs overlap by one
        start = lowered.index(token, start + 1 if overlap and len(token) == 2 else end)
        end = start + len(token)
        yield LocatedToken(token, (origins[start], origins[end - 1] + 1))
