"""What questions are told apart by when answers are judged: each question has one label of every property.

Where a set holds several right answers the first one is looked at. A question without answer has a label of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from data.records import Question, QuestionSet
from reading.answer_kinds import AnswerKind, answer_kinds
from reading.judge.question_words import QuestionWord, question_words

NO_ANSWER = "no_answer"
UNKNOWN = "unknown"


class Property(StrEnum):
    """What questions are told apart by. Lengths are in characters."""

    QUESTION_WORD = "question_word"
    ANSWER_KIND = "answer_kind"
    ANSWER_LENGTH = "answer_length"
    PASSAGE_LENGTH = "passage_length"
    ANSWER_PLACE = "answer_place"


@dataclass(frozen=True)
class Labels:
    """The label of each question is `names[code]`, with `codes` `(n_questions,)` int8; not every name need occur."""

    codes: np.ndarray
    names: tuple[str, ...]


def labels(question_set: QuestionSet, by: Property) -> Labels:
    """Label every question; `UNKNOWN` where no passage is known, or the passage does not hold the answer."""
    questions = question_set.questions
    names = (*_NAMES[by], NO_ANSWER)
    answered = np.array([bool(question.answers) for question in questions], dtype=bool)
    found = _FOUND[by](question_set, [question for question in questions if question.answers])
    code_of = {name: code for code, name in enumerate(names)}
    codes = np.full(len(questions), code_of[NO_ANSWER], dtype=np.int8)
    codes[answered] = [code_of[name] for name in found]
    return Labels(codes, names)


# where each band begins: what KorQuAD and SQuAD answer with, and what passages they, KLUE-MRC and KorQuAD 2 have
_ANSWER_BANDS = (1, 4, 7, 13, 25)
_PASSAGE_BANDS = (0, 250, 500, 750, 1000, 2000)
_THIRDS = ("first_third", "second_third", "last_third")


def _band_names(starts: Sequence[int]) -> tuple[str, ...]:
    closed = (f"{start:,}–{after - 1:,}" for start, after in pairwise(starts))
    return (*closed, f"{starts[-1]:,}+")


def _in_bands(lengths: Sequence[int], starts: Sequence[int]) -> list[str]:
    names = _band_names(starts)
    return [names[place] for place in np.digitize(lengths, starts[1:])]


def _question_words(_: QuestionSet, questions: Sequence[Question]) -> Sequence[str]:
    return question_words([question.text for question in questions])


def _answer_kinds(_: QuestionSet, questions: Sequence[Question]) -> Sequence[str]:
    return answer_kinds([question.answers[0] for question in questions])


def _answer_lengths(_: QuestionSet, questions: Sequence[Question]) -> Sequence[str]:
    return _in_bands([len(question.answers[0]) for question in questions], _ANSWER_BANDS)


def _passage_lengths(question_set: QuestionSet, questions: Sequence[Question]) -> Sequence[str]:
    texts = [_passage(question_set, question) for question in questions]
    bands = _in_bands([len(text or "") for text in texts], _PASSAGE_BANDS)
    return [UNKNOWN if text is None else band for text, band in zip(texts, bands, strict=True)]


def _answer_places(question_set: QuestionSet, questions: Sequence[Question]) -> Sequence[str]:
    return [_third(question, _passage(question_set, question) or "") for question in questions]


def _third(question: Question, text: str) -> str:
    """Where the answer begins: as the file says where the answer is there, else where it first stands."""
    answer = question.answers[0]
    told = question.starts[0] if question.starts else -1
    start = told if told >= 0 and text.startswith(answer, told) else text.find(answer)
    return _THIRDS[3 * start // len(text)] if 0 <= start < len(text) else UNKNOWN


def _passage(question_set: QuestionSet, question: Question) -> str | None:
    if not question.relevant:
        return None
    return question_set.passages[question_set.row_of_passage[question.relevant[0]]].text


_NAMES: dict[Property, tuple[str, ...]] = {
    Property.QUESTION_WORD: tuple(map(str, QuestionWord)),
    Property.ANSWER_KIND: tuple(map(str, AnswerKind)),
    Property.ANSWER_LENGTH: _band_names(_ANSWER_BANDS),
    Property.PASSAGE_LENGTH: (*_band_names(_PASSAGE_BANDS), UNKNOWN),
    Property.ANSWER_PLACE: (*_THIRDS, UNKNOWN),
}
_FOUND: dict[Property, Callable[[QuestionSet, Sequence[Question]], Sequence[str]]] = {
    Property.QUESTION_WORD: _question_words,
    Property.ANSWER_KIND: _answer_kinds,
    Property.ANSWER_LENGTH: _answer_lengths,
    Property.PASSAGE_LENGTH: _passage_lengths,
    Property.ANSWER_PLACE: _answer_places,
}
