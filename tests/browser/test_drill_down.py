"""From a lost question to its reason: as a person clicks, and as a shared address shows it."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import new_page
from tests.browser.driving import click_in, first_row, wait_for_comparison, wait_until_idle

pytestmark = pytest.mark.browser
RETRIEVERS = "BM25%7CLSA"  # LSA: its vectors can be explained word by word


def quadrant(page: Page, key: str) -> int:
    label = page.locator(f".st-key-why_quadrant_{key}").inner_text()
    return int(re.findall(r"[\d,]+", label)[0].replace(",", ""))


def heading(page: Page) -> Locator:
    return page.get_by_test_id("stMain").get_by_role("heading", level=3)


def expect_question_list(page: Page) -> None:
    """The Why view of the sample, the questions that BM25 puts first and LSA does not."""
    expect(page.get_by_role("tab", name="By question", exact=True)).to_have_attribute("aria-selected", "true")
    summary = re.compile(r"^\d+ of 480 questions: BM25 finds it in the top 1, LSA does not")
    expect(page.get_by_text(summary)).to_be_visible()


def test_from_a_lost_question_to_its_reason_and_a_shared_address(app: str, page: Page, browser: Browser) -> None:
    page.goto(f"{app}/?k=1&retrievers={RETRIEVERS}")
    wait_for_comparison(page, "Run again")
    page.get_by_role("tab", name="By question", exact=True).click()
    expect(page.get_by_text("Where each retriever ranks the answer passage")).to_be_visible()
    wait_until_idle(page)  # the charts of the view before are gone
    expect(page.get_by_test_id("stVegaLiteChart")).to_be_visible()
    count = quadrant(page, "only_first")
    assert count > 0
    page.locator(".st-key-why_quadrant_only_first button").click()
    expect_question_list(page)
    expect(page.get_by_text(f"{count} of 480 questions")).to_be_visible()

    page.locator(".st-key-why_first button").click()
    expect(page.get_by_text(re.compile(rf"^1 of {count} · BM25 finds it"))).to_be_visible()
    question = heading(page).inner_text()
    reasons = page.locator("p.reason")
    expect(reasons).to_have_count(2)
    expect(reasons.nth(0)).to_contain_text("BM25 ranks the answer passage first.")
    cosine = re.compile(r"LSA ranks the answer passage at \d+\. Cosine of the answer passage: 0\.\d+")
    expect(reasons.nth(1)).to_contain_text(cosine)
    expect(page.locator(".results-head")).to_have_count(2)
    expect(page.locator(".results .gold u").first).to_be_visible()

    page.get_by_role("radio", name="How scores are computed").click()
    sums_line = page.get_by_text(re.compile(r"Answer passage \(rank \d+\): 0\.\d+ · wrong passage \(rank 1\)"))
    expect(sums_line).to_be_visible()
    expect(page.locator(".weighed .plus").first).to_be_visible()
    sums = sums_line.inner_text()

    with new_page(browser, "en-US") as other:
        other.goto(page.url)
        expect(heading(other)).to_have_text(question)
        expect(other.get_by_text(re.compile(rf"^1 of {count} · BM25 finds it"))).to_be_visible()
        expect(other.get_by_text(sums)).to_be_visible()
        other.locator(".st-key-why_back button").click()
        expect_question_list(other)
        expect(other.get_by_text(f"{count} of 480 questions")).to_be_visible()


def test_a_block_of_the_map_and_a_row_of_the_list_are_clicked(app: str, page: Page) -> None:
    page.goto(f"{app}/?k=1&view=why&retrievers={RETRIEVERS}")
    wait_for_comparison(page, "Run again")
    chart = page.get_by_test_id("stVegaLiteChart").locator("canvas, svg").first
    first_block = page.get_by_text("one block of the map: BM25 ranks it 1")
    click_in(chart, lambda box: (box["width"] * 0.3, 20), first_block)
    page.locator(".st-key-why_clear button").click()
    expect(page.get_by_text("All 480 questions")).to_be_visible()
    grid = page.locator('[class*="st-key-why_list"]').get_by_test_id("stDataFrame")
    # that of the block stands beside it until the page is drawn
    wait_until_idle(page)
    expect(grid).to_have_count(1)
    click_in(grid, first_row, page.get_by_text("1 of 480 · all questions"))


def test_marks_a_hard_negative_in_the_menu_of_a_column(app: str, page: Page, workspace: Path) -> None:
    page.goto(f"{app}/?view=why&retrievers={RETRIEVERS}")
    wait_for_comparison(page, "Run again")
    page.locator(".st-key-why_first button").click()
    menus = page.get_by_test_id("stExpander").filter(has_text="Use as hard negative")
    for _ in range(20):  # questions that measure models have none
        expect(page.locator(".results-head")).to_have_count(2)
        wait_until_idle(page)
        if menus.count():
            break
        page.locator(".st-key-why_after button").click()
    expect(menus).to_have_count(2)
    menus.first.locator("summary").click()
    menus.first.get_by_test_id("stCheckbox").first.locator("label").click()
    expect(menus.first.get_by_role("checkbox").first).to_be_checked()
    back = page.locator(".st-key-why_back button")
    expect(back).to_have_count(1)  # for a moment the new element stands beside the one it replaces
    back.click()
    expect(page.get_by_text("Your notes and hard negatives (1)")).to_be_visible()
    (remark_file,) = (workspace / "remarks").glob("*.json")
    assert len(json.loads(remark_file.read_text(encoding="utf-8"))["negatives"]) == 1
