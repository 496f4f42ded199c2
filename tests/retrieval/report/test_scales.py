"""Every retriever has its colour and its mark wherever it is drawn, and every fate that is drawn has a colour."""

import pytest

from retrieval.analysis.questions import Fate
from retrieval.report.charts import colour, columns_for, legend, shape
from retrieval.report.colours import FATE_COLOURS, LETTERS, PALETTE, SHAPES, colour_of, letter_of, shape_of

NAMES = [f"retriever {number}" for number in range(12)]  # more than there are colours, and marks


def test_those_drawn_keep_the_colour_and_the_mark_of_their_place_among_all() -> None:
    drawn = [NAMES[11], NAMES[2]]
    assert colour("retriever", drawn, NAMES).to_dict() == {
        "field": "retriever",
        "type": "nominal",
        "scale": {"domain": drawn, "range": [PALETTE[1], PALETTE[2]]},
        "legend": None,
    }
    scale = shape("retriever", drawn, NAMES, legend(columns=2)).to_dict()
    assert scale["scale"]["range"] == [SHAPES[5], SHAPES[2]]
    assert scale["legend"] == {"orient": "bottom", "title": None, "labelLimit": 400, "columns": 2}


@pytest.mark.parametrize("name", NAMES)
def test_the_mark_in_a_text_is_that_of_the_charts(name: str) -> None:
    assert letter_of(name, NAMES) == LETTERS[shape_of(name, NAMES)]
    assert colour_of(name, NAMES) in PALETTE


def test_every_fate_but_found_has_a_colour_of_its_own() -> None:
    assert {*FATE_COLOURS} == {fate.value for fate in Fate if fate is not Fate.FOUND}
    assert len({*FATE_COLOURS.values()}) == len(FATE_COLOURS)


def test_a_legend_of_long_names_has_one_column_so_that_none_is_cut() -> None:
    assert columns_for(["BM25", "Dense", "Hybrid"]) == 2
    assert columns_for(["BM25", "Dense · multilingual-e5-small 1"]) == 1
    assert columns_for([]) == 2
