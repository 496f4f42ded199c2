"""Judging answers: right or wrong, by whoever reads them."""

import streamlit as st

from data.judgements import judge, judge_answer, judged_answer, judged_answers
from data.records import QuestionSet
from views.ui.problems import errors_told
from views.ui.words import word


def draw(questions: QuestionSet, question: str, answer: str, passage: str, key: str) -> None:
    """Draw the buttons that judge an answer to a question, read from a passage (an id; empty where nobody knows)."""
    corpus = questions.corpus_fingerprint
    judged = judged_answer(judged_answers(corpus), question, answer)
    with st.container(horizontal=True):
        for right, name, icon in ((True, "right", "thumb_up"), (False, "wrong", "thumb_down")):
            chosen = judged is right
            st.button(
                word(f"answers.judge_{name}"),
                icon=f":material/{icon}:",
                type="primary" if chosen else "tertiary",
                help=word("judging.unmark_help" if chosen else f"answers.judge_{name}_help"),
                on_click=_judge,
                args=(corpus, question, answer, passage, None if chosen else right),
                key=f"judge_answer_{name}_{key}",
            )


def _judge(corpus: str, question: str, answer: str, passage: str, right: bool | None) -> None:
    with errors_told():
        judge_answer(corpus, question, answer, right)
        if right and passage:  # where the answer stands is what a question set is made of
            judge(corpus, question, passage, right=True)
