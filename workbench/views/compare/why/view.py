"""Why: which questions a retriever loses and another finds, as a map, in groups and as a list; and the reason."""

from math import ceil

import altair as alt
import pandas as pd
import streamlit as st

from mrc_workbench.data.questions.judgements import remarks_of
from mrc_workbench.retrieval.analysis.questions import BANDS, Quadrant, band_counts
from mrc_workbench.retrieval.report.charts import READABLE, legend
from mrc_workbench.workbench.views.compare.controls import NO_FILTERS, change, choose_in_address, tie
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.compare.why import question as why_question
from mrc_workbench.workbench.views.compare.why.questions import QuestionList, band_words, block_name, listed
from mrc_workbench.workbench.views.names import kind_words, slice_names, with_display_names
from mrc_workbench.workbench.views.ui import findings, tables
from mrc_workbench.workbench.views.ui.charts import draw_chart, tips
from mrc_workbench.workbench.views.ui.headings import draw_heading
from mrc_workbench.workbench.views.ui.state import leave_top
from mrc_workbench.workbench.views.ui.words import plain, word

_QUESTION_WIDTH = 420  # pixels: the widest column, in which most questions take one or two lines
_NARROW_QUESTION = 300
_TWO_LINES = 66  # pixels of a row: Streamlit wraps the text of rows above 64
_RANK_WIDTH, _OVERLAP_WIDTH, _KIND_WIDTH = 60, 80, 104
# light to dark, green to purple: the order is seen without colour, and each end on light and dark
_COLOURS = ("#a8ddb5", "#7bccc4", "#4eb3d3", "#2b8cbe", "#3f66ae", "#7a4fa8", "#a1126f")


@st.fragment
def draw(view: ComparisonView) -> None:
    if not any(one.rankings for one in view.results):
        st.info(word("why.no_rankings"), icon=":material/info:")
        return
    of = listed(view)
    table = view.opened.questions(of.names)
    ids = table["id"][of.mask[table.index]].tolist()
    rows = {question.id: row for row, question in enumerate(view.comparison.question_set.questions)}
    asked = st.query_params.get("question", "")
    if asked in rows:
        why_question.draw(of, rows[asked], ids)
        return
    leave_top()
    if asked:
        st.warning(word("why.no_such_question", id=plain(asked)), icon=":material/warning:")
    _draw_map(of)
    _draw_quadrants(of)
    _draw_filters(of)
    every = len(view.comparison.question_set.questions)
    with st.container(horizontal=True, vertical_alignment="center"):
        if of.filtered:
            told = {"count": f"{len(ids):,}", "all": f"{every:,}", "which": of.in_words()}
            st.markdown(word("why.listed", **told), width="content")
            icon = ":material/filter_alt_off:"
            st.button(word("why.clear"), icon=icon, on_click=change, args=(NO_FILTERS,), key="why_clear")
        else:
            st.markdown(word("why.listed_all", all=f"{every:,}"), width="content")
    _draw_list(of)
    why_question.draw_remarks(view, remarks_of(view.data.fingerprint))


def _draw_quadrants(of: QuestionList) -> None:
    if len(of.names) < 2:
        return
    draw_heading(word("why.quadrants", k=of.view.k), help=word("why.quadrants_help"))
    called = of.view.display_names
    options = {name: called[name] for name in of.names}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for letter, chosen in zip("ab", of.pair, strict=True):
            choose_in_address(letter, options, chosen, word(f"why.retriever_{letter}"))
    counts = of.view.opened.quadrants(of.pair, of.view.k)
    a, b = (plain(called[name]) for name in of.pair)
    for place, quadrant in zip(st.columns(4), Quadrant, strict=True):
        label = word(f"why.{quadrant.value}", a=a, b=b)
        place.button(
            f"**{len(counts[quadrant]):,}**  \n{label}",
            key=f"why_quadrant_{quadrant.value}",
            type="primary" if of.quadrant is quadrant else "secondary",
            on_click=change,
            args=({"quadrant": "" if of.quadrant is quadrant else quadrant.value},),
            width="stretch",
        )


def _draw_filters(of: QuestionList) -> None:
    properties = of.view.opened.properties
    with st.expander(word("why.filters"), icon=":material/filter_alt:"):
        words = {"": word("why.any"), **{by.value: word(f"where.by_{by.value}") for by in properties}}
        by = of.by.value if of.by in properties else ""
        choose_in_address("slice", words, by, word("why.slice"), also=("within",))
        parts = of.view.opened.slices(of.by) if of.by else []
        names = slice_names(parts, of.by) if of.by else []
        labels = [f"{name} ({len(part.rows):,})" for name, part in zip(names, parts, strict=True)]
        places = {"": word("why.any"), **{str(place): label for place, label in enumerate(labels)}}
        chosen = "" if of.within is None else str(of.within)
        choose_in_address("within", places, chosen, word("why.within"), disabled=not parts)
        place = tie("words", of.words)
        st.text_input(
            word("why.words"), type="search", placeholder=word("why.words_placeholder"), max_chars=200, **place
        )


