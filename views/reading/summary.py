"""The first view of an evaluation: right answers against K, where they are lost, and how sure the differences are."""

from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd
import streamlit as st

from retrieval.report.charts import colour, legend, shape
from retrieval.report.drawing import READABLE
from views.reading.evaluation import FATES, ReadingView, curve_table, difference_table, fate_table, figure_table
from views.ui import tables
from views.ui.charts import draw_chart, present, tips, with_interval
from views.ui.words import word

_HEIGHT = 340
FATE_COLOURS = {"right": "#009E73", "outranked": "#E69F00", "misread": "#D55E00", "not_found": "#7A8290"}


def curves(
    table: pd.DataFrame, names: Sequence[str], oracle: float, *, chosen: int, y: str, label: str
) -> alt.LayerChart:
    """One line a "retriever" of its "value" over "k" in its band, its "ceiling" dashed; a rule at the `oracle`."""
    drawn = present(names, table["retriever"])
    lowest = max(0.0, min(float(table["low"].min()), oracle) - 0.03)
    scale = alt.Scale(domain=[lowest, 1.0], nice=False)
    axis = alt.Axis(format="%", tickCount=6)
    said = tips(("retriever:N", word("compare.retriever")), ("k:O", "K"))
    base = alt.Chart(table).encode(
        x=alt.X("k:O", title=word("answers.first_passages"), axis=alt.Axis(labelAngle=0)),
        color=colour("retriever", drawn, names, legend(columns=2, symbolOpacity=1)),
    )
    value = alt.Y("value:Q", title=y, scale=scale, axis=axis)
    bands = base.mark_area(fillOpacity=0.12).encode(y=alt.Y("low:Q", title=y, scale=scale, axis=axis), y2="high:Q")
    told = [*said, *with_interval("value", y), *tips(("ceiling:Q", word("answers.ceiling"), ".2%"))]
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(
        y=value, shape=shape("retriever", drawn, names, legend(columns=2)), tooltip=told
    )
    ceilings = base.mark_line(strokeDash=[5, 4], strokeWidth=1.5, opacity=0.8).encode(
        y=alt.Y("ceiling:Q", title=y, scale=scale, axis=axis)
    )
    above = alt.Chart(pd.DataFrame({"oracle": [oracle], "label": [label], "k": [int(table["k"].min())]}))
    rule = above.mark_rule(color=READABLE, strokeWidth=2).encode(y=alt.Y("oracle:Q", scale=scale))
    words = above.mark_text(align="left", dx=-14, dy=-8, color=READABLE, fontWeight="bold").encode(
        x=alt.X("k:O"), y=alt.Y("oracle:Q", scale=scale), text="label:N"
    )
    here = alt.Chart(pd.DataFrame({"k": [chosen]})).mark_rule(color=READABLE, opacity=0.18, strokeWidth=16)
    return alt.layer(
        here.encode(x="k:O"), bands, rule, ceilings, base.mark_line(strokeWidth=2.5).encode(y=value), marks, words
    ).properties(height=_HEIGHT)


def lost(table: pd.DataFrame, *, order: Sequence[str], fates: Mapping[str, str], x: str) -> alt.Chart:
    """One bar a "retriever", cut by what became of its questions ("label"): their "share" of all.

    `fates` are the fates by their label, in the order of the pieces.
    """
    places = {label: place for place, label in enumerate(fates)}
    scale = alt.Scale(domain=list(fates), range=[FATE_COLOURS[fate] for fate in fates.values()])
    bars = (
        alt.Chart(table.assign(place=table["label"].map(places)))
        .mark_bar()
        .encode(
            y=alt.Y("retriever:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=160, labelOverlap=False)),
            x=alt.X("share:Q", stack="zero", title=x, axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("label:N", scale=scale, legend=legend(columns=2)),
            order=alt.Order("place:Q"),
            tooltip=tips(
                ("retriever:N", word("compare.retriever")),
                ("label:N", word("where.fate")),
                ("count:Q", word("where.questions"), ","),
                ("share:Q", x, ".1%"),
            ),
        )
    )
    return bars.properties(height=130 + 36 * len(order))


def draw(view: ReadingView) -> None:
    left, right = st.columns([3, 2])
    with left:
        measure, oracle = word(f"answers.measure_{view.measure}"), view.oracle[view.measure]
        st.markdown(f"**{word('answers.curves', measure=measure)}**", help=word("answers.curves_help"))
        label = word("answers.oracle_label", value=f"{100 * oracle:.1f}")
        draw_chart(curves, curve_table(view), list(view.names), oracle, chosen=view.k, y=measure, label=label)
        st.caption(word("answers.curves_legend"))
    with right:
        st.markdown(f"**{word('answers.lost', k=view.k)}**", help=word("answers.lost_help"))
        labels = {word(f"answers.fate_{fate}"): fate for fate in FATES.values()}
        shares = word("answers.share_of_questions")
        draw_chart(lost, fate_table(view), order=list(view.answered), fates=labels, x=shares)
    _draw_figures(view)
    _draw_fates(view)
    _draw_differences(view)


def _draw_figures(view: ReadingView) -> None:
    table = figure_table(view)
    weighed = bool(table["weight"].any())
    measure = word(f"answers.measure_{view.measure}")
    with st.expander(word("answers.figures", measure=measure), expanded=True):
        columns = {
            "retriever": tables.retriever(),
            **{str(k): st.column_config.NumberColumn(f"K = {k}", format="%.1f") for k in view.ks},
            **tables.interval("%.1f"),
            "ceiling": tables.number("answers.ceiling", "%.1f"),
            **({"weight": tables.number("answers.weight", "%.2f")} if weighed else {}),
        }
        best = table[str(view.k)] == table[str(view.k)].max()
        styled = table.style.map(lambda _: tables.BOLD, subset=(best, ["retriever", str(view.k)]))
        tables.draw(styled, columns)
        st.caption(word("answers.figures_help", k=view.k))


def _draw_fates(view: ReadingView) -> None:
    table = fate_table(view)
    wide = table.assign(told=[f"{one.share:.1%} ({one.count:,})" for one in table.itertuples(name="Row")])
    wide = wide.pivot(index="retriever", columns="fate", values="told").loc[list(view.answered)].reset_index()
    with st.expander(word("answers.lost", k=view.k), expanded=True):
        columns = {"retriever": tables.retriever()}
        for fate in FATES.values():
            columns[fate] = st.column_config.TextColumn(
                word(f"answers.fate_{fate}"), help=word(f"answers.fate_{fate}_help")
            )
        tables.draw(wide, columns)


def _draw_differences(view: ReadingView) -> None:
    table = difference_table(view)
    if table.empty:
        return
    with st.expander(word("answers.differences", k=view.tested), expanded=False):
        columns = {
            "a": tables.text("embeddings.higher", "", width="medium"),
            "b": tables.text("embeddings.lower", "", width="medium"),
            "verdict": tables.text("compare.verdict", ""),
            "difference": tables.number("answers.points", "%+.2f", ""),
            **tables.interval("%+.2f"),
            "p_family": tables.p_family(),
        }
        tables.draw(table, columns)
        st.caption(word("answers.differences_help", k=view.tested))
