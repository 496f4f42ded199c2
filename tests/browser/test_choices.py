"""Choices in the address as a browser goes back and forth, and what a narrow screen shows."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import choice_box, choose, wait_for_comparison, wait_until_idle

pytestmark = [pytest.mark.browser, pytest.mark.slow]
HEIGHT = 844
SELECTED_RETRIEVERS = "retrievers=BM25%7CLSA%7CBM25+words"


def expect_checked(page: Page, name: str) -> None:
    expect(page.get_by_role("radio", name=name, exact=True)).to_be_checked()


def expect_open_tab(page: Page, view: str) -> None:
    expect(page.get_by_role("tab", name=view, exact=True)).to_have_attribute("aria-selected", "true")


@pytest.fixture(scope="module")
def compared_page(app: str, module_page: Page) -> Page:
    """The page of a comparison without a model; no choice in its address is the default."""
    module_page.goto(f"{app}/?k=1&measure=mrr&baseline=LSA&{SELECTED_RETRIEVERS}")
    wait_for_comparison(module_page, "Run again")
    return module_page


def test_every_view_keeps_what_the_address_chose(compared_page: Page) -> None:
    page = compared_page
    for view in ("By question", "Saved", "By group", "Overview"):
        page.get_by_role("tab", name=view, exact=True).click()
        expect_open_tab(page, view)
        wait_until_idle(page)
        for name, value in (("Metric", "MRR"), ("K", "1"), ("Baseline", "LSA")):
            expect(choice_box(page, name)).to_have_value(value)
    expect(page).to_have_url(re.compile(r"(?=.*\bk=1\b)(?=.*measure=mrr)(?=.*baseline=LSA)"))


def test_address_keeps_choices_after_a_reload(compared_page: Page) -> None:
    page = compared_page
    for label, option in (
        ("K", "20"),
        ("Metric", "nDCG"),
        ("K", "10"),
        ("Metric", "Recall"),
        ("K", "50"),
        ("Metric", "Hit"),
    ):
        choose(page, choice_box(page, label), option, exact=True)
        expect(choice_box(page, label)).to_have_value(option)
    expect(page).to_have_url(re.compile(r"(?=.*\bk=50\b)(?=.*measure=hit\b)"))
    for view in ("By question", "Overview", "By question", "By group"):
        page.get_by_role("tab", name=view, exact=True).click()
        expect_open_tab(page, view)
    choose(page, choice_box(page, "K"), "20", exact=True)
    expect(page).to_have_url(re.compile(r"(?=.*\bk=20\b)(?=.*measure=hit\b)(?=.*view=where\b)"))
    page.get_by_test_id("stMain").get_by_role("button", name="BM25 words", exact=True).click()
    expect(page).to_have_url(re.compile(r"retrievers=BM25%7CLSA\b"))
    page.reload()
    expect_open_tab(page, "By group")
    expect(page.get_by_text("Hit@20").first).to_be_visible()


def test_opening_a_question_adds_a_history_entry(compared_page: Page) -> None:
    page = compared_page
    page.get_by_role("tab", name="Overview", exact=True).click()
    expect_open_tab(page, "Overview")
    expect(page).not_to_have_url(re.compile("view=(?!overview)"))  # the tab is open before the address says so
    wait_until_idle(page)
    before = page.url
    steps = page.evaluate("history.length")
    page.get_by_role("button", name="Open this question").click()
    way_back = page.locator(".st-key-why_back")
    expect(way_back).to_be_visible()
    expect(page).to_have_url(re.compile("(?=.*question=)(?=.*view=why)"))
    wait_until_idle(page)
    assert page.evaluate("history.length") == steps + 1
    page.reload()
    expect(way_back).to_be_visible()
    page.go_back()
    expect(page).to_have_url(before)
    expect_open_tab(page, "Overview")
    expect(way_back).to_have_count(0)


def test_keeps_a_click_made_while_the_page_renders(app: str, compared_page: Page) -> None:
    page = compared_page
    for k in ("5", "20"):
        page.goto("about:blank")
        page.goto(f"{app}/?{SELECTED_RETRIEVERS}")  # as from a bookmark: the buttons are there before the tables
        choice_box(page, "K").click()
        page.get_by_role("option", name=k, exact=True).click()
        expect(page).to_have_url(re.compile(rf"\bk={k}\b"))
        expect(choice_box(page, "K")).to_have_value(k)


def test_phone_shows_the_start_button_first_and_settings_on_request(app: str, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": HEIGHT})
    page.goto(f"{app}/train?train=cross-encoder&base=starter&lang=en")
    expect_checked(page, "Cross-encoder")
    start = page.get_by_role("button", name="Start training")
    expect(start).to_be_enabled()
    box = start.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < HEIGHT
    epochs = page.get_by_role("spinbutton", name="Epochs")
    more = page.get_by_text("More settings")
    objective = page.get_by_text("Objective", exact=True)
    for setting in (epochs, more, objective):
        expect(setting).to_be_hidden()
    page.get_by_text("Change the settings").click()
    for setting in (epochs, more, objective):
        expect(setting).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(page.get_by_text("Change the settings")).to_be_hidden()
    expect(epochs).to_be_visible()

    # another language has the words of a choice and not another choice
    choose(page, page.get_by_test_id("stSidebarUserContent").get_by_role("combobox").last, "한국어")
    expect(page.get_by_role("heading", level=1, name="학습")).to_be_visible()
    expect(page).to_have_url(re.compile(r"(?=.*train=cross-encoder)(?=.*base=starter)"))


def test_the_words_of_a_field_for_files_stay_inside_it(app: str, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": HEIGHT})
    page.goto(f"{app}/train?train=language-model&lang=en")
    page.get_by_text("Ablation", exact=False).first.click()
    zone = page.get_by_test_id("stFileUploaderDropzone").first
    expect(zone).to_be_visible()
    outer = zone.bounding_box()
    inner = page.get_by_test_id("stFileUploaderDropzoneInstructions").first.bounding_box()
    assert outer is not None
    assert inner is not None
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]
