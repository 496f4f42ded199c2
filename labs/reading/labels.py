"""What questions are told apart by when answers are judged: each question has one label of every property.

What a question asks by: its question word, or the plain noun that stands for one.

Korean asks last, right before the predicate, so the last word decides: "누가 만든 곡이 언제 나왔나?" asks when. It may
also end with a noun as its topic ("… 사망한 해는?"), as half of KorQuAD's questions do. The noun asks then, and words
before it do not: they say "some" or belong to a clause ("몇 번 이긴 곳은?"). English asks first, and words further on
begin clauses, so the first one decides.

어느, 어떤, 무슨, 몇, "what" and "which" ask through the noun after them: "어느 해", "what year" and "몇 년에" ask when,
"무슨 이유" why. Known are nouns as general as a question word. Any other leaves "… 회사는?" without one (`OTHER`), and
"어느 나라" with `WHAT`.

Limits: told is the word and not what is meant ("어디" asks for companies, too). "몇 년" asks when before a particle of
time, the copula or the end, else for how many years; "기간은 몇 년인가" is mistaken for a date. "몇 일" and "며칠" ask
when after a month or before a particle of time. Languages other than these two are `OTHER`.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

import numpy as np

from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.data.text.analyzers import kiwi_tokens
from mrc_workbench.data.texts import Script, script_of


class QuestionWord(StrEnum):
    """What is asked by. `HOW_MANY` is any amount: 몇, 얼마, how much, how old."""

    WHO = "who"
    WHEN = "when"
    WHERE = "where"
    WHAT = "what"
    WHY = "why"
    HOW = "how"
    HOW_MANY = "how_many"
    OTHER = "other"


def question_words(questions: Sequence[str]) -> list[QuestionWord]:
    """Return what each question asks by, in their order."""
    return [_question_word(unicodedata.normalize("NFC", question)) for question in questions]


def _question_word(question: str) -> QuestionWord:
    script = script_of([question])
    if script is Script.KOREAN:
        if _TOPIC.search(question):
            return _word(_TOPIC_NOUN.search(question))
        *_, last = None, *_KOREAN.finditer(question)
        return _through(_NEXT_NOUN, last) if last else _word(_LAST_NOUN.search(question))
    first = _ENGLISH.search(question.lower()) if script is Script.SPACED else None
    return _through(_ENGLISH_NOUN, first) if first else QuestionWord.OTHER


def _through(noun: re.Pattern[str], found: re.Match[str]) -> QuestionWord:
    after = noun.match(found.string, found.end()) if found.lastgroup == QuestionWord.WHAT else None
    return _word(after or found)


def _word(match: re.Match[str] | None) -> QuestionWord:
    return QuestionWord(match.lastgroup) if match and match.lastgroup else QuestionWord.OTHER


def _any_of(patterns: Mapping[QuestionWord, str]) -> str:
    return "(?:" + "|".join(f"(?P<{word}>{pattern})" for word, pattern in patterns.items()) + ")"


_NOUNS = {
    QuestionWord.WHO: "사람|인물",
    QuestionWord.WHEN: "날짜|일자|일시|연도|년도|시기|시점|세기|요일|생일|생년월일",
    QuestionWord.WHERE: "장소|지역|위치|곳",
    QuestionWord.WHY: "이유|까닭|원인",
    QuestionWord.HOW: "방법|방식",
    QuestionWord.HOW_MANY: "[개갯횟층]수|인원|나이|금액|액수|비율|가격|높이|길이|넓이|면적|무게|거리",
}
# these also end other words, as in 피해 and 가수
_SYLLABLES = {QuestionWord.WHO: "분", QuestionWord.WHEN: "날|해|때", QuestionWord.HOW_MANY: "수"}
_STANDING = _any_of(
    _NOUNS | {word: rf"{_NOUNS[word]}|\b[이그첫]?(?:{syllable})" for word, syllable in _SYLLABLES.items()}
)
_FOLLOWING = _any_of(_NOUNS | {word: f"{_NOUNS[word]}|{syllable}" for word, syllable in _SYLLABLES.items()})
_TOPIC = re.compile(r"\w[은는]\W*$")
_TOPIC_NOUN = re.compile(rf"{_STANDING}들?[은는]\W*$")
_LAST_NOUN = re.compile(rf"{_STANDING}\W*$")
_NEXT_NOUN = re.compile(rf"\s*{_FOLLOWING}들?(?=[에을를의이은는부까인으로과와였입]|\b)")

# "anybody", "always" and "above all" ask nothing, nor does "somebody" unless the question ends with it
_NOT_ANY = r"(?!(?:에게|한테|에서|서|에|으?로|까지|와|이)?(?:나|도|든|든지|라도|보다|보다도)\b)"
_NOT_SOME = r"(?!가\w*\s+\S)"
_YEAR = r"(?<!징역 )(?<!금고 )(?<!총 )(?<!약 )몇\s*년(?=에(?!\s*한)|부터|경|생|인|이[었였야]|였|입|일까|\W*$|\s*몇)"
_MONTH_OR_HOUR = r"몇\s*(?:년\s*도|년대|세기|월(?:\s*(?:몇\s*일|며칠))?|시(?![간즌합]))"
_THING = rf"무엇(?!인가\w*\s+\S){_NOT_ANY}|\b무얼|\b무언{_NOT_SOME}|\b뭐{_NOT_ANY}|\b뭘|\b뭣|\b뭔{_NOT_SOME}"
_KOREAN = re.compile(
    _any_of(
        {
            QuestionWord.WHO: rf"\b누구{_NOT_ANY}|\b누가(?!복음)|\b누굴|\b누군{_NOT_SOME}",
            QuestionWord.WHERE: rf"\b어디{_NOT_ANY}|\b어딜|\b어딥|\b어딘{_NOT_SOME}",
            QuestionWord.WHEN: (
                rf"\b언제{_NOT_ANY}|\b언젠{_NOT_SOME}|{_YEAR}|{_MONTH_OR_HOUR}|(?:몇\s*일|며칠)(?=에|부터)"
            ),
            QuestionWord.WHY: (
                r"\b왜(?=\W|$|냐(?!하면)|일까|인[가지]|였|이[었며])|어째서|어찌하여|(?:무엇|뭐|뭣)\s*때문"
            ),
            QuestionWord.HOW: r"\b어떻|\b어찌|\b어때|\b어떠(?!한\s)|\b어떤[가지]요?\b",
            QuestionWord.HOW_MANY: r"얼마(?!\s*(?:전|안|못|지나지|되지|든지))|(?<!몇)몇(?!몇|\s*안)|며칠|어느\s*정도",
            QuestionWord.WHAT: rf"{_THING}|무슨|\b어느|\b어떤|\b어떠한",
        }
    )
)

_AUXILIARIES = "is|was|are|were|do|did|does|has|have|had|will|would|can|could|should|may|might|must"
_AMOUNTS = "many|much|long|old|far|often|tall|high|large|big|deep|wide|fast|heavy|hot|cold"
_ENGLISH = re.compile(
    r"\b"
    + _any_of(
        {
            QuestionWord.WHO: "who|whom|whose",
            # before a subject it begins a clause: "When Rome fell, what …"
            QuestionWord.WHEN: rf"when(?='s|\W*$|,?\s+(?:in|on|exactly|{_AUXILIARIES})\b)",
            QuestionWord.WHERE: "where",
            QuestionWord.WHAT: "what|which",
            QuestionWord.WHY: "why",
            QuestionWord.HOW_MANY: rf"how\s+(?:{_AMOUNTS})",
            QuestionWord.HOW: "how",
        }
    )
    + r"\b"
)
_ENGLISH_NOUN = re.compile(
    r"\s+"
    + _any_of(
        {
            QuestionWord.WHO: "person|people",
            QuestionWord.WHEN: "years?|months?|days?|dates?|times?|century|centuries|decades?",
            QuestionWord.WHERE: "places?|locations?",
            QuestionWord.WHY: "reasons?",
            QuestionWord.HOW: "ways?|methods?",
            QuestionWord.HOW_MANY: "number|amount|percent|percentage",
        }
    )
    + r"\b"
)


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
    """The role of a morpheme in a number: (n)umber, (u)nit, a word (b)efore or (a)fter, or none (x)."""
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
    """Label every question; `UNKNOWN` without a passage, or if the passage does not hold the answer."""
    names = (*_NAMES[by], NO_ANSWER)
    code_of = {name: code for code, name in enumerate(names)}
    found = iter(_found(question_set, [question for question in question_set.questions if question.answers], by))
    told = (next(found) if question.answers else NO_ANSWER for question in question_set.questions)
    return Labels(np.array([code_of[name] for name in told], dtype=np.int8), names)


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
    passages, row_of = question_set.passages, question_set.row_of_passage
    texts = [passages[row_of[one.relevant[0]]].text if one.relevant else None for one in questions]
    if by is Property.ANSWER_PLACE:
        return [_third(question, text or "") for question, text in zip(questions, texts, strict=True)]
    bands = _in_bands([len(text or "") for text in texts], _PASSAGE_BANDS)
    return [UNKNOWN if text is None else band for text, band in zip(texts, bands, strict=True)]


def _third(question: Question, text: str) -> str:
    """The third of the text in which the answer begins, by the stored offset or its first match."""
    answer = question.answers[0]
    told = question.starts[0] if question.starts else -1
    start = told if told >= 0 and text.startswith(answer, told) else text.find(answer)
    return _THIRDS[3 * start // len(text)] if 0 <= start < len(text) else UNKNOWN


_NAMES: dict[Property, tuple[str, ...]] = {
    Property.QUESTION_WORD: tuple(map(str, QuestionWord)),
    Property.ANSWER_KIND: tuple(map(str, AnswerKind)),
    Property.ANSWER_LENGTH: _band_names(_ANSWER_BANDS),
    Property.PASSAGE_LENGTH: (*_band_names(_PASSAGE_BANDS), UNKNOWN),
    Property.ANSWER_PLACE: (*_THIRDS, UNKNOWN),
}
