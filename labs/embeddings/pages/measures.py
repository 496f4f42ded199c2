"""The Measures view: every figure of every model with its interval, others' beside them, and the differences; and the
Space view: how the vectors lie, alignment against uniformity, the singular values, the anisotropy.
"""

import json
from collections.abc import Sequence
from functools import partial

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from mrc_workbench.data.pairs import Label
from mrc_workbench.labs.embeddings.geometry import trajectory
from mrc_workbench.labs.embeddings.pages.page import ACCURACY, SHARES, EvaluationView
from mrc_workbench.labs.embeddings.results import Evaluation, ModelResult, Published, published_for
from mrc_workbench.retrieval.report.charts import READABLE, colour, legend
from mrc_workbench.retrieval.significance import Interval
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import apart, draw_chart, present, tips, with_interval
from mrc_workbench.workbench.views.ui.words import plain, word

_LINE = " · "  # where a chart may begin a new line of a name
_HEIGHT = 360  # pixels of a chart
MEASURES = (*SHARES, "alignment", "uniformity", "anisotropy")
# what the table holds and shows when asked: the view of the space tells it in full, and a screen has not room for all
_ASKED_FOR = {"alignment_interval", "uniformity_interval", "anisotropy", "anisotropy_interval", "dimensions"}


def draw_measures(view: EvaluationView) -> None:
    found = published_for(view.data.name, view.part.value)
    published = sorted((one for one in found if one.measure == view.measure), key=lambda one: -one.value)
    table = _dot_table(view, published)
    if len(table):
        title = word("embeddings.hundredfold", measure=word(f"embeddings.{view.measure}"))
        draw_chart(dots, table, view.every, x=title)
        if sources := dict.fromkeys(one.source for one in published):
            st.caption(word("embeddings.published", sources="; ".join(map(plain, sources))))
    _draw_figures(view)
    draw_differences(view, view.measure, expanded=True)
    _draw_probes(view)
    with st.container(horizontal=True):
        tables.draw_csv("embeddings.csv", lambda: _long_table(view.evaluation), "embeddings.csv", "figures_csv")
        scores = partial(json.dumps, view.evaluation.as_dict(), ensure_ascii=False, indent=2)
        tables.draw_file("embeddings.json", scores, "embeddings.json", "application/json", "figures_json")


def _scaled(measure: str, figure: Interval) -> Interval:
    return Interval(*(100 * part for part in figure)) if measure in SHARES else figure


def _figures_of(one: ModelResult, measures: Sequence[str]) -> dict[str, object]:
    """The metrics of a model, and their intervals as texts; an open end is a sign of infinity."""
    row: dict[str, object] = {}
    for measure in measures:
        if measure in one.figures:
            figure, digits = _scaled(measure, one.figures[measure]), ".1f" if measure in SHARES else ".3f"
            ends = f"{format(figure.low, digits)} – {format(figure.high, digits)}"
            row |= {measure: figure.value, f"{measure}_interval": ends.replace("-inf", "−∞").replace("-", "−")}
    return row


def _dot_table(view: EvaluationView, published: list[Published]) -> pd.DataFrame:
    rows: list[dict[str, object]] = []
    for model, one in view.measured.items():
        if view.measure in one.figures:
            figure = _scaled(view.measure, one.figures[view.measure])
            rows.append({"model": model, **figure._asdict(), "ours": True, "source": ""})
    for other in published:
        name = [word("embeddings.not_ours", model=other.model)]
        if other.encoder == "cross-encoder":
            name.append(word("embeddings.is_cross_encoder"))
        if other.learned_from:
            name.append(word("embeddings.learned_from", data=other.learned_from))
        row = {"model": _LINE.join(name), "value": 100 * other.value, "ours": False, "source": other.source}
        rows.append(row)  # without an interval
    table = pd.DataFrame(rows, columns=["model", "value", "low", "high", "ours", "source"])
    return table.sort_values("value", ascending=False, kind="stable", ignore_index=True)


