"""A passage made ready to be read: what matches the question, what answers it, and the part worth reading first."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import regex

from text.matching import Span, matched_spans, merged

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
        return _excerpt(self.text, self.matches, self.answers)

    def pieces(self, start: int, end: int) -> list[tuple[str, bool, bool]]:
        """Cut the text between `start` and `end` into (piece, matches the question, answers it)."""
        edges = {start, end, *(edge for span in (*self.matches, *self.answers) for edge in span)}
        cuts = sorted(edge for edge in edges if start <= edge <= end)
        return [(self.text[a:b], _covers(self.matches, a), _covers(self.answers, a)) for a, b in pairwise(cuts)]


def marked(question: str, texts: Sequence[str], answers: Sequence[Sequence[str]]) -> list[MarkedText]:
    """Mark texts for a question; `answers` holds for each text the answers to look for in it."""
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    return [
        MarkedText(text, tuple(spans), tuple(answer_spans(text, wanted)))
        for text, spans, wanted in zip(composed, matched_spans(question, composed), answers, strict=True)
    ]


def answer_spans(text: str, answers: Sequence[str]) -> list[Span]:
    """Return where a text (composed) holds one of the answers.

    An answer begins a word (particles may follow it), or, where it never does, stands anywhere; never inside a number
    or a Latin word, since "3" answers nothing in "1934".
    """
    spans: list[Span] = []
    for answer in answers:
        wanted = unicodedata.normalize("NFC", answer).strip()
        for pattern in _answer_patterns(wanted) if wanted else ():
            if found := [match.span() for match in pattern.finditer(text)]:
                spans += found
                break
    return merged(spans)


def _answer_patterns(answer: str) -> list[regex.Pattern[str]]:
    exact = regex.escape(answer)
    before = r"(?<!\p{N})" if answer[0].isdigit() else r"(?<!\p{Latin})" if answer[0].isascii() else ""
    after = r"(?!\p{N})" if answer[-1].isdigit() else r"(?!\p{Latin})" if answer[-1].isascii() else ""
    patterns = [rf"(?<![\p{{L}}\p{{N}}]){exact}{after}"]
    if len(answer) > 1:
        patterns.append(f"{before}{exact}{after}")
    return [regex.compile(pattern, regex.IGNORECASE) for pattern in patterns]


def _covers(spans: Sequence[Span], position: int) -> bool:
    return any(start <= position < end for start, end in spans)


def _excerpt(text: str, matches: Sequence[Span], answers: Sequence[Span]) -> Span:
    if len(text) <= EXCERPT_LENGTH + _LEAD:
        return 0, len(text)
    weights = {**dict.fromkeys(matches, 1), **dict.fromkeys(answers, 1000)}
    starts = [max(0, min(start - _LEAD, len(text) - EXCERPT_LENGTH)) for start, _ in weights] or [0]

    def worth(start: int) -> int:
        return sum(w for (a, b), w in weights.items() if start <= a and b <= start + EXCERPT_LENGTH)

    start = max(sorted(starts), key=worth)
    return _word_start(text, start), _word_end(text, start + EXCERPT_LENGTH)


def _word_start(text: str, position: int) -> int:
    reach = text[max(0, position - _WORD_REACH) : position]
    space = max((reach.rfind(mark) for mark in " \n\t"), default=-1)
    return position - len(reach) + space + 1 if space >= 0 or len(reach) < _WORD_REACH else position


def _word_end(text: str, position: int) -> int:
    reach = text[position : position + _WORD_REACH]
    spaces = [place for mark in " \n\t" if (place := reach.find(mark)) >= 0]
    return position + (min(spaces) if spaces else len(reach) if len(reach) < _WORD_REACH else 0)
