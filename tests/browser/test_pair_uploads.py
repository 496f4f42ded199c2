"""Files of sentence pairs dropped on the Data page: several become one set, and what comes later is another."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MINUTE = 60_000
HEADER = "sentence1\tsentence2\tscore\n"
ROWS = "".join(f"첫째 문장 {row}\t둘째 문장 {row}\t{row % 6}\n" for row in range(12))


def drop(page: Page, *paths: Path) -> None:
    expect(page.locator("input[type=file]")).to_have_count(1)  # the field before is taken away when the page is drawn
    page.locator("input[type=file]").set_input_files(paths)


def test_several_files_are_one_set_and_a_later_one_is_another(app: str, page: Page, tmp_path: Path) -> None:
    train, test, later = (tmp_path / name for name in ("ours_train.tsv", "ours_test.tsv", "later.tsv"))
    for path in (train, test, later):
        path.write_text(HEADER + ROWS.replace("둘째", path.stem), encoding="utf-8")
    page.goto(f"{app}/data?lang=en&sort=pairs")
    drop(page, train, test)
    expect(page.get_by_text("24 rows → 24 scored pairs")).to_be_visible(timeout=MINUTE)
    drop(page, later)
    expect(page.get_by_text("12 rows → 12 scored pairs")).to_be_visible(timeout=MINUTE)
    expect(page.get_by_text("24 rows")).to_have_count(0)
    keep = page.get_by_role("button", name="Keep this set")
    expect(keep).to_have_count(1)  # so is the button of the file before
    keep.click()
    expect(page.get_by_text("“later” is kept.")).to_be_visible(timeout=MINUTE)
    page.reload()
    expect(page.get_by_role("heading", name="Kept set: later")).to_be_visible(timeout=MINUTE)
