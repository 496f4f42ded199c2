"""The charts of a training, each with its table."""

import altair as alt
import pandas as pd
import streamlit as st

from training.curves import Curves
from training.options import Kind
from views.colours import PALETTE
from views.words import word

_HEIGHT = 240
_BM25 = PALETTE[0]
_COLOUR = {Kind.BI_ENCODER: PALETTE[1], Kind.CROSS_ENCODER: PALETTE[3]}  # of Dense and of Reranked on the other pages
_NAMES = {"recall@10": "Recall@10", "ndcg@10": "nDCG@10"}


def draw_curves(found: Curves, kind: Kind, total_steps: int) -> None:
    """Draw the loss, and the measure on the validation questions beside BM25's, against the step."""
    left, right = st.columns(2)
    step, loss, measure = word("train.step"), word("train.loss"), _NAMES[found.measure]
    with left:
        st.markdown(f"**{loss}**", help=word("train.loss_help"))
        if found.loss:
            table = pd.DataFrame(found.loss, columns=[step, loss])
            st.altair_chart(_line(table, total_steps, kind, ".4f"))
            _numbers(table, "%.4f", loss)
        else:
            st.caption(word("train.no_loss_yet"))
    with right:
        st.markdown(f"**{word('train.measured', measure=measure)}**", help=_measure_help(found.measure))
        if found.measured:
            table = pd.DataFrame(found.measured, columns=[step, measure])
            chart = _line(table, total_steps, kind, ".2%")
            st.altair_chart(chart + _bm25(found.bm25, measure) if found.bm25 is not None else chart)
            _numbers(_with_bm25(table, found), "percent", measure)
        else:
            st.caption(word("train.no_measure_yet"))


def _measure_help(measure: str) -> str:
    return f"{word('help.' + measure.split('@', maxsplit=1)[0])} {word('train.measured_help')}"


def _line(table: pd.DataFrame, total_steps: int, kind: Kind, number: str) -> alt.LayerChart:
    x, y = table.columns
    share = number.endswith("%")
    last = max(total_steps, int(table[x].max()))
    base = alt.Chart(table).encode(
        x=alt.X(x, type="quantitative", scale=alt.Scale(domain=[0, last]), axis=alt.Axis(tickMinStep=1, format="d")),
        y=alt.Y(
            y,
            type="quantitative",
            title=None,
            scale=alt.Scale(zero=False, padding=12),
            axis=alt.Axis(format=".1%" if share else ".3~f"),
        ),
        tooltip=[alt.Tooltip(x), alt.Tooltip(y, format=number)],
    )
    line = base.mark_line(color=_COLOUR[kind])
    marks = base.mark_point(color=_COLOUR[kind], filled=True, opacity=1, size=45 if share else 12)
    return (line + marks).properties(height=_HEIGHT)


def _bm25(value: float, measure: str) -> alt.LayerChart:
    base = alt.Chart(pd.DataFrame({measure: [value], "text": [f"BM25 {value:.1%}"]})).encode(
        y=alt.Y(measure, type="quantitative")
    )
    label = base.mark_text(align="right", dx=-4, dy=-8, color=_BM25, fontWeight="bold").encode(
        text="text", x=alt.value("width")
    )
    return base.mark_rule(color=_BM25, strokeDash=[6, 4], strokeWidth=2) + label


def _with_bm25(table: pd.DataFrame, found: Curves) -> pd.DataFrame:
    return table if found.bm25 is None else table.assign(BM25=found.bm25)


def _numbers(table: pd.DataFrame, number: str, name: str) -> None:
    with st.expander(word("train.as_table")):
        columns = {column: st.column_config.NumberColumn(format=number) for column in (name, "BM25") if column in table}
        st.dataframe(table, hide_index=True, column_config=columns, height=220)
