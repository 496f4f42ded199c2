"""Scales and layers of the charts on the Inside tab."""

import numpy as np
import pandas as pd

from mrc_workbench.labs.language.pages.in_context import grid_cells, grid_chart, points_chart
from mrc_workbench.labs.language.pages.predictions import step_chart


def colour_domain(values: np.ndarray, *, share: bool) -> tuple[list[float], int]:
    names = [str(index) for index in range(len(values))]
    spec = grid_chart(grid_cells(values, names, names), names, names, title="t", is_fraction=share).to_dict()
    return spec["layer"][0]["encoding"]["color"]["scale"]["domain"], len(spec["layer"])


def test_fraction_colours_start_at_0_and_cosine_colours_at_minimum() -> None:
    values = np.array([[0.4, 0.6], [0.9, 0.1]])
    assert colour_domain(values, share=True) == ([0, 0.9], 2)
    assert colour_domain(values, share=False) == ([0.1, 1.0], 2)


def test_constant_grid_has_colour_scale_and_large_grid_no_labels() -> None:
    (low, high), _ = colour_domain(np.ones((2, 2)), share=False)
    assert low < high == 1
    assert colour_domain(np.zeros((2, 2)), share=True)[0] == [0, 1]
    assert colour_domain(np.eye(14), share=True)[1] == 1


def test_step_chart_marks_selected_step() -> None:
    table = pd.DataFrame({"step": [0, 10], "word": ["배", "배"], "probability": [0.1, 0.3]})
    charts = [step_chart(table, ["배"], selected_step).to_dict() for selected_step in (0, 10)]
    marks = [[layer["mark"]["type"] for layer in chart["layer"]] for chart in charts]
    assert marks == [["line", "point"], ["rule", "line", "point"]]


def test_layers_share_scale() -> None:
    table = pd.DataFrame({"number": ["1"], "label": ["1"], "x": [0.1], "y": [0.2], "sentence": ["배"]})
    encoding = points_chart(table, 0.5).to_dict()["layer"][0]["encoding"]
    assert encoding["x"]["scale"]["domain"] == encoding["y"]["scale"]["domain"] == [-0.55, 0.55]
