"""Problems of analyzers: questions that BM25 cannot answer, and words that Kiwi may cut wrongly.

A word with different morphemes in a question and in its relevant passage does not match; labels reveal this. Without
labels, nouns in pieces of one letter, unknown words, and words that Kiwi extracts from the passages are suspicious.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import regex

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text import analyzers
from mrc_workbench.data.text.analysis import Analysis, Tokens, analyze, tokens_of
from mrc_workbench.data.text.analyzers import Analyzer, KiwiTokenizer
from mrc_workbench.data.text.dictionary import Dictionary
from mrc_workbench.data.texts import in_blocks
from mrc_workbench.retrieval.lexical import counts_by_term, term_statistics

LANGUAGE_SPECIFIC = (*analyzers.LANGUAGE_OF, Analyzer.JAPANESE)
LANGUAGE_INDEPENDENT = tuple(kind for kind in Analyzer if kind not in (Analyzer.AUTO, *LANGUAGE_SPECIFIC))
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_HANGUL = regex.compile(r"\p{Hangul}")
_NOUN_TAGS = ("NNG", "NNP", "NR", "NP", "XR", "XPN", "XSN", "SL", "SH", "SN")
_PIECE_TAGS = ("NNG", "NNP")
_TAIL_TAGS = ("J", "E", "XSV", "XSA", "VCP")  # particles, endings and verbal suffixes
_MIN_CHARACTERS = 2  # of a proposal
_MAX_CHARACTERS = 12
_MIN_TAILS = 5  # occurrences of a tail: a rare one may belong to a wrongly cut word
_MIN_COUNT = 5  # occurrences of an extracted word in the passages
_BLOCK = 512  # texts read at a time


@dataclass(frozen=True)
class UnmatchedQuestions:
    """Ascending rows of questions that share no term with any passage, or none with their relevant ones."""

    without_any_match: np.ndarray
    without_relevant_match: np.ndarray


def readings(text: str, analyzer: Analyzer = Analyzer.AUTO) -> dict[Analyzer, list[str]]:
    """Return the tokens of a text by each language-independent analyzer and by `analyzer`; `AUTO` suits the text."""
    first = analyzers.resolve_analyzer(analyzer, [text])
    language_specific = [first] if first in LANGUAGE_SPECIFIC else []
    return {analyzer: analyze(analyzer, [text])[0] for analyzer in (*language_specific, *LANGUAGE_INDEPENDENT)}


def find_unmatched_questions(
    question_set: QuestionSet, analysis: Analyzer | Analysis, *, title: bool = True
) -> UnmatchedQuestions:
    """Find questions that share no term with any passage, or none with their relevant ones."""
    corpus = term_statistics(analysis, question_set.passages.indexed_texts(title=title))
    questions = _questions(question_set, analysis)
    known = corpus.positions_of(questions.vocabulary) >= 0
    offsets = np.concatenate([[0], np.cumsum(known[questions.ids])])[questions.offsets]  # among known tokens
    rows, counts = shared_terms(question_set, analysis, title=title)
    own = np.zeros(len(question_set.questions), dtype=bool)
    own[rows[counts > 0]] = True
    return UnmatchedQuestions(np.flatnonzero(np.diff(offsets) == 0), np.flatnonzero(~own))


def shared_terms(
    question_set: QuestionSet, analysis: Analyzer | Analysis, *, title: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return the question row and the number of shared distinct terms of each question and relevant passage."""
    rows, columns = question_set.relevance.tocoo().coords
    relevant, index = np.unique(columns, return_inverse=True)
    texts = question_set.passages.indexed_texts(title=title)
    passages = tokens_of(analysis, [texts[row] for row in relevant.tolist()])  # few of a large corpus
    number = {token: index for index, token in enumerate(passages.vocabulary)}
    question_terms = _questions(question_set, analysis).flat_ids_in(number)
    in_question = counts_by_term(*question_terms, len(number)) > 0
    in_passage = counts_by_term(passages.ids, passages.offsets, len(number)) > 0
    counts: np.ndarray = in_question[rows].multiply(in_passage[index]).sum(axis=1)
    return rows, counts


def _questions(question_set: QuestionSet, analysis: Analyzer | Analysis) -> Tokens:
    return tokens_of(analysis, [question.text for question in question_set.questions])


