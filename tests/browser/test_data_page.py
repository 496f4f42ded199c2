"""The Data page in a browser: files that cannot be read, the sample file, names, and too few questions to judge."""

import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from mrc_workbench.data.files import temporary_folder
from mrc_workbench.data.questions.read import read
from tests.browser.conftest import running_app
from tests.browser.driving import wait_until_idle
from tests.data.formats.test_refusals import DOCX, HWPX, PDF
from tests.data.formats.written_documents import pdf
from tests.programs import free_port

pytestmark = [pytest.mark.browser, pytest.mark.slow]
GOOD = "질문,지문\n수도는?,서울은 수도이다.\n바다는?,부산은 항구이다.\n강은?,한강은 서울을 지난다.\n"


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


def expect_alert(page: Page, text: str | re.Pattern[str]) -> None:
    """Expect one box on the page, with this text."""
    box = page.get_by_test_id("stAlert")
    expect(box.filter(has_text=text)).to_have_count(1)
    wait_until_idle(page)
    expect(box).to_have_count(1)


def test_new_file_replaces_an_unreadable_file(app: str, page: Page, tmp_path: Path) -> None:
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, ("manual.docx", DOCX))
    expect_alert(page, "The document cannot be read")
    upload_files(page, tmp_path, ("empty.csv", " "))
    expect_alert(page, "The file is empty")
    upload_files(page, tmp_path, ("only.csv", "질문\n수도는?\n바다는?\n"))
    expect_alert(page, "No Passage column found")
    upload_files(page, tmp_path, ("good.csv", GOOD))
    expect_alert(page, "All rows were read without a problem.")
    expect(page.get_by_role("heading", name="Preview: good")).to_be_visible()
    for name in ("manual.docx", "empty.csv", "only.csv"):
        expect(page.get_by_text(name)).to_have_count(0)


def test_files_that_were_not_read_are_named_beside_those_that_were(app: str, page: Page, tmp_path: Path) -> None:
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, ("manual.docx", DOCX), ("good.csv", GOOD))
    expect_alert(page, re.compile(r"3 rows → 3 passages.*not read: 1, such as manual\.docx", re.DOTALL))
    expect(page.get_by_text("All rows were read")).to_have_count(0)


def test_files_that_are_all_refused_are_named_with_their_reasons(app: str, page: Page, tmp_path: Path) -> None:
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, ("manual.docx", DOCX), ("cut.json", '{"data": ['))
    expect_alert(page, re.compile(r"manual\.docx: The document cannot be read.*cut\.json: The JSON ends", re.DOTALL))
    expect(page.get_by_role("button", name="Use this dataset")).to_have_count(0)
    upload_files(page, tmp_path, ("good.csv", GOOD))
    expect_alert(page, "All rows were read without a problem.")


@pytest.mark.parametrize("file", [("a.docx", DOCX), ("a.pdf", PDF), ("a.hwpx", HWPX)])
def test_a_broken_document_says_what_to_do(
    app: str, korean_page: Page, tmp_path: Path, file: tuple[str, bytes]
) -> None:
    korean_page.goto(f"{app}/data?lang=ko")
    upload_files(korean_page, tmp_path, file)
    expect_alert(korean_page, "문서를 읽을 수 없습니다")
    expect(korean_page.get_by_test_id("stAlert")).to_contain_text("텍스트(.txt)")


def test_documents_become_passages(app: str, korean_page: Page, tmp_path: Path) -> None:
    korean_page.goto(f"{app}/data?lang=ko")
    upload_files(
        korean_page, tmp_path, ("수달.md", "# 수달\n\n수달은 강에 산다."), ("곰.pdf", pdf(["곰은 산에 산다."]))
    )
    expect_alert(korean_page, re.compile("지문 2개"))


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_sample_csv_downloads_and_reads(app: str, page: Page, tmp_path: Path, language: str) -> None:
    page.goto(f"{app}/data?lang={language}")
    expect(page.get_by_text("CSV · TSV · Excel · JSON")).to_be_visible()
    wait_until_idle(page)
    with page.expect_download() as started:
        page.get_by_role("button", name={"en": "Download a sample CSV", "ko": "예시 CSV 내려받기"}[language]).click()
    content = Path(started.value.path()).read_bytes()
    assert content.startswith(b"\xef\xbb\xbf"), "spreadsheets read UTF-8 by its mark"
    assert len(read(content, "sample.csv").question_set.questions) == 4
    upload_files(page, tmp_path, (started.value.suggested_filename, content))
    expect_alert(page, {"en": "4 rows → 3 passages, 4 questions", "ko": "행 4개 → 지문 3개, 질문 4개"}[language])


def test_a_dataset_is_named_and_renamed(app: str, page: Page, tmp_path: Path) -> None:
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, ("my30_cp949.csv", GOOD.encode("cp949")))
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


def test_few_questions_have_no_verdict_and_links_appear_once(app: str, page: Page, tmp_path: Path) -> None:
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, ("few.csv", GOOD))
    expect(page.get_by_text("Too few questions (3) to tell")).to_be_visible()
    expect(page.get_by_text("hard for BM25")).to_have_count(0)
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("heading", name="Preview")).to_have_count(0)
    wait_until_idle(page)
    for label in ("Compare with this dataset", "Train with this dataset", "Search this dataset"):
        expect(page.get_by_role("link", name=label)).to_have_count(1)


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
