"""The Where tab: on which slices of the questions and in which step retrievers lose, and the ceilings of reranking."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from mrc_workbench.retrieval.analysis import questions as analysis
from mrc_workbench.retrieval.analysis.open_comparison import MAX_MEASURED_SLICES
from mrc_workbench.retrieval.analysis.questions import RetrievalOutcome, SliceProperty
from mrc_workbench.retrieval.report.charts import OUTCOME_COLOURS, TEXT_COLOUR, colour, legend, legend_columns, shape
from mrc_workbench.retrieval.report.words import difference_interval
from mrc_workbench.workbench.views.compare.controls import show_why
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.names import retriever_names, slice_names, with_display_names
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.state import choose
from mrc_workbench.workbench.views.ui.words import plain, word

Names = Sequence[str]
_AXIS_MARGIN = 1.08  # a logarithmic axis is longer than its data by this factor at each end
# Pixels: a retriever in a slice, an axis with its title, a row of the legend
_ROW = 14
_AXIS = 56
_LEGEND_ROW = 24


def on_slices(
    table: pd.DataFrame, retrievers: Names, names: Names, order: Names, *, x: str, kind: str = "mean"
) -> alt.LayerChart:
    """Draw a row for each slice ("row", in `order`) with a mark and an interval for each retriever.

    `kind` is "mean" (with "low" and "high") or "difference" (with "difference_low" and "difference_high"), fractions.
    """
    is_difference = kind == "difference"
    ends, form = ("difference_", "+.1f") if is_difference else ("", ".1f")
    values = {"value": table[kind], "low": table[f"{ends}low"], "high": table[f"{ends}high"]}
    data = table[["row", "retriever", "questions"]].assign(**{name: 100 * column for name, column in values.items()})
    low = float(data["low"].min())
    high = float(data["high"].max())
    scale = charts.difference_scale(low, high)
    axis = alt.Axis()
    if not is_difference:
        scale, axis = charts.percent_scale(low, high, whole=100)
    columns = legend_columns(retrievers)
    keys = legend(columns=columns)
    titles = charts.tooltips(("row:N", word("where.slice")), ("retriever:N", word("compare.retriever")))
    base = alt.Chart(data).encode(
        y=alt.Y("row:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=190, grid=True, tickBand="extent")),
        yOffset=alt.YOffset("retriever:N", sort=retrievers),
        color=colour("retriever", retrievers, names, keys),
        tooltip=[*titles, *charts.interval_tooltips("value", x, form)],
    )
    x_axis = alt.X("low:Q", title=x, scale=scale, axis=axis)
    mark = shape("retriever", retrievers, names, keys)
    intervals = base.mark_rule(strokeWidth=2, opacity=0.7).encode(x=x_axis, x2="high:Q")
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(x="value:Q", shape=mark)
    layers = [*([charts.no_difference()] if is_difference else []), intervals, marks]
    height = _legend_height(len(retrievers), columns) + len(order) * (len(retrievers) * _ROW + 12)
    described = data.assign(name=data["row"] + ", " + data["retriever"])
    description = charts.describe(x, charts.intervals(described, "name", "value", form))
    return alt.layer(*layers).properties(height=height, description=description)


def _legend_height(names: int, columns: int) -> int:
    return _AXIS + _LEGEND_ROW * ceil(names / columns)


def draw_slices(
    table: pd.DataFrame, retrievers: Names, names: Names, order: Names, *, baseline: str, heading: str, metric: str
) -> None:
    """Draw the metrics of slices and, for several retrievers, their differences from the baseline."""
    labels = retriever_names(dict.fromkeys((*names, *retrievers)))
    displayed = with_display_names(table, labels)
    draw_rows = partial(charts.draw_chart, on_slices, retrievers=[labels[name] for name in retrievers], order=order)
    all_names = [labels[name] for name in names]
    left, right = st.columns(2)
    with left:
        tables.draw_heading(plain(heading))
        draw_rows(displayed, names=all_names, x=word("where.with_interval", metric=metric))
    if len(retrievers) > 1:
        with right:
            tables.draw_heading(word("where.from_first", first=plain(labels[baseline])))
            others = displayed[table["retriever"] != baseline]
            draw_rows(others, names=all_names, x=word("where.points"), kind="difference")


def lost_questions(table: pd.DataFrame, *, order: Sequence[str], fates: Mapping[str, str], x: str) -> alt.LayerChart:
    """Draw a bar for each retriever: the questions that it loses ("count"), stacked by outcome ("label")."""
    positions = {label: position for position, label in enumerate(fates)}
    totals = table.groupby("retriever", as_index=False)["count"].sum()
    x_scale = alt.Scale(domain=[0, float(totals["count"].max()) * 1.08], nice=False)  # for the totals beside the bars
    data = table.assign(position=table["label"].map(positions))
    titles = ("retriever:N", word("compare.retriever")), ("label:N", word("where.fate"))
    base = alt.Chart(data).encode(
        y=alt.Y("retriever:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=220, labelOverlap=False)),
        x=alt.X("count:Q", stack="zero", title=x, scale=x_scale, axis=alt.Axis(tickMinStep=1, format=",d")),
        order=alt.Order("position:Q"),
        tooltip=charts.tooltips(*titles, ("count:Q", x, ",")),
    )
    scale = alt.Scale(domain=list(fates), range=[OUTCOME_COLOURS[fate] for fate in fates.values()])
    bars = base.mark_bar().encode(color=alt.Color("label:N", scale=scale, legend=legend(columns=2)))
    total = alt.Text("count:Q", format=",")
    at_ends = alt.Chart(totals).encode(y=alt.Y("retriever:N", sort=list(order)), x="count:Q", text=total)
    ends = at_ends.mark_text(align="left", dx=6, color=TEXT_COLOUR)
    description = charts.describe(x, charts.totals(table, "retriever", "label", "count", (",", ",d")))
    return (bars + ends).properties(height=_legend_height(len(fates), 2) + 36 * len(order), description=description)


def ceiling_lines(curves: pd.DataFrame, own: pd.DataFrame, names: Sequence[str], *, x: str, y: str) -> alt.LayerChart:
    """Draw the "ceiling" of each retriever over the "depth" of its candidates, and its Hit@K as a dashed line.

    `own` has the "depth" that each retriever reads, with its "hit" and "ceiling"; a vertical line joins the two.
    """
    retrievers = [*dict.fromkeys(curves["retriever"])]
    depths = sorted(curves["depth"].unique().tolist())
    # Wider than the depths, so that the vertical line at the largest depth is not on the border of the plot
    scale = alt.Scale(type="log", domain=[depths[0] / _AXIS_MARGIN, depths[-1] * _AXIS_MARGIN], nice=False)
    x_axis = alt.X("depth:Q", title=x, scale=scale, axis=alt.Axis(values=depths, format="d"))
    color, mark = charts.color_and_shape("retriever", retrievers, names, legend(columns=legend_columns(retrievers)))
    lowest = min(float(curves["ceiling"].min()), float(own["hit"].min()) if len(own) else 1.0)
    y_scale, axis = charts.percent_scale(lowest, float(curves["ceiling"].max()))
    tooltips = charts.tooltips(("retriever:N", word("compare.retriever")), ("depth:Q", x))
    ceiling_tip = alt.Tooltip("ceiling:Q", title=word("where.ceiling"), format=".2%")
    lines = alt.Chart(curves).encode(x=x_axis, y=alt.Y("ceiling:Q", title=y, scale=y_scale, axis=axis), color=color)
    own_tips = [*tooltips, *charts.tooltips(("hit:Q", word("where.own"), ".2%")), ceiling_tip]
    at_depth = alt.Chart(own).encode(color=color, tooltip=own_tips)
    rows = [
        word("chart.row_ceiling", name=row["retriever"], value=f"{row['hit']:.1%}", ceiling=f"{row['ceiling']:.1%}")
        for row in own.to_dict("records")
    ]
    return (
        lines.mark_line()
        + lines.mark_point(size=30, filled=True).encode(tooltip=[*tooltips, ceiling_tip])
        + at_depth.mark_rule(strokeDash=[6, 4]).encode(y="hit:Q")
        + at_depth.mark_rule(strokeWidth=2).encode(x=x_axis, y="hit:Q", y2="ceiling:Q")
        + at_depth.mark_point(size=90, filled=True, opacity=1).encode(x=x_axis, y="hit:Q", shape=mark)
    ).properties(height=charts.HEIGHT, description=charts.describe(y, rows))


def draw(view: ComparisonView) -> None:
    if not any(result.rankings for result in view.results):
        st.info(word("why.no_rankings"), icon=":material/info:")
        return
    _draw_slices(view)
    _draw_lost(view)
    _draw_ceilings(view)


@st.fragment
def _draw_slices(view: ComparisonView) -> None:
    metric_name = view.metric.long_name
    st.subheader(word("where.slices", metric=metric_name))
    if not view.scored:
        st.info(word("where.no_metric", metric=metric_name), icon=":material/info:")
        return
    known = {grouping.value: word(f"where.by_{grouping.value}") for grouping in view.opened.properties}
    kwargs: dict[str, Any] = {"format_func": known.get, "help": word("where.by_help"), "width": 320}
    default = default_property(view).value
    grouping = SliceProperty(choose(st.selectbox, "slice", word("where.by"), [*known], default, **kwargs))
    with st.spinner(word("where.measuring")):
        parts = view.opened.slices(grouping)
        metrics = view.opened.slice_results(grouping, view.scored_names, str(view.metric))
    if not len(metrics):
        st.info(word("where.no_slice"), icon=":material/info:")
        return
    labels = slice_names(parts, grouping)
    _draw_largest_difference(view, metrics, labels, grouping)
    ranks = metrics["retriever"].map(view.ranked.index)
    metrics = metrics.iloc[np.lexsort((ranks, metrics["slice"]))].reset_index(drop=True)  # the best first in each slice
    displayed, rows = select_slices(metrics, labels, 12)
    texts = {"baseline": view.scored_names[0], "heading": metric_name, "metric": metric_name}
    draw_slices(displayed, view.ranked, view.names, rows, **texts)
    if len(labels) > len(rows):
        key = "where.charted_differ" if len(view.scored_names) > 1 else "where.charted_largest"
        st.caption(word(key, charted=len(rows), count=f"{len(labels):,}"))
    st.caption(word("where.each_on_its_own"))
    _draw_table(view, metrics, labels, grouping)
    if len(parts) > MAX_MEASURED_SLICES:
        st.caption(word("where.largest_only", measured=f"{MAX_MEASURED_SLICES:,}", count=f"{len(parts):,}"))


def default_property(view: ComparisonView) -> SliceProperty:
    return SliceProperty.KIND if SliceProperty.KIND in view.opened.properties else SliceProperty.OVERLAP


def _draw_largest_difference(
    view: ComparisonView, metrics: pd.DataFrame, labels: Sequence[str], grouping: SliceProperty
) -> None:
    """Draw the largest significant difference from the baseline on a slice, else the difference on all questions."""
    first, *others = view.scored_names
    if not others:
        return
    display_names = view.display_names
    values = {"first": plain(display_names[first]), "count": f"{(metrics['retriever'] != first).sum():,}"}
    strongest = analysis.largest_significant_difference(metrics)
    test = view.best_test
    if strongest is not None:
        side = "ahead" if strongest["difference"] > 0 else "behind"
        st.markdown(word(f"where.telling_{side}", **values | slice_difference_texts(view, strongest, labels, grouping)))
    elif test is not None and test.is_significant:
        side = "ahead" if test.difference > 0 else "behind"
        points = f"{abs(test.difference) * 100:.1f}"
        st.markdown(word(f"where.telling_all_{side}", name=plain(display_names[test.a]), points=points, **values))
    else:
        texts = [word("where.telling_none", **values)]
        if len(others) > 1:  # the headline may report a difference between two of the others
            texts.append(word("where.telling_others", first=plain(display_names[first])))
        st.markdown(" ".join(texts))


def slice_difference_texts(
    view: ComparisonView, strongest: "pd.Series[Any]", labels: Sequence[str], grouping: SliceProperty
) -> dict[str, str]:
    difference = strongest["difference"]
    questions = word(f"where.on_{grouping.value}", label=plain(labels[strongest["slice"]]))
    names = {"name": strongest["retriever"], "first": view.scored_names[0]}
    texts = {field: plain(view.display_names[name]) for field, name in names.items()}
    interval = difference_interval(difference, strongest["difference_low"], strongest["difference_high"])
    return {"questions": questions, "points": f"{abs(difference) * 100:.1f}", **texts, **interval}


def select_slices(metrics: pd.DataFrame, labels: Sequence[str], count: int) -> tuple[pd.DataFrame, list[str]]:
    contested = metrics[metrics["slice"].isin(analysis.most_contested_slices(metrics, count))]
    sizes = contested.groupby("slice")["questions"].first()
    rows = {index: f"{labels[index]} ({size:,})" for index, size in dict(sizes).items()}
    return contested.assign(row=contested["slice"].map(rows)), [*rows.values()]


def _draw_table(view: ComparisonView, metrics: pd.DataFrame, labels: Sequence[str], grouping: SliceProperty) -> None:
    name = tables.text(f"where.by_{grouping.value}", width=120, pinned=True)
    mean = st.column_config.NumberColumn(view.metric.long_name, help=word("where.best_help"))
    slice_labels = [labels[index] for index in metrics["slice"]]
    table, styled, columns = tables.slices_table(metrics, slice_labels, view.scored_names[0], name, mean)
    key = f"slices_{grouping.value}"
    with st.expander(word("where.as_table")):
        st.caption(word("where.select_row"))
        slice_indices = metrics["slice"].tolist()

        def show_questions() -> None:
            if rows := tables.selected_rows(st.session_state[key]):
                show_why({"slice": grouping.value, "within": str(slice_indices[rows[0]])})

        kwargs: dict[str, Any] = {"selection_mode": tables.SINGLE_ROW, "placeholder": "–", "hide_index": True}
        event = st.dataframe(styled, on_select=show_questions, key=key, column_config=columns, **kwargs)
        if tables.selected_rows(event):
            st.rerun()  # the whole page: another tab opens
        tables.draw_csv("where.csv", lambda: table, f"slices_{grouping.value}_{view.metric}.csv")


def _draw_lost(view: ComparisonView) -> None:
    st.subheader(word("where.lost", k=view.k))
    st.caption(word("where.lost_help", k=view.k))
    counts = analysis.count_outcomes(view.opened.outcomes(view.k))
    counts = counts.loc[[name for name in _ordered_names(view) if name in counts.index]]
    if not len(counts):
        st.info(word("where.no_fate", k=view.k), icon=":material/info:")
        return
    losses = [fate for fate in analysis.OUTCOMES if fate is not RetrievalOutcome.FOUND and counts[fate].any()]
    fates = {word(f"fate.{fate}"): fate.value for fate in losses}
    if fates:
        lost = counts.rename(columns={fate: label for label, fate in fates.items()})[[*fates]].rename_axis("retriever")
        long = lost.reset_index().melt("retriever", var_name="label", value_name="count")
        x = word("where.lost_questions")
        displayed = with_display_names(long, view.display_names)
        charts.draw_chart(lost_questions, displayed, order=view.labels_for(counts.index), fates=fates, x=x)
    else:
        st.success(word("where.none_lost", k=view.k), icon=":material/check_circle:")
    _draw_numbers(counts, len(view.comparison.question_set.questions), view.display_names)


def _ordered_names(view: ComparisonView) -> list[str]:
    return [*view.ranked, *(result.name for result in view.results if result.name not in view.ranked)]


def _draw_numbers(counts: pd.DataFrame, questions: int, display_names: Mapping[str, str]) -> None:
    fates = [fate.value for fate in analysis.OUTCOMES if fate is RetrievalOutcome.FOUND or counts[fate.value].any()]
    widths = [2] + [1] * len(fates)
    with st.expander(word("where.numbers")):
        st.caption(word("where.click_number"))
        head, *header_columns = st.columns(widths, vertical_alignment="bottom")
        head.markdown(f"**{word('compare.retriever')}**")
        for cell, fate in zip(header_columns, fates, strict=True):
            cell.markdown(f"**{word(f'fate.{fate}')}**", help=word(f"fate_help.{fate}"))
        for name, row in counts.iterrows():
            first, *cells = st.columns(widths, vertical_alignment="center")
            first.markdown(plain(display_names[str(name)]))
            for cell, fate in zip(cells, fates, strict=True):
                if not row[fate]:
                    cell.markdown("–")
                    continue
                label = f":primary[{row[fate]:,} · {row[fate] / questions:.1%}]"
                about = word("where.show_questions", fate=word(f"fate.{fate}"))
                click: dict[str, Any] = {"on_click": show_why, "args": ({"of": str(name), "fate": fate},)}
                cell.button(label, key=f"fate_{name}_{fate}", type="tertiary", help=about, **click)


def _draw_ceilings(view: ComparisonView) -> None:
    st.subheader(word("where.ceilings", k=view.k))
    st.caption(word("where.ceilings_help", k=view.k))
    scores = view.comparison.scores
    composed = [name for name in _ordered_names(view) if view.spec(name).components and name in scores]
    measured = {name: scores[name].means().get(f"hit@{view.k}") for name in composed}
    hits = {name: hit for name, hit in measured.items() if hit is not None}
    if not hits:
        st.info(word("where.no_wrapping"), icon=":material/info:")
        return
    reads = {name: view.spec(name).candidate_depth(view.k) for name in hits}
    depths = tuple(sorted({*analysis.DEPTHS, *reads.values()}))
    ceilings = view.opened.ceilings(depths)
    # A ceiling is NaN if a source was not searched to this depth
    rows = [
        (name, view.labels_for(view.spec(name).sources), depth, hits[name], ceilings[name][depths.index(depth)])
        for name, depth in reads.items()
        if name in ceilings
    ]
    reached = pd.DataFrame(rows, columns=["retriever", "sources", "depth", "hit", "ceiling"])
    # From K on: fewer candidates than K cannot fill the top K
    points = [
        (name, depth, fraction)
        for name in reached["retriever"]
        for depth, fraction in zip(depths, ceilings[name], strict=True)
        if depth >= min(view.k, reads[name]) and not np.isnan(fraction)
    ]
    curves = pd.DataFrame(points, columns=["retriever", "depth", "ceiling"])
    displayed = with_display_names(reached, view.display_names)
    first_rows = displayed.head(4).dropna().to_dict("records")  # the table has all
    st.markdown("\n".join(f"- {ceiling_words(row, view.k)}" for row in first_rows))
    if curves["depth"].nunique() > 1:
        own = displayed.drop(columns="sources").dropna()
        lines = with_display_names(curves, view.display_names)
        titles: dict[str, Any] = {"x": word("where.candidates"), "y": word("where.questions_share")}
        charts.draw_chart(ceiling_lines, lines, own, view.labels_for(view.names), **titles)
        st.caption(word("where.how_to_read", k=view.k))
    _draw_ceiling_table(reached, curves, view)


def ceiling_words(row: Mapping[Any, Any], k: int) -> str:
    """Return, as Markdown, the gains in Hit@K that better ordering and more candidates allow, unless they round to 0.0.

    `row` has "retriever", "sources", "depth", "hit" and "ceiling" (0 to 1).
    """
    depth = word("where.depth_each" if len(row["sources"]) > 1 else "where.depth_single", depth=row["depth"])
    order = f"{(row['ceiling'] - row['hit']) * 100:.1f}"
    more = f"{(1 - row['ceiling']) * 100:.1f}"
    names = {"name": plain(row["retriever"]), "sources": plain(", ".join(row["sources"]))}
    hits = {"own": f"{row['hit']:.1%}", "ceiling": f"{row['ceiling']:.1%}"}
    sentences = [
        word("where.ceiling_reached", k=k, depth=depth, **names, **hits),
        word("where.ceiling_no_order") if order == "0.0" else word("where.ceiling_order", points=order),
        word("where.ceiling_no_more") if more == "0.0" else word("where.ceiling_more", points=more),
    ]
    return " ".join(sentences)


def _draw_ceiling_table(reached: pd.DataFrame, curves: pd.DataFrame, view: ComparisonView) -> None:
    at_depth = curves.pivot(index="retriever", columns="depth", values="ceiling").rename(columns=str) * 100
    table = reached.join(at_depth, on="retriever")
    table[["hit", "ceiling"]] *= 100
    columns = {
        "retriever": tables.retriever(),
        "sources": tables.text("where.sources"),
        "depth": tables.number("where.reads"),
        "hit": tables.labelled_number(f"Hit@{view.k}", "%.2f"),
        "ceiling": tables.number("where.ceiling", "%.2f"),
    }
    for depth in map(str, at_depth):
        columns[depth] = tables.labelled_number(word("where.ceiling_at", depth=depth), "%.2f")
    with st.expander(word("compare.as_table")):
        tables.draw(table.assign(sources=table["sources"].str.join(", ")), columns, placeholder="–")
