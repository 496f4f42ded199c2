"""Where the tokens of an analyzer are in a text, and a passage with its matches, answers and sentences marked.

Spans are those a person would underline by hand. Single bigrams, which BM25 also counts, are left out on purpose: half
a word found inside another word explains nothing.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import regex

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage
from mrc_workbench.data.text import analyzers
from mrc_workbench.data.text.analysis import SURFACE_TOKENIZERS, Analysis, stems_of, words_in
from mrc_workbench.data.text.analyzers import Analyzer, LocatedToken, Span, kiwi_tokens
from mrc_workbench.data.text.languages import lower
from mrc_workbench.data.texts import Script, script_of

Piece = tuple[str, float]  # a stretch of text, and the sum of the weights of the tokens that stand there


class TokenKind(StrEnum):
    """`LETTERS` are two letters in a row, wherever they stand in a word, or a word of one letter."""

    WORD = "word"
    MORPHEME = "morpheme"
    BIGRAM = "letters"


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
    text = unicodedata.normalize("NFC", Passages.from_passages([passage]).indexed_texts(title=title)[0])
    # nothing composes with the line break between them, so the own text is as long as by itself
    return IndexedText(text, len(text) - len(unicodedata.normalize("NFC", passage.text)))


def describe_token(analysis: Analyzer | Analysis, token: str, written: str = "") -> tuple[str, TokenKind]:
    """Return a token as users read it, such as "running (run)" for a stem and the word `written`, and what it is."""
    analysis = Analysis.from_analyzer(analysis)
    analyzer = analysis.analyzer
    if analysis.language and written and written != token:
        return f"{written} ({token})", TokenKind.WORD
    if analysis.pairs:
        return token, TokenKind.WORD
    if analyzer is Analyzer.KIWI_BIGRAM:
        return (token[:-1], TokenKind.MORPHEME) if token.endswith("/") else (token, TokenKind.BIGRAM)
    if analyzer is Analyzer.JAPANESE:
        kind = TokenKind.WORD if token.endswith(analyzers.RUN) else TokenKind.BIGRAM
        return token.removesuffix(analyzers.RUN).removesuffix(analyzers.KANJI), kind
    kinds = {Analyzer.BIGRAM: TokenKind.BIGRAM, Analyzer.KIWI: TokenKind.MORPHEME}
    return token, kinds.get(analyzer, TokenKind.WORD)


def spans_by_token(analysis: Analyzer | Analysis, texts: Sequence[str]) -> list[dict[str, tuple[Span, ...]]]:
    """Return for each text (composed, NFC) its distinct tokens in their order, and where each of them stands."""
    spans_by_text = []
    for tokens in locate_tokens(analysis, texts):
        spans: defaultdict[str, list[Span]] = defaultdict(list)
        for token, span in tokens:
            spans[token].append(span)
        spans_by_text.append({token: tuple(positions) for token, positions in spans.items()})
    return spans_by_text


def locate_tokens(analysis: Analyzer | Analysis, texts: Sequence[str]) -> list[list[LocatedToken]]:
    """Return the tokens of `analyze` for each text (composed, NFC) with their places, those of synonyms included."""
    analysis = Analysis.from_analyzer(analysis)
    if analysis.pairs:
        return [
            [LocatedToken(f"{a} {b}", (first, last)) for (a, (first, _)), (b, (_, last)) in pairwise(tokens)]
            for tokens in locate_tokens(analysis.unpaired, texts)
        ]
    match analysis.analyzer:
        case Analyzer.KIWI:
            return list(analyzers.morphemes(texts, analysis.compounds, analysis.dictionary))
        case Analyzer.KIWI_BIGRAM:
            morpheme_tokens = locate_tokens(replace(analysis, analyzer=Analyzer.KIWI), texts)
            pairs = locate_tokens(Analyzer.BIGRAM, texts)
            marked = [[LocatedToken(f"{form}/", span) for form, span in tokens] for tokens in morpheme_tokens]
            return [first + second for first, second in zip(marked, pairs, strict=True)]
        case Analyzer.JAPANESE:
            return [[*_located(Analyzer.BIGRAM, text), *_located_kanji_and_runs(text)] for text in texts]
    if analysis.language:
        return [list(_located_stems(analysis, text)) for text in texts]
    names = analysis.names
    written = (_located(analysis.analyzer, text) for text in texts)
    return [[LocatedToken(names.get(token.lower(), token), span) for token, span in tokens] for tokens in written]


def weighted_pieces(text: str, weights: Iterable[tuple[Span, float]], start: int, end: int) -> list[Piece]:
    """Cut `text[start:end]` where the weight of its letters changes; a letter weighs what the spans over it sum to."""
    character_weights = np.zeros(len(text))
    for (first, last), weight in weights:
        character_weights[first:last] += weight
    cuts = [start, *(start + 1 + np.flatnonzero(np.diff(character_weights[start:end]))).tolist(), end]
    return [(text[a:b], float(character_weights[a])) for a, b in pairwise(cuts) if a < b]


def _located(analyzer: Analyzer, text: str) -> Iterator[LocatedToken]:
    lowered = text if analyzer is Analyzer.WHITESPACE else text.lower()
    (tokens,) = SURFACE_TOKENIZERS[analyzer]([text])
    return _locate_in_order(tokens, text, lowered, overlap=analyzer is Analyzer.BIGRAM)


def _located_kanji_and_runs(text: str) -> Iterator[LocatedToken]:
    lowered = text.lower()
    origins = _origins(text, lowered)
    for token, (start, end) in analyzers.kanji_and_runs(lowered):
        yield LocatedToken(token, (origins[start], origins[end - 1] + 1))


def _origins(text: str, lowered: str) -> Sequence[int]:
    """The position in a text of each character of it in lower case: some become two characters then."""
    if len(lowered) == len(text):
        return range(len(text))
    return [position for position, character in enumerate(text) for _ in character.lower()]


def _located_stems(analysis: Analysis, text: str) -> Iterator[LocatedToken]:
    (words,) = words_in(analysis.language, [text])
    located_words = _locate_in_order(words, text, lower(analysis.language, text))
    for stem, (_, span) in zip(stems_of(analysis, words), located_words, strict=True):
        if stem:
            yield LocatedToken(stem, span)


def _locate_in_order(
    tokens: Sequence[str], text: str, lowered: str, *, overlap: bool = False
) -> Iterator[LocatedToken]:
    """Yield the tokens with their characters of the text, which has been lowered."""
    origins = _origins(text, lowered)
    start = -1
    end = 0
    for token in tokens:
        # no characters of either token are between two tokens, so the first place is right; pairs overlap by one
        start = lowered.index(token, start + 1 if overlap and len(token) == 2 else end)
        end = start + len(token)
        yield LocatedToken(token, (origins[start], origins[end - 1] + 1))


_Term = tuple[str, str]  # lower-cased form, and the kind of word it is

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_PAIR = regex.compile(r"[\p{L}\p{M}\p{N}]{2}")
_WORD_BEGINS = r"(?<![\p{L}\p{N}])"
_ONLY_HIRAGANA = regex.compile(r"\p{Hiragana}+")

# Kiwi's tags: nouns, number words, verbs, adjectives, modifiers, adverbs, roots; foreign and Chinese letters, numbers
_CONTENT_TAGS = ("NNG", "NNP", "NR", "VV", "VA", "MM", "MAG", "XR", "SL", "SH", "SN")
# words that stand in every question or passage and say nothing about either
_IGNORED_WORDS = """
하 되 있 없 같 않 보 위하 대하 통하 의하 따르 관하 어떻 그렇 이렇 이러하 그러하 왜 언제 어떻게 몇 어느 어떤
무슨 가장 더 또 잘 못 안 다시 매우 그 이 저 이런 그런 저런 한 두 세 각 모든 여러 다른
a an and are as at be been by did do does for from had has have how in is it its of on or s t that the their there these
this those to was were what when where which who whom whose why will with
"""
_IGNORED = frozenset(_IGNORED_WORDS.split())


def matched_spans(question: str, texts: Sequence[str]) -> list[list[Span]]:
    """Return for each text (composed, NFC) the spans whose words also occur in the question, in order, none touching.

    Korean is compared by Kiwi's content morphemes, languages without spaces by pairs of letters, others by stems if
    there is a stemmer, else by lower-cased words. Words without content ("the", "하다") never match.
    """
    question = unicodedata.normalize("NFC", question)
    of_question, *of_texts = _terms([question, *texts])
    question_terms = {term for term, _ in of_question}
    return [merge_spans(span for term, span in terms if term in question_terms) for terms in of_texts]


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order, those that overlap or touch made one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _terms(texts: Sequence[str]) -> list[list[tuple[_Term, Span]]]:
    analyzer = analyzers.resolve_analyzer(Analyzer.AUTO, texts)
    if analyzer is Analyzer.KIWI_BIGRAM:
        return [list(_morphemes(text, tokens)) for text, tokens in zip(texts, kiwi_tokens(texts), strict=True)]
    if analyzer in (Analyzer.BIGRAM, Analyzer.JAPANESE):
        return [[*_words(text), *_pairs(text)] for text in texts]
    if language := analyzers.LANGUAGE_OF.get(analyzer):
        stems = zip(texts, locate_tokens(analyzer, texts), strict=True)
        return [
            [((stem, "word"), span) for stem, span in tokens if lower(language, text[slice(*span)]) not in _IGNORED]
            for text, tokens in stems
        ]
    return [list(_words(text)) for text in texts]


def _morphemes(text: str, tokens: Sequence[Any]) -> Iterator[tuple[_Term, Span]]:
    for token in tokens:
        tag = token.tag
        start = token.start
        length = token.len
        if not length or not tag.startswith(_CONTENT_TAGS):
            continue
        surface = [(start + w.start(), start + w.end()) for w in regex.finditer(r"\S+", text[start : start + length])]
        forms = token.form.lower().split()
        if len(forms) != len(surface):  # a name of several words is compared word by word where both agree on them
            forms = ["".join(forms)]
            surface = [(start, start + length)]
        for form, span in zip(forms, surface, strict=True):
            if form not in _IGNORED:
                yield (form, "verb" if tag[0] == "V" else "word"), span


def _pairs(text: str) -> Iterator[tuple[_Term, Span]]:
    for match in _PAIR.finditer(text, overlapped=True):
        if not _ONLY_HIRAGANA.fullmatch(match.group()):
            yield (match.group().lower(), "pair"), match.span()


def _words(text: str) -> Iterator[tuple[_Term, Span]]:
    for match in _WORD.finditer(text):
        if (word := match.group().lower()) not in _IGNORED:
            yield (word, "word"), match.span()


_LINE = regex.compile(r"\S.*")
# up to a mark before a space or the end, or one of those that need no space; none goes beyond its line
_SENTENCE = regex.compile(r"\S(?:.*?(?:[.!?…][\p{P}]*(?=\s|$)|[。！？][\p{Pe}\p{Pf}]*)|.*\S|)", regex.MULTILINE)


def sentence_spans(text: str) -> list[Span]:
    """Return the sentences of a composed text, none beyond its line: Kiwi's in Korean, else `marked_sentences`."""
    if script_of([text]) is not Script.KOREAN:
        return marked_sentences(text)
    lines = list(_LINE.finditer(text))
    spans = []
    for line, tokens in zip(lines, kiwi_tokens([line.group() for line in lines]), strict=True):
        for _, part in groupby(tokens, key=lambda token: token.sent_position):
            ends = [(token.start, token.start + token.len) for token in part]
            spans.append((line.start() + ends[0][0], line.start() + max(end for _, end in ends)))
    return spans


