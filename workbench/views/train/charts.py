"""The charts of one training, or of several beside each other, each with its table; and the dialog with the details of
one: its curves, settings, provenance and log."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from math import ceil
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from mrc_workbench.retrieval.report.charts import PALETTE, legend, shape
from mrc_workbench.training.recipes import RECIPES, recipe_of
from mrc_workbench.training.recipes.readers import READERS
from mrc_workbench.training.recipes.sentence_material import PAIRS
from mrc_workbench.training.results import MEASURES, Curves, Points, curves
from mrc_workbench.training.runs import Plan, Run, all_runs
from mrc_workbench.workbench.views.names import base_name, run_name, set_name
from mrc_workbench.workbench.views.ui import findings, tables
from mrc_workbench.workbench.views.ui.charts import draw_chart, tips
from mrc_workbench.workbench.views.ui.job import draw_log
from mrc_workbench.workbench.views.ui.words import known, label_and_help, moment, word, word_or

_GEOMETRY = {"alignment": "Alignment", "uniformity": "Uniformity"}  # of the space: no share of anything
_NAMES = _GEOMETRY | {of: name for recipe in RECIPES.values() for of, name in recipe.family.measures.items()}
_BM25 = PALETTE[0]
_BESIDE = "#8a8a8a"  # of the questions that do not judge: read on light and on dark
# how a figure is written in a chart (d3) and in a table
_FORMATS = {"loss": (".4f", "%.4f"), "learning_rate": (".2~r", "%.7f"), "grad_norm": (".3f", "%.3f")}
_FORMATS |= dict.fromkeys(_GEOMETRY, (".3f", "%.3f"))
_SHARE = (".2%", "percent")
_NUMBERS = {"loss": ".3f", "learning_rate": ".2e", "grad_norm": ".3f"} | dict.fromkeys(_GEOMETRY, ".3f")


def measure_names(kind: str) -> dict[str, str]:
    return {name: measure_name(name) for name in recipe_of(kind).family.curves}


def measure_name(name: str) -> str:
    return word_or(f"measure.{name}", _NAMES[name])


def best_by(run: Run, plan: Plan) -> str:
    """Return the measure that selects the checkpoint, or the kind's default if the loss selects it."""
    settled = run.provenance().get("settled", {}).get("best_by", plan.options.best_by.value)
    return str(settled) if settled in measure_names(plan.kind) else recipe_of(plan.kind).measure


def pick_measure(key: str, kind: str, first: str) -> str:
    """Draw the choice of the displayed measure, by default `first`."""
    names = measure_names(kind)
    look: dict[str, Any] = {"format_func": names.__getitem__, "required": True, "label_visibility": "collapsed"}
    measure = st.segmented_control(word("train.measure_shown"), list(names), default=first, key=key, **look)
    return str(measure or first)


def draw_run_figure(name: str, found: Curves, colour: str, *, last_step: int = 0, kept_step: int = 0) -> None:
    """Draw a figure of one training, on validation and training questions if both are known."""
    own, other = ("validation", "training") if name in MEASURES else ("training", "validation")
    lines, colours = {word(f"train.line_{own}"): found.points[name]}, [colour]
    if found.beside[name]:
        lines[word(f"train.line_{other}")] = found.beside[name]
        colours = [colour, _BESIDE] if own == "validation" else [_BESIDE, colour]  # what judges has one colour
    points = found.points[name] if kept_step and name in MEASURES else []
    kept = next((point for point in points if point[0] == kept_step), None)
    draw_figure(name, lines, colours, last_step=last_step, bm25=found.bm25.get(name), kept=kept)


