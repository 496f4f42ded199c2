import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.endpoint import sound, without_thoughts


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("서울", "서울"),
        ("<think>부산인가?\n아니다.</think>서울", "서울"),
        ("부산인가?</think>\n서울", "\n서울"),  # where the prompt opened the thought
        ("<think>가</think>나<think>다</think>서울", "서울"),
        ("<think>끝나지 않은", "<think>끝나지 않은"),
    ],
)
def test_thoughts_are_no_answer(answer: str, text: str) -> None:
    assert without_thoughts(answer) == text


@given(st.text(alphabet=st.characters(codec=None), max_size=20))
def test_whatever_a_server_sends_can_be_written(text: str) -> None:
    found = sound(text)
    found.encode()
    if not any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        assert found == text


def test_two_halves_are_one_character_and_one_is_none() -> None:
    assert sound("\ud83d\ude00") == "😀"
    assert sound("a\ud83db") == "a\ufffdb"
