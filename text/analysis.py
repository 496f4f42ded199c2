"""How a text becomes tokens, by an analyzer, its way with compounds and a dictionary, and where each of them stands.

Every analysis composes the text first (Unicode NFC: Korean typed on some systems arrives as loose letters). What takes
an analysis takes an `Analyzer` as well, which is one without options."""

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.metadata import version
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import regex

from data.passages import Passages
from data.records import Passage
from text.analyzers import Analyzer, Compounds, LocatedToken, Span, choose, morphemes
from text.dictionary import Dictionary, DictionaryError

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
WITH_KIWI = (Analyzer.KIWI, Analyzer.KIWI_BIGRAM)
MORPHEME = "/"  # keeps a two-letter morpheme apart from the same two letters found inside another word

_REMEMBERED_TEXTS = 20_000
_remembered: dict[tuple[str, tuple[str, ...]], list[str]] = {}


@dataclass(frozen=True)
class Analysis:
    """An analyzer and its options.

    Kiwi uses all of a dictionary, and pairs of letters beside it are those that stand in the text. `WORD` and
    `WHITESPACE` use its synonyms, where a whole token is one of them; `BIGRAM` can use none. Raises `DictionaryError`
    where an analyzer cannot use what it is given: `no_use`, `no_synonyms`. `AUTO` is not asked before it is `chosen`.
    """

    analyzer: Analyzer
    compounds: Compounds = Compounds.AS_READ
    dictionary: Dictionary | None = None

    def __post_init__(self) -> None:
        if self.analyzer in (Analyzer.AUTO, *WITH_KIWI):
            return
        if self.compounds is not Compounds.AS_READ:
            raise DictionaryError.of("no_use", analyzer=self.analyzer.value, what=f"compounds = {self.compounds.value}")
        if self.dictionary and self.analyzer is Analyzer.BIGRAM:
            raise DictionaryError.of("no_use", analyzer=self.analyzer.value, what="a dictionary")
        if self.dictionary and not self.dictionary.synonyms:
            raise DictionaryError.of("no_synonyms", analyzer=self.analyzer.value)

    @classmethod
    def of(cls, analysis: "Analyzer | Analysis") -> "Analysis":
        """Return an analysis as it is, and an analyzer as one without options."""
        return analysis if isinstance(analysis, Analysis) else cls(analysis)

    def chosen(self, texts: Iterable[str]) -> "Analysis":
        """Return it with `AUTO` resolved by the script of the texts. Raises `DictionaryError`."""
        return replace(self, analyzer=choose(self.analyzer, texts))

    @property
    def options_key(self) -> tuple[str, ...]:
        """What tells the options, for keys of what is kept; empty where there are none."""
        if self.compounds is Compounds.AS_READ and not self.dictionary:
            return ()
        return self.compounds, self.dictionary.fingerprint if self.dictionary else "", version("kiwipiepy")

    @property
    def key(self) -> tuple[str, ...]:
        """What tells the analysis, for keys of what is kept: of an analyzer without options its name alone."""
        return self.analyzer, *self.options_key


def analyze(analysis: Analyzer | Analysis, texts: Sequence[str]) -> list[list[str]]:
    """Tokens of each text, repeated as often as they occur. Raises `KeyError` for `AUTO`: `choose` first."""
    analysis, composed = Analysis.of(analysis), [unicodedata.normalize("NFC", text) for text in texts]
    match analysis.analyzer:
        case Analyzer.KIWI:
            return _morphemes(analysis, composed)
        case Analyzer.KIWI_BIGRAM:
            both = zip(_morphemes(analysis, composed), _bigrams(composed), strict=True)
            return [[morpheme + MORPHEME for morpheme in found] + bigrams for found, bigrams in both]
    return as_synonyms(analysis, written_tokens(analysis.analyzer, composed))


def written_tokens(analyzer: Analyzer, texts: Sequence[str]) -> list[list[str]]:
    """Tokens of composed texts as they stand there, of an analyzer without Kiwi, before synonyms."""
    return _WRITTEN[analyzer](texts)


def names_of(analysis: Analysis) -> Mapping[str, str]:
    """What words in lower case are read as by an analysis without Kiwi."""
    return analysis.dictionary.names if analysis.dictionary else {}


def as_synonyms(analysis: Analysis, documents: list[list[str]]) -> list[list[str]]:
    """Return tokens with synonyms read as the first of their group."""
    if not (names := names_of(analysis)):
        return documents
    return [[names.get(token.lower(), token) for token in tokens] for tokens in documents]


def _words(texts: Sequence[str]) -> list[list[str]]:
    return [_WORD.findall(text.lower()) for text in texts]


def _bigrams(texts: Sequence[str]) -> list[list[str]]:
    # a word of one letter is one
    return [[word[i : i + 2] for word in words for i in range(max(1, len(word) - 1))] for words in _words(texts)]


def _morphemes(analysis: Analysis, texts: Sequence[str]) -> list[list[str]]:
    # by far the slowest step, and BM25 and both starter models ask for the same texts
    if len(_remembered) > _REMEMBERED_TEXTS:
        _remembered.clear()
    key = analysis.options_key
    new = list(dict.fromkeys(text for text in texts if (text, key) not in _remembered))
    for text, found in zip(new, morphemes(new, analysis.compounds, analysis.dictionary), strict=True):
        _remembered[text, key] = [token for token, _ in found]
    return [_remembered[text, key] for text in texts]


_WRITTEN: dict[Analyzer, Callable[[Sequence[str]], list[list[str]]]] = {
    Analyzer.WHITESPACE: lambda texts: [text.split() for text in texts],
    Analyzer.WORD: _words,
    Analyzer.BIGRAM: _bigrams,
}


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
    written = (_located(analysis.analyzer, text) for text in texts)
    return [[LocatedToken(names.get(token.lower(), token), span) for token, span in tokens] for tokens in written]


def weighted_pieces(text: str, weights: Iterable[tuple[Span, float]], start: int, end: int) -> list[Piece]:
    """Cut `text[start:end]` where the weight of its letters changes; a letter weighs what the spans over it sum to."""
    letters = np.zeros(len(text))
    for (first, last), weight in weights:
        letters[first:last] += weight
    cuts = [start, *(start + 1 + np.flatnonzero(np.diff(letters[start:end]))).tolist(), end]
    return [(text[a:b], float(letters[a])) for a, b in pairwise(cuts) if a < b]


def _located(analyzer: Analyzer, text: str) -> Iterator[LocatedToken]:
    written, origins = text, list(range(len(text)))
    if analyzer is not Analyzer.WHITESPACE:
        written = text.lower()
        origins = [place for place, letter in enumerate(text) for _ in letter.lower()]  # some become two letters
    start, end, pairs = -1, 0, analyzer is Analyzer.BIGRAM
    for token in written_tokens(analyzer, [text])[0]:
        # between two tokens stands no letter of either, so the first place is the right one; pairs overlap by a letter
        start = written.index(token, start + 1 if pairs and len(token) == 2 else end)
        end = start + len(token)
        yield LocatedToken(token, (origins[start], origins[end - 1] + 1))
