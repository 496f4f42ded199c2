"""Charts of a training by step, and its scores before and after, in sentences and as a table with intervals."""

from collections.abc import Sequence
from math import ceil
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from mrc_workbench.data.split import Part
from mrc_workbench.retrieval.report.charts import PALETTE, legend, shape
from mrc_workbench.training.recipes import RECIPES, get_recipe, ranking_kinds
from mrc_workbench.training.recipes.readers import READER_FAMILY
from mrc_workbench.training.recipes.sentence_data import PAIR_FAMILY
from mrc_workbench.training.results import MEASURES, Curves, Points, get_advice, read_curves
from mrc_workbench.training.runs import Run, TrainingPlan
from mrc_workbench.workbench.views.names import leading_measure, warn_if_few
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import draw_chart, tooltips
from mrc_workbench.workbench.views.ui.words import plain, signed, word, word_or

_GEOMETRY = {"alignment": "Alignment", "uniformity": "Uniformity"}  # of the vector space: not fractions
_NAMES = _GEOMETRY | {metric: name for recipe in RECIPES.values() for metric, name in recipe.family.measures.items()}
_BM25 = PALETTE[0]
_OTHER_COLOUR = "#8a8a8a"  # of training questions: readable on light and dark
_ON_TEST = "_tested"  # suffix of rows of test questions
_TESTED = ("before", "after", "bm25")  # rows that test questions may have
_WIDTH = 140  # pixels of a score with its interval: the table fits beside the sidebar of a small screen
_TIMES_100 = ("spearman", "pearson", "accuracy")  # published as percentages
Row = dict[str, float]
# format of a metric in a tooltip, in a table, in the description of a chart, and at an axis
_SHARE = (".2%", "percent", ".1%", ".1%")
_FORMATS = {
    "loss": (".4f", "%.4f", ".3f", ".3~f"),
    "learning_rate": (".2~r", "%.7f", ".2e", ".2~r"),
    **dict.fromkeys(("grad_norm", *_GEOMETRY), (".3f", "%.3f", ".3f", ".3~f")),
}


def measure_name(name: str) -> str:
    return word_or(f"measure.{name}", _NAMES[name])


def measure_names(kind: str) -> dict[str, str]:
    return {name: measure_name(name) for name in get_recipe(kind).family.curves}


def checkpoint_metric(run: Run, plan: TrainingPlan) -> str:
    """Return the measure that selects the checkpoint, or the kind's default if the loss selects it."""
    resolved_options = run.provenance().get("resolved_options", {}).get("best_by", plan.options.best_by.value)
    return str(resolved_options) if resolved_options in measure_names(plan.kind) else get_recipe(plan.kind).measure


def pick_measure(key: str, kind: str, first: str) -> str:
    names = measure_names(kind)
    kwargs: dict[str, Any] = {"format_func": names.__getitem__, "required": True, "label_visibility": "collapsed"}
    measure = st.segmented_control(word("train.measure_shown"), list(names), default=first, key=key, **kwargs)
    return str(measure or first)


def draw_run_chart(name: str, run_curves: Curves, colour: str, *, last_step: int = 0, best_step: int = 0) -> None:
    is_measure = name in MEASURES
    own, other = ("validation", "training") if is_measure else ("training", "validation")
    lines = {word(f"train.line_{own}"): run_curves.points[name]}
    colours = [colour]
    if run_curves.comparison_points[name]:
        lines[word(f"train.line_{other}")] = run_curves.comparison_points[name]
        colours = [colour, _OTHER_COLOUR] if is_measure else [_OTHER_COLOUR, colour]
    best_point = next((point for point in run_curves.points[name] if is_measure and point[0] == best_step), None)
    draw_step_chart(name, lines, colours, last_step=last_step, bm25=run_curves.bm25.get(name), best_point=best_point)


