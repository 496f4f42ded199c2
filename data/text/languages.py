"""Languages with stemmers: stop words and stems; language detection.

Stems are those of Snowball (Porter 1980, "An algorithm for suffix stripping"; snowballstem.org), which removes endings.
A stem may not be a word: "happily" and "happiness" are "happili" and "happi".

A language is detected by script, then by words. A word of the stop word lists (stopwords-iso) counts
`1 / n / size ** 0.3` for a language, if it is in `n` lists and the language's list has `size` words: words of few
languages are better evidence, and long lists contain content words. Languages without a stemmer are detected as well,
so that Ukrainian is not mistaken for Russian.
"""

import hashlib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import regex

from mrc_workbench.data.texts import Script, sample_beginnings, script_of

VERSION = 1  # part of the keys of stems: raise it if the stems, the stop words or the detected languages change

# ISO 639-1 codes and Snowball's names of languages with a stemmer and a list of stop words
STEMMED = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "it": "italian", "lt": "lithuanian", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sv": "swedish", "tr": "turkish",
}  # fmt: skip
_UNSPACED = {"th": r"\p{Thai}", "lo": r"\p{Lao}", "km": r"\p{Khmer}", "my": r"\p{Myanmar}", "zh": r"\p{Han}"}
_KANA = regex.compile(r"[\p{Hiragana}\p{Katakana}]")
_CHINESE_CHARACTERS = {"ja", "zh"}  # a short Japanese question may contain only Chinese characters
_JAPANESE = 0.05  # minimum fraction of kana; Chinese texts may quote Japanese names
WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_TURKISH_I = str.maketrans("Iİ", "ıi")

_EXCERPT = 400  # minimum characters of joined texts, so that they contain stop words
_EXCERPTS = 200  # evaluated excerpts, evenly spread
_MIN_WORDS = 2  # stop words that decide the language of an excerpt
_LEAD = 1.1  # minimum ratio to the evidence of the next language
_LENGTH_POWER = 0.3  # of a list's length: 0 favours long lists, 1 favours short ones
_DECIDED = 0.4  # minimum fraction of all excerpts with the language of the corpus
_AGREED = 0.75  # minimum fraction of the excerpts with a language


def has_own_case(language: str) -> bool:
    """Whether a language has its own rules for lower case."""
    return language == "tr"


def lower(language: str, text: str) -> str:
    """Lower-case a composed text (NFC) by the rules of a language: in Turkish, I becomes ı and İ becomes i."""
    return (text.translate(_TURKISH_I) if has_own_case(language) else text).lower()


def stems(language: str, words: Iterable[str]) -> list[str]:
    """Return the Snowball stem of each lower-cased word; a word with an empty stem is returned unchanged."""
    import Stemmer  # only loaded for texts of such a language

    words = list(words)
    stemmer = Stemmer.Stemmer(STEMMED[language], 0)  # not thread-safe, so it is not shared
    return [stem or word for stem, word in zip(stemmer.stemWords(words), words, strict=True)]


