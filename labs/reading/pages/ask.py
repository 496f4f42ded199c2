"""The Ask tab: one question, what each retriever finds, and what is answered from it, right or wrong; and what a
language model says as it comes, its citations held against the passages.
"""

import time
from collections.abc import Generator as Pieces
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np
import regex
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.questions import judgements
from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.workspace import LimitError, for_this_user
from mrc_workbench.labs.reading.extractive import spread
from mrc_workbench.labs.reading.generate import answer, stored_answer
from mrc_workbench.labs.reading.generator import (
    CITATION,
    GeneratedAnswer,
    Generator,
    Request,
    Support,
    checked,
    cited,
    prompts,
)
from mrc_workbench.labs.reading.pages import page, passages
from mrc_workbench.labs.reading.pages.evaluation import Weight, probability, stored_weights
from mrc_workbench.labs.reading.scores import ReadingError, Rules
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.llm import EndpointError, without_thoughts
from mrc_workbench.retrieval.rankings import Findings
from mrc_workbench.workbench.views.choices import Choices
from mrc_workbench.workbench.views.resources.retrieval import truth_in
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.search.answer import Search
from mrc_workbench.workbench.views.search.judging import draw_judged, draw_mark
from mrc_workbench.workbench.views.ui.job import LanguageModel, pick_language_model
from mrc_workbench.workbench.views.ui.passages import draw_style
from mrc_workbench.workbench.views.ui.words import errors_told, failure_text, language, plain, search_failure_text, word

if TYPE_CHECKING:
    from mrc_workbench.models.llm_connection import Chat  # imports the library

_STOPPED = "answers_stopped"
_SECONDS_BETWEEN_WORDS = 0.15
_MOST_COMING, _MOST_SAID, _MOST_CHECKED = 2000, 20_000, 50  # characters while it comes and then, and citations
_News = str | GeneratedAnswer | Exception
_SIGNS = {Support.HOLDS: "✔", Support.LACKS: "✘", Support.NEVER_SENT: "?"}


@dataclass(frozen=True)
class _Asked:
    """A question of a set, and the rows of the passages that are known to answer it, by the set and by a person."""

    data: StoredSet
    question: str
    by_set: tuple[int, ...]
    by_person: tuple[int, ...]

    @property
    def questions(self) -> QuestionSet:
        return question_set(self.data.key)

    @property
    def relevant(self) -> frozenset[int]:
        return frozenset((*self.by_set, *self.by_person))


def draw(data: StoredSet, choices: Choices, readers: page.Readers) -> None:
    draw_style()
    question = page.draw_box(data)
    picked = page.pick_retrievers(data, choices)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        reader = page.pick_reader(readers)
        k = page.pick_k()
        model = pick_language_model()
    loaded = not reader or page.is_wanted(readers, reader)
    if st.session_state.pop("search_stopped", False):
        st.info(word("search.stopped"), icon=":material/info:")
    elif not question and loaded:
        st.info(word("answers.ask_something"), icon=":material/question_answer:")
    elif not picked:
        st.info(word("search.pick_one"), icon=":material/info:")
    elif question:
        questions = question_set(data.key)
        truth = truth_in(data.key, question)
        page.draw_truth(truth)
        ids = judgements.judged_passages(judgements.judgements_of(questions.corpus_fingerprint), question)
        judged = tuple(questions.row_of_passage[id_] for id_ in ids if id_ in questions.row_of_passage)
        of = _Asked(data, question, truth.rows if truth else (), judged)
        _draw_results(of, choices, picked, k, reader=reader if loaded else "", model=model)
    draw_judged(data)


