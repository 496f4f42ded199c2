"""Known rows as files of every format, and a check of how a damaged one was read: damage stays local, or is reported.

A reader cannot detect a changed letter within a text unless the format has checksums. So:

- a row whose bytes are intact is read as it was written, or its loss is reported;
- with checksums (Excel, Parquet) that holds for every row, wherever the damage is;
- a row with damaged bytes may be read differently, and may swallow rows behind it, as a quotation mark does.
"""

import csv
import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import QuestionSetReading, read

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


_PIECES = (
    *(b'"', b"\n", b"\r\n", b",", b"\t", b"{", b"}", b"["),
    *(b"]", b"\\", b"\x00", b"\xff", b"\x80", b":", b"'", b" "),
)


@dataclass(frozen=True)
class Damage:
    """A damaged file: at `start`, `removed` bytes became `put`."""

    content: bytes
    start: int
    removed: int
    inserted: bytes

    def touches(self, span: tuple[int, int]) -> bool:
        """Whether a row of the file is damaged; bytes inserted directly before or behind it count as part of it."""
        return self.start <= span[1] and span[0] <= self.start + self.removed


def damage_file(written: Written, seed: int) -> Damage:
    """Change, take away, repeat or put in some bytes, or cut the file."""
    draw = random.Random(seed)
    content = written.content
    start = draw.randrange(len(content))
    removed = draw.choice([0, 1, 1, 2, 3, 16])
    put = b""
    match draw.randrange(5):
        case 0:
            put = bytes([content[start] ^ 1 << draw.randrange(8)]) + content[start + 1 : start + removed]
            removed = max(1, removed)
        case 1:
            put = draw.choice(_PIECES)
        case 2:
            put = content[start : start + draw.randrange(1, 200)]
        case 3:
            removed = draw.randrange(1, 300) if draw.random() < 0.8 else len(content)
        case _:
            put = draw.randbytes(draw.randrange(1, 6))
    return Damage(content[:start] + put + content[start + removed :], start, removed, put)


def verdict(format_: str, seed: int) -> tuple[str, list[str]]:
    """Damage a file and read it; returns the verdict ("refused", "reported" or "silent") and the errors."""
    written = FORMATS[format_](random_rows(seed))
    damage = damage_file(written, seed)
    try:
        reading = read(damage.content, "damaged")
    except DataError as error:
        str(error).encode()
        return "refused", []
    return ("reported" if reading.problems else "silent"), [*_find_errors(written, damage, reading)]


def _find_errors(written: Written, damage: Damage, reading: QuestionSetReading) -> list[str]:
    if written.spans and damage.start < written.head:
        return []  # the names of the columns, or what tells the encoding
    rows = _rows(reading)
    if not written.spans:
        return [f"{row} was never written" for row in rows if not _was_written(row, written.rows, reading)] + (
            [] if len(rows) + reading.left_out >= len(written.rows) else ["rows were lost"]
        )
    touched = {row for row, span in zip(written.rows, written.spans, strict=True) if damage.touches(span)}
    ids = {row[0]: row for row in written.rows}
    duplicate_ids = {problem.details["id"] for problem in reading.problems if problem.code == ProblemCode.DUPLICATE_ID}
    wrong = [
        f"{row} for {ids[row[0]]}"
        for row in rows
        if row[0] in ids
        and ids[row[0]] not in touched
        and row[0] not in duplicate_ids  # by a damaged row, which is reported
        if not _is_or_contains(row, ids[row[0]], bool(touched))
    ]
    read_ids = {row[0] for row in rows}
    lost = [row for row in written.rows if row[0] not in read_ids and row not in touched]
    unexplained = [row for row in lost if not _is_swallowed(row, written, touched, read_ids)]
    n_reported = reading.left_out + sum(problem.code == ProblemCode.BROKEN_PART for problem in reading.problems)
    return wrong + [f"{row} was lost" for row in unexplained[n_reported:]]


def _rows(reading: QuestionSetReading) -> list[Row]:
    passages = reading.question_set.passages
    row_of = passages.row_of
    rows = []
    for question in reading.question_set.questions:
        context = "\n\n".join(passages[row_of[id_]].text for id_ in question.relevant)
        title = passages[row_of[question.relevant[0]]].title if question.relevant else ""
        rows.append((question.id, title, question.text, context, "|".join(question.answers), question.kind))
    return rows


def _was_written(row: Row, rows: tuple[Row, ...], reading: QuestionSetReading) -> bool:
    """Whether a row was written, apart from columns whose very name was damaged."""
    columns = reading.columns
    known = [column for column, role in enumerate(ROLES) if columns is None or getattr(columns, role) is not None]
    return any(all(row[column] == written_row[column] for column in known) for written_row in rows)


def _is_or_contains(row: Row, written_row: Row, is_beside_damage: bool) -> bool:
    """Whether a row is one that was written, or that one and what a damaged row with its id and question adds."""
    if row == written_row or not is_beside_damage:
        return row == written_row
    context = ROLES.index("context")
    answers = ROLES.index("answers")
    holds = written_row[context] in row[context].split("\n\n") and written_row[answers] in row[answers].split("|")
    return holds and row[2] == written_row[2]


def _is_swallowed(lost: Row, written: Written, touched: set[Row], read_ids: set[str]) -> bool:
    """Whether a row stands behind a damaged one, and so do all between them that are lost as well."""
    before = written.rows.index(lost)
    while before >= 0 and written.rows[before][0] not in read_ids and written.rows[before] not in touched:
        before -= 1
    return before >= 0 and written.rows[before] in touched
