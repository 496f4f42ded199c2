"""An evaluation: its answer in a sentence, a summary by K, slices, the questions with their passages, and downloads."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.labs.reading.extractive import AnswerOutcome
from mrc_workbench.labs.reading.labels import LabelKind
from mrc_workbench.labs.reading.pages import evaluation, passages
from mrc_workbench.labs.reading.pages.evaluation import OUTCOME_KEYS, ReadingView
from mrc_workbench.labs.reading.pages.page import QUESTION_KEY
from mrc_workbench.labs.reading.scores import EXACT, MIN_SLICE_QUESTIONS
from mrc_workbench.labs.reading.study import file_name
from mrc_workbench.retrieval.rankings import NOT_FOUND
from mrc_workbench.retrieval.report.charts import TEXT_COLOUR, colour, legend, shape
from mrc_workbench.workbench.views.compare import where
from mrc_workbench.workbench.views.names import retriever_name, with_display_names
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import draw_chart, interval_tooltips, names_in_column, tooltips
from mrc_workbench.workbench.views.ui.job import begin
from mrc_workbench.workbench.views.ui.passages import draw_style
from mrc_workbench.workbench.views.ui.state import ask, choose, choose_named, choose_tab, remember, scroll_to_top
from mrc_workbench.workbench.views.ui.words import failure_text, plain, word, word_or

_ANY = "any"
_MAX_ROWS = 10  # rows without scrolling
OUTCOME_MARKS = dict(zip(AnswerOutcome, "✔⇅✘∅", strict=True))
OUTCOME_COLOURS = {"right": "#009E73", "outranked": "#E69F00", "misread": "#D55E00", "not_found": "#7A8290"}


def draw_evaluation(view: ReadingView, answer: DeltaGenerator, start: Callable[[], None]) -> None:
    """Draw the answer into its container, then the selected view, the downloads, and a button that starts again."""
    with answer:
        _draw_answer(view)
    if view.answers_by_retriever:
        name, container = choose_tab("answers_look", {name: word(f"answers.view_{name}") for name in VIEWS})
        with container:
            VIEWS[name](view)
    with st.container(horizontal=True):
        if view.answers_by_retriever:
            _draw_downloads(view)
        if st.button(word("answers.again"), icon=":material/replay:", key="evaluate_again"):
            begin(start)


def _draw_answer(view: ReadingView) -> None:
    if view.reader.error:
        st.error(plain(failure_text(view.reader.error)), icon=":material/error:")
        return
    for result in view.stored.result.comparison.results:
        if result.error and result.name in view.retrievers:
            details = {"name": plain(retriever_name(result.name)), "reason": plain(failure_text(result.error))}
            st.error(word("answers.retriever_failed", **details), icon=":material/error:")
    if view.answers_by_retriever:
        st.markdown(_answer_text(view))


def _answer_text(view: ReadingView) -> str:
    best = view.best_retriever()
    metrics = view.metrics(best)
    kind = "exact" if view.measure == EXACT else "overlap"
    low, high = metrics["interval"][view.measure]
    fractions = {"value": metrics[view.measure], "oracle": view.oracle[view.measure], "low": low, "high": high}
    values = {name: f"{100 * fraction:{'.0f' if kind == 'exact' else '.1f'}}" for name, fraction in fractions.items()}
    values |= {"name": plain(view.display_names[best]), "measure": word(f"answers.measure_{view.measure}")}
    text = word(f"answers.answer_{kind}_{'one' if view.k == 1 else 'many'}", k=view.k, **values)
    return " ".join([text, *_significance_sentences(view, best)])


def _significance_sentences(view: ReadingView, best: str) -> list[str]:
    """Return whether the best is significantly better than the next one and, if not, than which others."""
    table = evaluation.difference_table(view)
    of_best = table[table["a"] == best]
    if of_best.empty:
        return []
    runner_up = of_best.iloc[-1]
    significant = of_best[of_best["sure"]]
    sentences = []
    for row in [runner_up] if runner_up["sure"] or significant.empty else [runner_up, significant.iloc[0]]:
        values = {name: f"{row[name]:+.1f}".replace("-", "−") for name in ("low", "high")}
        names = {"name": plain(view.display_names[best]), "other": plain(view.display_names[row["b"]])}
        values |= names | {"points": f"{row['difference']:.1f}"}
        is_identical = not (row["low"] or row["high"])  # for every question
        key = "none" if is_identical else "sure" if row["sure"] else "unsure"
        sentences.append(word(f"answers.difference_{key}", **values, k=view.tested_k))
    return sentences


def _draw_downloads(view: ReadingView) -> None:
    tables.draw_csv("answers.csv", lambda: evaluation.long_table(view), "answers.csv", "answers_csv")
    scores_json = partial(json.dumps, view.stored.scores, ensure_ascii=False, indent=2)
    archive = partial(zip_predictions, view)
    tables.draw_file("answers.json", scores_json, "scores.json", "application/json", "answers_json")
    tables.draw_file("answers.predictions", archive, "predictions.zip", "application/zip", "answers_predictions")


def zip_predictions(view: ReadingView) -> bytes:
    """Return a zip with a file for each retriever and K in the format of KorQuAD's script."""
    ids = [question.id for question in view.question_set.questions]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as files:
        for number, (name, answers) in enumerate(view.answers_by_retriever.items(), start=1):
            for index, k in enumerate(view.ks):
                content = json.dumps(dict(zip(ids, answers.answers(index), strict=True)), ensure_ascii=False, indent=1)
                files.writestr(f"{number:02}-{file_name(name)}-{k}.json", content)
    return archive.getvalue()