def _draw_results(
    of: _Asked, choices: Choices, picked: Sequence[str], k: int, *, reader: str, model: LanguageModel | None
) -> None:
    outcomes = dict(Search(of.data, choices, picked, of.question).outcomes(st.empty()))
    found = {name: one for name in picked if isinstance(one := outcomes[name], Findings)}
    readings = _read(of, found, k, reader)
    weights = stored_weights(of.data, reader) if reader else {}
    columns = {}
    for name, one in found.items():
        rows, scores = one.rows[:k], one.scores[:k]
        weight, unit = weights.get(name) or Weight(0.0, spread(np.array([scores])) if scores else 1.0)
        seen = [readings.get(row, passages.Reading()) for row in rows]
        spans, silent, known = [one.spans for one in seen], all(one.silent for one in seen), of.relevant
        columns[name] = passages.read_column(
            name, rows, scores, spans, relevant=known, weight=weight, unit=unit, silent=silent
        )
    if reader and any(column.read for column in columns.values()):
        passages.legend(others=True)
    waiting: list[tuple[DeltaGenerator, passages.ReadColumn, str]] = []
    for number, (place, name) in enumerate(zip(st.columns(len(picked)), picked, strict=True)):
        with place.container(gap="small"):
            if name not in columns:
                st.error(plain(search_failure_text(outcomes[name])), icon=":material/error:")  # type: ignore[arg-type]
                continue
            column, anchor = columns[name], f"answers-{number}"
            passages.draw_head(column, list(choices.specs))
            _draw_answer(of, column, anchor)
            waiting.append((st.container(gap="small"), column, anchor))
            mark = partial(_draw_mark, of, anchor)
            passages.draw_passages(column, choices.specs[name], of.questions, anchor=anchor, below=mark)
    if model:  # last, when all else is there to be read
        for place, column, anchor in waiting:
            _draw_generated(of, place, column, anchor, model)


def _read(of: _Asked, found: dict[str, Findings], k: int, reader: str) -> dict[int, passages.Reading]:
    rows = tuple(sorted({row for one in found.values() for row in one.rows[:k]}))
    if not reader or not rows:
        return {}
    try:
        with st.spinner(word("answers.reading_passages"), show_time=True):
            return dict(zip(rows, passages.read(reader, of.data.key, of.question, rows), strict=True))
    except ModelError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return {}


def _draw_answer(of: _Asked, column: passages.ReadColumn, key: str) -> None:
    if not column.passages:
        st.info(word("search.found_nothing"), icon=":material/info:")
        return
    if column.won < 0:
        return
    won, said = column.passages[column.won], passages.answer_of(column, of.questions)
    if column.silent:
        st.caption(f":material/do_not_disturb_on: {word('answers.says_nothing')}")
    st.markdown(f"### {plain(said)}")
    st.caption(word("answers.from_passage", p=probability(won.best), rank=column.won + 1))
    _draw_judging(of.questions, of.question, said, of.questions.passages.ids[won.row], key)
    if of.relevant and (why := passages.reason(column, of.questions)):
        st.caption(why)


def _draw_generated(
    of: _Asked, place: DeltaGenerator, column: passages.ReadColumn, anchor: str, model: LanguageModel
) -> None:
    sent = [of.questions.passages[one.row] for one in column.passages]
    if not sent:
        return
    found = _generated(place, model, of.question, sent, anchor)
    if found and not found.refused and found.cited.text:
        citations = checked(found.cited, found.sent, Rules.KORQUAD)
        holding = (found.sent[one.number - 1].id for one in citations if one.support is Support.HOLDS)
        with place:
            _draw_judging(of.questions, of.question, found.cited.text, next(holding, ""), f"{anchor}-model")


def _draw_judging(questions: QuestionSet, question: str, answer: str, passage: str, key: str) -> None:
    """Draw the buttons that judge an answer from a passage (an id; empty if unknown)."""
    corpus = questions.corpus_fingerprint
    judged = judgements.judged_answer(judgements.judged_answers(corpus), question, answer)
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
        judgements.judge_answer(corpus, question, answer, right)
        if right and passage:  # where the answer stands is what a question set is made of
            judgements.judge(corpus, question, passage, judgements.Verdict.RIGHT)


def _draw_mark(of: _Asked, anchor: str, one: passages.ReadPassage) -> None:
    if one.row not in of.by_set:
        key = f"{anchor} {one.row}"
        draw_mark(of.questions, of.question, one.row, key, is_right=one.row in of.by_person)


