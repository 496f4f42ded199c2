"""Files handed in by a browser: question sets, sets of pairs, and what the fields say."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from mrc_workbench.workbench.views.ui.words import catalog
from tests.browser.driving import choose, wait_until_idle

pytestmark = [pytest.mark.browser, pytest.mark.slow]
GOOD = "질문,지문\n수도는?,서울은 수도이다.\n"
OTHER = "질문,지문\n항구는?,부산은 항구이다.\n강은?,한강은 서울을 지난다.\n"
BROKEN = '{"data": [\n{"title": '
HEADER = "sentence1\tsentence2\tscore\n"
ROWS = "".join(f"첫째 문장 {row}\t둘째 문장 {row}\t{row % 6}\n" for row in range(12))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("first.csv", GOOD), ("second.csv", OTHER)),
        (("first.json", BROKEN), ("second.csv", OTHER)),
        (("first.csv", OTHER), ("second.csv", GOOD)),
        (("same.csv", GOOD), ("same.csv", OTHER)),
    ],
)
def test_a_second_file_replaces_the_first(
    app: str, page: Page, tmp_path: Path, first: tuple[str, str], second: tuple[str, str]
) -> None:
    page.goto(f"{app}/data?lang=en")
    for folder, (name, content) in zip("ab", (first, second), strict=True):
        path = tmp_path / folder / name
        path.parent.mkdir()
        path.write_text(content, encoding="utf-8")
        page.locator("input[type=file]").set_input_files(path)
        expect(page.get_by_role("heading", name="Preview")).to_be_visible()
        wait_until_idle(page)
    counts = {GOOD: "1 row → 1 passage,", OTHER: "2 rows → 2 passages,"}[second[1]]
    expect(page.get_by_text(counts)).to_be_visible()
    page.get_by_role("button", name="Use this dataset").click()
    name = Path(second[0]).stem
    expect(page.get_by_text(f"All pages now use “{name}”.")).to_be_visible()


@pytest.mark.parametrize(("language", "button"), [("ko", "파일 선택"), ("en", "Choose a file")])
def test_the_field_speaks_the_pages_language(app: str, page: Page, language: str, button: str) -> None:
    words = catalog(language)
    page.goto(f"{app}/data?lang={language}")
    expect(page.get_by_role("button", name=button, exact=True)).to_be_visible()
    expect(page.get_by_text("Upload", exact=True)).to_be_hidden()
    limit_text = page.get_by_test_id("stFileUploaderDropzoneInstructions").evaluate(
        "field => getComputedStyle(field, '::after').content"
    )
    assert limit_text == f'"{words["upload.limit"].format(megabytes=500)}"'
    expect(page.get_by_text("500MB per file")).to_be_hidden()


def test_the_title_is_the_largest_heading_and_the_first_sight_is_quiet(app: str, page: Page) -> None:
    page.goto(f"{app}/data?lang=en")
    expect(page.get_by_role("heading", name="Set in use")).to_be_visible()
    wait_until_idle(page)
    sizes = [
        float(heading.evaluate("one => parseFloat(getComputedStyle(one).fontSize)"))
        for heading in page.get_by_role("main").get_by_role("heading").all()
    ]
    assert sizes[0] > max(sizes[1:])
    controls = page.get_by_test_id("stMain").locator("button, input, select, textarea, a[href], summary")
    assert sum(control.is_visible() for control in controls.all()) <= 20


def test_selecting_another_set_adds_a_history_entry(app: str, page: Page, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text(OTHER, encoding="utf-8")
    page.goto(f"{app}/data?lang=en")
    page.locator("input[type=file]").set_input_files(path)
    page.get_by_role("button", name="Use this dataset").click()
    expect(page.get_by_text("All pages now use “other”.")).to_be_visible()
    before = page.url
    choose(page, page.get_by_test_id("stSidebarUserContent").get_by_role("combobox").first, "Korean sample")
    expect(page.get_by_role("heading", name="Dataset in use: Korean sample")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Dataset in use: other")).to_be_visible()
    expect(page).to_have_url(before)


def upload_files(page: Page, *paths: Path) -> None:
    expect(page.locator("input[type=file]")).to_have_count(1)  # the field before is taken away when the page is drawn
    page.locator("input[type=file]").set_input_files(paths)


def test_several_files_form_a_set_and_a_later_file_another(app: str, page: Page, tmp_path: Path) -> None:
    train, test, later = (tmp_path / name for name in ("ours_train.tsv", "ours_test.tsv", "later.tsv"))
    for path in (train, test, later):
        path.write_text(HEADER + ROWS.replace("둘째", path.stem), encoding="utf-8")
    page.goto(f"{app}/data?lang=en&sort=pairs")
    upload_files(page, train, test)
    expect(page.get_by_text("24 rows → 24 scored pairs")).to_be_visible()
    upload_files(page, later)
    expect(page.get_by_text("12 rows → 12 scored pairs")).to_be_visible()
    expect(page.get_by_text("24 rows")).to_have_count(0)
    keep = page.get_by_role("button", name="Save this dataset")
    expect(keep).to_have_count(1)  # so is the button of the file before
    keep.click()
    expect(page.get_by_text("“later” was saved.")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Stored dataset: later")).to_be_visible()
