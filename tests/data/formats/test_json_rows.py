import json
from typing import Any

import pytest

from mrc_workbench.data.formats.opening import Format
from mrc_workbench.data.formats.text_tables import is_jsonl, item_opener, json_lines, json_table, parse_json
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import QuestionSetReading, read

ROW = {"question": "수도는?", "context": "서울"}


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [('{"data": [}', 1, 11), ('[\n {"question": "a"},\n {"question" "b"}\n]', 3, 14), ("[1] [2]", 1, 5)],
)
def test_reports_line_and_column_of_broken_json(text: str, line: int, column: int) -> None:
    with pytest.raises(DataError, match=rf"The JSON breaks at line {line}, column {column} \("):
        parse_json(text)


@pytest.mark.parametrize(
    "text", ['{"data": [', '[{"a": 1},\n{"a": "b', '{"a": {"b": 1}', '[{"a": tr', '[{"a": 1},\n{"a": ']
)
def test_reports_truncated_json(text: str) -> None:
    with pytest.raises(DataError, match=r"ends in the middle.*Get the file again") as caught:
        parse_json(text)
    assert caught.value.problem.details == {"line": text.count("\n") + 1}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_rejects_deep_nesting(text: str) -> None:
    with pytest.raises(DataError, match="nested too deeply"):
        parse_json(text)


def test_keeps_numbers_as_written_and_repairs_surrogates_in_names() -> None:
    assert parse_json("[1.10, 12345678901234567890, NaN, 1e5]") == ["1.10", "12345678901234567890", None, "1e5"]
    assert parse_json("[" + "9" * 10_000 + "]") == ["9" * 10_000]
    table = json_table([{"\ud800": "x", "question": "y"}])
    assert table.names == ("�", "question")
    assert next(iter(table.rows)).cells == {"�": "x", "question": "y"}


@pytest.mark.parametrize("row", [ROW, ROW | {"answers": [{"text": "서울", "answer_start": 0}]}])
def test_reads_every_shape_with_rows(row: dict[str, object]) -> None:
    for value in ([row], {"data": [row]}, {"version": "1", "numbers": [1], "rows": [row]}, row):
        table = json_table(value)
        assert table.names == tuple(row)
        assert [(row.number, row.cells) for row in table.rows] == [(1, row)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], "an empty list"),
        (["a"], "a list whose first item is a text or number"),
        (True, "true or false"),
        ({"a": "1"}, r"an object without a list of objects \(keys: a\)"),
        ({"train": [ROW], "dev": [ROW]}, r"an object with several lists of objects \(train, dev\)"),
    ],
)
def test_rejects_other_shapes(value: object, expected: str) -> None:
    with pytest.raises(DataError, match=rf"The JSON is {expected}. Expected SQuAD JSON"):
        json_table(value)


def test_rejects_only_the_broken_lines() -> None:
    text = json.dumps(ROW) + '\n{"question": "강은?", "con\n\nnull\n' + json.dumps(ROW | {"id": "4"}) + "\r\n"
    table = item_opener(lambda: json_lines(text))()
    assert table.names == ("question", "context", "id")
    assert [(row.number, row.problem and row.problem.message) for row in table.rows] == [
        (1, None),
        (
            2,
            "Row 2: the line is not complete JSON: it breaks at column 21 (Unterminated string starting at). "
            "Write one object per line.",
        ),
        (4, "Row 4: expected an object with the columns of a row, found nothing (null). Correct or remove it."),
        (5, None),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}\n{"a": 2}\n', True),
        ('{"a": 1\n{"a": 2}\n{"a": 3}\n', True),
        ('{"a": 1}\n{"a":\n{"a":\n', True),
        ('{\n "a": [\n  {"b": 1}\n', False),
        ('[\n{"a": 1},\n{"a": 2}\n', False),
        ('{"a": 1', False),
    ],
)
def test_distinguishes_jsonl_from_truncated_json(text: str, expected: bool) -> None:
    assert is_jsonl(text) is expected


def _read(*articles: Any) -> QuestionSetReading:
    return read(json.dumps({"version": "1", "data": articles}).encode(), "set.json")


def _article(*questions: Any, context: Any = "서울은 수도이다.", **more: Any) -> dict[str, Any]:
    return {"title": "서울", "paragraphs": [{"context": context, "qas": list(questions)} | more]}


QUESTION = {"id": "a", "question": "수도는?", "answers": [{"text": "서울", "answer_start": 0}]}


def test_reads_a_question_and_its_passage() -> None:
    reading = _read(_article(QUESTION))
    (question,) = reading.question_set.questions
    assert (question.id, question.text, question.answers, question.relevant) == ("a", "수도는?", ("서울",), ("p1",))
    assert [(p.id, p.text, p.title) for p in reading.question_set.passages] == [("p1", "서울은 수도이다.", "서울")]
    assert (reading.format, reading.columns, reading.available_columns) == ("squad", None, ())


def test_shifts_answer_starts_to_the_stripped_passage() -> None:
    again = {"id": "a", "question": "수도는?", "answers": [{"text": "수도", "answer_start": 4}]}
    elsewhere = _article(again | {"answers": [{"text": "한양", "answer_start": 0}]}, context="한양은 옛 이름이다.")
    first = QUESTION | {"answers": [{"text": "서울", "answer_start": 2}]}
    reading = _read(_article(first, again, context="\n 서울은 수도이다."))
    (question,) = reading.question_set.questions
    assert dict(zip(question.answers, question.starts, strict=True)) == {"서울": 0, "수도": 2}
    (question,) = _read(_article(QUESTION), elsewhere).question_set.questions
    assert dict(zip(question.answers, question.starts, strict=True)) == {"서울": 0, "한양": -1}
    assert len(question.relevant) == 2


