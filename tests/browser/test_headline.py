"""The first page of a comparison: the recommendation, the first table, tabs that stay in place, one leading metric."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import choice_box, choose, read_cells, wait_for_comparison, wait_until_idle

pytestmark = [pytest.mark.browser, pytest.mark.slow]
TABS = ("Overview", "By group", "By question", "Tune", "Deploy", "Saved")
TALLEST = 1600  # pixels
FONT_SIZE = "element => parseFloat(getComputedStyle(element).fontSize)"


@pytest.fixture(scope="module")
def sample(app: str, module_page: Page) -> Page:
    """The first visit: the sample compared by default. Tests that only read come first."""
    module_page.goto(app)
    wait_for_comparison(module_page, "Run again")
    wait_until_idle(module_page)
    return module_page


def headline(page: Page) -> str:
    return page.locator(".st-key-headline").inner_text()


def tabs_top(page: Page) -> float:
    box = page.get_by_role("tablist").first.bounding_box()
    assert box is not None
    return box["y"]


def test_recommendation_is_the_largest_text_under_the_title(sample: Page) -> None:
    answer = sample.locator(".st-key-headline p").first
    expect(answer).to_contain_text(re.compile(r"^Use .+: nDCG@10 \d\d\.\d"))
    expect(answer).to_contain_text("above BM25 (95%: ")
    size = answer.evaluate(FONT_SIZE)
    others = sample.get_by_test_id("stMainBlockContainer").locator("h2, h3, h4, h5, h6, p, button, input, label")
    sizes = others.evaluate_all("elements => elements.map(one => parseFloat(getComputedStyle(one).fontSize))")
    assert max(sizes) == size
    title = sample.get_by_role("heading", level=1).evaluate(FONT_SIZE)
    assert title > size


def test_three_sections_are_headings(sample: Page) -> None:
    sections = sample.get_by_test_id("stMain").get_by_role("heading", level=3)
    expect(sections).to_have_text(["Conclusion", "Where they differ", "How sure"])


def test_first_table_shows_latency_with_the_best_retriever_first(sample: Page) -> None:
    table = sample.get_by_test_id("stDataFrame").first
    table_cells = read_cells(table)
    headers = table.locator("canvas").first.locator("[role=columnheader]").all_text_contents()
    assert [header.strip() for header in headers][-1] == "ms per query"
    rows = [table_cells[start : start + len(headers)] for start in range(0, len(table_cells), len(headers))]
    leading = [float(row[1]) for row in rows]
    assert leading == sorted(leading, reverse=True)
    assert all(float(row[-1]) > 0 for row in rows)  # a canvas renders the asterisk, and the caption explains it
    expect(sample.get_by_text("* Measured on another machine")).to_be_visible()


def test_charts_describe_their_finding(sample: Page) -> None:
    described = sample.locator("[aria-label*='points (']")
    expect(described.first).to_be_attached()


def test_tabs_do_not_move_and_the_overview_is_short(sample: Page) -> None:
    height = "document.querySelector('[data-testid=stMainBlockContainer]').getBoundingClientRect().height"
    assert sample.evaluate(height) <= TALLEST
    tops = {}
    for tab in TABS:
        sample.get_by_role("tab", name=tab, exact=True).click()
        expect(sample.get_by_role("tab", name=tab, exact=True)).to_have_attribute("aria-selected", "true")
        wait_until_idle(sample)
        sample.evaluate("document.querySelector('[data-testid=stMain]').scrollTo(0, 0)")
        tops[tab] = tabs_top(sample)
    assert len(set(tops.values())) == 1, tops


def test_saved_tab_uses_the_leading_metric(sample: Page) -> None:
    choose(sample, choice_box(sample, "Metric"), "Recall")
    expect(sample.locator(".st-key-headline")).to_contain_text("Recall@10")
    wait_until_idle(sample)
    sample.get_by_role("tab", name="Saved", exact=True).click()
    table = sample.get_by_test_id("stDataFrame").first
    expect(table).to_be_visible()
    wait_until_idle(sample)
    table.scroll_into_view_if_needed()
    headers = table.locator("canvas").first.locator("[role=columnheader]")
    expect(headers.filter(has_text="Best Recall@10")).to_be_attached()
