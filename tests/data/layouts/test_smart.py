"""SMART's layout, as CACM, CISI, MEDLINE and Cranfield are published."""

import pytest

from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import Reading
from tests.data.layouts.test_reading import gaps, read_all

DOCUMENTS = """.I 1
.T
Water clocks
of Joseon
.A
Jang, Y.
.W
The clock struck the hours by itself.
.X
1\t5\t1
.I 2
.T
Rain gauges
.W
Gauges of bronze stood in every province.
.I 3
.T
Only a title
.X
3\t5\t3
"""
QUERIES = ".I 1\n.W\nWhat struck the hours?\n.I 2\n.W\nWhat measured\nthe rain?\n"


SPARSE = ".I 1\n.W\nWhat struck the hours?\n.I 4\n.W\nWhat measured\nthe rain?\n.I 9\n.W\nWhat has only a title?\n"


def sparse(judgements: str, queries: str) -> Reading:
    return read_all({"all": DOCUMENTS.encode(), "qry": queries.encode(), "qrel": judgements.encode()})


@pytest.mark.parametrize("queries", [SPARSE, SPARSE.replace(".I ", ".I 00")])
@pytest.mark.parametrize("line", ["{0} {1} 1", "{0} 0 {1} 1"])
def test_judgements_may_name_questions_by_position(queries: str, line: str) -> None:
    reading = sparse("\n".join(line.format(number, number) for number in (1, 2, 3)), queries)
    assert [question.relevant for question in reading.question_set.questions] == [("1",), ("2",), ("3",)]
    assert [problem.code for problem in reading.problems] == [
        ProblemCode.TITLE_AS_TEXT,
        ProblemCode.QUESTIONS_BY_POSITION,
    ]
    assert reading.gaps == ()


@pytest.mark.parametrize(
    ("judgements", "relevant"),
    [
        ("1 1 1\n4 2 1\n9 3 1", [("1",), ("2",), ("3",)]),  # ids
        ("1 1 1\n4 2 1\n7 3 1", [("1",), ("2",), ()]),  # ids, one of them unknown
        ("2 1 1", [(), (), ()]),  # one question is no evidence
    ],
)
def test_numbers_that_may_be_ids_are_ids(judgements: str, relevant: list[tuple[str, ...]]) -> None:
    reading = sparse(judgements, SPARSE)
    assert [question.relevant for question in reading.question_set.questions] == relevant
    assert ProblemCode.QUESTIONS_BY_POSITION not in [problem.code for problem in reading.problems]


def collection(judgements: str, documents: str = "cisi.all", queries: str = "cisi.qry") -> Reading:
    files = {documents: DOCUMENTS, queries: QUERIES, "cisi.rel": judgements}
    return read_all({name: content.encode() for name, content in files.items()})


@pytest.mark.parametrize(
    "judgements",
    [
        "     1      1\t0\t0.000000\n     2      2\t0\t0.000000\n     2      3\t0\t0.000000\n",  # CISI
        "01 0001  0 0\n02 0002  0 0\n02 0003  0 0\n",  # CACM
        "1 0 1 1\n2 0 2 1\n2 0 3 1\n",  # MEDLINE
        "1 1 1\n2 2 1\n2 3 1\n",  # Cranfield
    ],
)
def test_reads_documents_queries_and_relations(judgements: str) -> None:
    reading = collection(judgements)
    texts = {passage.id: passage.text for passage in reading.question_set.passages}
    assert texts["1"] == "The clock struck the hours by itself."
    assert texts["3"] == "Only a title"
    assert reading.question_set.passages.titles[0] == "Water clocks of Joseon"
    found = {one.text.replace("\n", " "): set(one.relevant) for one in reading.question_set.questions}
    assert found == {"What struck the hours?": {"1"}, "What measured the rain?": {"2", "3"}}
    assert reading.layout is Layout.SMART
    assert gaps(reading) == {}


def test_judged_ids_tell_queries_without_telling_names() -> None:
    reading = collection("1 3 0 0\n2 2 0 0\n", documents="a", queries="b")
    assert len(reading.question_set.passages) == 3
    assert [one.relevant for one in reading.question_set.questions] == [("3",), ("2",)]


def test_a_grade_of_zero_stays_a_grade_in_trec_lines() -> None:
    reading = collection("1 0 1 1\n1 0 2 0\n2 0 3 1\n")
    assert reading.question_set.questions[0].grade_of == {"1": 1, "2": 0}


def test_an_entry_without_text_is_reported() -> None:
    content = DOCUMENTS + ".I 4\n.X\n1\t2\t3\n"
    reading = read_all({"a.all": content.encode(), "a.qry": QUERIES.encode(), "a.rel": b"1 1 0 0\n2 4 0 0\n"})
    assert [(one.code.value, one.row) for one in reading.problems if one.leaves_out_row] == [("empty_context", 21)]
    assert gaps(reading)["unknown_passages"]["examples"] == "4"


def test_relations_without_documents_are_refused() -> None:
    with pytest.raises(DataError, match="Add the corpus"):
        read_all({"cisi.qry": QUERIES.encode(), "cisi.rel": b"1 1 0 0\n"})
