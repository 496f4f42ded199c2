"""Files of every kind on the Data page: the report on reading, the selection, the preview, and the use."""

import re
from pathlib import Path

import pytest
from datasets import Dataset, DatasetDict
from playwright.sync_api import Locator, Page, expect

from tests.browser.driving import (
    MINUTES,
    choice_box,
    choose,
    expect_no_error,
    read_cells,
    wait_for_comparison,
    wait_until_idle,
)
from tests.browser.test_data_page import expect_alert, upload_files
from tests.data.layouts.public_layouts import LAYOUTS
from tests.data.layouts.test_files import NAMING, SHARDS
from tests.data.layouts.written import beir, zipped

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CRANE = "재두루미는 겨울이면 들판에 내려앉아 낟알을 주워 먹는다."
OTTER = "수달은 해가 지면 강가로 나와 물고기를 사냥한다."
OWL = "수리부엉이는 바위 벼랑에 둥지를 튼다."
Q_CRANE = "재두루미는 겨울에 무엇을 먹나?"
Q_OTTER = "수달은 언제 사냥하나?"


BEIR = {name.rpartition("/")[2]: content for name, content in beir().items()}
KINDS: dict[str, tuple[dict[str, bytes], str, list[str]]] = {
    "labels": (
        {"labels.csv": f"질문,지문,관련도,메모\n{Q_CRANE},{CRANE},1,가\n{Q_CRANE},{OTTER},0,나\n".encode()},
        "2 passages, 1 question",
        ["관련도", "Unused: 메모"],
    ),
    "positives and negatives": (
        {"train.jsonl": LAYOUTS["FlagEmbedding"].content},
        "3 passages, 3 questions",
        ["pos", "neg"],
    ),
    "parts of SQuAD": (
        SHARDS["SQuAD"],
        "3 passages, 3 questions",
        ["As published in the files: Training 1, Validation 1, Test 1"],
    ),
    "questions that name documents": (NAMING["Korean"], "4 passages, 3 questions", ["Files: 2"]),
    "documents": (
        {
            "재두루미.txt": CRANE.encode(),
            "수달.md": f"# 수달\n\n{OTTER}\n".encode(),
            "수리부엉이.html": f"<html><body><h1>수리부엉이</h1><p>{OWL}</p></body></html>".encode(),
        },
        "3 passages",
        ["Files: 3"],
    ),
}


SIDEWAYS = """() => {
    const main = document.querySelector("[data-testid=stMain]")
    return main.scrollWidth - main.clientWidth
}"""


def report(page: Page) -> Locator:
    """The box of the preview with its report."""
    return page.get_by_test_id("stMain")


def use(page: Page) -> None:
    wait_until_idle(page)
    page.get_by_role("button", name="Use this dataset").click()
    expect(page.get_by_text("All pages now use")).to_be_visible()
    expect_no_error(page)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_file_is_reported_and_used(app: str, page: Page, tmp_path: Path, kind: str) -> None:
    files, counts, expected_texts = KINDS[kind]
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, *files.items())
    expect(page.get_by_role("heading", name="Preview:")).to_be_visible()
    wait_until_idle(page)
    expect(page.get_by_test_id("stAlert").first).to_contain_text(counts)
    for words in expected_texts:
        expect(report(page)).to_contain_text(words)
    expect_no_error(page)
    use(page)


def test_a_stored_dataset_of_hugging_face_keeps_its_parts(app: str, page: Page, tmp_path: Path) -> None:
    def rows(question: str, context: str, id_: str) -> Dataset:
        return Dataset.from_dict({"id": [id_], "question": [question], "context": [context]})

    folder = tmp_path / "stored"
    DatasetDict({"train": rows(Q_CRANE, CRANE, "1"), "validation": rows(Q_OTTER, OTTER, "2")}).save_to_disk(str(folder))
    files = {f"stored/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in folder.rglob("*.*")}
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, ("stored.zip", zipped(files)))
    expect(page.get_by_role("heading", name="Preview:")).to_be_visible()
    expect(page.get_by_test_id("stAlert").first).to_contain_text("2 passages, 2 questions")
    expect(report(page)).to_contain_text("As published in the files: Training 1, Validation 0, Test 1")
    use(page)


