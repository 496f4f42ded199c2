"""Images and sounds in a column, as Hugging Face stores them: never passages, and reported as unused."""

import io
import json
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import read

QUESTIONS = ["사과는 어디서 열리나?", "배는 언제 익나?"]
TEXTS = ["사과는 나무에서 열린다.", "배는 가을에 익는다."]
MEDIA: dict[str, Any] = {
    "image": {"bytes": b"\x89PNG\r\n", "path": "a.png"},
    "image without a path": {"bytes": b"\x89PNG\r\n", "path": None},
    "image on disk": {"bytes": None, "path": "images/a.png"},
    "images": [{"bytes": b"\x89PNG\r\n", "path": "a.png"}, {"bytes": b"\xff\xd8", "path": "b.jpg"}],
    "audio": {"bytes": b"RIFF", "path": "a.wav", "sampling_rate": 16_000},
    "decoded audio": {"path": "a.wav", "array": [0.5, 0.25], "sampling_rate": 16_000},
}


def parquet(**columns: list[Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


@pytest.mark.parametrize("kind", MEDIA)
@pytest.mark.parametrize("name", ["image", "document", "positive", "내용"])
def test_media_beside_passages_are_unused(kind: str, name: str) -> None:
    reading = read(parquet(**{"question": QUESTIONS, name: [MEDIA[kind]] * 2, "context": TEXTS}), "set.parquet")
    assert [passage.text for passage in reading.question_set.passages] == TEXTS
    assert reading.unused_columns == (name,)
    assert reading.problems == ()


@pytest.mark.parametrize("kind", MEDIA)
@pytest.mark.parametrize("name", ["image", "document", "context"])
def test_media_are_no_passages(kind: str, name: str) -> None:
    with pytest.raises(DataError) as error:
        read(
            parquet(question=QUESTIONS, answers=["나무에서 열린다.", "가을에 익는다."], **{name: [MEDIA[kind]] * 2}),
            "a",
        )
    assert error.value.problem.code is ProblemCode.ANSWERS_ALONE
    assert f"context={name}" not in str(error.value)


def test_media_read_the_same_from_json_lines() -> None:
    medium = MEDIA["image on disk"]
    rows = [{"question": QUESTIONS[row], "context": TEXTS[row], "image": medium} for row in range(2)]
    contents = ["\n".join(map(json.dumps, rows)).encode(), pd.DataFrame(rows).to_csv(index=False).encode()]
    for content in contents:
        reading = read(content, "set")
        assert (len(reading.question_set.passages), reading.unused_columns) == (2, ("image",))
