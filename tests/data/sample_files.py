"""The same rows as files of every format, written by other libraries than the readers use if possible."""

import csv
import io
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import openpyxl
import pandas as pd

from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.questions.read import QuestionSetReading, read_files_in_subprocess
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.subprocess_reader import File

Row = dict[str, Any]

ROWS: list[Row] = [
    {"번호": "1", "제목": "서울", "질문": "수도는?", "지문": "서울은, 수도이다.", "정답": ["서울"]},
    {"번호": "2", "제목": "서울", "질문": "강은?", "지문": "서울은, 수도이다.", "정답": ["한강", "漢江"]},
    {"번호": "3", "제목": "부산", "질문": "바다는?", "지문": '부산은 "항구"이다.\n남해가 있다.', "정답": []},
]


def as_csv(rows: list[Row], delimiter: str = ",") -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def as_json(rows: list[Row]) -> str:
    return json.dumps(rows, ensure_ascii=False, indent=1)


def as_jsonl(rows: list[Row]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_squad(rows: list[Row]) -> str:
    articles: dict[str, dict[str, list[Any]]] = {}
    for row in rows:
        question = {"id": row["번호"], "question": row["질문"], "answers": [{"text": a} for a in row["정답"]]}
        articles.setdefault(row["제목"], {}).setdefault(row["지문"], []).append(question)
    data = [
        {"title": title, "paragraphs": [{"context": text, "qas": qas} for text, qas in paragraphs.items()]}
        for title, paragraphs in articles.items()
    ]
    return json.dumps({"version": "1", "data": data}, ensure_ascii=False)


def as_parquet(rows: list[Row]) -> bytes:
    out = io.BytesIO()
    pd.DataFrame(rows).to_parquet(out, index=False)
    return out.getvalue()


def as_excel(rows: list[Row]) -> bytes:
    return workbook([list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)])


def workbook(*sheets: list[list[Any]]) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for lines in sheets:
        sheet = book.create_sheet()
        for line in lines:
            sheet.append(line)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def rezipped(content: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    """Return a zip archive with one of its files changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            part = old.read(entry)
            new.writestr(entry.filename, change(part) if entry.filename == name else part)
    return out.getvalue()


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


# the same rows in every format
FILES = {
    "csv": as_csv(ROWS).encode(),
    "cp949": as_csv(ROWS).encode("cp949"),
    "tsv": as_csv(ROWS, "\t").encode("utf-16"),
    "json": as_json(ROWS).encode(),
    "jsonl": as_jsonl(ROWS).encode(),
    "squad": as_squad(ROWS).encode("utf-16-le"),
    "excel": as_excel(ROWS),
    "parquet": as_parquet(ROWS),
}


def mutations(content: bytes, seed: int, *, start: int = 0, most: int = 5) -> Iterator[bytearray]:
    """Yield 200 copies with up to `most` other bytes after `start`."""
    generator = random.Random(seed)
    for _ in range(200):
        mutated = bytearray(content)
        for _ in range(generator.randint(1, most)):
            mutated[generator.randrange(start, len(mutated))] = generator.randrange(256)
        yield mutated


def questions_with_passages(question_set: QuestionSet) -> list[tuple[object, ...]]:
    """Return id, text and answers of each question, with text and title of each of its relevant passages."""
    passages = {passage.id: passage for passage in question_set.passages}
    pairs = [(question, passages[id_]) for question in question_set.questions for id_ in question.relevant]
    return [(question.id, question.text, question.answers, passage.text, passage.title) for question, passage in pairs]


def read_in_subprocess(content: bytes, name: str, columns: dict[str, str] | None = None) -> QuestionSetReading:
    """Read an uploaded file in a subprocess."""
    return read_files_in_subprocess([File(Content(content), name)], columns)