def _draw_list(of: QuestionList) -> None:
    table = of.view.opened.questions(of.names)
    shown = table[of.mask[table.index]].reset_index(drop=True)
    if shown.empty:
        st.info(word("why.none_listed"), icon=":material/search_off:")
        return
    ids = shown["id"].tolist()
    ranks = [f"rank_{column}" for column in range(len(of.names))]
    key = f"why_list_{abs(hash((of.in_words(), of.names)))}"

    def pick() -> None:
        if rows := tables.selected_rows(st.session_state[key]):
            why_question.open_question(ids[rows[0]])

    st.caption(word("why.pick"))
    kinds, rank_help = [*map(kind_words, shown["kind"])], word("why.rank_help")
    called = [of.view.display_names[name] for name in of.names]
    widths = [max(_RANK_WIDTH, ceil(tables.header_width(name))) for name in called]
    wider = sum(widths) - _RANK_WIDTH * len(widths)  # the questions give way to longer names
    columns = {
        "question": tables.text("why.question", width=max(_NARROW_QUESTION, _QUESTION_WIDTH - wider), pinned=True),
        "kind": tables.text("why.kind", width=_KIND_WIDTH),
        **{
            rank: st.column_config.NumberColumn(name, help=rank_help, width=width)
            for rank, name, width in zip(ranks, called, widths, strict=True)
        },
        "overlap": st.column_config.ProgressColumn(
            word("data_page.overlap"),
            width=_OVERLAP_WIDTH,
            help=word("data_page.overlap_help"),
            min_value=0,
            max_value=100,
            format="%d%%",
        ),
    }
    st.dataframe(
        shown.assign(kind=kinds, overlap=(100 * shown["overlap"]).round()),
        column_order=[name for name in columns if name != "kind" or table["kind"].any()],
        column_config=columns,
        hide_index=True,
        placeholder="–",
        height=500,
        row_height=_TWO_LINES,
        on_select=pick,
        selection_mode=tables.SINGLE_ROW,
        key=key,
    )
    named = {rank: word("why.rank_of", name=name) for rank, name in zip(ranks, of.names, strict=True)}
    with st.container(horizontal=True):
        st.button(
            word("why.first"),
            icon=":material/arrow_forward:",
            on_click=why_question.open_question,
            args=(ids[0],),
            key="why_first",
        )
        tables.draw_csv("why.csv", lambda: shown.rename(columns=named), "questions.csv", "why_csv")


def _draw_map(of: QuestionList) -> None:
    ranks = of.view.opened.ranks(of.names).ranks
    everywhere_first = int((ranks == 1).all(axis=1).sum())  # the map begins with them
    count = len(of.view.comparison.question_set.questions)
    left, right = st.columns([5, 3], vertical_alignment="center")
    with left:
        draw_heading(word("why.map"), help=word("why.map_help"))
    zoomed = right.toggle(
        word("why.map_zoom"),
        value=st.query_params.get("map") == "apart",
        help=word("why.map_zoom_help", count=f"{everywhere_first:,}"),
        disabled=everywhere_first in (0, count),
        key="why_zoom",
        on_change=lambda: change({"map": "apart" if st.session_state["why_zoom"] else ""}),
    )
    first = everywhere_first if zoomed and everywhere_first < count else 0
    # cleared filters leave nothing marked, and a chart keeps its marks as long as it keeps its key
    key = f"why_map_{'-'.join(of.names)}_{first}_{bool(of.block)}"

    def choose() -> None:
        chosen = st.session_state[key]["selection"].get("block") or [{"block": ""}]
        change({"block": chosen[0]["block"], "question": ""})

    called = of.view.display_names
    draw_chart(
        _chart,
        with_display_names(_blocks(of, first), called),
        tuple(called[name] for name in of.names),
        first,
        count,
        key=key,
        on_select=choose,
        selection_mode="block",
    )
    with st.expander(word("compare.as_table")):
        _draw_map_table(of)


def _blocks(of: QuestionList, first: int) -> pd.DataFrame:
    names, chosen = of.names, of.block
    rows = [
        (names[block.column], max(block.start, first), block.end, block.band, block_name(names, block))
        for block in of.view.opened.ranks(names).blocks()
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
                legend=legend(title=rank, columns=1, symbolStrokeWidth=0),  # a phone has room for one
            ),
            strokeWidth=alt.condition("datum.chosen", alt.value(3), alt.value(0)),
            opacity=alt.condition(chosen, alt.value(1), alt.value(0.45)),
            tooltip=tips(("retriever", word("compare.retriever")), ("band", rank), ("count", questions, ",")),
        )
        .add_params(chosen)
        .properties(height=40 * len(names) + 240, description=_finding(table, names, rank, count - first))
    )


def _finding(table: pd.DataFrame, names: tuple[str, ...], title: str, count: int) -> str:
    """Return how many of the questions on the map each retriever ranks first."""
    firsts = table[table["place"] == 0].groupby("retriever")["count"].sum()
    shares = [f"{int(firsts.get(name, 0)):,} / {count:,}" for name in names]
    rows = [f"{name} {share}" for name, share in zip(names, shares, strict=True)]
    return findings.describe(f"{title}: {band_words(0)}", rows)


def _draw_map_table(of: QuestionList) -> None:
    bands = [band_words(band) for band in range(len(BANDS) + 1)]
    table = pd.DataFrame(band_counts(of.view.opened.ranks(of.names).ranks), columns=bands)
    table.insert(0, "retriever", list(of.names))
    counts = dict.fromkeys(bands, st.column_config.NumberColumn(format="localized"))
    tables.draw(table, {"retriever": tables.retriever(), **counts})
