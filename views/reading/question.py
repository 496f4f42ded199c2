"""One question of an evaluation: the passages, what was read in each, whose answer was taken, and why."""

import numpy as np
import streamlit as st

from reading.depth import Fate
from retrieval.rankings import NOT_FOUND
from views.reading import controls
from views.reading.evaluation import FATES, ReadingView
from views.reading.passages import ReadColumn, answer_of, draw_head, draw_passages, legend, read_column, reason
from views.ui.passages import draw_style
from views.ui.state import remember, show_top
from views.ui.words import plain, word


def open_question(id_: str) -> None:
    """Put a question into the address."""
    st.query_params["read_question"] = id_


def draw(view: ReadingView, row: int) -> None:
    """Draw the question at `row`, a column a retriever."""
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
    controls.ask(question)
