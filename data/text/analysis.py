"""Tokenizes texts with an analyzer and its options, and stores the tokens.

Every analysis composes the text first (Unicode NFC: some systems decompose Korean syllables). Every function takes an
`Analyzer` as an analysis without options. `data.text.marking` locates the tokens in the text.

The tokens of each part of the texts are stored: an interrupted analysis continues, and of a longer corpus only the new
parts are analyzed.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import chain, pairwise

import numpy as np

from mrc_workbench.data import cache
from mrc_workbench.data.cache import cached_arrays, key_of
from mrc_workbench.data.text import analyzers, languages
from mrc_workbench.data.text.analyzers import Analyzer, Compounds, morphemes
from mrc_workbench.data.text.dictionary import Dictionary, DictionaryError
from mrc_workbench.data.texts import fingerprint_of, in_blocks

OnProgress = Callable[[float], None]  # called with the analyzed fraction, 0 to 1
WITH_KIWI = (Analyzer.KIWI, Analyzer.KIWI_BIGRAM)
MORPHEME_SUFFIX = "/"  # distinguishes a morpheme of two characters from the same bigram

_MAX_CACHED_TEXTS = 20_000
_morpheme_cache: dict[tuple[str, tuple[str, ...]], list[str]] = {}


@dataclass(frozen=True)
class Analysis:
    """An analyzer and its options. Raises `DictionaryError` (`no_use`, `no_synonyms`) for unusable options.

    Kiwi uses words and synonyms of a dictionary. `WORD` and `WHITESPACE` replace tokens by its synonyms, the analyzers
    of languages compare the stems of its synonyms, `BIGRAM` and `JAPANESE` cannot use one. With `pairs`, each token is
    two adjacent words (Metzler & Croft 2005, "A Markov random field model for term dependencies"). `stop_words` removes
    the stop words of the language. The options of `AUTO` are checked when it is `resolved`.
    """

    analyzer: Analyzer
    compounds: Compounds = Compounds.AS_READ
    dictionary: Dictionary | None = None
    pairs: bool = False
    stop_words: bool = False

    def __post_init__(self) -> None:
        if self.analyzer is Analyzer.AUTO:
            return
        if self.stop_words and not self.language:
            raise DictionaryError.of("no_use", analyzer=self.analyzer.value, what="stop_words = true")
        if self.analyzer in WITH_KIWI:
            return
        if self.compounds is not Compounds.AS_READ:
            raise DictionaryError.of("no_use", analyzer=self.analyzer.value, what=f"compounds = {self.compounds.value}")
        if self.dictionary and self.analyzer in (Analyzer.BIGRAM, Analyzer.JAPANESE):
            raise DictionaryError.of("no_use", analyzer=self.analyzer.value, what="a dictionary")
        if self.dictionary and not self.dictionary.synonyms:
            raise DictionaryError.of("no_synonyms", analyzer=self.analyzer.value)

    @classmethod
    def from_analyzer(cls, analysis: "Analyzer | Analysis") -> "Analysis":
        return analysis if isinstance(analysis, Analysis) else cls(analysis)

    def resolved(self, texts: Iterable[str]) -> "Analysis":
        """Resolve `AUTO` by the script and language of the texts. Raises `DictionaryError`."""
        return replace(self, analyzer=analyzers.resolve_analyzer(self.analyzer, texts))

    @property
    def language(self) -> str:
        """The ISO 639-1 code of the language of the stemmer; empty if there is none."""
        return analyzers.LANGUAGE_OF.get(self.analyzer, "")

    @property
    def names(self) -> Mapping[str, str]:
        return self.dictionary.names if self.dictionary else {}

    @property
    def unpaired(self) -> "Analysis":
        """The analysis of the paired tokens. Bigrams of characters, which overlap already, are not paired."""
        return replace(self, analyzer=analyzers.PLAIN_PART.get(self.analyzer, self.analyzer), pairs=False)

    @property
    def options_key(self) -> tuple[str, ...]:
        options = ["pairs"] if self.pairs else []
        if self.language:
            options.append(f"stems {languages.VERSION} {version('PyStemmer')}")
        if self.stop_words:
            options.append(f"stop words {version('stopwordsiso')}")
        if self.compounds is Compounds.AS_READ and not self.dictionary:
            return tuple(options)
        kiwi_version = version("kiwipiepy")
        return self.compounds, self.dictionary.fingerprint if self.dictionary else "", kiwi_version, *options

    @property
    def resolved_key(self) -> tuple[str, ...]:
        """The cache key after the configured analyzer, which may be `AUTO`; analyzers of languages add their names."""
        return self.key if self.language or self.analyzer is Analyzer.JAPANESE else self.options_key

    @property
    def key(self) -> tuple[str, ...]:
        """The analyzer and its options, for cache keys; only the name if there are no options."""
        return self.analyzer, *self.options_key


def analyze(analysis: Analyzer | Analysis, texts: Sequence[str]) -> list[list[str]]:
    """Return the tokens of each text, with repetitions. Raises `KeyError` for an unresolved `AUTO`."""
    analysis = Analysis.from_analyzer(analysis)
    if analysis.pairs:
        return [list(map(" ".join, pairwise(tokens))) for tokens in analyze(analysis.unpaired, texts)]
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    if analysis.analyzer is Analyzer.KIWI:
        return _morphemes(analysis, composed)
    if analysis.analyzer is Analyzer.KIWI_BIGRAM:
        both = zip(_morphemes(analysis, composed), _bigrams(composed), strict=True)
        return [[morpheme + MORPHEME_SUFFIX for morpheme in forms] + bigrams for forms, bigrams in both]
    if analysis.language:
        written = words_in(analysis.language, composed)
        distinct = list(dict.fromkeys(chain.from_iterable(written)))
        stems = dict(zip(distinct, stems_of(analysis, distinct), strict=True))
        return [[stems[word] for word in words if stems[word]] for words in written]
    written = SURFACE_TOKENIZERS[analysis.analyzer](composed)
    names = analysis.names
    return [[names.get(token.lower(), token) for token in tokens] for tokens in written] if names else written


def words_in(language: str, texts: Iterable[str]) -> list[list[str]]:
    """Return the words of each composed text (NFC) in lower case by the rules of a language."""
    return [languages.WORD.findall(languages.lower(language, text)) for text in texts]


_words = partial(words_in, "")


def stems_of(analysis: Analysis, words: Sequence[str]) -> list[str]:
    """Return the stem of each lower-cased word after synonyms; empty for a removed stop word."""
    language = analysis.language
    stems = languages.stems(language, words)
    if analysis.names:
        members = languages.stems(language, analysis.names)
        names = dict(zip(members, languages.stems(language, analysis.names.values()), strict=True))
        stems = [names.get(stem, stem) for stem in stems]
    if analysis.stop_words:
        stop_words = languages.stop_words(language)
        stems = ["" if word in stop_words else stem for word, stem in zip(words, stems, strict=True)]
    return stems


def _bigrams(texts: Sequence[str]) -> list[list[str]]:
    # a word of one character is a bigram, too
    return [[word[i : i + 2] for word in words for i in range(max(1, len(word) - 1))] for words in _words(texts)]


def _japanese(texts: Sequence[str]) -> list[list[str]]:
    pairs = zip(texts, _bigrams(texts), strict=True)
    return [[*bigrams, *(token for token, _ in analyzers.kanji_and_runs(text.lower()))] for text, bigrams in pairs]


def _morphemes(analysis: Analysis, texts: Sequence[str]) -> list[list[str]]:
    # cached: this step is by far the slowest, and BM25 and both starter models analyze the same texts
    if len(_morpheme_cache) > _MAX_CACHED_TEXTS:
        _morpheme_cache.clear()
    key = analysis.options_key
    new = list(dict.fromkeys(text for text in texts if (text, key) not in _morpheme_cache))
    for text, located_tokens in zip(new, morphemes(new, analysis.compounds, analysis.dictionary), strict=True):
        _morpheme_cache[text, key] = [token for token, _ in located_tokens]
    return [_morpheme_cache[text, key] for text in texts]


# tokenizers of composed texts, before synonyms
SURFACE_TOKENIZERS: dict[Analyzer, Callable[[Sequence[str]], list[list[str]]]] = {
    Analyzer.WHITESPACE: lambda texts: [text.split() for text in texts],
    Analyzer.WORD: _words,
    Analyzer.BIGRAM: _bigrams,
    Analyzer.JAPANESE: _japanese,
}


TEXTS_PER_PART = 1 << 16  # stored together: with Kiwi, a minute or two of work
_FEW_TEXTS = 20_000  # stemming their words takes a fraction of a second
_BLOCK = 1024  # texts analyzed at a time: tokens take more memory as strings than as ids


@dataclass(frozen=True)
class Tokens:
    """Analyzed texts as arrays: text i holds `vocabulary[ids[offsets[i]:offsets[i + 1]]]`."""

    vocabulary: list[str]
    ids: np.ndarray  # (n_tokens,) int32
    offsets: np.ndarray  # (n_texts + 1,) int64

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def texts(self) -> list[list[str]]:
        words = np.asarray(self.vocabulary, dtype=object)[self.ids]
        return [list(part) for part in np.split(words, self.offsets[1:-1])] if len(self) else []

    def select(self, rows: Sequence[int]) -> "Tokens":
        starts = self.offsets[:-1][rows]
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        indices = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return Tokens(self.vocabulary, self.ids[indices], offsets)

    def flat_ids_in(self, vocabulary: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of known tokens in another vocabulary, and the offsets `(n_texts + 1,)` of the texts."""
        translation = np.array([vocabulary.get(token, -1) for token in self.vocabulary], dtype=np.int64)
        return _known_ids(self, translation)

    def ids_in(self, vocabulary: dict[str, int]) -> list[np.ndarray]:
        ids, offsets = self.flat_ids_in(vocabulary)
        return np.split(ids, offsets[1:-1]) if len(self) else []


