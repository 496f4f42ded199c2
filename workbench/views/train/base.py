"""What a training starts from: its base model, whether that can be had and what it costs to get; and its objective."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.pairs.store import StoredPairs
from mrc_workbench.data.workspace import for_this_user
from mrc_workbench.models.files import HubRevision, ModelError, hub_revision
from mrc_workbench.models.packaged import DEFAULT, PREFIX, base_at_hand
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, STARTER, find_model
from mrc_workbench.training.options import OptionError, TrainingOptions
from mrc_workbench.training.ranker_options import CROSS_ENCODER
from mrc_workbench.training.recipes import kinds_to_start_from, recipe_of, usual_base
from mrc_workbench.training.runs import Run, find_model_run
from mrc_workbench.training.text_options import LANGUAGE_MODEL, SentenceObjective
from mrc_workbench.workbench.views.choices import finished_runs
from mrc_workbench.workbench.views.names import base_name, is_a_starter, model_label
from mrc_workbench.workbench.views.texts import Learned
from mrc_workbench.workbench.views.train.options import objectives
from mrc_workbench.workbench.views.ui.state import choose, offer, relabel, remember, remembered
from mrc_workbench.workbench.views.ui.words import failure_text, known, plain, word, word_or

_POLL_SECONDS = 0.5


@st.cache_resource(show_spinner=False)
def _askers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="hub")


@st.cache_resource(show_spinner=False, ttl=300, max_entries=64)
def hub_answer(hub_id: str) -> Future[HubRevision]:
    """Ask the hub about a model in the background: a page looks at the answer and never waits for it.

    All users share it: the hub is asked in nobody's name where people sign in.
    """
    return _askers().submit(for_this_user(hub_revision), hub_id)


@dataclass(frozen=True)
class Base:
    """A base model chosen: what the options call it, the run it is, if any, and whether it can be used."""

    reference: str
    run: Run | None = None
    usable: bool = False

    @property
    def starter(self) -> bool:
        """Whether it is a starter, trained or not."""
        return is_a_starter(self.reference)


def pick_base(kind: str) -> Base:
    """Draw the choice of a base model and what is known of it. The page never waits for the hub."""
    choices = base_choices(kind)
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        reference = choose(
            st.selectbox,
            "base",
            word("train.base_pick"),
            [*choices, *(one for one in _typed() if one not in choices)],
            usual_base(kind),
            format_func=partial(model_label, kind=kind),
            help=word("train.base_help"),
            accept_new_options=True,
        ).strip()
    base = Base(reference, _runs(kind).get(reference))
    base = replace(base, usable=_about(kind, reference, right))
    if base.run is None:
        right.caption(_preset_words(suited_to(kind, base)))
    return base


def _preset_words(options: TrainingOptions) -> str:
    """The settings that suit a base: objective, epochs and batch size."""
    objective = word_or(f"objective.{options.objective}", str(options.objective))
    return word("train.preset", objective=objective, epochs=f"{options.epochs:g}", batch=f"{options.batch_size:,}")


def base_choices(kind: str) -> list[str]:
    """Return the bases that are offered by name; any other is typed."""
    recipe = recipe_of(kind)
    offered = recipe.options.offered()
    runs = [run for one in kinds_to_start_from(kind) for run in _runs(one)]
    fitting = runs if STARTER in offered else [run for run in runs if not is_a_starter(run)]
    first = [DEFAULT_BI_ENCODER] if DEFAULT_BI_ENCODER in (*offered, recipe.base) else []
    return list(dict.fromkeys([*first, *offered, recipe.base, *fitting]))


def suited_to(kind: str, base: Base) -> TrainingOptions:
    """Return options that suit the base; where none do, those of the usual one, until another is chosen."""
    suited, reference = recipe_of(kind).options.suited_to, STARTER if base.starter else base.reference
    try:
        return suited(reference or usual_base(kind))
    except OptionError:
        return suited(usual_base(kind))


def _runs(kind: str) -> dict[str, Run]:
    return {run.id: run for run, plan in finished_runs().items() if plan.kind == kind}


def _typed() -> list[str]:
    """A hub id or a folder that was typed, or stands in the address; what is known by name is offered where it fits."""
    given = (st.session_state.get("kept_base"), st.query_params.get("base"))
    typed = [one for one in given if one and one.strip() and one != STARTER and not one.startswith(PREFIX)]
    return list(dict.fromkeys(one for one in typed if find_model_run(one) is None))


def _about(kind: str, reference: str, place: DeltaGenerator) -> bool:
    """Say in `place` where the model is, or below why it cannot be had; returns whether it may be there."""
    try:
        source = find_model(reference)
        recipe_of(kind).options.check_base(source)
    except ModelError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return False
    if reference == STARTER:
        new = kind == LANGUAGE_MODEL
        place.caption(word("train.about_new_model" if new else "train.about_starter"))
        if not (new or base_at_hand()):
            st.caption(word("train.no_packaged", model=DEFAULT.name, package=DEFAULT.requirement))
    elif source.packaged:
        packaged = source.packaged
        place.caption(word("train.about_packaged", origin=packaged.origin, licence=packaged.licence.upper()))
        if kind == CROSS_ENCODER:
            st.caption(word("train.about_pairs_read"))
    elif source.hub_id is None:
        place.caption(word("train.about_folder"))
    elif not hub_answer(source.hub_id).done():
        with place:
            _wait_for_the_hub(source.hub_id)
    elif refusal := hub_answer(source.hub_id).exception():
        _say_what_is_missing(kind, source.hub_id, refusal)
        return False
    else:
        with place.container(horizontal=True, vertical_alignment="center"):
            st.caption(_hub_words(hub_answer(source.hub_id).result()), width="content")
            _check_again(source.hub_id)
    return True


@st.fragment(run_every=_POLL_SECONDS)
def _wait_for_the_hub(hub_id: str) -> None:
    if hub_answer(hub_id).done():
        st.rerun()
    st.caption(f":material/hourglass_empty: {word('train.hub_asking')}")


def _say_what_is_missing(kind: str, hub_id: str, error: BaseException) -> None:
    offers_starter = STARTER in recipe_of(kind).options.offered()
    code = f"model.{getattr(error, 'code', '')}"
    if not offers_starter and known(f"{code}_no_starter"):
        code = f"{code}_no_starter"
    st.warning(word(code if known(code) else "model.hub_unknown", model=plain(hub_id)), icon=":material/cloud_off:")
    with st.container(horizontal=True):
        for number, base in enumerate(recipe_of(kind).options.offered()):
            starter = base == STARTER
            if not (starter or base.startswith(PREFIX)):  # another one of the hub
                continue
            label = word("train.use_starter") if starter else word("train.use_installed", model=base_name(base, kind))
            st.button(
                label,
                on_click=remember,
                args=("base", base),
                icon=":material/bolt:" if starter else ":material/check:",
                type="primary" if number == 0 else "secondary",
                key=f"train_use_{base}",
            )
        _check_again(hub_id)


def _check_again(hub_id: str) -> None:
    if st.button(word("train.check_again"), icon=":material/refresh:", type="tertiary"):
        hub_answer.clear(hub_id)
        st.rerun()


def _hub_words(found: HubRevision) -> str:
    if found.downloaded:
        name = "hub_here" if found.online else "hub_here_offline"
        return f":material/check_circle: {word(f'train.{name}')}"
    megabytes = (found.size or 0) / 1e6
    size = f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{megabytes:,.0f} MB"
    told = word("train.hub_download", size=size) if megabytes else word("train.hub_download_unknown")
    return f":material/cloud_download: {told}"


def pick_objective(kind: str, base: Base, data: Learned | StoredPairs) -> str:
    pairs = data.kind if isinstance(data, StoredPairs) else None
    choices, key = objectives(kind, starter=base.starter, pairs=pairs), f"train_{kind}_objective"
    if not choices:
        st.info(word("train.no_objective"), icon=":material/info:")
        st.stop()
    options = base.run.plan().options if base.run else suited_to(kind, base)
    fitting = (
        options.objective.value,
        SentenceObjective.SIMCSE_SUPERVISED.value,
    )  # what suits the base, or else the data
    usual = next((one for one in fitting if one in choices), choices[0])
    if st.session_state.get(key) not in choices:
        st.session_state[key] = remembered("objective", usual, choices)
    offer(key, usual)
    relabel(key)
    left, right = st.columns(2, vertical_alignment="bottom")
    chosen = left.selectbox(
        word("train.objective"),
        choices,
        format_func=lambda choice: word_or(f"objective.{choice}", choice),
        key=key,
        help=word("train.objective_help"),
        persist_state="session",
    )
    remember("objective", chosen)
    right.caption(word_or(f"objective_does.{chosen}", ""))
    return chosen
