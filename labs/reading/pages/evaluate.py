"""The Evaluate tab: what a reader answers from what each retriever finds, over the questions of the set."""

import io
import json
import zipfile
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.labs.reading.evaluate import ReaderSpec, ReadingExperiment
from mrc_workbench.labs.reading.pages.evaluation import ReadingView, difference_table, long_table, open_reading
from mrc_workbench.labs.reading.pages.page import AvailableReaders, pick_k, pick_reader, pick_retrievers
from mrc_workbench.labs.reading.scores import EXACT, ScoringRules
from mrc_workbench.labs.reading.study import STUDY, file_name
from mrc_workbench.models.files import ModelError
from mrc_workbench.workbench.views.choices import RetrieverChoices
from mrc_workbench.workbench.views.names import retriever_name
from mrc_workbench.workbench.views.resources.sets import split_of
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.job import begin, draw_job
from mrc_workbench.workbench.views.ui.state import choose, choose_named, choose_tab
from mrc_workbench.workbench.views.ui.words import failure_text, plain, word

VIEWS = {"summary": "draw_summary", "slices": "draw_slices", "questions": "draw_questions"}


def draw(data: StoredSet, choices: RetrieverChoices, readers: AvailableReaders) -> None:
    if not data.questions:
        st.info(word("answers.no_questions"), icon=":material/info:")
        return
    answer = st.container()
    retrievers = pick_retrievers(data, choices)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        reader = pick_reader(readers)
        k = pick_k()
        names = {rule.value: word(f"answers.rules_{rule}") for rule in ScoringRules}
        look: dict[str, Any] = {"help": word("answers.rules_help"), "width": 130, "format_func": names.get}
        rules = ScoringRules(
            choose(st.selectbox, "rules", word("answers.rules"), [*names], ScoringRules.KORQUAD.value, **look)
        )
        measure = _pick_measure(rules)
        split = _training_split(data, choices, retrievers, readers, reader)
        part = _pick_part(data, split)
    if not retrievers or part is None:
        answer.info(word("answers.no_questions" if retrievers else "search.select_retriever"), icon=":material/info:")
        return
    spec = ReaderSpec(name=readers.names.get(reader, reader)[:100], model=reader)
    experiment = ReadingExperiment(
        data=data.key,
        split=part,
        validation_share=split.validation,
        test_share=split.test,
        seed=split.seed,
        strict_split=split.strict,
        retriever=tuple(choices.needed(retrievers)),
        rules=rules,
        reader=(spec,),
    )
    try:
        job = STUDY.job(experiment, data.fingerprint)
    except ModelError as error:
        answer.error(plain(failure_text(error)), icon=":material/error:")
        return
    stored = open_reading(data.key, job.folder) if job.done else None
    if stored is None:
        with answer:
            _draw_job(job, experiment, data)
        return
    view = ReadingView(data, job.folder, stored, tuple(retrievers), tuple(choices.specs), measure, k)
    _draw_evaluation(view, answer)
    if readers.has_seen(reader, data, part):
        name = plain(readers.names.get(reader, reader))
        answer.warning(word("answers.has_seen", reader=name), icon=":material/warning:")
    with st.container(horizontal=True):
        if view.answers_by_retriever:
            _draw_downloads(view)
        if st.button(word("answers.again"), icon=":material/replay:", key="evaluate_again"):
            begin(lambda: job.start(experiment))


def _draw_job(job: StudyJob[ReadingExperiment, Any], experiment: ReadingExperiment, data: StoredSet) -> None:
    def progress_text(status: Status) -> str:
        if not status.phase:
            return word("answers.starting")
        is_reading = status.phase in {reader.name for reader in experiment.reader}
        if is_reading:
            return word("answers.reading", name=plain(status.phase))
        return word("answers.searching", name=plain(retriever_name(status.phase)))

    split = experiment.split_options
    rows = split_of(data.key, split).rows
    questions = len(rows[experiment.split])
    n_validation = len(rows[Part.VALIDATION]) if experiment.split in (Part.TEST, Part.TRAIN) else 0
    pairs = (questions + n_validation) * experiment.max_depth * len(experiment.retriever)
    about = word("answers.to_read", questions=f"{questions:,}", depth=experiment.max_depth, pairs=f"{pairs:,}")
    draw_job(job, lambda: job.start(experiment), progress_text, "answers", word("answers.evaluate"), about=about)


def _draw_evaluation(view: ReadingView, answer: DeltaGenerator) -> None:
    with answer:
        if view.reader.error:
            st.error(plain(failure_text(view.reader.error)), icon=":material/error:")
            return
        for result in view.stored.result.comparison.results:
            if result.error and result.name in view.retrievers:
                details = {"name": plain(retriever_name(result.name)), "reason": plain(failure_text(result.error))}
                st.error(word("answers.retriever_failed", **details), icon=":material/error:")
        if view.answers_by_retriever:
            _draw_answer(view)
    if not view.answers_by_retriever:
        return
    name, container = choose_tab("answers_look", {name: word(f"answers.view_{name}") for name in VIEWS})
    with container:
        getattr(import_module("mrc_workbench.labs.reading.pages.results"), VIEWS[name])(view)