def draw_step_chart(
    name: str,
    lines: dict[str, Points],
    colours: Sequence[str],
    *,
    last_step: int = 0,
    bm25: float | None = None,
    best_point: tuple[int, float] | None = None,
) -> None:
    """Draw a metric by step, a line per training, with its heading and its table.

    `name` is a key of `read_curves`. The axis ends at `last_step` or with the longest line. `best_point` marks the step
    whose model is stored.
    """
    if name in MEASURES:
        of_pairs = name in PAIR_FAMILY.curves
        heading = word("train.measured_pairs" if of_pairs else "train.measured", measure=measure_name(name))
        how = "measured_pairs" if of_pairs else "measured_passages" if name in READER_FAMILY.curves else "measured"
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
    draw_chart(_chart, name, table, list(lines), list(colours[: len(lines)]), last, bm25=bm25, best_point=best_point)
    wide = table.pivot_table(index="step", columns="run", values="value", aggfunc="last", dropna=False)
    wide = wide.reindex(columns=[run for run in lines if run in wide])
    if len(lines) == 1:
        wide.columns = [_short(name)]
    if bm25 is not None:
        wide["BM25"] = bm25
    columns = dict.fromkeys(wide.columns, st.column_config.NumberColumn(format=_FORMATS.get(name, _SHARE)[1]))
    with st.expander(word("train.as_table")):
        displayed = wide.rename_axis(index=word("train.step"), columns=None).reset_index()
        st.dataframe(displayed, hide_index=True, column_config=columns, height=220)


def _chart(
    name: str,
    table: pd.DataFrame,
    runs: list[str],
    colours: Sequence[str],
    last_step: int,
    *,
    bm25: float | None,
    best_point: tuple[int, float] | None,
) -> alt.LayerChart:
    in_tooltip, _, described, at_axis = _FORMATS.get(name, _SHARE)
    several = len(runs) > 1
    step = word("train.step")
    names = legend(columns=2, labelLimit=180) if several else None
    height = (170 if name in ("learning_rate", "grad_norm") else 240) + (24 * ceil(len(runs) / 2) if several else 0)
    base = alt.Chart(table).encode(
        x=alt.X("step:Q", title=step, scale=alt.Scale(domain=[0, last_step]), axis=alt.Axis(tickMinStep=1, format="d")),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False, padding=12), axis=alt.Axis(format=at_axis)),
        color=alt.Color("run:N", scale=alt.Scale(domain=runs, range=list(colours)), legend=names),
        tooltip=[
            *([alt.Tooltip("run:N", title=word("train.run"))] if several else []),
            *tooltips(("step:Q", step), ("value:Q", _short(name), in_tooltip)),
        ],
    )
    marks = base.mark_point(filled=True, opacity=1, size=45 if name in MEASURES else 12)
    dashes = alt.Scale(domain=runs, range=[[5, 4] if tint == _OTHER_COLOUR else [1, 0] for tint in colours])
    lines = base.mark_line().encode(strokeDash=alt.StrokeDash("run:N", scale=dashes, legend=None))
    chart = (lines + marks.encode(shape=shape("run", runs, runs, names))).properties(height=height)
    rows = charts.line_texts(table, "run", "step", "value", described)
    if best_point is not None:
        point = pd.DataFrame([(*best_point, word("train.kept_mark"))], columns=["step", "value", "text"])
        base = alt.Chart(point).encode(x="step:Q", y="value:Q")
        ring = base.mark_point(size=220, filled=False, strokeWidth=2, opacity=1, color=colours[0])
        chart += ring + base.mark_text(dy=-18, fontWeight="bold", color=colours[0]).encode(text="text:N")
    if bm25 is not None:
        base = alt.Chart(pd.DataFrame({"value": [bm25], "text": [f"BM25 {bm25:.1%}"]})).encode(y="value:Q")
        text = base.mark_text(align="right", dx=-4, dy=-8, color=_BM25, fontWeight="bold")
        line = base.mark_rule(color=_BM25, strokeDash=[6, 4], strokeWidth=2)
        chart += line + text.encode(text="text:N", x=alt.value("width"))
        rows.append(word("chart.row", name="BM25", value=f"{bm25:.1%}"))
    return chart.properties(description=charts.describe(_short(name), rows))


