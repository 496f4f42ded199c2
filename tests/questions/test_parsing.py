import pytest
from hypothesis import given
from hypothesis import strategies as st

from questions.written import questions_in


@pytest.mark.parametrize(
    "answer",
    [
        '["수도는 어디인가?", "강의 이름은?"]',
        '```json\n["수도는 어디인가?",\n "강의 이름은?"]\n```',
        '물론입니다! [1] 답: ["수도는 어디인가?", "강의 이름은?"] 도움이 되었기를.',
        '{"questions": ["수도는 어디인가?", "강의 이름은?", "수도는 어디인가?"]}',
        '<think>["무엇을 물을까?"]</think>["수도는 어디인가?", "강의 이름은?"]',
        "1. 수도는 어디인가?\n2) 강의 이름은?",
        '- "수도는 어디인가?"\n\n- 강의   이름은?',
        '[["수도는 어디인가?", "강의 이름은?"]]',
    ],
)
def test_answers_as_models_give_them(answer: str) -> None:
    assert questions_in(answer, 5) == ["수도는 어디인가?", "강의 이름은?"]
    assert questions_in(answer, 1) == ["수도는 어디인가?"]


@pytest.mark.parametrize(
    "answer",
    ["", "죄송하지만 도와드릴 수 없습니다.", "[]", "[1, 2]", '["수도는', "질문입니다.\n수도는?", '["가?"]', "[" * 5000],
)
def test_what_is_no_list_of_questions(answer: str) -> None:
    assert questions_in(answer, 5) == []


@given(st.text(max_size=200), st.integers(1, 5))
def test_whatever_is_answered_what_is_taken_is_fit(answer: str, most: int) -> None:
    found = questions_in(answer, most)
    assert len(found) == len(set(found)) <= most
    assert all(4 <= len(question) <= 300 and question == " ".join(question.split()) for question in found)
