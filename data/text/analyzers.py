"""The names of the analyzers, and Kiwi's content morphemes.

`data.text.analysis` runs them. `JAPANESE` needs no dictionary: its tokens are character bigrams, single kanji and runs
of one script, which are often words. It has a higher recall on JaQuAD than segmenters (docs/quality.md). The analyzers
of languages, named as in Elasticsearch and Lucene, stem words, see `data.text.languages`.

Whether Kiwi splits 고속도로 depends on its dictionary, so the tokens of a question and its passage may differ. A user
dictionary adds words and synonyms, and `Compounds` has the modes of nori's `decompound_mode` and one that joins nouns.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import regex

from mrc_workbench.data.text.dictionary import TAG, Dictionary, Word, normalize_word
from mrc_workbench.data.text.languages import STEMMED, detect_language
from mrc_workbench.data.texts import Script

Span = tuple[int, int]  # start and end, exclusive

VERSION = 1  # part of every cache key: raise it if the output of an analyzer changes

# Kiwi's tags: nouns, verbs and adjectives, modifiers, roots; foreign letters, Chinese characters, numbers.
CONTENT_TAGS = ("N", "V", "M", "XR", "SL", "SH", "SN")


class Analyzer(StrEnum):
    """The analyzers by name. `AUTO` depends on the script and the language of the passages."""

    AUTO = "auto"
    WHITESPACE = "whitespace"
    WORD = "word"
    BIGRAM = "bigram"
    KIWI = "kiwi"
    KIWI_BIGRAM = "kiwi+bigram"
    JAPANESE = "japanese"
    ARABIC = "arabic"
    ARMENIAN = "armenian"
    BASQUE = "basque"
    CATALAN = "catalan"
    CZECH = "czech"
    DANISH = "danish"
    DUTCH = "dutch"
    ENGLISH = "english"
    ESPERANTO = "esperanto"
    ESTONIAN = "estonian"
    FINNISH = "finnish"
    FRENCH = "french"
    GERMAN = "german"
    GREEK = "greek"
    HINDI = "hindi"
    HUNGARIAN = "hungarian"
    INDONESIAN = "indonesian"
    IRISH = "irish"
    ITALIAN = "italian"
    LITHUANIAN = "lithuanian"
    NORWEGIAN = "norwegian"
    PERSIAN = "persian"
    POLISH = "polish"
    PORTUGUESE = "portuguese"
    ROMANIAN = "romanian"
    RUSSIAN = "russian"
    SPANISH = "spanish"
    SWEDISH = "swedish"
    TURKISH = "turkish"


ANALYZER_OF_LANGUAGE = {language: Analyzer(name) for language, name in STEMMED.items()}
LANGUAGE_OF = {analyzer: language for language, analyzer in ANALYZER_OF_LANGUAGE.items()}
_ANALYZER_OF_SCRIPT = {Script.KOREAN: Analyzer.KIWI_BIGRAM, Script.UNSPACED: Analyzer.BIGRAM}


def resolve_analyzer(analyzer: Analyzer, texts: Iterable[str]) -> Analyzer:
    """Resolve `AUTO`: `KIWI_BIGRAM`, `JAPANESE`, `BIGRAM` for unspaced scripts, else stems or words."""
    if analyzer is not Analyzer.AUTO:
        return analyzer
    script, language = detect_language(texts)
    if language == "ja":
        return Analyzer.JAPANESE
    return _ANALYZER_OF_SCRIPT.get(script) or ANALYZER_OF_LANGUAGE.get(language, Analyzer.WORD)


# analyzers with overlapping tokens, and the analyzer with a part of them that does not overlap
PLAIN_PART = {Analyzer.KIWI_BIGRAM: Analyzer.KIWI, Analyzer.JAPANESE: Analyzer.BIGRAM}


def kiwi_tokens(texts: Sequence[str]) -> list[Any]:
    """Return Kiwi's tokens of each text; a token has `form`, `tag`, `start` and `len` (in characters of the text)."""
    return list(_shared_kiwi().tokenize(list(texts)))


def _new_kiwi() -> Any:
    from kiwipiepy import Kiwi

    return Kiwi()  # with a thread per core


_shared_kiwi = cache(_new_kiwi)


_COMPOUND_TAGS = ("NNG", "NNP")  # nouns and names
_ENDINGS = ("E", "XSV", "XSA")  # of verbs and adjectives: 다 of 사다, 하 and 다 of 구매하다
_SPACED = r"(?<![\p{L}\p{M}\p{N}])\L<words>"  # a particle may follow
_MIN_COMPOUND_CHARACTERS = 4  # of a noun that is split: both parts have two or more
_SOME_SPACE = regex.compile(r"\S+")
_MIN_WORD_SCORE = 0.1  # of a new word: with Kiwi's default 0.25, a thousand paragraphs have only three


