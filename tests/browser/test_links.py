"""Links are stable: an address shows the same later and reports missing content, a click is one step in the history,
and a lost question leads to its reason, by clicks and by a shared address.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from mrc_workbench.workbench.views.ui.words import catalog
from tests.browser.conftest import new_page
from tests.browser.driving import MINUTES, click_in, first_row, wait_for_comparison, wait_until_idle

pytestmark = pytest.mark.browser
EN = catalog("en")
KO = catalog("ko")
FIRST = "retrievers=BM25%7CBM25+words"
SECOND = "retrievers=BM25%7CLSA"  # LSA: its vectors can be explained word by word


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A new page, whose history begins with the test."""
    with new_page(browser, "en-US") as page:
        yield page


@pytest.fixture(scope="module")
def link(app: str, module_page: Page) -> str:
    """The address of a question of a comparison, after which another comparison was made."""
    page = module_page
    page.goto(f"{app}/?{FIRST}")
    wait_for_comparison(page, EN["compare.run_again"])
    page.get_by_role("tab", name=EN["compare.view_why"], exact=True).click()
    page.locator(".st-key-why_first button").click()
    expect(page.locator(".st-key-why_back")).to_be_visible()
    wait_until_idle(page)
    expect(page).to_have_url(re.compile(r"(?=.*comparison=[0-9a-f]{16})(?=.*part=all)(?=.*question=)"))
    address = page.url
    page.goto(f"{app}/?{SECOND}&run=now")
    wait_for_comparison(page, EN["compare.run_again"])
    expect(page).not_to_have_url(re.compile(re.search("comparison=[0-9a-f]+", address)[0]))  # type: ignore[index]
    page.goto("about:blank")  # the page takes part in no test
    return address


def test_a_link_opens_the_same_question_of_the_same_comparison_later(link: str, page: Page) -> None:
    page.goto(link)
    expect(page.locator(".st-key-why_back")).to_be_visible()
    wait_until_idle(page)
    assert page.url == link
    main = page.get_by_test_id("stMain")
    expect(main.get_by_text("BM25 words").first).to_be_visible()
    expect(main.get_by_text(re.compile("There is no question|no question with the ID"))).to_have_count(0)
    page.reload()
    expect(page.locator(".st-key-why_back")).to_be_visible()
    wait_until_idle(page)
    assert page.url == link


def test_copy_link_puts_the_address_into_the_clipboard(link: str, page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(link)
    page.get_by_role("button", name=EN["app.copy_link"]).click()
    expect(page.get_by_text(EN["app.link_copied"])).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_opening_and_an_early_click_add_a_history_entry_each(app: str, link: str, page: Page) -> None:
    assert link
    page.goto(f"{app}/?{FIRST}")
    tab = page.get_by_role("tab", name=EN["compare.view_why"], exact=True)
    tab.click()  # as soon as it is there
    expect(page).to_have_url(re.compile("view=why"))
    wait_until_idle(page)
    assert page.evaluate("history.length") == 3  # of the empty tab, the address and the click


def test_back_from_another_page_is_the_question_at_once(link: str, page: Page) -> None:
    page.goto(link)
    expect(page.locator(".st-key-why_back")).to_be_visible()
    wait_until_idle(page)
    steps = page.evaluate("history.length")
    page.get_by_test_id("stTopNavLink").filter(has_text=EN["page.data"]).click()
    expect(page.get_by_role("heading", level=1, name=EN["page.data"])).to_be_visible()
    wait_until_idle(page)
    assert page.evaluate("history.length") == steps + 1
    page.go_back()
    expect(page.locator(".st-key-why_back")).to_be_visible()
    expect(page).to_have_url(link)


def test_each_click_adds_a_history_entry(app: str, page: Page) -> None:
    page.goto(f"{app}/?{FIRST}")
    wait_for_comparison(page, EN["compare.run_again"])
    wait_until_idle(page)
    page.get_by_role("tab", name=EN["compare.view_why"], exact=True).click()
    page.locator(".st-key-why_first button").wait_for()
    wait_until_idle(page)
    list_url = page.url
    steps = page.evaluate("history.length")
    page.locator(".st-key-why_first button").click()
    expect(page.locator(".st-key-why_back")).to_be_visible()
    wait_until_idle(page)
    question_url = page.url
    for name in ("search", "train"):
        page.get_by_test_id("stTopNavLink").filter(has_text=EN[f"page.{name}"]).click()
        expect(page.get_by_role("heading", level=1, name=EN[f"{name}.title"])).to_be_visible()
        wait_until_idle(page)
    assert page.evaluate("history.length") == steps + 3
    page.go_back()
    expect(page.get_by_role("heading", level=1, name=EN["search.title"])).to_be_visible()
    page.go_back()
    expect(page).to_have_url(question_url)
    page.go_back()
    expect(page).to_have_url(list_url)


@pytest.mark.parametrize("address", ["/nopage", "/a/b/c/"])
def test_an_address_of_no_page_says_so_and_shows_no_other(app: str, korean_page: Page, address: str) -> None:
    page = korean_page
    page.goto(f"{app}{address}")
    expect(page.get_by_text(f"{address} 페이지는 없습니다.")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_have_count(0)
    expect(page).to_have_title("없는 페이지 – MRC 워크벤치")
    page.get_by_test_id("stMain").get_by_role("link", name="비교 페이지로 가기").click()
    expect(page.get_by_role("heading", level=1, name=KO["compare.purpose"])).to_be_visible()
    expect(page.get_by_text(address)).to_have_count(0)


def test_title_and_language_of_the_document_follow_the_page(app: str, link: str, page: Page) -> None:
    assert link
    for path, language, title in (
        ("", "ko", "비교 · 한국어 샘플 – MRC 워크벤치"),
        ("/search", "en", "Search · Korean sample – MRC Workbench"),
    ):
        page.goto(f"{app}{path}?lang={language}")
        expect(page).to_have_title(title, timeout=3 * MINUTES)
        expect(page.locator("html")).to_have_attribute("lang", language)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)


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
    page.goto(f"{app}/?k=1&{SECOND}")
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
    page.goto(f"{app}/?k=1&view=why&{SECOND}")
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
    page.goto(f"{app}/?view=why&{SECOND}")
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