def test_reads_passages_without_an_answer_as_rejected() -> None:
    impossible = {"id": "b", "question": "인구는?", "answers": [], "is_impossible": True}
    questions = _read(_article(QUESTION, impossible)).question_set.questions
    assert [(question.relevant, question.rejected) for question in questions] == [(("p1",), ()), ((), ("p1",))]


def test_reads_klue_mrc() -> None:
    question = {"guid": "klue-mrc-v1_train_00001", "question": "수도는?", "question_type": 3}
    question |= {"answers": [], "is_impossible": True, "plausible_answers": []}
    reading = _read(_article(question) | {"news_category": "정치", "source": "hankyung"})
    (impossible,) = reading.question_set.questions
    assert (impossible.id, impossible.kind, impossible.relevant) == ("klue-mrc-v1_train_00001", "3", ())
    assert len(reading.question_set.passages) == 1


def test_keeps_paragraphs_without_questions() -> None:
    reading = _read(_article(QUESTION), _article(context="부산은 항구이다."), {"paragraphs": [{"context": "강릉"}]})
    assert [passage.id for passage in reading.question_set.passages] == ["p1", "p2", "p3"]
    assert (reading.row_count, reading.paragraph_count) == (1, 3)


def test_merges_equal_paragraphs_under_the_first_title() -> None:
    other = _article({"question": "강은?"}, context=" 서울은 수도이다.\n") | {"title": "한국"}
    reading = _read(_article(QUESTION), other)
    assert [(p.id, p.title) for p in reading.question_set.passages] == [("p1", "서울")]
    assert [(q.id, q.relevant) for q in reading.question_set.questions] == [("a", ("p1",)), ("q1", ("p1",))]
    assert reading.paragraph_count == 2


def test_keeps_ids_and_kinds_and_generates_missing_ids() -> None:
    reading = _read(_article(QUESTION, id="c7"), _article(context="부산"), _article(context="대구", id="c7"))
    assert [passage.id for passage in reading.question_set.passages] == ["c7", "p1", "p2"]
    reading = _read(_article({"question": "가?", "kind": "keyword"}, {"id": "q1", "question": "나?"}))
    assert [(q.id, q.kind) for q in reading.question_set.questions] == [("q2", "keyword"), ("q1", "")]


def test_names_broken_parts() -> None:
    reading = _read("x", {"paragraphs": None}, {"paragraphs": [7, {"context": "가", "qas": {}}]}, _article(QUESTION))
    paths = [problem.details["location"] for problem in reading.problems]
    assert paths == ["data[0]", "data[1]", "data[2].paragraphs[0]", "data[2].paragraphs[1]"]
    assert reading.problems[2].message == (
        "data[2].paragraphs[0] is a text or number, expected a paragraph with a context and a list of qas; "
        "it was skipped. Correct it if it contains questions."
    )


def test_numbers_broken_questions_through_the_file() -> None:
    reading = _read(
        _article(QUESTION, {"id": "b", "question": " "}),
        _article({"id": "c", "question": "다?"}, context=None),
        _article("d", {"id": "a", "question": "라?"}, {"id": "e", "question": "마?"}),
        _article({"id": "f", "question": "바?"}, context=["가"]),
    )
    assert [(problem.row, problem.code) for problem in reading.problems] == [
        (2, ProblemCode.EMPTY_QUESTION),
        (3, ProblemCode.EMPTY_CONTEXT),
        (4, ProblemCode.NOT_AN_OBJECT),
        (5, ProblemCode.DUPLICATE_ID),
        (7, ProblemCode.NOT_TEXT),
        (None, ProblemCode.REPEATED_PASSAGES),
    ]
    assert [question.id for question in reading.question_set.questions] == ["a", "e"]
    assert reading.row_count == 7


def test_reads_article_list_and_single_article() -> None:
    for value in ([_article(QUESTION)], _article(QUESTION)):
        reading = read(json.dumps(value).encode(), "set")
        assert (reading.format, len(reading.question_set.questions)) == ("squad", 1)


LINES = (
    '{"title": "서울", "paragraphs": [{"context": "서울은 수도이다.", "qas": [{"id": "a", "question": "수도는?"}]}]}',
    '{"title": "부산", "paragraphs": [{"context": "부산은 항구다."}, {"context": "바다가 있다.", "qas": []}]}',
    '{"data": [{"paragraphs": [{"context": "대구", "qas": [{"id": "b", "question": "어디?"}]}]}]}',
)


def test_reads_articles_line_by_line() -> None:
    reading = read("\n\n".join(LINES).encode(), "set")
    assert (reading.format, reading.columns, reading.problems) == (Format.SQUAD, None, ())
    passages = [(p.id, p.text, p.title) for p in reading.question_set.passages]
    first = [("p1", "서울은 수도이다.", "서울"), ("p2", "부산은 항구다.", "부산")]
    assert passages == [*first, ("p3", "바다가 있다.", "부산"), ("p4", "대구", "")]
    assert [(q.id, q.relevant) for q in reading.question_set.questions] == [("a", ("p1",)), ("b", ("p4",))]
    assert (reading.row_count, reading.paragraph_count) == (2, 4)


def test_reports_broken_line_among_articles() -> None:
    reading = read(f"{LINES[0]}\n{LINES[1][:40]}\n{LINES[2]}\n[]".encode(), "set")
    assert [problem.message for problem in reading.problems] == [
        "data[1] is a text or number, expected an article with a list of paragraphs; it was skipped. "
        "Correct it if it contains questions.",
        "data[3] is a list, expected an article with a list of paragraphs; it was skipped. "
        "Correct it if it contains questions.",
    ]
    assert len(reading.question_set.questions) == 2
