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
from mrc_workbench.labs.reading.pages.page import Readers, pick_k, pick_reader, pick_retrievers
from mrc_workbench.labs.reading.scores import EXACT, Rules
from mrc_workbench.labs.reading.study import STUDY, file_name
from mrc_workbench.models.files import ModelError
from mrc_workbench.workbench.views.choices import Choices
from mrc_workbench.workbench.views.names import retriever_name
from mrc_workbench.workbench.views.resources.sets import split_of
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.job import begin, draw_job
from mrc_workbench.workbench.views.ui.state import choose, choose_named, choose_tab
from mrc_workbench.workbench.views.ui.words import failure_text, plain, word

VIEWS = {"summary": "draw_summary", "slices": "draw_slices", "questions": "draw_questions"}


def draw(data: StoredSet, choices: Choices, readers: Readers) -> None:
    if not data.questions:
        st.info(word("answers.no_questions"), icon=":material/info:")
        return
    answer = st.container()
    picked = pick_retrievers(data, choices)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        reader = pick_reader(readers)
        k = pick_k()
        names = {one.value: word(f"answers.rules_{one}") for one in Rules}
        look: dict[str, Any] = {"help": word("answers.rules_help"), "width": 130, "format_func": names.get}
        rules = Rules(choose(st.selectbox, "rules", word("answers.rules"), [*names], Rules.KORQUAD.value, **look))
        measure = _pick_measure(rules)
        shares = _shares(data, choices, picked, readers, reader)
        part = _pick_part(data, shares)
    if not picked or part is None:
        answer.info(word("answers.no_questions" if picked else "search.pick_one"), icon=":material/info:")
        return
    spec = ReaderSpec(name=readers.names.get(reader, reader)[:100], model=reader)
    experiment = ReadingExperiment(
        data=data.key,
        split=part,
        validation_share=shares.validation,
        test_share=shares.test,
        seed=shares.seed,
        strict_split=shares.strict,
        retriever=tuple(choices.needed(picked)),
        rules=rules,
        reader=(spec,),
    )
    try:
        job = STUDY.job(experiment, data.fingerprint)
    except ModelError as error:
        answer.error(plain(failure_text(error)), icon=":material/error:")
        return
    kept = open_reading(data.key, job.folder) if job.done else None
    if kept is None:
        with answer:
            _draw_job(job, experiment, data)
        return
    view = ReadingView(data, job.folder, kept, tuple(picked), tuple(choices.specs), measure, k)
    _draw_evaluation(view, answer)
    if readers.has_seen(reader, data, part):
        name = plain(readers.names.get(reader, reader))
        answer.warning(word("answers.has_seen", reader=name), icon=":material/warning:")
    with st.container(horizontal=True):
        if view.answered:
            _draw_downloads(view)
        if st.button(word("answers.again"), icon=":material/replay:", key="evaluate_again"):
            begin(lambda: job.start(experiment))


def _draw_job(job: StudyJob[ReadingExperiment, Any], experiment: ReadingExperiment, data: StoredSet) -> None:
    def at_work(status: Status) -> str:
        if not status.phase:
            return word("answers.starting")
        reads = status.phase in {one.name for one in experiment.reader}
        if reads:
            return word("answers.reading", name=plain(status.phase))
        return word("answers.searching", name=plain(retriever_name(status.phase)))

    shares = experiment.split_options
    rows = split_of(data.key, shares).rows
    questions = len(rows[experiment.split])
    chosen_on = len(rows[Part.VALIDATION]) if experiment.split in (Part.TEST, Part.TRAIN) else 0
    pairs = (questions + chosen_on) * experiment.deepest * len(experiment.retriever)
    about = word("answers.to_read", questions=f"{questions:,}", depth=experiment.deepest, pairs=f"{pairs:,}")
    draw_job(job, lambda: job.start(experiment), at_work, "answers", word("answers.evaluate"), about=about)


def _draw_evaluation(view: ReadingView, answer: DeltaGenerator) -> None:
    with answer:
        if view.reader.error:
            st.error(plain(failure_text(view.reader.error)), icon=":material/error:")
            return
        for result in view.kept.result.comparison.results:
            if result.error and result.name in view.picked:
                told = {"name": plain(retriever_name(result.name)), "reason": plain(failure_text(result.error))}
                st.error(word("answers.retriever_failed", **told), icon=":material/error:")
        if view.answered:
            _draw_answer(view)
    if not view.answered:
        return
    name, place = choose_tab("answers_look", {name: word(f"answers.view_{name}") for name in VIEWS})
    with place:
        getattr(import_module("mrc_workbench.labs.reading.pages.results"), VIEWS[name])(view)


