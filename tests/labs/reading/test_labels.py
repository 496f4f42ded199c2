"""Labels of questions and kinds of answers: by hand, on random texts, and on KorQuAD."""

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
from mrc_workbench.labs.reading import labels
from mrc_workbench.labs.reading.labels import NO_ANSWER, UNKNOWN, LabelKind, label_questions

KORQUAD = Path(os.environ.get("MRC_DATA", "")) / "KorQuAD_v1.0_dev.json"

TEXT = "서울은 한국의 수도이다. 부산은 항구이다. 다시 서울이다."  # 32 letters: thirds begin at 11 and 22
PASSAGES = (Passage("p1", TEXT), Passage("p2", "가" * 2000), Passage("p3", "나" * 1999))
ANSWER_LISTS = st.lists(st.text(max_size=8), max_size=2)
QUESTION = st.tuples(st.text(max_size=20), ANSWER_LISTS, st.booleans(), st.lists(st.integers(-1, 40), max_size=2))


def make_question_set(*questions: Question) -> QuestionSet:
    return QuestionSet("labelled", PASSAGES, questions)


def label_names(question_set: QuestionSet, by: LabelKind) -> list[str]:
    question_labels = label_questions(question_set, by)
    return [question_labels.names[code] for code in question_labels.codes]


def test_labels_question_word_and_kind_of_first_answer() -> None:
    question_set = make_question_set(
        Question("q1", "수도는 어디인가?", ("서울", "1987년"), ("p1",)),
        Question("q2", "언제 생겼나?", ("1987년",), ("p1",)),
        Question("q3", "언제 사라졌나?"),
    )
    assert label_names(question_set, LabelKind.QUESTION_WORD) == ["where", "when", NO_ANSWER]
    assert label_names(question_set, LabelKind.ANSWER_KIND) == ["short_phrase", "date", NO_ANSWER]
    assert label_names(question_set.with_questions([2]), LabelKind.QUESTION_WORD) == [NO_ANSWER]
    assert label_questions(question_set, LabelKind.QUESTION_WORD).names[-2:] == ("other", NO_ANSWER)


def test_length_bands_include_their_bounds() -> None:
    answers = [Question(f"{length}", "?", ("가" * length,), ("p1",)) for length in (1, 3, 4, 6, 7, 12, 13, 24, 25, 900)]
    bands = ["1–3", "4–6", "7–12", "13–24", "25+"]
    expected = [band for band in bands for _ in range(2)]
    assert label_names(make_question_set(*answers), LabelKind.ANSWER_LENGTH) == expected
    questions = [Question(id_, "?", ("가",), (id_,)) for id_ in ("p1", "p2", "p3")]
    questions += [Question("no passage", "?", ("가",)), Question("no answer", "?", (), ("p2",))]
    expected = ["0–249", "2,000+", "1,000–1,999", UNKNOWN, NO_ANSWER]
    assert label_names(make_question_set(*questions), LabelKind.PASSAGE_LENGTH) == expected


