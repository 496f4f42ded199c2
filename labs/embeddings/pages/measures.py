"""The Measures view (metrics, published results, differences) and the Space view (geometry of the vectors)."""

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
from mrc_workbench.labs.embeddings.results import EncoderEvaluation, ModelResult, PublishedCorrelation, published_for
from mrc_workbench.retrieval.report.charts import TEXT_COLOUR, colour, legend
from mrc_workbench.retrieval.significance import Interval
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import draw_chart, tooltips
from mrc_workbench.workbench.views.ui.words import plain, word

_LINE = " · "  # charts break the lines of names here
_HEIGHT = 360  # pixels of a chart
MEASURES = (*SHARES, "alignment", "uniformity", "anisotropy")
# hidden until the user selects them, since the Space view shows them
_HIDDEN_COLUMNS = {"alignment_interval", "uniformity_interval", "anisotropy", "anisotropy_interval", "dimensions"}
_MEASURES = ("alignment", "uniformity", "anisotropy")
_MIN_SINGULAR_VALUE = 1e-6  # float32 rounding in directions that no vector uses
_MAX_RANKS = 120  # dots of a spectrum on a logarithmic scale


def draw_measures(view: EvaluationView) -> None:
    correlations = published_for(view.data.name, view.part.value)
    published = [correlation for correlation in correlations if correlation.measure == view.measure]
    published.sort(key=lambda correlation: -correlation.value)
    table = _dot_table(view, published)
    if len(table):
        title = word("embeddings.hundredfold", measure=word(f"embeddings.{view.measure}"))
        draw_chart(dot_chart, table, view.model_names, x=title)
        if sources := dict.fromkeys(correlation.source for correlation in published):
            st.caption(word("embeddings.published", sources="; ".join(map(plain, sources))))
    _draw_metrics(view)
    draw_differences(view, view.measure, expanded=True)
    _draw_probes(view)
    with st.container(horizontal=True):
        tables.draw_csv("embeddings.csv", lambda: _long_table(view.evaluation), "embeddings.csv", "figures_csv")
        scores = partial(json.dumps, view.evaluation.as_dict(), ensure_ascii=False, indent=2)
        tables.draw_file("embeddings.json", scores, "embeddings.json", "application/json", "figures_json")


def _scale_metric(measure: str, metric: Interval) -> Interval:
    return Interval(*(100 * part for part in metric)) if measure in SHARES else metric


def _metric_texts(result: ModelResult, measures: Sequence[str]) -> dict[str, object]:
    row: dict[str, object] = {}
    for measure in measures:
        if measure in result.metrics:
            metric = _scale_metric(measure, result.metrics[measure])
            digits = ".1f" if measure in SHARES else ".3f"
            ends = f"{format(metric.low, digits)} – {format(metric.high, digits)}"
            row |= {measure: metric.value, f"{measure}_interval": ends.replace("-inf", "−∞").replace("-", "−")}
    return row


def _dot_table(view: EvaluationView, published: list[PublishedCorrelation]) -> pd.DataFrame:
    rows: list[dict[str, object]] = []
    for model, result in view.results_by_name.items():
        if view.measure in result.metrics:
            metric = _scale_metric(view.measure, result.metrics[view.measure])
            rows.append({"model": model, **metric._asdict(), "is_measured_here": True, "source": ""})
    for other in published:
        name = [word("embeddings.published_model", model=other.model)]
        if other.encoder == "cross-encoder":
            name.append(word("embeddings.is_cross_encoder"))
        if other.training_data:
            name.append(word("embeddings.training_data", data=other.training_data))
        row = {"model": _LINE.join(name), "value": 100 * other.value, "is_measured_here": False, "source": other.source}
        rows.append(row)  # without an interval
    table = pd.DataFrame(rows, columns=["model", "value", "low", "high", "is_measured_here", "source"])
    return table.sort_values("value", ascending=False, kind="stable", ignore_index=True)


def dot_chart(table: pd.DataFrame, names: Sequence[str], *, x: str) -> alt.LayerChart:
    """One row for each "model": its "value" with "low" to "high"; published results are hollow."""
    name = alt.Tooltip("model:N", title=word("embeddings.model"))
    lines = alt.Axis(labelLimit=170, labelOverlap=False, labelLineHeight=12, labelExpr=f"split(datum.label, '{_LINE}')")
    base = alt.Chart(table).encode(y=alt.Y("model:N", sort=[*table["model"]], title=None, axis=lines))
    scale = alt.Scale(zero=False, padding=12)
    tint, mark = charts.color_and_shape("model", charts.names_in_column(names, table["model"]), names)
    tooltip = [name, *charts.interval_tooltips("value", x, ".2f")]
    ours = base.transform_filter("datum.is_measured_here").encode(color=tint, tooltip=tooltip)
    intervals = ours.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q", title=x, scale=scale), x2="high:Q")
    along = alt.X("value:Q", scale=scale)
    marks = ours.mark_point(filled=True, size=110, opacity=1).encode(x=along, shape=mark)
    theirs = base.transform_filter("!datum.is_measured_here").mark_point(size=80, strokeWidth=2, color=TEXT_COLOUR)
    tooltip = [name, *tooltips(("value:Q", x, ".2f"), ("source:N", word("embeddings.source")))]
    published = theirs.encode(x=along, tooltip=tooltip)
    others = table[~table["is_measured_here"]]
    rows = charts.intervals(table[table["is_measured_here"]], "model", "value", ".2f")
    rows += charts.values([*others["model"]], [*others["value"]], ".2f")
    height = 100 + (42 if len(others) else 30) * len(table)  # names of published results take several lines
    return (intervals + marks + published).properties(height=height, description=charts.describe(x, rows))


