"""From a wrongly split word to a retriever with a dictionary, and to its explanation."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import click_in, first_row, wait_until_idle

pytestmark = [pytest.mark.browser, pytest.mark.slow]
WORD = "경인선"  # Kiwi reads it as one in the question and as two in its passage


def press(page: Page, key: str) -> None:
    """Press the one button of this key: while the page is drawn anew, that of before may stand beside it."""
    wait_until_idle(page)
    button = page.locator(f".st-key-{key} button")
    expect(button).to_have_count(1)
    button.click()


def test_dictionary_word_is_saved_applied_and_explained(app: str, korean_page: Page, workspace: Path) -> None:
    page = korean_page
    page.goto(f"{app}/?retrievers=BM25&part=all&view=tune&lab=lexical")
    expect(page.get_by_role("heading", name="사용자 사전")).to_be_visible()
    press(page, "find_cut_words")
    expect(page.get_by_text(re.compile(r"질문 384개에서 단어 \d+개를 찾았습니다"))).to_be_visible()
    wait_until_idle(page)
    grid = page.locator('[class*="st-key-cut_words"]').get_by_test_id("stDataFrame")
    click_in(grid, first_row, page.get_by_role("button", name="선택한 단어 1개를 넣어 저장"))
    press(page, "save_dictionary")
    expect(page.get_by_text("내 사전 사전을 저장했습니다.").first).to_be_visible()
    (lines,) = workspace.glob("dictionaries/*/dictionary.txt")
    assert lines.read_text(encoding="utf-8") == f"{WORD}\n"

    press(page, "try_dictionary")
    apply_button = page.get_by_role("button", name=re.compile("이 설정을 쓰고 평가용 질문으로 확인"))
    expect(page.locator('[class*="st-key-lexical_table"]').get_by_test_id("stDataFrame")).to_be_visible()
    wait_until_idle(page)
    expect(apply_button).to_have_count(1)
    apply_button.click()
    expect(page.get_by_role("tab", name="요약", exact=True)).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("button", name="다시 실행")).to_be_visible()

    name = "BM25 · dictionary 내 사전"
    page.goto(f"{app}/?retrievers={quote(f'BM25|{name}')}&part=all&view=why&words={WORD}&run=now")
    expect(page.get_by_role("button", name="다시 실행")).to_be_visible()
    press(page, "why_first")
    expect(page.get_by_text("목록으로")).to_be_visible()
    page.goto(f"{page.url}&shows=scores&explained={quote(name)}")
    expect(page.get_by_text("사용자 사전을 적용했습니다.")).to_be_visible()
    expect(page.locator(".weighed .plus").first).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)


def test_the_lab_reads_in_english(app: str, page: Page) -> None:
    page.goto(f"{app}/?retrievers=BM25&part=all&view=tune&lab=lexical")
    expect(page.get_by_role("heading", name="User dictionary")).to_be_visible()
    expect(page.get_by_text("Words work with the Kiwi analyzers")).to_be_visible()
    expect(page.get_by_role("button", name="Query expansion (RM3)")).to_be_visible()
    assert not re.findall("[가-힣]", page.get_by_test_id("stMain").inner_text().replace("내 사전", ""))