class Compounds(StrEnum):
    """How compound nouns are tokenized: as by Kiwi, in their smallest parts, as a whole, or both.

    `WHOLE` joins adjacent nouns and names without a space: 국립/중앙/박물관 is 국립중앙박물관. `SPLIT` splits a noun
    into its parts in the dictionary, else as Kiwi splits it as an unknown word, if all parts are known nouns of at
    least two characters: 고속도로 becomes 고속/도로. A word of the dictionary without parts is never split.
    """

    AS_READ = "as-read"
    SPLIT = "split"
    WHOLE = "whole"
    BOTH = "both"


class LocatedToken(NamedTuple):
    """A token and its span in the composed text."""

    token: str
    span: Span


def morphemes(
    texts: Sequence[str], compounds: Compounds = Compounds.AS_READ, dictionary: Dictionary | None = None
) -> Iterator[list[LocatedToken]]:
    """Yield the lower-cased content morphemes of each text (composed, NFC) in order, with their spans."""
    reader = kiwi_tokenizer(dictionary)
    for text, tokens in zip(texts, reader.tokens(texts), strict=True):
        content = [token for token in tokens if token.tag.startswith(CONTENT_TAGS)]
        if compounds is Compounds.AS_READ:
            yield [unit for token in content for unit in reader.units(text, token)]
        else:
            yield [unit for run in _noun_runs(content) for unit in reader.compound(text, run, compounds)]


def kiwi_tokenizer(dictionary: Dictionary | None = None) -> "KiwiTokenizer":
    """Return Kiwi with the words of a dictionary; the last two are cached, besides Kiwi without a dictionary."""
    return _custom_tokenizer(dictionary) if dictionary else _default_tokenizer()


@lru_cache(maxsize=2)  # each Kiwi takes 400 MB
def _custom_tokenizer(dictionary: Dictionary) -> "KiwiTokenizer":
    return KiwiTokenizer(_new_kiwi(), dictionary)


@cache
def _default_tokenizer() -> "KiwiTokenizer":
    return KiwiTokenizer(_shared_kiwi(), Dictionary())


