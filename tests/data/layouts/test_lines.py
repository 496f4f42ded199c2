"""TREC topics and documents with any closing tags, SMART entries, and lines without a header."""

import pytest

from mrc_workbench.data.formats.tables import RawRow
from mrc_workbench.data.formats.text import Content, EncodedText
from mrc_workbench.data.layouts.lines import LineKind, Markup, detect_line_kind, detect_markup
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.layouts.sources import is_known_column
from mrc_workbench.data.problems import ProblemCode
from mrc_workbench.data.questions.read import QuestionSetReading
from tests.data.layouts.written import gaps, grades, read_all, relevant


def text_of(given: str) -> EncodedText:
    content = Content(given.encode())
    return EncodedText(content, content.encoding)


def rows_of(given: str, kind: Markup) -> list[RawRow]:
    marked = detect_markup(text_of(given))
    assert marked is not None
    markup, table = marked
    assert markup is kind
    return list(table().rows)


def cells(given: str, kind: Markup) -> list[tuple[object, ...]]:
    return [tuple(row.cells.values()) for row in rows_of(given, kind) if row.problem is None]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("<top>\n<num> Number: 301\n<title> A &amp; B\n\n<desc> Description: \nC\n</top>", [("301", "A & B")]),
        (
            "<top>\n<num>1</num><title>\n길을\n묻다</title></top><top><num>2<title>둘</top>",
            [("1", "길을 묻다"), ("2", "둘")],
        ),
        ('<topics><topic number="7"><query>q</query><question>Q?</question></topic></topics>', [("7", "q")]),
        ("<topic id='8'><question>Q?</question><narrative>n</narrative></topic>", [("8", "Q?")]),
        ('<topics task="x"><topic number="9">A patient.</topic></topics>', [("9", "A patient.")]),
        ("<TOP><NUM>3<DESC> Description: only this</TOP>", [("3", "only this")]),
        ("<top><num>4<title><![CDATA[a < b]]></title></top>", [("4", "a < b")]),
    ],
)
def test_reads_topics(given: str, expected: list[tuple[str, str]]) -> None:
    assert cells(given, Markup.TOPICS) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("<DOC><DOCNO> A-1 </DOCNO><TEXT>one</TEXT><TEXT>two</TEXT></DOC>", [("A-1", "", "one\ntwo")]),
        (
            "<DOC>\n<DOCNO>1</DOCNO>\n<HL>\nHead &lt;3\n</HL>\n<TEXT>\n<P>\nb\n</P>\n</TEXT>\n</DOC>",
            [("1", "Head <3", "b")],
        ),
        (
            "<DOC><DOCNO>1</DOCNO>plain 1 < 2</DOC><DOC><DOCNO>2</DOCNO>b</DOC>",
            [("1", "", "plain 1 < 2"), ("2", "", "b")],
        ),
        (
            "<DOC><DOCNO>w</DOCNO><DOCHDR>http://x</DOCHDR><title>T</title><style>p {}</style><p>b</p></DOC>",
            [("w", "T", "b")],
        ),
    ],
)
def test_reads_documents(given: str, expected: list[tuple[str, str, str]]) -> None:
    assert cells(given, Markup.DOCUMENTS) == expected


def test_reports_unclosed_entries_with_their_line() -> None:
    given = "<DOC>\n<DOCNO>1</DOCNO>a\n<DOC>\n<DOCNO>2</DOCNO>b\n</DOC>\n<DOC>\n<DOCNO>3"
    rows = rows_of(given, Markup.DOCUMENTS)
    expected = [(1, ProblemCode.BROKEN_ENTRY), (3, None), (6, ProblemCode.BROKEN_ENTRY)]
    assert [(row.number, row.problem and row.problem.code) for row in rows] == expected


def test_never_expands_declared_entities() -> None:
    bomb = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 20))
    given = f'<?xml version="1.0"?><!DOCTYPE t [<!ENTITY l0 "ha">{bomb}]><topics><topic number="1"><query>&l19; '
    given += '<!ENTITY x SYSTEM "file:///etc/passwd">&x;</query></topic></topics>'
    ((number, question),) = cells(given, Markup.TOPICS)
    assert number == "1"
    assert "&l19;" in str(question)
    assert "root" not in str(question)


