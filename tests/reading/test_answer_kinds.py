"""Forms of answers, judged by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reading.labels import AnswerKind, answer_kinds

CASES: dict[AnswerKind, list[str]] = {
    AnswerKind.DATE: [
        "1989년 2월 15일",
        "1989년",
        "5월 23일",
        "10월",
        "935년",
        "기원전 561년",
        "19-20세기",
        "12세기 중반",
        "1950년대 후반",
        "1920~40년대",
        "1981",
        "2012.12.19",
        "오전 6시 12분",
        "2017년 2월 13일 오전 9시경",
        "1848년부터 1850년",
        "5월 2일과 5월 3일",
        "음력 9월 13일",
        "토요일",
        "정오",
        "July 4, 1776",
        "the 1990s",
        "nineteenth century",
        "3:30 pm",
        "March to May 2003",
        "500 BC",
        "in 1066",
    ],
    AnswerKind.NUMBER: [
        "3명",
        "3 명",
        "39",
        "1,200만 화소",
        "49억300만 원",
        "약 7만 8,000명",
        "9억 4000여만 원",
        "55.4%",
        "57 mm",
        "2,300 유로",
        "3층",
        "제64대",
        "8번째",
        "30개월 이상",
        "3년",
        "100년",
        "5000년 전",
        "징역 3년",
        "7년간",
        "1시간 반",
        "네 명",
        "다섯 번",
        "1.25배에서 1.3배",
        "45~46cm",
        "seven",
        "65 years old",
        "$1.2 million",
        "two-thirds",
        "about 300 people",
        "seven to eight percent",
        "40%",
    ],
    AnswerKind.SHORT_PHRASE: [
        "세종대왕",
        "한유리",  # 한 is a numeral, too
        "서울 특별시",
        "5·18 광주 민주화 운동",
        "12·12 사태",
        "2011년 시리아 혁명",
        "제5공화국",
        "루이 16세",
        "갤럭시 S7",
        "4번 타자",
        "슬픈 연가",
        "하늘에 그리는 생각",
        "불타오르네",
        "『조선왕조실록』",
        "김대중, 김종필",
        "CD-ROM",
        "Denver Broncos",
        "University of Notre Dame",
        "2nd Battalion",
        "세종 3년",
    ],
    AnswerKind.LONG_PHRASE: [
        "은메달을 획득하였다.",
        "나는 나를 파괴할 권리가 있다",
        "난세를 구할 큰 뜻을 품고",
        "행정부를 견제하기 위해",
        "카스모사우루스아과 공룡의 눈 위에 있는 뿔",
        "IOC와의 올림픽 중계 독점계약 절차",
        "because it was cheaper than the other one",
        "the third largest city of the country",
    ],
}


@pytest.mark.parametrize(("wanted", "answer"), [(kind, one) for kind, several in CASES.items() for one in several])
def test_answers_by_hand(wanted: AnswerKind, answer: str) -> None:
    assert answer_kinds([answer]) == [wanted]


def test_known_limits_stay_what_they_are_said_to_be() -> None:
    assert answer_kinds(["731부대", "12개 도시", "우리에게 내일은 없다"]) == [
        AnswerKind.NUMBER,
        AnswerKind.SHORT_PHRASE,
        AnswerKind.LONG_PHRASE,  # a film
    ]


def test_answers_keep_their_order_and_may_repeat() -> None:
    assert answer_kinds(["3명", "서울", " 3명 ", "서울"]) == [
        AnswerKind.NUMBER,
        AnswerKind.SHORT_PHRASE,
        AnswerKind.NUMBER,
        AnswerKind.SHORT_PHRASE,
    ]
    assert answer_kinds([]) == []


@given(st.lists(st.text(max_size=40), max_size=5))
def test_any_text_is_of_one_kind(answers: list[str]) -> None:
    assert [type(kind) for kind in answer_kinds(answers)] == [AnswerKind] * len(answers)


def test_long_texts_that_begin_as_numbers_and_dates_take_no_time() -> None:
    assert answer_kinds(["1 " * 5000 + "x y", "1월 " * 5000 + "x", "one " * 5000 + "X"]) == [AnswerKind.LONG_PHRASE] * 3
