"""Tests of documents: passages without hidden text, split if long."""

import random
import unicodedata
from itertools import starmap
from pathlib import Path

import pytest

from mrc_workbench.data.formats import documents
from mrc_workbench.data.formats.documents import DocumentBlock, Section, document_table, split_document
from mrc_workbench.data.formats.opening import Format
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError, ProblemCode
from tests.data.formats.written_documents import pdf, word
from tests.data.layouts.written import zipped
from tests.data.sample_files import mutations
from tests.doubles import raises_failure

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


def test_reads_word_document(tmp_path: Path) -> None:
    expected = [("규정.docx", "여름 휴가", "닷새를 쉰다.\n신청\n한 달 전에 한다.\n이름\t날\n김\t3")]
    assert passages(WORD, Format.WORD) == expected
    path = tmp_path / "any name"
    path.write_bytes(WORD)
    assert passages(path, Format.WORD) == expected


def test_reads_hangul_document_and_korean_pdf() -> None:
    assert passages(HWPX, Format.HANGUL, "수달.hwpx") == [("수달.hwpx", "수달", "수달은 강에 산다.\n물고기를 먹는다.")]
    content = pdf(["수달은 강에 산다.\n둘째 줄 English", "물고기를 먹는다."])
    text = "수달은 강에 산다.\n둘째 줄 English\n물고기를 먹는다."
    assert passages(content, Format.PDF, "수달.pdf") == [("수달.pdf", "수달", text)]


def test_splits_long_pdf_by_page_and_reports_empty_pages() -> None:
    pages = ["\n".join(f"{page}쪽 {line}번째 줄이다." * 3 for line in range(60)) for page in (1, 2)]
    sections = passages(pdf(pages), Format.PDF, "책.pdf")
    assert [id_ for id_, _, _ in sections] == ["책.pdf#page-1", "책.pdf#page-2"]
    rows = list(document_table(Content(pdf(["수달", "", ""])), Format.PDF, "a.pdf").rows)
    problems = [row.problem for row in rows if row.problem]
    assert [(problem.code, problem.details) for problem in problems] == [(ProblemCode.PAGES_WITHOUT_TEXT, {"pages": 2})]
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
def test_unreadable_document_error_gives_the_reason(content: bytes, format_: Format, code: ProblemCode) -> None:
    with raises_failure(code):
        passages(content, format_)


def test_does_not_expand_xml_entities() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "하하"><!ENTITY b "&a;&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>'
    document = f"{bomb}<w:document xmlns:w='http://schemas.openxmlformats.org/wordprocessingml/2006/main'><w:body>"
    document += "<w:p><w:r><w:t>&b;&f;</w:t></w:r></w:p></w:body></w:document>"
    content = zipped({"[Content_Types].xml": b"<Types/>", "word/document.xml": document.encode()})
    with pytest.raises(DataError) as error:
        passages(content, Format.WORD)
    assert "root:" not in str(error.value)


def test_rejects_word_document_that_unpacks_to_too_much() -> None:
    text = b"<w:p><w:r><w:t>" + b" " * 60_000_000 + b"</w:t></w:r></w:p>"
    with pytest.raises(DataError):
        passages(zipped({"[Content_Types].xml": b"<Types/>", "word/document.xml": text}), Format.WORD)


def test_uses_encoding_of_the_web_page_and_composes_ids() -> None:
    page = (
        "<html><head><meta charset='shift_jis'><title>川</title></head><body><p>カワウソは川にすむ。</p></body></html>"
    )
    assert passages(page.encode("shift_jis"), Format.HTML, "a.html") == [("a.html", "川", "カワウソは川にすむ。")]
    decomposed = unicodedata.normalize("NFD", "수달.md")
    assert passages("수달은 강에 산다.".encode(), Format.MARKDOWN, decomposed)[0][:2] == ("수달.md", "수달")


@pytest.mark.parametrize("name", ["word", "hwpx", "pdf"])
def test_mutated_documents_raise_only_data_errors(name: str) -> None:
    page = pdf(["수달은 강에 산다."])
    contents = {"word": (WORD, Format.WORD), "hwpx": (HWPX, Format.HANGUL), "pdf": (page, Format.PDF)}
    content, format_ = contents[name]
    refused = 0
    for number, mutated in enumerate(mutations(content, 7, most=20)):
        end = None if number % 2 else random.Random(number).randrange(1, len(mutated))
        try:
            assert passages(bytes(mutated[:end]), format_)
        except DataError:
            refused += 1
    assert refused > 50


def filled(blocks: object) -> list[tuple[str, int]]:
    return [(block.text.strip(), block.level) for block in blocks if block.text.strip()]  # type: ignore[attr-defined]


def test_splits_text_at_blank_lines() -> None:
    blocks = documents.text_blocks("첫 줄\r\n둘째 줄\r\n \r\n다른 문단\r\n")
    assert filled(blocks) == [("첫 줄\n둘째 줄", 0), ("다른 문단", 0)]


