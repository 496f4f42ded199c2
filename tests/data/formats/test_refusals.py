"""Documents and texts without rows are rejected with an error that names the next step."""

import struct

import pytest

from mrc_workbench.data.formats.columns import QuestionColumns
from mrc_workbench.data.formats.opening import Format, document_kind, recognise
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.pairs.store import read_pairs
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions import rejection_lines
from mrc_workbench.data.questions.read import File, read, read_files
from tests.data.layouts.written import zipped
from tests.data.sample_files import ROWS, as_csv, as_excel, workbook
from tests.doubles import raises_failure

OLE = bytes.fromhex("D0CF11E0A1B11AE1")
DOCX = zipped({"[Content_Types].xml": b"<Types/>", "word/document.xml": b"<w:document/>"})
PPTX = zipped({"[Content_Types].xml": b"<Types/>", "ppt/presentation.xml": b"<p:presentation/>"})
HWPX = zipped({"mimetype": b"application/hwp+zip", "Contents/content.hpf": b"<opf/>"})
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<< >>\nendobj\n"


def ole_file(*streams: str) -> bytes:
    """Return an OLE file: a header and a directory of named entries of 128 bytes."""
    header = bytearray(512)
    header[:8] = OLE
    struct.pack_into("<H", header, 30, 9)  # sectors of 512 bytes
    struct.pack_into("<I", header, 48, 3)  # the directory is in the fourth
    entries = b"".join(name.encode("utf-16-le").ljust(128, b"\0") for name in ("Root Entry", *streams))
    return bytes(header) + bytes(3 * 512) + entries


DOCUMENTS = [
    ("manual.docx", DOCX, ProblemCode.WORD_DOCUMENT),
    ("manual.doc", ole_file("WordDocument"), ProblemCode.WORD_DOCUMENT),
    ("manual.rtf", b"{\\rtf1\\ansi text}", ProblemCode.UNREAD_DOCUMENT),
    ("slides.pptx", PPTX, ProblemCode.PRESENTATION),
    ("slides.ppt", ole_file("PowerPoint Document"), ProblemCode.PRESENTATION),
    ("manual.hwpx", HWPX, ProblemCode.HANGUL_DOCUMENT),
    ("manual.hwp", ole_file("FileHeader", "\x05HwpSummaryInformation"), ProblemCode.HANGUL_DOCUMENT),
    ("old.hwp", b"HWP Document File V3.00 \x1a\1\2\3\4\5" + bytes(100), ProblemCode.UNREAD_DOCUMENT),
    ("paper.pdf", PDF, ProblemCode.PDF_DOCUMENT),
    ("table.xls", ole_file("EncryptedPackage"), ProblemCode.OLD_WORKBOOK),
]
NEVER_READ = (ProblemCode.UNREAD_DOCUMENT, ProblemCode.OLD_WORKBOOK, ProblemCode.BROKEN_WORKBOOK)


@pytest.mark.parametrize(("name", "content", "code"), DOCUMENTS)
@pytest.mark.parametrize("is_renamed", [False, True])
def test_recognises_documents_by_content(name: str, content: bytes, code: ProblemCode, is_renamed: bool) -> None:
    given = File(Content(content), "data.csv" if is_renamed else name)
    assert document_kind(given.content, given.name) is (None if code is ProblemCode.BROKEN_WORKBOOK else code)
    with raises_failure(code):
        read_pairs([(given.content, given.name)])
    with raises_failure(code):
        read_files([given], QuestionColumns(context="text"))
    with pytest.raises(DataError) as error:
        read_files([given])
    broken = (ProblemCode.BROKEN_DOCUMENT, ProblemCode.DOCUMENT_WITHOUT_TEXT)
    assert error.value.problem.code in ([code] if code in NEVER_READ else broken)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("locked.docx", ProblemCode.WORD_DOCUMENT),
        ("locked.hwp", ProblemCode.HANGUL_DOCUMENT),
        ("locked.xlsx", ProblemCode.OLD_WORKBOOK),
        ("locked", ProblemCode.OLD_WORKBOOK),
        ("scan.pdf", ProblemCode.PDF_DOCUMENT),
        ("scan.bin", None),
    ],
)
def test_file_name_decides_if_content_is_encrypted_or_unknown(name: str, code: ProblemCode | None) -> None:
    unknown = bytes(range(256)) * 20
    content = unknown if name.startswith("scan") else ole_file("EncryptedPackage", "EncryptionInfo")
    assert document_kind(Content(content), name) is code