def _short(name: str) -> str:
    return measure_name(name) if name in MEASURES else word(f"train.{name}")


def draw_scores(run: Run, plan: TrainingPlan, scores: dict[str, Any]) -> None:
    """Draw the changes in sentences, and a table of the scores with their 95% intervals if known, the best bold."""
    order = ("unigram", "before", "after", "bm25")
    if scores.get("interpolated"):
        order = ("interpolated", "bm25", "before", "after")  # a reranker is used in its mix, which comes first
    rows = {name: scores[name] for name in order if isinstance(scores.get(name), dict)}
    if not {"before", "after"} <= set(rows):
        st.caption(word("train.no_scores"))
        return
    judge = _judge_kind(scores)
    asks_questions = judge in ("questions", "passages")
    names = {key: name for key, name in measure_names(plan.kind).items() if any(key in row for row in rows.values())}
    if judge == "pairs":  # metrics of the vector space are not fractions
        names = {key: name for key, name in names.items() if key in _TIMES_100}
    leading = str(leading_measure())
    names = dict(sorted(names.items(), key=lambda item: item[0] != leading))  # its column comes first
    measure = (scores.get("gain") or {}).get("measure", get_recipe(plan.kind).measure)  # older scores lack it
    _draw_headline(names, rows, scores)
    if measure in names and measure in rows["before"].keys() & rows["after"].keys():
        _draw_sentences((measure, names[measure]), rows, scores)
        if asks_questions and (advice_code := get_advice(plan, scores, read_curves(run, [measure]).points[measure])):
            st.info(word(f"advice.{advice_code}"), icon=":material/lightbulb:")
    if "perplexity" in rows["after"]:
        known = ("unigram", "before", "after")
        values = {name: f"{rows[name]['perplexity']:,.0f}" if name in rows else "–" for name in known}
        st.markdown(word("train.perplexities", **values))
    if names:
        _draw_table(rows, scores, names, "train.row" if judge == "questions" else "train.row_model")
    by_question = scores.get("intervals") and asks_questions
    st.caption(_measured_on(plan, scores), help=word("train.intervals_help") if by_question else None)
    if scores.get("best_step"):
        st.caption(_best_step_text(scores, run, plan))
    if active := scores.get("active_terms"):
        st.caption(word("train.active_terms", **{side: f"{count:,.1f}" for side, count in active.items()}))


def _draw_headline(names: dict[str, str], rows: dict[str, Row], scores: dict[str, Any]) -> None:
    """Draw the measure before and after, on test questions if there are any; a reranker is judged by its mix."""
    mixed = {"interpolated", "bm25"} <= rows.keys()
    test = {} if mixed else _of_test(scores)
    before, after = ("bm25", "interpolated") if mixed else ("before", "after")
    displayed_scores = test or rows
    gain = (test or scores).get("interpolated_gain" if mixed else "gain") or {}
    measure = gain.get("measure", "")
    if measure not in names or not {before, after} <= displayed_scores.keys():
        return
    was, now = (_to_percent(displayed_scores[name][measure]) for name in (before, after))
    low, high = gain["interval"]
    about = {"measure": names[measure], "before": f"{was:.1f}", "after": f"{now:.1f}"}
    difference = {"difference": signed((now - was) / 100), "low": signed(low), "high": signed(high)}
    if about["before"] == about["after"]:
        st.markdown("#### " + word("train.headline_same", **about))
    else:
        st.markdown("#### " + word("train.headline_mixed" if mixed else "train.headline", **about, **difference))
    if questions := (test or scores).get("questions"):
        key = "train.headline_of_test" if test else "train.headline_of_validation"
        st.caption(word(key, questions=f"{questions:,}"))
    for part, measured in ((Part.VALIDATION, scores), (Part.TEST, test)):
        if questions := measured.get("questions"):
            warn_if_few(questions, part)


