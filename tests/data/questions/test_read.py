import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.formats.columns import QuestionColumns
from mrc_workbench.data.formats.opening import Format, Proposal
from mrc_workbench.data.passages import Passage, PassageBuilder
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions import audit
from mrc_workbench.data.questions.read import QuestionSetReading, propose_columns, read, read_file
from mrc_workbench.data.split import split
from mrc_workbench.data.store import load, save_question_set
from mrc_workbench.data.texts import BLOCK
from tests.data.sample_files import ROWS, as_csv, workbook


def _read(text: str, columns: QuestionColumns | None = None) -> QuestionSetReading:
    return read(text.encode(), "set.csv", columns)


def _problems(reading: QuestionSetReading) -> list[tuple[int | None, ProblemCode]]:
    return [(problem.row, problem.code) for problem in reading.problems]


def test_detects_format_encoding_and_columns() -> None:
    reading = read(as_csv(ROWS).encode("cp949"), "질문들.CSV")
    assert reading.format is Format.CSV
    assert reading.encoding == "CP949"
    assert reading.columns == QuestionColumns("질문", "지문", "정답", "제목", "번호")
    assert reading.available_columns == ("번호", "제목", "질문", "지문", "정답")
    assert (reading.row_count, reading.paragraph_count, reading.problems) == (3, 3, ())
    assert reading.question_set.name == "질문들"
    passages = [(p.id, p.text, p.title) for p in reading.question_set.passages]
    assert passages == [("p1", "서울은, 수도이다.", "서울"), ("p2", '부산은 "항구"이다.\n남해가 있다.', "부산")]
    assert [(q.id, q.text, q.answers, q.relevant) for q in reading.question_set.questions] == [
        ("1", "수도는?", ("서울",), ("p1",)),
        ("2", "강은?", ("한강", "漢江"), ("p1",)),
        ("3", "바다는?", (), ("p2",)),
    ]


def test_reads_rows_with_ids() -> None:
    reading = _read("id,question,context\n1,a?,x\n1,b?,y\n1,a?,x\n1,a?,z\n2,a?,x\n")
    assert [(q.id, q.relevant) for q in reading.question_set.questions] == [("1", ("p1", "p2")), ("2", ("p1",))]
    assert [passage.text for passage in reading.question_set.passages] == ["x", "z"]
    assert [problem.message for problem in reading.problems] == [
        "Row 3: the id 1 already belongs to another question, in row 2. Give each question its own id.",
        "Row 4: the row repeats row 2 and is counted once. No action needed.",
    ]


def test_generates_missing_ids_without_clashes() -> None:
    reading = _read("question,context\na?,x\na?, x \na?,y\n")
    assert [(q.id, q.relevant) for q in reading.question_set.questions] == [("q1", ("p1",)), ("q2", ("p2",))]
    assert _problems(reading) == [(3, ProblemCode.REPEATED_ROW)]
    reading = _read("id,question,context\n,a?,x\nq1,b?,x\n,c?,x\n")
    assert [question.id for question in reading.question_set.questions] == ["q2", "q1", "q3"]


def test_adds_the_answers_of_repeated_rows() -> None:
    reading = _read("question,context,answer\na?,x,가\na?,x,나\n")
    assert reading.question_set.questions[0].answers == ("가", "나")


def test_reads_blank_cells() -> None:
    reading = _read("question,context,title\n ,x,\na?, ,\nb?,y,\nc?,y,t\nd?,y,u\n")
    whole = [(None, ProblemCode.SEVERAL_TITLES), (None, ProblemCode.NO_QUESTION_IN_ROW)]
    assert _problems(reading) == [(3, ProblemCode.EMPTY_CONTEXT), *whole]
    assert [(p.text, p.title) for p in reading.question_set.passages] == [("x", ""), ("y", "t")]
    assert (reading.row_count, reading.paragraph_count) == (5, 4)
    assert reading.problems[-1].details == {"rows": 1, "first": 2}


def test_repairs_and_reports_invalid_characters() -> None:
    reading = read(b'[{"question": "a\\ud800?", "context": "b\\u0000", "answer": "c"}]', "set")
    assert (reading.question_set.questions[0].text, reading.question_set.passages[0].text) == ("a�?", "b�")
    assert _problems(reading) == [(1, ProblemCode.MENDED_TEXT)]
    assert reading.rejected.empty
    reading.question_set.questions[0].text.encode("utf-8")


