"""The Train page in a browser: bases and presets, an estimate by itself, a stopped training and its best model.

No hub can be reached in tests.
"""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import MINUTES, open_training_form, wait_for_training, wait_until_idle

pytestmark = [pytest.mark.browser, pytest.mark.slow]
KR_SBERT = "snunlp/KR-SBERT-V40K-klueNLI-augSTS"
E5 = "multilingual-e5-small"


def test_kr_sbert_is_listed_first_with_its_size_and_preset(app: str, page: Page) -> None:
    page.goto(f"{app}/train?lang=en")
    menu = page.get_by_role("combobox", name="Base model")
    expect(menu).to_be_visible()
    wait_until_idle(page)
    menu.click()
    expect(page.get_by_role("option").first).to_have_text("KR-SBERT (Korean sentence model, about 470 MB to download)")
    page.keyboard.press("Escape")
    page.goto(f"{app}/train?lang=en&base={KR_SBERT}")
    expect(page.get_by_text("Preset: MegaBatchMarginLoss, epochs 3, batch 64.")).to_be_visible()


def test_without_the_hub_the_installed_base_is_offered_first(app: str, page: Page) -> None:
    page.goto(f"{app}/train?lang=en&base={KR_SBERT}")
    buttons = page.get_by_role("button", name="Start from the")
    expect(buttons).to_contain_text([f"Start from the installed {E5}", "Start from the starter"])
    expect(page.get_by_role("button", name="Start training")).to_be_disabled()
    wait_until_idle(page)
    buttons.first.click()
    expect(page.get_by_text(f"Pretrained and installed: intfloat/{E5}")).to_be_visible()
    expect(page.get_by_role("button", name="Start training")).to_be_enabled()


def test_the_estimate_of_the_defaults_appears_by_itself(app: str, korean_page: Page) -> None:
    korean_page.goto(f"{app}/train?base=starter")
    expect(korean_page.get_by_text("사용 가능").first).to_be_visible(timeout=3 * MINUTES)
    expect(korean_page.get_by_text("측정 장치: CPU")).to_be_visible()
    assert korean_page.get_by_text("1~2분").count() == 0


def test_a_stopped_training_is_seen_at_once_and_its_best_checkpoint_serves(
    app: str, page: Page, workspace: Path
) -> None:
    open_training_form(page, f"{app}/train?base=starter&lang=en", "Training name", "halted", ("Epochs", "300"))
    page.get_by_role("button", name="Start training").click()
    wait_for_training(workspace, "halted", "running")
    while not list(workspace.glob("runs/*/checkpoints/*/trainer_state.json")):
        page.wait_for_timeout(100)
    page.get_by_role("button", name="Stop", exact=True).click()
    wait_for_training(workspace, "halted", "stopped")
    card = page.locator(".st-key-stopped_training")
    expect(card.get_by_text("Stopped at step")).to_be_visible()
    box = card.bounding_box()
    assert box is not None
    assert box["y"] < 400  # above the form, in the first screen
    wait_until_idle(page)
    expect(card.get_by_role("button", name="Resume")).to_be_visible()
    card.get_by_role("button", name="Use best checkpoint").click()
    expect(card.get_by_text("is a finished training now")).to_be_visible(timeout=3 * MINUTES)
    run_folders = [path.parent for path in workspace.glob("runs/*-step-*/run.json")]
    assert len(run_folders) == 1
    assert (run_folders[0] / "model" / "README.md").is_file()
    page.get_by_role("button", name="Use in Compare").first.click()
    expect(page.get_by_text("Dense · halted").first).to_be_visible(timeout=3 * MINUTES)
