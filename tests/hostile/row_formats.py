"""Known rows as files of every format, with the position of each row, to distinguish damage from errors."""

import csv
import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

ROLES = ("id", "title", "question", "context", "answers", "kind")
NAMES = ("번호", "제목", "질문", "지문", "정답", "유형")
_SYLLABLES = "가나다라마바사아자차카타파하거너더러머버서어저처커터퍼허고노도로모보소오조초코토포호"
Row = tuple[str, ...]  # a text for each of ROLES


@dataclass(frozen=True)
class Written:
    """A file, its rows, and where in it each row lies; one with checksums has no places: nothing in it may change."""

    content: bytes
    rows: tuple[Row, ...]
    spans: tuple[tuple[int, int], ...] = ()
    head: int = 0  # bytes before the first row


def random_rows(seed: int, count: int = 30) -> tuple[Row, ...]:
    """Rows over passages that differ; each text says in which row it stands."""
    draw = random.Random(seed)

    def text(length: int) -> str:
        words = "".join(draw.choice(_SYLLABLES + "  ") for _ in range(length))
        return draw.choice(["", "", '"인용" ', "쉼표, ", "탭 줄\n", "a'b "]) + " ".join(words.split())

    rows = []
    for number in range(1, count + 1):
        answer = f"답{number} {text(3)}".strip()
        kind = f"종류{number % 3}"
        row = (f"n{number}", f"글{number}", f"{number}번 {text(12)}?", f"{number}번 {text(40)}. {answer}", answer, kind)
        rows.append(
            tuple(" ".join(cell.split()) if role != "context" else cell for role, cell in zip(ROLES, row, strict=True))
        )
    return tuple(rows)


def _joined(
    rows: tuple[Row, ...], records: list[str], *, head: str = "", tail: str = "", encoding: str = "utf-8"
) -> Written:
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b""
    content = mark + head.encode(encoding)
    spans = []
    start = len(content)
    for record in records:
        encoded = record.encode(encoding)
        spans.append((len(content), len(content) + len(encoded)))
        content += encoded
    return Written(content + tail.encode(encoding), rows, tuple(spans), start)


def _delimited(delimiter: str, encoding: str) -> Callable[[tuple[Row, ...]], Written]:
    def line(cells: tuple[str, ...]) -> str:
        out = io.StringIO()
        csv.writer(out, delimiter=delimiter).writerow(cells)
        return out.getvalue()

    return lambda rows: _joined(rows, [*map(line, rows)], head=line(NAMES), encoding=encoding)


def _object(row: Row) -> str:
    cells = dict(zip(NAMES, row, strict=True)) | {"정답": [row[4]]}
    return json.dumps(cells, ensure_ascii=False)


def _json(rows: tuple[Row, ...]) -> Written:
    records = [("," if index else "") + _object(row) + "\n" for index, row in enumerate(rows)]
    return _joined(rows, records, head="[\n", tail="]\n")


def _jsonl(rows: tuple[Row, ...]) -> Written:
    return _joined(rows, [_object(row) + "\n" for row in rows])


def _squad(rows: tuple[Row, ...]) -> Written:
    def article(row: Row) -> str:
        id_, title, question, context, answer, kind = row
        answers = [{"text": answer, "answer_start": 0}]
        paragraph = {"context": context, "qas": [{"id": id_, "question": question, "answers": answers, "kind": kind}]}
        return json.dumps({"title": title, "paragraphs": [paragraph]}, ensure_ascii=False)

    records = [("," if index else "") + article(row) for index, row in enumerate(rows)]
    return _joined(rows, records, head='{"version": "1", "data": [', tail="]}")


def _excel(rows: tuple[Row, ...]) -> Written:
    book = openpyxl.Workbook()
    for cells in (NAMES, *rows):
        book.active.append(cells)
    out = io.BytesIO()
    book.save(out)
    return Written(out.getvalue(), rows)


def _parquet(rows: tuple[Row, ...]) -> Written:
    columns = {name: pa.array([row[column] for row in rows]) for column, name in enumerate(NAMES)}
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, write_page_checksum=True)
    return Written(out.getvalue(), rows)


FORMATS: dict[str, Callable[[tuple[Row, ...]], Written]] = {
    "csv": _delimited(",", "utf-8"),
    "csv in CP949": _delimited(",", "cp949"),
    "tsv in UTF-16": _delimited("\t", "utf-16-le"),
    "json": _json,
    "jsonl": _jsonl,
    "squad": _squad,
    "excel": _excel,
    "parquet": _parquet,
}
