"""The Train page: fine-tune a model of any kind.

Rankers and readers learn from the selected question set, sentence encoders from pairs, and language models from the
passages of the set or from a text. The form checks and stores each entry at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import streamlit as st

from mrc_workbench.data.pairs import split_pairs
from mrc_workbench.data.pairs.store import StoredPairs
from mrc_workbench.data.split import PARTS, Part, SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.text.corpora import PassageCorpus, StoredText, open_stored_text
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.multistage import MIN_LABELLED_QUESTIONS
from mrc_workbench.retrieval.comparison.store import list_comparisons, read_provenance
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.training.jobs import QUEUE, CompositeRun, DryRunTask, all_jobs
from mrc_workbench.training.options import OptionError, TrainingOptions
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER
from mrc_workbench.training.recipes import RECIPES, get_recipe, ranking_kinds
from mrc_workbench.training.recipes.sentence_data import PAIR_FAMILY
from mrc_workbench.training.runs import TrainingPlan, all_runs, find_model_run, new_plan
from mrc_workbench.training.text_options import LANGUAGE_MODEL
from mrc_workbench.workbench.views import names
from mrc_workbench.workbench.views.names import kind_name, pair_set_name
from mrc_workbench.workbench.views.navigation import open_page
from mrc_workbench.workbench.views.resources import sets
from mrc_workbench.workbench.views.study import TextSource, pick_text, reference_of, text_source_name
from mrc_workbench.workbench.views.train import start
from mrc_workbench.workbench.views.train.ablation import draw_ablation
from mrc_workbench.workbench.views.train.base import Base, pick_base, pick_objective
from mrc_workbench.workbench.views.train.cards import draw_stopped, latest_stopped
from mrc_workbench.workbench.views.train.fields import OptionFields
from mrc_workbench.workbench.views.train.runs import draw_queue, draw_running, draw_runs
from mrc_workbench.workbench.views.ui.state import choose, offer, remember, remembered, scroll_to_top
from mrc_workbench.workbench.views.ui.words import language, particle, plain, word, word_or


def draw() -> None:
    QUEUE.ensure_worker()  # after a restart of the machine, queued runs have no worker
    data = sets.selected_set()
    st.title(word("train.title"))
    running = QUEUE.running_job()
    if running:
        scroll_to_top(running.id)
        draw_running(running)
    draw_queue(running, QUEUE.queued())
    jobs = sorted(all_jobs(), key=lambda job: job.id, reverse=True)
    stopped = None if running else latest_stopped(jobs)
    if stopped:
        draw_stopped(stopped)
    kind = _pick_kind()
    if get_recipe(kind).family is PAIR_FAMILY:
        _draw_training(kind, pick_pairs())
    elif kind == LANGUAGE_MODEL:
        _draw_training(kind, pick_text(data))
    elif data.questions:
        draw_untrained(data)
        _draw_training(kind, data)
    else:
        st.info(word("train.no_questions"), icon=":material/info:")
        if st.button(word("train.to_data"), key="to_data"):
            open_page("data")
    composite_ids = {job.id for job in jobs if isinstance(job, CompositeRun)}
    parts = (job for job in jobs if (trial := job.plan().trial) is not None and trial.parent_id in composite_ids)
    elsewhere = {running, stopped, *QUEUE.queued(), *parts}
    draw_runs([job for job in jobs if job not in elsewhere], is_training=bool(running))


def draw_untrained(data: StoredSet) -> None:
    """Draw the best score of untrained retrievers in comparisons of the same questions, except on test questions."""
    if data.questions - data.generated < MIN_LABELLED_QUESTIONS:
        return
    best: tuple[str, Measure, float] | None = None
    questions: tuple[Part, int, int] | None = None
    for stored in list_comparisons():
        evaluated = (stored.part, stored.relevance_level, stored.questions)
        is_same = stored.data_fingerprint == data.fingerprint and questions in (None, evaluated)
        if stored.part is Part.TEST or not is_same:
            continue
        untrained = _untrained_names(read_provenance(stored.folder).get("experiment", {}).get("retriever", ()))
        untrained_scores = {name: values for name, values in stored.metrics.items() if name in untrained}
        rival = names.best_retriever(names.leading_measure(stored.ks), untrained_scores)
        if rival and (best is None or (rival[1] == best[1] and rival[2] > best[2])):
            best = rival
            questions = evaluated
    text = word("train.untrained_unknown")
    if best is not None and questions is not None:
        name, measure, mean = best
        score = f"{100 * mean:.1f}"
        score += particle(score, "이", "가") if language() == "ko" else ""
        values = {"name": plain(names.retriever_name(name)), "measure": measure.long_name, "score": score}
        text = word("train.untrained", **values, questions=f"{questions[2]:,}")
    st.caption(f":material/bolt: {text}")


def _untrained_names(specs: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names of the retrievers that use no model trained here, directly or through a component."""
    components = {str(spec["name"]): {*spec.get("retrievers", ()), spec.get("first_stage")} for spec in specs}
    trained = {str(spec["name"]) for spec in specs if find_model_run(str(spec.get("model", "")))}
    untrained = set(components) - trained
    while dependent := {name for name in untrained if trained & components[name]}:
        trained |= dependent
        untrained -= dependent
    return untrained


