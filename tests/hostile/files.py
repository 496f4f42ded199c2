"""Small files that ask for much: each once took a server's memory, or minutes of its processor."""

import io
import json
import zipfile
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

HEADER = b"question,context\n"
_SHEET = "xl/worksheets/sheet1.xml"
_PARTS = {
    "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override '
    'PartName="/xl/workbook.xml" ContentType='
    '"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName='
    '"/xl/worksheets/sheet1.xml" ContentType='
    '"application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
    "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship '
    'Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="xl/workbook.xml"/></Relationships>',
    "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" '
    'Target="worksheets/sheet1.xml"/></Relationships>',
    "xl/workbook.xml": '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r='
    '"http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="s" sheetId="1" r:id='
    '"r1"/></sheets></workbook>',
}


def parquet_of_blanks(rows: int) -> bytes:
    """Rows with empty questions: a few bytes however many."""
    blank, text = (pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), [value]) for value in ("", "지문"))
    out = io.BytesIO()
    pq.write_table(pa.table({"question": blank, "context": text}), out, compression="zstd")
    return out.getvalue()


def workbook_of_numbers(rows: int, columns: int) -> bytes:
    """A sheet of as many cells, all the same."""
    row = f"<row>{'<c><v>1</v></c>' * columns}</row>".encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in _PARTS.items():
            archive.writestr(name, text)
        with archive.open(_SHEET, "w", force_zip64=True) as sheet:
            space = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
            sheet.write(space)
            for _ in range(rows):
                sheet.write(row)
            sheet.write(b"</sheetData></worksheet>")
    return out.getvalue()


def json_of_new_keys(rows: int, between: str) -> bytes:
    """Objects with different columns each."""
    return between.join(json.dumps({f"k{row}": 1}) for row in range(rows)).encode()


# by name: a function that builds it for a size between 0 and 1, and the expected refusal; None if it is readable
FILES: dict[str, tuple[Callable[[float], bytes], str | None]] = {
    "parquet of empty questions": (lambda size: parquet_of_blanks(int(3_000_001 * size)), "None of the first 100,000"),
    "rows without a context": (lambda size: HEADER + b"a,\n" * int(3_300_000 * size), "None of the first 100,000"),
    "rows of one line": (lambda size: HEADER + b"a," * int(3_300_000 * size), "None of the 1 rows"),
    "a quotation mark that never closes": (
        lambda size: HEADER + 'q?,"지문\n'.encode() + b"abcd\n" * int(800_000 * size),
        "None of the first 100,000",
    ),
    "a quotation mark that never closes, among good rows": (
        lambda size: HEADER + b'q?,c\nq?,"c\n' + "".join(f"q{i}?,c\n" for i in range(int(300_000 * size))).encode(),
        None,
    ),
    "a broken quotation mark a line": (
        lambda size: b"question\tcontext\na?\tb\n" + b'q?\t"abc\n' * int(100_000 * size),
        None,
    ),
    "a header of commas": (lambda size: b"a," * int(2_000_000 * size), "columns; at most 16,384"),
    "a cell of many answers": (
        lambda size: b'question,context,answers\nq?,c,"[' + b"'a'," * int(7_500_000 * size) + b']"\n',
        None,
    ),
    "cells of many answers": (
        lambda size: (
            b"question,context,answers\n"
            + b"".join(b"q%d?,c,\"['%d'%s]\"\n" % (row, row, b",'a'" * 10_000) for row in range(int(250 * size)))
        ),
        None,
    ),
    "empty objects": (lambda size: b"[" + b"{}," * int(20_000_000 * size) + b"{}]", "None of the first 100,000|lists"),
    "empty lists": (lambda size: b"[" + b"[]," * int(20_000_000 * size) + b"[]]", "a list whose first item|lists"),
    "a new key a row, JSON": (
        lambda size: b"[" + json_of_new_keys(int(1_000_000 * size), ",") + b"]",
        "columns; at most 16,384",
    ),
    "a new key a row, JSONL": (
        lambda size: json_of_new_keys(int(1_000_000 * size), "\n"),
        "columns; at most 16,384",
    ),
    "a workbook of many columns": (lambda size: workbook_of_numbers(int(40_000 * size), 250), "unpacked bytes"),
    "a workbook of many rows": (
        lambda size: workbook_of_numbers(int(1_000_000 * size), 1),
        "No context column|unpacked",
    ),
    "lists in lists": (lambda size: b"[" * int(50_000_000 * size), "lists and objects|nested too deeply|breaks at"),
    "articles that are none": (
        lambda size: b'{"data": [{"paragraphs": 1}' + b",{}" * int(15_000_000 * size) + b"]}",
        "None of the first 100,000|lists|holds no question",
    ),
}
