"""The common part of labs: start and progress, charts of the results, and the use of a setting."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.split import Part
from mrc_workbench.data.text.dictionary import stored
from mrc_workbench.retrieval.analysis.evidence import default_baseline, oriented_test
from mrc_workbench.retrieval.analysis.labs import UNCHANGED, best_setting_name, selected_spec, tried_specs
from mrc_workbench.retrieval.analysis.open_comparison import OpenComparison
from mrc_workbench.retrieval.comparison.experiment import Experiment, LabKind, add_retriever
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, TermSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.retrieval.report.charts import PALETTE, TEXT_COLOUR, legend
from mrc_workbench.retrieval.report.words import difference_values
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.compare.controls import select_also
from mrc_workbench.workbench.views.compare.running import follow_lab
from mrc_workbench.workbench.views.compare.saved import close
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.names import analyzer_words, as_shared, retriever_name
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.job import begin
from mrc_workbench.workbench.views.ui.state import choose, remember
from mrc_workbench.workbench.views.ui.words import plain, signed_interval, word

Columns = dict[str, Any]  # by name, for `st.dataframe`
BM25_KINDS = (BM25Spec, WindowedBM25Spec)
_FRACTIONS = {"value", "low", "high", "ceiling", "overlap", "difference", "difference_low", "difference_high"}
_AXIS = 56  # pixels of an axis with its title
_SEPARATORS = str.maketrans("|·", "//")  # separate names in the address, and values within a name


def dictionary_names() -> dict[str, str]:
    """Return unique names of the stored dictionaries by reference, the newest first."""
    names = {entry: as_shared(entry.name.translate(_SEPARATORS), shared=entry.shared) for entry in stored()}
    repeated = {name for name, count in Counter(names.values()).items() if count > 1}
    return {entry.reference: f"{name} ({entry.key[:6]})" if name in repeated else name for entry, name in names.items()}


@dataclass(frozen=True)
class LabResult:
    """A finished lab: its experiment, its comparison, and the table of its settings."""

    experiment: Experiment
    opened: OpenComparison
    table: pd.DataFrame


@dataclass(frozen=True)
class Bench:
    """The comparison to tune, the metric to maximize, and the number of validation questions."""

    view: ComparisonView
    measure: Measure
    questions: int

    @property
    def experiment(self) -> Experiment:
        return self.view.comparison.experiment

    def names(self, *kinds: type[Any]) -> list[str]:
        """Return the scored retrievers, of these kinds if any are given; the default baseline first."""
        specs = self.experiment.specs
        measured = self.view.comparison.scores
        names = [name for name in specs if name in measured and (not kinds or isinstance(specs[name], kinds))]
        baseline = default_baseline(self.view.comparison)
        return sorted(names, key=lambda name: name != baseline)

    def pick(
        self, kinds: tuple[type[Any], ...], name: str, needs: str = "", label: str = "tune.present", **kwargs: Any
    ) -> str:
        """Draw the choice of a retriever of these kinds; if there is none, draw what the lab `needs`."""
        names = self.names(*kinds)
        if not names:
            st.info(word(f"tune.{needs}"), icon=":material/info:")
            return ""
        kwargs = {"format_func": retriever_name, "help": word("tune.present_help"), **kwargs}
        return choose(st.selectbox, name, word(label), names, names[0], follows=True, **kwargs)

    def run(self, experiment: Experiment, tries: str = "") -> LabResult | None:
        """Draw the start button of a lab with the text `tries`, or its progress; return its result when it is done."""
        job = ComparisonJob.of(experiment, self.view.data.fingerprint)
        if job.done:
            if opened := open_comparison(self.view.data.key, job.folder):
                table = opened.lab_results(str(self.measure))
                if not table.empty:
                    return LabResult(experiment, opened, table)
                st.error(word("tune.nothing", metric=self.measure.long_name), icon=":material/error:")
        elif job.running or job.folder.is_dir():
            follow_lab(job)
            if job.running:
                return None
        label = word("tune.start", count=f"{len(tried_specs(experiment)):,}")
        with st.container(horizontal=True, vertical_alignment="center"):
            pressed = st.button(label, type="primary", icon=":material/science:", key=f"start_{experiment.lab}")
            if tries:
                st.caption(tries)
        if pressed:
            begin(lambda: job.start(experiment))
        return None

    def metric_columns(self) -> dict[str, Any]:
        return {"value": tables.labelled_number(self.measure.long_name), **tables.interval()}

    @staticmethod
    def difference_columns(key: str) -> dict[str, Any]:
        ends = {"difference_low": f"{key}_from", "difference_high": f"{key}_to"}
        explained = {end: tables.number(title, explained_by="compare.interval_help") for end, title in ends.items()}
        return {"difference": tables.number(key), **explained}

    def draw_settings(
        self, lab: LabResult, table: pd.DataFrame, columns: Columns, present: str, *, key: str, answer: DeltaGenerator
    ) -> None:
        """Draw a lab's table and, in `answer`, how the selected setting compares with the `present` one."""
        leader = best_setting_name(table)
        name = self.draw_table(lab, table, columns, leader, key=key)
        with answer:
            if name not in {spec.name for spec in tried_specs(lab.experiment)}:
                text = word("tune.single_retriever", name=plain(retriever_name(name)), metric=self.measure.long_name)
                st.info(text, icon=":material/info:")
            elif name == UNCHANGED:
                st.info(word("tune.unchanged_is_best", metric=self.measure.long_name), icon=":material/info:")
            else:
                self._draw_verdict(lab, name, present, is_best=name == leader)

    @staticmethod
    def draw_table(
        lab: LabResult, table: pd.DataFrame, columns: Columns, leader: str, *, key: str, smallest_first: str = ""
    ) -> str:
        """Draw a lab's table, fractions in percent and the best row in bold; return the name of the selected row."""
        by = smallest_first or "value"
        rows = table.sort_values(by, ascending=bool(smallest_first), kind="stable", ignore_index=True)
        displayed = rows[[name for name in columns if name in rows]].copy()
        for name in _FRACTIONS & set(displayed):
            displayed[name] *= 100
        leader_row = int(rows.index[rows["name"] == leader][0])
        st.caption(word("tune.choose_an_index" if smallest_first else "tune.choose_a_row"))
        floats = displayed.select_dtypes("float")
        forms: dict[Any, Any] = {name: "{:.2f}" if name in _FRACTIONS else "{:.3g}" for name in floats}
        styled = displayed.style.format(forms, na_rep="–")
        styled = styled.map(lambda _: tables.BOLD, subset=([leader_row], displayed.columns))
        height = min(38 + 35 * len(displayed), 360)
        selected_rows = tables.draw_choice(styled, columns, f"{key}_{lab.opened.folder}", height=height)
        return str(rows["name"][selected_rows[0] if selected_rows else leader_row])

    def _draw_verdict(self, lab: LabResult, name: str, present: str, *, is_best: bool) -> None:
        """Draw how a setting compares with the present one.

        The gain of the best setting is cross-fitted: on the questions that select it, its score is biased upwards.
        """
        measure = str(self.measure)
        fit = lab.opened.cross_fit(present, measure) if is_best else None
        test = fit.test if fit else oriented_test(name, present, lab.opened.tests((present, name), measure))
        values = {
            "best": plain(retriever_name(named_setting(lab.experiment, name).name)),
            "present": plain(retriever_name(present)),
            "metric": self.measure.long_name,
            "questions": f"{self.questions:,}",
            "count": f"{len(tried_specs(lab.experiment)):,}",
        }
        verdict = "alone"
        with st.container(border=True):
            if test is None:
                st.markdown(word("tune.verdict_only", **values))
            else:
                verdict = ("more" if test.difference > 0 else "less") if test.is_significant else "unsure"
                kind = "selection" if fit else "verdict"
                values |= signed_interval(test.difference, test.low, test.high)
                if test.is_significant:  # the text has the direction
                    values |= difference_values(test)
                st.markdown(word(f"tune.{kind}_{verdict}", p=f"{test.p:.2g}", **values))
            if fit:
                same = fit.selections.get(name, 0)
                st.caption(word("tune.cross_fitted", folds=fit.folds, same=same))
            elif is_best:
                st.caption(word("tune.flattered", count=values["count"]))
            self.draw_use(lab.experiment, name, recommended=verdict == "more")

    def draw_use(self, experiment: Experiment, name: str, *, recommended: bool) -> None:
        """Draw the button that selects a setting for the comparison of the test questions."""
        kwargs: dict[str, Any] = {"help": word("tune.use_help"), "key": f"use_{experiment.lab}"}
        kwargs |= {"type": "primary", "icon": ":material/check:"} if recommended else {"type": "tertiary"}
        label = word("tune.use" if recommended else "tune.use_anyway")
        if st.button(label, on_click=self._use, args=(named_setting(experiment, name),), **kwargs):
            st.rerun()

    def _use(self, spec: Spec) -> None:
        data = self.view.data
        known = choices_for(data).specs
        # The components of a stored comparison may have been removed
        for part in self.experiment.with_dependencies(spec.components):
            if part.name not in known:
                add_retriever(data.fingerprint, part)
        add_retriever(data.fingerprint, spec)
        close()
        select_also([result.name for result in self.view.results], spec.name, Part.TEST)
        remember("measure", self.measure.name)  # the test shows the metric that was tuned
        remember("k", str(self.measure.cutoff))
        remember("view", "overview")


