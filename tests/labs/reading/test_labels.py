"""Labels of questions and forms of answers: by hand, whatever they hold, and on all of KorQuAD's questions."""

import os
import tomllib
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.labs.reading.labels import (
    NO_ANSWER,
    UNKNOWN,
    AnswerKind,
    Property,
    QuestionWord,
    answer_kinds,
    labels,
    question_words,
)

KORQUAD = Path(os.environ.get("MRC_DATA", "")) / "KorQuAD_v1.0_dev.json"

TEXT = "서울은 한국의 수도이다. 부산은 항구이다. 다시 서울이다."  # 32 letters: thirds begin at 11 and 22
PASSAGES = (Passage("p1", TEXT), Passage("p2", "가" * 2000), Passage("p3", "나" * 1999))


def of(*questions: Question) -> QuestionSet:
    return QuestionSet("asked", PASSAGES, questions)


def told(question_set: QuestionSet, by: Property) -> list[str]:
    found = labels(question_set, by)
    return [found.names[code] for code in found.codes]


def test_words_and_kinds_are_those_of_the_question_and_of_its_first_answer() -> None:
    asked = of(
        Question("q1", "수도는 어디인가?", ("서울", "1987년"), ("p1",)),
        Question("q2", "언제 생겼나?", ("1987년",), ("p1",)),
        Question("q3", "언제 사라졌나?"),
    )
    assert told(asked, Property.QUESTION_WORD) == ["where", "when", NO_ANSWER]
    assert told(asked, Property.ANSWER_KIND) == ["short_phrase", "date", NO_ANSWER]
    assert told(asked.with_questions([2]), Property.QUESTION_WORD) == [NO_ANSWER]
    assert labels(asked, Property.QUESTION_WORD).names[-2:] == ("other", NO_ANSWER)


def test_lengths_fall_into_bands_that_hold_their_ends() -> None:
    answers = [Question(f"{length}", "?", ("가" * length,), ("p1",)) for length in (1, 3, 4, 6, 7, 12, 13, 24, 25, 900)]
    bands = ["1–3", "4–6", "7–12", "13–24", "25+"]
    assert told(of(*answers), Property.ANSWER_LENGTH) == [band for band in bands for _ in range(2)]
    passages = [Question(id_, "?", ("가",), (id_,)) for id_ in ("p1", "p2", "p3")]
    nowhere, nobody = Question("x", "?", ("가",)), Question("y", "?", (), ("p2",))
    assert told(of(*passages, nowhere, nobody), Property.PASSAGE_LENGTH) == [
        *("0–249", "2,000+", "1,000–1,999"),
        *(UNKNOWN, NO_ANSWER),
    ]


def test_an_answer_is_in_the_third_of_its_stored_offset_or_its_first_match() -> None:
    seoul, harbour = ("서울",), ("항구",)
    asked = of(
        Question("first", "?", seoul, ("p1",)),
        Question("told", "?", seoul, ("p1",), starts=(TEXT.rindex("서울"),)),
        Question("told wrongly", "?", seoul, ("p1",), starts=(5,)),
        Question("beyond", "?", seoul, ("p1",), starts=(500,)),
        Question("not told", "?", harbour, ("p1",), starts=(-1,)),
        Question("of several answers", "?", ("항구", "서울"), ("p1",)),
        Question("not in it", "?", ("제주",), ("p1",)),
        Question("no passage", "?", seoul),
        Question("nobody", "?"),
    )
    assert len(TEXT) == 32
    assert told(asked, Property.ANSWER_PLACE) == [
        *("first_third", "last_third", "first_third", "first_third", "second_third", "second_third"),
        *(UNKNOWN, UNKNOWN, NO_ANSWER),
    ]
    passages = (Passage("p", "가나다라마바"),)
    asked = QuestionSet("asked", passages, tuple(Question(letter, "?", (letter,), ("p",)) for letter in "가나다라마바"))
    thirds = ("first_third", "second_third", "last_third")
    assert told(asked, Property.ANSWER_PLACE) == [third for third in thirds for _ in range(2)]


QUESTION = st.tuples(
    st.text(max_size=20),
    st.lists(st.text(max_size=8), max_size=2),
    st.booleans(),
    st.lists(st.integers(-1, 40), max_size=2),
)


@pytest.mark.slow
@pytest.mark.parametrize("by", Property)
@given(st.lists(QUESTION, max_size=4))
def test_every_question_has_one_label(by: Property, drawn: list[tuple[str, list[str], bool, list[int]]]) -> None:
    asked = of(
        *(
            Question(f"{row}", text, tuple(answers), ("p1",) * linked, starts=tuple(starts))
            for row, (text, answers, linked, starts) in enumerate(drawn)
        )
    )
    found = labels(asked, by)
    assert found.codes.shape == (len(drawn),)
    assert ((found.codes >= 0) & (found.codes < len(found.names))).all()
    assert len(set(found.names)) == len(found.names)
    alone = found.codes == found.names.index(NO_ANSWER)
    assert alone.tolist() == [not answers for _, answers, _, _ in drawn]


