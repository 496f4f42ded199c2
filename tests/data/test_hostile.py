"""Whatever bytes are given: a question set that can be used, or a DataError."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.problems import DataError
from data.questions.audit import audit
from data.questions.read import read
from data.split import split
from tests.data.sample_files import FILES

PIECES = st.binary(max_size=8) | st.sampled_from(
    [
        b'"',
        b"\x00",
        b"{",
        b"}",
        b"[" * 2000,
        b"]",
        b",",
        b"\t",
        b"\n",
        b"\\ud800",
        b"NaN",
        b"null",
        b"\xff\xfe",
        b"1e999",
    ]
)
CHANGES = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20), PIECES), min_size=1, max_size=4)


def _use(content: bytes) -> None:
    try:
        reading = read(content, "set")
    except DataError as error:
        str(error).encode()
        return
    assert reading.rejected.to_csv().encode()
    assert all(problem.message.encode() for problem in reading.problems)
    questions, passages = reading.question_set.questions, reading.question_set.passages
    assert repr([(q.id, q.text, q.answers, q.kind) for q in questions]).encode()
    assert repr([(p.id, p.text, p.title) for p in passages]).encode()
    assert len(audit(reading.question_set).question_lengths) == len(questions)
    assert len(split(reading.question_set).rows) == 4


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_random_bytes(content: bytes) -> None:
    _use(content)


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_random_text(text: str) -> None:
    _use(text.encode("utf-8", "surrogatepass"))
    _use(b"question,context\n" + text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("name", FILES)
@given(changes=CHANGES)
@settings(max_examples=100, deadline=None)
def test_damaged_files(name: str, changes: list[tuple[float, int, bytes]]) -> None:
    content = FILES[name]
    for share, dropped, piece in changes:
        place = int(share * len(content))
        content = content[:place] + piece + content[place + dropped :]
    _use(content)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_files_cut_short_anywhere(name: str) -> None:
    content = FILES[name]
    for end in range(0, len(content), max(1, len(content) // 200)):
        _use(content[:end])