def _pick_kind() -> str:
    """Draw the default kinds and the selected one, and the others in a popover; returns the selected kind."""
    popover_key = "train_more_kinds_open"

    def select(kind: str) -> None:
        remember("train", kind)
        st.session_state[popover_key] = False

    selected = remembered("train", BI_ENCODER, list(RECIPES))
    first = list(dict.fromkeys([BI_ENCODER, CROSS_ENCODER, selected]))
    kwargs: dict[str, Any] = {"required": True, "label_visibility": "collapsed", "width": "content"}
    with st.container(horizontal=True, vertical_alignment="center"):
        kind = choose(st.pills, "train", word("train.kind"), first, BI_ENCODER, format_func=kind_name, **kwargs)
        with st.popover(word("train.more_kinds"), type="tertiary", key=popover_key, on_change="rerun") as popover:
            for other in (other for other in RECIPES if popover.open and other not in first):
                button: dict[str, Any] = {"key": f"train_kind_{other}", "on_click": select, "args": (other,)}
                st.button(kind_name(other), width="stretch", **button)
                st.caption(word_or(f"train.about_{other}", get_recipe(other).summary))
    return kind


def pick_pairs() -> StoredPairs:
    """Draw the choice of a set; the address stores it, and the Embeddings page uses it too."""
    stored = {pairs.key: pairs for pairs in sets.stored_pairs()}
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        kwargs: dict[str, Any] = {"format_func": lambda key: pair_set_name(stored[key])}
        kwargs["help"] = word("train.pairs_help")
        key = choose(st.selectbox, "pairs", word("train.pairs"), list(stored), next(iter(stored)), **kwargs)
    counts = {part.value: f"{len(rows):,}" for part, rows in sets.parts_of(key).items()}
    right.caption(word("train.pairs_about", kind=word(f"pair_kind.{stored[key].kind.value}"), **counts))
    return stored[key]


def _draw_training(kind: str, data: TextSource | StoredPairs) -> None:
    name = pair_set_name(data) if isinstance(data, StoredPairs) else text_source_name(data)
    st.markdown(word_or(f"train.get_{kind}", get_recipe(kind).summary, data=plain(name)))
    if isinstance(data, StoredSet) and data.generated and kind != LANGUAGE_MODEL:
        st.caption(f":material/auto_awesome: {word('train.made', made=f'{data.generated:,}')}")
    base = pick_base(kind)
    st.toggle(word("train.settings"), key="show_settings")  # only on narrow screens: see look.css
    with st.container(key="settings_objective"):
        objective = pick_objective(kind, base, data)
    draw_form(kind, base, objective, data)


