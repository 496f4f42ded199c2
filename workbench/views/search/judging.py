"""Relevance judgements of a user: marks on passages, the dataset created from them, and the judging pool.

The pool has the unjudged hits of all retrievers of a comparison. It depends only on the comparison and the address, and
each judgement is stored at once, so a reload or another browser continues at the same position.
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
from mrc_workbench.data.questions import judgements
from mrc_workbench.data.questions.judgements import JudgedQuestion, RelevanceVerdict
from mrc_workbench.data.records import Passage, Question, QuestionSet, composed
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.workspace import LimitError
from mrc_workbench.models.llm import EndpointError
from mrc_workbench.retrieval.analysis.evidence import PooledPair, pool
from mrc_workbench.retrieval.comparison.store import get_comparison
from mrc_workbench.workbench.views.choices import comparisons_of
from mrc_workbench.workbench.views.names import answers_line, set_name
from mrc_workbench.workbench.views.navigation import draw_page_link, open_page
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui import tables, words
from mrc_workbench.workbench.views.ui.job import LanguageModel, pick_language_model
from mrc_workbench.workbench.views.ui.passages import shaded_html
from mrc_workbench.workbench.views.ui.state import remember, remembered
from mrc_workbench.workbench.views.ui.words import plain, show_errors, word

_AGREED = ("judged_count", "both_right", "both_wrong", "person_alone", "model_alone", "unsure")
_LONGEST_NAME = 80
_QUESTIONS = 20  # of a pool by default
_DEPTHS = (5, 10, 20)
_SECONDS_BETWEEN_WORDS = 0.2
_ADDRESS = ("pool", "pool_n", "pool_k", "pool_at")  # key of the comparison, questions, depth, position in the list
_KEYS = {  # keyboard shortcut and icon
    RelevanceVerdict.RIGHT: ("1", "check_circle"),
    RelevanceVerdict.WRONG: ("2", "cancel"),
    RelevanceVerdict.UNSURE: ("3", "help"),
}
# Session keys
_STORED_SET = "judged_dataset"
_STOPPED = "pool_stopped"


def draw_mark(questions: QuestionSet, question: str, row: int, key: str, *, is_right: bool) -> None:
    label, about, icon = ("marked", "unmark", "check") if is_right else ("mark", "mark", "add")
    kwargs: dict[str, Any] = {"type": "tertiary", "icon": f":material/{icon}_circle:", "key": f"judge_{key}"}
    verdict = None if is_right else RelevanceVerdict.RIGHT
    kwargs["args"] = (questions.corpus_fingerprint, question, questions.passages.ids[row], verdict)
    st.button(word(f"judging.{label}"), help=word(f"judging.{about}_help"), on_click=store_verdict, **kwargs)


def store_verdict(corpus: str, question: str, passage: str, verdict: RelevanceVerdict | None) -> None:
    st.session_state.pop(_STORED_SET, None)  # the stored dataset lacks this judgement
    with show_errors():
        judgements.judge_passage(corpus, question, passage, verdict)


def draw_judged(data: StoredSet) -> None:
    questions = question_set(data.key)
    judged = judgements.load_judgements(questions.corpus_fingerprint)
    with st.expander(word("judging.title", count=f"{len(judged):,}"), icon=":material/fact_check:"):
        st.caption(word("judging.about"))
        words.draw_damaged_files(questions)
        comparisons = comparisons_of(data)
        if comparisons:
            draw_pool_start(data, comparisons[0].key, comparisons[0].questions)
        if judged:
            _draw_list(questions, judged)
        draw_agreement(questions)
        draw_dataset_creation(data)


def draw_pool_start(data: StoredSet, comparison: str, questions: int) -> None:
    with st.popover(word("pool.begin"), icon=":material/rule:"):
        st.caption(word("pool.begin_about"))
        default = min(questions, _QUESTIONS)
        about = word("pool.questions_help")
        count = st.number_input(word("pool.questions"), 1, questions, default, help=about)
        depth = st.select_slider(word("pool.depth"), _DEPTHS, _DEPTHS[1], help=word("pool.depth_help"))
        if st.button(word("pool.make"), type="primary", icon=":material/arrow_forward:", key="pool_begin"):
            st.session_state.pop("stored_pool_at", None)  # the position in another list
            open_page("search", data=data.key, pool=comparison, pool_n=str(count), pool_k=str(depth))


def draw_agreement(questions: QuestionSet) -> None:
    corpus = questions.corpus_fingerprint
    person = judgements.collect_verdicts(judgements.load_judgements(corpus))
    models = judge.load_model_verdicts(corpus)
    if not models:
        return
    st.markdown(f"**{word('pool.agreement')}**")
    st.caption(word("pool.agreement_about"))
    rows = []
    for model, verdicts in models.items():
        agreement = judge.measure_agreement(person, verdicts)
        agreed = 100 * (agreement.both_right + agreement.both_wrong)
        percent = agreed / agreement.judged_count if agreement.judged_count else None
        counts = {name: getattr(agreement, name) for name in _AGREED}
        rows.append({"model": model, "verdicts": len(verdicts), "kappa": agreement.kappa, "agree": percent, **counts})
    forms = {"kappa": "%.2f", "agree": "%.1f", **dict.fromkeys((*_AGREED, "verdicts"))}
    number_columns = {name: tables.number(f"pool.{name}", form) for name, form in forms.items()}
    tables.draw(pd.DataFrame(rows), {"model": tables.text("pool.model", ""), **number_columns}, placeholder="–")


def draw_dataset_creation(data: StoredSet) -> None:
    questions = question_set(data.key)
    corpus = questions.corpus_fingerprint
    judged = judgements.load_judgements(corpus)
    models = judge.load_model_verdicts(corpus)
    if judged or models:
        _make_set(data, questions, judged, models)
    if stored := st.session_state.get(_STORED_SET):
        counts = {"questions": f"{stored.questions:,}", "passages": f"{stored.passages:,}"}
        st.success(word("judging.stored", name=plain(stored.name), **counts), icon=":material/check_circle:")
        with st.container(horizontal=True):
            draw_page_link("compare", word("data_page.to_compare"), data=stored.key, part="all")
            draw_page_link("data", word("judging.to_data"), data=stored.key)


def _draw_list(questions: QuestionSet, judged: tuple[JudgedQuestion, ...]) -> None:
    row_of = questions.row_of_passage
    titles = questions.passages.titles
    rows = []
    for entry in judged:
        passages = ", ".join(titles[row_of[id_]] or id_ for id_ in entry.passages if id_ in row_of)
        rows.append((entry.question, passages, len(entry.wrong), len(entry.unsure)))
    table = pd.DataFrame(rows, columns=["question", "passages", "wrong", "unsure"])
    columns = {name: tables.text(f"judging.{name}", "") for name in ("question", "passages")}
    columns |= {name: tables.number(f"judging.{name}") for name in ("wrong", "unsure") if table[name].any()}
    selected = tables.draw_choice(table, columns, f"judged_{len(judged)}", multiple=True)
    with st.container(horizontal=True):
        selected_questions = [judged[row].question for row in selected]
        label = word("judging.forget", count=len(selected))
        kwargs: dict[str, Any] = {"on_click": _forget, "args": (questions.corpus_fingerprint, selected_questions)}
        st.button(label, icon=":material/delete:", disabled=not selected, key="judging_forget", **kwargs)
        tables.draw_csv("judging.csv", lambda: table, "judged.csv")


def _forget(corpus: str, questions: list[str]) -> None:
    with show_errors():
        for question in questions:
            judgements.forget_question(corpus, question)


def _make_set(
    data: StoredSet, questions: QuestionSet, judged: tuple[JudgedQuestion, ...], models: Mapping[str, judge.Verdicts]
) -> None:
    with st.form("judged_set", border=False):
        default_name = word("judging.default_name", name=set_name(data.name))
        name = st.text_input(word("judging.name"), value=default_name, max_chars=_LONGEST_NAME)
        question_count = len(questions.questions)
        label = word("judging.with_own", count=f"{question_count:,}")
        about = word("judging.with_own_help")
        both = bool(question_count) and st.checkbox(label, help=about)
        model = None
        if models:
            label = word("judging.with_model")
            about = word("judging.with_model_help")
            judges = {None: word("judging.no_judge")} | {name: name for name in models}
            model = st.selectbox(label, [*judges], format_func=judges.__getitem__, help=about)
        pressed = st.form_submit_button(word("judging.make"), icon=":material/library_add:")
    if not pressed:
        return
    all_judged = judge.add_model_verdicts(judged, models[model]) if model else judged
    new_name = " · ".join(filter(None, (name.strip() or default_name, model)))
    try:
        new_set = judgements.merge_judgements(questions, all_judged, new_name, only_judged=not both)
    except ValueError:
        st.error(word("judging.nothing_right"), icon=":material/error:")
        return
    with show_errors():
        with st.spinner(word("data_page.keeping")):
            st.session_state[_STORED_SET] = save_question_set(new_set, source=data.source)
        st.rerun()


@dataclass(frozen=True)
class JudgingPool:
    """The pairs to judge, with the questions and passages of the comparison, and the user's verdicts."""

    question_set: QuestionSet
    pairs: Sequence[PooledPair]
    verdicts: judge.Verdicts

    @cached_property
    def given_verdicts(self) -> list[RelevanceVerdict | None]:
        keys = [(composed(self.question(index).text), self.passage(index).id) for index in range(len(self.pairs))]
        return [self.verdicts.get(key) for key in keys]

    def question(self, index: int) -> Question:
        return self.question_set.questions[self.pairs[index].question]

    def passage(self, index: int) -> Passage:
        return self.question_set.passages[self.pairs[index].passage]

    def next_open(self, index: int) -> int | None:
        """Return the next unjudged position after `index`, then from the first; None if all are judged."""
        order = [*range(index + 1, len(self.pairs)), *range(index + 1)]
        return next((candidate for candidate in order if self.given_verdicts[candidate] is None), None)


