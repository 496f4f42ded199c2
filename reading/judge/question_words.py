"""What a question asks by: its question word, or the plain noun that stands for one.

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
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from enum import StrEnum

from data.texts import Script, script_of


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