@st.fragment
def draw_form(kind: str, base: Base, objective: str, data: TextSource | StoredPairs) -> None:
    """Draw the form. Each entry is stored at once, so that it survives a change of base or page."""
    form = OptionFields(kind, base, objective)
    with st.container(border=True):
        with st.container(key="settings_first"):  # narrow screens show these on request
            name_column, *columns = st.columns(4)
            with name_column:
                # a start changes the key, which resets the name
                key = f"train_{kind}_name_{start.trainings_started()}"
                # a short name, because tables display it; the runs of a comparison have a common prefix
                taken = {run.plan().name.split(" · ")[0] for run in all_runs()}
                numbered = (f"{kind_name(kind)} {number}" for number in count(1))
                default_name = next(name for name in numbered if name not in taken)
                offer(key, default_name)
                name = st.text_input(word("train.name"), key=key, max_chars=80, persist_state="session")
            form.draw_first(columns)
        form.draw_needed()
        with st.container(key="settings_more"):
            form.draw_more()
            negatives = form.draw_negatives()
        buttons = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="right")
        messages = st.container()  # below the buttons, which must not move during a click
        with messages:
            entered = _build_plan(form, data, kind, name.strip() or default_name)
            if entered and isinstance(data, StoredSet) and kind != LANGUAGE_MODEL:
                parts = sets.split_of(data.key, entered.split)
                names.draw_split(parts)
                names.warn_if_parts_are_small(parts, PARTS if entered.split.test else (Part.TRAIN, Part.VALIDATION))
        plan = entered if base.usable else None
        estimate = start.dry_run_of(plan, DryRunTask.ESTIMATE)
        with buttons:
            if changed := form.changed:  # also in collapsed groups
                labels = ", ".join(word_or(f"option.{name}", name) for name in changed)
                kwargs: dict[str, Any] = {"icon": ":material/undo:", "type": "tertiary", "key": "train_take_back"}
                st.button(word("train.take_back", count=len(changed)), on_click=form.reset, help=labels, **kwargs)
            if not base.usable:
                st.caption(word("train.base_first"), width="content")
            start.draw_known_time(plan)
            start.draw_dry_run_button(DryRunTask.ESTIMATE, estimate, messages)
            start.draw_start_button(plan, messages)
        with messages:
            start.start_default_estimate(estimate, form)
            start.draw_estimate(estimate, form)
    if negatives is not None:
        with negatives:
            start.draw_negatives(start.dry_run_of(plan, DryRunTask.NEGATIVES))
    if kind == LANGUAGE_MODEL:
        draw_ablation(plan)
    elif kind in ranking_kinds():
        start.draw_several(kind, plan, base)


def _build_plan(form: OptionFields, data: TextSource | StoredPairs, kind: str, name: str) -> TrainingPlan | None:
    """Return the plan of the entered values; None if one is invalid, with an error beside its field."""
    try:
        split = replace(SplitOptions(*form.split()), strict=form.is_strict_on(data.fingerprint))
        options = get_recipe(kind).options(**form.options())
        training_source = _check_data(kind, data, split, options)
        for field, model in form.models().items():
            try:
                find_model(model)
            except ModelError as error:
                raise OptionError(field, error.code, str(error)) from error
    except OptionError as error:
        form.report(error.option, word_or(f"option_problem.{error.code}", str(error)))
        return None
    except ValueError:  # the fractions of the split
        form.report("validation", word("option_problem.validation"))
        return None
    return new_plan(kind, name, training_source, split, options)


def _check_data(
    kind: str, data: TextSource | StoredPairs, split: SplitOptions, options: TrainingOptions
) -> tuple[str, str, str]:
    """Return the reference, name and fingerprint of the data. Raises `OptionError` if they cannot train a model."""
    family = get_recipe(kind).family
    if kind == LANGUAGE_MODEL and not isinstance(data, StoredPairs):  # documents are split by their hashes
        corpus = open_stored_text(data) if isinstance(data, StoredText) else PassageCorpus(sets.question_set(data.key))
        family.check(corpus, options)
        return reference_of(data), data.name, corpus.fingerprint
    if isinstance(data, StoredSet):
        family.check(sets.question_set(data.key), options)
        rows = sets.split_of(data.key, split).rows
    else:
        pairs = sets.pair_set(data.key)
        family.check(pairs, options)
        rows = split_pairs(pairs, split)
    has_judge = bool(len(rows[Part.VALIDATION])) or bool(getattr(options, "evaluation_set", ""))
    if len(rows[Part.TRAIN]) < 2 or not has_judge:
        raise OptionError("validation", "validation_empty", "leaves nothing to train on or to measure on")
    return data.key, data.name, data.fingerprint
