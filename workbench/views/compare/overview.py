"""The overview of a comparison in three sections: the conclusion, where retrievers differ, and the evidence."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from mrc_workbench.data.split.partition import FOLDS
from mrc_workbench.retrieval.analysis.evidence import JUDGED, find_published, judged_measures, reversed_test
from mrc_workbench.retrieval.analysis.questions import largest_significant_difference
from mrc_workbench.retrieval.comparison.compare import Result
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.multistage import RerankSpec
from mrc_workbench.retrieval.comparison.spec import ReadingSpec
from mrc_workbench.retrieval.comparison.store import read_provenance
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.retrieval.significance import PairTest
from mrc_workbench.workbench.views import names as naming
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.compare import scores, where
from mrc_workbench.workbench.views.compare.controls import show_why
from mrc_workbench.workbench.views.compare.questions import QuestionCase, read_question_list
from mrc_workbench.workbench.views.names import plain_names, retriever_name
from mrc_workbench.workbench.views.search.answer import draw_reasons
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.passages import draw_style
from mrc_workbench.workbench.views.ui.words import plain, signed_interval, word, word_or

_SKIPPED_NOTES = ("other_questions", "unknown_passages", "aliases", "repeated", "rising_scores")  # of an imported run
_RESULT_NOTES = ("unknown_passages", "repeated", "rising_scores")  # of a retriever from outside


def draw(view: scores.ComparisonView) -> None:
    st.subheader(word("compare.section_conclusion"), anchor=False)
    questions = len(view.comparison.question_set.questions)
    ks = view.comparison.experiment.ks
    kwargs: dict[str, Any] = {"against": view.baseline_tests, "intervals": view.opened.intervals}
    scores.draw_table(scores.means(view.results), questions, view.metric, ks, **kwargs)
    if table_only := [name for name in view.ranked if name not in view.charted]:
        st.caption(word("compare.only_in_table", names=plain_names(table_only)))
    if len(view.scored) > 1:
        _draw_differences(view)
    _draw_evidence(view)


def _draw_differences(view: scores.ComparisonView) -> None:
    st.subheader(word("compare.section_differences"), anchor=False)
    grouping = where.default_property(view)
    parts = view.opened.slices(grouping)
    if parts:
        metrics = view.opened.slice_results(grouping, view.scored_names, str(view.metric))
        metrics = metrics[metrics["retriever"].isin(view.leading)]  # tested with all that are selected
        labels = naming.slice_names(parts, grouping)
        findings = []
        for side, rows_of_side in (("ahead", metrics["difference"] > 0), ("behind", metrics["difference"] < 0)):
            strongest = largest_significant_difference(metrics[rows_of_side])
            if strongest is not None:
                texts = where.slice_difference_texts(view, strongest, labels, grouping)
                findings.append(word(f"compare.finding_{side}", **texts))
        finding = " ".join(findings)
        if finding:
            st.markdown(finding)
    left, right = st.columns([5, 6])
    if parts:
        title = word("compare.by_kind", by=word(f"where.grouped_{grouping.value}"), metric=view.metric.long_name)
        displayed, rows = where.select_slices(metrics, labels, 5)
        displayed = naming.with_display_names(displayed, view.display_names)
        x = word("where.with_interval", metric=view.metric.long_name)
        alt_text = finding.replace("**", "").replace("\\", "") or title  # not Markdown, for screen readers
        with left:
            st.markdown(f"##### {title}")
            order = view.labels_for(view.charted)
            charts.draw_chart(where.on_slices, displayed, order, view.labels_for(view.names), rows, x=x, alt=alt_text)
    with right, st.container(border=True):
        _draw_question(view)


def _draw_evidence(view: scores.ComparisonView) -> None:
    st.subheader(word("compare.section_evidence"), anchor=False)
    left, right = st.columns([5, 6])
    with left:
        _draw_forest(view)
    with right:
        if view.scored:
            _draw_curves(view)
        _draw_tests_in_full(view)
        for result in view.scored:
            if result.signals:
                _draw_mix(result, view.spec(result.name).components)
        _draw_published(view)
        _draw_notes(view)
    _draw_cautions(view)
    if view.scored:
        _draw_judged(view)


def _draw_forest(view: scores.ComparisonView) -> None:
    tests = {test.a: test for test in view.baseline_tests}
    against = [tests[name] for name in view.charted if name in tests]
    if not against:
        return
    title = word("compare.forest", metric=view.metric.long_name, baseline=view.display_names[view.baseline])
    st.markdown(f"##### {plain(title)}", help=word("compare.forest_help"))
    detail = word("compare.retriever")
    table = scores.in_points(against).rename(columns={"a": detail})
    table[detail] = table[detail].map(view.display_names)
    lines = []
    for name, test in zip(table[detail], against, strict=True):
        values = signed_interval(test.difference, test.low, test.high)
        lines.append(word("compare.difference_in_words", name=name, verdict=scores.verdict_of(test), **values))
    kwargs: dict[str, Any] = {"x": word("compare.points"), "detail": detail, "alt": f"{title}. {'; '.join(lines)}"}
    charts.draw_chart(charts.forest, table, view.labels_for(view.names), **kwargs)


def _draw_curves(view: scores.ComparisonView) -> None:
    detail = word("compare.retriever")
    height = word(f"measure.{view.measure}")
    names = view.display_names
    ends = view.opened.intervals
    results = {result.name: result for result in view.results}
    rows = []
    for name in view.ranked:
        for measure, mean in view.comparison.scores[name].means().items():
            if Measure.parse(measure).name == view.measure:
                rows.append((names[name], *Measure.parse(measure), mean, *ends[name][measure]))
    curve = pd.DataFrame(rows, columns=[detail, "measure", "K", height, "low", "high"])
    with st.expander(word("compare.curve", measure=height)):
        displayed = curve[curve[detail].isin(view.labels_for(view.charted))]
        described = word("compare.curve_in_words", name=retriever_name(view.ranked[0]), metric=view.metric.long_name)
        untrained = scores.untrained_names(view.charted, choices_for(view.data))
        dashed = view.labels_for(name for name in view.charted if name in untrained)
        kwargs: dict[str, Any] = {"x": "K", "y": height, "detail": detail, "dashed": dashed, "alt": described}
        charts.draw_chart(charts.curves, displayed, view.labels_for(view.names), **kwargs)
        st.caption(word("compare.interval_help"))
        percentages = (100 * curve[[height, "low", "high"]]).itertuples(index=False)
        curve["text"] = [f"{value:.2f} [{low:.1f}, {high:.1f}]" for value, low, high in percentages]
        st.dataframe(curve.pivot_table(index=detail, columns="K", values="text", aggfunc="first", sort=False))
        scores.draw_costs([results[name] for name in view.ranked])


def _draw_tests_in_full(view: scores.ComparisonView) -> None:
    """Draw the tests against the baseline and those of every other pair."""
    others = tuple(name for name in view.scored_names if name != view.baseline)
    if not view.baseline_tests and len(others) < 2:
        return
    with st.expander(word("compare.tests", metric=view.metric.long_name)):
        st.caption(word("compare.pairs_help"))
        _draw_tests(view.baseline_tests)
        if len(others) > 1:  # the better one first
            _draw_tests([reversed_test(test) if test.difference < 0 else test for test in view.others_tested])


def _draw_mix(result: Result, parts: Sequence[str]) -> None:
    rows = [
        (retriever_name(name) if name in parts else signal_label(name), 100 * details["weight"], 100 * details["gain"])
        for name, details in result.signals.items()
    ]
    table = pd.DataFrame(rows, columns=["signal", "weight", "gain"]).sort_values("weight", ascending=False)
    with st.expander(word("compare.mix_title", name=plain(retriever_name(result.name)))):
        st.caption(word("compare.mix_about", questions=f"{result.notes.get('questions', 0):,}", folds=FOLDS))
        first = table.iloc[0]
        described = word("compare.mix_in_words", signal=first["signal"], share=f"{first['weight']:.0f}")
        charts.draw_chart(_signal_bars, table, x=word("compare.mix_share"), alt=described)
        columns = {
            "signal": tables.text("compare.mix_signal", width=tables.width_of(table["signal"]), pinned=True),
            "weight": tables.number("compare.mix_share", "%.1f"),
            "gain": tables.number("compare.mix_gain", "%+.2f"),
        }
        tables.draw(table, columns)


def _signal_bars(table: pd.DataFrame, *, x: str) -> alt.Chart:
    names = table["signal"].tolist()
    base = alt.Chart(table).encode(
        y=alt.Y("signal:N", sort=names, title=None, axis=alt.Axis(labelLimit=190, labelOverlap=False)),
        x=alt.X("weight:Q", title=x),
        tooltip=charts.tooltips(("signal:N", " "), ("weight:Q", x, ".1f")),
    )
    description = charts.describe(x, charts.values(names, [*table["weight"]], ".1f"))
    return base.mark_bar(color=PALETTE[0]).properties(height=56 + 24 * len(names), description=description)


def signal_label(name: str) -> str:
    return word_or(f"signal.{name.removeprefix('BM25 ').replace(' ', '_')}", name)


@st.fragment
def _draw_question(view: scores.ComparisonView) -> None:
    """Draw the question on which the baseline differs most from the best dense retriever, else from the best other."""
    first, *others = view.leading
    dense = [name for name in others if isinstance(view.spec(name).local_spec, DenseSpec)]
    means = {name: view.comparison.scores[name].means()[str(view.metric)] for name in dense or others}
    pair = (first, max(means, key=means.__getitem__))
    rows = view.opened.disputed_rows(pair, 1)
    if not rows:
        st.caption(word("compare.all_agree"))
        return
    case = QuestionCase(read_question_list(view), rows[0])
    draw_style()
    st.caption(word("compare.disputed", names=plain(" · ".join(map(retriever_name, pair)))))
    st.markdown("  \n".join(filter(None, (f"**{plain(case.question.text)}**", naming.answers_line(case.question)))))
    by_rank = sorted(pair, key=lambda name: case.passage_pair(name).right_rank or case.depth(name) + 1)
    with st.spinner(word("why.reading")):
        draw_reasons(case.results, [view.spec(name) for name in by_rank], view.names)
    if st.button(word("compare.open_question"), icon=":material/arrow_forward:", type="tertiary", key="disputed"):
        show_why({"question": case.question.id})
        st.rerun()  # the whole page: another tab opens


def _draw_published(view: scores.ComparisonView) -> None:
    question_count = len(view.comparison.question_set.questions)
    for entry in find_published(view.data.name):
        source = entry.source
        measured = {name: value.means().get(source.measure) for name, value in view.comparison.scores.items()}
        here = word("published.here")
        rows = [(view.display_names[name], here, value) for name, value in measured.items() if value is not None]
        rows += [(name, word(f"published.{entry.kinds[name]}"), value) for name, value in entry.scores.items()]
        table = pd.DataFrame(rows, columns=["name", "kind", "value"]).sort_values("value", ascending=False)
        with st.expander(word("published.title", name=entry.title)):
            st.caption(word("published.about", title=source.title, address=source.address, date=f"{source.date}"))
            if question_count != entry.questions:
                st.caption(word("published.others", theirs=f"{entry.questions:,}", here=f"{question_count:,}"))
            columns = {
                "name": tables.text("published.name", "", width=tables.width_of(table["name"]), pinned=True),
                "kind": tables.text("published.kind", ""),
                "value": tables.measure(source.measure, Measure.parse(source.measure).long_name),
            }
            tables.draw(table.assign(value=100 * table["value"]).style.format("{:.2f}", subset=["value"]), columns)


def _draw_tests(tests: list[PairTest]) -> None:
    if not tests:
        return
    table = scores.in_points(tests).assign(verdict=[scores.verdict_of(test) for test in tests])
    first, second = (tables.width_of(map(retriever_name, table[side])) for side in ("a", "b"))
    columns = {
        "a": tables.text("compare.first_of_pair", width=first, pinned=True),
        "b": tables.text("compare.second_of_pair", width=second),
        "verdict": tables.text("compare.verdict"),
        "difference": tables.number("compare.difference", "%+.2f"),
        **tables.interval("%+.2f", "compare.family_help"),
        "p_family": tables.p_family(),
        "p": tables.number("compare.p_uncorrected", "%.4f", "compare.p_randomization"),
        **{name: tables.number(f"compare.{name}") for name in ("wins", "ties", "losses")},
    }
    tables.draw(table, columns, retrievers=("a", "b"))


def _draw_judged(view: scores.ComparisonView) -> None:
    judged = judged_measures({result.name: result.scores for result in view.scored if result.scores})
    if JUDGED not in judged:
        return
    st.markdown(f"##### {word('compare.judged')}")
    st.caption(word("compare.judged_about"))
    table = scores.means(view.scored)
    table["unjudged"] = 1 - table[JUDGED]
    others = [measure for measure in judged if measure != JUDGED]
    percent_columns = [JUDGED, "unjudged", *others]
    table[percent_columns] *= 100
    columns = {
        "retriever": tables.retriever(width=tables.width_of(map(retriever_name, table["retriever"]))),
        JUDGED: tables.measure(JUDGED),
        "unjudged": tables.number("compare.unjudged", "%.2f"),
        **{measure: tables.measure(measure) for measure in others},
    }
    tables.draw(table.style.format(dict.fromkeys(percent_columns, "{:.2f}"), na_rep="–"), columns, placeholder="–")
    if not view.opened.underjudged_tests:
        scores.begin_judging(view)


def _draw_cautions(view: scores.ComparisonView) -> None:
    for result in view.results:
        name = plain(retriever_name(result.name))
        notes = result.notes
        if result.unanswered and result in view.scored:
            st.caption(word("compare.unanswered", name=name, questions=f"{result.unanswered:,}"))
        for mix, part, questions in view.comparison.incomplete_mixes:
            if mix == result.name:
                st.caption(word("compare.blind", name=name, part=plain_names([part]), questions=f"{questions:,}"))
        if result.imported:  # see `retrieval.trec.run.Notes`
            texts = [word("imported.read", questions=f"{notes['questions']:,}", depth=f"{notes['depth']:,}")]
            texts += [word(f"imported.{key}", count=f"{notes[key]:,}") for key in _SKIPPED_NOTES if notes.get(key)]
            st.caption(f"{name}: {' '.join(texts)}")
        elif latency := notes.get("latency"):  # see `retrieval.outside.adapt`
            texts = [word("outside.latency", p50=f"{latency['p50']:,.1f}", p95=f"{latency['p95']:,.1f}")]
            example = plain(str(notes.get("unknown_example", "")))
            noticed = [key for key in _RESULT_NOTES if notes.get(key)]
            texts += [word(f"outside.{key}", count=f"{notes[key]:,}", example=example) for key in noticed]
            st.caption(f"{name}: {' '.join(texts)}")
    _draw_cut_off(view)


def _draw_notes(view: scores.ComparisonView) -> None:
    question_set = view.comparison.question_set
    with st.expander(word("compare.notes")):
        weights = _weights(view)
        if len(set(weights.values())) > 1:
            weight_list = ", ".join(f"{plain(retriever_name(name))} {weight:g}" for name, weight in weights.items())
            st.caption(word("compare.weights_differ", weights=weight_list))
        several = (np.diff(question_set.relevance.indptr) > 1).any()
        st.caption(word("compare.recall_is_not_hit") if several else word("compare.recall_is_hit"))
        for key, field in (("graded", "grades"), ("grouped", "groups")):
            if any(getattr(question, field) for question in question_set.questions):
                st.caption(word(f"compare.{key}", grade=view.comparison.experiment.relevance_level))
        if view.scored and question_set.judged is None:
            st.caption(word("compare.only_relevant"))
            scores.begin_judging(view)


def _draw_cut_off(view: scores.ComparisonView) -> None:
    displayed_names = {result.name for result in view.results}
    passages = f"{len(view.comparison.question_set.passages):,}"
    for name, count, wrapping in view.comparison.cut_off:
        wraps = plain_names(other for other in wrapping if other in displayed_names)
        if name in displayed_names or wraps:
            texts = [word("compare.cut_off", name=plain_names([name]), count=f"{count:,}", passages=passages)]
            texts += [word("compare.cut_off_too", names=wraps)] if wraps else []
            if isinstance(view.spec(name), ReadingSpec):
                texts.append(word("compare.cut_off_help", windows=word("compare.windows")))
            st.caption(" ".join(texts))


def _weights(view: scores.ComparisonView) -> dict[str, float]:
    """Return the stored weight of each scored reranker in the sum with its first stage."""
    specs = read_provenance(view.opened.folder).get("retrievers")
    if not isinstance(specs, dict):
        return {}
    rerankers = [result.name for result in view.scored if isinstance(view.spec(result.name), RerankSpec)]
    weights = {name: specs[name].get("weight") for name in rerankers if isinstance(specs.get(name), dict)}
    return {name: float(weight) for name, weight in weights.items() if isinstance(weight, int | float)}
