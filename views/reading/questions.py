"""The questions of an evaluation: by slice, filtered by what became of them, and one of them with the passages read.

Slices are by what is asked, what the answer is, and how long and where it stands in its passage."""

import numpy as np
import pandas as pd
import streamlit as st

from reading.extractive import Fate
from reading.labels import Property
from reading.scores import FEWEST
from retrieval.rankings import NOT_FOUND
from views.compare import charts
from views.reading.controls import BOX
from views.reading.evaluation import FATES, ReadingView
from views.reading.passages import ReadColumn, answer_of, draw_head, draw_passages, legend, read_column, reason
from views.ui import tables
from views.ui.passages import draw_style
from views.ui.state import ask, choose, choose_named, remember, show_top
from views.ui.words import plain, word, word_or

_ANY = "any"
_SHOWN = 10  # rows without scrolling
MARKS = {Fate.RIGHT: "✔", Fate.OUTRANKED: "⇅", Fate.MISREAD: "✘", Fate.NOT_FOUND: "∅"}


def draw_question(view: ReadingView, row: int) -> None:
    question = view.asked.questions[row]
    show_top(question.id)
    draw_style()
    with st.container(horizontal=True):
        st.button(word("why.back"), icon=":material/list:", on_click=_close, key="read_back")
        st.button(
            word("answers.ask_this"), icon=":material/send:", on_click=_ask, args=(question.text,), key="read_ask"
        )
    st.subheader(plain(question.text), anchor=False)
    answers = plain(", ".join(question.answers) or word("answers.label_no_answer"))
    st.markdown(word("why.answers", answers=answers))
    legend(others=False)
    for place, name in zip(st.columns(len(view.answered)), view.answered, strict=True):
        with place.container(gap="small"):
            column = column_of(view, name, row)
            draw_head(column, view.names)
            _draw_fate(view, column, row)
            draw_passages(column, view.spec(name), view.asked)


def column_of(view: ReadingView, name: str, row: int) -> ReadColumn:
    """What was read of the passages that a retriever found for the question at `row`, the first K."""
    answered, rankings = view.answered[name], view.kept.result.comparison.rankings[name]
    there = np.flatnonzero(rankings.indices[row, : view.k] != NOT_FOUND).tolist()
    read = answered.read
    spans = [
        [(*read.letters[row, place].tolist(), float(read.scores[row, place]))] if read.answers[row][place] else []
        for place in there
    ]
    relevant = set(view.asked.relevance[[row]].indices.tolist())
    rows, found = rankings.indices[row, there].tolist(), read.found[row, there].tolist()
    return read_column(name, rows, found, spans, relevant=relevant, weight=answered.weight, unit=answered.unit)


def _draw_fate(view: ReadingView, column: ReadColumn, row: int) -> None:
    fate = Fate(int(view.answered[column.name].depth.fate[row, view.place]))
    said = plain(answer_of(column, view.asked).strip() or "–")
    st.markdown(f"**{said}** · {word(f'answers.fate_{FATES[fate]}')}")
    if fate is not Fate.RIGHT and (why := reason(column, view.asked)):
        st.caption(why)


def _close() -> None:
    st.query_params.pop("read_question", None)


def _ask(question: str) -> None:
    """Go to the other tab, where the passages can be judged and a language model be asked."""
    remember("answers", "ask")
    ask(BOX, question)


def draw(view: ReadingView) -> None:
    """Draw one question where the address names one, else the filters and all that pass them."""
    rows = {question.id: row for row, question in enumerate(view.asked.questions)}
    asked = st.query_params.get("read_question", "")
    if asked in rows:
        draw_question(view, rows[asked])
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        mask = _fates(view) & _labels(view)
        words = st.text_input(word("why.words"), max_chars=200, key="read_words", width=180)
    if wanted := words.strip().lower():
        said = (" ".join([question.text, *question.answers]) for question in view.asked.questions)
        mask &= np.array([wanted in one.lower() for one in said])
    st.markdown(word("answers.listed", count=f"{int(mask.sum()):,}", all=f"{len(mask):,}"))
    _draw_list(view, np.flatnonzero(mask))