def marked_sentences(text: str) -> list[Span]:
    """Return the sentences of a text as they end with their mark or their line, so "Dr. Kim" is cut in two."""
    return [match.span() for match in _SENTENCE.finditer(text)]


EXCERPT_LENGTH = 160
_LEAD = 30  # letters shown before the first thing worth seeing
_WORD_REACH = 15  # letters an excerpt may grow to begin and end at a word's edge


@dataclass(frozen=True)
class MarkedText:
    """A text (composed, NFC), the spans in it that match the question, and those that answer it."""

    text: str
    matches: tuple[Span, ...] = ()
    answers: tuple[Span, ...] = ()

    @property
    def excerpt(self) -> Span:
        """The part that holds an answer where there is one, else the most matches; all of a short text."""
        if len(self.text) <= EXCERPT_LENGTH + _LEAD:
            return 0, len(self.text)
        weights = {**dict.fromkeys(self.matches, 1), **dict.fromkeys(self.answers, 1000)}
        starts = [max(0, min(start - _LEAD, len(self.text) - EXCERPT_LENGTH)) for start, _ in weights] or [0]

        def score(start: int) -> int:
            return sum(w for (a, b), w in weights.items() if start <= a and b <= start + EXCERPT_LENGTH)

        start = max(sorted(starts), key=score)
        return _word_start(self.text, start), _word_end(self.text, start + EXCERPT_LENGTH)

    def pieces(self, start: int, end: int) -> list[tuple[str, bool, bool]]:
        """Cut the text between `start` and `end` into (piece, matches the question, answers it)."""

        def covers(spans: Sequence[Span], position: int) -> bool:
            return any(first <= position < last for first, last in spans)

        edges = {start, end, *(edge for span in (*self.matches, *self.answers) for edge in span)}
        cuts = sorted(edge for edge in edges if start <= edge <= end)
        return [(self.text[a:b], covers(self.matches, a), covers(self.answers, a)) for a, b in pairwise(cuts)]