def _draw_metrics(view: EvaluationView) -> None:
    table = _metric_table(view)
    measures = [column for column in MEASURES if column in table]
    columns = _measure_columns(MEASURES)
    columns["dimensions"] = tables.number("embeddings.dimensions")
    columns["seconds"] = tables.number("embeddings.encoding_seconds")
    displayed_columns = [name for name in columns if name in table and name not in _HIDDEN_COLUMNS]
    forms = {column: "{:.2f}" if column in SHARES else "{:.4f}" for column in MEASURES}
    forms |= {"dimensions": "{:.0f}", "seconds": "{:.1f}"}
    styled = table.style.format({column: form for column, form in forms.items() if column in table}, na_rep="–")
    for measure in measures:
        best = _significantly_best(view, table, measure)
        bold = [tables.BOLD if row == best else "" for row in range(len(table))]
        styled = styled.apply(lambda _, bold=bold: bold, subset=[measure])
    st.dataframe(styled, hide_index=True, column_order=displayed_columns, column_config=columns)
    evaluation = view.evaluation
    counts = {"pairs": f"{len(evaluation.rows):,}", "sentences": f"{evaluation.sentences:,}"}
    st.caption(word("embeddings.measured_on", **counts, positives=f"{evaluation.positives:,}"))


def _measure_columns(measures: Sequence[str], **forms: str) -> dict[str, ColumnConfig]:
    columns = {"model": tables.text("embeddings.model", "", pinned=True, width="medium")}
    for measure in measures:
        columns[measure] = tables.number(f"embeddings.{measure}", forms.get(measure))
        columns[f"{measure}_interval"] = tables.text("embeddings.interval", "compare.interval_help")
    return columns


def _metric_table(view: EvaluationView) -> pd.DataFrame:
    failed = {view.names[result.model]: result for result in view.evaluation.results if result.error}
    rows = []
    for name, result in {**view.results_by_name, **failed}.items():
        size = {"dimensions": result.dimensions, "seconds": result.seconds} if result.error is None else {}
        rows.append({"model": name, **_metric_texts(result, MEASURES), **size})
    return pd.DataFrame(rows).fillna({f"{measure}_interval": "" for measure in MEASURES})


def _significantly_best(view: EvaluationView, table: pd.DataFrame, measure: str) -> int:
    """Return the row of the best model if it is significantly better than every other, else -1."""
    if table[measure].isna().all():
        return -1
    best = int(table[measure].argmax() if measure in SHARES else table[measure].argmin())
    reference = view.references.get(table["model"][best], "")
    tests = [test for test in view.evaluation.differences.get(measure, []) if reference in (test.a, test.b)]
    return best if tests and all(test.is_significant for test in tests) else -1


def draw_differences(view: EvaluationView, measure: str, *, expanded: bool = False) -> None:
    scale = 100 if measure in SHARES else 1
    rows = []
    for test in view.evaluation.differences.get(measure, []):
        oriented = test if test.difference >= 0 else test.reversed
        row = {"a": view.names[oriented.a], "b": view.names[oriented.b], "p_family": oriented.p_family}
        row |= {part: scale * getattr(oriented, part) for part in ("difference", "low", "high")}
        rows.append(row | {"verdict": word("compare.higher" if oriented.is_significant else "compare.unsure")})
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
    probes = {name: result.probe for name, result in view.results_by_name.items() if result.probe}
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
            "gold": tables.text("embeddings.gold_label", ""),
            **{label: st.column_config.NumberColumn(word("embeddings.predicted_as", label=label)) for label in labels},
        }
        st.dataframe(pd.DataFrame(rows), hide_index=True, column_config=columns)


def _long_table(evaluation: EncoderEvaluation) -> pd.DataFrame:
    context = {"data": evaluation.data, "part": evaluation.part.value, "rows": len(evaluation.rows)}
    return pd.DataFrame(
        {"model": name, "measure": measure, **metric._asdict(), **context}
        for name, result in evaluation.results_by_model.items()
        for measure, metric in result.metrics.items()
    )