def named_setting(experiment: Experiment, name: str) -> Spec:
    """Return a setting as a retriever, with the values in its name in the user's language."""
    spec = selected_spec(experiment, name)
    if experiment.lab is LabKind.BM25 and isinstance(spec, TermSpec):
        window = [word(f"tune.window_{spec.sentences}")] if isinstance(spec, WindowedBM25Spec) else []
        parts = ["BM25", *window, analyzer_words(spec.analyzer), f"k1 {spec.k1:g}", f"b {spec.b:g}"]
        return spec.model_copy(update={"name": " · ".join(parts)})
    if isinstance(spec, TermSpec) and (dictionary_name := dictionary_names().get(spec.dictionary)):
        return spec.model_copy(update={"name": spec.name.replace(spec.dictionary, dictionary_name)})
    return spec


def heat(
    table: pd.DataFrame, best: str, *, x: tuple[str, str], y: tuple[str, str], value: str, bounds: tuple[float, float]
) -> alt.LayerChart:
    """Draw a cell for each setting, coloured by "value"; a frame marks the best. `x` and `y`: column and title."""
    base = alt.Chart(table).encode(
        x=alt.X(f"{x[0]}:O", title=x[1], axis=alt.Axis(labelAngle=0)),
        y=alt.Y(f"{y[0]}:O", title=y[1], sort="descending"),
        tooltip=[*charts.tooltips((f"{x[0]}:O", x[1]), (f"{y[0]}:O", y[1])), *charts.interval_tooltips("value", value)],
    )
    scale = alt.Scale(scheme="viridis", domain=[*bounds])
    cells = base.mark_rect().encode(color=alt.Color("value:Q", scale=scale, legend=None))
    readable = alt.condition(alt.datum["value"] > sum(bounds) / 2, alt.value("#111111"), alt.value("#ffffff"))
    texts = base.mark_text(fontSize=11).encode(text=alt.Text("percent:Q", format=".1f"), color=readable)
    only_best = base.transform_filter(alt.datum["name"] == best)
    frame = only_best.mark_rect(filled=False, stroke=PALETTE[4], strokeWidth=4, fillOpacity=0)
    leader = table.sort_values("value", ascending=False).iloc[0]
    setting_text = ", ".join(f"{title} {leader[column]:g}" for column, title in (x, y))
    height = 34 * table[y[0]].nunique() + _AXIS
    description = charts.best_setting(value, table, setting_text)
    layers = (cells + texts + frame).properties(height=height, description=description)
    return layers.transform_calculate(percent=alt.datum["value"] * 100)


