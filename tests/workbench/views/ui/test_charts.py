"""Charts: height, ticks, margins, and descriptions for screen readers; colours of the app and its charts: contrast by
the formula of WCAG 2, and distances for colour-blind eyes.
"""

import ast
import json
import tomllib
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
import streamlit as st
import vl_convert

from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.labs.embeddings.pages.cosines import matrix_chart, ridge_chart
from mrc_workbench.labs.embeddings.pages.measures import geometry_chart
from mrc_workbench.labs.language.pages.predictions import pooling_chart, prediction_chart
from mrc_workbench.retrieval.report.charts import OUTCOME_COLOURS, PALETTE, legend, mark_character
from mrc_workbench.workbench.views.compare import bench, where
from mrc_workbench.workbench.views.train import charts as run_charts
from mrc_workbench.workbench.views.ui import charts

NAMES = ["BM25", "Dense", "Late", "LSA"]
VIEWS = PROJECT / "workbench" / "views"


@pytest.fixture(autouse=True)
def _english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "query_params", {"lang": "en"})


def differences(*names: str) -> pd.DataFrame:
    rows = [(name, 7.0 + index, 4.0 + index, 10.0 + index) for index, name in enumerate(names)]
    return pd.DataFrame(rows, columns=["Retriever", "difference", "low", "high"])


def recalls() -> pd.DataFrame:
    rows = [(name, k, 0.5 + k / 100, 0.45 + k / 100, 0.55 + k / 100) for name in NAMES for k in (1, 10)]
    return pd.DataFrame(rows, columns=["Retriever", "K", "Recall", "low", "high"])


def spec(chart: Any) -> dict[str, Any]:
    vega_spec: dict[str, Any] = chart.to_dict()
    return vega_spec


def test_forest_keeps_table_order_describes_rows_and_scales_height() -> None:
    tables = (differences("Dense"), differences("Late", "Dense"), differences("Dense", "Late", "LSA"))
    single, two, three = (spec(charts.forest(table, NAMES, x="points", detail="Retriever")) for table in tables)
    assert single["height"] <= 120
    assert three["height"] - single["height"] == 2 * (single["height"] - 60)
    (order,) = [layer["encoding"]["y"]["sort"] for layer in two["layer"] if layer["mark"]["type"] == "point"]
    assert order == ["Late", "Dense"]
    description = "points: Late +7.0 (95% interval +4.0 to +10.0); Dense +8.0 (95% interval +5.0 to +11.0)."
    assert two["description"] == description
    (domain,) = [layer["encoding"]["x"]["scale"]["domain"] for layer in single["layer"] if "x2" in layer["encoding"]]
    assert domain[0] < 0  # no line lies on the border
    assert domain[1] > 10


