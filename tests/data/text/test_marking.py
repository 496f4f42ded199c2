import unicodedata

import pytest

from mrc_workbench.data.text import marking
from mrc_workbench.data.text.marking import MarkedText, matched_spans


@pytest.mark.parametrize(
    ("text", "answers", "expected"),
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
def test_finds_answers_in_a_text(text: str, answers: list[str], expected: list[str]) -> None:
    assert [text[start:end] for start, end in marking.answer_spans(text, answers)] == expected


def test_composes_decomposed_text() -> None:
    (text,) = marking.mark_texts(
        "한글은?", [unicodedata.normalize("NFD", "세종은 한글을")], [[unicodedata.normalize("NFD", "세종")]]
    )
    assert text == MarkedText("세종은 한글을", ((4, 6),), ((0, 2),))


def test_pieces_join_to_the_text() -> None:
    text = MarkedText("abcdef", matches=((1, 4),), answers=((3, 5),))
    expected = [("a", False, False), ("bc", True, False), ("d", True, True), ("e", False, True), ("f", False, False)]
    assert text.pieces(0, 6) == expected
    assert text.pieces(2, 4) == [("c", True, False), ("d", True, True)]


def test_excerpt_prefers_the_answer_over_matches() -> None:
    words = [f"word{number:03}" for number in range(200)]
    text = " ".join(words)
    matches = tuple((text.index(word), text.index(word) + 7) for word in words[100:110])
    answer = (text.index("word190"), text.index("word190") + 7)
    for marks, held in ((MarkedText(text, matches), "word100"), (MarkedText(text, matches, (answer,)), "word190")):
        start, end = marks.excerpt
        assert held in text[start:end].split()  # whole words only
        assert set(text[start:end].split()) <= set(words)
        assert marking.EXCERPT_LENGTH <= end - start <= marking.EXCERPT_LENGTH + 30


@pytest.mark.parametrize(("text", "end"), [("x" * 1000, marking.EXCERPT_LENGTH), ("짧은 글", 4), ("", 0)])
def test_excerpt_without_matches_is_the_beginning(text: str, end: int) -> None:
    assert MarkedText(text).excerpt == (0, end)


@pytest.mark.parametrize(
    ("question", "text", "words"),
    [
        ("한글을 만든 왕은 누구인가?", "세종은 한글을 만들었다.", ["한글", "만들"]),
        ("자격루가 놓인 건물은 무엇인가?", "보루각에 자격루가 놓였다.", ["자격루", "놓였"]),
        ("서울은 어디에 있나?", "한강은 서울을 지난다. 서울이다.", ["서울", "서울"]),
        ("아름다운 도시는?", "도시가 아름답다", ["도시", "아름답"]),
        ("지금 어디서 볼 수 있나?", "지금도 볼 수 있다.", ["지금"]),
        ("왕은 언제 태어났나?", "여왕개미는 왕이 아니다.", ["왕"]),  # not the letter inside another word
        ("GDP와 1434년", "gdp가 1434년에 14배 늘었다", ["gdp", "1434"]),
        ("Who is the king of Korea?", "The King of Korea's kingdom", ["King", "Korea"]),
        ("What is Seoul?", "서울(Seoul)은 한국의 수도이고 seoul이라 쓴다", ["Seoul", "seoul"]),
        ("Кто написал Войну и мир?", "«Война и мир», мир", ["Война", "и", "мир", "мир"]),
        ("東京タワーの高さは?", "高い東京タワーは赤い。それは塔です。", ["東京タワー"]),
        ("세종대왕", "세종대왕이 만들었다", ["세종대왕"]),  # words side by side are one span
        ("Who runs in the park?", "The runners were running through many parks of the town.", ["running", "parks"]),
        ("Какая книга?", "В этой комнате на столах лежали две книги и одна газета.", ["книги"]),
        ("Welche Häuser?", "Das Haus ist in der Stadt und die Häuser sind alt.", ["Haus", "Häuser"]),
        ("the of is 이 그 것은", "the of is 이것은 그 것", []),
        ("", "세종은 한글을 만들었다.", []),
        ("한글", "", []),
    ],
)
def test_finds_matching_words(question: str, text: str, words: list[str]) -> None:
    (spans,) = matched_spans(question, [text])
    assert [text[start:end] for start, end in spans] == words


def test_each_text_has_its_own_spans() -> None:
    assert matched_spans("서울", ["서울", "부산", "남서울"])[:2] == [[(0, 2)], []]
    assert matched_spans("서울", []) == []
    assert matched_spans("한강", ["😀𠀀 한강은 넓다"]) == [[(3, 5)]], "rare letters count once"
    loose = unicodedata.normalize("NFD", "한글을 만든 왕")
    assert matched_spans(loose, ["세종은 한글을 만들었다."]) == [[(4, 6), (8, 10)]]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], []),
        ([(3, 5), (0, 2)], [(0, 2), (3, 5)]),
        ([(0, 2), (2, 4)], [(0, 4)]),
        ([(0, 9), (2, 4), (8, 12)], [(0, 12)]),
    ],
)
def test_merges_spans(spans: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    assert marking.merge_spans(spans) == expected