def _fates(view: ReadingView) -> np.ndarray:
    names = {one: one for one in view.answered}
    of = choose_named("read_of", word("compare.retriever"), names, next(iter(names)), width=150)
    fate = choose(
        st.selectbox,
        "read_fate",
        word("where.fate"),
        [_ANY, *FATES.values()],
        _ANY,
        format_func=lambda one: word("answers.any") if one == _ANY else word(f"answers.fate_{one}"),
        width=170,
    )
    found = view.answered[of].depth.fate[:, view.place]
    wanted = next((one for one, key in FATES.items() if key == fate), None)
    mask: np.ndarray = np.ones(len(found), dtype=bool) if wanted is None else found == wanted
    return mask


def _labels(view: ReadingView) -> np.ndarray:
    by = choose(
        st.selectbox,
        "read_by",
        word("why.slice"),
        [_ANY, *(one.value for one in Property)],
        _ANY,
        format_func=lambda one: word("answers.any") if one == _ANY else word(f"answers.by_{one}"),
        width=170,
    )
    if by == _ANY:
        return np.ones(len(view.asked.questions), dtype=bool)
    found = view.labels(Property(by))
    known = {name: label_words(name) for code, name in enumerate(found.names) if (found.codes == code).any()}
    label = choose_named("read_label", word("why.within"), known, next(iter(known)), width=170)
    mask: np.ndarray = found.codes == found.names.index(label)
    return mask


def _draw_list(view: ReadingView, rows: np.ndarray) -> None:
    if not len(rows):
        st.info(word("why.none_listed"), icon=":material/search_off:")
        return
    questions = [view.asked.questions[row] for row in rows.tolist()]
    table = pd.DataFrame(
        {
            "question": [question.text for question in questions],
            "right": [", ".join(question.answers) or word("answers.label_no_answer") for question in questions],
        }
    )
    for place, answered in enumerate(view.answered.values()):
        told, fates = answered.answers(view.place), answered.depth.fate[:, view.place].tolist()
        table[f"said_{place}"] = [f"{MARKS[Fate(fates[row])]} {told[row]}" for row in rows.tolist()]
    ids = [question.id for question in questions]
    said = {f"said_{place}": name for place, name in enumerate(view.answered)}
    columns = {
        "question": tables.text("answers.question", "", pinned=True, width=300),
        "right": tables.text("answers.right_answer", "", width=130),
        **{key: st.column_config.TextColumn(name, width=130) for key, name in said.items()},
    }
    st.caption(word("answers.marks", **{key: MARKS[fate] for fate, key in FATES.items()}))
    key = f"read_list_{abs(hash(tuple(ids)))}"
    picked = tables.draw_choice(table, columns, key, height=420 if len(rows) > _SHOWN else "auto")
    if picked:
        st.query_params["read_question"] = ids[picked[0]]
        st.rerun()
    tables.draw_csv("answers.questions_csv", lambda: table.rename(columns=said), "answers_by_question.csv", "read_csv")


def label_words(label: str) -> str:
    return word_or(f"answers.label_{label}", label)


def draw_slices(view: ReadingView) -> None:
    by = Property(
        choose(
            st.segmented_control,
            "read_slice",
            word("where.by"),
            [one.value for one in Property],
            Property.QUESTION_WORD.value,
            format_func=lambda one: word(f"answers.by_{one}"),
        )
    )
    with st.spinner(word("where.measuring")):
        figures = view.slice_figures(by)
    if figures.empty:
        st.info(word("answers.no_slice", count=FEWEST), icon=":material/info:")
        return
    sizes = {str(label): int(count) for label, count in zip(figures["slice"], figures["questions"], strict=True)}
    rows = {label: f"{label_words(label)} ({count:,})" for label, count in sizes.items()}
    drawn, order = figures.assign(row=figures["slice"].map(rows)), [*rows.values()]
    measure = word(f"answers.measure_{view.measure}")
    heading = word("answers.at_k", measure=measure, k=view.k)
    charts.draw_slices(drawn, list(view.answered), list(view.names), order, heading=heading, figure=measure)
    _draw_slice_table(figures, list(view.answered), word(f"answers.by_{by.value}"))
    st.caption(word("answers.slices_help", count=FEWEST))


def _draw_slice_table(figures: pd.DataFrame, names: list[str], label: str) -> None:
    name, mean = st.column_config.TextColumn(label, pinned=True, width=120), tables.number("answers.mean")
    called = [*map(label_words, figures["slice"])]
    table, styled, columns = tables.of_slices(figures, called, names[0], name, mean)
    with st.expander(word("where.as_table")):
        tables.draw(styled, columns)
        tables.draw_csv("where.csv", lambda: table, "answers_by_slice.csv", "answer_slices_csv")
