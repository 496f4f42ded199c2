"""The Train page in a browser: bases and presets, an estimate by itself, a queue that two people share, and a training
that is stopped, used and resumed.

No hub can be reached in tests.
"""

import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import MINUTES, open_training_form, training_states, wait_for_training, wait_until_idle

pytestmark = pytest.mark.browser
KR_SBERT = "snunlp/KR-SBERT-V40K-klueNLI-augSTS"
E5 = "multilingual-e5-small"


def test_without_the_hub_kr_sbert_is_listed_first_and_the_installed_base_offered(app: str, page: Page) -> None:
    page.goto(f"{app}/train?lang=en")
    menu = page.get_by_role("combobox", name="Base model")
    expect(menu).to_be_visible()
    wait_until_idle(page)
    menu.click()
    expect(page.get_by_role("option").first).to_have_text("KR-SBERT (Korean sentence model, about 470 MB to download)")
    page.keyboard.press("Escape")
    page.goto(f"{app}/train?lang=en&base={KR_SBERT}")
    expect(page.get_by_text("Preset: MegaBatchMarginLoss, epochs 3, batch 64.")).to_be_visible()
    buttons = page.get_by_role("button", name="Start from the")
    expect(buttons).to_contain_text([f"Start from the installed {E5}", "Start from the starter"])
    expect(page.get_by_role("button", name="Start training")).to_be_disabled()
    wait_until_idle(page)
    buttons.first.click()
    expect(page.get_by_text(f"Pretrained and installed: intfloat/{E5}")).to_be_visible()
    wait_until_idle(page)  # the earlier button is gone
    expect(page.get_by_role("button", name="Start training")).to_be_enabled()


def test_the_estimate_of_the_defaults_appears_by_itself(app: str, korean_page: Page) -> None:
    korean_page.goto(f"{app}/train?base=starter")
    expect(korean_page.get_by_text("사용 가능").first).to_be_visible(timeout=3 * MINUTES)
    expect(korean_page.get_by_text("측정 장치: CPU")).to_be_visible()
    assert korean_page.get_by_text("1~2분").count() == 0


def test_two_people_start_trainings_together(app: str, page: Page, korean_page: Page, workspace: Path) -> None:
    open_training_form(page, f"{app}/train?base=starter", "Training name", "first", ("Epochs", "300"))
    open_training_form(korean_page, f"{app}/train?base=starter", "학습 이름", "둘째", ("에폭", "1"))
    page.get_by_role("button", name="Start training").click()
    wait_for_training(workspace, "first", "running")
    # the colleague's page updates by itself; clicks now reach a settled page
    expect(korean_page.get_by_role("button", name="중지", exact=True)).to_be_visible()
    wait_until_idle(korean_page)
    korean_page.get_by_role("button", name="대기열에 추가").click()
    expect(korean_page.get_by_text("1. 둘째")).to_be_visible()
    assert training_states(workspace)["둘째"].startswith("queued")

    # each page shows both: the running and the queued training
    for user_page in (page, korean_page):
        expect(user_page.get_by_role("main").get_by_text("first").first).to_be_visible()
        expect(user_page.get_by_role("main").get_by_text("1. 둘째")).to_be_visible()
    end = time.monotonic() + 300
    while training_states(workspace)["first"].endswith(" 0"):
        assert time.monotonic() < end
        time.sleep(0.05)
    page.get_by_role("button", name="Stop", exact=True).click()
    assert int(wait_for_training(workspace, "first", "stopped").split()[1]) > 0
    wait_for_training(workspace, "둘째", "done")
    for user_page, stopped, done in ((page, "Stopped", "Done"), (korean_page, "중지됨", "완료")):
        expect(user_page.get_by_role("main").get_by_text(stopped).first).to_be_visible()
        expect(user_page.get_by_role("main").get_by_text(done).first).to_be_visible()


def test_a_stopped_training_serves_its_best_checkpoint_and_resumes(app: str, page: Page, workspace: Path) -> None:
    open_training_form(page, f"{app}/train?base=starter&lang=en", "Training name", "halted", ("Epochs", "30"))
    before = set(workspace.glob("runs/*/run.json"))
    page.get_by_role("button", name="Start training").click()
    stop = page.get_by_role("button", name="Stop", exact=True)
    expect(stop).to_be_visible(timeout=2 * MINUTES)
    wait_for_training(workspace, "halted", "running")
    (plan,) = set(workspace.glob("runs/*/run.json")) - before
    while not list(plan.parent.glob("checkpoints/*/trainer_state.json")):
        page.wait_for_timeout(100)
    stop.click()
    step = int(wait_for_training(workspace, "halted", "stopped").split()[1])
    card = page.locator(".st-key-stopped_training")
    expect(card.get_by_text("Stopped at step")).to_be_visible()
    box = card.bounding_box()
    assert box is not None
    assert box["y"] < 400  # above the form, in the first screen
    wait_until_idle(page)
    card.get_by_role("button", name="Use best checkpoint").click()
    expect(card.get_by_text("is a finished training now")).to_be_visible(timeout=3 * MINUTES)
    (best,) = workspace.glob("runs/*-step-*")
    assert (best / "model" / "README.md").is_file()
    page.get_by_role("button", name="Use in Compare").first.click()
    expect(page.get_by_text("Dense · halted").first).to_be_visible(timeout=3 * MINUTES)

    page.goto(f"{app}/train?lang=en")
    expect(page.get_by_role("button", name="Resume")).to_have_count(2)  # of this training, and of another in the list
    wait_until_idle(page)
    page.get_by_role("button", name="Resume").first.click()
    expect(stop).to_be_visible()
    page.goto("about:blank")  # the training continues without a page
    ended = int(wait_for_training(workspace, "halted", "done").split()[1])
    page.goto(f"{app}/train")
    assert 0 < step < ended == 90  # 336 questions, three batches an epoch
    expect(page.get_by_role("main").get_by_text("Done").first).to_be_visible()
    states = {name: state.split()[0] for name, state in training_states(workspace).items()}
    assert {name: states[name] for name in ("first", "둘째")} == {"first": "stopped", "둘째": "done"}
