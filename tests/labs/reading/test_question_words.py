"""What questions ask by: phrasings as people write them, judged by hand."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.labs.reading.labels import QuestionWord, question_words

CASES: dict[QuestionWord, list[str]] = {
    QuestionWord.WHO: [
        "훈민정음을 만든 사람은 누구인가?",
        "이 소설은 누가 썼나요?",
        "정도전은 창왕을 누구의 자손이라고 주장하였는가?",
        "테드 번디를 낳은 생모는 누구?",
        "승리는 멤버 누구랑 사회를 보았는가",
        "왕은 누굴 미워했나?",
        "이 곡을 쓴 이는 누군가?",
        "누군가 버린 개를 데려온 것은 누구인가?",
        "회현 아파트를 설계한 사람은?",
        "이명박을 비판한 인물은 ?",
        "당시 자리를 지킨 분은?",
        "어떤 사람들이 블루스를 연주했나?",
        "언제나 왕을 따르던 사람들은?",
        "몇 번이나 도전해 성공한 사람은?",  # the topic asks, and 몇 says "several"
    ],
    QuestionWord.WHEN: [
        "임진왜란이 일어난 것은 언제인가?",
        "언제부터 한글을 썼나?",
        "누가 만든 곡이 언제 나왔나?",  # the last one asks
        "누구나 참여할 수 있었던 선거는 언제인가요?",
        "김을동은 몇 년도에 데뷔했나?",
        "한명숙은 몇 년에 결혼했는가?",
        "광장을 다시 설계한 것은 몇년인가?",
        "몇 월에 개시되었나?",
        "선거는 몇 월 며칠에 치러졌는가?",
        "시한은 몇년 몇월 몇일이었는가?",
        "블루스는 몇세기 말에 만들어졌나?",
        "경찰은 몇 시부터 물을 뿌렸는가?",
        "어느 해에 입학했는가?",
        "룬 문자는 어느 시기까지 쓰였나?",
        "회의는 무슨 요일에 열리나?",
        "번디가 사망한 해는?",
        "지진이 발생한 날짜는?",
        "배우로 처음 상을 받은 연도는?",
        "몇 개의 상을 수상한 년도는?",
        "김영삼의 생년월일은?",
        "대홍수가 일어난 때는?",
        "발매일과 발매된 날",
    ],
    QuestionWord.WHERE: [
        "수도는 어디인가?",
        "천안함 사건은 어디에서 발생하였는가?",
        "두 사람은 어디서 만났니?",
        "돈을 어디다 두고 왔나?",
        "인계된 곳은 어딘가?",
        "'아랑은 왜'를 출간한 곳은 어디인가?",
        "누구의 무덤이 어디에 있나?",
        "리처드 닉슨이 활동한 지역은?",
        "어느 곳에 올랐나?",
        "무슨 방법을 쓰더라도 피할 수 없는 곳은?",
    ],
    QuestionWord.WHAT: [
        "이것은 무엇인가?",
        "무엇을 선언하였나?",
        "그 무엇인가를 뜻하는 말은 무엇이라 부르나?",
        "마을 사람들은 그를 뭐라고 불렀는가?",
        "제목이 뭐예요?",
        "그 말이 뭔가요?",
        "왕은 뭘 먹었나?",
        "1968년의 우승국은 어느 나라인가?",
        "어느나라의 대사인가?",
        "무슨 직업을 가졌나?",
        "어떤 병에 걸렸는가?",
        "어떠한 주에서 무기고를 기습하였나?",
        "일본의 역사 왜곡에 맞서 무엇을 건설하였는가?",
        "몇 가지 허위 사실을 처벌하는 것은 무엇에 반하는가?",
        "누구보다도 먼저 그가 받은 상은 무엇인가?",
        "얼마 전 어떤 장르의 곡을 냈나?",
        "왜구가 쳐들어온 섬을 뭐라 하나?",
    ],
    QuestionWord.WHY: [
        "왜 사퇴하였는가?",
        "그가 화를 낸 것은 왜인가?",
        "그렇게 한 게 왜죠? 왜?",
        "어째서 실패했나?",
        "무엇 때문에 갈등하였는가?",
        "무엇때문인가?",
        "명나라가 멸망한 이유는?",
        "사고 원인은?",
        "무슨 이유로 물러났나?",
        "어떤 까닭으로 헤어졌는가?",
    ],
    QuestionWord.HOW: [
        "검찰은 미네르바를 어떻게 평가했는가?",
        "장례는 어떻게 치렀나요",
        "최고 시청률은 어떠했는가?",
        "그곳 날씨는 어떤가요?",
        "이 일을 어찌 막았나?",
        "어떤 방법으로 풀었는가?",
        "번스타인이 대답하는 방식은?",
        "누가 어떻게 사용하였는가?",
    ],
    QuestionWord.HOW_MANY: [
        "사망한 장병은 몇 명인가?",
        "총 몇개인가?",
        "국가부채는 얼마나 늘었나?",
        "추징금은 얼마인가?",
        "얼마를 받았나요?",
        "시리아의 비상사태는 몇 년 만에 해제되었는가?",
        "징역 몇 년을 선고받았는가?",
        "대모는 몇년에 한 번씩 짝짓기를 하는가?",
        "재생 시간은 최대 몇 시간인가?",
        "며칠 동안 심문을 받았는가?",
        "전투 몇일째 되는 날 합류하였나?",
        "구룡폭포의 높이는?",
        "사망한 주민 수는?",
        "당시 나이는?",
        "추징금 중 어느 정도를 낼 수 있었는가?",
        "몇몇이 아니라 몇 사람이 왔나?",
    ],
    QuestionWord.OTHER: [
        "우승을 한 가수는?",  # no 수 of its own
        "화재로 입은 피해는?",
        "한국과 일본 사이의 동해는?",
        "고고학자인 그의 이름은?",
        "누구나 아는 노래의 제목은?",
        "임진왜란 때 활약한 교수는?",
        "누가복음에 나오는 비유는?",
        "인간은 자기가 누구인가를 알 수 있다고 한 왕비는?",
        "제목을 적으시오.",
        "미디어디자인을 가르치나?",
        "발언제한을 풀었나?",
        "?",
        "",
        "誰が書きましたか",
    ],
}
ENGLISH: dict[QuestionWord, list[str]] = {
    QuestionWord.WHO: ["Who wrote it?", "To whom did he write?", "Whose book is it?", "Who's the king when he dies?"],
    QuestionWord.WHEN: [
        "When was Tesla born?",
        "When, in 1990, did it open?",
        "The city was founded when?",
        "In what year was it built?",
        "Which century did it happen in?",
        "At what time does it start?",
    ],
    QuestionWord.WHERE: ["Where is Warsaw?", "In which place did they meet?"],
    QuestionWord.WHAT: [
        "What is it?",
        "WHICH team won?",
        "What's the largest city?",
        "When Rome fell, what happened to it?",
        "What did she do when she left?",
    ],
    QuestionWord.WHY: ["Why was it late?", "For what reason did he leave?"],
    QuestionWord.HOW: ["How did it end?", "In what way did it change?"],
    QuestionWord.HOW_MANY: [
        "How many points did they score?",
        "How old was she when she died?",
        "How much did it cost?",
        "What percentage of students live there?",
    ],
    QuestionWord.OTHER: ["Name the capital of France.", "Is it big?", "Does somewhat count, or whatever?"],
}


@pytest.mark.parametrize(
    ("wanted", "question"),
    [(word, one) for cases in (CASES, ENGLISH) for word, several in cases.items() for one in several],
)
def test_questions_as_people_write_them(wanted: QuestionWord, question: str) -> None:
    assert question_words([question]) == [wanted]


def test_loose_letters_of_hangul_are_composed_first() -> None:
    assert question_words([unicodedata.normalize("NFD", "수도는 어디인가?")]) == [QuestionWord.WHERE]


def test_known_limits_stay_what_they_are_said_to_be() -> None:
    told = question_words(["임기는 몇 년인가?", "오늘은 며칠인가?", "출간한 회사는 어디인가?", "그 회사는?"])
    assert told == [QuestionWord.WHEN, QuestionWord.HOW_MANY, QuestionWord.WHERE, QuestionWord.OTHER]


@given(st.lists(st.text(max_size=60), max_size=5))
def test_any_text_asks_by_one_word(questions: list[str]) -> None:
    assert [type(word) for word in question_words(questions)] == [QuestionWord] * len(questions)