FAQ = "질문,답변\n배송은 며칠 걸리나요?,보통 사흘이면 도착합니다.\n환불은 어디서 하나요?,마이페이지에서 신청합니다.\n"


def test_answers_of_a_faq_are_searched_at_a_click(app: str, page: Page, tmp_path: Path) -> None:
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, ("faq.csv", FAQ))
    expect_alert(page, "Search the answers")
    expect(page.get_by_role("button", name="Use this dataset")).to_have_count(0)
    page.get_by_role("button", name="Search the answers").click()
    use(page)
    expect(page.get_by_role("heading", name="Dataset in use: faq")).to_be_visible()


def test_offers_both_readings_with_their_first_rows(app: str, page: Page, tmp_path: Path) -> None:
    rows = f"물음표,가칸,나칸\n{Q_CRANE},{CRANE},{OWL}\n{Q_OTTER},{OTTER},{OWL[:-1]}!\n"
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, ("two.csv", rows.replace("물음표", "질문")))
    expect_alert(page, "choose it with the fields below")
    expect(page.get_by_role("heading", name="Choose how to read the file")).to_be_visible()
    second = page.get_by_test_id("stVerticalBlock").filter(has_text="Passage ← 나칸").last
    assert OWL in " ".join(read_cells(second.get_by_test_id("stDataFrame").first))
    second.get_by_role("button", name="Read it this way").click()
    expect(page.get_by_role("button", name="Use this dataset")).to_be_visible()
    wait_until_idle(page)
    expect(choice_box(page, "Passage")).to_have_value("나칸")
    expect(page.get_by_test_id("stAlert").first).to_contain_text("2 rows → 2 passages, 2 questions")
    choose(page, choice_box(page, "Passage"), "가칸")  # the choice can be changed afterwards
    wait_until_idle(page)
    expect(choice_box(page, "Passage")).to_have_value("가칸")
    use(page)


LONG = "지나치게_긴_이름의_열_" * 5
REFUSED: dict[str, list[tuple[str, str | bytes]]] = {
    "faq": [("faq.csv", FAQ)],
    "faqs": [("train.csv", FAQ), ("test.csv", "질문,답변\n교환은 되나요?,이레 안에 됩니다.\n")],
    "two-columns": [("two.csv", f"질문,{LONG}가,{LONG}나\n{Q_CRANE},{CRANE},{OWL}\n{Q_OTTER},{OTTER},{OWL[:-1]}!\n")],
    "evaluation": [
        ("ragas.csv", f"question,retrieved_contexts,reference\n{Q_CRANE},{OTTER},낟알\n{Q_OTTER},{OWL},물고기\n")
    ],
    "file-names": [("golden.csv", f"question,expected_answer,source_doc\n{Q_CRANE},낟알을 먹는다,crane.md\n")],
    "no-known-name": [("rows.csv", f"x,y\n1,{CRANE}\n2,{OTTER}\n")],
}


@pytest.mark.parametrize("kind", REFUSED)
def test_every_refused_table_has_a_choice_that_makes_it_usable(app: str, page: Page, tmp_path: Path, kind: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, *REFUSED[kind])
    expect(page.get_by_role("heading", name="Choose how to read the file")).to_be_visible()
    wait_until_idle(page)
    expect(page.get_by_test_id("stAlert")).to_contain_text("below")
    expect(report(page)).not_to_contain_text("--columns")
    assert page.evaluate(SIDEWAYS) == 0
    page.get_by_role("button", name=re.compile("Search the answers|Read it this way")).first.click()
    expect(page.get_by_role("button", name="Use this dataset")).to_be_visible()
    assert page.evaluate(SIDEWAYS) == 0
    use(page)