def test_reads_data_with_a_document_file_name() -> None:
    csv = as_csv(ROWS).encode()
    assert document_kind(Content(csv), "table.doc") is None
    assert document_kind(Content(as_excel(ROWS)), "table.xls") is None, "a new workbook under the old suffix"
    assert recognise(as_excel(ROWS), name="table.xls").format is Format.EXCEL


def test_names_document_beside_a_table_without_reading_it() -> None:
    reading = read_files([File(Content(DOCX), "notes.docx"), File(Content(as_csv(ROWS).encode()), "faq.csv")])
    assert len(reading.question_set.questions) > 0
    (gap,) = reading.gaps
    assert (gap.code, gap.details["examples"]) == (ProblemCode.DESCRIBING_DOCUMENTS, "notes.docx")


def test_rejects_documents_by_name() -> None:
    with pytest.raises(DataError, match=r"a\.docx: The document cannot be read \(") as error:
        read_files([File(Content(DOCX), "a.docx"), File(Content(PDF), "b.pdf")])
    assert error.value.problem.code is ProblemCode.BROKEN_DOCUMENT
    assert [problem.details["file"] for problem in error.value.others] == ["a.docx", "b.pdf"]


BROKEN_JSON = b'{"data": ['


@pytest.mark.parametrize(
    "files",
    [
        {"a.json": BROKEN_JSON, "b.json": BROKEN_JSON},
        {"a.json": BROKEN_JSON, "b.docx": DOCX},
        {"a.json": BROKEN_JSON, "b.docx": DOCX, "c.pdf": PDF},
        {"a.csv": b" ", "b.json": BROKEN_JSON, "qrels.tsv": b"query-id\tcorpus-id\tscore\nq1\td1\t1\n"},
    ],
)
def test_names_each_rejected_file_with_its_reason(files: dict[str, bytes]) -> None:
    with pytest.raises(DataError) as error:
        read_files([File(Content(content), name) for name, content in files.items()])
    lines = rejection_lines(error.value)
    named = sorted(line.partition(":")[0] for line in lines)
    assert named == sorted(files.keys() - {"qrels.tsv"}), lines


def test_unread_file_does_not_name_the_dataset() -> None:
    files = {
        "corpus.jsonl": b'{"_id": "d1", "title": "t", "text": "The otter hunts at night."}\n',
        "queries.jsonl": b'{"_id": "q1", "text": "When does the otter hunt?"}\n',
        "test.tsv": b"query-id\tcorpus-id\tscore\nq1\td1\t1\n",
    }
    data_files = [File(Content(content), name) for name, content in files.items()]
    for name, content in (("manual.docx", DOCX), ("notes.txt", b"A line.\n"), ("odd.json", BROKEN_JSON)):
        reading = read_files([File(Content(content), name), *data_files])
        assert reading.question_set.name == read_files(data_files).question_set.name


@pytest.mark.parametrize("content", [OLE, OLE + b"\xff" * 60, b"PK\x03\x04", DOCX[:60]], ids=range(4))
def test_rejects_truncated_document(content: bytes) -> None:
    with pytest.raises(DataError):
        read_files([File(Content(content), "cut.docx")])


