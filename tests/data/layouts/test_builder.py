"""Tables of labels, lists, triplets and rows without a question give the same set for the same data."""

import json
from collections.abc import Callable
from dataclasses import asdict
from itertools import product

import pytest

from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import QuestionSetReading, read, read_files, read_files_in_subprocess
from mrc_workbench.data.subprocess_reader import File, UnusableFileError
from tests.data.layouts.written import answers, codes, jsonl, judged_texts, named, read_json, zipped
from tests.data.sample_files import as_csv, as_excel, as_json, as_jsonl, as_parquet

Row = dict[str, object]


LABELLED_ROWS = [("가?", "하나이다.", "2"), ("가?", "둘이다.", "0"), ("나?", "둘이다.", "1")]
LABELLED: list[Row] = named("질문 문단 관련도", LABELLED_ROWS)


@pytest.mark.parametrize(
    "names", [("질문", "문단", "관련도"), ("query", "passage", "label"), ("q", "text", "is_relevant")]
)
@pytest.mark.parametrize("write", [as_csv, as_json, as_jsonl, as_excel, as_parquet])
def test_reads_labels_as_grades_in_every_format(names: tuple[str, ...], write: Callable[..., str | bytes]) -> None:
    content = write([dict(zip(names, row.values(), strict=True)) for row in LABELLED])
    reading = read(content if isinstance(content, bytes) else content.encode(), "set")
    assert judged_texts(reading) == {"가?": {"하나이다.": 2, "둘이다.": 0}, "나?": {"둘이다.": 1}}
    assert reading.unused_columns == ()
    assert codes(reading) == [ProblemCode.LABELS_AS_RELEVANCE]


def test_skips_rows_with_invalid_grades() -> None:
    rows: list[Row] = [{"query": "a?", "passage": text, "is_relevant": label} for text, label in (("x", 1), ("y", "?"))]
    reading = read_json(rows)
    assert (judged_texts(reading), codes(reading)) == ({"a?": {"x": 1}}, [ProblemCode.WRONG_GRADE])


def test_reports_conflicting_labels() -> None:
    rows: list[Row] = [{"query": "a?", "passage": "x", "label": label} for label in (1, 0, 1)]
    reading = read_json(rows)
    assert judged_texts(reading) == {"a?": {"x": 1}}
    assert codes(reading) == [ProblemCode.JUDGED_TWICE, ProblemCode.REPEATED_ROW]


@pytest.mark.parametrize(("positive", "negative"), product(["text", "list", "json", "objects"], repeat=2))
def test_reads_positives_and_negatives_in_any_form(positive: str, negative: str) -> None:
    def cell(texts: list[str], form: str) -> object:
        if form == "text":
            return texts[0]
        if form == "objects":
            return [{"text": text} for text in texts]
        return texts if form == "list" else json.dumps(texts)

    rows: list[Row] = [
        {"query": "a?", "pos": cell(["x 하나"], positive), "neg": cell(["y 둘"], negative)},
        {"query": "b?", "pos": cell(["y 둘"], positive), "neg": cell(["z 셋"], negative)},
    ]
    reading = read_json(rows)
    assert judged_texts(reading) == {"a?": {"x 하나": 1, "y 둘": 0}, "b?": {"y 둘": 1, "z 셋": 0}}
    assert reading.used_columns == ("query", "pos", "neg")


def test_reads_numbered_negative_columns() -> None:
    reading = read(b"anchor,positive,negative_1,negative_2\na?,x,n,m\nb?,y,m,\n", "set.csv")
    assert judged_texts(reading) == {"a?": {"x": 1, "n": 0, "m": 0}, "b?": {"y": 1, "m": 0}}
    assert reading.used_columns == ("anchor", "positive", "negative_1", "negative_2")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        *(
            (
                [{"query": "a?", "passage": "x", "label": yes}, {"query": "a?", "passage": "y", "label": no}],
                {"x": 1, "y": 0},
            )
            for yes, no in (("true", "false"), ("Yes", "No"), ("relevant", "not relevant"), (True, False))
        ),
        # rows with the same anchor share a question, and the highest grade applies
        ([{"anchor": "a?", "positive": p, "negative": n} for p, n in ("xy", "yz")], {"x": 1, "y": 1, "z": 0}),
        ([{"question": "a?", "contexts": ["x y", "z w"], "ground_truth": "z"}], {"x y": 1, "z w": 1}),
    ],
)
def test_reads_grades_from_rows(rows: list[Row], expected: dict[str, int]) -> None:
    assert judged_texts(read_json(rows)) == {"a?": expected}