def _draw_answer(view: ReadingView) -> None:
    best = view.best()
    told, kind = view.shares(best), "exact" if view.measure == EXACT else "overlap"
    low, high = told["interval"][view.measure]
    shares = {"value": told[view.measure], "oracle": view.oracle[view.measure], "low": low, "high": high}
    values = {name: f"{100 * share:{'.0f' if kind == 'exact' else '.1f'}}" for name, share in shares.items()}
    values |= {"name": plain(view.display_names[best]), "measure": word(f"answers.measure_{view.measure}")}
    said = word(f"answers.answer_{kind}_{'one' if view.k == 1 else 'many'}", k=view.k, **values)
    st.markdown(" ".join([said, *_apart(view, best)]))


def _apart(view: ReadingView, best: str) -> list[str]:
    """Return whether the best is significantly better than the next one and, if not, than which others."""
    table = difference_table(view)
    of_best = table[table["a"] == best]
    if of_best.empty:
        return []
    next_one, sure = of_best.iloc[-1], of_best[of_best["sure"]]
    said = []
    for row in [next_one] if next_one["sure"] or sure.empty else [next_one, sure.iloc[0]]:
        values = {name: f"{row[name]:+.1f}".replace("-", "−") for name in ("low", "high")}
        names = {"name": plain(view.display_names[best]), "other": plain(view.display_names[row["b"]])}
        values |= names | {"points": f"{row['difference']:.1f}"}
        alike = not (row["low"] or row["high"])  # question by question
        key = "not" if alike else "sure" if row["sure"] else "unsure"
        said.append(word(f"answers.apart_{key}", **values, k=view.tested))
    return said


def _draw_downloads(view: ReadingView) -> None:
    tables.draw_csv("answers.csv", lambda: long_table(view), "answers.csv", "answers_csv")
    told, archive = partial(json.dumps, view.kept.told, ensure_ascii=False, indent=2), partial(predictions, view)
    tables.draw_file("answers.json", told, "scores.json", "application/json", "answers_json")
    tables.draw_file("answers.predictions", archive, "predictions.zip", "application/zip", "answers_predictions")


def predictions(view: ReadingView) -> bytes:
    """Return a zip with a file for each retriever and K, as KorQuAD's script reads them."""
    ids, archive = [question.id for question in view.asked.questions], io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as files:
        for number, (name, answered) in enumerate(view.answered.items(), start=1):
            for place, k in enumerate(view.ks):
                said = json.dumps(dict(zip(ids, answered.answers(place), strict=True)), ensure_ascii=False, indent=1)
                files.writestr(f"{number:02}-{file_name(name)}-{k}.json", said)
    return archive.getvalue()


def _shares(data: StoredSet, choices: Choices, picked: Sequence[str], readers: Readers, reader: str) -> SplitOptions:
    """Return the split by which the reader, else a retriever, was trained."""
    run = readers.runs.get(reader)
    if run and run.plan().fingerprint == data.fingerprint:
        return run.plan().split
    plans = [choices.trained[name] for name in picked if name in choices.trained]
    return plans[-1].split if plans else SplitOptions()


def _pick_measure(rules: Rules) -> str:
    """Draw the choice of the measure; returns `EXACT` or the name of the rules' overlap."""
    measures = {EXACT: EXACT, "overlap": rules.overlap_name}
    look: dict[str, Any] = {"format_func": lambda one: word(f"answers.measure_{measures[one]}")}
    label, explained = word("compare.measure"), word("answers.measure_help")
    return measures[choose(st.segmented_control, "right_by", label, [*measures], EXACT, help=explained, **look)]


def _pick_part(data: StoredSet, shares: SplitOptions) -> Part | None:
    try:
        rows = split_of(data.key, shares).rows
    except DataError:
        return None
    names = {
        part.value: word("answers.part_of", part=word(f"part.{part}"), questions=f"{len(rows[part]):,}")
        for part in Part
        if len(rows[part])
    }
    if not names:
        return None
    usual = Part.TEST.value if Part.TEST.value in names else next(iter(names))
    look: dict[str, Any] = {"help": word("answers.part_help"), "width": 150}
    return Part(choose_named("answered_part", word("compare.questions"), names, usual, **look))