def test_parses_markdown() -> None:
    text = (
        '---\nlayout: page\ntitle: "휴가 규정"\n---\n\n안내\n====\n\n**닷새**를 [쉰다](https://example.org/a).\n'
        "<!-- 초안 -->\n\n- 하나\n- 둘 `코드`\n\n| 이름 | 날 |\n|---|---|\n| 김 | 3 |\n\n"
        "```python\n# 주석은 제목이 아니다\n```\n\n<div>상자 &amp; 글</div>\n\n## 끝 ##\n"
    )
    assert filled(documents.markdown_blocks(text)) == [
        ("휴가 규정", 1), ("안내", 1), ("닷새를 쉰다.", 0), ("하나", 0), ("둘 코드", 0), ("이름\t날", 0), ("김\t3", 0),
        ("# 주석은 제목이 아니다", 0), ("상자 & 글", 0), ("끝", 2),
    ]  # fmt: skip


def test_parses_web_page() -> None:
    page = (
        "<!doctype html><html><head><title> 수달 \n 안내</title><style>p{}</style></head><body><nav>메뉴</nav>"
        "<h1><div>수달</div></h1>수달은 <b>강</b>에\n 산다.<br>둘째 줄<p>물고기&nbsp;먹이</p>"
        "<script>alert('x')</script>"
        "<table><tr><th>이름<td>날<tr><td>김<td>3</table><!-- 숨김 --><ul><li>하나<li>둘</ul><footer>끝</footer>"
    )
    assert documents.html_title(page) == "수달 안내"
    assert filled(documents.html_blocks(page)) == [
        ("수달", 1), ("수달은 강에 산다.\n둘째 줄", 0), ("물고기 먹이", 0), ("이름\t날", 0), ("김\t3", 0), ("하나", 0),
        ("둘", 0),
    ]  # fmt: skip


def test_reads_deeply_nested_and_empty_pages() -> None:
    assert filled(documents.html_blocks("<div>" * 10_000 + "깊은 글")) == [("깊은 글", 0)]
    assert filled(documents.markdown_blocks("> " * 30 + "깊은 글"))[0][0].endswith("깊은 글")
    assert filled(documents.html_blocks("")) == []
    assert documents.html_title("") == ""
    assert filled(documents.markdown_blocks("")) == []
    assert next(documents.markdown_blocks("# 제목")) == DocumentBlock("제목", 1)


LONG = "수달은 맑은 강에서 물고기를 잡는다. " * 40  # 840 characters


def test_short_document_is_a_single_passage_without_its_title() -> None:
    blocks = starmap(DocumentBlock, [("여름  휴가", 1), (" 닷새를 쉰다. ",), ("",), ("신청", 2), ("한 달 전에 한다.",)])
    assert split_document(blocks) == ("여름 휴가", [Section("", "닷새를 쉰다.\n신청\n한 달 전에 한다.")])
    assert split_document([DocumentBlock("여름 휴가", 1)]) == ("", [Section("", "여름 휴가")])
    assert split_document([DocumentBlock(" \n ")]) == ("", [])


def test_splits_long_document_at_headings() -> None:
    blocks = [("안내", 1), (LONG, 0), ("강", 2), ("수달!", 3), (LONG, 0), ("수달", 2), (LONG, 0)]
    title, sections = split_document(starmap(DocumentBlock, blocks))
    assert title == "안내"
    assert [section.anchor for section in sections] == ["1", "수달", "수달-2"]
    assert sections[1].text.startswith("강\n수달!\n수달은"), "a heading without text leads the next section"


def test_joins_short_pages_and_splits_long_ones() -> None:
    texts = ["가" * 900, "나" * 900, "다" * 900, "라" * 9000]
    pages = [DocumentBlock(text, page=number) for number, text in enumerate(texts, start=1)]
    _, sections = split_document(pages)
    assert [section.anchor for section in sections[:3]] == ["page-1", "page-3", "page-4"]
    assert sections[0].text == "가" * 900 + "\n" + "나" * 900
    assert "".join(section.text for section in sections).count("라") == 9000
    assert max(len(section.text) for section in sections) <= documents.WHOLE_CHARACTERS


@pytest.mark.parametrize("separator", ["\n", " ", ""])
def test_splits_long_paragraphs_without_loss_and_groups_short_ones(separator: str) -> None:
    paragraph = separator.join(f"{number}번째 문장이다." for number in range(2000))
    _, sections = split_document([DocumentBlock(paragraph)])
    plain = "".join(section.text for section in sections)
    assert "".join(plain.split()) == "".join(paragraph.split())
    assert len({section.anchor for section in sections}) == len(sections) > 5
    _, sections = split_document([DocumentBlock(f"{number} " + "글" * 300) for number in range(20)])
    assert [section.anchor for section in sections] == ["1", "2", "3", "4"]
    assert sections[1].text.startswith("6 ")