@pytest.fixture(scope="module")
def korquad() -> QuestionSet:
    if not KORQUAD.is_file():
        pytest.skip("needs KorQuAD_v1.0_dev.json in the folder that MRC_DATA names")
    return read_file(KORQUAD).question_set


# shares of 5,774 questions in percent, around what they were where 60 of each were read by hand
SHARES: dict[Property, dict[str, tuple[float, float]]] = {
    Property.QUESTION_WORD: {
        "who": (11, 13),
        "when": (10, 11.5),
        "where": (7.5, 9),
        "what": (20, 23),
        "why": (0.4, 0.7),
        "how": (0.4, 0.7),
        "how_many": (9, 11),
        "other": (35, 39),
    },
    Property.ANSWER_KIND: {"date": (9.5, 11), "number": (11, 13), "short_phrase": (75, 79), "long_phrase": (0.5, 1.2)},
    Property.ANSWER_LENGTH: {
        "1–3": (33, 34),
        "4–6": (37, 38),
        "7–12": (25, 26),
        "13–24": (3.5, 3.8),
        "25+": (0.1, 0.2),
    },
    Property.PASSAGE_LENGTH: {"250–499": (59, 61), "500–749": (29, 31), "2,000+": (0.7, 0.9)},
    Property.ANSWER_PLACE: {"first_third": (46, 47), "second_third": (27.5, 28.5), "last_third": (25, 26)},
}


@pytest.mark.parametrize("by", Property)
def test_shares_of_korquad(korquad: QuestionSet, by: Property) -> None:
    found = labels(korquad, by)
    counts = np.bincount(found.codes, minlength=len(found.names))
    shares = dict(zip(found.names, 100 * counts / 5774, strict=True))
    assert {name: share for name, share in shares.items() if not share}.keys() <= {NO_ANSWER, UNKNOWN, "0–249"}
    for name, (low, high) in SHARES[by].items():
        assert low <= shares[name] <= high, (name, shares[name])


@pytest.mark.slow
def test_what_an_answer_is_goes_with_what_is_asked(korquad: QuestionSet) -> None:
    words, kinds = told(korquad, Property.QUESTION_WORD), told(korquad, Property.ANSWER_KIND)

    def share(word: str, *wanted: str) -> float:
        return float(np.mean([kind in wanted for asked, kind in zip(words, kinds, strict=True) if asked == word]))

    assert share("when", "date") > 0.8
    assert share("how_many", "number") > 0.85
    assert share("who", "short_phrase") > 0.97
    assert share("where", "date", "number") < 0.02


def test_first_occurrences_mostly_stand_where_the_file_says(korquad: QuestionSet) -> None:
    bare = replace(korquad, questions=tuple(replace(question, starts=()) for question in korquad.questions))
    told_places, found = (labels(one, Property.ANSWER_PLACE).codes for one in (korquad, bare))
    assert (told_places == found).mean() > 0.92


CASES = tomllib.loads(Path(__file__).with_name("labels.toml").read_text(encoding="utf-8"))
QUESTIONS = [(word, one) for part in ("korean", "english") for word, several in CASES[part].items() for one in several]
ANSWERS = [(kind, one) for kind, several in CASES["answers"].items() for one in several]


@pytest.mark.parametrize(("wanted", "question"), QUESTIONS)
def test_questions_as_people_write_them(wanted: str, question: str) -> None:
    assert question_words([question]) == [wanted]


def test_loose_letters_of_hangul_are_composed_first() -> None:
    assert question_words([unicodedata.normalize("NFD", "수도는 어디인가?")]) == [QuestionWord.WHERE]


@pytest.mark.parametrize(("wanted", "answer"), ANSWERS)
def test_answers_by_hand(wanted: str, answer: str) -> None:
    assert answer_kinds([answer]) == [wanted]


def test_known_limits_stay_as_documented() -> None:
    words = question_words(["임기는 몇 년인가?", "오늘은 며칠인가?", "출간한 회사는 어디인가?", "그 회사는?"])
    assert words == [QuestionWord.WHEN, QuestionWord.HOW_MANY, QuestionWord.WHERE, QuestionWord.OTHER]
    kinds = answer_kinds(["731부대", "12개 도시", "우리에게 내일은 없다"])  # the last one is a film
    assert kinds == [AnswerKind.NUMBER, AnswerKind.SHORT_PHRASE, AnswerKind.LONG_PHRASE]


def test_answers_keep_their_order_and_may_repeat() -> None:
    kinds = [AnswerKind.NUMBER, AnswerKind.SHORT_PHRASE]
    assert answer_kinds(["3명", "서울", " 3명 ", "서울"]) == [*kinds, *kinds]
    assert answer_kinds([]) == []


@given(st.lists(st.text(max_size=60), max_size=5))
def test_any_text_has_one_label(texts: list[str]) -> None:
    assert [type(word) for word in question_words(texts)] == [QuestionWord] * len(texts)
    assert [type(kind) for kind in answer_kinds(texts)] == [AnswerKind] * len(texts)


def test_long_texts_that_begin_as_numbers_and_dates_take_no_time() -> None:
    assert answer_kinds(["1 " * 5000 + "x y", "1월 " * 5000 + "x", "one " * 5000 + "X"]) == [AnswerKind.LONG_PHRASE] * 3
