"""Random and damaged files give a valid question set or a DataError, and written rows are read unchanged."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions import audit
from mrc_workbench.data.questions.read import read
from mrc_workbench.data.split import split
from tests.data import sample_files
from tests.data.formats.test_same_table import SAMPLES
from tests.data.sample_files import FILES, ROWS, Row, as_csv, as_excel, as_json, as_jsonl, as_parquet, as_squad

_PIECES = (b'"', b"\x00", b"{", b"}", b"[" * 2000, b"]", b",", b"\t", b"\n", b"\\ud800", b"NaN", b"null")
PIECES = st.binary(max_size=8) | st.sampled_from([*_PIECES, b"\xff\xfe", b"1e999"])
CHANGES = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20), PIECES), min_size=1, max_size=4)


def _use(content: bytes) -> None:
    try:
        reading = read(content, "set")
    except DataError as error:
        str(error).encode()
        return
    assert reading.rejected.to_csv().encode()
    assert all(problem.message.encode() for problem in reading.problems)
    questions = reading.question_set.questions
    passages = reading.question_set.passages
    assert repr([(q.id, q.text, q.answers, q.kind) for q in questions]).encode()
    assert repr([(p.id, p.text, p.title) for p in passages]).encode()
    assert len(audit(reading.question_set).question_lengths) == len(questions)
    assert len(split(reading.question_set).rows) == 4


@pytest.mark.slow
@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_random_bytes_raise_only_data_errors(content: bytes) -> None:
    _use(content)


@pytest.mark.slow
@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_random_text_raises_only_data_errors(text: str) -> None:
    _use(text.encode("utf-8", "surrogatepass"))
    _use(b"question,context\n" + text.encode("utf-8", "surrogatepass"))


@pytest.mark.slow
@pytest.mark.parametrize("content", [*FILES.values(), *SAMPLES.values()], ids=[*FILES, *SAMPLES])
@given(changes=CHANGES)
@settings(max_examples=100, deadline=None)
def test_damaged_files_raise_only_data_errors(content: bytes, changes: list[tuple[float, int, bytes]]) -> None:
    for fraction, dropped, piece in changes:
        position = int(fraction * len(content))
        content = content[:position] + piece + content[position + dropped :]
    _use(content)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_truncated_files_raise_only_data_errors(name: str) -> None:
    content = FILES[name]
    for end in range(0, len(content), max(1, len(content) // 200)):
        _use(content[:end])


ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp949")
CHARACTERS = "가나힣똠漢ab?7 \t\n,;\"'.℃"
# no more Hanja than Hangul, as in Korean: this distinguishes CP949 from damaged UTF-8
TEXTS = st.text(CHARACTERS, min_size=1, max_size=12).filter(
    lambda text: text.strip() and text.count("漢") <= sum(text.count(letter) for letter in CHARACTERS[:4])
)
ANSWERS = st.lists(st.text("서울ab7,", min_size=1, max_size=5), max_size=3)


@st.composite
def row_lists(draw: st.DrawFn) -> list[Row]:
    """Rows with a few passages, each in one article, as required by SQuAD."""
    passages = draw(st.lists(TEXTS, min_size=1, max_size=4, unique_by=str.strip))
    questions = draw(st.lists(st.tuples(st.integers(0, len(passages) - 1), TEXTS, ANSWERS), min_size=1, max_size=6))
    rows = []
    for number, (index, text, answers) in enumerate(sorted(questions, key=lambda question: question[0])):
        cells = (f"n{number}", f"글 {index}", text, passages[index], answers)
        rows.append(dict(zip(ROWS[0], cells, strict=True)))
    return rows


def _check(content: Content, rows: list[Row]) -> None:
    reading = read(content, "set")
    # a few letters may be of several encodings, which is reported
    assert [problem for problem in reading.problems if problem.code is not ProblemCode.GUESSED_ENCODING] == []
    assert sample_files.questions_with_passages(reading.question_set) == [
        (row["번호"], row["질문"].strip(), tuple(dict.fromkeys(row["정답"])), row["지문"].strip(), row["제목"])
        for row in rows
    ]
    assert len(reading.question_set.passages) == len({row["지문"].strip() for row in rows})
    assert (reading.row_count, len(reading.question_set.questions)) == (len(rows), len(rows))


DELIMITED = {f"delimited by {delimiter!r}": partial(as_csv, delimiter=delimiter) for delimiter in (",", ";", "\t")}
JSON_WRITERS = {"JSON": as_json, "JSONL": as_jsonl, "SQuAD": as_squad}
TEXT_WRITERS: dict[str, Callable[[list[Row]], str]] = {**DELIMITED, **JSON_WRITERS}


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", TEXT_WRITERS)
@given(rows=row_lists())
@settings(max_examples=40, deadline=None)
def test_reads_written_text_unchanged(rows: list[Row], name: str, encoding: str) -> None:
    # a few letters of Korean between keys in English do not tell the encoding: the user names it
    named = "cp949" if encoding == "cp949" and "delimited" not in name else ""
    _check(Content(TEXT_WRITERS[name](rows).encode(encoding), named), rows)


@pytest.mark.slow
@pytest.mark.parametrize("write", [as_excel, as_parquet])
@given(rows=row_lists())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_reads_written_bytes_unchanged(rows: list[Row], write: Callable[[list[Row]], bytes]) -> None:
    _check(Content(write(rows)), rows)