class CutEvidence(StrEnum):
    """Why a word is proposed, the strongest evidence first."""

    DIFFERS = "differs"  # the cuts in question and passage differ, so they share fewer tokens
    PIECES = "pieces"  # it is cut into nouns of one letter
    EXTRACTED = "extracted"  # Kiwi extracts it from the passages as a new word, and questions cut it
    UNKNOWN = "unknown"  # Kiwi guesses its end


_ORDER = list(CutEvidence)


@dataclass(frozen=True)
class CutWord:
    """A word without particles, its most frequent morphemes in questions and passages, and the rows of `questions`."""

    word: str
    evidence: CutEvidence
    in_questions: tuple[str, ...]
    in_passages: tuple[str, ...]
    questions: tuple[int, ...]


class _Morpheme(NamedTuple):
    form: str
    tag: str
    start: int  # in its word
    end: int
    known: bool


class _Word(NamedTuple):
    """A word between spaces and punctuation, its morphemes, and the number of leading characters that are nouns."""

    word: str
    cut: tuple[_Morpheme, ...]
    nouns: int

    @property
    def tail(self) -> str:
        """The particles and endings after the nouns; empty if other morphemes follow."""
        tags = [morpheme.tag for morpheme in self.cut if morpheme.start >= self.nouns]
        return self.word[self.nouns :] if tags and all(tag.startswith(_TAIL_TAGS) for tag in tags) else ""

    def tokens(self, end: int) -> tuple[str, ...]:
        morphemes = (morpheme for morpheme in self.cut if morpheme.start < end)
        return tuple(morpheme.form for morpheme in morphemes if morpheme.tag.startswith(analyzers.CONTENT_TAGS))


class _Finding(NamedTuple):
    word: str
    evidence: CutEvidence
    in_question: tuple[str, ...]
    in_passage: tuple[str, ...] = ()


def cut_words(
    question_set: QuestionSet, dictionary: Dictionary | None = None, on_progress: Callable[[float], None] | None = None
) -> list[CutWord]:
    """Return words that may be cut wrongly in relevant passages, by evidence and number of questions."""

    def report_progress(fraction: float) -> None:
        if on_progress:
            on_progress(fraction)

    rows, columns = question_set.relevance.tocoo().coords
    relevant = sorted(set(columns.tolist()))
    indexed = question_set.passages.indexed_texts(title=True)
    texts = [question.text for question in question_set.questions]
    texts += [indexed[row] for row in relevant]
    reader = analyzers.kiwi_tokenizer(dictionary)
    analyzed = list(_read(texts, reader, lambda fraction: report_progress(0.8 * fraction)))
    question_words = analyzed[: len(question_set.questions)]
    passages = analyzed[len(question_set.questions) :]
    words_by_passage = dict(zip(relevant, passages, strict=True))
    evidence = _CutDetector(analyzed)
    findings_by_word: dict[str, dict[int, _Finding]] = defaultdict(dict)
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        for finding in evidence.differing(question_words[row], words_by_passage[column]):
            findings_by_word[finding.word].setdefault(row, finding)
    report_progress(0.9)
    differing = frozenset(findings_by_word)
    extracted = reader.new_words(texts[len(question_words) :], min_count=_MIN_COUNT, max_characters=_MAX_CHARACTERS)
    for row, words in enumerate(question_words):
        for finding in evidence.suspicious(words, extracted):
            findings_by_word[evidence.shortened(finding.word, differing)].setdefault(row, finding)
    report_progress(1.0)
    results = [_to_cut_word(word, findings) for word, findings in findings_by_word.items()]
    return sorted(results, key=lambda word: (_ORDER.index(word.evidence), -len(word.questions), word.word))


def _to_cut_word(word: str, findings: dict[int, _Finding]) -> CutWord:
    evidence = min((finding.evidence for finding in findings.values()), key=_ORDER.index)
    strongest = [finding for finding in findings.values() if finding.evidence is evidence]
    (in_question, in_passage), _ = Counter((best.in_question, best.in_passage) for best in strongest).most_common(1)[0]
    return CutWord(word, evidence, in_question, in_passage, tuple(sorted(findings)))


