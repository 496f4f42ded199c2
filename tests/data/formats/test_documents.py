"""Each kind of document becomes passages; what cannot be read says why."""

import random
import unicodedata
from pathlib import Path

import pytest

from mrc_workbench.data.formats.documents import document_table
from mrc_workbench.data.formats.opening import Format
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError, ProblemCode
from tests.data.formats.written_documents import pdf, word
from tests.data.layouts.written import zipped

WORD = word(
    ("여름 휴가", 1), ("닷새를 쉰다.", 0), ("신청", 2), ("한 달 전에 한다.", 0), table=[["이름", "날"], ["김", "3"]]
)
HWPX_SECTION = """<?xml version="1.0" encoding="UTF-8"?>
<hs:sec xmlns:hs="http://www.hancom.co.kr/hwpml/2011/section" xmlns:hp="http://www.hancom.co.kr/hwpml/2011/paragraph">
<hp:p id="0" paraPrIDRef="0" styleIDRef="0"><hp:run charPrIDRef="0"><hp:t>수달은 강에 산다.</hp:t></hp:run></hp:p>
<hp:p id="1" paraPrIDRef="0" styleIDRef="0"><hp:run charPrIDRef="0"><hp:t>물고기를 먹는다.</hp:t></hp:run></hp:p>
</hs:sec>"""
HWPX = zipped(
    {
        "mimetype": b"application/hwp+zip",
        "Contents/content.hpf": b'<?xml version="1.0"?><opf:package xmlns:opf="http://www.idpf.org/2007/opf/"/>',
        "Contents/section0.xml": HWPX_SECTION.encode(),
    }
)


def passages(content: bytes | Path, format_: Format, name: str = "규정.docx") -> list[tuple[object, ...]]:
    rows = document_table(Content(content), format_, name).rows
    return [tuple(row.cells.values()) for row in rows if row.problem is None]


def test_word_document(tmp_path: Path) -> None:
    expected = [("규정.docx", "여름 휴가", "닷새를 쉰다.\n신청\n한 달 전에 한다.\n이름\t날\n김\t3")]
    assert passages(WORD, Format.WORD) == expected
    path = tmp_path / "any name"
    path.write_bytes(WORD)
    assert passages(path, Format.WORD) == expected


def test_hangul_document() -> None:
    assert passages(HWPX, Format.HANGUL, "수달.hwpx") == [("수달.hwpx", "수달", "수달은 강에 산다.\n물고기를 먹는다.")]


def test_pdf_with_korean_text() -> None:
    content = pdf(["수달은 강에 산다.\n둘째 줄 English", "물고기를 먹는다."])
    assert passages(content, Format.PDF, "수달.pdf") == [
        ("수달.pdf", "수달", "수달은 강에 산다.\n둘째 줄 English\n물고기를 먹는다.")
    ]


def test_long_pdf_has_a_passage_a_page() -> None:
    pages = ["\n".join(f"{page}쪽 {line}번째 줄이다." * 3 for line in range(60)) for page in (1, 2)]
    found = passages(pdf(pages), Format.PDF, "책.pdf")
    assert [id_ for id_, _, _ in found] == ["책.pdf#page-1", "책.pdf#page-2"]


def test_pages_without_text_are_reported() -> None:
    rows = list(document_table(Content(pdf(["수달", "", ""])), Format.PDF, "a.pdf").rows)
    problems = [row.problem for row in rows if row.problem]
    assert [(one.code, one.details) for one in problems] == [(ProblemCode.PAGES_WITHOUT_TEXT, {"pages": 2})]
    assert len(rows) == 2


@pytest.mark.parametrize(
    ("content", "format_", "code"),
    [
        (pdf([""]), Format.PDF, ProblemCode.SCANNED_DOCUMENT),
        (pdf(["비밀"], is_encrypted=True), Format.PDF, ProblemCode.ENCRYPTED_DOCUMENT),
        (pdf(["수달"])[:300], Format.PDF, ProblemCode.BROKEN_DOCUMENT),
        (WORD[:2000], Format.WORD, ProblemCode.BROKEN_DOCUMENT),
        (word(), Format.WORD, ProblemCode.DOCUMENT_WITHOUT_TEXT),
        (b" \n ", Format.TEXT, ProblemCode.DOCUMENT_WITHOUT_TEXT),
        (b"<html><script>x</script></html>", Format.HTML, ProblemCode.DOCUMENT_WITHOUT_TEXT),
        (bytes.fromhex("D0CF11E0A1B11AE1") + "EncryptedPackage".encode("utf-16-le"), Format.WORD,
         ProblemCode.ENCRYPTED_DOCUMENT),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(content: bytes, format_: Format, code: ProblemCode) -> None:
    with pytest.raises(DataError) as error:
        passages(content, format_)
    assert error.value.problem.code is code


def test_entities_of_xml_are_not_expanded() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "하하"><!ENTITY b "&a;&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>'
    document = f"{bomb}<w:document xmlns:w='http://schemas.openxmlformats.org/wordprocessingml/2006/main'><w:body>"
    document += "<w:p><w:r><w:t>&b;&f;</w:t></w:r></w:p></w:body></w:document>"
    content = zipped({"[Content_Types].xml": b"<Types/>", "word/document.xml": document.encode()})
    with pytest.raises(DataError) as error:
        passages(content, Format.WORD)
    assert "root:" not in str(error.value)


def test_a_word_document_that_unpacks_to_too_much_is_refused() -> None:
    text = b"<w:p><w:r><w:t>" + b" " * 300_000_000 + b"</w:t></w:r></w:p>"
    with pytest.raises(DataError):
        passages(zipped({"[Content_Types].xml": b"<Types/>", "word/document.xml": text}), Format.WORD)


def test_a_web_page_in_the_encoding_that_it_names() -> None:
    page = (
        "<html><head><meta charset='shift_jis'><title>川</title></head><body><p>カワウソは川にすむ。</p></body></html>"
    )
    assert passages(page.encode("shift_jis"), Format.HTML, "a.html") == [("a.html", "川", "カワウソは川にすむ。")]


def test_ids_are_composed() -> None:
    decomposed = unicodedata.normalize("NFD", "수달.md")
    assert passages("수달은 강에 산다.".encode(), Format.MARKDOWN, decomposed)[0][:2] == ("수달.md", "수달")


@pytest.mark.parametrize("name", ["word", "hwpx", "pdf"])
def test_mutated_documents_never_crash(name: str) -> None:
    contents = {
        "word": (WORD, Format.WORD),
        "hwpx": (HWPX, Format.HANGUL),
        "pdf": (pdf(["수달은 강에 산다."]), Format.PDF),
    }
    content, format_ = contents[name]
    generator = random.Random(7)
    refused = 0
    for _ in range(200):
        mutated = bytearray(content)
        for _ in range(generator.randint(1, 20)):
            mutated[generator.randrange(len(mutated))] = generator.randrange(256)
        end = generator.choice((len(mutated), generator.randrange(1, len(mutated))))
        try:
            assert passages(bytes(mutated[:end]), format_)
        except DataError:
            refused += 1
    assert refused > 50
