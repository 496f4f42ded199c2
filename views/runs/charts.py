"""The charts of one training, or of several beside each other, each with its table."""

from collections.abc import Sequence
from math import ceil

import altair as alt
import pandas as pd
import streamlit as st

from retrieval.report.charts import legend, shape
from retrieval.report.colours import PALETTE
from training.readers.recipe import READERS
from training.recipe import RECIPES, recipe_of
from training.runs.curves import MEASURES, Curves, Points
from training.runs.runs import Plan, Run
from training.sentences.material import PAIRS
from views.ui.charts import draw_chart, tips
from views.ui.words import word, word_or

_GEOMETRY = {"alignment": "Alignment", "uniformity": "Uniformity"}  # of the space: no share of anything
_NAMES = _GEOMETRY | {of: name for recipe in RECIPES.values() for of, name in recipe.family.measures.items()}
_BM25 = PALETTE[0]
_BESIDE = "#8a8a8a"  # of the questions that do not judge: read on light and on dark
_HEIGHTS = {"loss": 240, "learning_rate": 170, "grad_norm": 170}
_LEGEND_ROW = 30  # pixels; a legend takes its room from the lines
# how a figure is written in a chart (d3) and in a table
_FORMATS = {"loss": (".4f", "%.4f"), "learning_rate": (".2e", "scientific"), "grad_norm": (".3f", "%.3f")}
_FORMATS |= dict.fromkeys(_GEOMETRY, (".3f", "%.3f"))
_SHARE = (".2%", "percent")


def measure_names(kind: str) -> dict[str, str]:
    """Return what a training of this kind is measured by, and what each is called."""
    return {name: measure_name(name) for name in recipe_of(kind).family.curves}


def measure_name(name: str) -> str:
    """Return what a measure is called."""
    return word_or(f"measure.{name}", _NAMES[name])


def best_by(run: Run, plan: Plan) -> str:
    """Return the measure that picks the checkpoint, or the usual one of the kind where it is picked by the loss."""
    settled = run.provenance().get("settled", {}).get("best_by", plan.options.best_by.value)
    return str(settled) if settled in measure_names(plan.kind) else recipe_of(plan.kind).measure


def pick_measure(key: str, kind: str, first: str) -> str:
    """Draw the choice of the measure to look at; `first` is chosen before anybody does."""
    names = measure_names(kind)
    chosen = st.segmented_control(
        word("train.measure_shown"),
        list(names),
        default=first,
        format_func=names.__getitem__,
        key=key,
        required=True,
        label_visibility="collapsed",
    )
    return str(chosen or first)


def draw_run_figure(name: str, found: Curves, colour: str, *, last_step: int = 0, kept_step: int = 0) -> None:
    """Draw a figure of one training; of validation and of training questions where it is known of both."""
    own, other = ("validation", "training") if name in MEASURES else ("training", "validation")
    lines, colours = {word(f"train.line_{own}"): found.points[name]}, [colour]
    if found.beside[name]:
        lines[word(f"train.line_{other}")] = found.beside[name]
        colours = [colour, _BESIDE] if own == "validation" else [_BESIDE, colour]  # what judges has one colour
    draw_figure(
        name,
        lines,
        colours,
        last_step=last_step,
        bm25=found.bm25.get(name),
        kept=next(
            (point for point in found.points[name] if kept_step and point[0] == kept_step and name in MEASURES), None
        ),
    )


def draw_figure(
    name: str,
    lines: dict[str, Points],
    colours: Sequence[str],
    *,
    last_step: int = 0,
    bm25: float | None = None,
    kept: tuple[int, float] | None = None,
) -> None:
    """Draw a figure against the step, one line a training, with its heading and its table.

    `name` is as in `training.runs.curves`; the table goes on to `last_step`, or to where the longest line ends. `kept`
    is the point of the step whose model was kept.
    """
    st.markdown(f"**{_heading(name)}**", help=_help(name))
    rows = [(label, step, value) for label, points in lines.items() for step, value in points]
    if not rows:
        st.caption(word("train.no_measure_yet" if name in MEASURES else "train.no_figure_yet"))
        return
    table = pd.DataFrame(rows, columns=["run", "step", "value"])
    last = max(last_step, int(table["step"].max()))
    draw_chart(_chart, name, table, list(lines), list(colours[: len(lines)]), last, bm25=bm25, kept=kept)
    _numbers(name, table, list(lines), bm25)