class _CutDetector:
    def __init__(self, texts: Sequence[Sequence[_Word]]) -> None:
        words = [word for text in texts for word in text]
        tails = Counter(word.tail for word in words)
        self._tails = {"", *(tail for tail, count in tails.items() if count >= _MIN_TAILS)}
        self._nouns = Counter(word.word[: word.nouns] for word in words if word.nouns)

    def differing(self, question: Sequence[_Word], passage: Sequence[_Word]) -> Iterator[_Finding]:
        passage_forms = {form for word in passage for form in word.tokens(len(word.word))}
        by_start: dict[str, list[_Word]] = defaultdict(list)
        for word in dict.fromkeys(passage):
            by_start[word.word[:_MIN_CHARACTERS]].append(word)
        for question_word in question:
            if all(form in passage_forms for form in question_word.tokens(len(question_word.word))):
                continue
            similar = by_start[question_word.word[:_MIN_CHARACTERS]]
            findings = (self._finding(question_word, other, passage_forms) for other in similar)
            yield from [finding for finding in findings if finding][:1]

    def _finding(self, question_word: _Word, passage_word: _Word, passage_forms: set[str]) -> _Finding | None:
        candidates = {question_word.word[: question_word.nouns], passage_word.word[: passage_word.nouns]}
        fitting = [word for word in candidates if self._fits(word, question_word) and self._fits(word, passage_word)]
        if not fitting:
            return None
        word = max(fitting, key=lambda candidate: (self._nouns[candidate], candidate))
        question_tokens = question_word.tokens(len(word))
        passage_tokens = passage_word.tokens(len(word))
        if question_tokens == passage_tokens or all(form in passage_forms for form in question_tokens):
            return None
        return _Finding(word, CutEvidence.DIFFERS, question_tokens, passage_tokens)

    def _fits(self, word: str, read: _Word) -> bool:
        return _is_proposable(word) and read.word.startswith(word) and read.word[len(word) :] in self._tails

    def shortened(self, word: str, known: frozenset[str]) -> str:
        ends = (end for end in range(_MIN_CHARACTERS, len(word)) if word[:end] in known and word[end:] in self._tails)
        return word[: next(ends, len(word))]

    def suspicious(self, question: Sequence[_Word], extracted: set[str]) -> Iterator[_Finding]:
        for read in question:
            word = read.word[: read.nouns]
            cut = read.tokens(read.nouns)
            nouns = [morpheme for morpheme in read.cut if morpheme.end <= read.nouns]
            if not _is_proposable(word) or read.word[read.nouns :] not in self._tails:
                continue
            if sum(morpheme.tag in _PIECE_TAGS and morpheme.end - morpheme.start == 1 for morpheme in nouns) > 1:
                yield _Finding(word, CutEvidence.PIECES, cut)
            elif word in extracted and len(cut) > 1:
                yield _Finding(word, CutEvidence.EXTRACTED, cut)
            elif not all(morpheme.known for morpheme in nouns):
                yield _Finding(word, CutEvidence.UNKNOWN, cut)


def _is_proposable(word: str) -> bool:
    return _MIN_CHARACTERS <= len(word) <= _MAX_CHARACTERS and bool(_HANGUL.match(word))


def _read(
    texts: Sequence[str], reader: KiwiTokenizer, report_progress: Callable[[float], None]
) -> Iterator[tuple[_Word, ...]]:
    done = 0
    for block in in_blocks(texts, _BLOCK):
        composed = [unicodedata.normalize("NFC", text) for text in block]
        for text, tokens in zip(composed, reader.tokens(composed), strict=True):
            morphemes = [
                _Morpheme(form, token.tag, start, end, not token.oov)
                for token in tokens
                for form, (start, end) in reader.units(text, token)  # a name of several words has several units
            ]
            yield tuple(_words(text, morphemes))
        done += len(block)
        report_progress(done / len(texts))


def _words(text: str, morphemes: Iterable[_Morpheme]) -> Iterator[_Word]:
    rest = iter(morphemes)
    morpheme = next(rest, None)
    for match in _WORD.finditer(text):
        cut = []
        while morpheme and morpheme.start < match.end():
            if morpheme.end > match.start():
                cut.append(morpheme._replace(start=morpheme.start - match.start(), end=morpheme.end - match.start()))
            morpheme = next(rest, None)
        nouns = 0
        for part in cut:
            if part.tag not in _NOUN_TAGS or part.start > nouns:
                break
            nouns = max(nouns, min(part.end, len(match.group())))
        yield _Word(match.group().lower(), tuple(cut), nouns)
