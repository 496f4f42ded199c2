"""How a text becomes tokens: by an analyzer, its way with compounds and a user's dictionary.

Every analysis composes the text first (Unicode NFC: Korean typed on some systems arrives as loose letters). What takes
an analysis takes an `Analyzer` as well, which is one without options.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version

import regex

from text.analyzers import Analyzer, choose
from text.dictionary import Dictionary
from text.morphemes import Compounds, morphemes
from text.problems import DictionaryError

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


def _whitespace(texts: Sequence[str]) -> list[list[str]]:
    return [text.split() for text in texts]


def _words(texts: Sequence[str]) -> list[list[str]]:
    return [_WORD.findall(text.lower()) for text in texts]


def _bigrams(texts: Sequence[str]) -> list[list[str]]:
    return [[gram for word in words for gram in _bigrams_of_word(word)] for words in _words(texts)]


def _bigrams_of_word(word: str) -> list[str]:
    return [word] if len(word) == 1 else [word[i : i + 2] for i in range(len(word) - 1)]


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
    Analyzer.WHITESPACE: _whitespace,
    Analyzer.WORD: _words,
    Analyzer.BIGRAM: _bigrams,
}
