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
from mrc_workbench.data.workspace import LimitError, run_as_current_user
from mrc_workbench.labs.reading.extractive import mean_score_gap
from mrc_workbench.labs.reading.generate import stored_answer, stream_answer
from mrc_workbench.labs.reading.generator import (
    CITATION,
    GeneratedAnswer,
    GenerationRequest,
    Generator,
    Support,
    check_citations,
    load_prompts,
    parse_citations,
)
from mrc_workbench.labs.reading.pages import page, passages
from mrc_workbench.labs.reading.pages.evaluation import Weight, format_probability, stored_weights
from mrc_workbench.labs.reading.scores import ReadingError, ScoringRules
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.llm import EndpointError, remove_thoughts
from mrc_workbench.retrieval.rankings import QueryHits
from mrc_workbench.workbench.views.choices import RetrieverChoices
from mrc_workbench.workbench.views.resources.retrieval import truth_in
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.search.answer import QuestionSearch
from mrc_workbench.workbench.views.search.judging import draw_judged, draw_mark
from mrc_workbench.workbench.views.ui.job import LanguageModel, pick_language_model
from mrc_workbench.workbench.views.ui.passages import draw_style
from mrc_workbench.workbench.views.ui.words import failure_text, language, plain, search_failure_text, show_errors, word

if TYPE_CHECKING:
    from mrc_workbench.models.llm_connection import Chat  # imports the library

_STOPPED = "answers_stopped"
_UPDATE_SECONDS = 0.15
# characters while it comes and then, and citations
_MAX_STREAMED_CHARACTERS = 2000
_MAX_ANSWER_CHARACTERS = 20_000
_MAX_CITATIONS = 50
_StreamItem = str | GeneratedAnswer | Exception
_SUPPORT_SIGNS = {Support.HOLDS: "✔", Support.LACKS: "✘", Support.NEVER_SENT: "?"}


@dataclass(frozen=True)
class _QuestionContext:
    """A question of a set, and the rows of the passages that are known to answer it, by the set and by a person."""

    data: StoredSet
    question: str
    set_rows: tuple[int, ...]
    judged_rows: tuple[int, ...]

    @property
    def questions(self) -> QuestionSet:
        return question_set(self.data.key)

    @property
    def relevant(self) -> frozenset[int]:
        return frozenset((*self.set_rows, *self.judged_rows))


def draw(data: StoredSet, choices: RetrieverChoices, readers: page.AvailableReaders) -> None:
    draw_style()
    question = page.draw_box(data)
    retrievers = page.pick_retrievers(data, choices)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        reader = page.pick_reader(readers)
        k = page.pick_k()
        model = pick_language_model()
    is_loaded = not reader or page.is_loading_confirmed(readers, reader)
    if st.session_state.pop("search_stopped", False):
        st.info(word("search.stopped"), icon=":material/info:")
    elif not question and is_loaded:
        st.info(word("answers.ask_something"), icon=":material/question_answer:")
    elif not retrievers:
        st.info(word("search.select_retriever"), icon=":material/info:")
    elif question:
        questions = question_set(data.key)
        truth = truth_in(data.key, question)
        page.draw_truth(truth)
        ids = judgements.find_right_passages(judgements.load_judgements(questions.corpus_fingerprint), question)
        judged_rows = tuple(questions.row_of_passage[id_] for id_ in ids if id_ in questions.row_of_passage)
        context = _QuestionContext(data, question, truth.rows if truth else (), judged_rows)
        _draw_results(context, choices, retrievers, k, reader=reader if is_loaded else "", model=model)
    draw_judged(data)


def _draw_results(
    context: _QuestionContext,
    choices: RetrieverChoices,
    retrievers: Sequence[str],
    k: int,
    *,
    reader: str,
    model: LanguageModel | None,
) -> None:
    outcomes = dict(QuestionSearch(context.data, choices, retrievers, context.question).outcomes(st.empty()))
    findings = {name: result for name in retrievers if isinstance(result := outcomes[name], QueryHits)}
    readings = _read_passages(context, findings, k, reader)
    weights = stored_weights(context.data, reader) if reader else {}
    columns = {}
    for name, result in findings.items():
        rows = result.rows[:k]
        scores = result.scores[:k]
        weight, unit = weights.get(name) or Weight(0.0, mean_score_gap(np.array([scores])) if scores else 1.0)
        passage_readings = [readings.get(row, passages.PassageReading()) for row in rows]
        spans = [result.spans for result in passage_readings]
        has_no_answer = all(result.has_no_answer for result in passage_readings)
        known = context.relevant
        columns[name] = passages.build_column(
            name, rows, scores, spans, relevant=known, weight=weight, unit=unit, has_no_answer=has_no_answer
        )
    if reader and any(column.is_read for column in columns.values()):
        passages.draw_legend(others=True)
    pending: list[tuple[DeltaGenerator, passages.ReadColumn, str]] = []
    for number, (container, name) in enumerate(zip(st.columns(len(retrievers)), retrievers, strict=True)):
        with container.container(gap="small"):
            if name not in columns:
                st.error(plain(search_failure_text(outcomes[name])), icon=":material/error:")  # type: ignore[arg-type]
                continue
            column = columns[name]
            anchor = f"answers-{number}"
            passages.draw_head(column, list(choices.specs))
            _draw_answer(context, column, anchor)
            pending.append((st.container(gap="small"), column, anchor))
            mark = partial(_draw_mark, context, anchor)
            passages.draw_passages(column, choices.specs[name], context.questions, anchor=anchor, draw_below=mark)
    if model:  # last, when all else is there to be read
        for container, column, anchor in pending:
            _draw_generated(context, container, column, anchor, model)