def draw_figure(
    name: str,
    lines: dict[str, Points],
    colours: Sequence[str],
    *,
    last_step: int = 0,
    bm25: float | None = None,
    kept: tuple[int, float] | None = None,
) -> None:
    """Draw a figure by step, one line a training, with its heading and its table.

    `name` is as in `training.runs.curves`; the axis goes to `last_step`, or to the end of the longest line. `kept` is
    the point of the step whose model was kept.
    """
    if name in MEASURES:
        of_pairs = name in PAIRS.curves
        heading = word("train.measured_pairs" if of_pairs else "train.measured", measure=measure_name(name))
        how = "measured_pairs" if of_pairs else "measured_passages" if name in READERS.curves else "measured"
        help_text = f"{word('help.' + name.partition('@')[0])} {word(f'train.{how}_help')}"
        tables.draw_heading(heading, help=help_text)
    else:
        tables.draw_heading(word(f"train.{name}"), help=word(f"train.{name}_help"))
    rows = [(label, step, value) for label, points in lines.items() for step, value in points]
    if not rows:
        st.caption(word("train.no_measure_yet" if name in MEASURES else "train.no_figure_yet"))
        return
    table = pd.DataFrame(rows, columns=["run", "step", "value"])
    last = max(last_step, int(table["step"].max()))
    draw_chart(_chart, name, table, list(lines), list(colours[: len(lines)]), last, bm25=bm25, kept=kept)
    _numbers(name, table, list(lines), bm25)


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
    chart = _lines(name, table, runs, colours, last_step)
    rows = findings.courses(table, "run", "step", "value", _NUMBERS.get(name, ".1%"))
    if kept is not None:
        point = pd.DataFrame([(*kept, word("train.kept_mark"))], columns=["step", "value", "text"])
        base = alt.Chart(point).encode(x="step:Q", y="value:Q")
        ring = base.mark_point(size=220, filled=False, strokeWidth=2, opacity=1, color=colours[0])
        chart += ring + base.mark_text(dy=-18, fontWeight="bold", color=colours[0]).encode(text="text:N")
    if bm25 is not None:
        base = alt.Chart(pd.DataFrame({"value": [bm25], "text": [f"BM25 {bm25:.1%}"]})).encode(y="value:Q")
        text = base.mark_text(align="right", dx=-4, dy=-8, color=_BM25, fontWeight="bold")
        line = base.mark_rule(color=_BM25, strokeDash=[6, 4], strokeWidth=2)
        chart += line + text.encode(text="text:N", x=alt.value("width"))
        rows.append(word("chart.row", name="BM25", value=f"{bm25:.1%}"))
    return chart.properties(description=findings.describe(_short(name), rows))


def _lines(name: str, table: pd.DataFrame, runs: list[str], colours: Sequence[str], last_step: int) -> alt.LayerChart:
    number, _ = _FORMATS.get(name, _SHARE)
    axis = {"learning_rate": ".2~r"}.get(name, ".3~f" if name in _FORMATS else ".1%")
    several, step = len(runs) > 1, word("train.step")
    names = legend(columns=2, labelLimit=180) if several else None
    # pixels; a legend takes its room from the lines
    height = (170 if name in ("learning_rate", "grad_norm") else 240) + (24 * ceil(len(runs) / 2) if several else 0)
    base = alt.Chart(table).encode(
        x=alt.X("step:Q", title=step, scale=alt.Scale(domain=[0, last_step]), axis=alt.Axis(tickMinStep=1, format="d")),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False, padding=12), axis=alt.Axis(format=axis)),
        color=alt.Color("run:N", scale=alt.Scale(domain=runs, range=list(colours)), legend=names),
        tooltip=[
            *([alt.Tooltip("run:N", title=word("train.run"))] if several else []),
            *tips(("step:Q", step), ("value:Q", _short(name), number)),
        ],
    )
    marks = base.mark_point(filled=True, opacity=1, size=45 if name in MEASURES else 12)
    # what does not judge is grey and dashed
    dashes = alt.Scale(domain=runs, range=[[5, 4] if tint == _BESIDE else [1, 0] for tint in colours])
    lines = base.mark_line().encode(strokeDash=alt.StrokeDash("run:N", scale=dashes, legend=None))
    return (lines + marks.encode(shape=shape("run", runs, runs, names))).properties(height=height)


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


def draw_details(run: Run) -> None:
    plan = run.plan()
    names = ("curves", "settings", "provenance", "log")
    curves_tab, settings, provenance, log = st.tabs([word(f"train.tab_{name}") for name in names])
    with curves_tab:
        _draw_curves(run, plan)
    with settings:
        options = {name: value for name, value in asdict(plan.options).items() if name != "base"}
        rows = [
            (word("train.base"), base_name(plan.options.base, plan.kind)),
            (word("train.row_data"), set_name(plan.data_name)),
            *((_option(name), value) for name, value in (options | _split(asdict(plan.split))).items()),
            (word("train.row_folder"), str(run.folder)),
        ]
        _table(rows, word("train.row_option"))
    with provenance:
        _draw_provenance(run)
    with log:
        draw_log(run, 200)


