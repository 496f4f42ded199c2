"""The languages that the analyzers stem: their names, stop words and stems, and the language of a corpus.

Stems are those of Snowball (Porter 1980, "An algorithm for suffix stripping"; snowballstem.org), which removes endings.
A stem need not be a word: "happily" and "happiness" are "happili" and "happi".

A language is detected by script, then by words. A word of the stop word lists (stopwords-iso) counts
`1 / n / size ** 0.3` for a language, if it is in `n` lists and the language's list has `size` words: a word that few
languages share says more, and a long list holds words of content. Languages without stems are detected as well, so
that Ukrainian is not taken for Russian.
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

# ISO 639-1 codes of the languages that have a Snowball stemmer and a list of stop words, and Snowball's names
STEMMED = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "it": "italian", "lt": "lithuanian", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sv": "swedish", "tr": "turkish",
}  # fmt: skip
_UNSPACED = {"th": r"\p{Thai}", "lo": r"\p{Lao}", "km": r"\p{Khmer}", "my": r"\p{Myanmar}", "zh": r"\p{Han}"}
_KANA = regex.compile(r"[\p{Hiragana}\p{Katakana}]")
_CHINESE_CHARACTERS = {"ja", "zh"}  # a short Japanese question may be in these alone
_JAPANESE = 0.05  # of the unspaced characters are kana in Japanese; Chinese quotes a name now and then
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_TURKISH_I = str.maketrans("Iİ", "ıi")

_EXCERPT = 400  # characters: texts are joined until they have as many, so that each has some stop words
_EXCERPTS = 200  # that are looked at, evenly spread
_MIN_WORDS = 2  # stop words that decide the language of an excerpt
_LEAD = 1.1  # times the evidence of the next language
_LENGTH_POWER = 0.3  # of a list's length: 0 favours long lists, 1 favours short ones
# of all excerpts, and of those that are decided
_DECIDED = 0.4
_AGREED = 0.75


def has_own_case(language: str) -> bool:
    """Whether a language lowers some letters as no other language does."""
    return language == "tr"


def lower(language: str, text: str) -> str:
    """Return a composed text (NFC) in the lower case of a language: in Turkish, I becomes ı and İ becomes i."""
    return (text.translate(_TURKISH_I) if has_own_case(language) else text).lower()


def stems(language: str, words: Iterable[str]) -> list[str]:
    """Return the Snowball stem of each word in lower case; a word of which nothing is left is its own stem."""
    import Stemmer  # a library in C, which is loaded with the first text of such a language

    words = list(words)
    stemmer = Stemmer.Stemmer(STEMMED[language], 0)  # a new one for each call: it must not serve two threads at once
    return [stem or word for stem, word in zip(stemmer.stemWords(words), words, strict=True)]


@lru_cache(maxsize=4)
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language in lower case."""
    return _lists()[language]


def language_of(texts: Iterable[str]) -> str:
    """Return the ISO 639-1 code of the language that most of the texts begin in; empty if there is none."""
    return detect_language(texts).language


class DetectedLanguage(NamedTuple):
    """The script of a corpus, and its language, which is empty if unclear."""

    script: Script
    language: str


_MAX_CACHED_CORPORA = 256
_detected: dict[bytes, DetectedLanguage] = {}


def detect_language(texts: Iterable[str]) -> DetectedLanguage:
    """Return the script and the language of texts, remembered by content."""
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
    evidence_by_language = stop_word_evidence(text)
    if (
        not evidence_by_language
        or max(language_evidence.words for language_evidence in evidence_by_language.values()) < _MIN_WORDS
    ):
        return ""
    first, *others = sorted(evidence_by_language, key=lambda language: -evidence_by_language[language].weight)
    is_clear = not others or evidence_by_language[first].weight >= _LEAD * evidence_by_language[others[0]].weight
    return first if is_clear and evidence_by_language[first].words >= _MIN_WORDS else ""


class WordEvidence(NamedTuple):
    """How many words of a text are stop words of a language, and the sum of their weights."""

    words: int
    weight: float


_NONE = WordEvidence(0, 0.0)


def stop_word_evidence(text: str) -> dict[str, WordEvidence]:
    """Return what the words of a text say for each language."""
    evidence_by_language: dict[str, WordEvidence] = {}
    for word in _WORD.findall(text.lower()):
        for language, weight in _weights().get(word, ()):
            previous = evidence_by_language.get(language, _NONE)
            evidence_by_language[language] = WordEvidence(previous.words + 1, previous.weight + weight)
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
    from stopwordsiso import langs, stopwords  # a file of 200 KB

    spaced = langs() - {"ja", "ko", "th", "zh"}
    return {
        language: frozenset(word.lower() for word in stopwords(language) if _WORD.fullmatch(word))
        for language in sorted(spaced)
    }


# of a short text: stop words of a language, times those of the corpus's
_DECISIVE_WORDS = 2
_DECISIVE_LEAD = 2.0


def foreign_language(text: str, language: str) -> str:
    """Return the language of a short text, such as a question, if it surely is another than `language`; else empty."""
    script = script_of([text])
    if script is not Script.SPACED:
        detected_language = _language(script, [text])
        return (
            ""
            if {detected_language, language} <= _CHINESE_CHARACTERS or detected_language == language
            else detected_language
        )
    others = stop_word_evidence(unicodedata.normalize("NFC", text))
    own = others.pop(language, _NONE)
    other, strongest = max(others.items(), key=lambda item: item[1].weight, default=("", _NONE))
    is_sure = strongest.words >= max(_DECISIVE_WORDS, _DECISIVE_LEAD * own.words)
    return other if is_sure and strongest.weight >= _DECISIVE_LEAD * own.weight else ""