def mark_texts(question: str, texts: Sequence[str], answers: Sequence[Sequence[str]]) -> list[MarkedText]:
    """Mark texts for a question; `answers` holds for each text the answers to look for in it."""
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    return [
        MarkedText(text, tuple(spans), tuple(answer_spans(text, text_answers)))
        for text, spans, text_answers in zip(composed, matched_spans(question, composed), answers, strict=True)
    ]


def answer_spans(text: str, answers: Sequence[str]) -> list[Span]:
    """Return where a text (composed) holds one of the answers.

    An answer begins a word (particles may follow it) or, if it never does, is anywhere; never inside a number or a
    Latin word, since "3" answers nothing in "1934".
    """
    spans: list[Span] = []
    for answer in answers:
        normalized = unicodedata.normalize("NFC", answer).strip()
        if not normalized:
            continue
        before = r"(?<!\p{N})" if normalized[0].isdigit() else r"(?<!\p{Latin})" if normalized[0].isascii() else ""
        after = r"(?!\p{N})" if normalized[-1].isdigit() else r"(?!\p{Latin})" if normalized[-1].isascii() else ""
        leads = [_WORD_BEGINS, before] if len(normalized) > 1 else [_WORD_BEGINS]
        for lead in leads:
            if matches := list(regex.finditer(lead + regex.escape(normalized) + after, text, regex.IGNORECASE)):
                spans += [match.span() for match in matches]
                break
    return merge_spans(spans)


def _word_start(text: str, position: int) -> int:
    reach = text[max(0, position - _WORD_REACH) : position]
    space = max((reach.rfind(mark) for mark in " \n\t"), default=-1)
    return position - len(reach) + space + 1 if space >= 0 or len(reach) < _WORD_REACH else position


def _word_end(text: str, position: int) -> int:
    reach = text[position : position + _WORD_REACH]
    space = regex.search(r"[ \n\t]", reach)
    return position + (space.start() if space else len(reach) if len(reach) < _WORD_REACH else 0)
