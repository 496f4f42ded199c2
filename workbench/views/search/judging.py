"""What a person judges over a corpus: a mark at a passage, the list of all that was judged, and the set made of it."""

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from mrc_workbench.data.generate.judge import Verdicts, agreement, verdicts_of_models, with_model
from mrc_workbench.data.questions.judgements import (
    Judged,
    Verdict,
    forget,
    judge,
    judgements_of,
    verdicts_of,
    with_judged,
)
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import StoredSet, keep
from mrc_workbench.retrieval.comparison.store import kept_comparisons
from mrc_workbench.workbench.views.names import set_name
from mrc_workbench.workbench.views.navigation import open_page, way_to
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.problems import errors_told, tell_damaged_files
from mrc_workbench.workbench.views.ui.words import plain, word

_LONGEST_NAME = 80
_KEPT = "judged_set_kept"
_QUESTIONS, _DEPTHS = 20, (5, 10, 20)  # of a pool, where nobody chooses; the usual depth is the middle one


def draw_mark(questions: QuestionSet, question: str, row: int, key: str, *, is_right: bool) -> None:
    st.button(
        word("judging.marked" if is_right else "judging.mark"),
        icon=":material/check_circle:" if is_right else ":material/add_circle:",
        help=word("judging.unmark_help" if is_right else "judging.mark_help"),
        type="tertiary",
        on_click=put,
        args=(questions.corpus_fingerprint, question, questions.passages.ids[row], None if is_right else Verdict.RIGHT),
        key=f"judge_{key}",
    )


def put(corpus: str, question: str, passage: str, verdict: Verdict | None) -> None:
    """Keep a judgement at once, or take it away, or say why that cannot be."""
    st.session_state.pop(_KEPT, None)  # more is judged: the set that was made is not all any more
    with errors_told():
        judge(corpus, question, passage, verdict)


def draw_judged(data: StoredSet) -> None:
    """Draw what was judged over this corpus, and the ways from there: more to judge, a set that can be compared."""
    questions = question_set(data.key)
    judged = judgements_of(questions.corpus_fingerprint)
    with st.expander(word("judging.title", count=f"{len(judged):,}"), icon=":material/fact_check:"):
        st.caption(word("judging.about"))
        tell_damaged_files(questions)
        of_this = (one for one in kept_comparisons() if one.data_fingerprint == data.fingerprint and not one.lab)
        if newest := next(of_this, None):
            draw_begin(data, newest.key, newest.questions)
        if judged:
            _list(questions, judged)
        draw_agreement(questions)
        draw_making(data)


def draw_begin(data: StoredSet, comparison: str, questions: int) -> None:
    """Draw the way to a list to judge of what a comparison, by its key, found for some of its questions."""
    with st.popover(word("pool.begin"), icon=":material/rule:"):
        st.caption(word("pool.begin_about"))
        usual, about = min(questions, _QUESTIONS), word("pool.questions_help")
        count = st.number_input(word("pool.questions"), 1, questions, usual, help=about)
        depth = st.select_slider(word("pool.depth"), _DEPTHS, _DEPTHS[1], help=word("pool.depth_help"))
        if st.button(word("pool.make"), type="primary", icon=":material/arrow_forward:", key="pool_begin"):
            st.session_state.pop("kept_pool_at", None)  # the place in another list
            open_page("search", data=data.key, pool=comparison, pool_n=str(count), pool_k=str(depth))


def draw_agreement(questions: QuestionSet) -> None:
    """Draw how each model that judged over this corpus agrees with the person, wherever both did."""
    corpus = questions.corpus_fingerprint
    person, models = verdicts_of(judgements_of(corpus)), verdicts_of_models(corpus)
    if not models:
        return
    st.markdown(f"**{word('pool.agreement')}**")
    st.caption(word("pool.agreement_about"))
    rows = []
    for model, verdicts in models.items():
        found = agreement(person, verdicts)
        share = 100 * (found.both_right + found.both_wrong) / found.judged if found.judged else None
        told = {name: getattr(found, name) for name in _AGREED}
        rows.append({"model": model, "verdicts": len(verdicts), "kappa": found.kappa, "agree": share, **told})
    forms = {"kappa": "%.2f", "agree": "%.1f", **dict.fromkeys((*_AGREED, "verdicts"))}
    figures = {name: tables.number(f"pool.{name}", form) for name, form in forms.items()}
    tables.draw(pd.DataFrame(rows), {"model": tables.text("pool.model", ""), **figures}, placeholder="–")


