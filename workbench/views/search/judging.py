"""What a person judges over a corpus: marks at passages, the set made of them, and a list to judge blind.

The list to judge holds what all retrievers of a comparison found and no one judged. It is a function of the comparison
and of the address, and every judgement is stored at once: a reload or another browser continues where it was.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.generate import PromptLanguage, QuestionsError, judge
from mrc_workbench.data.generate.judge import Verdicts
from mrc_workbench.data.questions import judgements
from mrc_workbench.data.questions.judgements import Judged, Verdict
from mrc_workbench.data.records import Passage, Question, QuestionSet, composed
from mrc_workbench.data.store import StoredSet, keep
from mrc_workbench.data.workspace import LimitError
from mrc_workbench.models.llm import EndpointError
from mrc_workbench.retrieval.analysis.evidence import Pooled, pool
from mrc_workbench.retrieval.comparison.store import kept_comparison, kept_comparisons
from mrc_workbench.workbench.views.names import answers_line, set_name
from mrc_workbench.workbench.views.navigation import open_page, way_to
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui import tables, words
from mrc_workbench.workbench.views.ui.job import LanguageModel, pick_language_model
from mrc_workbench.workbench.views.ui.passages import weighed_html
from mrc_workbench.workbench.views.ui.state import remember, remembered
from mrc_workbench.workbench.views.ui.words import errors_told, plain, word

_AGREED = ("judged", "both_right", "both_wrong", "person_alone", "model_alone", "unsure")
_LONGEST_NAME = 80
_KEPT = "judged_set_kept"
_QUESTIONS, _DEPTHS = 20, (5, 10, 20)  # of a pool, where nobody chooses; the usual depth is the middle one


def draw_mark(questions: QuestionSet, question: str, row: int, key: str, *, is_right: bool) -> None:
    label, about, icon = ("marked", "unmark", "check") if is_right else ("mark", "mark", "add")
    look: dict[str, Any] = {"type": "tertiary", "icon": f":material/{icon}_circle:", "key": f"judge_{key}"}
    verdict = None if is_right else Verdict.RIGHT
    look["args"] = (questions.corpus_fingerprint, question, questions.passages.ids[row], verdict)
    st.button(word(f"judging.{label}"), help=word(f"judging.{about}_help"), on_click=put, **look)


def put(corpus: str, question: str, passage: str, verdict: Verdict | None) -> None:
    st.session_state.pop(_KEPT, None)  # more is judged: the set that was made is not all any more
    with errors_told():
        judgements.judge(corpus, question, passage, verdict)


def draw_judged(data: StoredSet) -> None:
    questions = question_set(data.key)
    judged = judgements.judgements_of(questions.corpus_fingerprint)
    with st.expander(word("judging.title", count=f"{len(judged):,}"), icon=":material/fact_check:"):
        st.caption(word("judging.about"))
        words.tell_damaged_files(questions)
        of_this = (one for one in kept_comparisons() if one.data_fingerprint == data.fingerprint and not one.lab)
        if newest := next(of_this, None):
            draw_begin(data, newest.key, newest.questions)
        if judged:
            _draw_list(questions, judged)
        draw_agreement(questions)
        draw_making(data)


def draw_begin(data: StoredSet, comparison: str, questions: int) -> None:
    with st.popover(word("pool.begin"), icon=":material/rule:"):
        st.caption(word("pool.begin_about"))
        usual, about = min(questions, _QUESTIONS), word("pool.questions_help")
        count = st.number_input(word("pool.questions"), 1, questions, usual, help=about)
        depth = st.select_slider(word("pool.depth"), _DEPTHS, _DEPTHS[1], help=word("pool.depth_help"))
        if st.button(word("pool.make"), type="primary", icon=":material/arrow_forward:", key="pool_begin"):
            st.session_state.pop("kept_pool_at", None)  # the place in another list
            open_page("search", data=data.key, pool=comparison, pool_n=str(count), pool_k=str(depth))


def draw_agreement(questions: QuestionSet) -> None:
    corpus = questions.corpus_fingerprint
    person, models = judgements.verdicts_of(judgements.judgements_of(corpus)), judge.verdicts_of_models(corpus)
    if not models:
        return
    st.markdown(f"**{word('pool.agreement')}**")
    st.caption(word("pool.agreement_about"))
    rows = []
    for model, verdicts in models.items():
        found = judge.agreement(person, verdicts)
        share = 100 * (found.both_right + found.both_wrong) / found.judged if found.judged else None
        counts = {name: getattr(found, name) for name in _AGREED}
        rows.append({"model": model, "verdicts": len(verdicts), "kappa": found.kappa, "agree": share, **counts})
    forms = {"kappa": "%.2f", "agree": "%.1f", **dict.fromkeys((*_AGREED, "verdicts"))}
    figures = {name: tables.number(f"pool.{name}", form) for name, form in forms.items()}
    tables.draw(pd.DataFrame(rows), {"model": tables.text("pool.model", ""), **figures}, placeholder="–")


def draw_making(data: StoredSet) -> None:
    questions = question_set(data.key)
    corpus = questions.corpus_fingerprint
    judged, models = judgements.judgements_of(corpus), judge.verdicts_of_models(corpus)
    if judged or models:
        _make_set(data, questions, judged, models)
    if kept := st.session_state.get(_KEPT):
        counts = {"questions": f"{kept.questions:,}", "passages": f"{kept.passages:,}"}
        st.success(word("judging.kept", name=plain(kept.name), **counts), icon=":material/check_circle:")
        with st.container(horizontal=True):
            way_to("compare", word("data_page.to_compare"), data=kept.key, part="all")
            way_to("data", word("judging.to_data"), data=kept.key)


def _draw_list(questions: QuestionSet, judged: tuple[Judged, ...]) -> None:
    row_of, titles = questions.row_of_passage, questions.passages.titles
    rows = []
    for one in judged:
        passages = ", ".join(titles[row_of[id_]] or id_ for id_ in one.passages if id_ in row_of)
        rows.append((one.question, passages, len(one.wrong), len(one.unsure)))
    table = pd.DataFrame(rows, columns=["question", "passages", "wrong", "unsure"])
    columns = {name: tables.text(f"judging.{name}", "") for name in ("question", "passages")}
    columns |= {name: tables.number(f"judging.{name}") for name in ("wrong", "unsure") if table[name].any()}
    chosen = tables.draw_choice(table, columns, f"judged_{len(judged)}", "multi-row")
    with st.container(horizontal=True):
        asked, label = [judged[row].question for row in chosen], word("judging.forget", count=len(chosen))
        look: dict[str, Any] = {"on_click": _forget, "args": (questions.corpus_fingerprint, asked)}
        st.button(label, icon=":material/delete:", disabled=not chosen, key="judging_forget", **look)
        tables.draw_csv("judging.csv", lambda: table, "judged.csv")


def _forget(corpus: str, asked: list[str]) -> None:
    with errors_told():
        for question in asked:
            judgements.forget(corpus, question)


def _make_set(
    data: StoredSet, questions: QuestionSet, judged: tuple[Judged, ...], models: Mapping[str, Verdicts]
) -> None:
    with st.form("judged_set", border=False):
        usual = word("judging.usual_name", name=set_name(data.name))
        name = st.text_input(word("judging.name"), value=usual, max_chars=_LONGEST_NAME)
        asked = len(questions.questions)
        label, about = word("judging.with_own", count=f"{asked:,}"), word("judging.with_own_help")
        both = bool(asked) and st.checkbox(label, help=about)
        model = None
        if models:
            label, about = word("judging.with_model"), word("judging.with_model_help")
            judges = {None: word("judging.nobody")} | {name: name for name in models}
            model = st.selectbox(label, [*judges], format_func=judges.__getitem__, help=about)
        pressed = st.form_submit_button(word("judging.make"), icon=":material/library_add:")
    if not pressed:
        return
    told = judge.with_model(judged, models[model]) if model else judged
    called = " · ".join(filter(None, (name.strip() or usual, model)))  # whoever compares with it sees who judged
    try:
        made = judgements.with_judged(questions, told, called, alone=not both)
    except ValueError:
        st.error(word("judging.nothing_right"), icon=":material/error:")
        return
    with errors_told():
        with st.spinner(word("data_page.keeping")):
            st.session_state[_KEPT] = keep(made, source=data.source)
        st.rerun()


_ADDRESS = ("pool", "pool_n", "pool_k", "pool_at")  # the comparison's key, questions, depth, and the place in the list
_KEYS = {Verdict.RIGHT: ("1", "check_circle"), Verdict.WRONG: ("2", "cancel"), Verdict.UNSURE: ("3", "help")}
_STOPPED = "pool_stopped"  # of the session
_SECONDS_BETWEEN_WORDS = 0.2


@dataclass(frozen=True)
class Round:
    """The list to judge, its questions and corpus, and what the user has judged of it."""

    asked: QuestionSet  # whose questions are those of the comparison
    pairs: Sequence[Pooled]
    verdicts: Verdicts

    @cached_property
    def given(self) -> list[Verdict | None]:
        keys = [(composed(self.question(at).text), self.passage(at).id) for at in range(len(self.pairs))]
        return [self.verdicts.get(key) for key in keys]

    def question(self, at: int) -> Question:
        return self.asked.questions[self.pairs[at].question]

    def passage(self, at: int) -> Passage:
        return self.asked.passages[self.pairs[at].passage]

    def next_open(self, at: int) -> int | None:
        """Return the position of the next unjudged one, after `at` and then from the first; None if all are judged."""
        order = [*range(at + 1, len(self.pairs)), *range(at + 1)]
        return next((one for one in order if self.given[one] is None), None)


def draw_pool(data: StoredSet) -> None:
    st.title(word("pool.title"), anchor=False)
    st.button(word("pool.close"), icon=":material/arrow_back:", on_click=_close, type="tertiary", key="pool_close")
    found = _round(data)
    if found is None or not found.pairs:
        st.info(word("pool.gone" if found is None else "pool.nothing"), icon=":material/info:")
        return
    st.caption(word("pool.about"))
    done = sum(one is not None for one in found.given)
    counts = {"done": f"{done:,}", "total": f"{len(found.pairs):,}"}
    st.progress(done / len(found.pairs), word("pool.progress", **counts))
    first = found.next_open(-1)
    if first is None:
        st.success(word("pool.all_done"), icon=":material/task_alt:")
        draw_making(data)
    places = [str(place) for place in range(1, len(found.pairs) + 1)]
    at = int(remembered("pool_at", str((first or 0) + 1), places)) - 1
    _draw_one(found, at)
    with st.expander(word("pool.by_model"), icon=":material/smart_toy:"):
        _draw_model(found)
    draw_agreement(found.asked)
    if first is not None:
        with st.expander(word("judging.make"), icon=":material/library_add:"):
            draw_making(data)


def _round(data: StoredSet) -> Round | None:
    kept = kept_comparison(st.query_params.get("pool", ""))
    opened = open_comparison(data.key, kept.folder) if kept else None
    if opened is None:
        return None
    asked = opened.question_set
    pairs = pool(opened.comparison, _number("pool_n", 20), _number("pool_k", 10))
    return Round(asked, pairs, judgements.verdicts_of(judgements.judgements_of(asked.corpus_fingerprint)))


def _number(name: str, usual: int) -> int:
    told = st.query_params.get(name, "")
    return int(told) if re.fullmatch("[1-9][0-9]{0,3}", told) else usual


def _close() -> None:
    for name in _ADDRESS:
        st.query_params.pop(name, None)
        st.session_state.pop(f"kept_{name}", None)


def _draw_one(found: Round, at: int) -> None:
    question, passage = found.question(at), found.passage(at)
    of_question = [place for place, pair in enumerate(found.pairs) if pair.question == found.pairs[at].question]
    numbers = [*dict.fromkeys(pair.question for pair in found.pairs)]
    places = {"question": numbers.index(found.pairs[at].question) + 1, "passage": of_question.index(at) + 1}
    with st.container(border=True, key="pool_one"):
        st.caption(word("pool.place", questions=len(numbers), passages=len(of_question), **places))
        st.markdown(f"#### {plain(question.text)}")
        if line := answers_line(question):
            st.caption(line)
        st.html(weighed_html([(passage.title, 0.0)], [(passage.text, 0.0)], gold=False))
    with st.container(horizontal=True, key="pool_verdicts"):
        for verdict, (key, icon) in _KEYS.items():
            # keys hold the place: a second press, before the next passage is seen, is of the one that was
            kind = "primary" if found.given[at] is verdict else "secondary"
            look: dict[str, Any] = {"on_click": _judge, "args": (found, at, verdict), "type": kind, "shortcut": key}
            label, about = word(f"pool.say_{verdict}"), word(f"pool.say_{verdict}_help")
            st.button(label, icon=f":material/{icon}:", help=about, key=f"pool_{verdict}_{at}", **look)
    with st.container(horizontal=True):
        for name, side, to in (("back", "Left", at - 1), ("next", "Right", at + 1)):
            look = {"on_click": remember, "args": ("pool_at", str(to + 1)), "type": "tertiary", "shortcut": side}
            look |= {"disabled": not 0 <= to < len(found.pairs), "key": f"pool_{name}_{at}"}
            st.button(word(f"pool.{name}"), icon=f":material/chevron_{side.lower()}:", **look)


def _judge(found: Round, at: int, verdict: Verdict) -> None:
    put(found.asked.corpus_fingerprint, found.question(at).text, found.passage(at).id, verdict)
    to = found.next_open(at)
    remember("pool_at", str((at if to is None else to) + 1))


def _draw_model(found: Round) -> None:
    st.caption(word("pool.by_model_about"))
    place = st.empty()
    with st.container(horizontal=True, vertical_alignment="center"):
        model = pick_language_model()
        known = judge.verdicts_of_models(found.asked.corpus_fingerprint).get(model.name, {}) if model else {}
        wanted = [judge.ToJudge(found.question(at).text, found.passage(at)) for at in range(len(found.pairs))]
        done = sum((composed(one.question), one.passage.id) in known for one in wanted)
        label = word("pool.model_go_on" if 0 < done < len(wanted) else "pool.model_begin")
        pressed = st.button(label, disabled=not model, icon=":material/play_arrow:", key="pool_model")
    if model and known:
        counts = {"done": f"{done:,}", "total": f"{len(wanted):,}"}
        st.caption(word("pool.model_done", model=plain(model.name), **counts))
    if st.session_state.pop(_STOPPED, False):
        st.info(word("pool.model_stopped"), icon=":material/info:")
    if pressed and model:
        try:
            _ask(found.asked.corpus_fingerprint, wanted, model, place)
        except (EndpointError, LimitError, QuestionsError) as error:
            place.error(plain(words.failure_text(error)), icon=":material/error:")


def _ask(corpus: str, wanted: Sequence[judge.ToJudge], model: LanguageModel, place: DeltaGenerator) -> None:
    began, told, first = time.monotonic(), 0.0, None
    with place.container():
        bar = st.progress(0.0, word("pool.progress", done="0", total=f"{len(wanted):,}"))
        st.button(word("job.stop"), on_click=_stop, icon=":material/stop:", key="pool_model_stop")

    def follow(done: int, total: int) -> None:
        nonlocal told, first
        first = done if first is None else first
        if time.monotonic() - told < _SECONDS_BETWEEN_WORDS:
            return
        told = time.monotonic()
        text = word("pool.progress", done=f"{done:,}", total=f"{total:,}")
        if done > first:
            left = (told - began) * (total - done) / (done - first)
            text = word("job.left", at_work=text, left=words.duration(left))
        bar.progress(done / total, text)

    options = judge.JudgeOptions(model.name, PromptLanguage(words.language()))
    judged = judge.judge_with_model(corpus, wanted, options, model.endpoint(), follow)
    place.empty()
    if not judged.failed:
        st.rerun()
    reason = words.failure_text(judged.error) if judged.error else judged.said
    message = word("pool.model_failed", count=f"{judged.failed:,}", reason=plain(reason))
    place.warning(message, icon=":material/warning:")


def _stop() -> None:
    st.session_state[_STOPPED] = True