def draw_pool(data: StoredSet) -> None:
    st.title(word("pool.title"), anchor=False)
    st.button(word("pool.close"), icon=":material/arrow_back:", on_click=_close, type="tertiary", key="pool_close")
    judging_pool = _build_pool(data)
    if judging_pool is None or not judging_pool.pairs:
        st.info(word("pool.gone" if judging_pool is None else "pool.nothing"), icon=":material/info:")
        return
    st.caption(word("pool.about"))
    done = sum(verdict is not None for verdict in judging_pool.given_verdicts)
    counts = {"done": f"{done:,}", "total": f"{len(judging_pool.pairs):,}"}
    st.progress(done / len(judging_pool.pairs), word("pool.progress", **counts))
    first = judging_pool.next_open(-1)
    if first is None:
        st.success(word("pool.all_done"), icon=":material/task_alt:")
        draw_dataset_creation(data)
    positions = [str(position) for position in range(1, len(judging_pool.pairs) + 1)]
    index = int(remembered("pool_at", str((first or 0) + 1), positions)) - 1
    _draw_passage(judging_pool, index)
    with st.expander(word("pool.by_model"), icon=":material/smart_toy:"):
        _draw_model(judging_pool)
    draw_agreement(judging_pool.question_set)
    if first is not None:
        with st.expander(word("judging.make"), icon=":material/library_add:"):
            draw_dataset_creation(data)


