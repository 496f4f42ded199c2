"""What analyzers make of texts: questions that BM25 cannot answer, and words of questions that Kiwi cuts wrongly.

A word with other morphemes in a question than in its relevant passage finds nothing there: the labels show it. Without
labels, nouns in pieces of one letter, words that Kiwi does not know, and words that it extracts from the passages are
suspicious.
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
from mrc_workbench.data.text.analysis import Analysis, Tokens, analyze, tokens_of
from mrc_workbench.data.text.analyzers import CONTENT_TAGS, LANGUAGE_OF, Analyzer, Reader, choose, reader_of
from mrc_workbench.data.text.dictionary import Dictionary
from mrc_workbench.data.texts import in_blocks
from mrc_workbench.retrieval.lexical import counts_by_term, term_statistics

OF_ONE_LANGUAGE = (*LANGUAGE_OF, Analyzer.JAPANESE)
OF_ANY_LANGUAGE = tuple(one for one in Analyzer if one not in (Analyzer.AUTO, *OF_ONE_LANGUAGE))
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_HANGUL = regex.compile(r"\p{Hangul}")
_NOUN_TAGS = ("NNG", "NNP", "NR", "NP", "XR", "XPN", "XSN", "SL", "SH", "SN")
_PIECE_TAGS = ("NNG", "NNP")
_TAIL_TAGS = ("J", "E", "XSV", "XSA", "VCP")  # particles, and what makes a noun a verb or a statement
_SHORTEST, _LONGEST = 2, 12  # letters of a proposal
_FEWEST_TAILS = 5  # times that a tail is seen: once, it may be a wrongly cut word's own
_FEWEST = 5  # times that a word stands in the passages to be extracted from them
_BLOCK = 512  # texts read at a time


@dataclass(frozen=True)
class UnmatchedQuestions:
    """Ascending rows of questions that share no term with any passage, and of those that share none with their own."""

    anywhere: np.ndarray
    own: np.ndarray


def readings(text: str, analyzer: Analyzer = Analyzer.AUTO) -> dict[Analyzer, list[str]]:
    """Return the tokens of a text under every analyzer of any language, and under `analyzer`; `AUTO` suits the text."""
    first = choose(analyzer, [text])
    of_one_language = [first] if first in OF_ONE_LANGUAGE else []
    return {analyzer: analyze(analyzer, [text])[0] for analyzer in (*of_one_language, *OF_ANY_LANGUAGE)}


def unmatched(question_set: QuestionSet, analysis: Analyzer | Analysis, *, title: bool = True) -> UnmatchedQuestions:
    """Find the questions that share no term with any passage, or with their own."""
    corpus = term_statistics(analysis, question_set.passages.indexed_texts(title=title))
    questions = _questions(question_set, analysis)
    known = corpus.places_of(questions.vocabulary) >= 0
    offsets = np.concatenate([[0], np.cumsum(known[questions.ids])])[questions.offsets]  # among the known
    rows, counts = shared_terms(question_set, analysis, title=title)
    own = np.zeros(len(question_set.questions), dtype=bool)
    own[rows[counts > 0]] = True
    return UnmatchedQuestions(anywhere=np.flatnonzero(np.diff(offsets) == 0), own=np.flatnonzero(~own))


def shared_terms(
    question_set: QuestionSet, analysis: Analyzer | Analysis, *, title: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return question rows and counts of shared distinct terms, one each for every question and relevant passage."""
    rows, columns = question_set.relevance.tocoo().coords
    relevant, place = np.unique(columns, return_inverse=True)
    texts = question_set.passages.indexed_texts(title=title)
    passages = tokens_of(analysis, [texts[row] for row in relevant.tolist()])  # of a large corpus few are relevant
    number = {token: place for place, token in enumerate(passages.vocabulary)}
    asked = _questions(question_set, analysis).flat_ids_in(number)
    asks, holds = (counts_by_term(*some, len(number)) > 0 for some in (asked, (passages.ids, passages.offsets)))
    counts: np.ndarray = asks[rows].multiply(holds[place]).sum(axis=1)
    return rows, counts


