"""Choices that lie in the address, as a browser shows them: clicked, after a reload, in another language."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_first_visit import compared

pytestmark = [pytest.mark.browser, pytest.mark.slow]
VIEWS = ("Overview", "Where", "Why")


def checked(page: Page, name: str) -> None:
    expect(page.get_by_role("radio", name=name, exact=True)).to_be_checked()


def opened(page: Page, view: str) -> None:
    expect(page.get_by_role("tab", name=view, exact=True)).to_have_attribute("aria-selected", "true")


def test_what_is_clicked_lies_in_the_address_and_is_there_after_a_reload(app: str, page: Page) -> None:
    page.goto(f"{app}/?k=5&measure=ndcg")
    compared(page, "Run again")
    checked(page, "5")
    checked(page, "nDCG")
    # each choice more than once, and faster than the page is drawn: none may be lost, whatever was chosen before
    for name in ("20", "MRR", "Why", "Overview", "50", "Hit", "Why", "Where"):
        if name in VIEWS:
            page.get_by_role("tab", name=name, exact=True).click()
            opened(page, name)
            # a view has controls of its own: a click on one that is just being replaced is lost
            page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
        else:
            page.get_by_role("radio", name=name, exact=True).click()
            checked(page, name)
    expect(page).to_have_url(re.compile(r"(?=.*\bk=50\b)(?=.*measure=hit\b)(?=.*view=where\b)"))
    page.get_by_test_id("stMain").get_by_role("button", name="Dense", exact=True).click()
    expect(page).to_have_url(re.compile("BM25%7CHybrid%7CReranked"))
    page.reload()
    for name in ("50", "Hit"):
        checked(page, name)
    opened(page, "Where")
    expect(page.get_by_text("Hit@50").first).to_be_visible()


def test_another_language_has_the_words_of_a_choice_and_not_another_choice(app: str, page: Page) -> None:
    page.goto(f"{app}/train?train=cross-encoder&base=starter&lang=en")
    checked(page, "Cross-encoder")
    page.get_by_test_id("stSidebarUserContent").get_by_role("combobox").last.click()
    page.get_by_role("option", name="한국어").click()
    expect(page.get_by_role("heading", level=1, name="학습")).to_be_visible()
    expect(page).to_have_url(re.compile(r"(?=.*train=cross-encoder)(?=.*base=starter)"))
