"""Answers: what a reader and a language model say from the passages found, and how often that is right; where nothing
can answer yet, the one thing to do about it.

A person chooses the question, retrievers, the reader, K, the questions, the rules and the measure.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import Any

import numpy as np
import streamlit as st

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.text.marking import MarkedText
from mrc_workbench.labs.reading.evaluate import DEFAULT_DEPTHS
from mrc_workbench.labs.reading.pages.evaluation import latest_reading, open_reading
from mrc_workbench.retrieval.comparison.multistage import WORDS_NAME
from mrc_workbench.retrieval.rankings import Truth
from mrc_workbench.training.jobs import QUEUE, Rehearsal, RehearsalTask
from mrc_workbench.training.recipes import recipe_of, usual_base
from mrc_workbench.training.runs import Run, new_plan
from mrc_workbench.training.text_options import READER
from mrc_workbench.workbench.views.choices import Choices, choices_for, finished_runs, model_place
from mrc_workbench.workbench.views.names import retriever_names
from mrc_workbench.workbench.views.navigation import open_page
from mrc_workbench.workbench.views.resources.sets import chosen_set, question_set
from mrc_workbench.workbench.views.ui import state
from mrc_workbench.workbench.views.ui.job import draw_language_model, language_model
from mrc_workbench.workbench.views.ui.passages import Hit, draw_style, hits_html
from mrc_workbench.workbench.views.ui.words import plain, word

TABS = {"ask": "mrc_workbench.labs.reading.pages.ask", "evaluate": "mrc_workbench.labs.reading.pages.evaluate"}
BOX = "answers_box"  # of the session
_EXAMPLES = 3
_TYPED, _WANTED, _HUB_MODEL = "typed_readers", "wanted_readers", "answers_hub_model_name"  # of the session
_REFERENCE = re.compile(r"[\w./:-]{1,200}")
_MOST_RETRIEVERS = 4
_MOST_TRIED = 200  # questions searched for an example


@dataclass(frozen=True)
class Readers:
    """Names by reference, the newest first, and the trainings they come from."""

    names: Mapping[str, str]
    runs: Mapping[str, Run]

    def has_seen(self, reference: str, data: StoredSet, part: Part) -> bool:
        run = self.runs.get(reference)
        trained_on_it = run is not None and run.plan().fingerprint == data.fingerprint
        return trained_on_it and part in (Part.ALL, Part.TRAIN)


def draw() -> None:
    data, readers = chosen_set(), readers_at_hand()
    st.title(word("answers.purpose"), anchor=False)
    if not readers.names and not language_model():
        _draw_start(data)
        return
    name, place = state.choose_tab("answers", {name: word(f"answers.tab_{name}") for name in TABS})
    with place:
        if name == "evaluate" and not readers.names:
            _draw_start(data)
        else:
            import_module(TABS[name]).draw(data, choices_for(data), readers)


def _draw_start(data: StoredSet) -> None:
    training = any(isinstance(one, Run) and one.plan().kind == READER for one in (QUEUE.at_work(), *QUEUE.queued()))
    st.markdown(word("answers.is_trained" if training else "answers.needs_reader"))
    label = word("answers.see_training") if training else _offer(data)
    if st.button(label, icon=":material/model_training:", type="primary", key="train_reader"):
        open_page("train", train=READER)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(word("answers.or"), width="content")
        with st.popover(word("answers.use_hub_model"), type="tertiary", icon=":material/download:"):
            _draw_hub_model()
        if not language_model():
            with st.popover(word("answers.use_language_model"), type="tertiary", icon=":material/smart_toy:"):
                draw_language_model()
    _draw_example(data)


def _draw_example(data: StoredSet) -> None:
    example = marked_example(question_set(data.key))
    if example is None:
        return
    question, hit = example
    draw_style()
    st.caption(word("answers.example"))
    st.markdown(f"**{plain(question)}**")
    st.html(f'<div class="found-legend"><span><mark>{escape(word("answers.legend_known"))}</mark></span></div>')
    st.html(hits_html([hit]))


def marked_example(questions: QuestionSet) -> tuple[str, Hit] | None:
    """Return the text of the first question whose passage contains its answer, and that passage with the answer marked.

    Only the first questions are tried, so that a large dataset without answers costs no time.
    """
    for question in questions.questions[:_MOST_TRIED]:
        for answer, passage_id in zip(question.answers, question.relevant, strict=False):
            passage = questions.passages[questions.row_of_passage[passage_id]]
            start = passage.text.find(answer) if answer else -1
            if start < 0:
                continue
            text = MarkedText(passage.text, ((start, start + len(answer)),))
            hit = Hit(1, "", passage.id, MarkedText(passage.title), text, relevant=True)
            return question.text, hit
    return None


def _offer(data: StoredSet) -> str:
    """Return the button's label, with the minutes if they were measured on this machine for this set."""
    options = recipe_of(READER).options.suited_to(usual_base(READER))
    plan = new_plan(READER, "", (data.key, data.name, data.fingerprint), SplitOptions(), options)
    try:
        seconds = Rehearsal.of(plan, RehearsalTask.ESTIMATE).estimate().seconds
    except (OSError, ValueError):
        return word("answers.train_one")
    return word("answers.train_one_in", minutes=math.ceil(seconds / 60))