def _questions(question_set: QuestionSet, analysis: Analyzer | Analysis) -> Tokens:
    return tokens_of(analysis, [question.text for question in question_set.questions])


class Evidence(StrEnum):
    """Why a word is proposed, the surest first."""

    DIFFERS = "differs"  # it is cut in a question in another way than in its passage, and they share less for that
    PIECES = "pieces"  # it falls into nouns of one letter
    EXTRACTED = "extracted"  # Kiwi's extraction of new words finds it in the passages, and questions cut it
    UNKNOWN = "unknown"  # Kiwi guesses where it ends


_ORDER = list(Evidence)


@dataclass(frozen=True)
class CutWord:
    """A word without particles, its usual morphemes in questions and passages, and the rows of its `questions`."""

    word: str
    evidence: Evidence
    in_questions: tuple[str, ...]
    in_passages: tuple[str, ...]
    questions: tuple[int, ...]


class _Morpheme(NamedTuple):
    form: str
    tag: str
    start: int  # in its word
    end: int
    known: bool


class _Read(NamedTuple):
    """A word between spaces and marks, how it is cut, and how many of its letters are nouns, from the first one on."""

    word: str
    cut: tuple[_Morpheme, ...]
    nouns: int

    @property
    def tail(self) -> str:
        """What follows its nouns where that is particles and endings alone."""
        after = [one for one in self.cut if one.start >= self.nouns]
        return self.word[self.nouns :] if after and all(one.tag.startswith(_TAIL_TAGS) for one in after) else ""

    def tokens(self, end: int) -> tuple[str, ...]:
        return tuple(one.form for one in self.cut if one.start < end and one.tag.startswith(CONTENT_TAGS))


class _Finding(NamedTuple):
    word: str
    evidence: Evidence
    in_question: tuple[str, ...]
    in_passage: tuple[str, ...] = ()


def cut_words(
    question_set: QuestionSet, dictionary: Dictionary | None = None, on_progress: Callable[[float], None] | None = None
) -> list[CutWord]:
    """Return words that may be cut wrongly in relevant passages, by evidence and number of questions."""
    tell = on_progress or (lambda _: None)
    rows, columns = question_set.relevance.tocoo().coords
    relevant = sorted(set(columns.tolist()))
    indexed = question_set.passages.indexed_texts(title=True)
    texts = [question.text for question in question_set.questions]
    texts += [indexed[row] for row in relevant]
    reader = reader_of(dictionary)
    read = list(_read(texts, reader, lambda share: tell(0.8 * share)))
    asked, passages = read[: len(question_set.questions)], read[len(question_set.questions) :]
    held = dict(zip(relevant, passages, strict=True))
    evidence = _Evidence(read)
    found: dict[str, dict[int, _Finding]] = defaultdict(dict)
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        for finding in evidence.differing(asked[row], held[column]):
            found[finding.word].setdefault(row, finding)
    tell(0.9)
    differing = frozenset(found)
    extracted = reader.new_words(texts[len(asked) :], fewest=_FEWEST, longest=_LONGEST)
    for row, words in enumerate(asked):
        for finding in evidence.suspicious(words, extracted):
            found[evidence.shortened(finding.word, differing)].setdefault(row, finding)
    tell(1.0)
    told = [_told(word, findings) for word, findings in found.items()]
    return sorted(told, key=lambda one: (_ORDER.index(one.evidence), -len(one.questions), one.word))


def _told(word: str, findings: dict[int, _Finding]) -> CutWord:
    evidence = min((finding.evidence for finding in findings.values()), key=_ORDER.index)
    surest = [finding for finding in findings.values() if finding.evidence is evidence]
    (in_question, in_passage), _ = Counter((one.in_question, one.in_passage) for one in surest).most_common(1)[0]
    return CutWord(word, evidence, in_question, in_passage, tuple(sorted(findings)))


