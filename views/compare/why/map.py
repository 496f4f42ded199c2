"""The map of ranks: all questions by all retrievers, as few rectangles that can be clicked, and its numbers."""

import altair as alt
import pandas as pd
import streamlit as st

from retrieval.analysis.questions import BANDS, band_counts
from retrieval.report.colours import READABLE
from retrieval.report.scales import legend
from views.compare.controls import change
from views.compare.why.questions import QuestionList, band_words, block_name
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.words import word

# light to dark, green to purple: the order is seen without colour, and each end on light and dark
_COLOURS = ("#a8ddb5", "#7bccc4", "#4eb3d3", "#2b8cbe", "#3f66ae", "#7a4fa8", "#a1126f")
_ROW, _AROUND = 40, 240  # heights of a retriever, and of axis and legend, in pixels
_LEGEND_COLUMNS = 1  # a phone has room for no more beside the longest name
_KEY = "why_map"


def draw(question_list: QuestionList) -> None:
    """Draw the map, what can be left out of it, and its numbers as a table."""
    everywhere_first = _first_everywhere(question_list)
    count = len(question_list.view.comparison.question_set.questions)
    left, right = st.columns([5, 3], vertical_alignment="center")
    left.markdown(f"**{word('why.map')}**", help=word("why.map_help"))
    zoomed = right.toggle(
        word("why.map_zoom"),
        value=st.query_params.get("map") == "apart",
        help=word("why.map_zoom_help", count=f"{everywhere_first:,}"),
        disabled=everywhere_first in (0, count),
        key="why_zoom",
        on_change=_zoom,
    )
    first = everywhere_first if zoomed and everywhere_first < count else 0
    # cleared filters leave nothing marked, and a chart keeps its marks as long as it keeps its key
    key = f"{_KEY}_{'-'.join(question_list.names)}_{first}_{bool(question_list.block)}"
    draw_chart(
        _chart,
        _blocks(question_list, first),
        question_list.names,
        first,
        count,
        key=key,
        on_select=lambda: _choose(key),
        selection_mode="block",
        alt=word("why.map_help"),
    )
    with st.expander(word("compare.as_table")):
        _draw_table(question_list)


def _first_everywhere(question_list: QuestionList) -> int:
    """The map begins with the questions that all retrievers put first: return how many."""
    ranks = question_list.view.opened.ranks(question_list.names).ranks
    return int((ranks == 1).all(axis=1).sum())


def _zoom() -> None:
    change({"map": "apart" if st.session_state["why_zoom"] else ""})


def _choose(key: str) -> None:
    chosen = st.session_state[key]["selection"].get("block") or [{"block": ""}]
    change({"block": chosen[0]["block"], "question": ""})


def _blocks(question_list: QuestionList, first: int) -> pd.DataFrame:
    names, chosen = question_list.names, question_list.block
    rows = [
        (names[block.column], max(block.start, first), block.end, block.band, block_name(names, block))
        for block in question_list.view.opened.ranks(names).blocks()
        if block.end > first
    ]
    table = pd.DataFrame(rows, columns=["retriever", "start", "end", "place", "block"])
    table["band"] = table["place"].map(band_words)
    table["count"] = table["end"] - table["start"]
    table["chosen"] = table["block"] == (block_name(names, chosen) if chosen else "")
    return table


def _chart(table: pd.DataFrame, names: tuple[str, ...], first: int, count: int) -> alt.Chart:
    bands = [band_words(band) for band in range(len(BANDS) + 1)]
    chosen = alt.selection_point(name="block", fields=["block"])
    questions, rank = word("data_page.questions_axis"), word("why.rank_of_answer")
    return (
        alt.Chart(table)
        .mark_rect(cursor="pointer", stroke=READABLE)
        .encode(
            y=alt.Y("retriever:N", sort=list(names), title=None, axis=alt.Axis(labelLimit=220)),
            x=alt.X(
                "start:Q",
                title=questions,
                scale=alt.Scale(domain=[first, count], nice=False),
                axis=alt.Axis(grid=False, tickMinStep=1),
            ),
            x2="end",
            color=alt.Color(
                "band:N",
                scale=alt.Scale(domain=bands, range=list(_COLOURS)),
                legend=legend(title=rank, columns=_LEGEND_COLUMNS, symbolStrokeWidth=0),
            ),
            strokeWidth=alt.condition("datum.chosen", alt.value(3), alt.value(0)),
            opacity=alt.condition(chosen, alt.value(1), alt.value(0.45)),
            tooltip=[
                alt.Tooltip("retriever", title=word("compare.retriever")),
                alt.Tooltip("band", title=rank),
                alt.Tooltip("count", title=questions, format=","),
            ],
        )
        .add_params(chosen)
        .properties(height=_ROW * len(names) + _AROUND)
    )


def _draw_table(question_list: QuestionList) -> None:
    counts = band_counts(question_list.view.opened.ranks(question_list.names).ranks)
    bands = [band_words(band) for band in range(len(BANDS) + 1)]
    table = pd.DataFrame(counts, columns=bands)
    table.insert(0, "retriever", list(question_list.names))
    counts_of_bands = dict.fromkeys(bands, st.column_config.NumberColumn(format="localized"))
    st.dataframe(table, hide_index=True, column_config={"retriever": tables.retriever(), **counts_of_bands})
