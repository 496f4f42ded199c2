"""The charts of the Embeddings page: what they encode."""

from typing import Any

import pandas as pd
import pytest

from retrieval.report.colours import colour_of
from views.embeddings import cosines, further, measures

NAMES = ("one", "two")


def layers(chart: Any) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    found: list[dict[str, Any]] = spec.get("layer", [spec])
    return found


def test_published_figures_are_hollow_and_have_no_interval() -> None:
    table = pd.DataFrame(
        {
            "model": ["one", "theirs"],
            "value": [80.0, 70.0],
            "low": [75.0, None],
            "high": [85.0, None],
            "ours": [True, False],
            "source": ["", "a paper"],
        }
    )
    intervals, marks, published = layers(measures.dots(table, NAMES, x="Spearman"))
    assert intervals["mark"]["type"] == "rule"
    assert marks["mark"]["filled"]
    assert marks["encoding"]["color"]["scale"] == {"domain": ["one"], "range": [colour_of("one", NAMES)]}
    assert "filled" not in published["mark"]
    assert published["transform"] == [{"filter": "!datum.ours"}]
    assert [one["field"] for one in published["encoding"]["tooltip"]] == ["model", "value", "source"]


def test_ridges_stand_on_the_foot_of_their_band() -> None:
    table = pd.DataFrame(
        {"band": ["1 – 2", "0 – 1"], "place": [1, 0], "cosine": [0.5, 0.5], "density": [2.0, 1.0]},
    )
    spec = cosines.ridges(table, ["0 – 1", "1 – 2"], "two", NAMES, x="cosine").to_dict()
    rows = next(iter(spec["datasets"].values()))
    assert [row["top"] - row["place"] for row in rows] == pytest.approx([1.6, 0.8])  # the highest has the whole room
    assert spec["mark"]["color"] == colour_of("two", NAMES)
    assert spec["encoding"]["y"]["axis"]["values"] == [0, 1]
    assert "['0 – 1', '1 – 2']" in spec["encoding"]["y"]["axis"]["labelExpr"]


def test_a_path_is_drawn_only_where_there_is_one() -> None:
    points = pd.DataFrame({"model": ["one"], "alignment": [0.2], "uniformity": [-1.0]})
    none = pd.DataFrame(columns=["model", "step", "alignment", "uniformity"])
    assert len(layers(measures.plane(points, none, NAMES))) == 1
    path = points.assign(step=10)
    line, small, large = layers(measures.plane(points, path, NAMES))
    assert line["mark"]["type"] == "line"
    assert line["encoding"]["order"]["field"] == "step"
    assert small["mark"]["size"] < large["mark"]["size"]


def test_the_matrix_is_coloured_within_the_range_of_different_sentences() -> None:
    table = pd.DataFrame(
        {
            "row": ["1", "1", "2", "2"],
            "column": ["1", "2", "1", "2"],
            "first": list("aabb"),
            "second": list("abab"),
            "cosine": [1.0, 0.8, 0.8, 1.0],
        }
    )
    cells, figures = layers(cosines.matrix(table, ["1", "2"]))
    low, high = cells["encoding"]["color"]["scale"]["domain"]
    assert low == 0.8
    assert high == pytest.approx(0.8, abs=1e-5)
    assert figures["mark"]["type"] == "text"
    many = [str(number) for number in range(21)]
    assert len(layers(cosines.matrix(table, many))) == 1


def test_what_is_only_computed_is_dashed_and_what_others_report_hollow() -> None:
    table = pd.DataFrame(
        {"way": ["a", "a"], "sentences": [30, 100], "seconds": [1.0, 9.0], "measured": [True, False]},
    )
    theirs = pd.DataFrame({"way": ["theirs"], "sentences": [10_000], "seconds": [5.0]})
    dashed, solid, points, reported = layers(further.costs(table, theirs))
    assert dashed["mark"]["strokeDash"]
    assert solid["transform"] == points["transform"] == [{"filter": "datum.measured"}]
    assert "filled" not in reported["mark"]


def test_next_to_no_difference_does_not_fill_the_chart() -> None:
    table = pd.DataFrame({"model": ["one", "two"], "spearman": [30.0, 50.0], "value": [72.40, 72.42]})
    (marks,) = layers(further.against(table, NAMES, y="nDCG@10"))
    low, high = marks["encoding"]["y"]["scale"]["domain"]
    assert low < 71
    assert high > 73
    assert marks["encoding"]["x"]["scale"]["domain"] == [28.0, 52.0]
