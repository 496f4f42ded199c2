"""The chart `docs/bm25.svg`: how long a question takes as the passages grow, with one thread beside all cores."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import Measured
from benchmarks.speed.bm25.cases import PLAIN, Case
from benchmarks.speed.bm25.report import OURS, passages_of
from data.workspace import PROJECT

PICTURE = PROJECT / "docs" / "bm25.svg"
_DECADES = [10.0**power for power in range(-4, 5)]  # milliseconds that are named


def draw(lines: Sequence[Measured], path: Path) -> None:
    """Draw milliseconds a question over passages, both axes logarithmic."""
    import altair as alt
    import vl_convert

    from retrieval.report.colours import PALETTE, SHAPES

    points = _points(lines)
    engines = list(points["engine"].unique())
    sizes = alt.Axis(format="~s", values=sorted({*points["passages"]}))
    x = alt.X("passages:Q", title="passages", scale=alt.Scale(type="log", nice=False), axis=sizes)
    milliseconds = alt.Axis(format="~g", values=_DECADES)
    y = alt.Y("milliseconds:Q", title="milliseconds a question", scale=alt.Scale(type="log"), axis=milliseconds)
    colours = alt.Scale(domain=engines, range=[PALETTE[place % len(PALETTE)] for place in range(len(engines))])
    marks = alt.Scale(domain=engines, range=[SHAPES[place % len(SHAPES)] for place in range(len(engines))])
    base = alt.Chart(points).encode(
        x=x,
        y=y,
        color=alt.Color("engine:N", title=None, scale=colours, sort=engines),
        shape=alt.Shape("engine:N", title=None, scale=marks, sort=engines),
    )
    chart = (base.mark_line(strokeWidth=2) + base.mark_point(filled=True, size=60)).properties(width=300, height=340)
    panels = alt.Column("panel:N", title=None, sort=[_panel(case) for case in PLAIN])
    whole = chart.facet(column=panels).properties(background="white", padding=12)
    path.write_text(vl_convert.vegalite_to_svg(whole.to_dict()), encoding="utf-8")


def _points(lines: Sequence[Measured]) -> Any:
    """Return a table of the milliseconds of every engine; ours is the one of the first line of its size."""
    import pandas as pd

    rows = []
    for case in PLAIN:
        for one in lines:
            passages = passages_of(one.size)
            if (one.name, one.size) == (case.name, case.size(passages)) and one.theirs is not None:
                for who, seconds in ((OURS, one.ours), (one.peer, one.theirs)):
                    rows.append((_panel(case), who, passages, 1000 * seconds / case.n_questions))
    points = pd.DataFrame(rows, columns=["panel", "engine", "passages", "milliseconds"])
    return points.drop_duplicates(["panel", "engine", "passages"])


def _panel(case: Case) -> str:
    return case.name.rpartition(", ")[2]