def test_reports_values_that_are_not_text() -> None:
    reading = read(
        b'[{"question": 3.10, "context": 12}, {"question": null, "context": "x"},'
        b' {"question": "a", "context": NaN}, {"question": {"a": 1}, "context": "x"}]',
        "set",
    )
    assert (reading.question_set.questions[0].text, reading.question_set.passages[0].text) == ("3.10", "12")
    rows = [(3, ProblemCode.EMPTY_CONTEXT), (4, ProblemCode.NOT_TEXT)]
    assert _problems(reading) == [*rows, (None, ProblemCode.NO_QUESTION_IN_ROW)]
    assert reading.rejected["question"].tolist() == ["a", '{"a": "1"}']


def test_rejected_rows_include_their_content() -> None:
    rejected = _read("question,context\na?,b\nc?\ne?, \n").rejected
    assert list(rejected.columns) == ["row", "problem", "question", "context"]
    assert rejected[["row", "question", "context"]].values.tolist() == [[3, "c?", ""], [4, "e?", ""]]
    named_row = _read("row,question,context\n7,a?,b\n8,c?,\n").rejected
    assert named_row[["row", "row (2)"]].values.tolist() == [[3, "8"]]


def test_accepts_rows_with_different_columns() -> None:
    rows = [{"question": "a?", "context": "" if number else "b", f"k{number}": 1} for number in range(600)]
    assert read(json.dumps(rows).encode(), "set").rejected.shape == (599, 102)


def test_reports_available_and_expected_columns() -> None:
    with pytest.raises(DataError) as caught:
        _read("sentence1,sentence2\na,b\n")
    assert str(caught.value) == (
        "No context column found. Columns in the file: sentence1, sentence2. Names that are recognised: "
        "지문, 본문, 문맥, context, passage, document. Rename the column, or choose it with "
        "--columns context=sentence1 / --columns context=sentence2."
    )


def test_reads_selected_columns() -> None:
    text = "sentence1,sentence2\n수도는?,서울\n"
    names = ("sentence1", "sentence2")
    row = {"sentence1": "수도는?", "sentence2": "서울"}
    expected = Proposal(QuestionColumns("sentence1"), names, (row,), (QuestionColumns(*names),))
    assert propose_columns(text.encode()) == expected
    reading = _read(text, QuestionColumns("sentence1", "sentence2"))
    assert (reading.question_set.questions[0].text, reading.question_set.passages[0].text) == ("수도는?", "서울")


def test_rejects_columns_that_do_not_exist_and_files_without_questions() -> None:
    with pytest.raises(DataError, match=r"The column x, chosen as context, is not in .*: a, b\. Choose"):
        _read("a,b\n1,2\n", QuestionColumns("a", "x"))
    with pytest.raises(DataError, match="The file contains no question"):
        _read("question,context\n")


def test_rejects_files_without_valid_rows() -> None:
    with pytest.raises(DataError) as caught:
        _read("question,context\n,x\na?,\n")
    assert str(caught.value) == (
        "None of the 2 rows can be used. The first problem: Row 2: the question (question) is empty. Fill it in, "
        "or remove the row. Correct it and try again."
    )
    assert [problem.row for problem in caught.value.others] == [2, 3]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("KorQuAD_v1.0_dev.json", "KorQuAD_v1.0_dev"),
        ("KorQuAD 1.0", "KorQuAD 1.0"),
        ("../../etc/passwd", "passwd"),
        ("C:\\data\\질문.XLSX", "질문"),
        ("\ud800\n.csv", "�"),
        ("", "questions"),
        (".csv", "questions"),
    ],
)
def test_names_the_set_after_the_file(given: str, expected: str) -> None:
    assert read(as_csv(ROWS).encode(), given).question_set.name == expected