def test_reads_an_answer_beside_a_passage_and_a_list_of_negatives() -> None:
    reading = read_json([{"question": "a?", "context": "x", "hard_negatives": ["y", "z"], "answer": "x"}])
    assert judged_texts(reading) == {"a?": {"x": 1, "y": 0, "z": 0}}
    assert reading.question_set.questions[0].answers == ("x",)


def test_reads_passages_that_start_with_brackets() -> None:
    reading = read(b'question,context\na?,[1] see the note\nb?,"[""x"", ""y""] is a list"\nc?,plain text\n', "set.csv")
    assert list(reading.question_set.passages.texts) == ["[1] see the note", '["x", "y"] is a list', "plain text"]


def test_reads_rows_without_questions_as_passages() -> None:
    rows: list[Row] = [
        {"question": "a?", "context": "x"},
        *named("question context", [("", "y"), (None, "z")]),
        {"context": "x"},
    ]
    reading = read_json(rows)
    assert list(reading.question_set.passages.texts) == ["x", "y", "z"]
    assert judged_texts(reading) == {"a?": {"x": 1}}
    assert reading.left_out == 0
    notice = next(problem for problem in reading.problems if problem.code is ProblemCode.NO_QUESTION_IN_ROW)
    assert notice.details == {"rows": 3, "first": 2}


def test_treats_missing_value_marks_as_blank() -> None:
    reading = read(b"question,context,answers,title\na?,x y,NaN,N/A\nnan,z w,q,t\nb?,N/A,q,\n", "set.csv")
    assert [(passage.text, passage.title) for passage in reading.question_set.passages] == [("x y", ""), ("z w", "t")]
    assert reading.question_set.questions[0].answers == ()
    marks = [ProblemCode.BLANK_MARKS] * 2  # only these report the title and the answers
    assert codes(reading) == [ProblemCode.EMPTY_CONTEXT, ProblemCode.NO_QUESTION_IN_ROW, *marks]


def test_keeps_ids_that_look_like_missing_values() -> None:
    content = jsonl([{"_id": "NULL", "text": "a b"}, {"_id": "b", "text": "c d"}])
    passages = read(content, "corpus.jsonl").question_set.passages
    assert [(passage.id, passage.text) for passage in passages] == [("NULL", "a b"), ("b", "c d")]


@pytest.mark.parametrize(
    ("answers", "start", "expected"),
    [
        ("강", 6, ((6,), ("강",))),
        (["강"], [6], ((6,), ("강",))),
        (["강", "산"], [6, 3], ((6, 3), ("강", "산"))),
        ('["강", "산"]', "[6, 3]", ((6, 3), ("강", "산"))),
        (["강", "산"], [6], ((), ("강", "산"))),
        ({"text": ["강"], "answer_start": [0]}, 6, ((0,), ("강",))),
    ],
)
def test_reads_answer_starts_from_a_column(answers: object, start: object, expected: object) -> None:
    rows: list[Row] = [{"question": "a?", "context": "강과 산과 강", "answers": answers, "answer_start": start}]
    (question,) = read_json(rows).question_set.questions
    assert (question.starts, question.answers) == expected


def test_splits_answers_at_bars_if_passages_confirm() -> None:
    text = "question,context,answers\n무엇?,제주는 섬이고 화산섬이다.,섬|화산섬\n왜?,비가 온다.,비\n"
    assert answers(read(text.encode(), "set.csv")) == [("섬", "화산섬"), ("비",)]
    text = "question,context,answers\n기호는?,절댓값은 |x|로 쓴다.,|x|\n식은?,조건은 a|b이다.,a|b\n"
    assert answers(read(text.encode(), "set.csv")) == [("|x|",), ("a|b",)]


def test_reads_the_published_part_of_questions() -> None:
    reading = read("split,question,context\ntrain,a?,x\n검증,b?,y\ntest,c?,z\n".encode(), "set.csv")
    assert [question.part for question in reading.question_set.questions] == ["train", "validation", "test"]