def draw_summary(view: ReadingView) -> None:
    display_names = view.display_names
    left, right = st.columns([3, 2])
    with left:
        measure = word(f"answers.measure_{view.measure}")
        oracle = view.oracle[view.measure]
        st.markdown(f"**{word('answers.curves', measure=measure)}**", help=word("answers.curves_help"))
        label = word("answers.oracle_label", value=f"{100 * oracle:.1f}")
        all_names = [display_names[name] for name in view.names]
        curve_data = with_display_names(evaluation.curve_table(view), display_names)
        draw_chart(curve_chart, curve_data, all_names, oracle, selected_k=view.k, y=measure, label=label)
        st.caption(word("answers.curves_legend"))
    with right:
        st.markdown(f"**{word('answers.lost_answers', k=view.k)}**", help=word("answers.lost_answers_help"))
        labels = {word(f"answers.outcome_{outcome}"): outcome for outcome in OUTCOME_KEYS.values()}
        shares = word("answers.share_of_questions")
        order = [display_names[name] for name in view.answers_by_retriever]
        counted = evaluation.outcome_table(view)
        draw_chart(outcome_chart, with_display_names(counted, display_names), order=order, outcomes=labels, x=shares)
    _draw_metrics(view)
    texts = [f"{row.fraction:.1%} ({row.count:,})" for row in counted.itertuples(name="Row")]
    wide = counted.assign(text=texts).pivot(index="retriever", columns="outcome", values="text")
    wide = wide.loc[list(view.answers_by_retriever)].reset_index()
    with st.expander(word("answers.lost_answers", k=view.k), expanded=True):
        outcomes = {outcome: tables.text(f"answers.outcome_{outcome}") for outcome in OUTCOME_KEYS.values()}
        tables.draw(wide, {"retriever": tables.retriever(), **outcomes})
    _draw_differences(view)


def _draw_metrics(view: ReadingView) -> None:
    table = evaluation.metric_table(view)
    with st.expander(word("answers.metrics", measure=word(f"answers.measure_{view.measure}")), expanded=True):
        columns = {
            "retriever": tables.retriever(),
            **{str(k): tables.labelled_number(f"K = {k}", "%.1f") for k in view.ks},
            **tables.interval("%.1f"),
            "ceiling": tables.number("answers.ceiling", "%.1f"),
        }
        if table["weight"].any():
            columns["weight"] = tables.number("answers.weight", "%.2f")
        best = table[str(view.k)] == table[str(view.k)].max()
        styled = table.style.map(lambda _: tables.BOLD, subset=(best, ["retriever", str(view.k)]))
        tables.draw(styled, columns)
        st.caption(word("answers.metrics_help", k=view.k))


def _draw_differences(view: ReadingView) -> None:
    table = evaluation.difference_table(view)
    if table.empty:
        return
    with st.expander(word("answers.differences", k=view.tested_k), expanded=False):
        columns = {
            "a": tables.text("embeddings.higher", "", width="medium"),
            "b": tables.text("embeddings.lower", "", width="medium"),
            "verdict": tables.text("compare.verdict", ""),
            "difference": tables.number("answers.points", "%+.2f", ""),
            **tables.interval("%+.2f"),
            "p_family": tables.p_family(),
        }
        tables.draw(table, columns, retrievers=("a", "b"))
        st.caption(word("answers.differences_help", k=view.tested_k))