def bands(
    table: pd.DataFrame, best: str, *, x: str, y: str, detail: tuple[str, str], names: Sequence[str], ordinal: bool
) -> alt.LayerChart:
    """Draw a line with its interval for each name of `detail` (column and title); a ring marks the best setting."""
    scale, axis = charts.percent_scale(float(table["low"].min()), float(table["high"].max()))
    x_axis = alt.X("x:O", title=x, axis=alt.Axis(labelAngle=0)) if ordinal else alt.X("x:Q", title=x)
    color, mark = charts.color_and_shape(detail[0], names, names, legend())
    base = alt.Chart(table).encode(
        x=x_axis,
        y=alt.Y("value:Q", title=y, scale=scale, axis=axis),
        color=color,
        tooltip=[*charts.tooltips((f"{detail[0]}:N", detail[1]), ("x:Q", x)), *charts.interval_tooltips("value", y)],
    )
    areas = base.mark_area(fillOpacity=0.1).encode(y=alt.Y("low:Q", title=y, scale=scale), y2="high:Q")
    only_best = base.transform_filter(alt.datum["name"] == best)
    ring = only_best.mark_point(size=260, stroke=TEXT_COLOUR, strokeWidth=3, filled=False, shape="circle")
    tried = table[table["name"] != ""]  # not the line of a ceiling
    leader = tried[tried["name"] == best].iloc[0]
    description = charts.best_setting(y, tried, f"{leader[detail[0]]}, {x} {leader['x']:g}")
    layers = alt.layer(areas, *charts.marked_lines(base, mark, size=45), ring)
    return layers.properties(height=charts.HEIGHT, description=description)