@pytest.mark.parametrize(
    ("content", "code"),
    [
        *(
            (content, ProblemCode.EMPTY_FILE)
            for content in (b"", b" \n\t\n", b"\xef\xbb\xbf", b"\xff\xfe", workbook([]))
        ),
        (b"<!doctype html><html></html>", ProblemCode.WEB_PAGE),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), ProblemCode.UNKNOWN_FORMAT),
        (b"\x1f\x8b\x08\x00" + bytes(range(256)), ProblemCode.UNKNOWN_FORMAT),
        (b"one word", ProblemCode.UNKNOWN_FORMAT),
        (OLE + bytes(500), ProblemCode.OLD_WORKBOOK),
        (zipped({"KorQuAD.json": b"{}"}), ProblemCode.NOT_A_WORKBOOK),
        (b"PK\x03\x04", ProblemCode.BROKEN_WORKBOOK),
    ],
)
def test_rejects_content_of_other_formats(content: bytes, code: ProblemCode) -> None:
    with raises_failure(code):
        recognise(content)


LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "1" * 64 + "\nsize 12345\n"
PROSE = "서울은 수도이고, 한강이 흐른다.\n부산은 항구이다.\n대구는 분지이며, 덥다.\n광주는 멀다.\n"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (LFS, ProblemCode.LFS_POINTER, r"LFS pointer.*12,345 bytes.*git lfs pull"),
        ("/annex/objects/SHA256E-s10--abc.csv\n", ProblemCode.ANNEX_POINTER, "git annex get"),
        ("../.git/annex/objects/Xw/9k/SHA256E-s10--a.csv", ProblemCode.ANNEX_POINTER, "git annex get"),
        (
            "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>no</body></html>",
            ProblemCode.WEB_PAGE,
            r"web page \(HTML: Sign in\)",
        ),
        ('\n<!-- a --><HTML lang="ko"><body></body></HTML>', ProblemCode.WEB_PAGE, r"web page \(HTML\)"),
        ('<?xml version="1.0"?><html xmlns="x"></html>', ProblemCode.WEB_PAGE, "web page"),
        ("2\tqid:1\t# 7\t강\n0\tqid:1\t# 8\t산\n", ProblemCode.ONLY_JUDGEMENTS, "judgements.*corpus"),
        ("2 qid:1 1:0.5 2:3 # d7\n0 qid:2 1:0.1 2:1 # d8\n", ProblemCode.ONLY_JUDGEMENTS, "judgements.*corpus"),
        (
            "- question: 강은?\n  answer: 한강\n- question: 산은?\n  answer: 북한산\n",
            ProblemCode.UNKNOWN_STRUCTURE,
            "YAML",
        ),
        ("INSERT INTO t VALUES (1);\n" * 3, ProblemCode.UNKNOWN_STRUCTURE, "SQL"),
        ("강§물\n산§돌\n들§풀\n", ProblemCode.UNKNOWN_DELIMITER, "separated by §"),
        ("강#$#물#$#a\n산#$#돌#$#b\n들#$#풀#$#c\n", ProblemCode.UNKNOWN_DELIMITER, r"separated by #\$#"),
        ("강##물##a\n산##돌##b\n들##풀##c\n", ProblemCode.UNKNOWN_DELIMITER, "separated by ##"),
        (
            "강이 흐른다\x1e물이 맑다\n산이 높다\x1e돌이 많다\n들이 넓다\x1e풀이 푸르다\n",
            ProblemCode.UNKNOWN_DELIMITER,
            r"separated by '\\x1e'",
        ),
    ],
)
def test_rejects_files_without_data(text: str, code: ProblemCode, words: str) -> None:
    with pytest.raises(DataError, match=words) as error:
        read(text.encode(), "파일.csv")
    assert error.value.problem.code is code


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        "강물은 흐른다; 산은 높다.\n들은 넓다.\n하늘은 푸르다; 구름은 희다.\n바다는 깊다.\n",
        "물가는 3% 올랐다.\n임금은 5~6% 올랐다.\n집값은 내렸다.\n환율은 그대로다 (1$ = 1,300원).\n",
        "첫째 글이다.\n둘째 글이다 - 끝.\n셋째 글이다.\n",
        "version https://git-lfs.github.com 에서 받는다.\n다른 글이다.\n",
    ],
)
def test_reads_prose_as_passages(text: str) -> None:
    reading = read(text.encode(), "글.txt")
    assert (reading.format, list(reading.question_set.passages.texts)) == (Format.TEXT, text.splitlines())
