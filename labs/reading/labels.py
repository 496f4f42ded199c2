"""Labels that slice the questions of a set: question word, kind and length of the answer, and passage.

Question word: in Korean the last question word counts ("누가 만든 곡이 언제 나왔나?" is `WHEN`), or the noun of a final
topic ("… 사망한 해는?"); in English the first one. For 어느, 어떤, 무슨, 몇, "what" and "which", the next noun counts
("어느 해", "what year") if it is as general as a question word; other nouns give `OTHER` or `WHAT`. Labels ignore
meaning: "어디" may ask for a company, and "기간은 몇 년인가" counts as a date. "몇 년" is `WHEN` before a particle of
time, the copula or the end; "몇 일" and "며칠" are `WHEN` after a month or before a particle of time. Other languages
are `OTHER`.

Answer kind: the form of the first right answer, by patterns, and for Korean numbers and clauses by Kiwi's morphemes.
- "3년" and "500년" are durations, so numbers. A year has at least three digits; a date has a year, a month or a
  century, a time an hour. "1500" without a unit is a year. A year of a reign, "세종 3년", is a phrase.
- A number has one unit, any noun of one or two letters: "731부대" is a number, "12개 도시" is not.
- A clause has an ending, a particle and several words, such as titles that are sentences; relative clauses do not
  count. Length decides for English clauses.
"""

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.data.text.analyzers import kiwi_tokens
from mrc_workbench.data.texts import Script, script_of

_TOPIC = re.compile(r"\w[은는]\W*$")
_SHORT = 4  # words
_UNITS = frozenset(("NNB", "SW", "SL"))  # Kiwi's tags: bound nouns, signs, foreign letters
_LONGEST_NOUN = 2  # letters of a unit that is a common noun for Kiwi
_NUMBER = re.compile("b*n[na]*(?:ua*n[na]*)*(?:ua*)?")  # of roles, see `_number_role`
_ENDINGS = frozenset(("EF", "EC", "ETN"))
_PARTICLES = frozenset(("JKS", "JKO", "JKB", "JKC", "JX"))
NO_ANSWER = "no_answer"
UNKNOWN = "unknown"
# starts of bands of lengths in KorQuAD and SQuAD, and for passages also in KLUE-MRC and KorQuAD 2
_ANSWER_BANDS = (1, 4, 7, 13, 25)
_PASSAGE_BANDS = (0, 250, 500, 750, 1000, 2000)
_THIRDS = ("first_third", "second_third", "last_third")


class QuestionWord(StrEnum):
    """Question words. `HOW_MANY` is any amount: 몇, 얼마, how much, how old."""

    WHO = "who"
    WHEN = "when"
    WHERE = "where"
    WHAT = "what"
    WHY = "why"
    HOW = "how"
    HOW_MANY = "how_many"
    OTHER = "other"


def classify_question_words(questions: Sequence[str]) -> list[QuestionWord]:
    """Return the question word of each question."""
    return [_question_word(unicodedata.normalize("NFC", question)) for question in questions]


def _question_word(question: str) -> QuestionWord:
    script = script_of([question])
    if script is Script.KOREAN:
        if _TOPIC.search(question):
            return _matched_word(_TOPIC_NOUN.search(question))
        *_, last = None, *_KOREAN.finditer(question)
        return _classify_with_noun(_NEXT_NOUN, last) if last else _matched_word(_LAST_NOUN.search(question))
    first = _ENGLISH.search(question.lower()) if script is Script.SPACED else None
    return _classify_with_noun(_ENGLISH_NOUN, first) if first else QuestionWord.OTHER


def _classify_with_noun(noun: re.Pattern[str], match: re.Match[str]) -> QuestionWord:
    noun_match = noun.match(match.string, match.end()) if match.lastgroup == QuestionWord.WHAT else None
    return _matched_word(noun_match or match)


def _matched_word(match: re.Match[str] | None) -> QuestionWord:
    return QuestionWord(match.lastgroup) if match and match.lastgroup else QuestionWord.OTHER


