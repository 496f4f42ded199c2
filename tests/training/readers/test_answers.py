"""Where answers stand, by hand and for any text: as the file says, or else where the same words are."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.records import Question
from training.readers.material import Located, located

TEXT = "서울은 크다. 옛날에 서울은 작았고, 부산은 서울보다 작았다."
FIRST, SECOND, THIRD = (TEXT.index("서울", start) for start in (0, 1, 20))


def asked(*answers: str, starts: tuple[int, ...] = ()) -> Question:
    return Question("q", "무엇인가?", answers, ("p",), starts=starts)


@pytest.mark.parametrize("start", [FIRST, SECOND, THIRD])
def test_where_the_file_says_and_it_is_there(start: int) -> None:
    assert located(asked("서울", starts=(start,)), TEXT) == Located(((start, start + 2),))


@pytest.mark.parametrize(("claimed", "meant"), [(SECOND - 2, SECOND), (SECOND + 3, SECOND), (1000, THIRD), (1, FIRST)])
def test_beside_a_wrong_place_the_nearest_is_meant(claimed: int, meant: int) -> None:
    assert located(asked("서울", starts=(claimed,)), TEXT) == Located(((meant, meant + 2),), mended=True)


def test_where_nothing_is_said_all_may_be_meant() -> None:
    everywhere = tuple((start, start + 2) for start in (FIRST, SECOND, THIRD))
    assert located(asked("서울"), TEXT) == Located(everywhere)
    assert located(asked("서울", starts=(-1,)), TEXT) == Located(everywhere)


def test_several_answers() -> None:
    busan = TEXT.index("부산")
    both = asked("서울", "부산", starts=(SECOND, busan))
    assert located(both, TEXT) == Located(((SECOND, SECOND + 2), (busan, busan + 2)))
    one_told = asked("서울", "부산", starts=(SECOND, -1))
    assert located(one_told, TEXT) == Located(((SECOND, SECOND + 2),))
    one_right = asked("서울", "부산", starts=(SECOND, 0))  # a claim that holds needs no help
    assert located(one_right, TEXT) == Located(((SECOND, SECOND + 2),))


def test_what_does_not_stand_there_is_nowhere() -> None:
    assert located(asked("대구"), TEXT) == Located(())
    assert located(asked("대구", starts=(3,)), TEXT) == Located((), mended=True)
    assert located(asked(), TEXT) == Located(())
    assert located(asked("서울"), "") == Located(())


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_letters_that_are_not_composed(form: str) -> None:
    """A Mac writes 한 as three letters: the spans are of the text as it is."""
    apart = unicodedata.normalize("NFD", TEXT)
    found = located(asked(unicodedata.normalize(form, "부산")), apart)
    (span,) = found.spans
    assert unicodedata.normalize("NFC", apart[slice(*span)]) == "부산"
    assert not found.mended


@given(st.text("가나 ", min_size=1, max_size=30), st.data())
def test_a_span_always_holds_the_answer(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    answer = text[start : data.draw(st.integers(start + 1, len(text)))]
    claimed = data.draw(st.integers(0, 40))
    found = located(asked(answer, starts=(claimed,)), text)
    (span,) = found.spans
    assert text[slice(*span)] == answer
    assert found.mended == (not text.startswith(answer, claimed))
    places = [place for place in range(len(text)) if text.startswith(answer, place)]
    assert abs(span[0] - claimed) == min(abs(place - claimed) for place in places)
