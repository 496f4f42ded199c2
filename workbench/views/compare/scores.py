"""A finished comparison for all tabs of the page: headline, table of scores, and warnings about the scores."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler
from streamlit.elements.lib.column_types import ColumnConfig

from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.workspace import MEGABYTE
from mrc_workbench.retrieval.analysis import evidence
from mrc_workbench.retrieval.analysis.open_comparison import OpenComparison
from mrc_workbench.retrieval.comparison.compare import Comparison, Result
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, Measure
from mrc_workbench.retrieval.report import words as report
from mrc_workbench.retrieval.significance import PairTest
from mrc_workbench.workbench.views import names as naming
from mrc_workbench.workbench.views.choices import RetrieverChoices, without_weak_baselines
from mrc_workbench.workbench.views.names import plain_names, retriever_name, retriever_names
from mrc_workbench.workbench.views.search.judging import draw_pool_start
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.state import remember
from mrc_workbench.workbench.views.ui.words import failure_text, language, plain, signed_interval, word


@dataclass(frozen=True)
class ComparisonView:
    """A comparison, the results of the selected retrievers, the selected metric and the baseline.

    The order of `names`, all retrievers that can be selected, decides their colours. `measure` is "recall", "hit",
    "mrr", "ndcg" or "ndcg_exp".
    """

    data: StoredSet
    opened: OpenComparison
    results: tuple[Result, ...]
    names: tuple[str, ...]
    measure: str
    k: int
    baseline: str

    @cached_property
    def display_names(self) -> dict[str, str]:
        """Names in the user's language by stored name, with those of wrapped retrievers."""
        return retriever_names([*self.names, *self.comparison.experiment.specs])

    def labels_for(self, names: Iterable[str]) -> list[str]:
        return [self.display_names[name] for name in names]

    @property
    def comparison(self) -> Comparison:
        return self.opened.comparison

    @property
    def metric(self) -> Measure:
        return Measure(self.measure, self.k)

    @cached_property
    def baseline_tests(self) -> list[PairTest]:
        return self.opened.tests(self.scored_names, str(self.metric), self.baseline)

    @property
    def others_tested(self) -> list[PairTest]:
        """The tests of every pair without the baseline."""
        others = tuple(name for name in self.scored_names if name != self.baseline)
        return self.opened.tests(others, str(self.metric))

    @cached_property
    def scored(self) -> tuple[Result, ...]:
        """The results with the selected metric; a retriever that failed or has too few hits has none."""
        metric = str(self.metric)
        return tuple(result for result in self.results if result.scores and metric in result.scores.per_question)

    @property
    def scored_names(self) -> tuple[str, ...]:
        """Names of the scored retrievers, the baseline first."""
        return tuple(sorted((result.name for result in self.scored), key=lambda name: name != self.baseline))

    @cached_property
    def ranked(self) -> tuple[str, ...]:
        """Names of the scored retrievers, best first: the order of tables, charts and legends."""
        return tuple(report.rank_by_mean(self.comparison, self.metric, self.scored_names))

    @property
    def leading(self) -> tuple[str, ...]:
        """Names of the retrievers in sentences and charts, the baseline first: see `without_weak_baselines`."""
        compared = without_weak_baselines(self.scored_names)
        return tuple(name for name in self.scored_names if name in compared or name == self.baseline)

    @property
    def charted(self) -> tuple[str, ...]:
        """The leading names, best first."""
        return tuple(name for name in self.ranked if name in self.leading)

    @cached_property
    def recommendation(self) -> report.Recommendation | None:
        """The recommended retriever by the displayed tests; None if no retriever has the metric."""
        kwargs: dict[str, Any] = {"groups": self.opened.groups, "names": self.scored_names, "baseline": self.baseline}
        return report.recommend(self.comparison, self.metric, [*self.baseline_tests, *self.others_tested], **kwargs)

    @property
    def best_test(self) -> PairTest | None:
        """The largest significant gain over the baseline, else the largest."""
        tests = [test for test in self.baseline_tests if test.a in self.leading]
        significant_gains = [test for test in tests if test.is_significant and test.difference > 0]
        return max(significant_gains or tests, key=lambda test: test.difference, default=None)

    def test(self, a: str, b: str) -> PairTest | None:
        """Return the displayed test of a pair as the gain of `a` over `b`; None if the pair was not tested."""
        tests = self.baseline_tests if self.baseline in (a, b) else self.others_tested
        return evidence.oriented_test(a, b, tests)

    def spec(self, name: str) -> Spec:
        return self.comparison.experiment.specs[name]


