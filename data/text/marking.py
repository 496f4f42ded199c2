"""The positions of an analyzer's tokens in a text, and texts with marked matches, answers and sentences.

Single bigrams, which BM25 also counts, are not marked: half a word inside another word explains nothing.
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
from mrc_workbench.data.text.languages import WORD, lower
from mrc_workbench.data.texts import Script, script_of

Piece = tuple[str, float]  # a substring, and the sum of the weights of its tokens


class TokenKind(StrEnum):
    """The kind of a token; a bigram is two adjacent characters of a word, or a word of one character."""

    WORD = "word"
    MORPHEME = "morpheme"
    BIGRAM = "letters"


class IndexedText(NamedTuple):
    """The indexed text of a passage: composed (NFC), after a line with the title if titles are indexed."""

    text: str
    start: int  # of the passage's text, after the title

    def title_pieces(self, weights: Iterable[tuple[Span, float]]) -> list[Piece]:
        return weighted_pieces(self.text, weights, 0, max(0, self.start - 1))

    def text_pieces(self, weights: Iterable[tuple[Span, float]]) -> list[Piece]:
        return weighted_pieces(self.text, weights, self.start, len(self.text))


def indexed_text(passage: Passage, *, title: bool) -> IndexedText:
    """Return the indexed text of a passage."""
    text = unicodedata.normalize("NFC", Passages.from_passages([passage]).indexed_texts(title=title)[0])
    # no character composes with a line break, so the text after the title has the length of the composed text
    return IndexedText(text, len(text) - len(unicodedata.normalize("NFC", passage.text)))


def describe_token(analysis: Analyzer | Analysis, token: str, written: str = "") -> tuple[str, TokenKind]:
    """Return the displayed form of a token, such as "running (run)" for a stem of the word `written`, and its kind."""
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
    """Return the distinct tokens of each text (composed, NFC) in order, with their spans."""
    spans_by_text = []
    for tokens in locate_tokens(analysis, texts):
        spans: defaultdict[str, list[Span]] = defaultdict(list)
        for token, span in tokens:
            spans[token].append(span)
        spans_by_text.append({token: tuple(positions) for token, positions in spans.items()})
    return spans_by_text


def locate_tokens(analysis: Analyzer | Analysis, texts: Sequence[str]) -> list[list[LocatedToken]]:
    """Return the tokens of `analyze` for each text (composed, NFC) with their spans."""
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
    """Split `text[start:end]` where the weight of the characters, the sum of the spans over them, changes."""
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
    """Return the position in a text of each character of its lower case, in which some become two characters."""
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
    origins = _origins(text, lowered)
    start = -1
    end = 0
    for token in tokens:
        # between two tokens are no characters of tokens, so the first match is right; bigrams overlap by one character
        start = lowered.index(token, start + 1 if overlap and len(token) == 2 else end)
        end = start + len(token)
        yield LocatedToken(token, (origins[start], origins[end - 1] + 1))


_Term = tuple[str, str]  # lower-cased form, and the kind of word

_PAIR = regex.compile(r"[\p{L}\p{M}\p{N}]{2}")
_WORD_BEGINS = r"(?<![\p{L}\p{N}])"
_ONLY_HIRAGANA = regex.compile(r"\p{Hiragana}+")

# Kiwi's tags: nouns, number words, verbs, adjectives, modifiers, adverbs, roots; foreign and Chinese letters, numbers
_CONTENT_TAGS = ("NNG", "NNP", "NR", "VV", "VA", "MM", "MAG", "XR", "SL", "SH", "SN")
# function words
_IGNORED_WORDS = """
하 되 있 없 같 않 보 위하 대하 통하 의하 따르 관하 어떻 그렇 이렇 이러하 그러하 왜 언제 어떻게 몇 어느 어떤
무슨 가장 더 또 잘 못 안 다시 매우 그 이 저 이런 그런 저런 한 두 세 각 모든 여러 다른
a an and are as at be been by did do does for from had has have how in is it its of on or s t that the their there these
this those to was were what when where which who whom whose why will with
"""
_IGNORED = frozenset(_IGNORED_WORDS.split())


def matched_spans(question: str, texts: Sequence[str]) -> list[list[Span]]:
    """Return the spans of each text (composed, NFC) whose words also occur in the question, in order and merged.

    Korean is compared by Kiwi's content morphemes, languages without spaces by pairs of letters, others by stems if
    there is a stemmer, else by lower-cased words. Words without content ("the", "하다") never match.
    """
    question = unicodedata.normalize("NFC", question)
    of_question, *of_texts = _terms([question, *texts])
    question_terms = {term for term, _ in of_question}
    return [merge_spans(span for term, span in terms if term in question_terms) for terms in of_texts]


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order; those that overlap or touch are merged."""
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
        if len(forms) != len(surface):  # a name of several words is compared word by word if possible
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
    for match in WORD.finditer(text):
        if (word := match.group().lower()) not in _IGNORED:
            yield (word, "word"), match.span()


_LINE = regex.compile(r"\S.*")
# up to a mark before a space or the end, or a mark of unspaced scripts; sentences do not span lines
_SENTENCE = regex.compile(r"\S(?:.*?(?:[.!?…][\p{P}]*(?=\s|$)|[。！？][\p{Pe}\p{Pf}]*)|.*\S|)", regex.MULTILINE)


def sentence_spans(text: str) -> list[Span]:
    """Return the sentences of a composed text by line: Kiwi's for Korean, else `marked_sentences`."""
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
    """Split a text into sentences by marks and lines; "Dr. Kim" is split in two."""
    return [match.span() for match in _SENTENCE.finditer(text)]


EXCERPT_LENGTH = 160
_LEAD = 30  # characters before the first match
_WORD_REACH = 15  # characters by which an excerpt may grow to begin and end between words


@dataclass(frozen=True)
class MarkedText:
    """A text (composed, NFC) with the spans that match the question and those that answer it."""

    text: str
    matches: tuple[Span, ...] = ()
    answers: tuple[Span, ...] = ()

    @property
    def excerpt(self) -> Span:
        """The part with the most answers, then the most matches; all of a short text."""
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
    """Mark texts for a question; `answers` are the answers to mark in each text."""
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    rows = zip(composed, matched_spans(question, composed), answers, strict=True)
    return [MarkedText(text, tuple(spans), tuple(answer_spans(text, searched))) for text, spans, searched in rows]


def answer_spans(text: str, answers: Sequence[str]) -> list[Span]:
    """Return the spans of the answers in a text (composed).

    Answers at the beginning of words (particles may follow) come first; without any, an answer may be anywhere except
    inside a number or a Latin word: "3" is no answer in "1934".
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
