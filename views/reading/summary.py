"""The first view of an evaluation: right answers against K, where they are lost, and how sure the differences are."""

import streamlit as st

from views.reading import charts
from views.reading.evaluation import FATES, ReadingView, curve_table, difference_table, fate_table, figure_table
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.words import word


def draw(view: ReadingView) -> None:
    """Draw the curves and the bars beside each other, each with its table, and the differences."""
    left, right = st.columns([3, 2])
    with left:
        _draw_curves(view)
    with right:
        _draw_lost(view)
    _draw_figures(view)
    _draw_fates(view)
    _draw_differences(view)


def _draw_curves(view: ReadingView) -> None:
    measure = word(f"answers.measure_{view.measure}")
    st.markdown(f"**{word('answers.curves', measure=measure)}**", help=word("answers.curves_help"))
    oracle = view.oracle[view.measure]
    label = word("answers.oracle_label", value=f"{100 * oracle:.1f}")
    draw_chart(charts.curves, curve_table(view), list(view.names), oracle, chosen=view.k, y=measure, label=label)
    st.caption(word("answers.curves_legend"))


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
        st.dataframe(styled, hide_index=True, column_order=[*columns], column_config=columns)
        st.caption(word("answers.figures_help", k=view.k))


def _draw_lost(view: ReadingView) -> None:
    st.markdown(f"**{word('answers.lost', k=view.k)}**", help=word("answers.lost_help"))
    table = fate_table(view)
    labels = {word(f"answers.fate_{fate}"): fate for fate in FATES.values()}
    draw_chart(charts.lost, table, order=list(view.answered), fates=labels, x=word("answers.share_of_questions"))


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
        st.dataframe(wide, hide_index=True, column_order=[*columns], column_config=columns)


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
        st.dataframe(table, hide_index=True, column_order=[*columns], column_config=columns)
        st.caption(word("answers.differences_help", k=view.tested))