def tokens_of(analysis: Analyzer | Analysis, texts: Sequence[str], on_progress: OnProgress | None = None) -> Tokens:
    """Return the tokens of texts, from the cache if possible."""
    parts = token_parts(analysis, texts, on_progress)
    return next(parts) if len(texts) <= TEXTS_PER_PART else _join_parts(parts)


def has_cached_tokens(analysis: Analyzer | Analysis, texts: Sequence[str]) -> bool:
    """Whether the tokens of the texts, at most `TEXTS_PER_PART`, are cached."""
    sources = [Analysis.from_analyzer(analysis)]
    if sources[0].pairs:
        sources.append(sources[0].unpaired)
    if sources[-1].analyzer is Analyzer.KIWI:
        sources.append(replace(sources[-1], analyzer=Analyzer.KIWI_BIGRAM))
    if sources[-1].language and not languages.has_own_case(sources[-1].language):
        sources.append(Analysis(Analyzer.WORD))
    return 1 < len(texts) <= TEXTS_PER_PART and any(
        cache.has_intact_arrays("tokens", _key(source, texts)) for source in sources
    )


def token_parts(
    analysis: Analyzer | Analysis, texts: Sequence[str], on_progress: OnProgress | None = None
) -> Iterator[Tokens]:
    """Yield the tokens of `TEXTS_PER_PART` texts at a time, at least one part; each part has its own vocabulary."""
    for start in range(0, max(1, len(texts)), TEXTS_PER_PART):

        def report(done: int, start: int = start) -> None:
            if on_progress:
                on_progress((start + done) / len(texts))

        yield _part(Analysis.from_analyzer(analysis), texts[start : start + TEXTS_PER_PART], report)