def _expand_fragments(pattern: str) -> str:
    return re.sub("<([A-Z_]+)>", lambda name: _expand_fragments(_DATA["fragments"][name[1]]), pattern)


def _alternatives(patterns: Mapping[str, str]) -> str:
    return "(?:" + "|".join(f"(?P<{word}>{_expand_fragments(pattern)})" for word, pattern in patterns.items()) + ")"


_DATA = tomllib.loads(Path(__file__).with_name("labels.toml").read_text(encoding="utf-8"))
_NOUNS: dict[str, str] = _DATA["nouns"]
_SYLLABLES: dict[str, str] = _DATA["syllables"]
_STANDALONE = {word: rf"{_NOUNS[word]}|\b[이그첫]?(?:{syllable})" for word, syllable in _SYLLABLES.items()}
_STANDALONE_NOUNS = _alternatives(_NOUNS | _STANDALONE)
_FOLLOWING_NOUNS = _alternatives(_NOUNS | {word: f"{_NOUNS[word]}|{syllable}" for word, syllable in _SYLLABLES.items()})
_TOPIC_NOUN = re.compile(rf"{_STANDALONE_NOUNS}들?[은는]\W*$")
_LAST_NOUN = re.compile(rf"{_STANDALONE_NOUNS}\W*$")
_NEXT_NOUN = re.compile(rf"\s*{_FOLLOWING_NOUNS}들?(?=[에을를의이은는부까인으로과와였입]|\b)")
_KOREAN = re.compile(_alternatives(_DATA["korean"]))
_ENGLISH = re.compile(rf"\b{_alternatives(_DATA['english'])}\b")
_ENGLISH_NOUN = re.compile(rf"\s+{_alternatives(_DATA['english_nouns'])}\b")


class AnswerKind(StrEnum):
    """`DATE` includes times of day, `NUMBER` includes units. Phrases of five words or more and clauses are long."""

    DATE = "date"
    NUMBER = "number"
    SHORT_PHRASE = "short_phrase"
    LONG_PHRASE = "long_phrase"


_DATE = re.compile(_expand_fragments(_DATA["answers"]["date"]))
_ENGLISH_DATE = re.compile(_expand_fragments(_DATA["answers"]["english_date"]), re.IGNORECASE)
_ENGLISH_NUMBER = re.compile(_expand_fragments(_DATA["answers"]["english_number"]))
_NUMERALS, _BEFORE, _AFTER = (frozenset(_DATA["numbers"][name].split()) for name in ("numerals", "before", "after"))


def classify_answer_kinds(answers: Sequence[str]) -> list[AnswerKind]:
    """Return the kind of each answer."""
    composed = [unicodedata.normalize("NFC", answer).strip() for answer in answers]
    unique = list(dict.fromkeys(composed))
    tokens = kiwi_tokens(unique)
    kind_of = {answer: _kind(answer, answer_tokens) for answer, answer_tokens in zip(unique, tokens, strict=True)}
    return [kind_of[answer] for answer in composed]


def _kind(answer: str, tokens: Sequence[Any]) -> AnswerKind:
    if _DATE.fullmatch(answer) or _ENGLISH_DATE.fullmatch(answer):
        return AnswerKind.DATE
    # 한유리 is a name, although it looks like 한 and 유리
    allow_noun_units = any(letter.isdigit() or letter.isspace() for letter in answer)
    roles = "".join(_number_role(token, allow_noun_units=allow_noun_units) for token in tokens)
    if _NUMBER.fullmatch(roles) or _ENGLISH_NUMBER.fullmatch(answer):
        return AnswerKind.NUMBER
    words = len(answer.split())
    tags = {token.tag for token in tokens}
    clause = words > 1 and tags & _ENDINGS and tags & _PARTICLES
    return AnswerKind.LONG_PHRASE if clause or words > _SHORT else AnswerKind.SHORT_PHRASE


