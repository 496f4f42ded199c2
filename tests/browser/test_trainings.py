"""Trainings as two people see them who share a machine: one runs, one waits, both end; stopped and resumed."""

import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import MINUTES, enter, settled, states, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def wait_for_steps(workspace: Path, name: str) -> None:
    end = time.monotonic() + 300
    while states(workspace)[name].endswith(" 0"):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_two_people_start_trainings_together(app: str, page: Page, korean_page: Page, workspace: Path) -> None:
    enter(page, f"{app}/train?base=starter", "Training name", "first", ("Epochs", "300"))
    enter(korean_page, f"{app}/train?base=starter", "학습 이름", "둘째", ("에폭", "2"))
    page.get_by_role("button", name="Start training").click()
    wait_for(workspace, "first", "running")
    # the colleague's page shows it by itself, and what is pressed on it now is a page that has settled
    expect(korean_page.get_by_role("button", name="중지", exact=True)).to_be_visible()
    settled(korean_page)
    korean_page.get_by_role("button", name="대기열에 추가").click()
    expect(korean_page.get_by_text("1. 둘째")).to_be_visible()
    assert states(workspace)["둘째"].startswith("queued")

    # each page shows both: the one at work and the one that waits
    for one in (page, korean_page):
        expect(one.get_by_role("main").get_by_text("first").first).to_be_visible()
        expect(one.get_by_role("main").get_by_text("1. 둘째")).to_be_visible()
    wait_for_steps(workspace, "first")
    page.get_by_role("button", name="Stop", exact=True).click()
    assert int(wait_for(workspace, "first", "stopped").split()[1]) > 0
    wait_for(workspace, "둘째", "done")
    for one, stopped, done in ((page, "Stopped", "Done"), (korean_page, "중지됨", "완료")):
        expect(one.get_by_role("main").get_by_text(stopped).first).to_be_visible()
        expect(one.get_by_role("main").get_by_text(done).first).to_be_visible()


def test_what_was_stopped_is_resumed_and_ends_with_all_its_steps(app: str, page: Page, workspace: Path) -> None:
    enter(page, f"{app}/train?base=starter", "Training name", "resumed", ("Epochs", "30"))
    page.get_by_role("button", name="Start training").click()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible(timeout=2 * MINUTES)
    wait_for(workspace, "resumed", "running")
    wait_for_steps(workspace, "resumed")
    page.get_by_role("button", name="Stop", exact=True).click()
    step = int(wait_for(workspace, "resumed", "stopped").split()[1])
    expect(page.get_by_role("button", name="Resume")).to_have_count(2)  # of the first test's, and above it of this one
    settled(page)
    page.get_by_role("button", name="Resume").first.click()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    page.goto("about:blank")  # it goes on while nobody looks
    ended = int(wait_for(workspace, "resumed", "done").split()[1])
    page.goto(f"{app}/train")
    assert 0 < step < ended == 90  # 336 questions, three batches an epoch
    expect(page.get_by_role("main").get_by_text("Done").first).to_be_visible()


def test_both_ends_are_seen_in_the_list_of_the_command(app: str, workspace: Path) -> None:
    assert app
    found = {name: state.split()[0] for name, state in states(workspace).items()}
    assert found == {"first": "stopped", "둘째": "done", "resumed": "done"}
