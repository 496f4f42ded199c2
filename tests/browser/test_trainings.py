"""Trainings as two people see them who share a machine: one runs, one waits, both end; stopped and resumed."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import new_page

MINUTES = 60_000
pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def colleague(browser: Browser) -> Iterator[Page]:
    """A page of another browser session, in Korean."""
    yield from new_page(browser, "ko-KR")


def state_of(workspace: Path, name: str) -> str:
    for path in workspace.glob("runs/*/run.json"):
        if json.loads(path.read_text(encoding="utf-8"))["name"] == name:
            status = json.loads(path.with_name("status.json").read_text(encoding="utf-8"))
            return f"{status['state']} {status['step']}"
    return "unknown"


def wait_for(workspace: Path, name: str, state: str, seconds: float = 400) -> str:
    end = time.monotonic() + seconds
    while not (found := state_of(workspace, name)).startswith(state):
        assert time.monotonic() < end, found
        time.sleep(0.1)
    return found


def wait_for_steps(workspace: Path, name: str) -> None:
    end = time.monotonic() + 300
    while state_of(workspace, name).endswith(" 0"):
        assert time.monotonic() < end
        time.sleep(0.05)


def enter(page: Page, address: str, label: str, name: str, epochs: tuple[str, str]) -> None:
    page.goto(address)
    field = page.get_by_role("textbox", name=label)
    expect(field).to_be_visible()
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    field.fill(name)
    field.press("Tab")
    number = page.get_by_role("spinbutton", name=epochs[0])
    number.fill(epochs[1])
    number.press("Tab")
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")


def test_two_people_start_trainings_together(app: str, page: Page, colleague: Page, workspace: Path) -> None:
    enter(page, f"{app}/train?base=starter", "Name of this training", "first", ("Epochs", "300"))
    enter(colleague, f"{app}/train?base=starter", "학습 이름", "둘째", ("에폭", "2"))
    page.get_by_role("button", name="Start training").click()
    wait_for(workspace, "first", "running")
    # the colleague's page shows it by itself, and what is pressed on it now is a page that has settled
    expect(colleague.get_by_role("button", name="멈추기", exact=True)).to_be_visible()
    colleague.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    colleague.get_by_role("button", name="대기열에 추가").click()
    expect(colleague.get_by_text("1. 둘째")).to_be_visible()
    assert state_of(workspace, "둘째").startswith("queued")

    # each page shows both: the one at work and the one that waits
    for one in (page, colleague):
        expect(one.get_by_role("main").get_by_text("first").first).to_be_visible()
        expect(one.get_by_role("main").get_by_text("1. 둘째")).to_be_visible()
    wait_for_steps(workspace, "first")
    page.get_by_role("button", name="Stop", exact=True).click()
    assert int(wait_for(workspace, "first", "stopped").split()[1]) > 0
    wait_for(workspace, "둘째", "done")
    for one, stopped, done in ((page, "Stopped", "Done"), (colleague, "멈춤", "완료")):
        expect(one.get_by_role("main").get_by_text(stopped).first).to_be_visible()
        expect(one.get_by_role("main").get_by_text(done).first).to_be_visible()


def test_what_was_stopped_is_resumed_and_ends_with_all_its_steps(app: str, page: Page, workspace: Path) -> None:
    enter(page, f"{app}/train?base=starter", "Name of this training", "resumed", ("Epochs", "60"))
    page.get_by_role("button", name="Start training").click()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible(timeout=2 * MINUTES)
    wait_for(workspace, "resumed", "running")
    wait_for_steps(workspace, "resumed")
    page.get_by_role("button", name="Stop", exact=True).click()
    step = int(wait_for(workspace, "resumed", "stopped").split()[1])
    expect(page.get_by_role("button", name="Resume")).to_have_count(2)  # of the first test's, and above it of this one
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    page.get_by_role("button", name="Resume").first.click()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    page.goto("about:blank")  # it goes on while nobody looks
    ended = int(wait_for(workspace, "resumed", "done").split()[1])
    page.goto(f"{app}/train")
    assert 0 < step < ended == 180  # 336 questions, three batches an epoch
    expect(page.get_by_role("main").get_by_text("Done").first).to_be_visible()


def test_both_ends_are_seen_in_the_list_of_the_command(app: str, workspace: Path) -> None:
    states = {
        json.loads(path.read_text(encoding="utf-8"))["name"]: json.loads(
            path.with_name("status.json").read_text(encoding="utf-8")
        )["state"]
        for path in workspace.glob("runs/*/run.json")
    }
    assert app
    assert states == {"first": "stopped", "둘째": "done", "resumed": "done"}
