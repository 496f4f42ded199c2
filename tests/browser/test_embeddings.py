"""The Embeddings page in a real browser: measured on the first visit, looked into, and taken to Compare."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import wait_until_idle


@pytest.fixture(scope="module")
def requested_urls() -> list[str]:
    """The addresses that the page asks for, from its first visit on."""
    return []


@pytest.fixture(scope="module")
def opened(app: str, module_page: Page, requested_urls: list[str]) -> Page:
    """The page with an evaluation of the starter and the available base on the sample."""
    page = module_page
    page.on("request", lambda request: requested_urls.append(request.url))
    page.goto(f"{app}/embeddings?lang=en&models=starter")
    page.get_by_role("button", name="Measure", exact=True).click()
    expect(page.get_by_text(re.compile("reaches a Spearman of"))).to_be_visible()
    return page


def test_a_press_measures_and_every_view_opens(opened: Page) -> None:
    expect(opened.get_by_role("heading", level=1)).to_have_text("Which model compares sentences as people do?")
    expect(opened.get_by_test_id("stDataFrame").first).to_be_visible()
    tabs = {"Disagreements": (), "Vectors": ("Density", "Spread"), "Search and cost": ("Cost", "Retrieval")}
    for name, views in tabs.items():
        opened.get_by_role("tab", name=name).click()
        expect(opened.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
        expect(opened).to_have_url(re.compile("look="))
        for view in views:
            opened.get_by_role("radio", name=view).click()
            expect(opened).to_have_url(re.compile(f"{view.lower().replace('spread', 'space')}"))
            expect(opened.get_by_text("Something went wrong")).to_have_count(0)


def test_compares_typed_sentences(opened: Page) -> None:
    opened.get_by_role("tab", name="Your sentences").click()
    expect(opened.get_by_text("Show as a table to copy")).to_be_visible()
    field = opened.get_by_role("textbox", name="Sentences, one per line")
    typed = "비가 온다.\n비가 내린다.\n기차가 달린다."
    field.fill(typed)
    field.press("Control+Enter")
    opened.get_by_text("Show as a table to copy").click()
    expect(opened.get_by_test_id("stCode")).to_contain_text("3. 기차가 달린다.")
    opened.reload()
    expect(opened.get_by_role("textbox", name="Sentences, one per line")).to_have_value(typed)


def test_models_become_retrievers_without_external_requests(app: str, opened: Page, requested_urls: list[str]) -> None:
    opened.get_by_role("tab", name="Vectors").click()
    opened.get_by_role("radio", name="Map").click()
    expect(opened.get_by_test_id("stDeckGlJsonChart").locator("canvas").first).to_be_visible()
    wait_until_idle(opened)
    opened.wait_for_timeout(1000)  # time to ask, for a map's tiles say
    opened.get_by_role("button", name=re.compile("Search with")).click()
    expect(opened.get_by_role("heading", level=1)).to_have_text("Which search finds the answers in your documents?")
    expect(opened).to_have_url(re.compile(r"retrievers=BM25%7C"))
    for name in ("Data", "Search", "Train"):
        opened.get_by_role("link", name=name, exact=True).first.click()
        expect(opened.get_by_role("heading", level=1)).to_have_text(name)
        wait_until_idle(opened)
    opened.wait_for_timeout(1000)
    own = (app, app.replace("http", "ws"), "data:", "blob:")
    assert [url for url in requested_urls if not url.startswith(own)] == []
    assert any("/_stcore/" in url for url in requested_urls)