def curve_chart(
    table: pd.DataFrame, names: Sequence[str], oracle: float, *, selected_k: int, y: str, label: str
) -> alt.LayerChart:
    """A line with its band for each "retriever" of "value" over "k", a dashed "ceiling", and a rule at the `oracle`."""
    retrievers = names_in_column(names, table["retriever"])
    lowest = max(0.0, min(float(table["low"].min()), oracle) - 0.03)
    scale = alt.Scale(domain=[lowest, 1.0], nice=False)
    axis = alt.Axis(format="%", tickCount=6)
    common_tooltip = tooltips(("retriever:N", word("compare.retriever")), ("k:O", "K"))
    base = alt.Chart(table).encode(
        x=alt.X("k:O", title=word("answers.first_passages"), axis=alt.Axis(labelAngle=0)),
        color=colour("retriever", retrievers, names, legend(columns=2, symbolOpacity=1)),
    )
    value = alt.Y("value:Q", title=y, scale=scale, axis=axis)
    bands = base.mark_area(fillOpacity=0.12).encode(y=alt.Y("low:Q", title=y, scale=scale, axis=axis), y2="high:Q")
    ceiling_tooltip = tooltips(("ceiling:Q", word("answers.ceiling"), ".2%"))
    tooltip = [*common_tooltip, *interval_tooltips("value", y), *ceiling_tooltip]
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(
        y=value, shape=shape("retriever", retrievers, names, legend(columns=2)), tooltip=tooltip
    )
    ceilings = base.mark_line(strokeDash=[5, 4], strokeWidth=1.5, opacity=0.8).encode(
        y=alt.Y("ceiling:Q", title=y, scale=scale, axis=axis)
    )
    oracle_data = alt.Chart(pd.DataFrame({"oracle": [oracle], "label": [label], "k": [int(table["k"].min())]}))
    rule = oracle_data.mark_rule(color=TEXT_COLOUR, strokeWidth=2).encode(y=alt.Y("oracle:Q", scale=scale))
    oracle_text = oracle_data.mark_text(align="left", dx=-14, dy=-8, color=TEXT_COLOUR, fontWeight="bold").encode(
        x=alt.X("k:O"), y=alt.Y("oracle:Q", scale=scale), text="label:N"
    )
    k_marker = alt.Chart(pd.DataFrame({"k": [selected_k]})).mark_rule(color=TEXT_COLOUR, opacity=0.18, strokeWidth=16)
    lines = base.mark_line(strokeWidth=2.5).encode(y=value)
    layers = (k_marker.encode(x="k:O"), bands, rule, ceilings, lines, marks, oracle_text)
    return alt.layer(*layers).properties(height=340)


