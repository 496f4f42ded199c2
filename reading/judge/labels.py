"""What questions are told apart by when answers are judged: each question has one label of every property.

Where a set holds several right answers the first one is looked at. A question without answer has a label of its own.

What an answer is by its form, a date, a number, a short phrase such as a name, or more than that, is told by patterns,
numbers and clauses in Korean by Kiwi's morphemes. It is form and not meaning, so it has limits:
- "3년", "5일" and "500년" are how long, and so numbers; a year has three digits or more, a date a year, a month or a
  century, a time an hour. "1500" alone is a year. A year of a reign, "세종 3년", is a phrase.
- A number has one unit, for which any noun of one or two letters is taken: "731부대" is a number, "12개 도시" is not.
- A clause is told by an ending and a particle that binds a noun to it, in more than one word: titles that are sentences
  are clauses. A relative clause leaves a phrase a phrase. English clauses are told by their length alone.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

import numpy as np

from data.records import Question, QuestionSet
from reading.judge.question_words import QuestionWord, question_words
from text.analyzers import kiwi_tokens


class AnswerKind(StrEnum):
    """`DATE` is also a time of day, `NUMBER` also one with a unit. A phrase is long from five words on, or a clause."""

    DATE = "date"
    NUMBER = "number"
    SHORT_PHRASE = "short_phrase"
    LONG_PHRASE = "long_phrase"


_SHORT = 4  # words

_TIMES = (
    r"기원전\s*\d+년?|(?:[12]\d{3}|[1-9](?!00)\d\d)년[도대]?|(?:\d{4}[~-])?\d\d년대|(?:\d\d?[~-])?\d\d?세기|\d\d?[월일시분]"
    r"|[12]\d{3}[./-]\s?\d\d?(?:[./-]\s?\d\d?\.?)?|[월화수목금토일]요일|오전|오후|새벽|아침|낮|저녁|밤|정오|자정"
    r"|봄|여름|가을|겨울|지난해|이듬해|음력|양력|[상하]반기|[초중후]반|[초중하]순|초|말|경|쯤|무렵|부터|까지|에서|에|과|와|사이"
)
_NAMES_A_TIME = r"\d{3}년|\d월|\d년대|세기|\d시|요일|[12]\d{3}[./-]|오전|오후|정오|자정|기원전"
_DATE = re.compile(rf"[12]\d{{3}}|(?=.*(?:{_NAMES_A_TIME}))(?:(?:{_TIMES})[\s,~·-]*)+")

_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday|noon|midnight"
_ENGLISH_TIMES = (
    rf"{_MONTHS}|{_DAYS}|\d+(?:st|nd|rd|th|s)?|\d\d?:\d\d|\d*[ap]\.?m\.?|bce?|ad|ce|first|second|third|[a-z]+th"
    r"|centur(?:y|ies)|spring|summer|autumn|fall|winter|early|mid|late"
    r"|in|on|at|the|of|from|to|until|and|between|around|about"
)
_NAMES_AN_ENGLISH_TIME = (
    rf"\b(?:{_MONTHS}|{_DAYS}|[12]\d{{3}}s?|\d0s|centur(?:y|ies)|\d+ (?:bce?|ad|ce)|\d\d?:\d\d|\d+ ?[ap]\.?m)\b"
)
_ENGLISH_DATE = re.compile(
    rf"(?=.*{_NAMES_AN_ENGLISH_TIME})(?:{_ENGLISH_TIMES})(?:[\s,–-]+(?:{_ENGLISH_TIMES}))*", re.IGNORECASE
)

_NUMBER_WORDS = (
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    "|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|billion|trillion|dozen"
)
_ONE = rf"(?:[$€£¥]?\d[\d,.]*(?:st|nd|rd|th|s)?|(?i:{_NUMBER_WORDS}))"
_ENGLISH_NUMBER = re.compile(
    r"(?:(?i:about|around|over|under|nearly|almost|approximately|roughly|some|more than|less than|at least|up to)\s+)?"
    rf"{_ONE}(?:(?:[\s–-]+|\s+(?:to|and|or)\s+){_ONE})*(?:\s*[%°]|[\s-][a-z]+(?:\sold|\sper\s[a-z]+)?)?"
)

_NUMERALS = frozenset(("한", "두", "세", "네", "석", "넉", "서", "너", "스무"))
_BEFORE_NUMBERS = """
약 만 제 총 최대 최소 최장 최고 평균 대략 각각 거의 무려 시속 초속 연 징역 금고 벌금 향후 영하 섭씨 전체
"""
# the middle dot is none of them: 12·12 사태 is no number
_AFTER_NUMBERS = """
이상 이하 미만 초과 이내 이후 이전 가량 정도 남짓 내외 안팎 전 후 뒤 만 반 여 째 간 형 경 쯤 동안 제곱 평방
에 로 에서 부터 까지 , . ~ - ' ′ ( )
"""
_BEFORE, _AFTER = frozenset(_BEFORE_NUMBERS.split()), frozenset(_AFTER_NUMBERS.split())
_UNITS = frozenset(("NNB", "SW", "SL"))  # Kiwi's tags: bound nouns, signs, foreign letters
_LONGEST_NOUN = 2  # letters of a unit that Kiwi does not know for one
_NUMBER = re.compile("b*n[na]*(?:ua*n[na]*)*(?:ua*)?")  # of parts, see `_part`

_ENDINGS = frozenset(("EF", "EC", "ETN"))
_PARTICLES = frozenset(("JKS", "JKO", "JKB", "JKC", "JX"))


def answer_kinds(answers: Sequence[str]) -> list[AnswerKind]:
    """Return what each answer is, in their order."""
    composed = [unicodedata.normalize("NFC", answer).strip() for answer in answers]
    different = list(dict.fromkeys(composed))
    tokens = kiwi_tokens(different)
    kind_of = {answer: _kind(answer, found) for answer, found in zip(different, tokens, strict=True)}
    return [kind_of[answer] for answer in composed]


def _kind(answer: str, tokens: Sequence[Any]) -> AnswerKind:
    if _DATE.fullmatch(answer) or _ENGLISH_DATE.fullmatch(answer):
        return AnswerKind.DATE
    # 한유리 is a name, 한 and 유리 as it may look
    nouns = any(letter.isdigit() or letter.isspace() for letter in answer)
    parts = "".join(_part(token, nouns=nouns) for token in tokens)
    if _NUMBER.fullmatch(parts) or _ENGLISH_NUMBER.fullmatch(answer):
        return AnswerKind.NUMBER
    words, tags = len(answer.split()), {token.tag for token in tokens}
    clause = words > 1 and tags & _ENDINGS and tags & _PARTICLES
    return AnswerKind.LONG_PHRASE if clause or words > _SHORT else AnswerKind.SHORT_PHRASE


def _part(token: Any, *, nouns: bool) -> str:
    """What a morpheme is in a number: (n)umber, (u)nit, what stands (b)efore or (a)fter, or none of it (x)."""
    if token.tag in ("SN", "NR", "W_SERIAL") or (token.tag == "MM" and token.form in _NUMERALS):
        return "n"
    if token.form in _BEFORE:
        return "b"
    if token.form in _AFTER:
        return "a"
    short_noun = nouns and token.tag == "NNG" and len(token.form) <= _LONGEST_NOUN
    return "u" if token.tag in _UNITS or short_noun else "x"


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
    found = _found(question_set, [question for question in questions if question.answers], by)
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


def _found(question_set: QuestionSet, questions: Sequence[Question], by: Property) -> Sequence[str]:
    match by:
        case Property.QUESTION_WORD:
            return question_words([question.text for question in questions])
        case Property.ANSWER_KIND:
            return answer_kinds([question.answers[0] for question in questions])
        case Property.ANSWER_LENGTH:
            return _in_bands([len(question.answers[0]) for question in questions], _ANSWER_BANDS)
    texts = [_passage(question_set, question) for question in questions]
    if by is Property.ANSWER_PLACE:
        return [_third(question, text or "") for question, text in zip(questions, texts, strict=True)]
    bands = _in_bands([len(text or "") for text in texts], _PASSAGE_BANDS)
    return [UNKNOWN if text is None else band for text, band in zip(texts, bands, strict=True)]


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