class KiwiTokenizer:
    """Kiwi with the words of a dictionary. Synonyms that are verbs or adjectives (사다) are compared by stems."""

    def __init__(self, kiwi: Any, dictionary: Dictionary) -> None:
        self._kiwi = kiwi
        self._dictionary = dictionary
        self._names = dict[tuple[str, bool], str]()  # replacement by form, and whether the form is of a verb
        self._parts = dict[str, tuple[str, ...]]()
        stems = {normalize_word(m): _stem_of(kiwi.tokenize(m)) for group in dictionary.synonyms for m in group}
        for name, first in dictionary.names.items():
            self._names.setdefault(stems[name] or (name, False), (stems[first] or (first, False))[0])
        self._own = {*dictionary.parts, *(name for name in dictionary.names if not stems[name])}
        members = {m: Word(m) for group in dictionary.synonyms for m in group if not stems[normalize_word(m)]}
        words = [*dictionary.words, *(word for m, word in members.items() if normalize_word(m) not in dictionary.parts)]
        for word in words:
            for form in {word.form, word.form.lower(), word.form.upper()}:  # Kiwi is case-sensitive
                kiwi.add_user_word(form, word.tag or TAG, word.score)
        self._tags = {normalize_word(word.form): word.tag or TAG for word in words}
        self._spaced = [word.form for word in (*words, *members.values()) if " " in word.form]
        self._spaced_words = regex.compile(_SPACED, regex.IGNORECASE, words=self._spaced)

    def tokens(self, texts: Sequence[str]) -> Any:
        # Kiwi splits an added word with spaces if it knows the words in it, so such words are matched before
        return self._kiwi.tokenize(list(texts), pretokenized=self._match_spaced_words if self._spaced else None)

    def new_words(self, texts: Sequence[str], *, min_count: int, max_characters: int) -> set[str]:
        return {form for form, *_ in self._kiwi.extract_words(list(texts), min_count, max_characters, _MIN_WORD_SCORE)}

    def _match_spaced_words(self, text: str) -> list[tuple[int, int, str]]:
        matches = self._spaced_words.finditer(text)
        return [(*match.span(), self._tags[normalize_word(match.group())]) for match in matches]

    def units(self, text: str, token: Any) -> list[LocatedToken]:
        """Return a token after synonyms: several for names of several words in Kiwi's dictionary."""
        span = (token.start, token.start + token.len)
        name = normalize_word(token.form)
        replacement = self._names.get((name, token.tag.startswith("V")))
        if replacement or name in self._own or " " not in token.form:
            return [LocatedToken(replacement or name, span)]
        forms = token.form.lower().split()
        spans = [(span[0] + m.start(), span[0] + m.end()) for m in _SOME_SPACE.finditer(text[slice(*span)])]
        # if the name is written without spaces, all its words have the whole span
        return list(map(LocatedToken, forms, spans if len(spans) == len(forms) else [span] * len(forms)))

    def compound(self, text: str, run: Sequence[Any], compounds: Compounds) -> Iterator[LocatedToken]:
        """Yield a run of nouns, or another token, by `SPLIT`, `WHOLE` or `BOTH`; the whole compound comes first."""
        units = [unit for token in run for unit in self.units(text, token)]
        has_space = any(map(str.isspace, text[run[0].start : run[-1].end]))
        is_compound = len(units) > 1 and _is_noun(run[0]) and not has_space
        if is_compound and compounds is not Compounds.SPLIT:
            yield LocatedToken("".join(unit.token for unit in units), (run[0].start, run[-1].end))
            if compounds is Compounds.WHOLE:
                return
        for unit in units:
            parts = self._located_parts(text, unit) if _is_noun(run[0]) and compounds is not Compounds.WHOLE else []
            if compounds is not Compounds.SPLIT or not parts:
                yield unit
            yield from parts

    def _located_parts(self, text: str, unit: LocatedToken) -> list[LocatedToken]:
        parts = self._parts_of(unit.token)
        positions = [position for position in range(*unit.span) if not text[position].isspace()]
        written = [text[position].lower() for position in positions]
        if "".join(parts) != "".join(written) or len(positions) != sum(map(len, parts)):
            return [LocatedToken(part, unit.span) for part in parts]
        ends = accumulate(map(len, parts))
        spans = ((positions[end - len(part)], positions[end - 1] + 1) for part, end in zip(parts, ends, strict=True))
        return list(map(LocatedToken, parts, spans))

    def _parts_of(self, noun: str) -> tuple[str, ...]:
        if noun not in self._parts:
            self._parts[noun] = self._dictionary.parts[noun] if noun in self._dictionary.parts else self._split(noun)
        return self._parts[noun]

    def _split(self, noun: str) -> tuple[str, ...]:
        if len(noun) < _MIN_COMPOUND_CHARACTERS:
            return ()
        tokens = self._kiwi.tokenize(noun, blocklist=[f"{noun}/{tag}" for tag in _COMPOUND_TAGS])
        if len(tokens) < 2 or any(not _is_noun(token) or token.oov or token.len < 2 for token in tokens):
            return ()
        forms = [normalize_word(token.form) for token in tokens]
        return tuple(part for form in forms for part in self._parts_of(form) or [form])


def _noun_runs(tokens: Sequence[Any]) -> Iterator[list[Any]]:
    """Group adjacent nouns; other tokens are runs of one."""
    run: list[Any] = []
    for token in tokens:
        if run and not (run[-1].end == token.start and _is_noun(run[-1]) and _is_noun(token)):
            yield run
            run = []
        run.append(token)
    if run:
        yield run


def _is_noun(token: Any) -> bool:
    return token.tag in _COMPOUND_TAGS


def _stem_of(tokens: Sequence[Any]) -> tuple[str, bool] | None:
    """Return the stem of a verb or adjective with its ending, and whether it is a verb; None for other words."""
    stem, *endings = tokens
    if not endings or not stem.tag.startswith(CONTENT_TAGS) or not endings[-1].tag.startswith("E"):
        return None
    if any(not token.tag.startswith(_ENDINGS) for token in endings):
        return None
    return normalize_word(stem.form), stem.tag.startswith("V")


RUN = "/"
KANJI = "|"
_HAN = regex.compile(r"\p{Han}")
_RUNS = regex.compile(r"\p{Han}+|\p{Katakana}[\p{Katakana}ー]*|\p{Latin}+|\p{N}+")


def kanji_and_runs(text: str) -> Iterator[LocatedToken]:
    """Yield the kanji, then the runs of a lower-cased text without hiragana, with suffixes and spans."""
    marked = ((match, mark) for pattern, mark in ((_HAN, KANJI), (_RUNS, RUN)) for match in pattern.finditer(text))
    for match, mark in marked:
        yield LocatedToken(match.group() + mark, match.span())