def _heading(name: str) -> str:
    if name not in MEASURES:
        return word(f"train.{name}")
    return word("train.measured_pairs" if name in PAIRS.curves else "train.measured", measure=measure_name(name))


def _help(name: str) -> str:
    if name in MEASURES:
        how = {"measured_pairs_help": PAIRS.curves, "measured_passages_help": READERS.curves}
        told = next((key for key, curves in how.items() if name in curves), "measured_help")
        return f"{word('help.' + name.partition('@')[0])} {word(f'train.{told}')}"
    return word(f"train.{name}_help")


def _chart(
    name: str,
    table: pd.DataFrame,
    runs: list[str],
    colours: Sequence[str],
    last_step: int,
    *,
    bm25: float | None,
    kept: tuple[int, float] | None,
) -> alt.LayerChart:
    lines = _lines(name, table, runs, colours, last_step)
    if kept is not None:
        lines += _kept_mark(*kept, colours[0])
    return lines if bm25 is None else lines + _bm25_rule(bm25)


def _kept_mark(step: int, value: float, colour: str) -> alt.LayerChart:
    point = pd.DataFrame({"step": [step], "value": [value], "text": [word("train.kept_mark")]})
    base = alt.Chart(point).encode(x="step:Q", y="value:Q")
    ring = base.mark_point(size=220, filled=False, strokeWidth=2, opacity=1, color=colour)
    return ring + base.mark_text(dy=-18, fontWeight="bold", color=colour).encode(text="text:N")


def _lines(name: str, table: pd.DataFrame, runs: list[str], colours: Sequence[str], last_step: int) -> alt.LayerChart:
    number, _ = _FORMATS.get(name, _SHARE)
    axis = {"learning_rate": ".2e"}.get(name, ".3~f" if name in _FORMATS else ".1%")
    several = len(runs) > 1
    names = legend(columns=2, labelLimit=180) if several else None
    height = _HEIGHTS.get(name, _HEIGHTS["loss"]) + (_LEGEND_ROW * ceil(len(runs) / 2) if several else 0)
    base = alt.Chart(table).encode(
        x=alt.X(
            "step:Q",
            title=word("train.step"),
            scale=alt.Scale(domain=[0, last_step]),
            axis=alt.Axis(tickMinStep=1, format="d"),
        ),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False, padding=12), axis=alt.Axis(format=axis)),
        color=alt.Color("run:N", scale=alt.Scale(domain=runs, range=list(colours)), legend=names),
        tooltip=[
            *([alt.Tooltip("run:N", title=word("train.run"))] if several else []),
            *tips(("step:Q", word("train.step")), ("value:Q", _short(name), number)),
        ],
    )
    marks = base.mark_point(filled=True, opacity=1, size=45 if name in MEASURES else 12)
    return (base.mark_line() + marks.encode(shape=shape("run", runs, runs, names))).properties(height=height)


def _bm25_rule(value: float) -> alt.LayerChart:
    base = alt.Chart(pd.DataFrame({"value": [value], "text": [f"BM25 {value:.1%}"]})).encode(y="value:Q")
    label = base.mark_text(align="right", dx=-4, dy=-8, color=_BM25, fontWeight="bold").encode(
        text="text:N", x=alt.value("width")
    )
    return base.mark_rule(color=_BM25, strokeDash=[6, 4], strokeWidth=2) + label


def _numbers(name: str, table: pd.DataFrame, runs: list[str], bm25: float | None) -> None:
    """One row a step; the columns are the trainings, and BM25."""
    wide = table.pivot_table(index="step", columns="run", values="value", aggfunc="last", dropna=False)
    wide = wide.reindex(columns=[run for run in runs if run in wide])
    if len(runs) == 1:
        wide = wide.rename(columns={runs[0]: _short(name)})
    if bm25 is not None:
        wide["BM25"] = bm25
    _, number = _FORMATS.get(name, _SHARE)
    columns = dict.fromkeys(wide.columns, st.column_config.NumberColumn(format=number))
    with st.expander(word("train.as_table")):
        shown = wide.rename_axis(index=word("train.step"), columns=None).reset_index()
        st.dataframe(shown, hide_index=True, column_config=columns, height=220)


def _short(name: str) -> str:
    return measure_name(name) if name in MEASURES else word(f"train.{name}")