def _read_passages(
    context: _QuestionContext, findings: dict[str, QueryHits], k: int, reader: str
) -> dict[int, passages.PassageReading]:
    rows = tuple(sorted({row for finding in findings.values() for row in finding.rows[:k]}))
    if not reader or not rows:
        return {}
    try:
        with st.spinner(word("answers.reading_passages"), show_time=True):
            return dict(
                zip(rows, passages.read_passages(reader, context.data.key, context.question, rows), strict=True)
            )
    except ModelError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return {}


def _draw_answer(context: _QuestionContext, column: passages.ReadColumn, key: str) -> None:
    if not column.passages:
        st.info(word("search.no_results"), icon=":material/info:")
        return
    if column.selected_index < 0:
        return
    selected = column.passages[column.selected_index]
    answer_text = passages.selected_answer(column, context.questions)
    if column.has_no_answer:
        st.caption(f":material/do_not_disturb_on: {word('answers.says_nothing')}")
    st.markdown(f"### {plain(answer_text)}")
    st.caption(word("answers.from_passage", p=format_probability(selected.best), rank=column.selected_index + 1))
    _draw_judging(context.questions, context.question, answer_text, context.questions.passages.ids[selected.row], key)
    if context.relevant and (explanation := passages.explain_selection(column, context.questions)):
        st.caption(explanation)


def _draw_generated(
    context: _QuestionContext, container: DeltaGenerator, column: passages.ReadColumn, anchor: str, model: LanguageModel
) -> None:
    sent = [context.questions.passages[item.row] for item in column.passages]
    if not sent:
        return
    generated = _generate_answer(container, model, context.question, sent, anchor)
    if generated and not generated.refused and generated.cited_answer.text:
        citations = check_citations(generated.cited_answer, generated.passages, ScoringRules.KORQUAD)
        holding = (generated.passages[item.number - 1].id for item in citations if item.support is Support.HOLDS)
        with container:
            _draw_judging(
                context.questions, context.question, generated.cited_answer.text, next(holding, ""), f"{anchor}-model"
            )


def _draw_judging(questions: QuestionSet, question: str, answer: str, passage: str, key: str) -> None:
    """Draw the buttons that judge an answer from a passage (an id; empty if unknown)."""
    corpus = questions.corpus_fingerprint
    judged = judgements.find_answer_judgement(judgements.load_judged_answers(corpus), question, answer)
    with st.container(horizontal=True):
        for right, name, icon in ((True, "right", "thumb_up"), (False, "wrong", "thumb_down")):
            is_selected = judged is right
            st.button(
                word(f"answers.judge_{name}"),
                icon=f":material/{icon}:",
                type="primary" if is_selected else "tertiary",
                help=word("judging.unmark_help" if is_selected else f"answers.judge_{name}_help"),
                on_click=_store_judgement,
                args=(corpus, question, answer, passage, None if is_selected else right),
                key=f"judge_answer_{name}_{key}",
            )


def _store_judgement(corpus: str, question: str, answer: str, passage: str, right: bool | None) -> None:
    with show_errors():
        judgements.judge_answer(corpus, question, answer, right)
        if right and passage:  # where the answer stands is what a question set is made of
            judgements.judge_passage(corpus, question, passage, judgements.RelevanceVerdict.RIGHT)


def _draw_mark(context: _QuestionContext, anchor: str, passage: passages.ReadPassage) -> None:
    if passage.row not in context.set_rows:
        key = f"{anchor} {passage.row}"
        draw_mark(context.questions, context.question, passage.row, key, is_right=passage.row in context.judged_rows)