def test_answer_position_uses_stored_offset_or_first_match() -> None:
    seoul = ("서울",)
    harbour = ("항구",)
    question_set = make_question_set(
        Question("first", "?", seoul, ("p1",)),
        Question("stored", "?", seoul, ("p1",), starts=(TEXT.rindex("서울"),)),
        Question("wrong", "?", seoul, ("p1",), starts=(5,)),
        Question("beyond", "?", seoul, ("p1",), starts=(500,)),
        Question("missing", "?", harbour, ("p1",), starts=(-1,)),
        Question("of several answers", "?", ("항구", "서울"), ("p1",)),
        Question("not in it", "?", ("제주",), ("p1",)),
        Question("no passage", "?", seoul),
        Question("unanswerable", "?"),
    )
    assert len(TEXT) == 32
    known = ["first_third", "last_third", "first_third", "first_third", "second_third", "second_third"]
    assert label_names(question_set, LabelKind.ANSWER_POSITION) == [*known, UNKNOWN, UNKNOWN, NO_ANSWER]
    questions = [Question(letter, "?", (letter,), ("p",)) for letter in "가나다라마바"]
    question_set = QuestionSet("letters", (Passage("p", "가나다라마바"),), tuple(questions))
    thirds = ("first_third", "second_third", "last_third")
    assert label_names(question_set, LabelKind.ANSWER_POSITION) == [third for third in thirds for _ in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("by", LabelKind)
@given(st.lists(QUESTION, max_size=4))
def test_labels_every_question(by: LabelKind, samples: list[tuple[str, list[str], bool, list[int]]]) -> None:
    questions = []
    for row, (text, answers, linked, starts) in enumerate(samples):
        questions.append(Question(f"{row}", text, tuple(answers), ("p1",) * linked, starts=tuple(starts)))
    question_set = make_question_set(*questions)
    question_labels = label_questions(question_set, by)
    assert question_labels.codes.shape == (len(samples),)
    assert ((question_labels.codes >= 0) & (question_labels.codes < len(question_labels.names))).all()
    assert len(set(question_labels.names)) == len(question_labels.names)
    is_unanswerable = question_labels.codes == question_labels.names.index(NO_ANSWER)
    assert is_unanswerable.tolist() == [not answers for _, answers, _, _ in samples]


@pytest.fixture(scope="module")
def korquad() -> QuestionSet:
    if not KORQUAD.is_file():
        pytest.skip("needs KorQuAD_v1.0_dev.json in the folder that MRC_DATA names")
    return read_file(KORQUAD).question_set


@pytest.mark.parametrize("by", LabelKind)
def test_label_fractions_of_korquad(korquad: QuestionSet, by: LabelKind) -> None:
    question_labels = label_questions(korquad, by)
    counts = np.bincount(question_labels.codes, minlength=len(question_labels.names))
    shares = dict(zip(question_labels.names, 100 * counts / 5774, strict=True))
    assert {name: share for name, share in shares.items() if not share}.keys() <= {NO_ANSWER, UNKNOWN, "0–249"}
    for name, (low, high) in CASES["shares"][by].items():
        assert low <= shares[name] <= high, (name, shares[name])


@pytest.mark.slow
def test_answer_kind_agrees_with_question_word(korquad: QuestionSet) -> None:
    words = label_names(korquad, LabelKind.QUESTION_WORD)
    kinds = label_names(korquad, LabelKind.ANSWER_KIND)

    def fraction(word: str, *expected: str) -> float:
        return float(np.mean(np.isin(np.array(kinds)[np.array(words) == word], expected)))

    assert fraction("when", "date") > 0.8
    assert fraction("how_many", "number") > 0.85
    assert fraction("who", "short_phrase") > 0.97
    assert fraction("where", "date", "number") < 0.02


def test_first_match_mostly_agrees_with_stored_offset(korquad: QuestionSet) -> None:
    without_offsets = replace(korquad, questions=tuple(replace(question, starts=()) for question in korquad.questions))
    stored = label_questions(korquad, LabelKind.ANSWER_POSITION)
    matched = label_questions(without_offsets, LabelKind.ANSWER_POSITION)
    assert (stored.codes == matched.codes).mean() > 0.92


CASES = tomllib.loads(Path(__file__).with_name("labels.toml").read_text(encoding="utf-8"))
LABELLED = {part: [(label, case) for label in labels for case in labels[label]] for part, labels in CASES.items()}


@pytest.mark.parametrize(("expected", "question"), [*LABELLED["korean"], *LABELLED["english"]])
def test_classifies_written_questions(expected: str, question: str) -> None:
    assert labels.classify_question_words([question]) == [expected]


def test_composes_decomposed_hangul() -> None:
    assert labels.classify_question_words([unicodedata.normalize("NFD", "수도는 어디인가?")]) == ["where"]


@pytest.mark.parametrize(("expected", "answer"), LABELLED["answers"])
def test_classifies_answers(expected: str, answer: str) -> None:
    assert labels.classify_answer_kinds([answer]) == [expected]


def test_documented_limits_are_unchanged() -> None:
    questions = ["임기는 몇 년인가?", "오늘은 며칠인가?", "출간한 회사는 어디인가?", "그 회사는?"]
    assert labels.classify_question_words(questions) == ["when", "how_many", "where", "other"]
    kinds = labels.classify_answer_kinds(["731부대", "12개 도시", "우리에게 내일은 없다"])  # the last one is a film
    assert kinds == [labels.AnswerKind.NUMBER, labels.AnswerKind.SHORT_PHRASE, labels.AnswerKind.LONG_PHRASE]


def test_classifies_many_duplicate_and_long_texts_in_order() -> None:
    kinds = [labels.AnswerKind.NUMBER, labels.AnswerKind.SHORT_PHRASE]
    assert labels.classify_answer_kinds(["3명", "서울", " 3명 ", "서울"]) == [*kinds, *kinds]
    assert labels.classify_answer_kinds([]) == []
    texts = ["1 " * 5000 + "x y", "1월 " * 5000 + "x", "one " * 5000 + "X"]
    assert labels.classify_answer_kinds(texts) == [labels.AnswerKind.LONG_PHRASE] * 3


@given(st.lists(st.text(max_size=60), max_size=5))
def test_classifies_any_text(texts: list[str]) -> None:
    assert [type(word) for word in labels.classify_question_words(texts)] == [labels.QuestionWord] * len(texts)
    assert [type(kind) for kind in labels.classify_answer_kinds(texts)] == [labels.AnswerKind] * len(texts)
