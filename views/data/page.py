"""Data: get a question set, see what was understood of it and what it is like, and put it to use."""

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
from views.data.preview import Preview, Read
from views.problem_words import errors_told
from views.resources.sets import audit_of, question_set, split_of
from views.state import chosen_set
from views.words import plain, word


def draw() -> None:
    """Draw the page."""
    processes.make_ready()
    st.title(word("page.data"))
    data_get.draw()
    used = chosen_set()
    shown = preview.current()
    if shown is not None:
        data_reading.draw(shown)
    if shown is not None and shown.read is not None:
        _draw_preview(shown, shown.read)
    else:
        _draw_stored(used)
    data_sets.draw(used.key)


def _draw_preview(shown: Preview, found: Read) -> None:
    questions = found.reading.question_set
    data_audit.draw(questions, found.audit)
    if questions.questions:
        data_audit.draw_split(questions, found.split)
    data_passages.draw(questions, shown.sha256[:16])


def _draw_stored(used: StoredSet) -> None:
    st.header(word("data_page.set_in_use", name=plain(used.name)), anchor=False)
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
