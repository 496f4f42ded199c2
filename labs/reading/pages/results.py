"""The views of an evaluation: right answers against K, where they are lost, and how sure the differences are; slices of
the questions; and the questions, filtered by what became of them, or one of them with the passages read.

Slices are by what is asked, what the answer is, and how long and where it stands in its passage.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from mrc_workbench.labs.reading.extractive import Fate
from mrc_workbench.labs.reading.labels import Property
from mrc_workbench.labs.reading.pages import evaluation, passages
from mrc_workbench.labs.reading.pages.evaluation import FATES, ReadingView
from mrc_workbench.labs.reading.pages.page import BOX
from mrc_workbench.labs.reading.scores import FEWEST
from mrc_workbench.retrieval.rankings import NOT_FOUND
from mrc_workbench.retrieval.report.charts import READABLE, colour, legend, shape
from mrc_workbench.workbench.views.compare import where
from mrc_workbench.workbench.views.names import with_display_names
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import draw_chart, present, tips, with_interval
from mrc_workbench.workbench.views.ui.passages import draw_style
from mrc_workbench.workbench.views.ui.state import ask, choose, choose_named, remember, show_top
from mrc_workbench.workbench.views.ui.words import plain, word, word_or

_ANY = "any"
_SHOWN = 10  # rows without scrolling
MARKS = {Fate.RIGHT: "✔", Fate.OUTRANKED: "⇅", Fate.MISREAD: "✘", Fate.NOT_FOUND: "∅"}
FATE_COLOURS = {"right": "#009E73", "outranked": "#E69F00", "misread": "#D55E00", "not_found": "#7A8290"}


def draw_summary(view: ReadingView) -> None:
    called = view.display_names
    left, right = st.columns([3, 2])
    with left:
        measure, oracle = word(f"answers.measure_{view.measure}"), view.oracle[view.measure]
        st.markdown(f"**{word('answers.curves', measure=measure)}**", help=word("answers.curves_help"))
        label = word("answers.oracle_label", value=f"{100 * oracle:.1f}")
        every = [called[name] for name in view.names]
        shown = with_display_names(evaluation.curve_table(view), called)
        draw_chart(curves, shown, every, oracle, chosen=view.k, y=measure, label=label)
        st.caption(word("answers.curves_legend"))
    with right:
        st.markdown(f"**{word('answers.lost', k=view.k)}**", help=word("answers.lost_help"))
        labels = {word(f"answers.fate_{fate}"): fate for fate in FATES.values()}
        shares = word("answers.share_of_questions")
        order, counted = [called[name] for name in view.answered], evaluation.fate_table(view)
        draw_chart(lost, with_display_names(counted, called), order=order, fates=labels, x=shares)
    _draw_figures(view)
    texts = [f"{one.share:.1%} ({one.count:,})" for one in counted.itertuples(name="Row")]
    wide = counted.assign(text=texts).pivot(index="retriever", columns="fate", values="text")
    wide = wide.loc[list(view.answered)].reset_index()
    with st.expander(word("answers.lost", k=view.k), expanded=True):
        fates = {fate: tables.text(f"answers.fate_{fate}") for fate in FATES.values()}
        tables.draw(wide, {"retriever": tables.retriever(), **fates})
    _draw_differences(view)


def _draw_figures(view: ReadingView) -> None:
    table = evaluation.figure_table(view)
    with st.expander(word("answers.figures", measure=word(f"answers.measure_{view.measure}")), expanded=True):
        columns = {
            "retriever": tables.retriever(),
            **{str(k): tables.figure(f"K = {k}", "%.1f") for k in view.ks},
            **tables.interval("%.1f"),
            "ceiling": tables.number("answers.ceiling", "%.1f"),
        }
        if table["weight"].any():
            columns["weight"] = tables.number("answers.weight", "%.2f")
        best = table[str(view.k)] == table[str(view.k)].max()
        styled = table.style.map(lambda _: tables.BOLD, subset=(best, ["retriever", str(view.k)]))
        tables.draw(styled, columns)
        st.caption(word("answers.figures_help", k=view.k))


def _draw_differences(view: ReadingView) -> None:
    table = evaluation.difference_table(view)
    if table.empty:
        return
    with st.expander(word("answers.differences", k=view.tested), expanded=False):
        columns = {
            "a": tables.text("embeddings.higher", "", width="medium"),
            "b": tables.text("embeddings.lower", "", width="medium"),
            "verdict": tables.text("compare.verdict", ""),
            "difference": tables.number("answers.points", "%+.2f", ""),
            **tables.interval("%+.2f"),
            "p_family": tables.p_family(),
        }
        tables.draw(table, columns, retrievers=("a", "b"))
        st.caption(word("answers.differences_help", k=view.tested))


def curves(
    table: pd.DataFrame, names: Sequence[str], oracle: float, *, chosen: int, y: str, label: str
) -> alt.LayerChart:
    """One line a "retriever" of "value" over "k" in its band, its "ceiling" dashed, and a rule at the `oracle`."""
    drawn = present(names, table["retriever"])
    lowest = max(0.0, min(float(table["low"].min()), oracle) - 0.03)
    scale = alt.Scale(domain=[lowest, 1.0], nice=False)
    axis = alt.Axis(format="%", tickCount=6)
    said = tips(("retriever:N", word("compare.retriever")), ("k:O", "K"))
    base = alt.Chart(table).encode(
        x=alt.X("k:O", title=word("answers.first_passages"), axis=alt.Axis(labelAngle=0)),
        color=colour("retriever", drawn, names, legend(columns=2, symbolOpacity=1)),
    )
    value = alt.Y("value:Q", title=y, scale=scale, axis=axis)
    bands = base.mark_area(fillOpacity=0.12).encode(y=alt.Y("low:Q", title=y, scale=scale, axis=axis), y2="high:Q")
    told = [*said, *with_interval("value", y), *tips(("ceiling:Q", word("answers.ceiling"), ".2%"))]
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(
        y=value, shape=shape("retriever", drawn, names, legend(columns=2)), tooltip=told
    )
    ceilings = base.mark_line(strokeDash=[5, 4], strokeWidth=1.5, opacity=0.8).encode(
        y=alt.Y("ceiling:Q", title=y, scale=scale, axis=axis)
    )
    above = alt.Chart(pd.DataFrame({"oracle": [oracle], "label": [label], "k": [int(table["k"].min())]}))
    rule = above.mark_rule(color=READABLE, strokeWidth=2).encode(y=alt.Y("oracle:Q", scale=scale))
    words = above.mark_text(align="left", dx=-14, dy=-8, color=READABLE, fontWeight="bold").encode(
        x=alt.X("k:O"), y=alt.Y("oracle:Q", scale=scale), text="label:N"
    )
    here = alt.Chart(pd.DataFrame({"k": [chosen]})).mark_rule(color=READABLE, opacity=0.18, strokeWidth=16)
    return alt.layer(
        here.encode(x="k:O"), bands, rule, ceilings, base.mark_line(strokeWidth=2.5).encode(y=value), marks, words
    ).properties(height=340)


def lost(table: pd.DataFrame, *, order: Sequence[str], fates: Mapping[str, str], x: str) -> alt.Chart:
    """One bar a "retriever" of the "share" of each fate ("label"); `fates` are in the order of the pieces."""
    places = {label: place for place, label in enumerate(fates)}
    scale = alt.Scale(domain=list(fates), range=[FATE_COLOURS[fate] for fate in fates.values()])
    counts = ("count:Q", word("where.questions"), ","), ("share:Q", x, ".1%")
    base = alt.Chart(table.assign(place=table["label"].map(places))).encode(
        y=alt.Y("retriever:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=160, labelOverlap=False)),
        x=alt.X("share:Q", stack="zero", title=x, axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        color=alt.Color("label:N", scale=scale, legend=legend(columns=2)),
        order=alt.Order("place:Q"),
        tooltip=tips(("retriever:N", word("compare.retriever")), ("label:N", word("where.fate")), *counts),
    )
    rows = [
        f"{name}: {', '.join(charts.values([*parts['label']], [*parts['share']], '.1%'))}"
        for name, parts in table.groupby("retriever", sort=False)
    ]
    return base.mark_bar().properties(height=130 + 36 * len(order), description=charts.describe(x, rows))


def draw_slices(view: ReadingView) -> None:
    every, usual = [one.value for one in Property], Property.QUESTION_WORD.value
    look: dict[str, Any] = {"format_func": lambda one: word(f"answers.by_{one}")}
    by = Property(choose(st.segmented_control, "read_slice", word("where.by"), every, usual, **look))
    with st.spinner(word("where.measuring")):
        figures = evaluation.slices_of(view, by)
    if figures.empty:
        st.info(word("answers.no_slice", count=FEWEST), icon=":material/info:")
        return
    sizes = {str(label): int(count) for label, count in zip(figures["slice"], figures["questions"], strict=True)}
    rows = {label: f"{label_words(label)} ({count:,})" for label, count in sizes.items()}
    drawn, order = figures.assign(row=figures["slice"].map(rows)), [*rows.values()]
    measure = word(f"answers.measure_{view.measure}")
    heading = word("answers.at_k", measure=measure, k=view.k)
    baseline, *_ = read = list(view.answered)
    where.draw_slices(drawn, read, view.names, order, baseline=baseline, heading=heading, figure=measure)
    name = st.column_config.TextColumn(word(f"answers.by_{by.value}"), pinned=True, width=120)
    called, mean = [*map(label_words, figures["slice"])], tables.number("answers.mean")
    table, styled, columns = tables.of_slices(figures, called, baseline, name, mean)
    with st.expander(word("where.as_table")):
        tables.draw(styled, columns)
        tables.draw_csv("where.csv", lambda: table, "answers_by_slice.csv", "answer_slices_csv")
    st.caption(word("answers.slices_help", count=FEWEST))


def draw_questions(view: ReadingView) -> None:
    """Draw the question of the address, else the filters and all questions that pass them."""
    rows = {question.id: row for row, question in enumerate(view.asked.questions)}
    asked = st.query_params.get("read_question", "")
    if asked in rows:
        _draw_question(view, rows[asked])
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        mask = _fates(view) & _labels(view)
        words = st.text_input(word("why.words"), max_chars=200, key="read_words", width=180)
    if wanted := words.strip().lower():
        said = (" ".join([question.text, *question.answers]) for question in view.asked.questions)
        mask &= np.array([wanted in one.lower() for one in said])
    st.markdown(word("answers.listed", count=f"{int(mask.sum()):,}", all=f"{len(mask):,}"))
    _draw_list(view, np.flatnonzero(mask))


def _draw_question(view: ReadingView, row: int) -> None:
    question = view.asked.questions[row]
    show_top(question.id)
    draw_style()
    with st.container(horizontal=True):
        back: dict[str, Any] = {"on_click": st.query_params.pop, "args": ("read_question", None)}
        st.button(word("why.back"), icon=":material/list:", key="read_back", **back)
        ask_again = partial(_ask, question.text)
        st.button(word("answers.ask_this"), icon=":material/send:", key="read_ask", on_click=ask_again)
    st.subheader(plain(question.text), anchor=False)
    answers = plain(", ".join(question.answers) or word("answers.label_no_answer"))
    st.markdown(word("why.answers", answers=answers))
    passages.legend(others=False)
    for place, name in zip(st.columns(len(view.answered)), view.answered, strict=True):
        with place.container(gap="small"):
            column = column_of(view, name, row)
            passages.draw_head(column, view.names)
            fate = Fate(int(view.answered[name].depth.fate[row, view.place]))
            said = plain(passages.answer_of(column, view.asked).strip() or "–")
            st.markdown(f"**{said}** · {word(f'answers.fate_{FATES[fate]}')}")
            if fate is not Fate.RIGHT and (why := passages.reason(column, view.asked)):
                st.caption(why)
            passages.draw_passages(column, view.spec(name), view.asked)


def column_of(view: ReadingView, name: str, row: int) -> passages.ReadColumn:
    answered, rankings = view.answered[name], view.kept.result.comparison.rankings[name]
    read, there = answered.read, np.flatnonzero(rankings.indices[row, : view.k] != NOT_FOUND).tolist()
    spans = [
        [(*read.letters[row, place].tolist(), float(read.scores[row, place]))] if read.answers[row][place] else []
        for place in there
    ]
    relevant = set(view.asked.relevance[[row]].indices.tolist())
    rows, found = rankings.indices[row, there].tolist(), read.found[row, there].tolist()
    return passages.read_column(name, rows, found, spans, relevant=relevant, weight=answered.weight, unit=answered.unit)


def _ask(question: str) -> None:
    remember("answers", "ask")
    ask(BOX, question)


def _fates(view: ReadingView) -> np.ndarray:
    names = {one: view.display_names[one] for one in view.answered}
    of = choose_named("read_of", word("compare.retriever"), names, next(iter(names)), width=150)
    words = {_ANY: word("answers.any"), **{one: word(f"answers.fate_{one}") for one in FATES.values()}}
    look: dict[str, Any] = {"format_func": lambda one: words[one], "width": 170}
    fate = choose(st.selectbox, "read_fate", word("where.fate"), [*words], _ANY, **look)
    fates = view.answered[of].depth.fate[:, view.place]
    if fate == _ANY:
        return np.ones(len(fates), dtype=bool)
    return np.asarray(fates == Fate[fate.upper()])


def _labels(view: ReadingView) -> np.ndarray:
    words = {_ANY: word("answers.any"), **{one.value: word(f"answers.by_{one}") for one in Property}}
    look: dict[str, Any] = {"format_func": lambda one: words[one], "width": 170}
    by = choose(st.selectbox, "read_by", word("why.slice"), [*words], _ANY, **look)
    if by == _ANY:
        return np.ones(len(view.asked.questions), dtype=bool)
    found = evaluation.labels_of(view, Property(by))
    known = {name: label_words(name) for code, name in enumerate(found.names) if (found.codes == code).any()}
    label = choose_named("read_label", word("why.within"), known, next(iter(known)), width=170)
    return np.asarray(found.codes == found.names.index(label))


def _draw_list(view: ReadingView, rows: np.ndarray) -> None:
    if not len(rows):
        st.info(word("why.none_listed"), icon=":material/search_off:")
        return
    questions = [view.asked.questions[row] for row in rows.tolist()]
    right = [", ".join(question.answers) or word("answers.label_no_answer") for question in questions]
    table = pd.DataFrame({"question": [question.text for question in questions], "right": right})
    columns = {
        "question": tables.text("answers.question", "", pinned=True, width=300),
        "right": tables.text("answers.right_answer", "", width=130),
    }
    said = {f"said_{place}": name for place, name in enumerate(view.answered)}
    for key, name in said.items():
        answers, fates = view.answered[name].answers(view.place), view.answered[name].depth.fate[:, view.place].tolist()
        table[key] = [f"{MARKS[Fate(fates[row])]} {answers[row]}" for row in rows.tolist()]
        columns[key] = st.column_config.TextColumn(view.display_names[name], width=130)
    st.caption(word("answers.marks", **{key: MARKS[fate] for fate, key in FATES.items()}))
    ids = [question.id for question in questions]
    key = f"read_list_{abs(hash(tuple(ids)))}"
    picked = tables.draw_choice(table, columns, key, height=420 if len(rows) > _SHOWN else "auto")
    if picked:
        st.query_params["read_question"] = ids[picked[0]]
        st.rerun()
    tables.draw_csv("answers.questions_csv", lambda: table.rename(columns=said), "answers_by_question.csv", "read_csv")


def label_words(label: str) -> str:
    return word_or(f"answers.label_{label}", label)
