"""Train: fine-tune a model of any kind, watch it, and keep what came of it.

What ranks or reads passages learns from the question set in use, an encoder of sentences from pairs picked here, and a
language model from its passages or from a text. What is entered into the form is checked at once, and nothing of it is
lost; searches for settings and earlier trainings fill it in.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from itertools import count
from typing import Any

import streamlit as st

from mrc_workbench.data.pairs.records import split_pairs
from mrc_workbench.data.pairs.store import StoredPairs
from mrc_workbench.data.split import PARTS, Part, SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.text.corpora import PassageCorpus, StoredText, opened
from mrc_workbench.models.hub import ModelError
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.multistage import FEWEST
from mrc_workbench.retrieval.comparison.store import StoredComparison, kept_comparisons, origin_of
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.training.options.common import OptionError, TrainingOptions
from mrc_workbench.training.options.rankers import BI_ENCODER, CROSS_ENCODER, BiEncoderOptions
from mrc_workbench.training.options.texts import LANGUAGE_MODEL
from mrc_workbench.training.recipe import RECIPES, ranking_kinds, recipe_of
from mrc_workbench.training.runs import Plan, Run, all_runs, find_model_run, mined_by, new_plan
from mrc_workbench.training.text_options import LANGUAGE_MODEL
from mrc_workbench.workbench.views.leading import best_by, leading_measure
from mrc_workbench.workbench.views.names import kind_name, pair_set_name, retriever_name
from mrc_workbench.workbench.views.navigation import open_page
from mrc_workbench.workbench.views.resources.sets import (
    chosen_set,
    pair_set,
    parts_of,
    question_set,
    split_of,
    stored_pairs,
)
from mrc_workbench.workbench.views.splits import draw_few_of, draw_split
from mrc_workbench.workbench.views.texts import Learned, learned_name, pick_text, reference_of
from mrc_workbench.workbench.views.train.ablation import draw_ablation, draw_does_it_help
from mrc_workbench.workbench.views.train.base import NEEDED, Base, pick_base, pick_objective
from mrc_workbench.workbench.views.train.ended import draw_stopped, latest_stopped
from mrc_workbench.workbench.views.train.fields import OptionFields, entered_value, field_key
from mrc_workbench.workbench.views.train.runs import draw_at_work, draw_queue, draw_runs
from mrc_workbench.workbench.views.train.start import (
    asked_of,
    draw_ask_button,
    draw_estimate,
    draw_known_time,
    draw_negatives,
    draw_several,
    draw_start_button,
    estimate_by_itself,
    trainings_started,
)
from mrc_workbench.workbench.views.ui.state import choose, offer, remember, remembered, show_top
from mrc_workbench.workbench.views.ui.words import language, particle, plain, word, word_or

_FIRST_KINDS = (BI_ENCODER, CROSS_ENCODER)


def draw() -> None:
    QUEUE.keep_going()  # the machine may have been switched off while runs waited
    data = chosen_set()
    st.title(word("train.title"))
    at_work = QUEUE.at_work()
    if at_work:
        show_top(at_work.id)
        draw_at_work(at_work)
    draw_queue()
    jobs = sorted(all_jobs(), key=lambda job: job.id, reverse=True)
    stopped = None if at_work else latest_stopped(jobs)
    if stopped:
        draw_stopped(stopped)
    kind = _pick_kind()
    if recipe_of(kind).family is PAIRS:
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
    wholes = {job.id for job in jobs if isinstance(job, CompositeRun)}
    parts = (job for job in jobs if (trial := job.plan().trial) is not None and trial.search in wholes)
    elsewhere = {at_work, stopped, *QUEUE.queued(), *parts}
    ended = [job for job in jobs if job not in elsewhere]
    draw_runs(ended, fill_in_another_round, use_settings, draw_does_it_help, at_work=bool(at_work))


def draw_untrained(data: StoredSet) -> None:
    """Draw the best score that is reached without any training: what a training has to beat."""
    if data.questions - data.made >= FEWEST:
        best = _without_training(data.fingerprint)
        said = word("train.untrained", **best) if best else word("train.untrained_unknown")
        st.caption(f":material/bolt: {said}")


def _without_training(fingerprint: str) -> dict[str, str]:
    """Return the best untrained retriever of all comparisons of the same questions; empty if there is none.

    The questions are those of the last comparison. Test questions are left out: nothing is decided by those.
    """
    best: tuple[float, StoredComparison, str, Measure] | None = None
    for stored in kept_comparisons():
        if stored.data_fingerprint != fingerprint or stored.part is Part.TEST:
            continue
        if best and not _is_comparable(stored, best[1]):
            continue
        found = _best_untrained(stored)
        if found is None:
            continue
        name, measure, mean = found
        if best is None or (measure == best[3] and mean > best[0]):
            best = (mean, stored, name, measure)
    if best is None:
        return {}
    mean, stored, name, measure = best
    score = f"{100 * mean:.1f}"
    about = {"name": plain(retriever_name(name)), "measure": measure.long, "questions": f"{stored.questions:,}"}
    return about | {"score": score + particle(score, "이", "가") if language() == "ko" else score}


def _is_comparable(a: StoredComparison, b: StoredComparison) -> bool:
    """Return whether two comparisons of a dataset asked the same questions."""
    return (a.part, a.relevant_from, a.questions) == (b.part, b.relevant_from, b.questions)


def _best_untrained(stored: StoredComparison) -> tuple[str, Measure, float] | None:
    """Return the best untrained retriever of a comparison, the metric and its mean; None if it has none."""
    asked = origin_of(stored.folder).get("experiment", {}).get("retriever", ())
    untrained = _untrained_names(asked)
    figures = {name: values for name, values in stored.figures.items() if name in untrained}
    return best_by(leading_measure(stored.ks), figures)


def _untrained_names(specs: Sequence[Mapping[str, Any]]) -> set[str]:
    """Names of the retrievers that use no model trained here, in themselves or in a part of theirs."""
    parts = {str(spec["name"]): [*spec.get("of", ()), spec.get("first")] for spec in specs}
    trained = {str(spec["name"]) for spec in specs if find_model_run(str(spec.get("model", "")))}
    names = set(parts) - trained
    while found := {name for name in names if trained & {*parts[name]}}:
        trained |= found
        names -= found
    return names


def _pick_kind() -> str:
    """Draw the kinds that most come for, and the others behind a button; one of these stands beside once chosen."""
    chosen = remembered("train", BI_ENCODER, list(RECIPES))
    shown = list(dict.fromkeys([*_FIRST_KINDS, chosen]))
    with st.container(horizontal=True, vertical_alignment="center"):
        kind = choose(
            st.pills,  # they wrap
            "train",
            word("train.kind"),
            shown,
            BI_ENCODER,
            format_func=kind_name,
            required=True,
            label_visibility="collapsed",
            width="content",
        )
        key = "train_more_kinds_open"
        with st.popover(word("train.more_kinds"), type="tertiary", key=key, on_change="rerun") as others:
            if others.open:
                _draw_kinds([kind for kind in RECIPES if kind not in shown], key)
    return kind


def _draw_kinds(kinds: list[str], key: str) -> None:
    def take(kind: str) -> None:
        remember("train", kind)
        st.session_state[key] = False

    for kind in kinds:
        st.button(kind_name(kind), key=f"train_kind_{kind}", on_click=take, args=(kind,), width="stretch")
        st.caption(word_or(f"train.about_{kind}", recipe_of(kind).does))


def pick_pairs() -> StoredPairs:
    """Draw the choice of a set; it lies in the address, and the Embeddings page has the same."""
    sets = {kept.key: kept for kept in stored_pairs()}
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        key = choose(
            st.selectbox,
            "pairs",
            word("train.pairs"),
            list(sets),
            next(iter(sets)),
            format_func=lambda key: pair_set_name(sets[key]),
            help=word("train.pairs_help"),
        )
    counts = {part.value: f"{len(rows):,}" for part, rows in parts_of(key).items()}
    right.caption(word("train.pairs_about", kind=word(f"pair_kind.{sets[key].kind.value}"), **counts))
    return sets[key]


def _draw_training(kind: str, data: Learned | StoredPairs) -> None:
    name = pair_set_name(data) if isinstance(data, StoredPairs) else learned_name(data)
    st.markdown(word_or(f"train.get_{kind}", recipe_of(kind).does, data=plain(name)))
    if isinstance(data, StoredSet) and data.made and kind != LANGUAGE_MODEL:
        st.caption(f":material/auto_awesome: {word('train.made', made=f'{data.made:,}')}")
    base = pick_base(kind)
    st.toggle(word("train.settings"), key="show_settings")  # of a narrow screen alone: see look.css
    with st.container(key="settings_objective"):
        objective = pick_objective(kind, base, data)
    draw_form(kind, base, objective, data)


@st.fragment
def draw_form(kind: str, base: Base, objective: str, data: Learned | StoredPairs) -> None:
    """Draw the form. What is entered counts at once, so that neither another base nor another page loses it."""
    form = OptionFields(kind, base, objective)
    with st.container(border=True):
        with st.container(key="settings_first"):  # a narrow screen shows what is needed to start, and these when asked
            name_column, *columns = st.columns(4)
            with name_column:
                # a new name is offered after every start; until then what was typed stays
                key, usual_name = f"train_{kind}_name_{trainings_started()}", _free_name(kind)
                offer(key, usual_name)
                name = st.text_input(word("train.name"), key=key, max_chars=80, persist_state="session")
            form.draw_first(columns)
        form.draw_needed()
        with st.container(key="settings_more"):
            form.draw_more()
            found = form.draw_negatives()
        buttons = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="right")
        told = st.container()  # below the buttons: they must not move while they are pressed
        with told:
            entered = _planned(form, data, kind, name.strip() or usual_name)
            if entered and isinstance(data, StoredSet) and kind != LANGUAGE_MODEL:
                parts = split_of(data.key, entered.split)
                draw_split(parts)
                draw_few_of(parts, PARTS if entered.split.test else (Part.TRAIN, Part.VALIDATION))
        plan = entered if base.usable else None
        estimate = asked_of(plan, RehearsalTask.ESTIMATE)
        with buttons:
            _draw_way_back(form)
            if not base.usable:
                st.caption(word("train.base_first"), width="content")
            draw_known_time(plan)
            draw_ask_button(RehearsalTask.ESTIMATE, estimate, told)
            draw_start_button(plan, told)
        with told:
            estimate_by_itself(estimate, form)
            draw_estimate(estimate, form)
    if found is not None:
        with found:
            draw_negatives(asked_of(plan, RehearsalTask.NEGATIVES))
    if kind == LANGUAGE_MODEL:
        draw_ablation(plan)
    elif kind in ranking_kinds():
        draw_several(kind, plan, base)


def _draw_way_back(form: OptionFields) -> None:
    """Say how many settings differ from their defaults, which may be folded away, and offer to take them back."""
    if changed := form.changed:
        st.button(
            word("train.take_back", count=len(changed)),
            on_click=form.take_back,
            icon=":material/undo:",
            type="tertiary",
            help=", ".join(word_or(f"option.{name}", name) for name in changed),
            key="train_take_back",
        )


def _planned(form: OptionFields, data: Learned | StoredPairs, kind: str, name: str) -> Plan | None:
    """Return the plan of what was entered, or tell beside its field what does not fit."""
    try:
        split = replace(SplitOptions(*form.split()), strict=form.is_strict_on(data.fingerprint))
        options = recipe_of(kind).options(**form.options())
        learned = _checked(kind, data, split, options)
        for field, model in form.models().items():
            try:
                find_model(model)
            except ModelError as error:
                raise OptionError(field, error.code, str(error)) from error
    except OptionError as error:
        _tell(form, error.option, word_or(f"option_problem.{error.code}", str(error)))
        return None
    except ValueError:  # all that is left are the shares of the split
        _tell(form, "validation", word("option_problem.validation"))
        return None
    return new_plan(kind, name, learned, split, options)


def _checked(
    kind: str, data: Learned | StoredPairs, split: SplitOptions, options: TrainingOptions
) -> tuple[str, str, str]:
    """Reference, name and fingerprint of what a training learns from. Raises `OptionError` where it cannot."""
    family = recipe_of(kind).family
    if kind == LANGUAGE_MODEL and not isinstance(data, StoredPairs):  # its documents are split by their hashes
        corpus = opened(data) if isinstance(data, StoredText) else PassageCorpus(question_set(data.key))
        family.check(corpus, options)
        return reference_of(data), data.name, corpus.fingerprint
    if isinstance(data, StoredSet):
        family.check(question_set(data.key), options)
        rows = split_of(data.key, split).rows
    else:
        pairs = pair_set(data.key)
        family.check(pairs, options)
        rows = split_pairs(pairs, split)
    judged = bool(len(rows[Part.VALIDATION])) or bool(getattr(options, "judged_on", ""))
    if len(rows[Part.TRAIN]) < 2 or not judged:
        raise OptionError("validation", "validation_empty", "leaves nothing to train on or to measure on")
    return data.key, data.name, data.fingerprint


def _tell(form: OptionFields, name: str, text: str) -> None:
    """Tell a problem beside its field, and by the button where the field may be folded away."""
    form.tell(name, text)
    if name not in NEEDED:
        st.error(f"**{word_or(f'option.{name}', name)}**: {text}", icon=":material/error:")


def _free_name(kind: str) -> str:
    """The kind and the first number that is free: short, so that tables can show what searches with it."""
    taken = {run.plan().name.split(" · ")[0] for run in all_runs()}  # those of a comparison share their beginning
    return next(name for number in count(1) if (name := f"{kind_name(kind)} {number}") not in taken)


def use_settings(plan: Plan, found: Findings) -> None:
    """Fill what was found into the form, with kind, base and objective; only as a callback."""
    names = {name for one in found.tried for name in one.changed}
    _fill_in(plan.kind, plan.options.base, replace(plan.options, **found.changes), names)


def fill_in_another_round(run: Run) -> None:
    """Fill in the form; only while no field is drawn, as in a callback."""
    plan = run.plan()
    if isinstance(plan.options, BiEncoderOptions):
        options = replace(mined_by(run.id, plan.options), rounds=1)
        _fill_in(plan.kind, run.id, options, {"negatives_from", "negatives", "negatives_model", "rounds"})


def _fill_in(kind: str, base: str, options: TrainingOptions, names: Set[str]) -> None:
    for name, chosen in {"train": kind, "base": base, "objective": options.objective.value}.items():
        remember(name, chosen)
    for name in {"objective", *names}:
        st.session_state[field_key(kind, name)] = entered_value(getattr(options, name))