# Pixels: the columns fill a page of 1280 pixels
_WIDTHS = {f"mrr@{DEFAULT_CUTOFF}": 92, f"ndcg@{DEFAULT_CUTOFF}": 98}
_RECALL_WIDTH = 72
_WIDE_COLUMN = 112
_FOREIGN_FRACTION = 0.1  # a time is marked if more of it was measured on another machine


def means(results: Sequence[Result]) -> pd.DataFrame:
    """Return a row for each retriever: name, metrics (0 to 1) and times in seconds; only the name if it failed."""
    return pd.DataFrame([{"retriever": result.name, **result.metrics} for result in results])


def in_points(tests: Sequence[PairTest]) -> pd.DataFrame:
    """Return a row for each test, with the difference and its interval in percentage points."""
    table = pd.DataFrame(tests)
    table[["difference", "low", "high"]] *= 100
    return table


def draw_table(
    table: pd.DataFrame,
    questions: int,
    metric: Measure,
    ks: Sequence[int],
    *,
    against: Sequence[PairTest] = (),
    intervals: Mapping[str, evidence.Intervals] | None = None,
) -> None:
    """Draw a table of `means`, best first: the leading metric, its interval, and the verdict of its test.

    The other columns are Recall at the first `ks`, MRR, nDCG and milliseconds per query, unless every retriever
    reaches 100. The best of a column is bold, unless all are equal. Another machine's times have an asterisk.
    """
    metric_key = str(metric)
    measures = [*(f"recall@{k}" for k in ks), f"mrr@{DEFAULT_CUTOFF}", f"ndcg@{DEFAULT_CUTOFF}"]
    table, marked = _rows_by_metric(table, questions, metric_key, measures)
    names = table["retriever"]
    verdicts = {test.b: word("compare.is_baseline") for test in against}
    verdicts |= {test.a: verdict_of(test) for test in against}
    table["verdict"] = [verdicts.get(name, "") for name in names]
    ends = [(intervals or {}).get(name, {}).get(metric_key) for name in names]
    table["interval"] = [f"{100 * item[0]:.1f} – {100 * item[1]:.1f}" if item else "" for item in ends]
    percent_columns = ["looked_at", *measures]
    bold = [column for column in percent_columns if table[column].round(2).nunique() > 1]
    formats: dict[Any, Any] = {**dict.fromkeys([*percent_columns, "build_seconds"], "{:.2f}"), "per_question": "{:.1f}"}
    styled = table.style.highlight_max(subset=pd.IndexSlice[:, bold], props=tables.BOLD).format(formats, na_rep="–")
    hidden = {metric_key, *(f"recall@{k}" for k in ks[3:])}
    hidden |= {item for item in measures if (table[item].round(2) == 100).all()}
    wide: dict[str, Any] = {"width": _WIDE_COLUMN}
    columns = {"retriever": _retriever_column(names)}
    columns["looked_at"] = tables.measure(metric_key, metric.long_name, **wide)
    if intervals:
        columns["interval"] = tables.text("compare.interval", "compare.interval_help", **wide)
    if against:
        columns["verdict"] = tables.text("compare.verdict", **wide)
    for item in measures:
        if item not in hidden:
            columns[item] = tables.measure(item, width=_WIDTHS.get(item, _RECALL_WIDTH))
    if table["per_question"].notna().any():
        columns["per_question"] = tables.number("compare.per_question", explained_by="help.per_question", **wide)
    styled = _with_marks(styled, table, marked)
    tables.draw(styled, columns, placeholder="–", width="content")  # a wider column would leave its header behind
    if marked:
        st.caption(word("compare.elsewhere"))


def _rows_by_metric(
    table: pd.DataFrame, questions: int, metric: str, measures: Sequence[str]
) -> tuple[pd.DataFrame, set[str]]:
    """Return the table in percent, best first by the metric "looked_at", and the retrievers timed elsewhere."""
    costs = ["build_seconds", "query_seconds", "elsewhere_seconds"]
    table = table.reindex(columns=[*dict.fromkeys(["retriever", metric, *measures, *costs])])
    is_foreign = table.pop("elsewhere_seconds") > _FOREIGN_FRACTION * table["query_seconds"]
    marked = set(table.loc[is_foreign, "retriever"])
    table["per_question"] = table.pop("query_seconds") / questions * 1000
    table["looked_at"] = table[metric]
    table = table.sort_values("looked_at", ascending=False, kind="stable", ignore_index=True)
    table[["looked_at", *measures]] *= 100
    return table, marked


