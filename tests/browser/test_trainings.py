"""Trainings as two people see them who share a machine: one runs, one waits, both end; stopped and resumed."""

import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import MINUTES, open_training_form, training_states, wait_for_training, wait_until_idle

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def wait_for_steps(workspace: Path, name: str) -> None:
    end = time.monotonic() + 300
    while training_states(workspace)[name].endswith(" 0"):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_two_people_start_trainings_together(app: str, page: Page, korean_page: Page, workspace: Path) -> None:
    open_training_form(page, f"{app}/train?base=starter", "Training name", "first", ("Epochs", "300"))
    open_training_form(korean_page, f"{app}/train?base=starter", "학습 이름", "둘째", ("에폭", "2"))
    page.get_by_role("button", name="Start training").click()
    wait_for_training(workspace, "first", "running")
    # the colleague's page updates by itself; clicks now reach a settled page
    expect(korean_page.get_by_role("button", name="중지", exact=True)).to_be_visible()
    wait_until_idle(korean_page)
    korean_page.get_by_role("button", name="대기열에 추가").click()
    expect(korean_page.get_by_text("1. 둘째")).to_be_visible()
    assert training_states(workspace)["둘째"].startswith("queued")

    # each page shows both: the one at work and the one that waits
    for user_page in (page, korean_page):
        expect(user_page.get_by_role("main").get_by_text("first").first).to_be_visible()
        expect(user_page.get_by_role("main").get_by_text("1. 둘째")).to_be_visible()
    wait_for_steps(workspace, "first")
    page.get_by_role("button", name="Stop", exact=True).click()
    assert int(wait_for_training(workspace, "first", "stopped").split()[1]) > 0
    wait_for_training(workspace, "둘째", "done")
    for user_page, stopped, done in ((page, "Stopped", "Done"), (korean_page, "중지됨", "완료")):
        expect(user_page.get_by_role("main").get_by_text(stopped).first).to_be_visible()
        expect(user_page.get_by_role("main").get_by_text(done).first).to_be_visible()


def test_resumed_training_ends_with_all_its_steps(app: str, page: Page, workspace: Path) -> None:
    open_training_form(page, f"{app}/train?base=starter", "Training name", "resumed", ("Epochs", "30"))
    page.get_by_role("button", name="Start training").click()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible(timeout=2 * MINUTES)
    wait_for_training(workspace, "resumed", "running")
    wait_for_steps(workspace, "resumed")
    page.get_by_role("button", name="Stop", exact=True).click()
    step = int(wait_for_training(workspace, "resumed", "stopped").split()[1])
    expect(page.get_by_role("button", name="Resume")).to_have_count(2)  # of the first test's, and above it of this one
    wait_until_idle(page)
    page.get_by_role("button", name="Resume").first.click()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    page.goto("about:blank")  # the training continues without a page
    ended = int(wait_for_training(workspace, "resumed", "done").split()[1])
    page.goto(f"{app}/train")
    assert 0 < step < ended == 90  # 336 questions, three batches an epoch
    expect(page.get_by_role("main").get_by_text("Done").first).to_be_visible()


def test_final_states_of_both_trainings(app: str, workspace: Path) -> None:
    assert app
    final_states = {name: state.split()[0] for name, state in training_states(workspace).items()}
    assert final_states == {"first": "stopped", "둘째": "done", "resumed": "done"}