# a reader that searches the whole file for each tag exceeds the time limit of the suite
@pytest.mark.slow
@pytest.mark.parametrize(
    ("tag", "entries"),
    [("<DOC>", 100_001), ("<DOCNO>", 1)]
    + [(tag, 1) for tag in ("<TEXT>", "<title", "<!--", "<a", "<script>", "</DOC>")],
)
def test_scans_unclosed_tags_only_once(tag: str, entries: int) -> None:
    assert len(rows_of("<DOC><DOCNO>1</DOCNO>" + tag * 100_000 + "</DOC>", Markup.DOCUMENTS)) == entries
    assert len(rows_of("<top><num>1" + tag * 100_000 + "</top>", Markup.TOPICS)) == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1\t가 나\n2\t다\n", LineKind.TEXTS),
        ("301 0 FBIS3-1 1\n301 0 FBIS3-2 0\n", LineKind.JUDGEMENTS),
        ("q1\tQ0\td1\t2\n", LineKind.JUDGEMENTS),
        ("q1 d1 2\nq1 d2 0\n", LineKind.SHORT_JUDGEMENTS),
        ("what is it\tIt is a passage of some length.\tIt is another one of them.\n", LineKind.TRIPLES),
        ("질문\t지문\t정답\n무엇?\t하나\t둘\n", None),
        ("query-id\tcorpus-id\tscore\nq\td\t1\n", None),
        ("한 줄\n두 줄\n", None),
        ('{"a": 1}\n', None),
        ("q1\td1\nq1\td2\nq1\td3\n", None),
        ("첫째 문장\t둘째 문장\n셋째 문장\t넷째 문장\n", None),
    ],
)
def test_detects_the_kind_of_lines(given: str, expected: LineKind | None) -> None:
    assert detect_line_kind(text_of(given), is_known_column) is expected


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


def collection(
    judgements: str, queries: str = QUERIES, names: tuple[str, str] = ("cisi.all", "cisi.qry")
) -> QuestionSetReading:
    contents = zip((*names, "cisi.rel"), (DOCUMENTS, queries, judgements), strict=True)
    return read_all({name: content.encode() for name, content in contents})


@pytest.mark.parametrize("queries", [SPARSE, SPARSE.replace(".I ", ".I 00")])
@pytest.mark.parametrize("line", ["{0} {1} 1", "{0} 0 {1} 1"])
def test_resolves_questions_by_position(queries: str, line: str) -> None:
    reading = collection("\n".join(line.format(number, number) for number in (1, 2, 3)), queries)
    assert relevant(reading) == [("1",), ("2",), ("3",)]
    assert [p.code for p in reading.problems] == [ProblemCode.TITLE_AS_TEXT, ProblemCode.QUESTIONS_BY_POSITION]
    assert reading.gaps == ()


@pytest.mark.parametrize(
    ("judgements", "expected"),
    [
        ("1 1 1\n4 2 1\n9 3 1", [("1",), ("2",), ("3",)]),  # ids
        ("1 1 1\n4 2 1\n7 3 1", [("1",), ("2",), ()]),  # ids, one of them unknown
        ("2 1 1", [(), (), ()]),  # a single question is no evidence
    ],
)
def test_prefers_ids_over_positions(judgements: str, expected: list[tuple[str, ...]]) -> None:
    reading = collection(judgements, SPARSE)
    assert relevant(reading) == expected
    assert ProblemCode.QUESTIONS_BY_POSITION not in [problem.code for problem in reading.problems]


@pytest.mark.parametrize(
    "judgements",
    [
        "     1      1\t0\t0.000000\n     2      2\t0\t0.000000\n     2      3\t0\t0.000000\n",  # CISI
        "01 0001  0 0\n02 0002  0 0\n02 0003  0 0\n",  # CACM
        "1 0 1 1\n2 0 2 1\n2 0 3 1\n",  # MEDLINE
        "1 1 1\n2 2 1\n2 3 1\n",  # Cranfield
    ],
)
def test_reads_smart_collections(judgements: str) -> None:
    reading = collection(judgements)
    texts = {passage.id: passage.text for passage in reading.question_set.passages}
    assert texts["1"] == "The clock struck the hours by itself."
    assert texts["3"] == "Only a title"
    assert reading.question_set.passages.titles[0] == "Water clocks of Joseon"
    judged = {question.text.replace("\n", " "): set(question.relevant) for question in reading.question_set.questions}
    assert judged == {"What struck the hours?": {"1"}, "What measured the rain?": {"2", "3"}}
    assert reading.layout is Layout.SMART
    assert gaps(reading) == {}


def test_detects_queries_by_judged_ids() -> None:
    reading = collection("1 3 0 0\n2 2 0 0\n", names=("a", "b"))
    assert len(reading.question_set.passages) == 3
    assert relevant(reading) == [("3",), ("2",)]


def test_keeps_grade_zero_in_trec_judgements() -> None:
    assert grades(collection("1 0 1 1\n1 0 2 0\n2 0 3 1\n")) == [{"1": 1, "2": 0}, {"3": 1}]


def test_reports_entries_without_text() -> None:
    content = DOCUMENTS + ".I 4\n.X\n1\t2\t3\n"
    reading = read_all({"a.all": content.encode(), "a.qry": QUERIES.encode(), "a.rel": b"1 1 0 0\n2 4 0 0\n"})
    assert [(p.code.value, p.row) for p in reading.problems if p.leaves_out_row] == [("empty_context", 21)]
    assert gaps(reading)["unknown_passages"]["examples"] == "4"
