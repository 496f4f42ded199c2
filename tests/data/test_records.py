import numpy as np
import pytest

from data.records import Passage, Question, QuestionSet

PASSAGES = (Passage("a", "서울"), Passage("b", "부산"), Passage("c", "대구"))
QUESTIONS = (
    Question("1", "가?", relevant=("c", "a")),
    Question("2", "나?"),
    Question("3", "다?", ("부산",), ("b",), "keyword"),
)
SET = QuestionSet("set", PASSAGES, QUESTIONS)


def test_relevance() -> None:
    assert SET.relevance.toarray().tolist() == [[True, False, True], [False] * 3, [False, True, False]]
    assert SET.answerable.tolist() == [0, 2]
    assert SET.row_of_passage == {"a": 0, "b": 1, "c": 2}


def test_with_questions() -> None:
    part = SET.with_questions(np.array([2, 0]))
    assert [question.id for question in part.questions] == ["3", "1"]
    assert part.corpus_fingerprint == SET.corpus_fingerprint
    assert part.fingerprint != SET.fingerprint


def test_the_fingerprint_is_of_the_content() -> None:
    assert QuestionSet("other", PASSAGES, QUESTIONS).fingerprint == SET.fingerprint
    renamed = (Passage("a", "서울", "수도"), *PASSAGES[1:])
    assert QuestionSet("set", renamed, QUESTIONS).fingerprint != SET.fingerprint
    assert len(SET.fingerprint) == 64


@pytest.mark.parametrize(
    ("passages", "questions", "message"),
    [
        ((*PASSAGES, Passage("a", "강릉")), QUESTIONS, "passage id 'a' occurs twice"),
        ((*PASSAGES, Passage("d", "서울")), QUESTIONS, "passage text '서울' occurs twice"),
        (PASSAGES, (*QUESTIONS, Question("1", "라?")), "question id '1' occurs twice"),
        (PASSAGES, (Question("1", "가?", relevant=("x",)),), r"question '1' names unknown passages \['x'\]"),
    ],
)
def test_what_does_not_hold_is_refused(
    passages: tuple[Passage, ...], questions: tuple[Question, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        QuestionSet("set", passages, questions)
