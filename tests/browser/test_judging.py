"""From a comparison to complete judgements of its results, by a user's keys and a language model."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.workbench.views.ui.words import catalog
from tests.browser import driving
from tests.browser.driving import expect_no_error, read_cells, unfold, wait_for_comparison, wait_until_idle
from tests.chat_server import KEY, MODEL, chat_server

pytestmark = pytest.mark.browser
EN = catalog("en")
SAMPLE = read_entry(CATALOG["sample"]).question_set
POOL_PARAMETERS = "pool_n=2&pool_k=10"
COMPARED = "part=all&retrievers=BM25+words%7CBM25"


def progress(page: Page) -> Locator:
    return page.get_by_text(re.compile(r"\d+ of \d+ passages judged")).first


def read_judgements(workspace: Path) -> list[dict[str, Any]]:
    (path,) = (workspace / "judgements").glob("*.json")
    return list(json.loads(path.read_text(encoding="utf-8"))["questions"])


def first_comparison(workspace: Path) -> str:
    return min((workspace / "comparisons").glob("*/scores.json"), key=lambda path: path.stat().st_mtime).parent.name


def test_judging_by_keyboard_continues_after_a_reload(app: str, page: Page, workspace: Path) -> None:
    page.goto(f"{app}/?{COMPARED}")
    wait_for_comparison(page, "Run again")
    unfold(page, EN["compare.notes"])
    expect(page.get_by_text(EN["compare.only_relevant"])).to_be_visible()
    wait_until_idle(page)  # a page that is drawn anew loses a click
    page.get_by_role("button", name=EN["pool.begin"]).click()
    number = page.get_by_role("spinbutton", name=EN["pool.questions"])
    number.fill("2")
    number.press("Tab")
    wait_until_idle(page)
    page.get_by_role("button", name=EN["pool.make"]).click()
    expect(page.get_by_role("heading", name=EN["pool.title"])).to_be_visible()
    wait_until_idle(page)
    progress_text = progress(page)
    done, total = map(int, re.findall(r"\d+", progress_text.inner_text()))
    assert (done, total > 5) == (0, True)
    expect(page).to_have_url(re.compile(POOL_PARAMETERS))
    assert "BM25" not in page.get_by_test_id("stMain").inner_text(), "nothing tells who found a passage"

    keys = ["1", "2", "3", *["2"] * (total - 3)]
    for at, key in enumerate(keys[:4], start=1):
        page.keyboard.press(key)
        expect(progress_text).to_have_text(f"{at} of {total} passages judged")
        wait_until_idle(page)
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile(r"pool_at=4\b"))
    page.reload()
    expect(progress_text).to_have_text(f"4 of {total} passages judged")
    expect(page).to_have_url(re.compile(r"pool_at=4\b"))
    wait_until_idle(page)
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"pool_at=5\b"))
    for at, key in enumerate(keys[4:], start=5):
        wait_until_idle(page)
        page.keyboard.press(key)
        expect(progress_text).to_have_text(f"{at} of {total} passages judged")
    expect(page.get_by_text(EN["pool.all_done"])).to_be_visible()
    counts = {
        name: sum(len(question[name]) for question in read_judgements(workspace))
        for name in ("passages", "wrong", "unsure")
    }
    assert counts == {"passages": 1, "wrong": total - 2, "unsure": 1}
    expect_no_error(page)


def test_reports_agreement_between_model_and_person(app: str, page: Page, workspace: Path) -> None:
    of_person = read_judgements(workspace)
    lists = ([id_ for entry in of_person for id_ in entry[name]] for name in ("passages", "wrong"))
    both = [ids[0] for ids in lists]
    right = [SAMPLE.passages[SAMPLE.row_of_passage[id_]].text for id_ in both]  # of one the person said otherwise
    page.goto(f"{app}/search?pool={first_comparison(workspace)}&{POOL_PARAMETERS}")
    total = int(re.findall(r"\d+", progress(page).inner_text())[1])
    with chat_server(lambda text: "RIGHT" if any(entry in text for entry in right) else "WRONG") as server:
        page.get_by_text(EN["pool.by_model"]).click()
        wait_until_idle(page)  # a page that is just drawn anew loses a click
        driving.use_language_model(page, server)
        wait_until_idle(page)
        page.keyboard.press("Escape")
        page.get_by_role("button", name=EN["pool.model_begin"]).click()
        done_message = EN["pool.model_done"].format(model=MODEL, done=total, total=total)
        expect(page.get_by_text(done_message)).to_be_visible()
        assert len(server.requests) == total
        assert all("\n> " in text for text in server.texts), "passages are quoted"
        n_right = sum(any(entry in text for entry in right) for text in server.texts)
    wait_until_idle(page)
    model, kappa, agree, count, *_ = read_cells(page.get_by_test_id("stDataFrame").last)
    n = total - 1  # all but the one the person was unsure of
    chance = (n_right + (n - 1) * (n - n_right)) / n**2
    assert (model, count) == (MODEL, f"{n}")
    assert float(agree) == pytest.approx(100 * (n + 1 - n_right) / n)
    assert float(kappa) == pytest.approx(((n + 1 - n_right) / n - chance) / (1 - chance))
    assert read_judgements(workspace) == of_person
    assert not [path for path in workspace.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    expect_no_error(page)


def test_set_from_the_pool_is_fully_judged(app: str, page: Page, workspace: Path) -> None:
    page.goto(f"{app}/search?pool={first_comparison(workspace)}&{POOL_PARAMETERS}&pool_at=3")
    expect(page.get_by_text(EN["pool.all_done"])).to_be_visible()
    wait_until_idle(page)
    page.get_by_role("button", name=EN["pool.say_wrong"]).first.click()  # of this one the person was unsure
    expect(page.locator(".st-key-pool_wrong_2").get_by_test_id("stBaseButton-primary").first).to_be_visible()
    page.get_by_role("button", name=EN["judging.make"]).first.click()
    link = page.get_by_role("link", name=EN["data_page.to_compare"])
    expect(link).to_have_attribute("href", re.compile(r"data=\w+&part=all"))  # its page would compare with all models
    page.goto(f"{app}/?{COMPARED}&{re.findall('data=[0-9a-f]+', str(link.get_attribute('href')))[0]}")
    wait_for_comparison(page, "Run again")
    expect(page.get_by_text(EN["compare.judged"], exact=True)).to_be_visible()
    newest = max((workspace / "comparisons").glob("*/scores.json"), key=lambda path: path.stat().st_mtime)
    scores = json.loads(newest.read_text(encoding="utf-8"))
    assert scores["questions"] == 2
    assert [scores["retrievers"][name]["judged@10"] for name in ("BM25 words", "BM25")] == [1, 1]
    expect_no_error(page)
