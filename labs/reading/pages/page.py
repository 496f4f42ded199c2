"""The Answers page: the Ask and Evaluate tabs, their controls, or a start without any model."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from importlib import import_module
from typing import Any

import numpy as np
import streamlit as st

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.studies import StudyJob
from mrc_workbench.data.text.marking import MarkedText
from mrc_workbench.labs.reading.evaluate import DEFAULT_DEPTHS, ReaderSpec, ReadingExperiment
from mrc_workbench.labs.reading.pages.evaluation import ReadingView, latest_reading, open_reading
from mrc_workbench.labs.reading.scores import EXACT, ScoringRules
from mrc_workbench.labs.reading.study import STUDY
from mrc_workbench.models.files import ModelError
from mrc_workbench.retrieval.comparison.multistage import WORDS_NAME
from mrc_workbench.retrieval.rankings import GroundTruth
from mrc_workbench.training.jobs import QUEUE, DryRunJob, DryRunTask
from mrc_workbench.training.recipes import default_base, get_recipe
from mrc_workbench.training.runs import Run, new_plan
from mrc_workbench.training.text_options import READER
from mrc_workbench.workbench.views.choices import RetrieverChoices, choices_for, finished_runs, model_reference
from mrc_workbench.workbench.views.names import retriever_name, retriever_names
from mrc_workbench.workbench.views.navigation import open_page
from mrc_workbench.workbench.views.resources.sets import question_set, selected_set, split_of
from mrc_workbench.workbench.views.ui import state
from mrc_workbench.workbench.views.ui.job import draw_job, draw_language_model, language_model
from mrc_workbench.workbench.views.ui.passages import HitCard, draw_style, hits_html
from mrc_workbench.workbench.views.ui.words import failure_text, label_and_help, plain, word

TABS = ("ask", "evaluate")
_EXAMPLES = 3
# keys of the session
QUESTION_KEY = "answers_box"
_TYPED = "typed_readers"
_CONFIRMED = "confirmed_readers"
_HUB_MODEL = "answers_hub_model_name"
_REFERENCE = re.compile(r"[\w./:-]{1,200}")
_MAX_RETRIEVERS = 4
_MAX_TRIED_QUESTIONS = 200  # for an example


@dataclass(frozen=True)
class AvailableReaders:
    """Names by reference, the newest first, and the runs of trained readers."""

    names: Mapping[str, str]
    runs: Mapping[str, Run]

    def has_seen(self, reference: str, data: StoredSet, part: Part) -> bool:
        run = self.runs.get(reference)
        trained_on_it = run is not None and run.plan().fingerprint == data.fingerprint
        return trained_on_it and part in (Part.ALL, Part.TRAIN)


def draw() -> None:
    data = selected_set()
    readers = available_readers()
    st.title(word("answers.purpose"), anchor=False)
    if not readers.names and not language_model():
        _draw_start(data)
        return
    name, container = state.choose_tab("answers", {name: word(f"answers.tab_{name}") for name in TABS})
    with container:
        if name == "ask":
            import_module("mrc_workbench.labs.reading.pages.ask").draw(data, choices_for(data), readers)
        elif readers.names:
            _draw_evaluate(data, choices_for(data), readers)
        else:
            _draw_start(data)


def _draw_start(data: StoredSet) -> None:
    is_training = any(
        isinstance(run, Run) and run.plan().kind == READER for run in (QUEUE.running_job(), *QUEUE.queued())
    )
    st.markdown(word("answers.is_trained" if is_training else "answers.needs_reader"))
    label = word("answers.see_training") if is_training else _training_label(data)
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
    st.html(f'<div class="results-legend"><span><mark>{escape(word("answers.legend_known"))}</mark></span></div>')
    st.html(hits_html([hit]))


def marked_example(questions: QuestionSet) -> tuple[str, HitCard] | None:
    """Return the text of the first question whose passage contains its answer, and that passage with the answer marked.

    Tries only the first questions, so that a large dataset without answers takes no time.
    """
    for question in questions.questions[:_MAX_TRIED_QUESTIONS]:
        for answer, passage_id in zip(question.answers, question.relevant, strict=False):
            passage = questions.passages[questions.row_of_passage[passage_id]]
            start = passage.text.find(answer) if answer else -1
            if start < 0:
                continue
            text = MarkedText(passage.text, ((start, start + len(answer)),))
            hit = HitCard(1, "", passage.id, MarkedText(passage.title), text, relevant=True)
            return question.text, hit
    return None


def _training_label(data: StoredSet) -> str:
    options = get_recipe(READER).options.defaults_for(default_base(READER))
    plan = new_plan(READER, "", (data.key, data.name, data.fingerprint), SplitOptions(), options)
    try:
        seconds = DryRunJob.for_plan(plan, DryRunTask.ESTIMATE).estimate().seconds
    except (OSError, ValueError):
        return word("answers.train_one")
    return word("answers.train_one_in", minutes=math.ceil(seconds / 60))


def draw_box(data: StoredSet) -> str:
    examples, disputed = _examples(data)
    question = state.draw_question(
        QUESTION_KEY,
        next(iter(examples), ""),
        word("answers.question_help"),
        submit=word("answers.ask"),
        icon=":material/send:",
        on_submit=lambda: state.ask(QUESTION_KEY, st.session_state[QUESTION_KEY].strip()),
    )
    if examples:
        state.draw_examples(QUESTION_KEY, examples, word("answers.examples_help") if disputed else None)
    return question


def _examples(data: StoredSet) -> tuple[list[str], bool]:
    """Return questions for which retrievers differ in the latest evaluation, and True; else the first questions."""
    folder = latest_reading(data)
    disputed = list[str]()
    stored = open_reading(data.key, folder) if folder else None
    answers = [*stored.result.readers[0].by_retriever.values()] if stored and stored.result.readers else []
    if stored and answers:  # questions that some retrievers answer, then questions that none answers
        exact = np.stack([item.by_depth.exact[:, -1] for item in answers], axis=1)
        disputed_rows = np.flatnonzero(exact.std(axis=1) > 0)[: _EXAMPLES - 1].tolist()
        unanswered_rows = np.flatnonzero(exact.max(axis=1) == 0).tolist()
        rows = [*dict.fromkeys([*disputed_rows, *unanswered_rows])][:_EXAMPLES]
        disputed = [stored.result.question_set.questions[row].text for row in rows]
    return disputed or [item.text for item in question_set(data.key).questions[:_EXAMPLES]], bool(disputed)


def draw_truth(truth: GroundTruth | None) -> None:
    if truth is None:
        st.caption(word("search.truth_unknown"))
    else:
        answers = plain(", ".join(truth.answers) or "–")
        st.caption(word("answers.truth", answers=answers, passages=len(truth.rows)))


def available_readers() -> AvailableReaders:
    runs = {model_reference(run): run for run, plan in finished_runs().items() if plan.kind == READER}
    typed = st.session_state.setdefault(_TYPED, {})
    requested = st.query_params.get("reader", "")
    if requested not in runs and _REFERENCE.fullmatch(requested):
        typed[requested] = requested
    names = {reference: run.plan().name for reference, run in runs.items()}
    names |= {reference: reference for reference in typed if reference not in names}
    return AvailableReaders(names, runs)


def pick_reader(readers: AvailableReaders) -> str:
    names = readers.names or {"": word("answers.type_reader")}
    look = label_and_help("answers.reader") | {"accept_new_options": True, "width": 200}
    return state.choose_named("reader", names=names, default=next(iter(names)), **look)


def is_loading_confirmed(readers: AvailableReaders, reference: str) -> bool:
    """Whether a reader was trained here or the user pressed its Load button, which is drawn.

    Opening an address must not download a hub model.
    """
    confirmed: set[str] = st.session_state.setdefault(_CONFIRMED, set())
    if reference in readers.runs or reference in confirmed:
        return True
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/info: {word('answers.not_loaded', reader=plain(reference))}", width="content")
        look: dict[str, Any] = {"icon": ":material/download:", "key": "load_reader"}
        st.button(word("answers.load"), on_click=confirmed.add, args=(reference,), **look)
    return False


def _draw_hub_model() -> None:
    with st.form("answers_hub_model", border=False):
        look = label_and_help("answers.hub_model") | {"placeholder": word("answers.hub_model_form")}
        st.text_input(key=_HUB_MODEL, **look)
        st.form_submit_button(word("answers.use_model"), key="use_hub_model", type="primary", on_click=_use_hub_model)
    if st.session_state.get(_HUB_MODEL, "").strip():
        st.error(word("answers.no_hub_model"), icon=":material/error:")


def _use_hub_model() -> None:
    reference = st.session_state[_HUB_MODEL].strip()
    if _REFERENCE.fullmatch(reference):
        st.session_state.setdefault(_CONFIRMED, set()).add(reference)
        st.query_params["reader"] = reference


def pick_retrievers(data: StoredSet, choices: RetrieverChoices) -> list[str]:
    names = choices.searchable
    display_names = retriever_names(choices.specs)
    default = [name for name in choices.default_names if name in names and name != WORDS_NAME][:_MAX_RETRIEVERS]
    look: dict[str, Any] = {"key": f"answering_{data.key}_{len(names)}", "wrap": True}
    look["format_func"] = lambda name: plain(display_names[name])
    look["help"] = word("answers.retrievers_help", most=_MAX_RETRIEVERS)
    selected = state.choose_several(st.pills, "retrievers", word("compare.retrievers"), names, default, **look)
    if len(selected) > _MAX_RETRIEVERS:
        listed = plain(", ".join(display_names[name] for name in selected[:_MAX_RETRIEVERS]))
        st.caption(word("search.only_first", most=_MAX_RETRIEVERS, names=listed))
    return selected[:_MAX_RETRIEVERS]


def pick_k() -> int:
    options = [str(k) for k in DEFAULT_DEPTHS]
    return int(state.choose(st.selectbox, "read", "K", options, "5", help=word("answers.k_help"), width=80))


def _draw_evaluate(data: StoredSet, choices: RetrieverChoices, readers: AvailableReaders) -> None:
    """The Evaluate tab: a reader's answers from the passages of each retriever, over the questions of the set."""
    if not data.questions:
        st.info(word("answers.no_questions"), icon=":material/info:")
        return
    answer = st.container()
    retrievers = pick_retrievers(data, choices)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        reader = pick_reader(readers)
        k = pick_k()
        rules, measure = _pick_rules_and_measure()
        split = _training_split(data, choices, retrievers, readers, reader)
        part = _pick_part(data, split)
    if not retrievers or part is None:
        answer.info(word("answers.no_questions" if retrievers else "search.select_retriever"), icon=":material/info:")
        return
    experiment = ReadingExperiment(
        data=data.key,
        split=part,
        validation_fraction=split.validation,
        test_fraction=split.test,
        seed=split.seed,
        strict_split=split.strict,
        retriever=tuple(choices.needed(retrievers)),
        rules=rules,
        reader=(ReaderSpec(name=readers.names.get(reader, reader)[:100], model=reader),),
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
    results = import_module("mrc_workbench.labs.reading.pages.results")
    results.draw_evaluation(view, answer, partial(job.start, experiment))
    if readers.has_seen(reader, data, part):
        name = plain(readers.names.get(reader, reader))
        answer.warning(word("answers.has_seen", reader=name), icon=":material/warning:")


def _draw_job(job: StudyJob[ReadingExperiment, Any], experiment: ReadingExperiment, data: StoredSet) -> None:
    def progress_text(status: Status) -> str:
        if not status.phase:
            return word("answers.starting")
        if status.phase in {reader.name for reader in experiment.reader}:
            return word("answers.reading", name=plain(status.phase))
        return word("answers.searching", name=plain(retriever_name(status.phase)))

    rows = split_of(data.key, experiment.split_options).rows
    questions = len(rows[experiment.split])
    n_validation = len(rows[Part.VALIDATION]) if experiment.split in (Part.TEST, Part.TRAIN) else 0
    pairs = (questions + n_validation) * experiment.max_depth * len(experiment.retriever)
    about = word("answers.to_read", questions=f"{questions:,}", depth=experiment.max_depth, pairs=f"{pairs:,}")
    draw_job(job, lambda: job.start(experiment), progress_text, "answers", word("answers.evaluate"), about=about)


def _pick_rules_and_measure() -> tuple[ScoringRules, str]:
    """Draw both choices; the metric is `EXACT` or the name of the rules' overlap."""
    names = {rule.value: word(f"answers.rules_{rule}") for rule in ScoringRules}
    look = label_and_help("answers.rules") | {"width": 130, "format_func": names.get}
    rules = ScoringRules(state.choose(st.selectbox, "rules", options=[*names], default=ScoringRules.KORQUAD, **look))
    measures = {EXACT: EXACT, "overlap": rules.overlap_name}
    look = {"format_func": lambda name: word(f"answers.measure_{measures[name]}"), "help": word("answers.measure_help")}
    measure = state.choose(st.segmented_control, "right_by", word("compare.measure"), [*measures], EXACT, **look)
    return rules, measures[measure]


def _training_split(
    data: StoredSet, choices: RetrieverChoices, retrievers: Sequence[str], readers: AvailableReaders, reader: str
) -> SplitOptions:
    """Return the split of the reader's training, else of a retriever's."""
    run = readers.runs.get(reader)
    if run and run.plan().fingerprint == data.fingerprint:
        return run.plan().split
    plans = [choices.trained[name] for name in retrievers if name in choices.trained]
    return plans[-1].split if plans else SplitOptions()


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
    return Part(state.choose_named("answered_part", word("compare.questions"), names, default, **look))
