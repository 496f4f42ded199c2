"""Roles of columns: by values, then by names; long texts do not suffice for a column of passages."""

from typing import Any

import pandas as pd
import pytest

from mrc_workbench.data.formats.columns import QuestionColumns
from mrc_workbench.data.layouts import roles
from mrc_workbench.data.layouts.cells import parse_mark
from mrc_workbench.data.layouts.questions import unread_label_problems
from mrc_workbench.data.problems import ProblemCode
from mrc_workbench.data.questions.read import read
from tests.data.layouts.written import refuses
from tests.data.sample_files import as_jsonl, as_parquet

Row = dict[str, object]


def rows_of(**columns: list[object]) -> list[Row]:
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def assign(rows: list[Row], **selected_columns: str) -> QuestionColumns:
    return roles.assign_columns(tuple(rows[0]), rows, selected_columns)


PASSAGE = "서울은 대한민국의 수도이자 최대 도시이다. " * 6


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ("id", "title", "context", "question", "answers"),
            QuestionColumns("question", "context", "answers", "title", "id"),
        ),
        (("번호", "질문", "지문", "정답", "유형"), QuestionColumns("질문", "지문", "정답", None, "번호", "유형")),
        (("question_id", "Question Text", "Passage"), QuestionColumns("Question Text", "Passage", id="question_id")),
        (("guid", "문서 제목", "본문", "문제", "답변"), QuestionColumns("문제", "본문", "답변", "문서 제목", "guid")),
        (("query", "positive", "negative"), QuestionColumns("query", positives="positive", negatives="negative")),
        (("질의", "정답문서", "오답문서1"), QuestionColumns("질의", positives="정답문서", negatives="오답문서1")),
        (
            ("query", "relevant_docs", "irrelevant_docs"),
            QuestionColumns("query", positives="relevant_docs", negatives="irrelevant_docs"),
        ),
        (("質問", "文書", "関連度", "番号"), QuestionColumns("質問", "文書", label="関連度", id="番号")),
        (("質問", "本文", "回答"), QuestionColumns("質問", "本文", "回答")),
        (("问题", "段落", "答案"), QuestionColumns("问题", "段落", "答案")),
        (("问题", "正文", "答案", "相关性"), QuestionColumns("问题", "正文", "答案", label="相关性")),
        (
            ("Frage", "Textstelle", "Antwort", "Relevanz"),
            QuestionColumns("Frage", "Textstelle", "Antwort", label="Relevanz"),
        ),
        (("Frage", "Textabschnitt", "Antwort"), QuestionColumns("Frage", "Textabschnitt", "Antwort")),
        (("평가질문", "문서내용"), QuestionColumns("평가질문", "문서내용")),
        (("text", "context", "question"), QuestionColumns("question", "context")),
        (
            ("질문 (필수)", "본문 내용", "context_id"),
            QuestionColumns("질문 (필수)", "본문 내용", passage_id="context_id"),
        ),
        (("answer_start", "answer_text", "Q", "doc"), QuestionColumns("Q", "doc", "answer_text", start="answer_start")),
        (
            ("questionType", "question", "document", "document_id"),
            QuestionColumns("question", "document", kind="questionType", passage_id="document_id"),
        ),
        (
            ("\u110c\u1175\u11af\u1106\u116e\u11ab", "지문"),
            QuestionColumns("\u110c\u1175\u11af\u1106\u116e\u11ab", "지문"),
        ),
        (("sentence1", "sentence2", "gold_label"), QuestionColumns()),
    ],
)
def test_assigns_roles_by_names(names: tuple[str, ...], expected: QuestionColumns) -> None:
    assert roles.assign_columns(names, []) == expected


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"context": None, "text": "서울", "question": "수도?"}, QuestionColumns("question", "text")),
        ({"context": "", "question": "?"}, QuestionColumns("question", "context")),
        ({"가": "수도는 어디인가?", "나": PASSAGE, "다": "서울"}, QuestionColumns("가")),
        ({"가": "수도는?", "나": "강은?"}, QuestionColumns()),
        ({"question": "수도는?", "x": "서울"}, QuestionColumns("question")),
    ],
    ids=["a filled column", "an empty column alone", "a long text", "two columns of questions", "short texts"],
)
def test_assigns_roles_by_values(row: Row, expected: QuestionColumns) -> None:
    assert assign([row]) == expected


@pytest.mark.parametrize(
    "name",
    ["neg", "retrieved_contexts", "model_output", "response", "prediction", "비고", "source_doc", "url", "검색결과"],
)
def test_never_takes_these_columns_as_passages(name: str) -> None:
    columns = assign(rows_of(question=["수도는?", "강은?"], **{name: [PASSAGE, PASSAGE + "끝."]}))
    assert (columns.question, columns.context, columns.positives) == ("question", None, None)


@pytest.mark.parametrize(
    "cell",
    [
        "guide.md",
        "매뉴얼 2.pdf",
        "https://example.org/a",
        "/data/a/b.txt",
        "kim.lee@example.org",
        "2024/05/01 10:02:03 오전 GMT+9",
        "2024년 5월 1일",
        "5/13/2024 9:00",
        [0.25, 0.5],
    ],
)
def test_never_takes_files_addresses_dates_or_vectors_as_passages(cell: object) -> None:
    assert assign(rows_of(question=["수도는?"], document=[cell])).context is None


