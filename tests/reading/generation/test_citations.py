"""Citations as models write them, and what the passages they name say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.records import Passage
from reading.generate.generator import Citation, Support, checked, cited, contains, contains_words
from reading.judge.rules import Rules

SENT = (
    Passage("p1", "세종대왕은 1443년에 훈민정음을 만들었다.", "세종대왕"),
    Passage("p2", "한강은 서울을 지나 서해로 흐른다.", "한강"),
    Passage("p3", "The river Han flows through Seoul.", "Han"),
)


@pytest.mark.parametrize(
    ("said", "text", "numbers"),
    [
        ("세종대왕 [2]", "세종대왕", (2,)),
        ("세종대왕[1][3]", "세종대왕", (1, 3)),
        ("세종대왕 [1, 3].", "세종대왕.", (1, 3)),
        ("세종대왕 [1-3]", "세종대왕", (1, 2, 3)),
        ("세종대왕 [3–1]", "세종대왕", (1, 2, 3)),
        ("세종대왕 [1~2, 5]", "세종대왕", (1, 2, 5)),
        ("세종대왕［２］", "세종대왕", (2,)),
        ("세종대왕 【１，３】", "세종대왕", (1, 3)),
        ("세종대왕 [ 2 ]", "세종대왕", (2,)),
        ("[2] 세종대왕", "세종대왕", (2,)),
        ("[1] 서울과[2] 부산", "서울과 부산", (1, 2)),
        ("서울 [2][2] [1]", "서울", (2, 1)),
        ("<think>[7]인가?</think>서울 [2]", "서울", (2,)),
        ("1443년", "1443년", ()),
        ("[1443]년", "[1443]년", ()),  # a year
        ("목록 [가, 나] (3)", "목록 [가, 나] (3)", ()),
        ("[1 서울", "[1 서울", ()),
        ("[0] [999]", "", (0, 999)),
        ("", "", ()),
    ],
)
def test_citations_as_models_write_them(said: str, text: str, numbers: tuple[int, ...]) -> None:
    answer = cited(said)
    assert (answer.text, answer.numbers) == (text, numbers)


@given(st.text(alphabet="[]［］【】0123456789０９,-~ 가\n", max_size=40))
def test_what_is_left_of_an_answer_cites_nothing_twice_and_nothing_is_invented(said: str) -> None:
    answer = cited(said)
    assert len(set(answer.numbers)) == len(answer.numbers)
    assert all(0 <= number <= 999 for number in answer.numbers)
    assert answer.text.count("가") == said.count("가")


def test_many_brackets_and_spaces_are_read_in_no_time() -> None:
    for said in ("[" * 50_000, " " * 50_000 + "[1", "[1," * 20_000, "[1]" * 20_000):
        assert len(cited(said).text) <= len(said)


@pytest.mark.parametrize(
    ("said", "support"),
    [
        ("세종대왕 [1]", [(1, Support.HOLDS)]),
        ("세종대왕 [2]", [(2, Support.LACKS)]),
        ("서울 [2][3]", [(2, Support.HOLDS), (3, Support.LACKS)]),
        ("SEOUL [3]", [(3, Support.HOLDS)]),
        ("세종대왕 [4][0]", [(4, Support.NEVER_SENT), (0, Support.NEVER_SENT)]),
        ("만든 사람은 세종대왕 [1]", [(1, Support.LACKS)]),  # nobody is said there to be a person
        ("1443년에 세종대왕이 만들었다 [1]", [(1, Support.HOLDS)]),  # all its words, in another order
        ("44 [1]", [(1, Support.LACKS)]),  # within a number
        ("the Han [3]", [(3, Support.HOLDS)]),
        ("[1]", [(1, Support.LACKS)]),
        ("세종대왕", []),
    ],
)
def test_each_citation_is_held_against_what_was_sent(said: str, support: list[tuple[int, Support]]) -> None:
    assert checked(cited(said), SENT, Rules.KORQUAD) == tuple(Citation(*one) for one in support)


@pytest.mark.parametrize(
    ("text", "answer", "held"),
    [
        ("《소나기》는 소설이다", "소나기", True),
        ("소나기는 소설이다", "‘소나기’", True),
        ("1,000명이 왔다", "1000명", True),
        ("1934년", "3", False),
        ("concatenate", "cat", False),
        ("서울특별시", "서울", True),
        ("서울", "서울특별시", False),
        ("서울", "", False),
        ("서울", "()", False),
        ("", "서울", False),
    ],
)
def test_a_text_holds_an_answer(text: str, answer: str, held: bool) -> None:
    assert contains(text, answer, Rules.KORQUAD) is held


def test_words_that_say_nothing_are_held_by_nothing() -> None:
    assert not contains_words("The river Han flows.", "the of")
    assert contains_words("The river Han flows.", "Han the river")
    assert not contains_words("The river Han flows.", "Han the lake")
