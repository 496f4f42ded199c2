"""Files dropped one after the other on the Data page: the newest is the one that is looked at."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MINUTE = 60_000
GOOD = "질문,지문\n수도는?,서울은 수도이다.\n"
OTHER = "질문,지문\n항구는?,부산은 항구이다.\n강은?,한강은 서울을 지난다.\n"
BROKEN = '{"data": [\n{"title": '


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
        expect(page.get_by_role("heading", name="Preview")).to_be_visible(timeout=MINUTE)
        page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    rows = len(second[1].splitlines()) - 1
    expect(page.get_by_text(f"{rows} rows → {rows} passages")).to_be_visible(timeout=MINUTE)
    page.get_by_role("button", name="Use this set").click()
    name = Path(second[0]).stem
    expect(page.get_by_text(f"Every page now uses “{name}”.")).to_be_visible(timeout=MINUTE)
