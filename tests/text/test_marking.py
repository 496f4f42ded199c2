import unicodedata

import pytest

from text.marking import EXCERPT_LENGTH, MarkedText, answer_spans, marked


@pytest.mark.parametrize(
    ("text", "answers", "found"),
    [
        ("시계는 보루각에 놓였다.", ["보루각"], ["보루각"]),
        ("1934년의 3번째, 3", ["3"], ["3", "3"]),
        ("1934년", ["3"], []),
        ("여왕개미", ["왕"], []),
        ("남서울대학교", ["서울"], ["서울"]),  # stands nowhere at a word's start
        ("Art of the art, party", ["ART"], ["Art", "art"]),
        ("party", ["art"], []),
        ("(세종) 또는 '세종'", ["세종", "세종 "], ["세종", "세종"]),
        ("a+b (a+b)", ["a+b"], ["a+b", "a+b"]),
        ("무엇이든", ["", "  "], []),
    ],
)
def test_answers_in_a_text(text: str, answers: list[str], found: list[str]) -> None:
    assert [text[start:end] for start, end in answer_spans(text, answers)] == found


def test_a_text_of_loose_letters_is_composed() -> None:
    (text,) = marked(
        "한글은?", [unicodedata.normalize("NFD", "세종은 한글을")], [[unicodedata.normalize("NFD", "세종")]]
    )
    assert text == MarkedText("세종은 한글을", ((4, 6),), ((0, 2),))


def test_pieces_join_to_the_text() -> None:
    text = MarkedText("abcdef", matches=((1, 4),), answers=((3, 5),))
    assert text.pieces(0, 6) == [
        ("a", False, False),
        ("bc", True, False),
        ("d", True, True),
        ("e", False, True),
        ("f", False, False),
    ]
    assert text.pieces(2, 4) == [("c", True, False), ("d", True, True)]


def test_a_short_text_is_its_own_excerpt() -> None:
    assert MarkedText("짧은 글").excerpt == (0, 4)
    assert MarkedText("").excerpt == (0, 0)


def test_an_excerpt_holds_the_answer_rather_than_the_matches() -> None:
    words = [f"word{number:03}" for number in range(200)]
    text = " ".join(words)
    matches = tuple((text.index(word), text.index(word) + 7) for word in words[100:110])
    answer = (text.index("word190"), text.index("word190") + 7)
    for marks, held in ((MarkedText(text, matches), "word100"), (MarkedText(text, matches, (answer,)), "word190")):
        start, end = marks.excerpt
        assert held in text[start:end].split()  # whole words only
        assert set(text[start:end].split()) <= set(words)
        assert EXCERPT_LENGTH <= end - start <= EXCERPT_LENGTH + 30


def test_an_excerpt_without_marks_is_the_beginning() -> None:
    assert MarkedText("x" * 1000).excerpt == (0, EXCERPT_LENGTH)
