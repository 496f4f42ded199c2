import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.problems import DataError, ProblemCode
from data.read import Reading, read
from tests.data.sample_files import ROWS, as_parquet


def _read(columns: dict[str, object], **options: object) -> Reading:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, **options)
    return read(out.getvalue(), "set.parquet")


def test_squad_rows_as_the_hub_keeps_them() -> None:
    answers = [{"text": ["서울", "한양"], "answer_start": [1, 2]}, {"text": [], "answer_start": []}, None]
    reading = _read({"question": ["가?", "나?", "다?"], "context": ["x", "x", "y"], "answers": answers})
    assert [(q.text, q.answers, q.relevant) for q in reading.question_set.questions] == [
        ("가?", ("서울", "한양"), ("p1",)),
        ("나?", (), ("p1",)),
        ("다?", (), ("p2",)),
    ]


def test_is_impossible_makes_a_question_unanswerable() -> None:
    reading = _read({"question": ["가?", "나?"], "context": ["x", "y"], "is_impossible": [False, True]})
    assert [question.relevant for question in reading.question_set.questions] == [("p1",), ()]


def test_other_types_become_text() -> None:
    reading = _read({"id": [1.0, 2.0], "question": ["가?", None], "context": [b"\xea\xb0\x80", b"x"]})
    assert [(q.id, q.text) for q in reading.question_set.questions] == [("1", "가?")]
    assert [passage.text for passage in reading.question_set.passages] == ["가"]
    assert [(problem.row, problem.code) for problem in reading.problems] == [(2, ProblemCode.EMPTY_QUESTION)]


def test_texts_that_are_no_utf8_are_mended() -> None:
    broken = pa.array([b"\xea\xb0?", b"x?"]).view(pa.string())
    reading = _read({"question": broken, "context": ["가", "나"]})
    assert [question.text for question in reading.question_set.questions] == ["�?", "x?"]


def test_a_small_file_of_one_long_text_many_times_is_refused() -> None:
    places = pa.array(np.zeros(100_000, dtype=np.int32))
    column = pa.DictionaryArray.from_arrays(places, pa.array(["x" * 50_000]))
    with pytest.raises(DataError, match=r"claims [\d,]+ unpacked bytes; at most 2,147,483,648 are read"):
        _read({"question": column, "context": column}, store_schema=False)


@pytest.mark.slow
def test_too_many_values_are_refused() -> None:
    nothing = pa.nulls(200_000_001)
    column = pa.ListArray.from_arrays(pa.array([0, len(nothing)], pa.int32()), nothing)
    with pytest.raises(DataError, match=r"claims 200,000,003 values; at most 200,000,000 are read"):
        _read({"question": ["a?"], "context": ["b"], "more": column})


@pytest.mark.parametrize("size", [4, 8, 100, -4, -100])
def test_a_file_cut_short(size: int) -> None:
    with pytest.raises(DataError, match=r"The Parquet file cannot be read \(.*get it or write it again"):
        read(as_parquet(ROWS)[:size], "set.parquet")