def dots(table: pd.DataFrame, names: Sequence[str], *, x: str) -> alt.LayerChart:
    """One row a "model": its "value" with "low" to "high"; published results, not "ours", are hollow."""
    name = alt.Tooltip("model:N", title=word("embeddings.model"))
    lines = alt.Axis(labelLimit=170, labelOverlap=False, labelLineHeight=12, labelExpr=f"split(datum.label, '{_LINE}')")
    base = alt.Chart(table).encode(y=alt.Y("model:N", sort=[*table["model"]], title=None, axis=lines))
    scale = alt.Scale(zero=False, padding=12)
    tint, mark = apart("model", present(names, table["model"]), names)
    ours = base.transform_filter("datum.ours").encode(color=tint, tooltip=[name, *with_interval("value", x, ".2f")])
    intervals = ours.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q", title=x, scale=scale), x2="high:Q")
    along = alt.X("value:Q", scale=scale)
    marks = ours.mark_point(filled=True, size=110, opacity=1).encode(x=along, shape=mark)
    theirs = base.transform_filter("!datum.ours").mark_point(size=80, strokeWidth=2, color=READABLE)
    tooltip = [name, *tips(("value:Q", x, ".2f"), ("source:N", word("embeddings.source")))]
    published = theirs.encode(x=along, tooltip=tooltip)
    others = table[~table["ours"]]
    rows = charts.intervals(table[table["ours"]], "model", "value", ".2f")
    rows += charts.values([*others["model"]], [*others["value"]], ".2f")
    height = 100 + (42 if len(others) else 30) * len(table)  # published names take several lines
    return (intervals + marks + published).properties(height=height, description=charts.describe(x, rows))


def _draw_figures(view: EvaluationView) -> None:
    table = _figure_table(view)
    measures = [one for one in MEASURES if one in table]
    columns = _measure_columns(MEASURES)
    columns["dimensions"] = tables.number("embeddings.dimensions")
    columns["seconds"] = tables.number("embeddings.encoding_seconds")
    shown = [name for name in columns if name in table and name not in _ASKED_FOR]
    forms = {one: "{:.2f}" if one in SHARES else "{:.4f}" for one in MEASURES}
    forms |= {"dimensions": "{:.0f}", "seconds": "{:.1f}"}
    styled = table.style.format({one: form for one, form in forms.items() if one in table}, na_rep="–")
    for measure in measures:
        best = _surely_best(view, table, measure)
        bold = [tables.BOLD if row == best else "" for row in range(len(table))]
        styled = styled.apply(lambda _, bold=bold: bold, subset=[measure])
    st.dataframe(styled, hide_index=True, column_order=shown, column_config=columns)
    evaluation = view.evaluation
    counts = {"pairs": f"{len(evaluation.rows):,}", "sentences": f"{evaluation.sentences:,}"}
    st.caption(word("embeddings.measured_on", **counts, positives=f"{evaluation.positives:,}"))


def _measure_columns(measures: Sequence[str], **forms: str) -> dict[str, ColumnConfig]:
    columns = {"model": tables.text("embeddings.model", "", pinned=True, width="medium")}
    for measure in measures:
        columns[measure] = tables.number(f"embeddings.{measure}", forms.get(measure))
        columns[f"{measure}_interval"] = tables.text("embeddings.interval", "compare.interval_help")
    return columns


def _figure_table(view: EvaluationView) -> pd.DataFrame:
    """One row a model, the best first and failed ones last: every metric, and its interval as text."""
    failed = {view.names[one.model]: one for one in view.evaluation.results if one.error}
    rows = []
    for name, one in {**view.measured, **failed}.items():
        size = {"dimensions": one.dimensions, "seconds": one.seconds} if one.error is None else {}
        rows.append({"model": name, **_figures_of(one, MEASURES), **size})
    return pd.DataFrame(rows).fillna({f"{measure}_interval": "" for measure in MEASURES})


def _surely_best(view: EvaluationView, table: pd.DataFrame, measure: str) -> int:
    """The row of the best model if it is significantly better than every other, else -1."""
    if table[measure].isna().all():
        return -1
    best = int(table[measure].argmax() if measure in SHARES else table[measure].argmin())
    reference = view.references.get(table["model"][best], "")
    tests = [one for one in view.evaluation.differences.get(measure, []) if reference in (one.a, one.b)]
    return best if tests and all(one.sure for one in tests) else -1


