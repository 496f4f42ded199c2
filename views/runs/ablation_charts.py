"""The picture of an ablation: one measure of its variants, each with its interval. Its numbers are in the table."""

import altair as alt
import pandas as pd

from retrieval.report.colours import PALETTE, READABLE
from views.ui.charts import with_interval

_COLOUR = PALETTE[0]
_ROW, _AXIS = 36, 80  # pixels


def variants(table: pd.DataFrame, *, x: str, y: str) -> alt.LayerChart:
    """One row a "variant": its "value" with "low" to "high", hollow where it is not "alike", beside the "reference".

    The dashed line is the figure of the row that is the reference.
    """
    base = alt.Chart(table).encode(
        y=alt.Y("variant:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
        tooltip=[alt.Tooltip("variant:N", title=y), *with_interval("value", x, ",.2f")],
    )
    scale = alt.Scale(zero=False, padding=12)
    whole = alt.X("value:Q", title=x, scale=scale, axis=alt.Axis(tickCount=5))
    line = alt.Chart(table[table["reference"]]).mark_rule(color=READABLE, strokeDash=[5, 4], strokeWidth=1.5)
    intervals = base.mark_rule(strokeWidth=3, color=_COLOUR).encode(x=alt.X("low:Q", title=x, scale=scale), x2="high:Q")
    marks = base.mark_point(size=110, opacity=1, strokeWidth=2, stroke=_COLOUR).encode(
        x=whole,
        fill=alt.condition("datum.alike", alt.value(_COLOUR), alt.value("white")),
    )
    return (line.encode(x=whole) + intervals + marks).properties(height=_AXIS + _ROW * len(table))
