"""Where a passage says what a question says: the spans a person would underline by hand.

Single bigrams, which BM25 also counts, are left out on purpose: half a word found inside another word explains nothing.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import regex

from text.analyzers import Analyzer, choose, kiwi_tokens

Span = tuple[int, int]  # first letter, and the one after the last
_Term = tuple[str, str]  # lower-cased form, and the kind of word it is

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_PAIR = regex.compile(r"[\p{L}\p{M}\p{N}]{2}")
_ONLY_HIRAGANA = regex.compile(r"\p{Hiragana}+")

# Kiwi's tags: nouns, number words, verbs, adjectives, modifiers, adverbs, roots; foreign and Chinese letters, numbers
_TELLING_TAGS = ("NNG", "NNP", "NR", "VV", "VA", "MM", "MAG", "XR", "SL", "SH", "SN")
# words that stand in every question or passage and say nothing about either
_SILENT_WORDS = """
하 되 있 없 같 않 보 위하 대하 통하 의하 따르 관하 어떻 그렇 이렇 이러하 그러하 왜 언제 어떻게 몇 어느 어떤
무슨 가장 더 또 잘 못 안 다시 매우 그 이 저 이런 그런 저런 한 두 세 각 모든 여러 다른
a an and are as at be been by did do does for from had has have how in is it its of on or s t that the their there these
this those to was were what when where which who whom whose why will with
"""
_SILENT = frozenset(_SILENT_WORDS.split())


def matched_spans(question: str, texts: Sequence[str]) -> list[list[Span]]:
    """Return for each text (composed, NFC) the spans whose words also occur in the question, in order, none touching.

    Korean is compared by Kiwi's content morphemes, other scripts by lower-cased words, those that are written without
    spaces by pairs of letters. Words that say nothing ("the", "하다") never match.
    """
    question = unicodedata.normalize("NFC", question)
    asked, *found = _terms(choose(Analyzer.AUTO, [question, *texts]), [question, *texts])
    wanted = {term for term, _ in asked}
    return [merged(span for term, span in terms if term in wanted) for terms in found]


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order, those that overlap or touch made one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _terms(analyzer: Analyzer, texts: Sequence[str]) -> list[list[tuple[_Term, Span]]]:
    if analyzer is Analyzer.KIWI_BIGRAM:
        return [list(_morphemes(text, tokens)) for text, tokens in zip(texts, kiwi_tokens(texts), strict=True)]
    if analyzer is Analyzer.BIGRAM:
        return [[*_words(text), *_pairs(text)] for text in texts]
    return [list(_words(text)) for text in texts]


def _morphemes(text: str, tokens: Sequence[Any]) -> Iterator[tuple[_Term, Span]]:
    for token in tokens:
        tag, start, length = token.tag, token.start, token.len
        if not length or not tag.startswith(_TELLING_TAGS):
            continue
        surface = [(start + w.start(), start + w.end()) for w in regex.finditer(r"\S+", text[start : start + length])]
        forms = token.form.lower().split()
        if len(forms) != len(surface):  # a name of several words is compared word by word where both agree on them
            forms, surface = ["".join(forms)], [(start, start + length)]
        for form, span in zip(forms, surface, strict=True):
            if form not in _SILENT:
                yield (form, "verb" if tag[0] == "V" else "word"), span


def _pairs(text: str) -> Iterator[tuple[_Term, Span]]:
    for match in _PAIR.finditer(text, overlapped=True):
        if not _ONLY_HIRAGANA.fullmatch(match.group()):
            yield (match.group().lower(), "pair"), match.span()


def _words(text: str) -> Iterator[tuple[_Term, Span]]:
    for match in _WORD.finditer(text):
        if (word := match.group().lower()) not in _SILENT:
            yield (word, "word"), match.span()