def ship(analysis: Analyzer | Analysis, texts: Sequence[str]) -> None:
    """Analyze the texts and ship their tokens with the sample. Raises `OSError`."""
    analysis = Analysis.from_analyzer(analysis)
    arrays = _encode_texts(partial(analyze, analysis), texts, lambda _: None)
    cache.save_arrays(cache.sample_path("tokens", _key(analysis, texts)), arrays)


def _part(analysis: Analysis, texts: Sequence[str], report: Callable[[int], None]) -> Tokens:
    def compute() -> cache.Arrays:
        if analysis.pairs:
            return _pair_tokens(_part(analysis.unpaired, texts, report))
        if analysis.language:
            return _encode_stems(analysis, texts, report)
        if analysis.analyzer is Analyzer.KIWI:
            combined = cache.read_arrays("tokens", _key(replace(analysis, analyzer=Analyzer.KIWI_BIGRAM), texts))
            if combined is not None:
                return _without_bigrams(_tokens(combined))
        return _encode_texts(partial(analyze, analysis), texts, report)

    # stemming the words of few texts takes less time than writing the stems to disk
    has_words = analysis.language and not analysis.pairs and not languages.has_own_case(analysis.language)
    is_stored = len(texts) > 1 and not (has_words and len(texts) <= _FEW_TEXTS)
    return _tokens(cached_arrays("tokens", _key(analysis, texts), compute, store=is_stored, exclusive=True))


def _tokens(arrays: cache.Arrays) -> Tokens:
    stored = arrays["vocabulary"]
    vocabulary = stored.tobytes().decode().split("\n") if len(stored) else []
    return Tokens(vocabulary, arrays["ids"], arrays["offsets"])


