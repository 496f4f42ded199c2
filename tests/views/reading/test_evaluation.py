"""Evaluations of readers that lie in the workspace: what their charts encode, and the weights they chose."""

import os
from typing import Any

import pandas as pd
import pytest

from data.store import StoredSet, keep
from data.workspace import workspace, write_json
from retrieval.report.drawing import colour_of
from tests.reading.doubles import SET
from views.reading import results
from views.reading.evaluation import Weight, kept_weights, latest_reading

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
    found = layers(results.curves(table, NAMES, 0.65, chosen=5, y="F1", label="the rule"))
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
    (bars,) = layers(results.lost(table, order=["one"], fates=labels, x="share"))
    scale = bars["encoding"]["color"]["scale"]
    assert scale == {"domain": [*labels], "range": [*results.FATE_COLOURS.values()]}
    assert bars["encoding"]["x"]["stack"] == "zero"
    assert bars["encoding"]["order"]["field"] == "place"
    assert len(set(results.FATE_COLOURS.values())) == 4


@pytest.fixture
def answered() -> StoredSet:
    return keep(SET)


def kept(key: str, name: str, weight: float, *, seconds: int, chosen: str | None = "validation") -> None:
    path = workspace() / "reading" / name / "scores.json"
    content = {
        "experiment": {"data": key, "reader": [{"name": "r", "model": "a/reader"}]},
        "weights": {"r": {"BM25": {"weight": weight, "chosen_on": chosen}}},
        "units": {"r": {"BM25": 2.5}},
    }
    write_json(path, content)
    os.utime(path, (seconds, seconds))


def test_the_newest_choice_of_this_reader_on_this_set_counts(answered: StoredSet) -> None:
    assert latest_reading(answered) is None
    assert kept_weights(answered, "a/reader") == {}
    kept(answered.key, "old", 4.0, seconds=100)
    kept(answered.key, "new", 0.5, seconds=200)
    kept(answered.key, "not-chosen", 8.0, seconds=300, chosen=None)
    kept("other", "other", 1.0, seconds=400)
    assert kept_weights(answered, "a/reader") == {"BM25": Weight(0.5, 2.5)}
    assert kept_weights(answered, "another") == {}
    assert latest_reading(answered) == workspace() / "reading" / "not-chosen"


@pytest.mark.parametrize("content", [[], {"experiment": 3}, {"experiment": {"data": "KEY"}}])
def test_what_cannot_be_read_is_passed_over(answered: StoredSet, content: object) -> None:
    if isinstance(content, dict) and isinstance(content.get("experiment"), dict):
        content = {"experiment": {"data": answered.key}}
    write_json(workspace() / "reading" / "bad" / "scores.json", content)
    kept(answered.key, "good", 1.0, seconds=100)
    assert kept_weights(answered, "a/reader") == {"BM25": Weight(1.0, 2.5)}