def draw_box(data: StoredSet) -> str:
    examples, disputed = _examples(data)
    question = state.draw_question(
        BOX,
        next(iter(examples), ""),
        word("answers.question_help"),
        submit=word("answers.ask"),
        icon=":material/send:",
        on_asked=lambda: state.ask(BOX, st.session_state[BOX].strip()),
    )
    if examples:
        state.draw_examples(BOX, examples, word("answers.examples_help") if disputed else None)
    return question


def _examples(data: StoredSet) -> tuple[list[str], bool]:
    """Return questions on which retrievers differ in an evaluation, and True; else the first questions."""
    folder, disputed = latest_reading(data), list[str]()
    kept = open_reading(data.key, folder) if folder else None
    answered = [*kept.result.readers[0].by_retriever.values()] if kept and kept.result.readers else []
    if kept and answered:  # from some retrievers' passages and not from others', or from none; by turns
        exact = np.stack([one.depth.exact[:, -1] for one in answered], axis=1)
        apart = np.flatnonzero(exact.std(axis=1) > 0)[: _EXAMPLES - 1].tolist()
        lost = np.flatnonzero(exact.max(axis=1) == 0).tolist()
        rows = [*dict.fromkeys([*apart, *lost])][:_EXAMPLES]
        disputed = [kept.result.question_set.questions[row].text for row in rows]
    return disputed or [one.text for one in question_set(data.key).questions[:_EXAMPLES]], bool(disputed)


def draw_truth(truth: Truth | None) -> None:
    if truth is None:
        st.caption(word("search.truth_unknown"))
    else:
        answers = plain(", ".join(truth.answers) or "–")
        st.caption(word("answers.truth", answers=answers, passages=len(truth.rows)))


def readers_at_hand() -> Readers:
    """Return the finished readers, those typed in this session, and that of the address."""
    runs = {model_place(run): run for run, plan in finished_runs().items() if plan.kind == READER}
    typed = st.session_state.setdefault(_TYPED, {})
    given = st.query_params.get("reader", "")
    if given not in runs and _REFERENCE.fullmatch(given):
        typed[given] = given
    names = {place: run.plan().name for place, run in runs.items()}
    return Readers(names | {one: one for one in typed if one not in names}, runs)


def pick_reader(readers: Readers) -> str:
    names = readers.names or {"": word("answers.type_reader")}
    look: dict[str, Any] = {"help": word("answers.reader_help"), "accept_new_options": True, "width": 200}
    return state.choose_named("reader", word("answers.reader"), names, next(iter(names)), **look)


def is_wanted(readers: Readers, reference: str) -> bool:
    """Whether a reader may be loaded: one trained here, or one whose button was pressed, which is drawn.

    An address alone must not download a model of the hub.
    """
    wanted: set[str] = st.session_state.setdefault(_WANTED, set())
    if reference in readers.runs or reference in wanted:
        return True
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/info: {word('answers.not_loaded', reader=plain(reference))}", width="content")
        label, icon = word("answers.load"), ":material/download:"
        st.button(label, icon=icon, key="load_reader", on_click=wanted.add, args=(reference,))
    return False


def _draw_hub_model() -> None:
    with st.form("answers_hub_model", border=False):
        form, explained = word("answers.hub_model_form"), word("answers.hub_model_help")
        st.text_input(word("answers.hub_model"), key=_HUB_MODEL, placeholder=form, help=explained)
        st.form_submit_button(word("answers.use_model"), key="use_hub_model", type="primary", on_click=_use_hub_model)
    if st.session_state.get(_HUB_MODEL, "").strip():
        st.error(word("answers.no_hub_model"), icon=":material/error:")


def _use_hub_model() -> None:
    named = st.session_state[_HUB_MODEL].strip()
    if _REFERENCE.fullmatch(named):
        st.session_state.setdefault(_WANTED, set()).add(named)
        st.query_params["reader"] = named


def pick_retrievers(data: StoredSet, choices: Choices) -> list[str]:
    names, called = choices.searchable, retriever_names(choices.specs)
    usual = [name for name in choices.first_picked if name in names and name != WORDS_NAME][:_MOST_RETRIEVERS]
    look: dict[str, Any] = {
        "key": f"answering_{data.key}_{len(names)}",
        "wrap": True,
        "format_func": lambda name: plain(called[name]),
    }
    look["help"] = word("answers.retrievers_help", most=_MOST_RETRIEVERS)
    picked = state.choose_several(st.pills, "retrievers", word("compare.retrievers"), names, usual, **look)
    if len(picked) > _MOST_RETRIEVERS:
        told = plain(", ".join(called[name] for name in picked[:_MOST_RETRIEVERS]))
        st.caption(word("search.only_first", most=_MOST_RETRIEVERS, names=told))
    return picked[:_MOST_RETRIEVERS]


def pick_k() -> int:
    options = [str(k) for k in DEFAULT_DEPTHS]
    return int(state.choose(st.selectbox, "read", "K", options, "5", help=word("answers.k_help"), width=80))
