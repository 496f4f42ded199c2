"""Actions of browser tests on a page, and what they read from it and from its workspace."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import FloatRect, Locator, Page, TimeoutError, expect

from tests.chat_server import KEY, MODEL, ChatServer

MINUTES = 60_000


def wait_until_idle(page: Page) -> None:
    """Wait until the page is rendered: a page that is being rendered loses clicks."""
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=3 * MINUTES)


def wait_for_comparison(page: Page, label: str) -> None:
    expect(page.get_by_role("button", name=label)).to_be_enabled(timeout=3 * MINUTES)


def unfold(page: Page, label: str) -> None:
    """Open the expander with this label, if it is closed."""
    wait_until_idle(page)
    fold = page.get_by_test_id("stExpander").filter(has=page.locator("summary", has_text=label)).first
    expect(fold).to_be_visible()
    if fold.locator("details").get_attribute("open") is None:
        fold.locator("summary").click()
    expect(fold.locator("details")).to_have_attribute("open", "")


def expect_no_error(page: Page) -> None:
    for kind in ("stException", "stAlertContentError"):
        expect(page.get_by_test_id(kind)).to_have_count(0)


def download(page: Page, button: str) -> Path:
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as started:
        page.get_by_role("button", name=button).click()
    path = Path(started.value.path())
    page.keyboard.press("Escape")
    return path


def read_cells(table: Locator) -> list[str]:
    """What a table shows: a canvas draws it, and holds a grid for screen readers once it is looked at."""
    table.scroll_into_view_if_needed()
    grid_cells = table.locator("canvas").first.locator("[role=gridcell]")
    expect(grid_cells.first).to_be_attached()
    return grid_cells.all_text_contents()


def first_row(_: FloatRect) -> tuple[float, float]:
    """The box that selects the first row of a table."""
    return 16, 52


def click_in(canvas: Locator, position_in: Callable[[FloatRect], tuple[float, float]], target: Locator) -> None:
    """Click a position of a canvas until `shown` appears: a canvas does not report when it listens."""
    for _ in range(10):
        expect(canvas).to_be_visible()
        box = canvas.bounding_box()
        assert box
        x, y = position_in(box)
        canvas.click(position={"x": x, "y": y})
        try:
            target.wait_for(timeout=6000)
        except TimeoutError:
            continue
        return
    expect(target).to_be_visible(timeout=1)


def use_language_model(page: Page, server: ChatServer) -> None:
    """Fill in and submit the form of the language model, which a page shows in a popover."""
    page.get_by_role("button", name=re.compile("Use a language model|Language model: none")).click()
    for name, value in (("address", server.address), ("model", MODEL), ("secret", KEY)):
        page.locator(f".st-key-answers_{name} input").fill(value)
    page.get_by_role("button", name="Use this model").click()


def choose(page: Page, menu: Locator, option: str, *, exact: bool = False) -> None:
    """Choose in a menu: one that is open while the page is drawn anew is closed by that, and opened again here."""
    offered = page.get_by_role("option", name=option, exact=exact)
    for _ in range(10):
        wait_until_idle(page)
        menu.click()
        try:
            offered.click(timeout=6000)
        except TimeoutError:
            page.keyboard.press("Escape")
            continue
        return
    raise AssertionError(f"{option} was never offered")


def choice_box(page: Page, label: str) -> Locator:
    """The box of a selection of the page, whose value is its text."""
    return page.get_by_test_id("stMain").get_by_role("combobox", name=re.compile(rf"(^|\. ){re.escape(label)}$")).first


def open_training_form(page: Page, address: str, label: str, name: str, epochs: tuple[str, str] | None = None) -> None:
    """Open the form of a training, and give it a name, and epochs by the label of their field."""
    page.goto(address)
    field = page.get_by_role("textbox", name=label)
    expect(field).to_be_visible()
    wait_until_idle(page)  # only now no form of another kind, about to be taken away, stands beside this one
    field.fill(name)
    field.press("Tab")
    if epochs:
        number = page.get_by_role("spinbutton", name=epochs[0])
        number.fill(epochs[1])
        number.press("Tab")
    wait_until_idle(page)


def training_states(workspace: Path) -> dict[str, str]:
    """The state of each training, and its step, by the training's name."""
    state_of_training = {}
    for plan_file in workspace.glob("runs/*/run.json"):  # written after the first status
        files = (plan_file, plan_file.with_name("status.json"))
        plan, status = (json.loads(file.read_text(encoding="utf-8")) for file in files)
        state_of_training[plan["name"]] = f"{status['state']} {status['step']}"
    return state_of_training


def wait_for_training(workspace: Path, name: str, state: str | tuple[str, ...], seconds: float = 400) -> str:
    """Wait until a training is in a state, or in one of several; returns its state and step."""
    end = time.monotonic() + seconds
    while not (current := training_states(workspace).get(name, "unknown")).startswith(state):
        assert time.monotonic() < end, current
        time.sleep(0.1)
    return current