def _build_pool(data: StoredSet) -> JudgingPool | None:
    stored = get_comparison(st.query_params.get("pool", ""))
    opened = open_comparison(data.key, stored.folder) if stored else None
    if opened is None:
        return None
    pairs = pool(opened.comparison, _number("pool_n", 20), _number("pool_k", 10))
    judged = judgements.load_judgements(opened.question_set.corpus_fingerprint)
    return JudgingPool(opened.question_set, pairs, judgements.collect_verdicts(judged))


def _number(name: str, default: int) -> int:
    value = st.query_params.get(name, "")
    return int(value) if re.fullmatch("[1-9][0-9]{0,3}", value) else default


def _close() -> None:
    for name in _ADDRESS:
        st.query_params.pop(name, None)
        st.session_state.pop(f"stored_{name}", None)


def _draw_passage(judging_pool: JudgingPool, index: int) -> None:
    question = judging_pool.question(index)
    passage = judging_pool.passage(index)
    pairs = judging_pool.pairs
    number = pairs[index].question
    numbers = [*dict.fromkeys(pair.question for pair in pairs)]
    of_question = [position for position, pair in enumerate(pairs) if pair.question == number]
    positions = {"question": numbers.index(number) + 1, "passage": of_question.index(index) + 1}
    with st.container(border=True, key="pool_one"):
        st.caption(word("pool.position", questions=len(numbers), passages=len(of_question), **positions))
        st.markdown(f"#### {plain(question.text)}")
        if line := answers_line(question):
            st.caption(line)
        st.html(shaded_html([(passage.title, 0.0)], [(passage.text, 0.0)], gold=False))
    with st.container(horizontal=True, key="pool_verdicts"):
        for verdict, (key, icon) in _KEYS.items():
            kind = "primary" if judging_pool.given_verdicts[index] is verdict else "secondary"
            kwargs: dict[str, Any] = {"on_click": _judge, "args": (judging_pool, index, verdict), "type": kind}
            # The index in the key assigns a second press to the same passage, even if the next one is on its way
            kwargs |= {"shortcut": key, "icon": f":material/{icon}:", "key": f"pool_{verdict}_{index}"}
            st.button(**words.label_and_help(f"pool.say_{verdict}"), **kwargs)
    with st.container(horizontal=True):
        for name, side, target in (("back", "Left", index - 1), ("next", "Right", index + 1)):
            kwargs = {"on_click": remember, "args": ("pool_at", str(target + 1)), "type": "tertiary", "shortcut": side}
            kwargs |= {"disabled": not 0 <= target < len(judging_pool.pairs), "key": f"pool_{name}_{index}"}
            st.button(word(f"pool.{name}"), icon=f":material/chevron_{side.lower()}:", **kwargs)


