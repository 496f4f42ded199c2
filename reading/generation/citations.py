"""The citations in an answer: which of the passages sent it names, and whether those say what it says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import regex

from chat.endpoint import without_thoughts
from data.records import Passage
from reading.generation.containment import contains, contains_words
from reading.judge.rules import Rules

_NUMBER = r"\d{1,3}"  # of any script, full-width ones too; four digits in brackets are a year
_ONE = rf"{_NUMBER}(?:\s*[-‐–—－~～〜]\s*{_NUMBER})?"
CITATION = regex.compile(rf"[\[［【]\s*({_ONE}(?:\s*[,，、;；]\s*{_ONE})*)\s*[\]］】]")
_PART = regex.compile(_ONE)
_DIGITS = regex.compile(r"\d+")


class Support(StrEnum):
    """What a cited passage says of the answer."""

    HOLDS = "holds"
    LACKS = "lacks"
    NEVER_SENT = "never_sent"


class Citation(NamedTuple):
    """A number that an answer cites, from 1, and what the passage of that number says of it."""

    number: int
    support: Support


@dataclass(frozen=True)
class CitedAnswer:
    """An answer without its citations, and the numbers these name, each once, in the order of the answer."""

    text: str
    numbers: tuple[int, ...]


def cited(said: str) -> CitedAnswer:
    """Tell an answer and its citations apart: `[2]`, `[1][3]`, `[1, 3]`, `[1-3]`, in full-width signs too.

    What a model thought aloud before it is no part of it.
    """
    answer = without_thoughts(said)
    places = [*CITATION.finditer(answer)]
    edges = [0, *(edge for place in places for edge in place.span()), len(answer)]
    text = "".join(answer[start:end].rstrip() for start, end in zip(edges[::2], edges[1::2], strict=True))
    numbers = (number for place in places for number in _numbers(place[1]))
    return CitedAnswer(text.strip(), tuple(dict.fromkeys(numbers)))


def checked(answer: CitedAnswer, sent: Sequence[Passage], rules: Rules) -> tuple[Citation, ...]:
    """Hold each number against the passage that was sent under it.

    A passage holds an answer when its title or text contains it, both as the rules compare them, or else every word of
    the answer that tells something: see `reading.generation.containment`. That the passage means what the answer says,
    nobody checks.
    """
    return tuple(Citation(number, _support(answer.text, number, sent, rules)) for number in answer.numbers)


def _support(answer: str, number: int, sent: Sequence[Passage], rules: Rules) -> Support:
    if not 1 <= number <= len(sent):
        return Support.NEVER_SENT
    text = f"{sent[number - 1].title}\n{sent[number - 1].text}"
    return Support.HOLDS if contains(text, answer, rules) or contains_words(text, answer) else Support.LACKS


def _numbers(listed: str) -> Iterator[int]:
    for part in _PART.findall(listed):
        first, *last = sorted(map(int, _DIGITS.findall(part)))
        yield from range(first, (last or [first])[0] + 1)
