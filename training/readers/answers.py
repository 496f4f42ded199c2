"""Where in a passage the answers of a question stand: as the file says, or where they are found."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from data.records import Question
from text.marking import answer_spans

Span = tuple[int, int]


@dataclass(frozen=True)
class Located:
    """Letters of a passage that answer, several where nobody says which of the same words is meant.

    `mended`: the file named another place, where the answer does not stand.
    """

    spans: tuple[Span, ...]
    mended: bool = False


def located(question: Question, text: str) -> Located:
    """Find the answers of a question in a passage.

    Where the file says at which letter an answer begins and it does, that is it. Where it does not, the same words
    nearest to that letter are; and where nothing is said, all of them that may be meant (`text.marking.answer_spans`).
    """
    starts = question.starts or (-1,) * len(question.answers)
    claimed = [(answer, start) for answer, start in zip(question.answers, starts, strict=True) if start >= 0]
    exact = tuple((start, start + len(answer)) for answer, start in claimed if text.startswith(answer, start))
    if exact:
        return Located(exact)
    near = [
        min(found, key=lambda span: abs(span[0] - start)) for answer, start in claimed if (found := _all(text, answer))
    ]
    if near:
        return Located(tuple(near), mended=True)
    return Located(_anywhere(question, text), mended=bool(claimed))


def _all(text: str, answer: str) -> list[Span]:
    return [(place, place + len(answer)) for place in _places(text, answer)]


def _places(text: str, answer: str) -> Iterator[int]:
    place = text.find(answer) if answer else -1
    while place >= 0:
        yield place
        place = text.find(answer, place + 1)


def _anywhere(question: Question, text: str) -> tuple[Span, ...]:
    if unicodedata.is_normalized("NFC", text):
        return tuple(answer_spans(text, question.answers))
    written = (form for answer in question.answers for form in dict.fromkeys((answer, _decomposed(answer))))
    return tuple(span for form in written for span in _all(text, form))


def _decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)