def _number_role(token: Any, *, allow_noun_units: bool) -> str:
    """Return a morpheme's role in a number: (n)umber, (u)nit, a word (b)efore or (a)fter it, or none (x)."""
    if token.tag in ("SN", "NR", "W_SERIAL") or (token.tag == "MM" and token.form in _NUMERALS):
        return "n"
    if token.form in _BEFORE:
        return "b"
    if token.form in _AFTER:
        return "a"
    short_noun = allow_noun_units and token.tag == "NNG" and len(token.form) <= _LONGEST_NOUN
    return "u" if token.tag in _UNITS or short_noun else "x"


class LabelKind(StrEnum):
    """Criteria for slices of questions. Lengths are in characters."""

    QUESTION_WORD = "question_word"
    ANSWER_KIND = "answer_kind"
    ANSWER_LENGTH = "answer_length"
    PASSAGE_LENGTH = "passage_length"
    ANSWER_POSITION = "answer_position"


@dataclass(frozen=True)
class QuestionLabels:
    """The label of each question is `names[code]`, with `codes` `(n_questions,)` int8; some names may not occur."""

    codes: np.ndarray
    names: tuple[str, ...]


def label_questions(question_set: QuestionSet, by: LabelKind) -> QuestionLabels:
    """Label every question; `UNKNOWN` without a passage, or if the passage lacks the answer."""
    names = (*_NAMES[by], NO_ANSWER)
    code_of = {name: code for code, name in enumerate(names)}
    codes = np.full(len(question_set.questions), code_of[NO_ANSWER], dtype=np.int8)
    rows = [row for row, question in enumerate(question_set.questions) if question.answers]
    labels = _label_answerable(question_set, [question_set.questions[row] for row in rows], by)
    codes[rows] = [code_of[label] for label in labels]
    return QuestionLabels(codes, names)


def _band_names(starts: Sequence[int]) -> tuple[str, ...]:
    closed = (f"{start:,}–{after - 1:,}" for start, after in pairwise(starts))
    return (*closed, f"{starts[-1]:,}+")


def _in_bands(lengths: Sequence[int], starts: Sequence[int]) -> list[str]:
    names = _band_names(starts)
    return [names[band] for band in np.digitize(lengths, starts[1:])]


def _label_answerable(question_set: QuestionSet, questions: Sequence[Question], by: LabelKind) -> Sequence[str]:
    match by:
        case LabelKind.QUESTION_WORD:
            return classify_question_words([question.text for question in questions])
        case LabelKind.ANSWER_KIND:
            return classify_answer_kinds([question.answers[0] for question in questions])
        case LabelKind.ANSWER_LENGTH:
            return _in_bands([len(question.answers[0]) for question in questions], _ANSWER_BANDS)
    passages = question_set.passages
    row_of = question_set.row_of_passage
    texts = [passages[row_of[example.relevant[0]]].text if example.relevant else None for example in questions]
    if by is LabelKind.PASSAGE_LENGTH:
        bands = _in_bands([len(text or "") for text in texts], _PASSAGE_BANDS)
        return [UNKNOWN if text is None else band for text, band in zip(texts, bands, strict=True)]
    thirds = []
    for question, text in zip(questions, (text or "" for text in texts), strict=True):
        answer = question.answers[0]
        stored = question.starts[0] if question.starts else -1
        start = stored if stored >= 0 and text.startswith(answer, stored) else text.find(answer)
        thirds.append(_THIRDS[3 * start // len(text)] if 0 <= start < len(text) else UNKNOWN)
    return thirds


_NAMES: dict[LabelKind, tuple[str, ...]] = {
    LabelKind.QUESTION_WORD: tuple(map(str, QuestionWord)),
    LabelKind.ANSWER_KIND: tuple(map(str, AnswerKind)),
    LabelKind.ANSWER_LENGTH: _band_names(_ANSWER_BANDS),
    LabelKind.PASSAGE_LENGTH: (*_band_names(_PASSAGE_BANDS), UNKNOWN),
    LabelKind.ANSWER_POSITION: (*_THIRDS, UNKNOWN),
}