def _encode_texts(
    analyze_block: Callable[[Sequence[str]], list[list[str]]], texts: Sequence[str], report: Callable[[int], None]
) -> cache.Arrays:
    number: dict[str, int] = {}
    ids = [np.zeros(0, dtype=np.int32)]
    lengths = [0]
    for block in in_blocks(texts, _BLOCK):
        documents = analyze_block(block)
        lengths += map(len, documents)
        token_ids = (number.setdefault(token, len(number)) for document in documents for token in document)
        ids.append(np.fromiter(token_ids, dtype=np.int32))
        report(len(lengths) - 1)
    return {"vocabulary": _bytes(number), "ids": np.concatenate(ids), "offsets": np.cumsum(lengths, dtype=np.int64)}


def _encode_stems(analysis: Analysis, texts: Sequence[str], report: Callable[[int], None]) -> cache.Arrays:
    if languages.has_own_case(analysis.language):
        composed = partial(unicodedata.normalize, "NFC")
        words = _tokens(_encode_texts(lambda block: words_in(analysis.language, map(composed, block)), texts, report))
    else:
        words = _part(Analysis(Analyzer.WORD), texts, report)
    number: dict[str, int] = {}
    stems = stems_of(analysis, words.vocabulary)
    translation = np.array([number.setdefault(stem, len(number)) if stem else -1 for stem in stems], dtype=np.int32)
    return _translate_tokens(words, translation, number)


def _without_bigrams(both: Tokens) -> cache.Arrays:
    is_morpheme = np.array([token.endswith(MORPHEME_SUFFIX) for token in both.vocabulary], dtype=bool)
    translation = np.where(is_morpheme, np.cumsum(is_morpheme) - 1, -1).astype(np.int32)
    suffixed = (token for token in both.vocabulary if token.endswith(MORPHEME_SUFFIX))
    return _translate_tokens(both, translation, (token.removesuffix(MORPHEME_SUFFIX) for token in suffixed))


def _translate_tokens(tokens: Tokens, translation: np.ndarray, vocabulary: Iterable[str]) -> cache.Arrays:
    """Return tokens in another vocabulary, without those translated to -1."""
    ids, offsets = _known_ids(tokens, translation)
    return {"vocabulary": _bytes(vocabulary), "ids": ids, "offsets": offsets}


def _known_ids(tokens: Tokens, translation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ids = translation[tokens.ids]
    is_known = ids >= 0
    return ids[is_known], np.concatenate([[0], np.cumsum(is_known, dtype=np.int64)])[tokens.offsets]


def _pair_tokens(tokens: Tokens) -> cache.Arrays:
    size = max(1, len(tokens.vocabulary))
    ids = tokens.ids.astype(np.int64)
    inside = np.ones(max(0, len(ids) - 1), dtype=bool)
    ends = tokens.offsets[1:-1]
    inside[ends[(ends > 0) & (ends < len(ids))] - 1] = False  # pairs do not span texts
    numbers, firsts, inverse = np.unique((ids[:-1] * size + ids[1:])[inside], return_index=True, return_inverse=True)
    order = np.argsort(firsts)  # by first occurrence, as in every vocabulary
    words = tokens.vocabulary
    lengths = np.maximum(0, np.diff(tokens.offsets) - 1)
    return {
        "vocabulary": _bytes(f"{words[pair // size]} {words[pair % size]}" for pair in numbers[order].tolist()),
        "ids": np.argsort(order).astype(np.int32)[inverse],
        "offsets": np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
    }


def _bytes(vocabulary: Iterable[str]) -> np.ndarray:
    return np.frombuffer("\n".join(vocabulary).encode(), dtype=np.uint8)  # tokens contain no newline


def _key(analysis: Analysis, texts: Sequence[str]) -> str:
    return key_of(analyzers.VERSION, *analysis.key, fingerprint_of(texts))


def _join_parts(parts: Iterable[Tokens]) -> Tokens:
    """Join parts, of which one is in memory at a time, in one vocabulary in the order of first occurrence."""
    ids = bytearray()  # grows in place
    offsets = [np.zeros(1, dtype=np.int64)]
    number = dict[str, int]()
    for part in parts:
        translation = np.array([number.setdefault(token, len(number)) for token in part.vocabulary], dtype=np.int32)
        offsets.append(part.offsets[1:] + len(ids) // translation.itemsize)
        ids += translation[part.ids].tobytes()
    return Tokens(list(number), np.frombuffer(ids, dtype=np.int32), np.concatenate(offsets))