def test_reads_question_and_passage_ids_from_rows() -> None:
    names = "question_id question sentence_id sentence document_title label"
    values = (("q1", "a?", "d1-0", "x", "T", 0), ("q1", "a?", "d1-1", "y", "T", 1), ("q2", "b?", "d2-0", "z", "U", 1))
    question_set = read_json(named(names, values)).question_set
    assert [(item.id, item.text, item.title) for item in question_set.passages] == [
        ("d1-0", "x", "T"), ("d1-1", "y", "T"), ("d2-0", "z", "U"),
    ]  # fmt: skip
    assert [(item.id, item.grade_of) for item in question_set.questions] == [
        ("q1", {"d1-0": 0, "d1-1": 1}), ("q2", {"d2-0": 1}),
    ]  # fmt: skip


def test_reports_every_column_by_use() -> None:
    reading = read("번호,분류,질문,지문,담당자\n1,배송,가?,하나,김\n2,환불,나?,둘,이\n".encode(), "set.csv")
    assert reading.used_columns == ("번호", "질문", "지문")
    assert (reading.metadata_columns, reading.unused_columns) == (("분류",), ("담당자",))


def read_with(files: dict[str, bytes], **selected_columns: str) -> QuestionSetReading:
    return read_files_in_subprocess([File(Content(content), name) for name, content in files.items()], selected_columns)


def test_reads_a_faq_with_answers_selected_as_passages() -> None:
    content = "질문,답변\n가?,하나 둘\n나?,셋 넷\n".encode()
    with pytest.raises(DataError, match=r"--columns context=답변"):
        read_files([File(Content(content), "faq.csv")])
    assert judged_texts(read_with({"faq.csv": content}, context="답변")) == {"가?": {"하나 둘": 1}, "나?": {"셋 넷": 1}}


@pytest.mark.parametrize(
    ("header", "code", "columns"),
    [
        ("질문,답변", ProblemCode.ANSWERS_ALONE, ["답변"]),
        ("질문,가칸,나칸", ProblemCode.MISSING_COLUMN, ["가칸", "나칸"]),
    ],
)
@pytest.mark.parametrize("is_zip", [False, True])
def test_offers_candidates_for_several_tables(header: str, code: ProblemCode, columns: list[str], is_zip: bool) -> None:
    cells = ",".join(["{0} 둘 셋"] * header.count(","))
    files = {
        f"{part}.csv": f"{header}\n{part}은 무엇인가?,{cells.format(part)}\n".encode() for part in ("train", "test")
    }
    if is_zip:
        files = {"faq.zip": zipped(files)}
    with pytest.raises(UnusableFileError) as refused:
        read_with(files)
    assert refused.value.problem.code is code
    assert refused.value.problem.details["file"] in ("train.csv", "test.csv")
    candidates = refused.value.proposal.candidates
    assert [candidate.context for candidate in candidates] == columns
    selection = {role: name for role, name in asdict(candidates[0]).items() if name}
    judged = judged_texts(read_with(files, **selection))
    assert judged == {"train은 무엇인가?": {"train 둘 셋": 1}, "test은 무엇인가?": {"test 둘 셋": 1}}


def test_requests_the_corpus_for_questions_without_passages() -> None:
    files = {f"{part}.csv": f"질문,문서ID\n{part}은 무엇인가?,d1\n".encode() for part in ("train", "test")}
    with pytest.raises(DataError, match=r"No passage file among these \(train.csv, test.csv\)"):
        read_with(files)


def test_reads_a_selected_list_column() -> None:
    content = json.dumps([{"question": "a?", "found_texts": ["x y", "z w"]}]).encode()
    assert judged_texts(read_with({"set.json": content}, context="found_texts")) == {"a?": {"x y": 1, "z w": 1}}


def test_reads_selected_columns_of_a_collection() -> None:
    documents = b"id,summary,abc\nd1,short,x y z\nd2,short,u v w\n"
    judged = b"query-id\tcorpus-id\tscore\nq1\td2\t1\n"
    files = {"docs.csv": documents, "queries.csv": b"query_id,query\nq1,a?\n", "qrels.tsv": judged}
    assert judged_texts(read_with(files, context="abc")) == {"a?": {"u v w": 1}}
    assert judged_texts(read_with({"set.zip": zipped(files)}, context="abc")) == {"a?": {"u v w": 1}}
    with pytest.raises(DataError, match="The column xyz, chosen as context, is not in the file"):
        read_with(files, context="xyz")
