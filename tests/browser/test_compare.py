"""A comparison in a browser: choices in the address, narrow screens, a saved comparison, tuning, a user dictionary,
adding a model, exporting, and charts for screen readers.
"""

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import FloatRect, Locator, Page, expect

from tests.browser.driving import choice_box, choose, click_in, first_row, wait_for_comparison, wait_until_idle

pytestmark = pytest.mark.browser
HEIGHT = 844
WORD = "경인선"  # Kiwi reads it as one in the question and as two in its passage
SELECTED_RETRIEVERS = "retrievers=BM25%7CLSA%7CBM25+words"


def expect_checked(page: Page, name: str) -> None:
    expect(page.get_by_role("radio", name=name, exact=True)).to_be_checked()


def expect_open_tab(page: Page, view: str) -> None:
    expect(page.get_by_role("tab", name=view, exact=True)).to_have_attribute("aria-selected", "true")


def expect_choices(page: Page, metric: str, k: str) -> None:
    for name, value in (("Metric", metric), ("K", k), ("Baseline", "LSA")):
        expect(choice_box(page, name)).to_have_value(value)


@pytest.fixture(scope="module")
def compared_page(app: str, module_page: Page) -> Page:
    """The page of a comparison without a model; no choice in its address is the default."""
    module_page.goto(f"{app}/?k=1&measure=mrr&baseline=LSA&{SELECTED_RETRIEVERS}")
    wait_for_comparison(module_page, "Run again")
    return module_page


def test_every_view_and_a_reload_keep_what_the_address_chose(compared_page: Page) -> None:
    page = compared_page
    expect_choices(page, "MRR", "1")
    for name, pressed in (("BM25", "true"), ("Dense", "false")):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_attribute("aria-pressed", pressed)
    changes = [("K", "20"), ("Metric", "nDCG"), ("K", "10"), ("Metric", "Recall"), ("K", "50"), ("Metric", "Hit")]
    for label, option in changes:
        choose(page, choice_box(page, label), option, exact=True)
        expect(choice_box(page, label)).to_have_value(option)
    expect(page).to_have_url(re.compile(r"(?=.*\bk=50\b)(?=.*measure=hit\b)"))
    for view in ("By question", "Saved", "Overview", "By question", "By group"):
        page.get_by_role("tab", name=view, exact=True).click()
        expect_open_tab(page, view)
        expect_choices(page, "Hit", "50")
    choose(page, choice_box(page, "K"), "20", exact=True)
    expect(page).to_have_url(re.compile(r"(?=.*\bk=20\b)(?=.*measure=hit\b)(?=.*baseline=LSA)(?=.*view=where\b)"))
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


def open_view(page: Page, app: str, view: str) -> Page:
    page.set_viewport_size({"width": 1280, "height": HEIGHT})
    page.goto(f"{app}/?{SELECTED_RETRIEVERS}&view={view}")
    wait_for_comparison(page, "Run again")
    wait_until_idle(page)
    return page


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


def test_a_click_in_a_saved_row_offers_to_open_it(app: str, compared_page: Page) -> None:
    page = open_view(compared_page, app, "kept")
    expect(page.get_by_text("Click a row to open it")).to_be_visible()
    table = page.get_by_test_id("stDataFrame").first
    button = page.locator(".st-key-saved_open").get_by_role("button", name="Open")
    click_in(table, middle_of_first_row, button)
    wait_until_idle(page)
    button.click()
    expect(page).to_have_url(re.compile("comparison="))


def test_the_button_of_tuning_stands_before_its_settings(app: str, compared_page: Page) -> None:
    page = open_view(compared_page, app, "tune")
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


def test_adding_offers_models_at_hand_and_takes_others(app: str, compared_page: Page) -> None:
    page = open_view(compared_page, app, "overview")
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


def test_exports_are_not_cut(app: str, compared_page: Page) -> None:
    page = open_view(compared_page, app, "overview")
    page.get_by_role("button", name="Export", exact=True).click()
    popover = page.get_by_test_id("stPopoverBody")
    for group in ("Report", "Tables", "Data", "Run again"):
        expect(popover.get_by_text(group, exact=True)).to_be_visible()
    buttons = popover.get_by_test_id("stDownloadButton")
    expect(buttons).to_have_count(9)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": HEIGHT})
        assert [n for n in range(9) if not is_whole_on_screen(buttons.nth(n), page)] == [], width
        assert is_whole_on_screen(popover.get_by_text("repeats this comparison on the command line"), page), width
    page.keyboard.press("Escape")


def test_chart_describes_itself_to_screen_readers(app: str, compared_page: Page) -> None:
    page = open_view(compared_page, app, "where")
    chart = page.get_by_test_id("stVegaLiteChart").first
    expect(chart).to_have_attribute("aria-label", re.compile(r"nDCG@10, %: .*BM25 [\d.]+ \(95% interval"))
    expect(page.get_by_role("heading", name=re.compile("^Difference from"))).to_be_visible()


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
