"""Judging: passages marked as right for a question of one's own, and a question set made of such questions."""

import pandas as pd
import streamlit as st

from data.questions.judgements import Judged, forget, judge, judgements_of, with_judged
from data.records import QuestionSet
from data.store import StoredSet, keep
from views.names import set_name
from views.navigation import way_to
from views.resources.sets import question_set
from views.ui import tables
from views.ui.problems import errors_told
from views.ui.words import plain, word

_LONGEST_NAME = 80
_KEPT = "judged_set_kept"


def draw_mark(questions: QuestionSet, question: str, row: int, key: str, *, is_right: bool) -> None:
    """Draw the button that marks a passage (a row) as right for a question, or takes the mark away."""
    st.button(
        word("judging.marked" if is_right else "judging.mark"),
        icon=":material/check_circle:" if is_right else ":material/add_circle:",
        help=word("judging.unmark_help" if is_right else "judging.mark_help"),
        type="tertiary",
        on_click=_judge,
        args=(questions.corpus_fingerprint, question, questions.passages.ids[row], not is_right),
        key=f"judge_{key}",
    )


def _judge(corpus: str, question: str, passage: str, right: bool) -> None:
    st.session_state.pop(_KEPT, None)  # more is judged: the set that was made is not all any more
    with errors_told():
        judge(corpus, question, passage, right=right)


def draw(data: StoredSet) -> None:
    """Draw what was judged over this corpus, and the way from there to a set that can be compared."""
    questions = question_set(data.key)
    judged = judgements_of(questions.corpus_fingerprint)
    with st.expander(word("judging.title", count=f"{len(judged):,}"), icon=":material/fact_check:"):
        st.caption(word("judging.about"))
        if judged:
            _list(questions, judged)
            _make_set(data, questions, judged)
    if kept := st.session_state.get(_KEPT):
        _draw_kept(kept)


def _list(questions: QuestionSet, judged: tuple[Judged, ...]) -> None:
    row_of, titles = questions.row_of_passage, questions.passages.titles
    table = pd.DataFrame(
        {
            "question": [one.question for one in judged],
            "passages": [
                ", ".join(titles[row_of[id_]] or id_ for id_ in one.passages if id_ in row_of) for one in judged
            ],
        }
    )
    columns = {name: tables.text(f"judging.{name}", "") for name in table.columns}
    rows = tables.draw_choice(table, columns, f"judged_{len(judged)}", "multi-row")
    with st.container(horizontal=True):
        st.button(
            word("judging.forget", count=len(rows)),
            icon=":material/delete:",
            disabled=not rows,
            on_click=_forget,
            args=(questions.corpus_fingerprint, [judged[row].question for row in rows]),
            key="judging_forget",
        )
        tables.draw_csv("judging.csv", lambda: table, "judged.csv")


def _forget(corpus: str, asked: list[str]) -> None:
    with errors_told():
        for question in asked:
            forget(corpus, question)


def _make_set(data: StoredSet, questions: QuestionSet, judged: tuple[Judged, ...]) -> None:
    with st.form("judged_set", border=False):
        usual = word("judging.usual_name", name=set_name(data.name))
        name = st.text_input(word("judging.name"), value=usual, max_chars=_LONGEST_NAME)
        both = bool(questions.questions) and st.checkbox(
            word("judging.with_own", count=f"{len(questions.questions):,}"), help=word("judging.with_own_help")
        )
        pressed = st.form_submit_button(word("judging.make"), icon=":material/library_add:")
    if pressed:
        with errors_told():
            with st.spinner(word("data_page.keeping")):
                made = with_judged(questions, judged, name.strip() or usual, alone=not both)
                st.session_state[_KEPT] = keep(made, source=data.source)
            st.rerun()


def _draw_kept(kept: StoredSet) -> None:
    counts = {"questions": f"{kept.questions:,}", "passages": f"{kept.passages:,}"}
    st.success(word("judging.kept", name=plain(kept.name), **counts), icon=":material/check_circle:")
    with st.container(horizontal=True):
        way_to("compare", word("data_page.to_compare"), data=kept.key, part="all")
        way_to("data", word("judging.to_data"), data=kept.key)