def _judge_kind(scores: dict[str, Any]) -> str:
    """Return what the training was evaluated on, by the counts among its scores; a reader reads "passages"."""
    counted = {"pairs": "pairs", "hidden": "text", "normalization": "passages"}
    return next((judge for name, judge in counted.items() if name in scores), "questions")


def _of_test(scores: dict[str, Any]) -> dict[str, Any]:
    return dict(scores.get("test") or {})


def _draw_sentences(names: tuple[str, str], rows: dict[str, Row], scores: dict[str, Any]) -> None:
    """Draw the changes on validation, training and test questions, and whether they are significant.

    If the model is mixed with BM25, the gain of the mix comes first, and then the model without BM25.
    """
    measure, name = names
    if {"interpolated", "bm25"} <= rows.keys():
        gain = scores.get("interpolated_gain")
        st.markdown(_change_text("mixed", names, rows["bm25"], rows["interpolated"], gain=gain))
        before, after, bm25 = (_to_percent(rows[row_name][measure]) for row_name in ("before", "after", "bm25"))
        outcome = "same" if after == bm25 else "above" if after > bm25 else "below"
        st.markdown(word(f"train.alone_{outcome}", measure=name, before=before, after=after, bm25=bm25))
    else:
        text = _change_text("went", names, rows["before"], rows["after"], gain=scores.get("gain"))
        asks_questions = _judge_kind(scores) in ("questions", "passages")
        if (question_count := scores.get("questions")) and asks_questions:
            text = word("train.on_validation", questions=f"{question_count:,}") + " " + text
        if (seen := scores.get("training_sample")) and asks_questions:
            text += " " + _change_text("learned", names, seen["before"], seen["after"], questions=seen["questions"])
        st.markdown(text)
    if test := _of_test(scores):
        about: dict[str, Any] = {"gain": test.get("gain"), "questions": test["questions"]}
        text = _change_text("tested", names, test["before"], test["after"], **about)
        if "bm25" in test:
            text += " " + word("train.tested_bm25", bm25=_to_percent(test["bm25"][measure]))
        st.markdown(text, help=word("train.tested_help"))


def _change_text(
    key_prefix: str, names: tuple[str, str], before: Row, after: Row, *, gain: Any = None, questions: int | None = None
) -> str:
    """Return the change as text, with its significance unless the values are equal."""
    measure, name = names
    was = _to_percent(before[measure])
    now = _to_percent(after[measure])
    outcome = "same" if was == now else "up" if now > was else "down"
    about = {"measure": name, "before": was, "after": now, "points": f"{abs(now - was):.1f}"}
    counts = {} if questions is None else {"questions": f"{questions:,}"}
    text = word(f"train.{key_prefix}_{outcome}", **about, **counts)
    if was == now or not gain:
        return text
    low, high = gain["interval"]
    key = "train.gain_sure" if low > 0 or high < 0 else "train.gain_unsure"
    return f"{text} {word(key, low=signed(low), high=signed(high))}"


def _to_percent(fraction: float) -> float:
    return round(fraction * 100, 1)


