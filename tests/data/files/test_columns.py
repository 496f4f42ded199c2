import pytest

from data.formats.columns import Columns, guess_columns

PASSAGE = "서울은 대한민국의 수도이자 최대 도시이다. " * 6


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ("id", "title", "context", "question", "answers"),
            Columns("question", "context", "answers", "title", "id"),
        ),
        (("번호", "질문", "지문", "정답", "유형"), Columns("질문", "지문", "정답", None, "번호", "유형")),
        (("question_id", "Question Text", "Passage"), Columns("Question Text", "Passage", id="question_id")),
        (
            ("guid", "문서 제목", "본문", "문제", "답변"),
            Columns("문제", "본문", "답변", "문서 제목", "guid"),
        ),
        (("query", "positive", "negative"), Columns("query", "positive")),
        (("text", "context", "question"), Columns("question", "context")),
        (("질문 (필수)", "본문 내용", "context_id"), Columns("질문 (필수)", "본문 내용")),
        (("answer_start", "answer_text", "Q", "doc"), Columns("Q", "doc", "answer_text")),
        (
            ("questionType", "question", "document", "document_id"),
            Columns("question", "document", kind="questionType"),
        ),
        (("\u110c\u1175\u11af\u1106\u116e\u11ab", "지문"), Columns("\u110c\u1175\u11af\u1106\u116e\u11ab", "지문")),
        (("sentence1", "sentence2", "gold_label"), Columns()),
    ],
)
def test_names(names: tuple[str, ...], expected: Columns) -> None:
    assert guess_columns(names) == expected


def test_an_empty_column_is_not_preferred() -> None:
    rows = [{"context": None, "text": "서울", "question": "수도?"}]
    assert guess_columns(("context", "text", "question"), rows).context == "text"


def test_an_empty_column_is_better_than_none() -> None:
    assert guess_columns(("context", "question"), [{"context": "", "question": "?"}]).context == "context"


def test_the_look_of_cells_where_names_say_nothing() -> None:
    rows = [{"가": "수도는 어디인가?", "나": PASSAGE, "다": "서울"}]
    assert guess_columns(("가", "나", "다"), rows) == Columns("가", "나")


def test_two_asking_columns_are_no_guess() -> None:
    rows = [{"가": "수도는?", "나": "강은?"}]
    assert guess_columns(("가", "나"), rows) == Columns()


def test_short_texts_are_no_passages() -> None:
    assert guess_columns(("question", "x"), [{"question": "수도는?", "x": "서울"}]).context is None