_AGREED = ("judged", "both_right", "both_wrong", "person_alone", "model_alone", "unsure")


def draw_making(data: StoredSet) -> None:
    """Draw the form that makes a set of what was judged over this corpus, and the ways on to the one that was made."""
    questions = question_set(data.key)
    corpus = questions.corpus_fingerprint
    judged, models = judgements_of(corpus), verdicts_of_models(corpus)
    if judged or models:
        _make_set(data, questions, judged, models)
    if kept := st.session_state.get(_KEPT):
        counts = {"questions": f"{kept.questions:,}", "passages": f"{kept.passages:,}"}
        st.success(word("judging.kept", name=plain(kept.name), **counts), icon=":material/check_circle:")
        with st.container(horizontal=True):
            way_to("compare", word("data_page.to_compare"), data=kept.key, part="all")
            way_to("data", word("judging.to_data"), data=kept.key)


def _list(questions: QuestionSet, judged: tuple[Judged, ...]) -> None:
    row_of, titles = questions.row_of_passage, questions.passages.titles
    rows = [
        {
            "question": one.question,
            "passages": ", ".join(titles[row_of[id_]] or id_ for id_ in one.passages if id_ in row_of),
            "wrong": len(one.wrong),
            "unsure": len(one.unsure),
        }
        for one in judged
    ]
    table = pd.DataFrame(rows)
    columns = {name: tables.text(f"judging.{name}", "") for name in ("question", "passages")}
    columns |= {name: tables.number(f"judging.{name}") for name in ("wrong", "unsure") if table[name].any()}
    chosen = tables.draw_choice(table, columns, f"judged_{len(judged)}", "multi-row")
    with st.container(horizontal=True):
        st.button(
            word("judging.forget", count=len(chosen)),
            icon=":material/delete:",
            disabled=not chosen,
            on_click=_forget,
            args=(questions.corpus_fingerprint, [judged[row].question for row in chosen]),
            key="judging_forget",
        )
        tables.draw_csv("judging.csv", lambda: table, "judged.csv")


def _forget(corpus: str, asked: list[str]) -> None:
    with errors_told():
        for question in asked:
            forget(corpus, question)


def _make_set(
    data: StoredSet, questions: QuestionSet, judged: tuple[Judged, ...], models: Mapping[str, Verdicts]
) -> None:
    with st.form("judged_set", border=False):
        usual = word("judging.usual_name", name=set_name(data.name))
        name = st.text_input(word("judging.name"), value=usual, max_chars=_LONGEST_NAME)
        asked = len(questions.questions)
        both = bool(asked) and st.checkbox(
            word("judging.with_own", count=f"{asked:,}"), help=word("judging.with_own_help")
        )
        model = None
        if models:
            model = st.selectbox(
                word("judging.with_model"),
                [None, *models],
                format_func=lambda one: word("judging.nobody") if one is None else one,
                help=word("judging.with_model_help"),
            )
        pressed = st.form_submit_button(word("judging.make"), icon=":material/library_add:")
    if not pressed:
        return
    told = with_model(judged, models[model]) if model else judged
    called = " · ".join(filter(None, (name.strip() or usual, model)))  # whoever compares with it sees who judged
    try:
        made = with_judged(questions, told, called, alone=not both)
    except ValueError:
        st.error(word("judging.nothing_right"), icon=":material/error:")
        return
    with errors_told():
        with st.spinner(word("data_page.keeping")):
            st.session_state[_KEPT] = keep(made, source=data.source)
        st.rerun()
