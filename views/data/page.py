"""Data: get questions or sentence pairs, see what was understood of them and what they are like, and use them."""

import streamlit as st

from data.apart import processes
from data.split import SplitOptions
from data.store import StoredSet
from views.data import audit as data_audit
from views.data import get as data_get
from views.data import make as data_make
from views.data import passages as data_passages
from views.data import preview
from views.data import reading as data_reading
from views.data import sets as data_sets
from views.data.pairs import page as data_pairs
from views.data.preview import Preview, Read
from views.data_words import set_name
from views.navigation import way_to
from views.problem_words import errors_told
from views.resources.sets import audit_of, question_set, split_of
from views.scrolling import show_top
from views.state import choose, chosen_set
from views.words import plain, word

_QUESTIONS, _PAIRS = "questions", "pairs"


def draw() -> None:
    """Draw the page."""
    processes.make_ready()
    st.title(word("page.data"))
    kind = choose(
        st.segmented_control,
        "sort",
        word("data_page.sort"),
        [_QUESTIONS, _PAIRS],
        _QUESTIONS,
        follows=True,
        format_func=lambda one: word(f"data_page.sort_{one}"),
        required=True,
        label_visibility="collapsed",
    )
    if kind == _PAIRS:
        data_pairs.draw(chosen_set())
    else:
        _draw_questions(chosen_set())


def _draw_questions(used: StoredSet) -> None:
    shown = preview.current()
    if shown is None and preview.kept_now() == used.key:
        _draw_kept(used)
    data_get.draw()
    shown = preview.current()
    if shown is not None:
        data_reading.draw(shown)
    if shown is not None and shown.read is not None:
        _draw_preview(shown, shown.read)
    else:
        _draw_stored(used)
    data_sets.draw(used.key)


def _draw_kept(kept: StoredSet) -> None:
    """Say that the set is kept, and what can be done with it now."""
    show_top(f"kept {kept.key}")
    st.success(word("data_page.in_use_now", name=plain(set_name(kept.name))), icon=":material/check_circle:")
    with st.container(horizontal=True):
        if kept.questions:
            way_to("compare", word("data_page.to_compare"), data=kept.key)
            way_to("train", word("data_page.to_train"), data=kept.key)
        way_to("search", word("data_page.to_search"), data=kept.key)


def _draw_preview(shown: Preview, found: Read) -> None:
    questions = found.reading.question_set
    data_audit.draw(questions, found.audit)
    if questions.questions:
        data_audit.draw_split(questions, found.split)
    data_passages.draw(questions, shown.sha256[:16])


def _draw_stored(used: StoredSet) -> None:
    st.header(word("data_page.set_in_use", name=plain(set_name(used.name))), anchor=False)
    options = SplitOptions()
    with errors_told():
        with st.spinner(word("data_page.auditing"), show_time=True):
            questions, figures = question_set(used.key), audit_of(used.key)
            found = split_of(used.key, options.validation, options.test, options.seed)
        data_make.draw(used, questions, figures.article_count)
        data_audit.draw(questions, figures)
        if questions.questions:
            data_audit.draw_split(questions, found)
        data_passages.draw(questions, used.key)
