"""The Evaluate tab: what a reader answers from what each retriever finds, over the questions of the set."""

from collections.abc import Sequence
from importlib import import_module

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.split import Part, SplitOptions
from data.store import StoredSet
from models.hub import ModelError
from reading.experiment import ReaderSpec, ReadingExperiment
from reading.job import ReadingJob
from reading.rules import Rules
from retrieval.comparison.kinds.spec import Spec
from views.choices import Choices
from views.reading import answer as evaluation_answer
from views.reading import downloads, running
from views.reading.controls import (
    Readers,
    pick_k,
    pick_measure,
    pick_part,
    pick_reader,
    pick_retrievers,
    pick_rules,
    reader_name,
)
from views.reading.evaluation_view import ReadingView, open_reading
from views.resources.sets import split_of
from views.ui.problems import failure_text
from views.ui.state import choose_tab
from views.ui.words import plain, word

VIEWS = {name: f"views.reading.{name}" for name in ("summary", "slices", "questions")}


def draw(data: StoredSet, choices: Choices, readers: Readers) -> None:
    """Draw the answer, the controls, and the evaluation of what is picked, or the button that starts it."""
    if not data.questions:
        st.info(word("answers.no_questions"), icon=":material/info:")
        return
    answer = st.container()
    picked = pick_retrievers(data, choices)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        reader = pick_reader(readers)
        k = pick_k()
        rules = pick_rules()
        measure = pick_measure(rules)
        shares = _shares(data, choices, picked, readers, reader)
        part = pick_part(data, shares)
    with answer:
        if not picked:
            st.info(word("search.pick_one"), icon=":material/info:")
        elif part is None:
            st.info(word("answers.no_questions"), icon=":material/info:")
    if not (picked and part):
        return
    spec = ReaderSpec(name=readers.names.get(reader, reader)[:100], model=reader)
    experiment = _experiment(data, choices.needed(picked), part, shares, reader=spec, rules=rules)
    try:
        job = ReadingJob.of(experiment, data.fingerprint)
    except ModelError as error:
        answer.error(plain(failure_text(error)), icon=":material/error:")
        return
    kept = open_reading(data.key, job.folder) if job.done else None
    if kept is None:
        with answer:
            running.draw(job, experiment, _work(data, experiment))
        return
    view = ReadingView(data, job.folder, kept, tuple(picked), tuple(choices.specs), measure, k)
    _draw_evaluation(view, answer)
    if readers.has_seen(reader, data, part):
        answer.warning(word("answers.has_seen", reader=reader_name(readers, reader)), icon=":material/warning:")
    with st.container(horizontal=True):
        if view.answered:
            downloads.draw(view)
        if st.button(word("answers.again"), icon=":material/replay:", key="evaluate_again"):
            running.start(job, experiment)


def _draw_evaluation(view: ReadingView, answer: DeltaGenerator) -> None:
    with answer:
        if view.reader.error:
            st.error(plain(failure_text(view.reader.error)), icon=":material/error:")
            return
        for result in view.kept.result.comparison.results:
            if result.error and result.name in view.picked:
                told = {"name": plain(result.name), "reason": plain(failure_text(result.error))}
                st.error(word("answers.retriever_failed", **told), icon=":material/error:")
        if view.answered:
            evaluation_answer.draw(view)
    if not view.answered:
        return
    name, place = choose_tab("answers_look", {name: word(f"answers.view_{name}") for name in VIEWS})
    with place:
        import_module(VIEWS[name]).draw(view)


def _shares(data: StoredSet, choices: Choices, picked: Sequence[str], readers: Readers, reader: str) -> SplitOptions:
    """How the questions are split: as the reader learned from them, else as the retrievers did."""
    run = readers.runs.get(reader)
    if run and run.plan().fingerprint == data.fingerprint:
        return run.plan().split
    plans = [choices.trained[name] for name in picked if name in choices.trained]
    return plans[-1].split if plans else SplitOptions()


def _experiment(
    data: StoredSet, retrievers: Sequence[Spec], part: Part, shares: SplitOptions, *, reader: ReaderSpec, rules: Rules
) -> ReadingExperiment:
    return ReadingExperiment(
        data=data.key,
        split=part,
        validation_share=shares.validation,
        test_share=shares.test,
        seed=shares.seed,
        retriever=tuple(retrievers),
        rules=rules,
        reader=(reader,),
    )


def _work(data: StoredSet, experiment: ReadingExperiment) -> str:
    """Say how many pairs are to be read at most."""
    shares = experiment.split_options
    rows = split_of(data.key, shares.validation, shares.test, shares.seed).rows
    questions = len(rows[experiment.split])
    chosen_on = len(rows[Part.VALIDATION]) if experiment.split in (Part.TEST, Part.TRAIN) else 0
    pairs = (questions + chosen_on) * experiment.deepest * len(experiment.retriever)
    return word("answers.to_read", questions=f"{questions:,}", depth=experiment.deepest, pairs=f"{pairs:,}")
