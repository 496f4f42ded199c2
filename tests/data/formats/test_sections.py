"""Documents are one passage if they are short; longer ones are split at headings, pages or paragraphs."""

import pytest

from mrc_workbench.data.formats.sections import WHOLE_CHARACTERS, Block, Section, split_document

LONG = "수달은 맑은 강에서 물고기를 잡는다. " * 40  # 840 characters


def test_a_short_document_is_one_passage_without_its_title() -> None:
    blocks = [Block("여름  휴가", 1), Block(" 닷새를 쉰다. "), Block(""), Block("신청", 2), Block("한 달 전에 한다.")]
    assert split_document(blocks) == ("여름 휴가", [Section("", "닷새를 쉰다.\n신청\n한 달 전에 한다.")])


def test_a_heading_alone_is_the_text() -> None:
    assert split_document([Block("여름 휴가", 1)]) == ("", [Section("", "여름 휴가")])
    assert split_document([Block(" \n ")]) == ("", [])


def test_a_long_document_is_split_at_headings() -> None:
    blocks = [
        Block("안내", 1), Block(LONG), Block("강", 2), Block("수달!", 3), Block(LONG), Block("수달", 2), Block(LONG),
    ]  # fmt: skip
    title, sections = split_document(blocks)
    assert title == "안내"
    assert [section.anchor for section in sections] == ["1", "수달", "수달-2"]
    assert sections[1].text.startswith("강\n수달!\n수달은"), "a heading without text leads the next section"


def test_short_pages_are_joined_and_long_ones_split() -> None:
    pages = [
        Block("가" * 900, page=1),
        Block("나" * 900, page=2),
        Block("다" * 900, page=3),
        Block("라" * 9000, page=4),
    ]
    _, sections = split_document(pages)
    assert [section.anchor for section in sections[:3]] == ["page-1", "page-3", "page-4"]
    assert sections[0].text == "가" * 900 + "\n" + "나" * 900
    assert "".join(section.text for section in sections).count("라") == 9000
    assert max(len(section.text) for section in sections) <= WHOLE_CHARACTERS


@pytest.mark.parametrize("separator", ["\n", " ", ""])
def test_no_text_of_a_long_paragraph_is_lost(separator: str) -> None:
    paragraph = separator.join(f"{number}번째 문장이다." for number in range(2000))
    _, sections = split_document([Block(paragraph)])
    plain = "".join(section.text for section in sections)
    assert "".join(plain.split()) == "".join(paragraph.split())
    assert len({section.anchor for section in sections}) == len(sections) > 5


def test_paragraphs_of_a_long_text_are_grouped() -> None:
    _, sections = split_document([Block(f"{number} " + "글" * 300) for number in range(20)])
    assert [section.anchor for section in sections] == ["1", "2", "3", "4"]
    assert sections[1].text.startswith("6 ")