def draw_space(view: EvaluationView) -> None:
    left, right = st.columns(2)
    points = _geometry_table(view)
    training_path = _training_path(view)
    with left:
        st.markdown(f"**{word('embeddings.plane')}**")
        if points["alignment"].notna().any():
            draw_chart(geometry_chart, points.dropna(subset=["alignment"]), training_path, view.model_names)
        else:
            st.info(word("embeddings.no_positives"), icon=":material/info:")
        st.caption(word("embeddings.plane_help"))
        if len(training_path):
            st.caption(word("embeddings.path_help"))
    with right:
        st.markdown(f"**{word('embeddings.spectrum')}**")
        parts = []
        for name, result in view.results_by_name.items():
            values = result.singular_values[result.singular_values > _MIN_SINGULAR_VALUE]
            ranks = np.unique(np.geomspace(1, max(1, len(values)), _MAX_RANKS).astype(int))[: len(values)]
            parts.append(pd.DataFrame({"model": name, "rank": ranks, "value": values[ranks - 1]}))
        spectra = pd.concat(parts, ignore_index=True)
        draw_chart(spectrum_chart, spectra, view.model_names)
        st.caption(word("embeddings.spectrum_help"))
    _draw_tables(points, training_path, spectra)
    for measure in _MEASURES:
        draw_differences(view, measure)


def geometry_chart(table: pd.DataFrame, path: pd.DataFrame, names: Sequence[str]) -> alt.LayerChart:
    """Alignment over uniformity: models as points, and the steps of a training as a path."""
    present_models = [name for name in names if name in {*table["model"], *path["model"]}]
    across = alt.X("uniformity:Q", title=word("embeddings.uniformity"), scale=alt.Scale(zero=False, padding=16))
    up = alt.Y("alignment:Q", title=word("embeddings.alignment"), scale=alt.Scale(zero=False, padding=16))
    tint, mark = charts.color_and_shape("model", present_models, names, legend(columns=2))
    tooltip = tooltips(
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
        path_tooltip = [*tooltip, *tooltips(("step:Q", word("embeddings.step")))]
        layers = [steps.mark_line(strokeWidth=1.5, opacity=0.7), small.encode(tooltip=path_tooltip), points]
    title = f"{word('embeddings.uniformity')}, {word('embeddings.alignment')}"
    rows = charts.coordinates(table, "model", ("uniformity", "alignment"), (".3f", ".4f"))
    return alt.layer(*layers).properties(height=_HEIGHT, description=charts.describe(title, rows))


def spectrum_chart(table: pd.DataFrame, names: Sequence[str]) -> alt.Chart:
    present_models = charts.names_in_column(names, table["model"])
    rank = word("embeddings.rank")
    value = word("embeddings.singular_value")
    scale = alt.Scale(type="log", nice=False)
    base = alt.Chart(table).encode(
        x=alt.X("rank:Q", title=rank, scale=scale, axis=alt.Axis(grid=False, format="~s")),
        y=alt.Y("value:Q", title=value, scale=scale, axis=alt.Axis(tickCount=4, format=".2~g")),
        color=colour("model", present_models, names, legend(columns=2, symbolOpacity=1)),
        tooltip=tooltips(("model:N", word("embeddings.model")), ("rank:Q", rank), ("value:Q", value, ".4f")),
    )
    rows_of_models = charts.line_texts(table, "model", "rank", "value", ".4g")
    described = charts.describe(value, rows_of_models)
    return base.mark_line(strokeWidth=2.5).properties(height=_HEIGHT, description=described)


def _geometry_table(view: EvaluationView) -> pd.DataFrame:
    rows = []
    for name, result in view.results_by_name.items():
        row = {"model": name, "alignment": np.nan, "uniformity": np.nan, **_metric_texts(result, _MEASURES)}
        cumulative = np.cumsum(result.singular_values**2)
        half = int(np.searchsorted(cumulative, cumulative[-1] / 2) + 1) if len(cumulative) else 0
        rows.append({**row, "half": half})  # directions with half of the squared length of all vectors
    return pd.DataFrame(rows)


def _training_path(view: EvaluationView) -> pd.DataFrame:
    frames = []
    for name, reference in view.references.items():
        if run := view.runs.get(reference):
            points = trajectory(run.progress())
            steps = {"step": points.steps, "alignment": points.alignment, "uniformity": points.uniformity}
            frames.append(pd.DataFrame(steps).assign(model=name))
    columns = ["model", "step", "alignment", "uniformity"]
    return pd.concat(frames)[columns] if frames else pd.DataFrame(columns=columns)


def _draw_tables(points: pd.DataFrame, path: pd.DataFrame, spectra: pd.DataFrame) -> None:
    columns = _measure_columns(_MEASURES, alignment="%.4f", uniformity="%.3f", anisotropy="%.3f")
    columns["half"] = tables.number("embeddings.directions", "%d")
    order = [name for name in columns if name in points]
    st.dataframe(points, hide_index=True, column_order=order, column_config=columns)
    with st.expander(word("compare.as_table")):
        if len(path):
            st.dataframe(path, hide_index=True, column_config=columns | {"step": tables.number("embeddings.step")})
        wide = spectra.pivot_table(index="rank", columns="model", values="value", sort=False).sort_index()
        st.dataframe(wide.rename_axis(word("embeddings.rank")))