def _judge(judging_pool: JudgingPool, index: int, verdict: RelevanceVerdict) -> None:
    corpus = judging_pool.question_set.corpus_fingerprint
    store_verdict(corpus, judging_pool.question(index).text, judging_pool.passage(index).id, verdict)
    target = judging_pool.next_open(index)
    remember("pool_at", str((index if target is None else target) + 1))


def _draw_model(judging_pool: JudgingPool) -> None:
    st.caption(word("pool.by_model_about"))
    container = st.empty()
    with st.container(horizontal=True, vertical_alignment="center"):
        model = pick_language_model()
        corpus = judging_pool.question_set.corpus_fingerprint
        known = judge.load_model_verdicts(corpus).get(model.name, {}) if model else {}
        indices = range(len(judging_pool.pairs))
        questions = [judging_pool.question(index).text for index in indices]
        to_judge = [judge.JudgementRequest(questions[index], judging_pool.passage(index)) for index in indices]
        done = sum((composed(item.question), item.passage.id) in known for item in to_judge)
        label = word("pool.model_go_on" if 0 < done < len(to_judge) else "pool.model_begin")
        pressed = st.button(label, disabled=not model, icon=":material/play_arrow:", key="pool_model")
    if model and known:
        counts = {"done": f"{done:,}", "total": f"{len(to_judge):,}"}
        st.caption(word("pool.model_done", model=plain(model.name), **counts))
    if st.session_state.pop(_STOPPED, False):
        st.info(word("pool.model_stopped"), icon=":material/info:")
    if pressed and model:
        try:
            _ask(corpus, to_judge, model, container)
        except (EndpointError, LimitError, QuestionsError) as error:
            container.error(plain(words.failure_text(error)), icon=":material/error:")


def _ask(
    corpus: str, to_judge: Sequence[judge.JudgementRequest], model: LanguageModel, container: DeltaGenerator
) -> None:
    started = time.monotonic()
    last_update = 0.0
    first = None
    with container.container():
        bar = st.progress(0.0, word("pool.progress", done="0", total=f"{len(to_judge):,}"))
        st.button(word("job.stop"), on_click=_stop, icon=":material/stop:", key="pool_model_stop")

    def follow(done: int, total: int) -> None:
        nonlocal last_update, first
        first = done if first is None else first
        if time.monotonic() - last_update < _SECONDS_BETWEEN_WORDS:
            return
        last_update = time.monotonic()
        text = word("pool.progress", done=f"{done:,}", total=f"{total:,}")
        if done > first:
            left = (last_update - started) * (total - done) / (done - first)
            text = word("job.left", at_work=text, left=words.duration(left))
        bar.progress(done / total, text)

    options = judge.JudgeOptions(model.name, PromptLanguage(words.language()))
    judged = judge.judge_with_model(corpus, to_judge, options, model.endpoint(), follow)
    container.empty()
    if not judged.failed_count:
        st.rerun()
    reason = words.failure_text(judged.error) if judged.error else judged.answer_excerpt
    message = word("pool.model_failed", count=f"{judged.failed_count:,}", reason=plain(reason))
    container.warning(message, icon=":material/warning:")


def _stop() -> None:
    st.session_state[_STOPPED] = True