def _retriever_column(names: Iterable[str]) -> ColumnConfig:
    return tables.retriever(width=tables.width_of(retriever_names(names).values()))


def _with_marks(styled: Styler, table: pd.DataFrame, marked: Container[str]) -> Styler:
    """Add an asterisk to the times of the `marked` retrievers, which another machine measured."""
    for row, (name, milliseconds) in enumerate(zip(table["retriever"], table["per_question"], strict=True)):
        if name in marked:
            styled = tables.write(styled, row, "per_question", f"{milliseconds:.1f}*")
    return styled


def draw_costs(results: Sequence[Result]) -> None:
    rows = []
    for result in results:
        cost = report.retriever_cost(result)
        if cost.milliseconds is not None:
            size = cost.index_bytes / MEGABYTE if cost.index_bytes else None
            rows.append((result.name, None if result.imported else result.build_seconds, cost.milliseconds, size))
    if not rows:
        return
    table = pd.DataFrame(rows, columns=["retriever", "build_seconds", "per_question", "megabytes"])
    styled = table.style.format("{:.1f}", subset=["build_seconds", "per_question", "megabytes"], na_rep="–")
    marked = {result.name for result in results if report.retriever_cost(result).is_measured_elsewhere}
    columns = {
        "retriever": _retriever_column(table["retriever"]),
        "build_seconds": tables.number("compare.build", explained_by="help.build"),
        "per_question": tables.number("compare.per_question", explained_by="help.per_question"),
        "megabytes": tables.number("compare.megabytes"),
    }
    tables.draw(_with_marks(styled, table, marked), columns, placeholder="–")


def verdict_of(test: PairTest) -> str:
    if not test.is_significant:
        return word("compare.unsure")
    return word("compare.higher" if test.difference > 0 else "compare.lower")


def untrained_name(name: str, choices: RetrieverChoices) -> str:
    """Return the name of the retriever that a trained one was before its training; "" if it cannot be selected."""
    spec = choices.specs[name]
    parts = [untrained_name(part, choices) if part in choices.trained else part for part in spec.components]
    model = choices.trained[name].options.base if "model" in dict(spec) else None
    signature = (spec.kind, tuple(dict.fromkeys(parts)), model)
    for other in choices.specs.values():
        if other.name not in choices.trained and (other.kind, other.components, dict(other).get("model")) == signature:
            return other.name
    return ""


def untrained_names(names: Sequence[str], choices: RetrieverChoices) -> list[str]:
    return [before for name in names if name in choices.trained and (before := untrained_name(name, choices))]


def draw_notices(view: ComparisonView, choices: RetrieverChoices) -> None:
    comparison = view.comparison
    experiment = view.comparison.experiment
    question_set = comparison.question_set
    naming.warn_if_few(len(question_set.questions), "compared")
    if comparison.split and experiment.split is not Part.ALL:
        naming.draw_split(comparison.split)
    for result in view.results:
        if result.training_query_count is not None:
            naming.warn_if_few(result.training_query_count, "training", plain_names([result.name]))
    shallow = dict(comparison.shallow_retrievers)
    for result in view.results:
        name = plain_names([result.name])
        if result.error is not None:
            message = word("compare.failed", name=name, reason=plain(failure_text(result.error)))
            st.error(message, icon=":material/error:")
        elif result not in view.scored:
            message = word("compare.not_deep_enough", name=name, metric=view.metric.long_name)
            st.info(message, icon=":material/info:")
        elif result.name in shallow:
            depths = {"depth": f"{shallow[result.name]:,}", "needed": f"{comparison.depth:,}"}
            st.info(word("compare.shallow", name=name, **depths), icon=":material/info:")
    if question_set.generated_counts:
        text = naming.generated_text(question_set.generated_counts, len(question_set.questions))
        st.warning(text, icon=":material/auto_awesome:")
    specs = {result.name: experiment.with_dependencies([result.name]) for result in view.results}
    trained = {dict(choices.specs[name]).get("model") for name in choices.trained} - {None}
    used = {dict(spec).get("model") for value in specs.values() for spec in value}
    if experiment.split is not Part.TEST and used & trained:
        st.warning(word("compare.trained_on_these"), icon=":material/warning:")
    tuned = [name for name, value in specs.items() if any(spec.tuned_on(experiment.split) for spec in value)]
    if tuned:
        st.warning(word("compare.tuned_on_these", names=plain_names(tuned)), icon=":material/warning:")
    behind = [test for test in view.opened.underjudged_tests if test.a in view.scored_names]
    if behind:
        judged = {name: value.means().get(evidence.JUDGED, 0.0) for name, value in comparison.scores.items()}
        fractions = {name: f"{100 * value:.0f}" for name, value in judged.items()}
        names = ", ".join(f"{plain_names([test.a])} ({fractions[test.a]}%)" for test in behind)
        best = behind[0].b
        warning = word("compare.behind", names=names, best=plain_names([best]), share=fractions[best], k=DEFAULT_CUTOFF)
        st.warning(warning, icon=":material/balance:")
        begin_judging(view)