def _generated(
    place: DeltaGenerator, model: LanguageModel, question: str, sent: Sequence[Passage], anchor: str
) -> GeneratedAnswer | None:
    """Draw a model's answer word by word; returns it, None if it failed or was stopped.

    A stopped answer is asked again only by a button. A stored answer is drawn at once.
    """
    stopped, this = st.session_state.setdefault(_STOPPED, set()), (model.name, question)
    with place.container(gap="xsmall"):
        st.markdown(f"**{plain(model.name)}**")
        said, button = st.empty(), st.empty()
        try:
            request, prompt = Request("asked", question, sent), prompts()[language()]
            generator = Generator(name=model.name, model=model.name, prompt=prompt, most_passages=len(sent))
            found = stored_answer(generator, request)
            if not found and this in stopped:
                said.caption(word("answers.was_stopped"))
                button.button(word("answers.ask_again"), key=f"again_{anchor}", on_click=stopped.discard, args=(this,))
                return None
            if not found:
                icon, end = ":material/stop:", stopped.add
                button.button(word("answers.stop"), icon=icon, key=f"stop_{anchor}", on_click=end, args=(this,))
                said.caption(word("answers.waiting"))
                chat = generator.chat(model.endpoint())
                found = _followed(said, chat, answer(generator, chat, request))
        except (EndpointError, LimitError, ReadingError) as error:
            said.error(plain(failure_text(error)), icon=":material/error:")
            button.button(word("answers.ask_again"), key=f"again_{anchor}", icon=":material/replay:")
            return None
        button.empty()
        said.html(answer_html(found.said, anchor, len(found.sent)))
        _draw_checks(found, anchor)
        _draw_usage(found)
    return found


def answer_html(said: str, anchor: str, count: int) -> str:
    """Return an answer with its citations as links to the passages; unknown numbers are no links."""

    def links(citation: regex.Match[str]) -> str:
        return "".join(_link_html(number, anchor, count) for number in cited(citation.group()).numbers)

    text = without_thoughts(said).strip()
    text = text if len(text) <= _MOST_SAID else f"{text[:_MOST_SAID]} …"
    return f'<p class="generated">{CITATION.sub(links, escape(text))}</p>'


def _link_html(number: int, anchor: str, count: int) -> str:
    if not 0 < number <= count:
        return f"[{number}]"
    return f'<a href="#{escape(anchor)}-{number}" target="_self">[{number}]</a>'


def _followed(place: DeltaGenerator, chat: "Chat", pieces: Pieces[str, None, GeneratedAnswer]) -> GeneratedAnswer:
    """Draw the end of the answer as it streams; a click, or a page that is left, ends the call."""
    news = Queue[_News]()
    Thread(target=for_this_user(_pump), args=(pieces, news), daemon=True).start()
    said, cut = "", False
    try:
        while True:
            came = _next_of(news)
            if isinstance(came, Exception):
                raise came
            if isinstance(came, GeneratedAnswer):
                return came
            said += came
            cut = cut or len(said) > _MOST_COMING
            said = said[-_MOST_COMING:]
            shown = plain(without_thoughts(said)) if said else ""
            waiting = f":gray[{word('answers.thinking' if said else 'answers.waiting')}]"
            place.markdown(f"… {shown}" if cut and shown else shown or waiting)
    finally:
        chat.stop()


def _next_of(news: "Queue[_News]") -> _News:
    """Return the text of a moment; empty if nothing came."""
    came, until = "", time.monotonic() + _SECONDS_BETWEEN_WORDS
    while (left := until - time.monotonic()) > 0:
        try:
            one = news.get(timeout=left)
        except Empty:
            break
        if not isinstance(one, str):
            return one
        came += one
    return came


def _pump(pieces: Pieces[str, None, GeneratedAnswer], news: "Queue[_News]") -> None:
    try:
        while True:
            news.put(next(pieces))
    except StopIteration as end:
        news.put(end.value)
    except Exception as error:
        news.put(error)


def _draw_checks(found: GeneratedAnswer, anchor: str) -> None:
    if found.refused:
        st.caption(word("answers.refused"))
        return
    citations = checked(found.cited, found.sent, Rules.KORQUAD)
    if not citations:
        st.caption(word("answers.cites_nothing"))
        return
    checks = []
    for number, support in citations[:_MOST_CHECKED]:
        text = escape(word(f"answers.support_{support}"))
        checks.append(f"{_link_html(number, anchor, len(found.sent))} {_SIGNS[support]} {text}")
    st.html(f'<p class="generated"><small>{escape(word("answers.checked"))} {" · ".join(checks)}</small></p>')


def _draw_usage(found: GeneratedAnswer) -> None:
    usage = found.usage
    tokens = {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens}
    counts = {name: "–" if count is None else f"{count:,}" for name, count in tokens.items()}
    seconds = {"first": f"{usage.first_seconds:.1f}", "seconds": f"{usage.seconds:.1f}"}
    st.caption(word("answers.usage", **counts, **seconds))