def _draw_table(rows: dict[str, Row], scores: dict[str, Any], names: dict[str, str], heading: str) -> None:
    """Draw the measures of `rows` and of test questions; cells stay numbers, so that columns sort."""
    test = _of_test(scores)
    tested = {f"{name}{_ON_TEST}": test[name] for name in _TESTED if name in test}
    intervals = {f"{name}{_ON_TEST}": ends for name, ends in (test.get("intervals") or {}).items()}
    intervals |= scores.get("intervals") or {}
    table = pd.DataFrame(rows | tested, index=list(names)).T * 100
    table.insert(0, "row", [_row_name(name, scores) for name in table.index])
    style = table.style.format("{:.2f}", subset=pd.IndexSlice[:, [*names]])
    for compared in filter(None, ([*rows], [*tested])):  # scores of other questions are not comparable
        style = style.highlight_max(subset=pd.IndexSlice[compared, [*names]], props=tables.BOLD)
    for row in table.index:
        for measure, (low, high) in intervals.get(row, {}).items():
            if measure in names:
                text = f"{table.loc[row, measure]:.2f} [{low * 100:.1f}–{high * 100:.1f}]"
                style = tables.write(style, row, measure, text)
    width = _WIDTH if intervals else "small"
    columns = {column: tables.measure(column, label, width=width) for column, label in names.items()}
    tables.draw(style, {"row": tables.text(heading, width="medium"), **columns})


def _row_name(name: str, scores: dict[str, Any]) -> str:
    if name.endswith(_ON_TEST):
        return word("train.row_tested", row=word(f"train.row_{name.removesuffix(_ON_TEST)}"))
    if name == "interpolated":
        return word("train.row_interpolated", weight=f"{scores.get('weight', 0):g}")
    if scores.get("interpolated") and name in ("before", "after"):
        return word(f"train.row_{name}_alone")
    return word(f"train.row_{name}")


def _measured_on(plan: TrainingPlan, scores: dict[str, Any]) -> str:
    intervals = scores.get("intervals") or {}
    test = _of_test(scores)
    judge = _judge_kind(scores)
    questions = f"{scores.get('questions', 0):,}"
    if judge == "pairs":
        notes = [word("train.measured_on_pairs", pairs=f"{scores['pairs']:,}")]
    elif judge == "text":
        notes = [word("train.measured_on_text", hidden=f"{scores['hidden']:,}", rows=f"{scores['rows']:,}")]
    elif judge == "passages":
        rules = word_or(f"choice.normalization_{scores['normalization']}", str(scores["normalization"]))
        notes = [word("train.measured_on_passages", questions=questions, rules=plain(rules))]
        if unanswerable := scores.get("unanswerable"):
            notes.append(word("train.measured_on_unanswerable", count=f"{unanswerable:,}"))
    else:
        notes = [word("train.measured_on", questions=questions)]
    if generated := sum(scores.get("synthetic_questions", {}).values()):
        notes.append(word("train.measured_on_made", made=f"{generated:,}"))
    if intervals:
        notes.append(word("train.intervals_of_text" if judge == "text" else "train.intervals"))
        score_rows = [*(scores.get(name, {}) for name in intervals), *(test.get(name, {}) for name in _TESTED)]
        if judge != "text" and {value for row in score_rows for value in row.values()} & {0, 1}:
            notes.append(word("train.intervals_at_the_end"))
    if test:
        notes.append(word("train.measured_on_test", questions=f"{test['questions']:,}"))
    elif plan.kind in ranking_kinds() and plan.split.test:
        notes.append(word("train.not_tested", use=word("train.use")))
    if plan.options.rerank_depth:
        notes.append(word("train.measured_reranked", depth=plan.options.rerank_depth))
    return " ".join(notes)


def _best_step_text(scores: dict[str, Any], run: Run, plan: TrainingPlan) -> str:
    steps = {"step": f"{scores['best_step']:,}", "total": f"{run.status().total_steps:,}"}
    names = measure_names(plan.kind)
    judge = _judge_kind(scores)
    measure = plan.options.best_by.value if judge == "text" else checkpoint_metric(run, plan)
    if scores.get("best_by") == "loss":
        return word("train.best_step_loss", **steps)
    if judge == "text" and measure not in names:
        return word("train.best_step_perplexity", **steps)
    suffix = f"_{judge}" if judge in ("text", "pairs") else ""
    return word(f"train.best_step{suffix}", **steps, measure=names[measure])
