"""The question that is typed, and the examples to try."""

import numpy as np
import streamlit as st

from data.store import StoredSet
from retrieval.asking import Truth
from views.reading.evaluation_view import open_reading
from views.reading.kept import latest_reading
from views.resources.sets import question_set
from views.ui.state import remember
from views.ui.words import plain, word

_LONGEST_QUESTION = 2000
_EXAMPLES = 3
_BOX = "answers_box"


def draw_box() -> str:
    """Draw the box; returns the question asked last, which the address holds, as on Search."""
    question = str(st.query_params.get("q") or st.session_state.get("kept_q", ""))[:_LONGEST_QUESTION].strip()
    st.session_state.setdefault(_BOX, question)
    with st.form("answers_question", border=False):
        box, button = st.columns([5, 1], vertical_alignment="bottom")
        box.text_input(
            word("search.question"),
            key=_BOX,
            placeholder=word("search.placeholder"),
            max_chars=_LONGEST_QUESTION,
            help=word("answers.question_help"),
        )
        button.form_submit_button(
            word("answers.ask"), type="primary", icon=":material/send:", width="stretch", on_click=_ask_the_box
        )
    if question:
        remember("q", question)
    return question


def draw_examples(data: StoredSet) -> None:
    """Draw questions to try: those that retrievers are told apart by where an evaluation says so, else the first."""
    disputed = _disputed(data)
    questions = disputed or [one.text for one in question_set(data.key).questions[:_EXAMPLES]]
    if not questions:
        return
    label, *places = st.columns([1, *[3] * len(questions)], vertical_alignment="center")
    label.caption(word("search.examples"), help=word("answers.examples_help") if disputed else None)
    for number, (place, question) in enumerate(zip(places, questions, strict=True)):
        key = f"answers_example_{number}"
        place.button(plain(question), key=key, width="stretch", on_click=ask, args=(question,))


def draw_truth(truth: Truth | None) -> None:
    """Say what the set knows of the question."""
    if truth is None:
        st.caption(word("search.truth_unknown"))
    else:
        answers = plain(", ".join(truth.answers) or "–")
        st.caption(word("answers.truth", answers=answers, passages=len(truth.rows)))


def _disputed(data: StoredSet) -> list[str]:
    """Questions that are answered from some retrievers' passages and not from others', or from none; by turns."""
    folder = latest_reading(data)
    kept = open_reading(data.key, folder) if folder else None
    if kept is None or not kept.result.readers or not kept.result.readers[0].by_retriever:
        return []
    answered = kept.result.readers[0].by_retriever.values()
    exact = np.stack([one.depth.exact[:, -1] for one in answered], axis=1)
    apart = np.flatnonzero(exact.std(axis=1) > 0)[: _EXAMPLES - 1].tolist()
    lost = np.flatnonzero(exact.max(axis=1) == 0).tolist()
    questions = kept.result.question_set.questions
    return [questions[row].text for row in dict.fromkeys([*apart, *lost])][:_EXAMPLES]


def _ask_the_box() -> None:
    ask(st.session_state[_BOX].strip())


def ask(question: str) -> None:
    """Make a question the one that is asked; an empty one is none."""
    st.session_state[_BOX] = st.session_state["kept_q"] = question[:_LONGEST_QUESTION]
    if question:
        st.query_params["q"] = question
    else:
        st.query_params.pop("q", None)
