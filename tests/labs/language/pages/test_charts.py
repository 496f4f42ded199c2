"""What the charts of the Inside tab hold."""

import numpy as np
import pandas as pd

from mrc_workbench.labs.language.pages.in_context import grid, grid_cells, points
from mrc_workbench.labs.language.pages.predictions import over_steps


def colours(values: np.ndarray, *, share: bool) -> tuple[list[float], int]:
    names = [str(place) for place in range(len(values))]
    made = grid(grid_cells(values, names, names), names, names, title="t", share=share).to_dict()
    return made["layer"][0]["encoding"]["color"]["scale"]["domain"], len(made["layer"])


def test_colours_of_shares_begin_at_0_and_those_of_cosines_at_the_lowest() -> None:
    values = np.array([[0.4, 0.6], [0.9, 0.1]])
    assert colours(values, share=True) == ([0, 0.9], 2)
    assert colours(values, share=False) == ([0.1, 1.0], 2)


def test_a_grid_that_is_all_the_same_has_a_scale_all_the_same() -> None:
    (low, high), _ = colours(np.ones((2, 2)), share=False)
    assert low < high == 1
    assert colours(np.zeros((2, 2)), share=True)[0] == [0, 1]


def test_the_step_that_a_training_chose_is_marked_where_there_is_one() -> None:
    table = pd.DataFrame({"step": [0, 10], "word": ["배", "배"], "probability": [0.1, 0.3]})
    marks = [[one["mark"]["type"] for one in over_steps(table, ["배"], kept).to_dict()["layer"]] for kept in (0, 10)]
    assert marks == [["line", "point"], ["rule", "line", "point"]]


def test_a_large_grid_has_no_figures() -> None:
    assert colours(np.eye(14), share=True)[1] == 1


def test_all_layers_are_drawn_on_one_scale() -> None:
    table = pd.DataFrame({"number": ["1"], "label": ["1"], "x": [0.1], "y": [0.2], "sentence": ["배"]})
    encoding = points(table, 0.5).to_dict()["layer"][0]["encoding"]
    assert encoding["x"]["scale"]["domain"] == encoding["y"]["scale"]["domain"] == [-0.55, 0.55]
