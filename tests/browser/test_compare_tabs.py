"""The tabs of Compare in a browser: a saved comparison, tuning, adding a model, exporting, and charts for the ear."""

import re

import pytest
from playwright.sync_api import FloatRect, Locator, Page, expect

from tests.browser.driving import click_in, wait_for_comparison, wait_until_idle

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SELECTED_RETRIEVERS = "retrievers=BM25%7CLSA%7CBM25+words"


@pytest.fixture(scope="module")
def compared_page(app: str, module_page: Page) -> Page:
    """The page of a finished comparison that needs no transformer."""
    module_page.goto(f"{app}/?{SELECTED_RETRIEVERS}")
    wait_for_comparison(module_page, "Run again")
    return module_page


@pytest.fixture
def page(compared_page: Page) -> Page:
    compared_page.set_viewport_size({"width": 1280, "height": 900})
    return compared_page


def open_view(page: Page, app: str, view: str) -> None:
    page.goto(f"{app}/?{SELECTED_RETRIEVERS}&view={view}")
    wait_for_comparison(page, "Run again")
    wait_until_idle(page)


def middle_of_first_row(box: FloatRect) -> tuple[float, float]:
    """A place far from the box that selects the first row of a table."""
    return box["width"] / 2, 52


def is_whole_on_screen(part: Locator, page: Page) -> bool:
    part.scroll_into_view_if_needed()
    box = part.bounding_box()
    size = page.viewport_size
    assert box
    assert size
    return box["x"] >= 0 and box["x"] + box["width"] <= size["width"] and box["y"] + box["height"] <= size["height"]


def test_a_click_in_a_saved_row_offers_to_open_it(page: Page, app: str) -> None:
    open_view(page, app, "kept")
    expect(page.get_by_text("Click a row to open it")).to_be_visible()
    table = page.get_by_test_id("stDataFrame").first
    button = page.locator(".st-key-saved_open").get_by_role("button", name="Open")
    click_in(table, middle_of_first_row, button)
    wait_until_idle(page)
    button.click()
    expect(page).to_have_url(re.compile("comparison="))


def test_the_button_of_tuning_stands_before_its_settings(page: Page, app: str) -> None:
    open_view(page, app, "tune")
    start = page.get_by_test_id("stBaseButton-primary").filter(has_text=re.compile(r"Try \d+ settings"))
    expect(start).to_be_visible()
    expect(page.get_by_text("Tries ")).to_be_visible()
    analyzers = page.get_by_text("Character bigrams", exact=True).first
    expect(analyzers).to_be_visible()  # what will be tried is not folded away
    above = start.bounding_box()
    below = analyzers.bounding_box()
    assert above
    assert below
    assert above["y"] < below["y"]
    expect(page.get_by_test_id("stAlertContainer")).to_have_count(0)


def test_adding_offers_models_at_hand_and_takes_others(page: Page, app: str) -> None:
    open_view(page, app, "overview")
    page.get_by_role("button", name="Add", exact=True).click()
    popover = page.get_by_test_id("stPopoverBody")
    expect(popover.get_by_text("Choose a model, or type")).to_be_visible()
    box = popover.locator(".st-key-add_dense_model").get_by_role("combobox")
    box.click()
    expect(page.get_by_role("option").first).to_be_visible()
    assert page.get_by_role("option").count() >= 1
    box.fill("intfloat/multilingual-e5-base")
    page.keyboard.press("Enter")
    wait_until_idle(page)
    expect(popover.get_by_text("Choose a model, or type")).to_have_count(0)
    expect(popover.get_by_test_id("stBaseButton-primary")).to_be_enabled()
    page.keyboard.press("Escape")


@pytest.mark.parametrize("width", [1280, 390])
def test_exports_are_not_cut(page: Page, app: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    open_view(page, app, "overview")
    page.get_by_role("button", name="Export", exact=True).click()
    popover = page.get_by_test_id("stPopoverBody")
    for group in ("Report", "Tables", "Data", "Run again"):
        expect(popover.get_by_text(group, exact=True)).to_be_visible()
    buttons = popover.get_by_test_id("stDownloadButton")
    expect(buttons).to_have_count(9)
    assert [n for n in range(9) if not is_whole_on_screen(buttons.nth(n), page)] == []
    assert is_whole_on_screen(popover.get_by_text("repeats this comparison on the command line"), page)
    page.keyboard.press("Escape")


def test_chart_describes_itself_to_screen_readers(page: Page, app: str) -> None:
    open_view(page, app, "where")
    chart = page.get_by_test_id("stVegaLiteChart").first
    expect(chart).to_have_attribute("aria-label", re.compile(r"nDCG@10, %: .*BM25 [\d.]+ \(95% interval"))
    expect(page.get_by_role("heading", name=re.compile("^Difference from"))).to_be_visible()
