"""From a comparison to the same questions with all that was found judged, by a person's keys and a language model."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.workbench.views.ui.words import catalog
from tests.browser.driving import cells, compared, no_failure, settled, unfold, use_language_model
from tests.chat_server import KEY, MODEL, chat_server

pytestmark = [pytest.mark.browser, pytest.mark.slow]
EN = catalog("en")
SAMPLE = read_entry(CATALOG["sample"]).question_set
ASKED, COMPARED = "pool_n=2&pool_k=10", "part=all&retrievers=BM25+words%7CBM25"


def progress(page: Page) -> Locator:
    return page.get_by_text(re.compile(r"\d+ of \d+ passages judged")).first


def judged(workspace: Path) -> list[dict[str, Any]]:
    (kept,) = (workspace / "judgements").glob("*.json")
    return list(json.loads(kept.read_text(encoding="utf-8"))["questions"])


def compared_first(workspace: Path) -> str:
    return min((workspace / "comparisons").glob("*/scores.json"), key=lambda path: path.stat().st_mtime).parent.name


def test_a_list_is_judged_by_keys_and_gone_on_with_after_a_reload(app: str, page: Page, workspace: Path) -> None:
    page.goto(f"{app}/?{COMPARED}")
    compared(page, "Run again")
    unfold(page, EN["compare.notes"])
    expect(page.get_by_text(EN["compare.only_relevant"])).to_be_visible()
    settled(page)  # a page that is drawn anew loses a click
    page.get_by_role("button", name=EN["pool.begin"]).click()
    number = page.get_by_role("spinbutton", name=EN["pool.questions"])
    number.fill("2")
    number.press("Tab")
    settled(page)
    page.get_by_role("button", name=EN["pool.make"]).click()
    expect(page.get_by_role("heading", name=EN["pool.title"])).to_be_visible()
    settled(page)
    shown = progress(page)
    done, total = map(int, re.findall(r"\d+", shown.inner_text()))
    assert (done, total > 5) == (0, True)
    expect(page).to_have_url(re.compile(ASKED))
    assert "BM25" not in page.get_by_test_id("stMain").inner_text(), "nothing tells who found a passage"

    keys = ["1", "2", "3", *["2"] * (total - 3)]
    for at, key in enumerate(keys[:4], start=1):
        page.keyboard.press(key)
        expect(shown).to_have_text(f"{at} of {total} passages judged")
        settled(page)
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile(r"pool_at=4\b"))
    page.reload()
    expect(shown).to_have_text(f"4 of {total} passages judged")
    expect(page).to_have_url(re.compile(r"pool_at=4\b"))
    settled(page)
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"pool_at=5\b"))
    for at, key in enumerate(keys[4:], start=5):
        settled(page)
        page.keyboard.press(key)
        expect(shown).to_have_text(f"{at} of {total} passages judged")
    expect(page.get_by_text(EN["pool.all_done"])).to_be_visible()
    counts = {name: sum(len(one[name]) for one in judged(workspace)) for name in ("passages", "wrong", "unsure")}
    assert counts == {"passages": 1, "wrong": total - 2, "unsure": 1}
    no_failure(page)


def test_a_model_judges_the_same_list_and_how_it_agrees_is_told(app: str, page: Page, workspace: Path) -> None:
    of_person = judged(workspace)
    lists = ([id_ for one in of_person for id_ in one[name]] for name in ("passages", "wrong"))
    both = [ids[0] for ids in lists]
    right = [SAMPLE.passages[SAMPLE.row_of_passage[id_]].text for id_ in both]  # of one the person said otherwise
    page.goto(f"{app}/search?pool={compared_first(workspace)}&{ASKED}")
    total = int(re.findall(r"\d+", progress(page).inner_text())[1])
    with chat_server(lambda text: "RIGHT" if any(one in text for one in right) else "WRONG") as server:
        page.get_by_text(EN["pool.by_model"]).click()
        settled(page)  # a page that is just drawn anew loses a click
        use_language_model(page, server)
        settled(page)
        page.keyboard.press("Escape")
        page.get_by_role("button", name=EN["pool.model_begin"]).click()
        told = EN["pool.model_done"].format(model=MODEL, done=total, total=total)
        expect(page.get_by_text(told)).to_be_visible()
        assert len(server.asked) == total
        assert all("\n> " in text for text in server.texts), "passages are quoted"
        said_right = sum(any(one in text for one in right) for text in server.texts)
    settled(page)
    model, kappa, agree, count, *_ = cells(page.get_by_test_id("stDataFrame").last)
    n = total - 1  # all but the one the person was unsure of
    chance = (said_right + (n - 1) * (n - said_right)) / n**2
    assert (model, count) == (MODEL, f"{n}")
    assert float(agree) == pytest.approx(100 * (n + 1 - said_right) / n)
    assert float(kappa) == pytest.approx(((n + 1 - said_right) / n - chance) / (1 - chance))
    assert judged(workspace) == of_person
    assert not [path for path in workspace.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    no_failure(page)


def test_the_set_made_of_it_is_judged_whole(app: str, page: Page, workspace: Path) -> None:
    page.goto(f"{app}/search?pool={compared_first(workspace)}&{ASKED}&pool_at=3")
    expect(page.get_by_text(EN["pool.all_done"])).to_be_visible()
    settled(page)
    page.get_by_role("button", name=EN["pool.say_wrong"]).first.click()  # of this one the person was unsure
    expect(page.locator(".st-key-pool_wrong_2").get_by_test_id("stBaseButton-primary").first).to_be_visible()
    page.get_by_role("button", name=EN["judging.make"]).first.click()
    page.get_by_role("link", name=EN["data_page.to_compare"]).click()
    expect(page).to_have_url(re.compile(r"data=\w+&part=all"))
    page.goto(f"{app}/?{COMPARED}&{re.findall(r'data=[0-9a-f]+', page.url)[0]}")
    compared(page, "Run again")
    expect(page.get_by_text(EN["compare.judged"], exact=True)).to_be_visible()
    newest = max((workspace / "comparisons").glob("*/scores.json"), key=lambda path: path.stat().st_mtime)
    figures = json.loads(newest.read_text(encoding="utf-8"))
    assert figures["questions"] == 2
    assert [figures["retrievers"][name]["judged@10"] for name in ("BM25 words", "BM25")] == [1, 1]
    no_failure(page)
