"""The Ask tab: one question, what each retriever finds, and what is answered from it, right or wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.questions.judgements import (
    Verdict,
    judge,
    judge_answer,
    judged_answer,
    judged_answers,
    judged_passages,
    judgements_of,
)
from data.records import QuestionSet
from data.split import Part
from data.store import StoredSet
from models.hub import ModelError
from reading.extractive import spread
from reading.generator import Support, checked
from reading.rules import Rules
from retrieval.rankings import Findings, truth_of
from views.choices import Choices
from views.reading import controls, generated
from views.reading.controls import Readers, is_wanted, pick_k, pick_reader, pick_retrievers
from views.reading.evaluation import Weight, kept_weights, probability
from views.reading.passages import (
    ReadColumn,
    Reading,
    ReadPassage,
    answer_of,
    draw_head,
    draw_passages,
    legend,
    read,
    read_column,
    reason,
)
from views.resources.sets import question_set
from views.search.answer import search
from views.search.judging import draw_judged, draw_mark
from views.ui.job import LanguageModel, pick_language_model
from views.ui.passages import draw_style
from views.ui.problems import errors_told, failure_text, search_failure_text
from views.ui.words import plain, word


def draw_judging(questions: QuestionSet, question: str, answer: str, passage: str, key: str) -> None:
    """Draw the buttons that judge an answer to a question, read from a passage (an id; empty where nobody knows)."""
    corpus = questions.corpus_fingerprint
    judged = judged_answer(judged_answers(corpus), question, answer)
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
        judge_answer(corpus, question, answer, right)
        if right and passage:  # where the answer stands is what a question set is made of
            judge(corpus, question, passage, Verdict.RIGHT)


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


def draw(data: StoredSet, choices: Choices, readers: Readers) -> None:
    draw_style()
    question = controls.draw_box(data)
    picked = pick_retrievers(data, choices)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        reader = pick_reader(readers)
        k = pick_k()
        model = pick_language_model()
    loaded = not reader or is_wanted(readers, reader)
    if st.session_state.pop("search_stopped", False):
        st.info(word("search.stopped"), icon=":material/info:")
    elif not question and loaded:
        st.info(word("answers.ask_something"), icon=":material/question_answer:")
    elif not picked:
        st.info(word("search.pick_one"), icon=":material/info:")
    elif question:
        questions = question_set(data.key)
        truth = truth_of(questions, question)
        controls.draw_truth(truth)
        ids = judged_passages(judgements_of(questions.corpus_fingerprint), question)
        judged = tuple(questions.row_of_passage[id_] for id_ in ids if id_ in questions.row_of_passage)
        of = _Asked(data, question, truth.rows if truth else (), judged)
        _draw_results(of, choices, picked, k, reader=reader if loaded else "", model=model)
    draw_judged(data)


def _draw_results(
    of: _Asked, choices: Choices, picked: Sequence[str], k: int, *, reader: str, model: LanguageModel | None
) -> None:
    # the experiment of Search: retrievers that are loaded there are loaded here
    experiment = choices.experiment(of.data, choices.searchable, Part.ALL)
    outcomes = search(of.data, experiment, [spec.name for spec in choices.needed(list(picked))], of.question)
    found = {name: one for name in picked if isinstance(one := outcomes[name], Findings)}
    readings = _read(of, found, k, reader)
    weights = kept_weights(of.data, reader) if reader else {}
    columns = {
        name: _column(of, name, one, k, readings=readings, chosen=weights.get(name)) for name, one in found.items()
    }
    if reader and any(column.read for column in columns.values()):
        legend(others=True)
    waiting: list[tuple[DeltaGenerator, ReadColumn, str]] = []
    for number, (place, name) in enumerate(zip(st.columns(len(picked)), picked, strict=True)):
        with place.container(gap="small"):
            if name not in columns:
                st.error(plain(search_failure_text(outcomes[name])), icon=":material/error:")  # type: ignore[arg-type]
                continue
            column, anchor = columns[name], f"answers-{number}"
            draw_head(column, list(choices.specs))
            _draw_answer(of, column, anchor)
            waiting.append((st.container(gap="small"), column, anchor))
            draw_passages(
                column,
                choices.specs[name],
                of.questions,
                anchor=anchor,
                below=partial(_draw_mark, of, anchor),
            )
    if model:  # last, when all else is there to be read
        for place, column, anchor in waiting:
            _draw_generated(of, place, column, anchor, model)


def _read(of: _Asked, found: dict[str, Findings], k: int, reader: str) -> dict[int, Reading]:
    """What the reader sees in each passage found, by its row; each is read once, whoever found it."""
    rows = tuple(sorted({row for one in found.values() for row in one.rows[:k]}))
    if not reader or not rows:
        return {}
    try:
        with st.spinner(word("answers.reading_passages"), show_time=True):
            return dict(zip(rows, read(reader, of.data.key, of.question, rows), strict=True))
    except ModelError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return {}


def _column(
    of: _Asked, name: str, found: Findings, k: int, *, readings: dict[int, Reading], chosen: Weight | None
) -> ReadColumn:
    rows, scores = found.rows[:k], found.scores[:k]
    weight = chosen or Weight(0.0, spread(np.array([scores])) if scores else 1.0)
    seen = [readings.get(row, Reading()) for row in rows]
    return read_column(
        name,
        rows,
        scores,
        [one.spans for one in seen],
        relevant=of.relevant,
        weight=weight.weight,
        unit=weight.unit,
        silent=all(one.silent for one in seen),
    )


def _draw_answer(of: _Asked, column: ReadColumn, key: str) -> None:
    if not column.passages:
        st.info(word("search.found_nothing"), icon=":material/info:")
        return
    if column.won < 0:
        return
    won, answer = column.passages[column.won], answer_of(column, of.questions)
    if column.silent:
        st.caption(f":material/do_not_disturb_on: {word('answers.says_nothing')}")
    st.markdown(f"### {plain(answer)}")
    st.caption(word("answers.from_passage", p=probability(won.best), rank=column.won + 1))
    draw_judging(of.questions, of.question, answer, of.questions.passages.ids[won.row], key)
    if of.relevant and (why := reason(column, of.questions)):
        st.caption(why)


def _draw_generated(of: _Asked, place: DeltaGenerator, column: ReadColumn, anchor: str, model: LanguageModel) -> None:
    passages = [of.questions.passages[one.row] for one in column.passages]
    if not passages:
        return
    found = generated.draw(place, model, of.question, passages, anchor)
    if found and not found.refused and found.cited.text:
        citations = checked(found.cited, found.sent, Rules.KORQUAD)
        holding = (found.sent[one.number - 1].id for one in citations if one.support is Support.HOLDS)
        with place:
            draw_judging(of.questions, of.question, found.cited.text, next(holding, ""), f"{anchor}-model")


def _draw_mark(of: _Asked, anchor: str, one: ReadPassage) -> None:
    if one.row not in of.by_set:
        key = f"{anchor} {one.row}"
        draw_mark(of.questions, of.question, one.row, key, is_right=one.row in of.by_person)