def _generate_answer(
    container: DeltaGenerator, model: LanguageModel, question: str, sent: Sequence[Passage], anchor: str
) -> GeneratedAnswer | None:
    """Draw a model's answer word by word; returns it, None if it failed or was stopped.

    A stopped answer is asked again only by a button. A stored answer is drawn at once.
    """
    stopped = st.session_state.setdefault(_STOPPED, set())
    stopped_key = (model.name, question)
    with container.container(gap="xsmall"):
        st.markdown(f"**{plain(model.name)}**")
        answer_box = st.empty()
        button = st.empty()
        try:
            request = GenerationRequest("asked", question, sent)
            prompt = load_prompts()[language()]
            generator = Generator(name=model.name, model=model.name, prompt=prompt, most_passages=len(sent))
            generated = stored_answer(generator, request)
            if not generated and stopped_key in stopped:
                answer_box.caption(word("answers.was_stopped"))
                button.button(
                    word("answers.ask_again"), key=f"again_{anchor}", on_click=stopped.discard, args=(stopped_key,)
                )
                return None
            if not generated:
                icon = ":material/stop:"
                end = stopped.add
                button.button(word("answers.stop"), icon=icon, key=f"stop_{anchor}", on_click=end, args=(stopped_key,))
                answer_box.caption(word("answers.waiting"))
                chat = generator.chat(model.endpoint())
                generated = _follow_stream(answer_box, chat, stream_answer(generator, chat, request))
        except (EndpointError, LimitError, ReadingError) as error:
            answer_box.error(plain(failure_text(error)), icon=":material/error:")
            button.button(word("answers.ask_again"), key=f"again_{anchor}", icon=":material/replay:")
            return None
        button.empty()
        answer_box.html(answer_html(generated.response, anchor, len(generated.passages)))
        _draw_checks(generated, anchor)
        _draw_usage(generated)
    return generated


def answer_html(response: str, anchor: str, count: int) -> str:
    """Return an answer with its citations as links to the passages; unknown numbers are no links."""

    def links(citation: regex.Match[str]) -> str:
        return "".join(_link_html(number, anchor, count) for number in parse_citations(citation.group()).numbers)

    text = remove_thoughts(response).strip()
    text = text if len(text) <= _MAX_ANSWER_CHARACTERS else f"{text[:_MAX_ANSWER_CHARACTERS]} …"
    return f'<p class="generated">{CITATION.sub(links, escape(text))}</p>'


def _link_html(number: int, anchor: str, count: int) -> str:
    if not 0 < number <= count:
        return f"[{number}]"
    return f'<a href="#{escape(anchor)}-{number}" target="_self">[{number}]</a>'


def _follow_stream(
    container: DeltaGenerator, chat: "Chat", pieces: Pieces[str, None, GeneratedAnswer]
) -> GeneratedAnswer:
    """Draw the end of the answer as it streams; a click, or a page that is left, ends the call."""
    queue = Queue[_StreamItem]()
    Thread(target=run_as_current_user(_enqueue_pieces), args=(pieces, queue), daemon=True).start()
    text = ""
    is_truncated = False
    try:
        while True:
            item = _next_item(queue)
            if isinstance(item, Exception):
                raise item
            if isinstance(item, GeneratedAnswer):
                return item
            text += item
            is_truncated = is_truncated or len(text) > _MAX_STREAMED_CHARACTERS
            text = text[-_MAX_STREAMED_CHARACTERS:]
            displayed_text = plain(remove_thoughts(text)) if text else ""
            waiting = f":gray[{word('answers.thinking' if text else 'answers.waiting')}]"
            container.markdown(f"… {displayed_text}" if is_truncated and displayed_text else displayed_text or waiting)
    finally:
        chat.stop()


def _next_item(queue: "Queue[_StreamItem]") -> _StreamItem:
    """Return the text of a moment; empty if nothing came."""
    text = ""
    deadline = time.monotonic() + _UPDATE_SECONDS
    while (remaining := deadline - time.monotonic()) > 0:
        try:
            item = queue.get(timeout=remaining)
        except Empty:
            break
        if not isinstance(item, str):
            return item
        text += item
    return text


def _enqueue_pieces(pieces: Pieces[str, None, GeneratedAnswer], queue: "Queue[_StreamItem]") -> None:
    try:
        while True:
            queue.put(next(pieces))
    except StopIteration as end:
        queue.put(end.value)
    except Exception as error:
        queue.put(error)


def _draw_checks(generated: GeneratedAnswer, anchor: str) -> None:
    if generated.refused:
        st.caption(word("answers.refused"))
        return
    citations = check_citations(generated.cited_answer, generated.passages, ScoringRules.KORQUAD)
    if not citations:
        st.caption(word("answers.cites_nothing"))
        return
    checks = []
    for number, support in citations[:_MAX_CITATIONS]:
        text = escape(word(f"answers.support_{support}"))
        checks.append(f"{_link_html(number, anchor, len(generated.passages))} {_SUPPORT_SIGNS[support]} {text}")
    st.html(f'<p class="generated"><small>{escape(word("answers.checked"))} {" · ".join(checks)}</small></p>')


def _draw_usage(generated: GeneratedAnswer) -> None:
    usage = generated.usage
    tokens = {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens}
    counts = {name: "–" if count is None else f"{count:,}" for name, count in tokens.items()}
    seconds = {"first": f"{usage.first_seconds:.1f}", "seconds": f"{usage.seconds:.1f}"}
    st.caption(word("answers.usage", **counts, **seconds))
