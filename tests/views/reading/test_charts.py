"""The charts of the Answers page: what they encode."""

from typing import Any

import pandas as pd

from retrieval.report.colours import colour_of
from views.reading import summary

NAMES = ("one", "two", "three")


def layers(chart: Any) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    found: list[dict[str, Any]] = spec.get("layer", [spec])
    return found


def test_ceilings_are_dashed_in_the_colour_of_their_line_and_the_oracle_is_a_rule() -> None:
    table = pd.DataFrame(
        {
            "retriever": ["two", "two"],
            "k": [1, 5],
            "value": [0.5, 0.6],
            "low": [0.4, 0.5],
            "high": [0.6, 0.7],
            "ceiling": [0.7, 0.9],
        }
    )
    found = layers(summary.curves(table, NAMES, 0.65, chosen=5, y="F1", label="the rule"))
    marks = [one["mark"]["type"] for one in found]
    assert marks == ["rule", "area", "rule", "line", "line", "point", "text"]
    dashed = found[3]
    assert dashed["mark"]["strokeDash"] == [5, 4]
    assert dashed["encoding"]["y"]["field"] == "ceiling"
    for line in (dashed, found[4]):
        assert line["encoding"]["color"]["scale"] == {"domain": ["two"], "range": [colour_of("two", NAMES)]}
    assert found[2]["encoding"]["y"]["field"] == "oracle"
    assert found[1]["encoding"]["y"]["scale"]["domain"][0] < 0.4


def test_a_bar_is_cut_into_the_four_fates_in_their_order() -> None:
    labels = {"right": "right", "outranked": "outranked", "read wrong": "misread", "not found": "not_found"}
    table = pd.DataFrame({"retriever": "one", "label": [*labels], "count": [4, 3, 2, 1], "share": [0.4, 0.3, 0.2, 0.1]})
    (bars,) = layers(summary.lost(table, order=["one"], fates=labels, x="share"))
    scale = bars["encoding"]["color"]["scale"]
    assert scale == {"domain": [*labels], "range": [*summary.FATE_COLOURS.values()]}
    assert bars["encoding"]["x"]["stack"] == "zero"
    assert bars["encoding"]["order"]["field"] == "place"
    assert len(set(summary.FATE_COLOURS.values())) == 4