def _draw_provenance(run: Run) -> None:
    made = run.provenance()
    if not made:
        st.caption(word("train.no_provenance"))
        return
    st.caption(word("train.provenance_about"))
    single = {name: value for name, value in made.items() if not isinstance(value, dict)}
    groups = {name: value for name, value in made.items() if isinstance(value, dict)}
    _table([(_fact(name), value) for name, value in single.items()], word("train.row_fact"))
    for name, facts in groups.items():
        tables.draw_heading(_fact(name))
        rows = _split(facts) if name == "split" else facts
        label = _option if name in ("split", "options", "settled") else _fact
        _table([(label(fact), value) for fact, value in rows.items()], word("train.row_fact"))
    content = json.dumps(made, ensure_ascii=False, indent=2)
    tables.draw_file("train.provenance_json", content, f"{run.id}-provenance.json", "application/json")


def _split(facts: dict[str, Any]) -> dict[str, Any]:
    """Rename the split's seed, which is another one than that of the training."""
    return {"split_seed" if name == "seed" else name: value for name, value in facts.items()}


def _option(name: str) -> str:
    return next((word(key) for key in (f"option.{name}", f"train.{name}") if known(key)), name)


def _fact(name: str) -> str:
    return word_or(f"provenance.{name}", name)


def _table(rows: list[tuple[str, Any]], heading: str) -> None:
    def as_text(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:g}"
        return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

    columns = [heading, word("train.row_value")]
    st.dataframe(pd.DataFrame([(name, as_text(value)) for name, value in rows], columns=columns), hide_index=True)


def _draw_curves(run: Run, plan: Plan) -> None:
    # the names of all runs of the kind, no two alike
    plans = {one: own for one in all_runs() if (own := one.plan()).kind == plan.kind}
    names_of_plans = Counter(map(run_name, plans.values()))
    labels = {one: run_name(own) for one, own in plans.items()}
    for one, name in labels.items():
        if names_of_plans[name] > 1:
            labels[one] = f"{name} · {moment(plans[one].created)} · {one.id[-4:]}"
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        beside = _pick_others(run, labels)
    with right:
        measure = pick_measure(f"details_measure_{run.id}", plan.kind, best_by(run, plan))
    if any(_evaluated_on(plans[one]) != _evaluated_on(plan) for one in beside):
        st.warning(word("train.other_questions"), icon=":material/warning:")
    shown = [run, *beside]
    names = ("loss", measure, "learning_rate", "grad_norm")
    found = {labels[one]: curves(one, names) for one in shown}
    bm25 = {one.bm25.get(measure) for one in found.values()}  # drawn where it is the same for all
    columns = st.columns(2)
    last_step = max(one.status().total_steps for one in shown)
    for number, name in enumerate(names):
        with columns[number % 2]:
            if not beside:
                kept, colour = run.scores().get("kept_step", 0), recipe_of(plan.kind).colour
                draw_run_figure(name, found[labels[run]], colour, last_step=last_step, kept_step=kept)
                continue
            draw_figure(
                name,
                {label: one.points[name] for label, one in found.items()},
                PALETTE[1 : len(shown) + 1],  # the first one is BM25's
                last_step=last_step,
                bm25=next(iter(bm25)) if name in MEASURES and len(bm25) == 1 else None,
            )


def _pick_others(run: Run, labels: dict[Run, str]) -> list[Run]:
    others = {one.id: one for one in labels if one != run and one.progress()}
    look: dict[str, Any] = {"format_func": lambda run_id: labels[others[run_id]], "disabled": not others}
    look |= {"placeholder": word("train.beside_placeholder") if others else word("train.beside_none")}
    words = label_and_help("train.beside")
    selected = st.multiselect(**words, options=list(others), max_selections=5, key=f"beside_{run.id}", **look)
    return [others[run_id] for run_id in selected]


def _evaluated_on(plan: Plan) -> tuple[Any, ...]:
    """Return what decides which questions a training is evaluated on."""
    return plan.fingerprint, plan.split, plan.options.evaluation_limit