def _draw_answer(view: ReadingView) -> None:
    best = view.best_retriever()
    metrics = view.metrics(best)
    kind = "exact" if view.measure == EXACT else "overlap"
    low, high = metrics["interval"][view.measure]
    fractions = {"value": metrics[view.measure], "oracle": view.oracle[view.measure], "low": low, "high": high}
    values = {name: f"{100 * fraction:{'.0f' if kind == 'exact' else '.1f'}}" for name, fraction in fractions.items()}
    values |= {"name": plain(view.display_names[best]), "measure": word(f"answers.measure_{view.measure}")}
    text = word(f"answers.answer_{kind}_{'one' if view.k == 1 else 'many'}", k=view.k, **values)
    st.markdown(" ".join([text, *_significance_sentences(view, best)]))


def _significance_sentences(view: ReadingView, best: str) -> list[str]:
    """Return whether the best is significantly better than the next one and, if not, than which others."""
    table = difference_table(view)
    of_best = table[table["a"] == best]
    if of_best.empty:
        return []
    runner_up = of_best.iloc[-1]
    significant = of_best[of_best["sure"]]
    sentences = []
    for row in [runner_up] if runner_up["sure"] or significant.empty else [runner_up, significant.iloc[0]]:
        values = {name: f"{row[name]:+.1f}".replace("-", "−") for name in ("low", "high")}
        names = {"name": plain(view.display_names[best]), "other": plain(view.display_names[row["b"]])}
        values |= names | {"points": f"{row['difference']:.1f}"}
        is_identical = not (row["low"] or row["high"])  # question by question
        key = "not" if is_identical else "sure" if row["sure"] else "unsure"
        sentences.append(word(f"answers.apart_{key}", **values, k=view.tested_k))
    return sentences


def _draw_downloads(view: ReadingView) -> None:
    tables.draw_csv("answers.csv", lambda: long_table(view), "answers.csv", "answers_csv")
    scores_json = partial(json.dumps, view.stored.scores, ensure_ascii=False, indent=2)
    archive = partial(zip_predictions, view)
    tables.draw_file("answers.json", scores_json, "scores.json", "application/json", "answers_json")
    tables.draw_file("answers.predictions", archive, "predictions.zip", "application/zip", "answers_predictions")


def zip_predictions(view: ReadingView) -> bytes:
    """Return a zip with a file for each retriever and K, as KorQuAD's script reads them."""
    ids = [question.id for question in view.question_set.questions]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as files:
        for number, (name, answered) in enumerate(view.answers_by_retriever.items(), start=1):
            for index, k in enumerate(view.ks):
                content = json.dumps(dict(zip(ids, answered.answers(index), strict=True)), ensure_ascii=False, indent=1)
                files.writestr(f"{number:02}-{file_name(name)}-{k}.json", content)
    return archive.getvalue()


def _training_split(
    data: StoredSet, choices: RetrieverChoices, retrievers: Sequence[str], readers: AvailableReaders, reader: str
) -> SplitOptions:
    """Return the split by which the reader, else a retriever, was trained."""
    run = readers.runs.get(reader)
    if run and run.plan().fingerprint == data.fingerprint:
        return run.plan().split
    plans = [choices.trained[name] for name in retrievers if name in choices.trained]
    return plans[-1].split if plans else SplitOptions()


def _pick_measure(rules: ScoringRules) -> str:
    """Draw the choice of the measure; returns `EXACT` or the name of the rules' overlap."""
    measures = {EXACT: EXACT, "overlap": rules.overlap_name}
    look: dict[str, Any] = {"format_func": lambda name: word(f"answers.measure_{measures[name]}")}
    label = word("compare.measure")
    explained = word("answers.measure_help")
    return measures[choose(st.segmented_control, "right_by", label, [*measures], EXACT, help=explained, **look)]


def _pick_part(data: StoredSet, split: SplitOptions) -> Part | None:
    try:
        rows = split_of(data.key, split).rows
    except DataError:
        return None
    names = {
        part.value: word("answers.part_of", part=word(f"part.{part}"), questions=f"{len(rows[part]):,}")
        for part in Part
        if len(rows[part])
    }
    if not names:
        return None
    default = Part.TEST.value if Part.TEST.value in names else next(iter(names))
    look: dict[str, Any] = {"help": word("answers.part_help"), "width": 150}
    return Part(choose_named("answered_part", word("compare.questions"), names, default, **look))