def against_cost(
    table: pd.DataFrame, *, x: str, y: str, label: tuple[str, str], joined: bool
) -> alt.Chart | alt.LayerChart:
    """Draw "y" over the cost "x", a point for each name of `label` (column and title), `joined` by a line or not."""
    low = float(table["y"].min())
    high = float(table["y"].max())
    margin = max(0.005, (high - low) * 0.15)
    percent_axis = alt.Axis(labelExpr="datum.value > 1.0001 ? '' : format(datum.value, '.1%')")
    base = alt.Chart(table).encode(
        x=alt.X("x:Q", title=x, scale=alt.Scale(domain=[0, float(table["x"].max()) * 1.15])),  # room for the words
        y=alt.Y("y:Q", title=y, scale=alt.Scale(domain=[low - margin, high + margin]), axis=percent_axis),
        tooltip=charts.tooltips((f"{label[0]}:N", label[1]), ("x:Q", x, ".3f"), ("y:Q", y, ".2%")),
    )
    if joined:
        dots = base.mark_point(filled=True, size=90, opacity=1, color=PALETTE[0])
        words = base.mark_text(align="left", dx=9, dy=-9, color=TEXT_COLOUR).encode(text=f"{label[0]}:N")
        chart = base.mark_line(color=PALETTE[0], opacity=0.4) + dots + words
    else:
        names = table[label[0]].tolist()
        color, mark = charts.color_and_shape(label[0], names, names, legend())
        chart = base.mark_point(filled=True, size=140, opacity=1).encode(color, mark)
    rows = [f"{row[label[0]]}: {y} {row['y']:.1%}, {x} {row['x']:.3g}" for row in table.to_dict("records")]
    return chart.properties(height=charts.HEIGHT, description=charts.describe(y, rows))