def test_takes_a_text_that_ends_like_a_file_name_among_passages() -> None:
    rows = rows_of(question=["a?", "b?", "c?"], document=["안내는 guide.md", "서울은 수도이다.", "한강은 길다."])
    assert assign(rows).context == "document"


def test_reads_the_label_beside_a_question_and_its_passage() -> None:
    rows = rows_of(질문=["a?", "a?"], 문단=["x", "y"], 관련도=["1", "0"])
    assert assign(rows) == QuestionColumns("질문", "문단", label="관련도")


@pytest.mark.parametrize("cells", [["person", "place"], ["0.83", "0.41"], ["120", "98"]])
def test_leaves_labels_that_are_no_grades_unused(cells: list[object]) -> None:
    assert assign(rows_of(question=["a?", "b?"], passage=["x", "y"], label=cells)).label is None


def test_distinguishes_question_passage_and_document_ids() -> None:
    questions = {"QuestionID": ["q1", "q1", "q2"], "Question": ["a?", "a?", "b?"]}
    passages = {"DocumentID": ["d1", "d1", "d1"], "SentenceID": ["d1-0", "d1-1", "d1-2"], "Sentence": ["x", "y", "z"]}
    rows = rows_of(**questions, **passages, Label=["0", "1", "1"])
    expected = QuestionColumns("Question", "Sentence", id="QuestionID", label="Label", passage_id="SentenceID")
    assert assign(rows) == expected


def test_assigns_ids_that_follow_the_passage_to_passages() -> None:
    rows = rows_of(id=["p7", "p7", "p8"], question=["a?", "b?", "c?"], context=["x", "x", "y"])
    assert assign(rows) == QuestionColumns("question", "context", passage_id="id")


def test_ignores_ids_that_number_rows() -> None:
    rows = rows_of(번호=["1", "2"], 질문=["a?", "a?"], 지문=["x", "y"], 관련도=["1", "0"])
    assert assign(rows).id is None


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"pid": ["p0", "p1"], "docid": ["d0", "d0"]}, "pid"),
        ({"docid": ["d0", "d1"], "pid": ["0", "0"]}, "docid"),
        ({"sha": ["s", "s"], "cord_uid": ["u1", "u2"]}, "cord_uid"),
        ({"id": ["d7", "d7"]}, "id"),
    ],
)
def test_selects_the_unique_column_as_passage_id(columns: dict[str, list[object]], expected: str) -> None:
    assert assign(rows_of(passage=["x y", "z w"], **columns)).id == expected


def test_detects_published_parts_by_values() -> None:
    rows = rows_of(question=["a?", "b?"], context=["x", "y"], fold=["train", "dev"])
    assert assign(rows).part == "fold"
    assert assign(rows_of(question=["a?", "b?"], context=["x", "y"], split=["1", "2"])).part is None


def test_finds_sibling_columns() -> None:
    names = ("query", "negative_1", "negative_2", "hard_negative", "positive")
    assert roles.sibling_columns("negatives", "negative_1", names) == ("negative_1", "negative_2", "hard_negative")
    assert roles.sibling_columns("negatives", "query", names) == ("query",)


def test_ignores_system_output_beside_reference_answers() -> None:
    rows = rows_of(question=["a?"], answer=["x"], contexts=[["c d", "e f"]], ground_truth=["y"])
    columns = assign(rows)
    assert (columns.answers, columns.context) == ("ground_truth", None)
    error = roles.missing_passages_error(columns, tuple(rows[0]), rows)
    assert (error.problem.code, error.problem.details["columns"]) == (ProblemCode.EVALUATION_OUTPUT, "contexts")


def test_keeps_roles_selected_by_the_user() -> None:
    rows = rows_of(질문=["가?", "나?"], 답변=["하나 둘", "셋 넷"], 번호=["1", "2"])
    assert assign(rows, context="답변") == QuestionColumns("질문", "답변", id="번호")


def test_rejects_a_faq_with_the_flag_that_reads_it() -> None:
    rows = rows_of(질문=["가?", "나?"], 답변=["하나 둘", "셋 넷"])
    columns = assign(rows)
    error = roles.missing_passages_error(columns, tuple(rows[0]), rows)
    assert error.problem.code is ProblemCode.ANSWERS_ALONE
    assert "--columns context=답변" in str(error)
    assert roles.candidate_columns(columns, tuple(rows[0]), rows) == (QuestionColumns("질문", "답변"),)


def test_quotes_names_with_spaces_in_flags() -> None:
    rows = rows_of(**{"가 나": ["하나 둘"], "다 라": ["셋 넷"]})
    error = roles.missing_passages_error(assign(rows), tuple(rows[0]), rows)
    assert "--columns 'context=가 나' / --columns 'context=다 라'" in str(error)