class _Evidence:
    """What all texts together say: which tails words have, and how often letters are read as nouns."""

    def __init__(self, texts: Sequence[Sequence[_Read]]) -> None:
        words = [word for text in texts for word in text]
        tails = Counter(word.tail for word in words)
        self._tails = {"", *(tail for tail, count in tails.items() if count >= _FEWEST_TAILS)}
        self._nouns = Counter(word.word[: word.nouns] for word in words if word.nouns)

    def differing(self, question: Sequence[_Read], passage: Sequence[_Read]) -> Iterator[_Finding]:
        held = {form for word in passage for form in word.tokens(len(word.word))}
        by_start: dict[str, list[_Read]] = defaultdict(list)
        for word in dict.fromkeys(passage):
            by_start[word.word[:_SHORTEST]].append(word)
        for asked in question:
            if all(form in held for form in asked.tokens(len(asked.word))):
                continue
            findings = (self._finding(asked, other, held) for other in by_start[asked.word[:_SHORTEST]])
            yield from [finding for finding in findings if finding][:1]

    def _finding(self, asked: _Read, held_word: _Read, held: set[str]) -> _Finding | None:
        candidates = {asked.word[: asked.nouns], held_word.word[: held_word.nouns]}
        fitting = [word for word in candidates if self._fits(word, asked) and self._fits(word, held_word)]
        if not fitting:
            return None
        word = max(fitting, key=lambda one: (self._nouns[one], one))
        here, there = asked.tokens(len(word)), held_word.tokens(len(word))
        if here == there or all(form in held for form in here):
            return None
        return _Finding(word, Evidence.DIFFERS, here, there)

    def _fits(self, word: str, read: _Read) -> bool:
        return _is_proposable(word) and read.word.startswith(word) and read.word[len(word) :] in self._tails

    def shortened(self, word: str, known: frozenset[str]) -> str:
        """Return the known word that a word is with what Kiwi did not take for its particle; else the word."""
        ends = (end for end in range(_SHORTEST, len(word)) if word[:end] in known and word[end:] in self._tails)
        return word[: next(ends, len(word))]

    def suspicious(self, question: Sequence[_Read], extracted: set[str]) -> Iterator[_Finding]:
        for read in question:
            word, cut = read.word[: read.nouns], read.tokens(read.nouns)
            nouns = [one for one in read.cut if one.end <= read.nouns]
            if not _is_proposable(word) or read.word[read.nouns :] not in self._tails:
                continue
            if sum(one.tag in _PIECE_TAGS and one.end - one.start == 1 for one in nouns) > 1:
                yield _Finding(word, Evidence.PIECES, cut)
            elif word in extracted and len(cut) > 1:
                yield _Finding(word, Evidence.EXTRACTED, cut)
            elif not all(one.known for one in nouns):
                yield _Finding(word, Evidence.UNKNOWN, cut)


def _is_proposable(word: str) -> bool:
    return _SHORTEST <= len(word) <= _LONGEST and bool(_HANGUL.match(word))


def _read(texts: Sequence[str], reader: Reader, tell: Callable[[float], None]) -> Iterator[tuple[_Read, ...]]:
    done = 0
    for block in in_blocks(texts, _BLOCK):
        composed = [unicodedata.normalize("NFC", text) for text in block]
        for text, tokens in zip(composed, reader.tokens(composed), strict=True):
            morphemes = [
                _Morpheme(form, token.tag, start, end, not token.oov)
                for token in tokens
                for form, (start, end) in reader.units(text, token)  # a name of several words is several
            ]
            yield tuple(_words(text, morphemes))
        done += len(block)
        tell(done / len(texts))


def _words(text: str, morphemes: Iterable[_Morpheme]) -> Iterator[_Read]:
    rest = iter(morphemes)
    morpheme = next(rest, None)
    for match in _WORD.finditer(text):
        cut = []
        while morpheme and morpheme.start < match.end():
            if morpheme.end > match.start():
                cut.append(morpheme._replace(start=morpheme.start - match.start(), end=morpheme.end - match.start()))
            morpheme = next(rest, None)
        nouns = 0
        for one in cut:
            if one.tag not in _NOUN_TAGS or one.start > nouns:
                break
            nouns = max(nouns, min(one.end, len(match.group())))
        yield _Read(match.group().lower(), tuple(cut), nouns)