@lru_cache(maxsize=4)
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language in lower case."""
    return _lists()[language]


def language_of(texts: Iterable[str]) -> str:
    """Return the ISO 639-1 code of the language of most texts; empty if unclear."""
    return detect_language(texts).language


class DetectedLanguage(NamedTuple):
    """The script of a corpus and its language, empty if unclear."""

    script: Script
    language: str


_MAX_CACHED_CORPORA = 256
_detected: dict[bytes, DetectedLanguage] = {}


def detect_language(texts: Iterable[str]) -> DetectedLanguage:
    """Return the script and the language of texts, cached by content."""
    sample = sample_beginnings(texts)
    key = hashlib.blake2b("\0".join(sample).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    if (known := _detected.get(key)) is None:
        if len(_detected) >= _MAX_CACHED_CORPORA:
            _detected.clear()
        script = script_of(sample)
        known = _detected[key] = DetectedLanguage(script, _language(script, sample))
    return known


def _language(script: Script, sample: Sequence[str]) -> str:
    if script is Script.KOREAN:
        return "ko"
    if script is Script.UNSPACED:
        text = "".join(sample)
        counts = {language: len(regex.findall(pattern, text)) for language, pattern in _UNSPACED.items()}
        kana = len(_KANA.findall(text))
        if kana > _JAPANESE * (kana + counts["zh"]):
            counts["ja"] = kana + counts["zh"]
        return max(counts, key=counts.__getitem__)
    excerpts = list(_excerpts(sample))
    if len(excerpts) > _EXCERPTS:
        excerpts = [excerpts[position * len(excerpts) // _EXCERPTS] for position in range(_EXCERPTS)]
    votes = Counter(filter(None, map(_language_by_stop_words, excerpts)))
    language, count = max(votes.items(), key=itemgetter(1), default=("", 0))
    return language if count >= max(_DECIDED * len(excerpts), _AGREED * votes.total()) else ""


def _excerpts(texts: Sequence[str]) -> Iterator[str]:
    parts = list[str]()
    length = 0
    for text in texts:
        parts.append(text)
        length += len(text)
        if length >= _EXCERPT:
            yield " ".join(parts)
            parts = []
            length = 0
    if parts:
        yield " ".join(parts)


def _language_by_stop_words(text: str) -> str:
    ranked = sorted(stop_word_evidence(text).items(), key=lambda item: -item[1].weight)
    if not ranked:
        return ""
    (language, evidence), *others = ranked
    is_clear = not others or evidence.weight >= _LEAD * others[0][1].weight
    return language if is_clear and evidence.words >= _MIN_WORDS else ""


class WordEvidence(NamedTuple):
    """The number of words of a text that are stop words of a language, and the sum of their weights."""

    words: int
    weight: float


_NONE = WordEvidence(0, 0.0)


def stop_word_evidence(text: str) -> dict[str, WordEvidence]:
    """Return the evidence of the words of a text for each language."""
    evidence_by_language: dict[str, WordEvidence] = {}
    for word in WORD.findall(text.lower()):
        for language, weight in _weights().get(word, ()):
            words, weight_sum = evidence_by_language.get(language, _NONE)
            evidence_by_language[language] = WordEvidence(words + 1, weight_sum + weight)
    return evidence_by_language


@cache
def _weights() -> Mapping[str, Sequence[tuple[str, float]]]:
    sizes = {language: len(words) ** _LENGTH_POWER for language, words in _lists().items()}
    counts = Counter(chain.from_iterable(_lists().values()))
    weights = defaultdict[str, list[tuple[str, float]]](list)
    for language, words in _lists().items():
        for word in words:
            weights[word].append((language, 1 / counts[word] / sizes[language]))
    return weights


@cache
def _lists() -> dict[str, frozenset[str]]:
    from stopwordsiso import langs, stopwords  # 200 KB, only loaded if needed

    spaced = langs() - {"ja", "ko", "th", "zh"}
    lists = ((language, filter(WORD.fullmatch, stopwords(language))) for language in sorted(spaced))
    return {language: frozenset(map(str.lower, words)) for language, words in lists}


_DECISIVE_WORDS = 2  # minimum stop words in a short text
_DECISIVE_LEAD = 2.0  # minimum ratio to the stop words of the corpus's language


def foreign_language(text: str, language: str) -> str:
    """Return the language of a short text, such as a question, if it is clearly not `language`; else empty."""
    script = script_of([text])
    if script is not Script.SPACED:
        detected = _language(script, [text])
        return "" if {detected, language} <= _CHINESE_CHARACTERS or detected == language else detected
    others = stop_word_evidence(unicodedata.normalize("NFC", text))
    own = others.pop(language, _NONE)
    other, strongest = max(others.items(), key=lambda item: item[1].weight, default=("", _NONE))
    is_sure = strongest.words >= max(_DECISIVE_WORDS, _DECISIVE_LEAD * own.words)
    return other if is_sure and strongest.weight >= _DECISIVE_LEAD * own.weight else ""