def begin_judging(view: ComparisonView) -> None:
    draw_pool_start(view.data, view.opened.folder.name, len(view.comparison.question_set.questions))


def draw_headline(view: ComparisonView, choices: RetrieverChoices, *, more_offered: bool = False) -> None:
    """Draw the recommendation and notes; `more_offered` if the page offers to compare other retrievers as well."""
    recommendation = view.recommendation
    if recommendation is None:
        return
    style = report.markdown_style(language(), lambda name: plain(retriever_name(name)))
    interval = view.opened.intervals[recommendation.name][str(recommendation.measure)]
    words = report.write_headline(recommendation, style, interval)
    with st.container(key="headline", gap="small"):
        st.markdown(words.answer)
        notes = list(words.notes)
        if not recommendation.alternative_count and not more_offered:
            notes.append(word("compare.pick_another"))
        if trained := _training_text(view, choices):
            notes.append(trained)
        for note in notes:
            st.caption(note)
        _draw_ceiling(view)


def _training_text(view: ComparisonView, choices: RetrieverChoices) -> str:
    best = next((name for name in view.ranked if name in choices.trained), "")
    if not best:
        return ""
    before = untrained_name(best, choices)
    others = dict.fromkeys((before, view.baseline, evidence.default_baseline(view.comparison)))
    tests = [test for name in others if name != best and (test := view.test(best, name))][:2]
    gains = [_gain_text(test, "compare.before_training" if test.b == before else "compare.as_it_is") for test in tests]
    texts = []
    if gains:
        questions = f"{len(view.comparison.question_set.questions):,}"
        gain = word("compare.gain_and").join(gains)
        values = {"best": plain_names([best]), "metric": view.metric.long_name, "questions": questions}
        texts.append(word("compare.answer_trained", gains=gain, **values))
    if before and before not in view.scored_names:
        texts.append(word("compare.pick_untrained", name=plain_names([before])))
    return " ".join(texts)


def _gain_text(test: PairTest, key: str) -> str:
    side = "more" if test.difference > 0 else "less"
    how = (side if test.is_significant else f"maybe_{side}") if test.wins or test.losses else "same"
    values = signed_interval(test.difference, test.low, test.high) | {"points": f"{abs(test.difference) * 100:.1f}"}
    return word(f"compare.gain_{how}", other=word(key, name=plain_names([test.b])), **values)


def _draw_ceiling(view: ComparisonView) -> None:
    scores = {name: view.comparison.scores[name] for name in view.leading}
    ks = view.comparison.experiment.ks
    default = evidence.default_measure(view.measure, ks)
    if view.k < default.cutoff and evidence.at_ceiling(scores, default):
        st.caption(word("compare.ceiling_left", metric=default.long_name, other=view.metric.long_name))
    if not evidence.at_ceiling(scores, view.metric):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(word("compare.saturated", metric=view.metric.long_name), width="content")
        finer = evidence.discriminating_measure(scores, ks, view.metric)
        if finer != view.metric:
            label = word("compare.look_finer", metric=finer.long_name)
            st.button(label, on_click=remember, args=("k", str(finer.cutoff)), type="tertiary", key="finer")