def test_legend_follows_table_order() -> None:
    table = recalls().sort_values("Retriever", ascending=False, kind="stable")
    chart = spec(charts.curves(table, NAMES, x="K", y="Recall", detail="Retriever"))
    assert chart["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["Late", "LSA", "Dense", "BM25"]
    assert "BM25 from 51.0% (1) to 60.0% (10)" in chart["description"]


def test_dashes_untrained_curves_in_chart_and_legend() -> None:
    chart = spec(charts.curves(recalls(), NAMES, x="K", y="Recall", detail="Retriever", dashed=["Dense"]))
    (line,) = (layer["encoding"] for layer in chart["layer"] if "strokeDash" in layer["encoding"])
    dashes = dict(zip(line["strokeDash"]["scale"]["domain"], line["strokeDash"]["scale"]["range"], strict=True))
    assert {name for name, dash in dashes.items() if dash != [1, 0]} == {"Dense"}
    (legend_spec,) = vl_convert.vegalite_to_vega(chart)["legends"]
    symbols = [legend_spec[name] for name in ("symbolType", "stroke", "strokeDash")]
    assert symbols == ["stroke", "color", "strokeDash"]
    labels = legend_spec["encode"]["labels"]["update"]["text"]["signal"]
    assert all(json.dumps(f"{mark_character(name, NAMES)} {name}") in labels for name in dashes)


def test_limits_ticks_and_padding_of_every_chart() -> None:
    assert legend().to_dict()["symbolOpacity"] == 1
    rendered = charts.render_chart("en", charts.forest, differences("Late"), NAMES, x="points", detail="Retriever")
    assert 5 <= rendered["config"]["axisQuantitative"]["tickCount"] <= 8
    assert rendered["config"]["legend"]["offset"] <= 8
    assert rendered["padding"]["bottom"] <= 8


def test_hides_axis_labels_beyond_100_percent() -> None:
    scale, axis = charts.percent_scale(0.6, 1.0)
    low, high = scale.to_dict()["domain"]
    assert low < 0.6
    assert high > 1
    assert axis.to_dict()["labelExpr"].startswith("datum.value > 1.0001 ? ''")


def test_describes_lost_questions_by_stage() -> None:
    labels = ["low", "nowhere", "low"]
    table = pd.DataFrame({"retriever": ["BM25", "BM25", "Mix"], "label": labels, "count": [45, 7, 17]})
    fates = {"low": "below", "nowhere": "not_found"}
    chart = spec(where.lost_questions(table, order=["BM25", "Mix"], fates=fates, x="lost questions"))
    assert chart["description"] == "lost questions: BM25 52 (low 45, nowhere 7); Mix 17 (low 17)."


def test_describes_best_setting() -> None:
    rows = [("a", "rrf", 0.2, 0.81), ("b", "rrf", 0.4, 0.84), ("", "ceiling", 0.4, 0.99)]
    table = pd.DataFrame(rows, columns=["name", "fusion", "x", "value"])
    table = table.assign(low=table["value"] - 0.02, high=table["value"] + 0.02)
    look = {"detail": ("fusion", "Fusion"), "names": ["rrf", "ceiling"], "ordinal": False}
    chart = spec(bench.bands(table, "b", x="weight", y="nDCG@10", **look))
    assert chart["description"] == "nDCG@10: the best of 2 settings reaches 84.0% (rrf, weight 0.4)."


def test_describes_first_and_last_value_of_training_curves() -> None:
    table = pd.DataFrame({"run": ["now", "now"], "step": [0, 20], "value": [0.5, 0.61]})
    chart = run_charts._chart("ndcg@10", table, ["now"], ["#009E73"], 20, bm25=0.7, best_point=None)
    assert spec(chart)["description"] == "nDCG@10: now from 50.0% (0) to 61.0% (20); BM25 70.0%."


def test_dashes_and_greys_training_question_curves() -> None:
    table = pd.DataFrame({"run": ["judge", "beside"], "step": [0, 0], "value": [0.5, 0.6]})
    colours = ["#009E73", run_charts._OTHER_COLOUR]
    chart = spec(run_charts._chart("ndcg@10", table, ["judge", "beside"], colours, 20, bm25=None, best_point=None))
    encodings = [layer["encoding"] for layer in chart["layer"]]
    (scale,) = [encoding["strokeDash"]["scale"] for encoding in encodings if "strokeDash" in encoding]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {"judge": [1, 0], "beside": [5, 4]}


def test_shortens_description_of_many_rows() -> None:
    description = charts.describe("Share", [f"signal {number}" for number in range(40)])
    assert "signal 11" in description
    assert "signal 12" not in description
    assert description.endswith("28 more.")


def chart_calls(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Yield the function of each drawn chart, and whether the caller passes a description."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("draw_chart", "charts.draw_chart"):
            make = node.args[0]
            name = make.attr if isinstance(make, ast.Attribute) else make.id if isinstance(make, ast.Name) else ""
            yield name, any(keyword.arg == "alt" for keyword in node.keywords)


def test_every_chart_has_a_description() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(VIEWS.rglob("*.py"))}
    nodes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    described = {function.name for function in nodes if "description=" in ast.unparse(function)}
    calls = [(path, *call) for path, tree in trees.items() for call in chart_calls(tree)]
    assert len(calls) > 20
    assert [(path.name, name) for path, name, given in calls if not given and name not in described] == []


def test_describes_chart_values() -> None:
    models = pd.DataFrame({"model": ["A", "B"], "alignment": [0.1, 0.2], "uniformity": [-2.0, -1.5]})
    none = pd.DataFrame(columns=["model", "step", "alignment", "uniformity"])
    assert "A -2.000, 0.1000; B -1.500, 0.2000" in geometry_chart(models, none, ["A", "B"]).to_dict()["description"]
    guesses = pd.DataFrame({"piece": ["1. sea", "2. sky"], "probability": [0.75, 0.2]})
    description = prediction_chart(guesses, [*guesses["piece"]], 1.0).to_dict()["description"]
    assert "1. sea 75.00%; 2. sky 20.00%" in description
    layers = pd.DataFrame({"layer": ["0", "1"], "pooling": ["mean", "mean"], "value": [50.0, 60.0]})
    assert "mean from 50.0 (0) to 60.0 (1)" in pooling_chart(layers, ["mean"], y="nDCG").to_dict()["description"]


def test_describes_highest_and_lowest_pair_of_a_matrix() -> None:
    names = ["1", "2", "3"]
    cosines = {"11": 1.0, "22": 1.0, "33": 1.0, "12": 0.9, "21": 0.9, "13": 0.1, "31": 0.1, "23": 0.5, "32": 0.5}
    rows = [(row, column, f"s{row}", f"s{column}", cosine) for (row, column), cosine in cosines.items()]
    table = pd.DataFrame(rows, columns=["row", "column", "first", "second", "cosine"])
    description = matrix_chart(table, names).to_dict()["description"]
    assert "highest 0.900 (s1 – s2); lowest 0.100 (s1 – s3)" in description


def test_finds_no_peak_without_density() -> None:
    rows = [("low", 0, 0.1, 0.0), ("low", 0, 0.2, 0.0), ("high", 1, 0.1, 1.0), ("high", 1, 0.2, 3.0)]
    table = pd.DataFrame(rows, columns=["band", "band_index", "cosine", "density"])
    description = ridge_chart(table, ["low", "high"], "Model", ["Model"], x="Cosine").to_dict()["description"]
    assert "high 0.20" in description
    assert "low" not in description


def test_describes_empty_grid_by_its_title() -> None:
    table = pd.DataFrame({"a": [], "b": [], "v": []})
    assert charts.extremes("Cosine", table, ("a", "b"), "v", ".2f") == "Cosine"


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