def outcome_chart(table: pd.DataFrame, *, order: Sequence[str], outcomes: Mapping[str, str], x: str) -> alt.Chart:
    """A bar for each "retriever" of the "fraction" of each outcome ("label"), in the order of `outcomes`."""
    positions = {label: position for position, label in enumerate(outcomes)}
    scale = alt.Scale(domain=list(outcomes), range=[OUTCOME_COLOURS[outcome] for outcome in outcomes.values()])
    counts = ("count:Q", word("where.questions"), ","), ("fraction:Q", x, ".1%")
    base = alt.Chart(table.assign(position=table["label"].map(positions))).encode(
        y=alt.Y("retriever:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=160, labelOverlap=False)),
        x=alt.X("fraction:Q", stack="zero", title=x, axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        color=alt.Color("label:N", scale=scale, legend=legend(columns=2)),
        order=alt.Order("position:Q"),
        tooltip=tooltips(("retriever:N", word("compare.retriever")), ("label:N", word("where.fate")), *counts),
    )
    rows = []
    for name, parts in table.groupby("retriever", sort=False):
        rows.append(f"{name}: {', '.join(charts.values([*parts['label']], [*parts['fraction']], '.1%'))}")
    return base.mark_bar().properties(height=130 + 36 * len(order), description=charts.describe(x, rows))


def draw_slices(view: ReadingView) -> None:
    kinds = [kind.value for kind in LabelKind]
    default = LabelKind.QUESTION_WORD.value
    look: dict[str, Any] = {"format_func": lambda kind: word(f"answers.by_{kind}")}
    by = LabelKind(choose(st.segmented_control, "read_slice", word("where.by"), kinds, default, **look))
    with st.spinner(word("where.measuring")):
        slice_scores = evaluation.slice_table(view, by)
    if slice_scores.empty:
        st.info(word("answers.no_slice", count=MIN_SLICE_QUESTIONS), icon=":material/info:")
        return
    sizes = zip(slice_scores["slice"], slice_scores["questions"], strict=True)
    rows = {str(label): f"{label_text(label)} ({count:,})" for label, count in sizes}
    chart_data = slice_scores.assign(row=slice_scores["slice"].map(rows))
    order = [*rows.values()]
    measure = word(f"answers.measure_{view.measure}")
    heading = word("answers.at_k", measure=measure, k=view.k)
    retrievers = list(view.answers_by_retriever)
    baseline = retrievers[0]
    where.draw_slices(chart_data, retrievers, view.names, order, baseline=baseline, heading=heading, metric=measure)
    name = st.column_config.TextColumn(word(f"answers.by_{by.value}"), pinned=True, width=120)
    slice_names = [*map(label_text, slice_scores["slice"])]
    mean = tables.number("answers.mean")
    table, styled, columns = tables.slices_table(slice_scores, slice_names, baseline, name, mean)
    with st.expander(word("where.as_table")):
        tables.draw(styled, columns)
        tables.draw_csv("where.csv", lambda: table, "answers_by_slice.csv", "answer_slices_csv")
    st.caption(word("answers.slices_help", count=MIN_SLICE_QUESTIONS))


def draw_questions(view: ReadingView) -> None:
    rows = {question.id: row for row, question in enumerate(view.question_set.questions)}
    selected_id = st.query_params.get("read_question", "")
    if selected_id in rows:
        _draw_question(view, rows[selected_id])
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        mask = _outcome_mask(view) & _label_mask(view)
        words = st.text_input(word("why.words"), max_chars=200, key="read_words", width=180)
    if search_text := words.strip().lower():
        texts = (" ".join([question.text, *question.answers]) for question in view.question_set.questions)
        mask &= np.array([search_text in text.lower() for text in texts])
    st.markdown(word("answers.listed", count=f"{int(mask.sum()):,}", all=f"{len(mask):,}"))
    _draw_list(view, np.flatnonzero(mask))


def _draw_question(view: ReadingView, row: int) -> None:
    question = view.question_set.questions[row]
    scroll_to_top(question.id)
    draw_style()
    with st.container(horizontal=True):
        back: dict[str, Any] = {"on_click": st.query_params.pop, "args": ("read_question", None)}
        st.button(word("why.back"), icon=":material/list:", key="read_back", **back)
        ask_again = partial(_open_in_ask_tab, question.text)
        st.button(word("answers.ask_this"), icon=":material/send:", key="read_ask", on_click=ask_again)
    st.subheader(plain(question.text), anchor=False)
    answers = plain(", ".join(question.answers) or word("answers.label_no_answer"))
    st.markdown(word("why.answers", answers=answers))
    passages.draw_legend(others=False)
    for container, name in zip(st.columns(len(view.answers_by_retriever)), view.answers_by_retriever, strict=True):
        with container.container(gap="small"):
            column = retriever_column(view, name, row)
            passages.draw_head(column, view.names)
            outcome = AnswerOutcome(int(view.answers_by_retriever[name].by_depth.outcome[row, view.depth_index]))
            answer = plain(passages.selected_answer(column, view.question_set).strip() or "–")
            st.markdown(f"**{answer}** · {word(f'answers.outcome_{OUTCOME_KEYS[outcome]}')}")
            explanation = passages.explain_selection(column, view.question_set)
            if outcome is not AnswerOutcome.RIGHT and explanation:
                st.caption(explanation)
            passages.draw_passages(column, view.stored.result.experiment.specs[name], view.question_set)


def retriever_column(view: ReadingView, name: str, row: int) -> passages.ReadColumn:
    answers = view.answers_by_retriever[name]
    rankings = view.stored.result.comparison.rankings[name]
    candidates = answers.candidates
    indices = np.flatnonzero(rankings.indices[row, : view.k] != NOT_FOUND).tolist()
    spans: list[passages.Spans] = []
    for index in indices:
        span = (*candidates.offsets[row, index].tolist(), float(candidates.scores[row, index]))
        spans.append([span] if candidates.answers[row][index] else [])
    relevant = set(view.question_set.relevance[[row]].indices.tolist())
    rows = rankings.indices[row, indices].tolist()
    scores = candidates.retrieval_scores[row, indices].tolist()
    weight = evaluation.Weight(answers.weight, answers.unit)
    return passages.build_column(name, rows, scores, spans, relevant=relevant, weight=weight)


def _open_in_ask_tab(question: str) -> None:
    remember("answers", "ask")
    ask(QUESTION_KEY, question)


def _outcome_mask(view: ReadingView) -> np.ndarray:
    names = {key: view.display_names[key] for key in view.answers_by_retriever}
    retriever = choose_named("read_of", word("compare.retriever"), names, next(iter(names)), width=150)
    words = {_ANY: word("answers.any"), **{key: word(f"answers.outcome_{key}") for key in OUTCOME_KEYS.values()}}
    look: dict[str, Any] = {"format_func": lambda key: words[key], "width": 170}
    outcome = choose(st.selectbox, "read_outcome", word("where.fate"), [*words], _ANY, **look)
    outcomes = view.answers_by_retriever[retriever].by_depth.outcome[:, view.depth_index]
    if outcome == _ANY:
        return np.ones(len(outcomes), dtype=bool)
    return np.asarray(outcomes == AnswerOutcome[outcome.upper()])


def _label_mask(view: ReadingView) -> np.ndarray:
    words = {_ANY: word("answers.any"), **{kind.value: word(f"answers.by_{kind}") for kind in LabelKind}}
    look: dict[str, Any] = {"format_func": lambda kind: words[kind], "width": 170}
    by = choose(st.selectbox, "read_by", word("why.slice"), [*words], _ANY, **look)
    if by == _ANY:
        return np.ones(len(view.question_set.questions), dtype=bool)
    question_labels = evaluation.question_labels(view, LabelKind(by))
    names = [name for code, name in enumerate(question_labels.names) if (question_labels.codes == code).any()]
    known = {name: label_text(name) for name in names}
    label = choose_named("read_label", word("why.within"), known, next(iter(known)), width=170)
    return np.asarray(question_labels.codes == question_labels.names.index(label))


def _draw_list(view: ReadingView, rows: np.ndarray) -> None:
    if not len(rows):
        st.info(word("why.none_listed"), icon=":material/search_off:")
        return
    questions = [view.question_set.questions[row] for row in rows.tolist()]
    right = [", ".join(question.answers) or word("answers.label_no_answer") for question in questions]
    table = pd.DataFrame({"question": [question.text for question in questions], "right": right})
    columns = {
        "question": tables.text("answers.question", "", pinned=True, width=300),
        "right": tables.text("answers.right_answer", "", width=130),
    }
    column_names = {f"answer_{index}": name for index, name in enumerate(view.answers_by_retriever)}
    for key, name in column_names.items():
        answers = view.answers_by_retriever[name].answers(view.depth_index)
        outcomes = view.answers_by_retriever[name].by_depth.outcome[:, view.depth_index].tolist()
        table[key] = [f"{OUTCOME_MARKS[AnswerOutcome(outcomes[row])]} {answers[row]}" for row in rows.tolist()]
        columns[key] = st.column_config.TextColumn(view.display_names[name], width=130)
    st.caption(word("answers.marks", **{key: OUTCOME_MARKS[outcome] for outcome, key in OUTCOME_KEYS.items()}))
    ids = [question.id for question in questions]
    key = f"read_list_{abs(hash(tuple(ids)))}"
    selected_rows = tables.draw_choice(table, columns, key, height=420 if len(rows) > _MAX_ROWS else "auto")
    if selected_rows:
        st.query_params["read_question"] = ids[selected_rows[0]]
        st.rerun()
    renamed = table.rename(columns=column_names)
    tables.draw_csv("answers.questions_csv", lambda: renamed, "answers_by_question.csv", "read_csv")


def label_text(label: str) -> str:
    return word_or(f"answers.label_{label}", label)


VIEWS = {"summary": draw_summary, "slices": draw_slices, "questions": draw_questions}