def draw_differences(view: EvaluationView, measure: str, *, expanded: bool = False) -> None:
    scale, rows = 100 if measure in SHARES else 1, []
    for found in view.evaluation.differences.get(measure, []):
        one = found if found.difference >= 0 else found.reversed
        row = {"a": view.names[one.a], "b": view.names[one.b], "p_family": one.p_family}
        row |= {part: scale * getattr(one, part) for part in ("difference", "low", "high")}
        rows.append(row | {"verdict": word("compare.higher" if one.sure else "compare.unsure")})
    if not rows:
        return
    table = pd.DataFrame(rows).sort_values("difference", ascending=False, kind="stable")
    form, unit = ("%+.2f", "difference") if measure in SHARES else ("%+.4f", "difference_plain")
    with st.expander(word("embeddings.differences", measure=word(f"embeddings.{measure}")), expanded=expanded):
        columns = {
            "a": tables.text("embeddings.higher", "", width="medium"),
            "b": tables.text("embeddings.lower", "", width="medium"),
            "verdict": tables.text("compare.verdict", ""),
            "difference": tables.number(f"embeddings.{unit}", form),
            **tables.interval(form),
            "p_family": tables.number("embeddings.p_family", "%.4f"),
        }
        tables.draw(table, columns)
        st.caption(word("embeddings.differences_help"))


def _draw_probes(view: EvaluationView) -> None:
    probes = {name: one.probe for name, one in view.measured.items() if one.probe}
    if view.measure != ACCURACY or not probes:
        return
    with st.expander(word("embeddings.confusion")):
        st.caption(word("embeddings.confusion_help"))
        labels = [word(f"embeddings.label_{label.name.lower()}") for label in Label]
        rows = [
            {"model": name, "gold": gold, **dict(zip(labels, counts, strict=True))}
            for name, probe in probes.items()
            for gold, counts in zip(labels, probe.confusion.tolist(), strict=True)
        ]
        columns = {
            "model": tables.text("embeddings.model", ""),
            "gold": tables.text("embeddings.people_said", ""),
            **{label: st.column_config.NumberColumn(word("embeddings.told_as", label=label)) for label in labels},
        }
        st.dataframe(pd.DataFrame(rows), hide_index=True, column_config=columns)


def _long_table(evaluation: Evaluation) -> pd.DataFrame:
    of = {"data": evaluation.data, "part": evaluation.part.value, "rows": len(evaluation.rows)}
    return pd.DataFrame(
        {"model": name, "measure": measure, **figure._asdict(), **of}
        for name, one in evaluation.measured.items()
        for measure, figure in one.figures.items()
    )


_MEASURES = ("alignment", "uniformity", "anisotropy")
_NOTHING = 1e-6  # what is left of a direction that no vector uses, in float32
_SHOWN_RANKS = 120  # of a spectrum: on a logarithmic scale more dots than that are one line


def draw_space(view: EvaluationView) -> None:
    left, right = st.columns(2)
    points, path = _points(view), _path(view)
    with left:
        st.markdown(f"**{word('embeddings.plane')}**")
        if points["alignment"].notna().any():
            draw_chart(plane, points.dropna(subset=["alignment"]), path, view.every)
        else:
            st.info(word("embeddings.no_positives"), icon=":material/info:")
        st.caption(word("embeddings.plane_help"))
        if len(path):
            st.caption(word("embeddings.path_help"))
    with right:
        st.markdown(f"**{word('embeddings.spectrum')}**")
        parts = []
        for name, one in view.measured.items():
            values = one.singular_values[one.singular_values > _NOTHING]
            ranks = np.unique(np.geomspace(1, max(1, len(values)), _SHOWN_RANKS).astype(int))[: len(values)]
            parts.append(pd.DataFrame({"model": name, "rank": ranks, "value": values[ranks - 1]}))
        spectra = pd.concat(parts, ignore_index=True)
        draw_chart(spectrum, spectra, view.every)
        st.caption(word("embeddings.spectrum_help"))
    _draw_tables(points, path, spectra)
    for measure in _MEASURES:
        draw_differences(view, measure)


