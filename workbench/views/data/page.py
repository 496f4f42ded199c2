"""Data: get questions or sentence pairs, see what was understood of them and what they are like, and use them."""

from collections.abc import Sequence

import streamlit as st

from mrc_workbench.data import apart
from mrc_workbench.data.questions.audit import Audit
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Split, SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.workbench.views.data import audit as data_audit
from mrc_workbench.workbench.views.data import make as data_make
from mrc_workbench.workbench.views.data import pairs as data_pairs
from mrc_workbench.workbench.views.data import preview, ways
from mrc_workbench.workbench.views.data import reading as data_reading
from mrc_workbench.workbench.views.data.stored import draw_sets
from mrc_workbench.workbench.views.names import set_name
from mrc_workbench.workbench.views.navigation import way_to
from mrc_workbench.workbench.views.resources.sets import audit_of, chosen_set, question_set, split_of
from mrc_workbench.workbench.views.ui.state import choose, choose_tab, show_top
from mrc_workbench.workbench.views.ui.words import errors_told, plain, tell_damaged_files, word

_QUESTIONS, _PAIRS = "questions", "pairs"
_LOOK = "look"  # its name in the address
_SUMMARY, _PASSAGES, _FIGURES, _MAKE = "summary", "passages", "figures", "make"
_LOOKS = (_SUMMARY, _PASSAGES, _FIGURES)
_SPLIT = SplitOptions()


def draw() -> None:
    apart.make_ready()
    st.title(word("page.data"), anchor=False)
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
        show_top(f"kept {used.key}")
        st.success(word("data_page.in_use_now", name=plain(set_name(used.name))), icon=":material/check_circle:")
        _draw_next(used)
    ways.draw()
    shown = preview.current()
    if shown is None:
        draw_sets(used.key)
        _draw_stored(used)
        return
    data_reading.draw(shown)
    if shown.read is None:
        _draw_stored(used)
        return
    opened, place = choose_tab(_LOOK, _labels(_LOOKS))
    with place:
        found = shown.read
        _draw_look(opened, found.reading.question_set, found.audit, found.split, shown.sha256[:16])


def _draw_next(used: StoredSet) -> None:
    with st.container(horizontal=True):
        if used.questions:
            way_to("compare", word("data_page.to_compare"), data=used.key)
            way_to("train", word("data_page.to_train"), data=used.key)
        way_to("search", word("data_page.to_search"), data=used.key)


def _draw_stored(used: StoredSet) -> None:
    st.header(word("data_page.set_in_use", name=plain(set_name(used.name))), anchor=False)
    if preview.kept_now() != used.key:
        _draw_next(used)
    with errors_told():
        with st.spinner(word("data_page.auditing"), show_time=True):
            questions, figures = question_set(used.key), audit_of(used.key)
            found = split_of(used.key, _SPLIT)
        tell_damaged_files(questions)
        data_make.draw_made(used, questions)
        looks = (*_LOOKS, _MAKE) if used.questions else (_MAKE, *_LOOKS)
        opened, place = choose_tab(_LOOK, _labels(looks))
        with place:
            if opened == _MAKE:
                data_make.draw_panel(used, questions, figures.article_count)
            else:
                _draw_look(opened, questions, figures, found, used.key)


def _labels(looks: Sequence[str]) -> dict[str, str]:
    return {look: word(f"data_page.look_{look}") for look in looks}


def _draw_look(look: str, questions: QuestionSet, figures: Audit, found: Split, key: str) -> None:
    """Draw one of the looks at a set; `key` tells the set from others."""
    if look == _SUMMARY:
        data_audit.draw(questions, figures, found)
    elif look == _PASSAGES:
        data_audit.draw_passages(questions, key)
    else:
        data_audit.draw_figures(questions, figures)
        if questions.questions:
            data_audit.draw_split(questions, found)
        data_audit.draw_downloads(questions)
