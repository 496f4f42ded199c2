import io
import zipfile

import pytest

from data.formats.opening import Format, recognise
from data.problems import DataError, ProblemCode
from tests.data.sample_files import ROWS, as_csv, as_excel, as_json, as_jsonl, as_parquet, as_squad


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (as_squad(ROWS).encode(), Format.SQUAD),
        (as_json(ROWS).encode(), Format.JSON),
        (as_jsonl(ROWS).encode(), Format.JSONL),
        (as_csv(ROWS).encode(), Format.CSV),
        (as_csv(ROWS, ";").encode("cp949", "replace"), Format.CSV),
        (as_csv(ROWS, "\t").encode("utf-16"), Format.TSV),
        (as_excel(ROWS), Format.EXCEL),
        (as_parquet(ROWS), Format.PARQUET),
    ],
)
def test_formats_are_told_by_content(content: bytes, expected: Format) -> None:
    assert recognise(content).format is expected


@pytest.mark.parametrize("text", ["문장 하나, 둘.\n" * 5, "하나, 둘\n셋, 넷\n다섯\n"])
def test_commas_before_a_space_are_those_of_prose(text: str) -> None:
    assert recognise(text.encode()).format is Format.TEXT
    assert recognise(f"질문, 지문\n{text}".encode()).format is Format.CSV


def _zip_of(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", ProblemCode.EMPTY_FILE),
        (b" \n\t\n", ProblemCode.EMPTY_FILE),
        (b"\xef\xbb\xbf", ProblemCode.EMPTY_FILE),
        (b"\xff\xfe", ProblemCode.EMPTY_FILE),
        (b"<!doctype html><html></html>", ProblemCode.UNKNOWN_FORMAT),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), ProblemCode.UNKNOWN_FORMAT),
        (b"\x1f\x8b\x08\x00" + bytes(range(256)), ProblemCode.UNKNOWN_FORMAT),
        (b"one word", ProblemCode.UNKNOWN_FORMAT),
        (bytes.fromhex("D0CF11E0A1B11AE1") + bytes(500), ProblemCode.OLD_WORKBOOK),
        (_zip_of("KorQuAD.json", b"{}"), ProblemCode.NOT_A_WORKBOOK),
        (b"PK\x03\x04", ProblemCode.BROKEN_WORKBOOK),
    ],
)
def test_the_rest_is_refused(content: bytes, code: ProblemCode) -> None:
    with pytest.raises(DataError) as caught:
        recognise(content)
    assert caught.value.problem.code is code


def test_a_workbook_that_claims_gigabytes_is_not_unpacked() -> None:
    content = bytearray(_zip_of("xl/workbook.xml", b"<workbook/>"))
    claim = content.rfind(b"PK\x01\x02") + 24  # the unpacked size in the directory at the end
    content[claim : claim + 4] = (2**30 + 1).to_bytes(4, "little")
    with pytest.raises(DataError, match="claims 1,073,741,825 unpacked bytes; at most 33,554,432 are"):
        recognise(bytes(content))
