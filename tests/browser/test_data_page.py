"""The Data page in a browser: replaced files, the upload field, the sample file, names, and several files of a set."""

import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from mrc_workbench.data.files import temporary_folder
from mrc_workbench.data.questions.read import read
from mrc_workbench.workbench.views.ui.words import catalog
from tests.browser.conftest import running_app
from tests.browser.driving import choose, wait_until_idle
from tests.programs import free_port

pytestmark = [pytest.mark.browser, pytest.mark.slow]
GOOD = "질문,지문\n수도는?,서울은 수도이다.\n"
OTHER = "질문,지문\n항구는?,부산은 항구이다.\n강은?,한강은 서울을 지난다.\n"
BROKEN = '{"data": [\n{"title": '
HEADER = "sentence1\tsentence2\tscore\n"
ROWS = "".join(f"첫째 문장 {row}\t둘째 문장 {row}\t{row % 6}\n" for row in range(12))


def upload_files(page: Page, folder: Path, *files: tuple[str, str | bytes]) -> None:
    """Drop files on the page together, as a person does from a folder."""
    paths = []
    for name, content in files:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        paths.append(path)
    wait_until_idle(page)
    field = page.locator("input[type=file]")
    expect(field).to_have_count(1)  # the field before is taken away when the page is drawn
    field.set_input_files(paths)


def expect_alert(page: Page, text: str) -> None:
    """Expect one box on the page, with this text."""
    box = page.get_by_test_id("stAlert")
    expect(box.filter(has_text=text)).to_have_count(1)
    wait_until_idle(page)
    expect(box).to_have_count(1)


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
    for file in (first, second):
        upload_files(page, tmp_path, file)
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
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, ("other.csv", OTHER))
    page.get_by_role("button", name="Use this dataset").click()
    expect(page.get_by_text("All pages now use “other”.")).to_be_visible()
    before = page.url
    choose(page, page.get_by_test_id("stSidebarUserContent").get_by_role("combobox").first, "Korean sample")
    expect(page.get_by_role("heading", name="Dataset in use: Korean sample")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Dataset in use: other")).to_be_visible()
    expect(page).to_have_url(before)


def test_several_files_form_a_set_and_a_later_file_another(app: str, page: Page, tmp_path: Path) -> None:
    train, test, later = (
        (name, HEADER + ROWS.replace("둘째", name)) for name in ("ours_train.tsv", "ours_test.tsv", "later.tsv")
    )
    page.goto(f"{app}/data?lang=en&sort=pairs")
    upload_files(page, tmp_path, train, test)
    expect(page.get_by_text("24 rows → 24 scored pairs")).to_be_visible()
    upload_files(page, tmp_path, later)
    expect(page.get_by_text("12 rows → 12 scored pairs")).to_be_visible()
    expect(page.get_by_text("24 rows")).to_have_count(0)
    keep = page.get_by_role("button", name="Save this dataset")
    expect(keep).to_have_count(1)  # so is the button of the file before
    keep.click()
    expect(page.get_by_text("“later” was saved.")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Stored dataset: later")).to_be_visible()


def test_the_sample_csv_downloads_and_reads(app: str, page: Page, tmp_path: Path) -> None:
    page.goto(f"{app}/data?lang=en")
    expect(page.get_by_text("CSV · TSV · Excel · JSON")).to_be_visible()
    wait_until_idle(page)
    with page.expect_download() as started:
        page.get_by_role("button", name="Download a sample CSV").click()
    content = Path(started.value.path()).read_bytes()
    assert content.startswith(b"\xef\xbb\xbf"), "spreadsheets read UTF-8 by its mark"
    assert len(read(content, "sample.csv").question_set.questions) == 4
    upload_files(page, tmp_path, (started.value.suggested_filename, content))
    expect_alert(page, "4 rows → 3 passages, 4 questions")


def test_a_dataset_is_named_and_renamed(app: str, page: Page, tmp_path: Path) -> None:
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, ("my30_cp949.csv", OTHER.encode("cp949")))
    name = page.get_by_role("textbox", name="Name", exact=True)
    expect(name).to_have_value("my30_cp949")
    name.fill("City questions")
    name.press("Tab")
    wait_until_idle(page)
    page.get_by_role("button", name="Use this dataset").click()
    expect(page.get_by_text("All pages now use “City questions”.")).to_be_visible()
    wait_until_idle(page)
    address = page.url
    page.get_by_text("Stored datasets").click()
    page.get_by_role("button", name="Rename").first.click()
    name.fill("도시 질문")
    name.press("Tab")
    wait_until_idle(page)
    page.get_by_role("button", name="Save name").click()
    expect(page.get_by_role("heading", name="Dataset in use: 도시 질문")).to_be_visible()
    assert page.url == address
    page.reload()
    expect(page.get_by_role("heading", name="Dataset in use: 도시 질문")).to_be_visible()


def test_the_app_removes_what_killed_processes_left(tmp_path: Path) -> None:
    left = [tmp_path / ".reading.abcd1234", tmp_path / "users" / "u" / "judgements" / ".f.json.abcd1234"]
    for folder in left:
        folder.mkdir(parents=True)
        (folder / ".in-use").touch()  # its lock is free
    with temporary_folder(".reading.", tmp_path) as held, running_app(tmp_path, free_port()):
        end = time.monotonic() + 60
        while any(folder.exists() for folder in left):
            assert time.monotonic() < end, "they are still there"
            time.sleep(0.1)
        assert held.is_dir(), "its process lives"
