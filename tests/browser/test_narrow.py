"""What a phone shows first, and what it shows when asked."""

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]
HEIGHT = 844


def test_a_training_can_be_started_without_scrolling_and_its_settings_come_when_asked_for(app: str, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": HEIGHT})
    page.goto(f"{app}/train?base=starter&lang=en")
    start = page.get_by_role("button", name="Start training")
    expect(start).to_be_enabled()
    box = start.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < HEIGHT
    epochs, more = page.get_by_role("spinbutton", name="Epochs"), page.get_by_text("More settings")
    objective = page.get_by_text("Objective", exact=True)
    for setting in (epochs, more, objective):
        expect(setting).to_be_hidden()
    page.get_by_text("Change the settings").click()
    for setting in (epochs, more, objective):
        expect(setting).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(page.get_by_text("Change the settings")).to_be_hidden()
    expect(epochs).to_be_visible()


def test_the_words_of_a_field_for_files_stay_inside_it(app: str, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": HEIGHT})
    page.goto(f"{app}/train?train=language-model&lang=en")
    page.get_by_text("Ablation", exact=False).first.click()
    zone = page.get_by_test_id("stFileUploaderDropzone").first
    expect(zone).to_be_visible()
    outer, inner = zone.bounding_box(), page.get_by_test_id("stFileUploaderDropzoneInstructions").first.bounding_box()
    assert outer is not None
    assert inner is not None
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]