def test_rejects_files_that_cannot_be_opened(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", Path("\x00")):
        with pytest.raises(DataError, match=r"cannot be read \(.*\). Check the path and its permissions"):
            read_file(path)


def test_file_name_does_not_change_the_content(tmp_path: Path) -> None:
    path = tmp_path / "wrong-suffix.parquet"
    path.write_bytes(as_csv(ROWS).encode())
    reading = read_file(path)
    assert reading.format is Format.CSV
    assert reading.question_set.fingerprint == read(as_csv(ROWS).encode(), "x").question_set.fingerprint


PASSAGES = [("서울은 수도이다.", "서울"), ("부산은 항구이다.", "부산"), ("한강은 길다.", "서울")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "제목,지문\n서울,서울은 수도이다.\n부산,부산은 항구이다.\n서울,한강은 길다.\n".encode("cp949")),
        ("a.tsv", "title\ttext\n서울\t서울은 수도이다.\n부산\t부산은 항구이다.\n서울\t한강은 길다.\n".encode()),
        ("a.jsonl", "\n".join(json.dumps({"title": t, "text": p}) for p, t in PASSAGES).encode()),
        ("a.json", json.dumps([{"title": t, "context": p} for p, t in PASSAGES]).encode()),
        ("a.parquet", pd.DataFrame(PASSAGES, columns=["passage", "title"]).to_parquet()),
        ("a.xlsx", workbook([["본문", "제목"], *map(list, PASSAGES)])),
        ("a.json", json.dumps({"data": [{"title": t, "paragraphs": [{"context": p}]} for p, t in PASSAGES]}).encode()),
    ],
)
def test_reads_passages_without_questions(name: str, content: bytes) -> None:
    reading = read(content, name)
    assert [(passage.text, passage.title) for passage in reading.question_set.passages] == PASSAGES
    assert reading.question_set.questions == ()
    assert (reading.problems, reading.question_set.generated_counts) == ((), {})
    assert audit(reading.question_set).passages_without_question == 3
    assert split(reading.question_set).group_counts["all"] == 2
    assert load(save_question_set(reading.question_set).key) == reading.question_set


def test_keeps_ids_of_passages_without_questions() -> None:
    reading = _read("id,text\nd7,서울은 수도이다.\n,부산은 항구이다.\nd7,한강은 길다.\nd9,\n")
    assert list(reading.question_set.passages.ids) == ["d7", "p1", "p2"]
    whole = [(None, ProblemCode.CHANGED_IDS), (None, ProblemCode.GENERATED_IDS)]
    assert _problems(reading) == [(5, ProblemCode.EMPTY_CONTEXT), *whole]
    assert reading.row_count == 4


def test_reads_files_without_their_empty_question_column() -> None:
    text = "question,context\n,서울은 수도이다.\n"
    with pytest.raises(DataError, match="the question"):
        _read(text)
    assert list(_read(text, QuestionColumns(context="context")).question_set.passages.texts) == ["서울은 수도이다."]


@given(st.lists(st.tuples(st.text("가나", max_size=2), st.sampled_from(["", "t", "u"])), max_size=20))
def test_merges_equal_texts_under_the_first_title(rows: list[tuple[str, str]]) -> None:
    gathered = PassageBuilder()
    known: dict[str, str] = {}
    for text, title in rows:
        assert gathered.find(text) == (list(known).index(text) if text in known else len(known))
        known[text] = known.get(text) or title
        assert gathered.add(text, title, "") == list(known).index(text)
    expected = [Passage(f"p{number}", text, title) for number, (text, title) in enumerate(known.items(), start=1)]
    assert gathered.passages() == expected


def test_finds_texts_in_closed_blocks() -> None:
    gathered = PassageBuilder()
    for row in range(BLOCK + 2):
        gathered.add(f"글 {row}", "", "")
    assert (gathered.find("글 0"), gathered.find(f"글 {BLOCK}")) == (0, BLOCK)
    assert gathered.add("글 1", "제목", "") == 1
    passages = gathered.passages()
    assert (len(passages), passages[1]) == (BLOCK + 2, Passage("p2", "글 1", "제목"))


class SameHash(str):
    """Texts that differ only in their letters."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 7


def test_distinguishes_texts_with_equal_hashes() -> None:
    gathered = PassageBuilder()
    texts = [SameHash(text) for text in "가나다"]
    assert [gathered.add(text, "", "") for text in [*texts, *texts]] == [0, 1, 2, 0, 1, 2]
    assert gathered.find(SameHash("라")) == 3


def test_reads_all_of_korquad(korquad: QuestionSetReading) -> None:
    assert (korquad.format, korquad.encoding) == (Format.SQUAD, "UTF-8")
    (merged,) = korquad.problems
    assert (merged.code, merged.details["count"]) == (ProblemCode.REPEATED_PASSAGES, 964 - 961)
    assert (korquad.row_count, korquad.paragraph_count) == (5774, 964)
    assert len(korquad.question_set.passages) == 961
    assert len(korquad.question_set.questions) == 5774
    first = korquad.question_set.questions[0]
    assert (first.id, first.answers, first.relevant) == ("6548850-0-0", ("1989년 2월 15일",), ("p1",))


@pytest.mark.slow
def test_audits_korquad(korquad: QuestionSetReading) -> None:
    result = audit(korquad.question_set)
    assert (result.article_count, result.unanswerable_count, result.passages_without_question) == (140, 0, 1)
    assert result.questions_per_passage.sum() == 5774
    assert result.missing_answer_ids == ()
    assert round(result.overlap.mean, 3) == 0.674