def test_requests_the_documents_that_a_table_names() -> None:
    rows = rows_of(question=["가?"], answer=["나"], document=["birds.md"])
    error = roles.missing_passages_error(assign(rows), tuple(rows[0]), rows)
    assert error.problem.code is ProblemCode.DOCUMENTS_BY_NAME
    assert "The column document names files" in str(error)


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        *(("O", "X"), ("○", "×"), ("예", "아니오"), ("관련 있음", "관련 없음"), ("관련", "무관")),
        *(("はい", "いいえ"), ("ja", "nein"), ("entailment", "not_entailment")),
    ],
)
def test_reads_right_and_wrong_marks_as_labels(yes: str, no: str) -> None:
    rows = rows_of(질문=["a?", "a?"], 문단=["x", "y"], 라벨=[yes, no])
    assert assign(rows).label == "라벨"
    assert (parse_mark(yes), parse_mark(no)) == (True, False)


def test_ignores_answer_columns_that_name_documents() -> None:
    for name in ("정답 문서", "정답 문서번호", "answer_docs"):
        assert assign(rows_of(질문=["a?", "b?"], **{name: ["D1, D2", "D3"]})).answers is None


def test_keeps_passage_ids_of_repeated_passages() -> None:
    rows = rows_of(question=["a?", "b?", "c?"], pid=["c1", "c2", "c3"], context=["x y", "x y", "z"])
    assert assign(rows).passage_id == "pid"


def test_does_not_read_lists_of_ids_as_positives() -> None:
    assert assign(rows_of(query=["a?"], relevant_docs=[["d1", "d2"]])).positives is None
    assert assign(rows_of(query=["a?"], relevant_docs=[["One text.", "Two texts."]])).positives == "relevant_docs"


def test_does_not_read_citations_as_passages() -> None:
    assert assign(rows_of(claim=["Cranes fly."], evidence=[[[[1, 2, "Crane", 0]]]])).context is None


@pytest.mark.parametrize(("rows", "is_reported"), [(2, True), (1, False)])
def test_reports_a_label_without_grades(rows: int, is_reported: bool) -> None:
    sample = rows_of(query=["a?", "a?"], passage=["one text.", "two texts."], score=[0.93, 0.12])[:rows]
    notices = unread_label_problems(assign(sample), tuple(sample[0]), sample)
    assert ["score" in notice.message for notice in notices] == [True] * is_reported


def test_ignores_empty_objects_when_detecting_texts() -> None:
    pages: list[object] = [{"wiki_context": ["Cranes fly south."]}, {"wiki_context": []}, {"wiki_context": []}]
    assert roles.holds_texts("pages", rows_of(pages=pages))


def test_does_not_read_objects_without_text_as_passages() -> None:
    evidence: list[object] = [{"4983": [{"sentences": [0], "label": "SUPPORT"}]}, {}]
    assert assign(rows_of(claim=["Cranes fly.", "Otters swim."], evidence=evidence)).context is None


QUESTIONS: list[object] = ["사과는 어디서 열리나?", "배는 언제 익나?"]
TEXTS: list[object] = ["사과는 나무에서 열린다.", "배는 가을에 익는다."]
MEDIA: dict[str, Any] = {
    "image": {"bytes": b"\x89PNG\r\n", "path": "a.png"},
    "image without a path": {"bytes": b"\x89PNG\r\n", "path": None},
    "image on disk": {"bytes": None, "path": "images/a.png"},
    "images": [{"bytes": b"\x89PNG\r\n", "path": "a.png"}, {"bytes": b"\xff\xd8", "path": "b.jpg"}],
    "audio": {"bytes": b"RIFF", "path": "a.wav", "sampling_rate": 16_000},
    "decoded audio": {"path": "a.wav", "array": [0.5, 0.25], "sampling_rate": 16_000},
}


@pytest.mark.parametrize("kind", MEDIA)
@pytest.mark.parametrize("name", ["image", "document", "positive", "내용"])
def test_reports_media_columns_as_unused(kind: str, name: str) -> None:
    rows = rows_of(**{"question": QUESTIONS, name: [MEDIA[kind]] * 2, "context": TEXTS})
    reading = read(as_parquet(rows), "set.parquet")
    assert [passage.text for passage in reading.question_set.passages] == TEXTS
    assert reading.unused_columns == (name,)
    assert reading.problems == ()


@pytest.mark.parametrize("kind", MEDIA)
@pytest.mark.parametrize("name", ["image", "document", "context"])
def test_does_not_read_media_as_passages(kind: str, name: str) -> None:
    columns = {"question": QUESTIONS, "answers": ["나무에서 열린다.", "가을에 익는다."], name: [MEDIA[kind]] * 2}
    with refuses(ProblemCode.ANSWERS_ALONE) as error:
        read(as_parquet(rows_of(**columns)), "a")
    assert f"context={name}" not in str(error.value)


def test_media_read_the_same_from_json_lines() -> None:
    rows = rows_of(question=QUESTIONS, context=TEXTS, image=[MEDIA["image on disk"]] * 2)
    for content in (as_jsonl(rows), pd.DataFrame(rows).to_csv(index=False)):
        reading = read(content.encode(), "set")
        assert (len(reading.question_set.passages), reading.unused_columns) == (2, ("image",))