def test_compares_a_selected_dataset_at_once(app: str, page: Page, tmp_path: Path) -> None:
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, *REFUSED["faqs"])
    page.get_by_role("button", name="Search the answers").click()
    use(page)
    page.get_by_role("link", name="Compare with this dataset").click()
    wait_for_comparison(page, "Run again")
    expect(page.get_by_text("Too few questions are compared: 3.")).to_be_visible()


def test_too_few_test_questions_are_marked_where_they_are_used(app: str, page: Page, tmp_path: Path) -> None:
    parts = [*["train"] * 30, *["validation"] * 20, *["test"] * 3]
    rows = "".join(f"{row}번 규정은 무엇인가?,{row}번 규정이다.,{part}\n" for row, part in enumerate(parts))
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, ("rules.csv", f"질문,지문,split\n{rows}"))
    expect(report(page)).to_contain_text("Too few test questions: 3.")
    use(page)
    page.get_by_role("link", name="Train with this dataset").click()
    expect(page.get_by_test_id("stAlert").filter(has_text="Too few test questions: 3.")).to_be_visible()


def test_asks_for_the_encoding_of_text_with_a_broken_byte(app: str, page: Page, tmp_path: Path) -> None:
    content = f"질문,지문\n{Q_CRANE},{CRANE}\n{Q_OTTER},{OTTER}\n".encode("cp949")
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, ("old.csv", content[:60] + b"\xff" + content[60:]))
    expect_alert(page, "Encoding")
    expect(report(page)).not_to_contain_text("--encoding")
    choose(page, choice_box(page, "Encoding"), "CP949")
    page.get_by_role("button", name="Read in this encoding").click()
    expect(page.get_by_role("button", name="Use this dataset")).to_be_visible()
    expect(page.get_by_test_id("stAlert").first).to_contain_text("2 rows → 2 passages, 2 questions")


def test_a_folder_of_documents_is_uploaded_with_its_progress(app: str, page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "문서"
    for number in range(30):
        path = folder / f"부서{number % 4}" / f"문서 {number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# 문서 {number}\n\n{number}번째 규정은 {number + 1}월에 바뀌었다.\n", encoding="utf-8")
    page.goto(f"{app}/data?lang=en")
    wait_until_idle(page)
    page.get_by_text("Upload a folder").click()
    wait_until_idle(page)
    expect(page.get_by_role("button", name="Choose a folder")).to_be_visible()
    field = page.locator("input[type=file]")
    expect(field).to_have_attribute("webkitdirectory", "")
    field.set_input_files(folder)
    expect(page.get_by_role("heading", name="Preview:")).to_be_visible(timeout=2 * MINUTES)
    expect(page.get_by_test_id("stAlert").first).to_contain_text("30 passages")
    expect(page.get_by_role("heading", name="Files: 30")).to_be_visible()
    use(page)


def test_an_odd_file_is_named_and_the_others_are_read(app: str, page: Page, tmp_path: Path) -> None:
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, *BEIR.items(), ("broken.json", b'{"data": ['))
    expect(page.get_by_role("heading", name="Preview:")).to_be_visible()
    box = page.get_by_test_id("stAlert").first
    expect(box).to_contain_text("5 passages, 3 questions")
    expect(report(page)).to_contain_text("broken.json")
    use(page)


def test_a_refused_file_leaves_the_dataset_in_use(app: str, page: Page, tmp_path: Path) -> None:
    page.goto(f"{app}/data?lang=en")
    upload_files(page, tmp_path, *KINDS["labels"][0].items())
    expect(page.get_by_role("button", name="Use this dataset")).to_be_visible()
    use(page)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "a" * 64 + "\nsize 12345\n"
    upload_files(page, tmp_path, ("big.json", pointer))
    expect_alert(page, "LFS")
    expect(page.get_by_role("heading", name="Dataset in use: labels")).to_be_visible()
