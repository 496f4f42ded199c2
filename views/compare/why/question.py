"""One question of a comparison: what each retriever put where, and why."""

from collections.abc import Sequence

import streamlit as st

from data.remarks import remarks_of
from data.split import Part
from views import reasons
from views.compare.controls import change, tie
from views.compare.why import columns as compare_question_columns
from views.compare.why import remarks as compare_remarks
from views.compare.why import scores as compare_question_scores
from views.compare.why.questions import QuestionCase, QuestionList
from views.names import answers_line, kind_words
from views.resources.retrieval import marked_passages
from views.resources.sets import question_set, split_of
from views.ui.passages import draw_style, marked_html
from views.ui.state import show_top
from views.ui.words import plain, word

_PARTS = ("rankings", "scores")


def open_question(id_: str) -> None:
    """Put a question into the address; the parameters of another one go."""
    change({"question": id_, "explained": "", "against": ""})


def draw(of: QuestionList, row: int, ids: Sequence[str]) -> None:
    """Draw the question at `row`; `ids` are those of the list it was picked from, in its order."""
    asked = QuestionCase(of, row)
    show_top(asked.question.id)
    draw_style()
    _draw_way(of, asked.question.id, ids)
    st.subheader(plain(asked.question.text), anchor=False)
    remarks = remarks_of(of.view.data.fingerprint)
    with st.spinner(word("why.reading")):  # the first time, while the analyzer is loaded
        left, right = st.columns([3, 2])
        with left:
            _draw_known(asked)
        with right:
            compare_remarks.draw_note(of.view.data.fingerprint, remarks, asked.question.id)
        st.markdown(f"**{word('why.reasons')}**")
        reasons.draw(asked.asked, [of.view.spec(name) for name in of.names], of.view.names)
    if _pick_part() == "scores":
        compare_question_scores.draw(asked)
    else:
        compare_question_columns.draw(asked, remarks, marks=_can_be_learned(asked))


def _pick_part() -> str:
    """Draw the choice between the rankings and what a score is made of; returns it."""
    wanted = st.query_params.get("shows", "")
    part = wanted if wanted in _PARTS else _PARTS[0]
    st.segmented_control(
        word("compare.view"),
        _PARTS,
        format_func=lambda part: word(f"why.shows_{part}"),
        label_visibility="collapsed",
        **tie("shows", part),
    )
    return part


def _draw_way(of: QuestionList, name: str, ids: Sequence[str]) -> None:
    place = ids.index(name) if name in ids else None
    before = ids[place - 1] if place else None
    after = ids[place + 1] if place is not None and place + 1 < len(ids) else None
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(word("why.back"), icon=":material/list:", on_click=_close, key="why_back")
        for key, icon, target in (("before", "arrow_back", before), ("after", "arrow_forward", after)):
            st.button(
                word(f"why.{key}"),
                icon=f":material/{icon}:",
                on_click=open_question,
                args=(target or "",),
                disabled=target is None,
                key=f"why_{key}",
            )
        if place is not None:
            said = of.in_words() or word("why.all_questions")
            st.caption(word("why.place", place=f"{place + 1:,}", count=f"{len(ids):,}", which=said), width="content")
        else:
            st.caption(word("why.not_listed"), width="content")


def _close() -> None:
    change(dict.fromkeys(("question", "explained", "against"), ""))


def _draw_known(case: QuestionCase) -> None:
    question = case.question
    kind = f"{word('why.kind')}: {plain(kind_words(question.kind))}" if question.kind else ""
    if told := " · ".join(filter(None, (answers_line(question), kind))):
        st.markdown(told)
    for row, (title, text) in zip(
        case.relevant, marked_passages(case.view.data.key, question.text, case.relevant), strict=True
    ):
        id_ = case.view.comparison.question_set.passages[row].id
        heading = " · ".join(part for part in (title.text, id_) if part)
        with st.expander(word("why.gold", name=plain(heading)), expanded=len(text.text) < 600):
            st.html(f'<div class="found"><p>{marked_html(text, 0, len(text.text))}</p></div>')


def _can_be_learned(case: QuestionCase) -> bool:
    """Whether marks of this question teach anything: training never sees those it is measured with."""
    options = case.view.comparison.experiment.split_options
    parts = split_of(case.view.data.key, options.validation, options.test, options.seed)
    questions = question_set(case.view.data.key).questions
    training = {questions[row].id for row in parts.rows[Part.TRAIN]}
    return case.question.id in training