def plane(table: pd.DataFrame, path: pd.DataFrame, names: Sequence[str]) -> alt.LayerChart:
    """Alignment against uniformity: models as points, a training's measurements as a path with "step"."""
    drawn = [name for name in names if name in {*table["model"], *path["model"]}]
    across = alt.X("uniformity:Q", title=word("embeddings.uniformity"), scale=alt.Scale(zero=False, padding=16))
    up = alt.Y("alignment:Q", title=word("embeddings.alignment"), scale=alt.Scale(zero=False, padding=16))
    tint, mark = apart("model", drawn, names, legend(columns=2))
    tooltip = tips(
        ("model:N", word("embeddings.model")),
        ("uniformity:Q", word("embeddings.uniformity"), ".3f"),
        ("alignment:Q", word("embeddings.alignment"), ".4f"),
    )
    points = alt.Chart(table).mark_point(filled=True, size=130, opacity=1)
    points = points.encode(across, up, tint, mark, tooltip=tooltip)
    layers = [points]
    if len(path):
        steps = alt.Chart(path).encode(across, up, tint, detail="model:N", order="step:Q")
        small = steps.mark_point(filled=True, size=24, opacity=0.8)
        told = [*tooltip, *tips(("step:Q", word("embeddings.step")))]
        layers = [steps.mark_line(strokeWidth=1.5, opacity=0.7), small.encode(tooltip=told), points]
    title = f"{word('embeddings.uniformity')}, {word('embeddings.alignment')}"
    rows = charts.coordinates(table, "model", ("uniformity", "alignment"), (".3f", ".4f"))
    return alt.layer(*layers).properties(height=_HEIGHT, description=charts.describe(title, rows))


def spectrum(table: pd.DataFrame, names: Sequence[str]) -> alt.Chart:
    drawn = present(names, table["model"])
    rank, value, scale = word("embeddings.rank"), word("embeddings.singular_value"), alt.Scale(type="log", nice=False)
    base = alt.Chart(table).encode(
        x=alt.X("rank:Q", title=rank, scale=scale, axis=alt.Axis(grid=False, format="~s")),
        y=alt.Y("value:Q", title=value, scale=scale, axis=alt.Axis(tickCount=4, format=".2~g")),
        color=colour("model", drawn, names, legend(columns=2, symbolOpacity=1)),
        tooltip=tips(("model:N", word("embeddings.model")), ("rank:Q", rank), ("value:Q", value, ".4f")),
    )
    rows_of_models = charts.courses(table, "model", "rank", "value", ".4g")
    described = charts.describe(value, rows_of_models)
    return base.mark_line(strokeWidth=2.5).properties(height=_HEIGHT, description=described)


def _points(view: EvaluationView) -> pd.DataFrame:
    rows = []
    for name, one in view.measured.items():
        row = {"model": name, "alignment": np.nan, "uniformity": np.nan, **_figures_of(one, _MEASURES)}
        shares = np.cumsum(one.singular_values**2)
        half = int(np.searchsorted(shares, shares[-1] / 2) + 1) if len(shares) else 0
        rows.append({**row, "half": half})  # of the squared length of all vectors: in so many directions
    return pd.DataFrame(rows)


def _path(view: EvaluationView) -> pd.DataFrame:
    """What the trainings of the measured models logged, in the order of their steps."""
    tables_of = []
    for name, reference in view.references.items():
        if run := view.runs.get(reference):
            found = trajectory(run.progress())
            steps = {"step": found.steps, "alignment": found.alignment, "uniformity": found.uniformity}
            tables_of.append(pd.DataFrame(steps).assign(model=name))
    columns = ["model", "step", "alignment", "uniformity"]
    return pd.concat(tables_of)[columns] if tables_of else pd.DataFrame(columns=columns)


def _draw_tables(points: pd.DataFrame, path: pd.DataFrame, spectra: pd.DataFrame) -> None:
    columns = _measure_columns(_MEASURES, alignment="%.4f", uniformity="%.3f", anisotropy="%.3f")
    columns["half"] = tables.number("embeddings.directions", "%d")
    st.dataframe(points, hide_index=True, column_order=[one for one in columns if one in points], column_config=columns)
    with st.expander(word("compare.as_table")):
        if len(path):
            st.dataframe(path, hide_index=True, column_config=columns | {"step": tables.number("embeddings.step")})
        wide = spectra.pivot_table(index="rank", columns="model", values="value", sort=False).sort_index()
        st.dataframe(wide.rename_axis(word("embeddings.rank")))
