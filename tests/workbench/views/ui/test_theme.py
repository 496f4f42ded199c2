"""Colours of the app and of its charts: contrast by the formula of WCAG 2, and distances for colour-blind eyes."""

import tomllib
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.retrieval.report.charts import OUTCOME_COLOURS, PALETTE

# backgrounds of the app in a browser
LIGHT = "#ffffff"
DARK = "#171614"
# colours as seen normally, and with protanopia and deuteranopia (Machado, Oliveira and Fernandes 2009)
SIGHTS = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(first: str, second: str) -> float:
    dark, light = sorted(float(XYZ[1] @ linear(colour)) for colour in (first, second))
    return (light + 0.05) / (dark + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    ratios = XYZ @ np.clip(rgb, 0, 1) / np.array([0.9505, 1, 1.089])
    x, y, z = np.where(ratios > 0.008856, np.cbrt(ratios), 7.787 * ratios + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(first: str, second: str) -> float:
    """Return the smallest distance (CIE 1976) of two colours over these kinds of vision."""
    return min(
        float(np.linalg.norm(lab(sight @ linear(first)) - lab(sight @ linear(second)))) for sight in SIGHTS.values()
    )


def theme() -> dict[str, Any]:
    config = tomllib.loads((PROJECT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    return dict(config["theme"])


def test_contrast_matches_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("dark", [False, True])
def test_primary_button_text_is_readable(dark: bool) -> None:
    colours = theme() | (theme()["dark"] if dark else {})
    background = DARK if dark else LIGHT
    assert contrast("#ffffff", colours["primaryColor"]) >= 4.5
    assert contrast(colours["primaryColor"], background) >= 3  # such as the mark of the open tab
    assert contrast(colours.get("linkColor", colours["primaryColor"]), background) >= 4.5


def test_retriever_colours_are_distinguishable() -> None:
    assert len(set(PALETTE)) == len(PALETTE)
    nearest = min(combinations(PALETTE, 2), key=lambda pair: distance(*pair))
    assert distance(*nearest) >= 14, nearest


@pytest.mark.parametrize("background", [LIGHT, DARK])
def test_retriever_colours_are_visible_on_light_and_dark(background: str) -> None:
    assert [colour for colour in PALETTE if contrast(colour, background) < 2] == []


def test_loss_stage_colours_differ_from_retrievers_and_each_other() -> None:
    assert min(distance(*pair) for pair in combinations(OUTCOME_COLOURS.values(), 2)) >= 11
    distances = {
        stage: min(float(np.linalg.norm(lab(linear(colour)) - lab(linear(other)))) for other in PALETTE[:6])
        for stage, colour in OUTCOME_COLOURS.items()
    }
    assert {stage: far for stage, far in distances.items() if far < 25} == {}
