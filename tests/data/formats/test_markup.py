"""Text, Markdown and web pages give their headings and paragraphs, without what a reader does not see."""

from mrc_workbench.data.formats.documents import html_blocks, html_title, markdown_blocks, text_blocks
from mrc_workbench.data.formats.sections import Block


def filled(blocks: object) -> list[tuple[str, int]]:
    return [(block.text.strip(), block.level) for block in blocks if block.text.strip()]  # type: ignore[attr-defined]


def test_text_is_split_at_blank_lines() -> None:
    assert filled(text_blocks("첫 줄\r\n둘째 줄\r\n \r\n다른 문단\r\n")) == [("첫 줄\n둘째 줄", 0), ("다른 문단", 0)]


def test_markdown() -> None:
    text = (
        '---\nlayout: page\ntitle: "휴가 규정"\n---\n\n안내\n====\n\n**닷새**를 [쉰다](https://example.org/a).\n'
        "<!-- 초안 -->\n\n- 하나\n- 둘 `코드`\n\n| 이름 | 날 |\n|---|---|\n| 김 | 3 |\n\n"
        "```python\n# 주석은 제목이 아니다\n```\n\n<div>상자 &amp; 글</div>\n\n## 끝 ##\n"
    )
    assert filled(markdown_blocks(text)) == [
        ("휴가 규정", 1), ("안내", 1), ("닷새를 쉰다.", 0), ("하나", 0), ("둘 코드", 0), ("이름\t날", 0), ("김\t3", 0),
        ("# 주석은 제목이 아니다", 0), ("상자 & 글", 0), ("끝", 2),
    ]  # fmt: skip


def test_web_page() -> None:
    page = (
        "<!doctype html><html><head><title> 수달 \n 안내</title><style>p{}</style></head><body><nav>메뉴</nav>"
        "<h1><div>수달</div></h1>수달은 <b>강</b>에\n 산다.<br>둘째 줄<p>물고기&nbsp;먹이</p>"
        "<script>alert('x')</script>"
        "<table><tr><th>이름<td>날<tr><td>김<td>3</table><!-- 숨김 --><ul><li>하나<li>둘</ul><footer>끝</footer>"
    )
    assert html_title(page) == "수달 안내"
    assert filled(html_blocks(page)) == [
        ("수달", 1), ("수달은 강에 산다.\n둘째 줄", 0), ("물고기 먹이", 0), ("이름\t날", 0), ("김\t3", 0), ("하나", 0),
        ("둘", 0),
    ]  # fmt: skip


def test_a_page_that_nests_deeply_is_read() -> None:
    assert filled(html_blocks("<div>" * 50_000 + "깊은 글")) == [("깊은 글", 0)]
    assert filled(markdown_blocks("> " * 30 + "깊은 글"))[0][0].endswith("깊은 글")


def test_nothing_of_an_empty_page() -> None:
    assert filled(html_blocks("")) == []
    assert html_title("") == ""
    assert filled(markdown_blocks("")) == []
    assert next(markdown_blocks("# 제목")) == Block("제목", 1)
