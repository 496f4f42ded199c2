"""What a person chooses on the Embeddings page: the set of pairs and its part, the models, and the measure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from data.pairs.audit import part_to_measure
from data.pairs.store import StoredPairs
from data.split import Part, SplitOptions
from embeddings.encoder import add, added, remove
from models.hub import ModelError
from models.sources import DEFAULT_BI_ENCODER, STARTER, default_model, find_model
from training.recipe import recipe_of
from training.runs.runs import Run
from views.choices import finished_runs, free_name, model_place
from views.embeddings.evaluation_view import measures_of
from views.names import base_name, pair_set_name, told_with_download
from views.resources.sets import pair_set, parts_of
from views.ui.problems import failure_text
from views.ui.state import choose, choose_named, choose_several
from views.ui.words import plain, word

_BI_ENCODER = "sentence-similarity"  # what the hub calls the task of models that make one vector of a sentence
_PICKED_RUNS = 2
MOST = 20  # that one evaluation measures


@dataclass(frozen=True)
class Models:
    """Names by reference in a fixed order, what is picked before anybody chooses, those added, and the trained ones."""

    names: dict[str, str]
    first_picked: tuple[str, ...]
    added: tuple[str, ...]
    runs: dict[str, Run]


def models_at_hand() -> Models:
    """Return the base everything starts from, the starter, one of the hub, finished bi-encoders and what was added."""
    usual = list(dict.fromkeys((default_model(), STARTER)))
    trained = [run for run in reversed(finished_runs()) if recipe_of(run.plan().kind).hub_task == _BI_ENCODER]
    runs = {model_place(run): run for run in trained}
    others = tuple(added())
    names: dict[str, str] = {}
    for one in dict.fromkeys([*usual, DEFAULT_BI_ENCODER, *runs, *others]):
        names[one] = free_name(base_name(one), [*names.values()])
    return Models(names, (*usual, *[*runs][-_PICKED_RUNS:]), others, runs)


def problem_of(reference: str) -> ModelError | None:
    """Return what keeps a model from being measured, as far as that is known without loading it."""
    try:
        find_model(reference)
    except ModelError as error:
        return error
    return None


def has_seen(run: Run, data: StoredPairs, part: Part) -> bool:
    """Whether a training learned from pairs of this part, or may have: it drew the parts of the same set otherwise."""
    plan = run.plan()
    if plan.fingerprint != data.fingerprint:
        return False
    if part in (Part.ALL, Part.TRAIN):
        return True
    drew_otherwise = plan.split != SplitOptions()
    return drew_otherwise and not bool((pair_set(data.key).published[parts_of(data.key)[part]] >= 0).all())


_ROUND = "models_round"  # how often something else than a click changed which models are picked
_SEPARATOR = "|"  # of references in the address


def pick_set(sets: Sequence[StoredPairs]) -> StoredPairs:
    names = {one.key: pair_set_name(one) for one in sets}
    look: dict[str, Any] = {"help": word("embeddings.pairs_help"), "width": 200}
    key = choose_named("pairs", word("embeddings.pairs"), names, sets[0].key, **look)
    return next(one for one in sets if one.key == key)


def pick_part(data: StoredPairs) -> Part | None:
    """Draw the choice among the parts that hold something; None where the set is empty."""
    rows = parts_of(data.key)
    names = {
        part.value: word("embeddings.part_of", part=word(f"part.{part}"), pairs=f"{len(rows[part]):,}")
        for part in Part
        if len(rows[part])
    }
    if not names:
        st.info(word("embeddings.empty"), icon=":material/info:")
        return None
    look: dict[str, Any] = {"help": word("embeddings.part_help"), "width": 140}
    return Part(choose_named("pairs_part", word("embeddings.part"), names, part_to_measure(rows).value, **look))


def pick_measure(data: StoredPairs) -> str:
    """Draw the choice of the correlation where there are two; returns the measure, empty where there is none."""
    measures = measures_of(data.kind)
    if len(measures) < 2:
        return measures[0] if measures else ""
    return choose(
        st.segmented_control,
        "figure",
        word("embeddings.measure"),
        measures,
        measures[0],
        format_func=lambda name: word(f"embeddings.{name}"),
        help=word("embeddings.measure_help"),
    )


def pick_models(models: Models) -> list[str]:
    """Draw the choice of models and the way to add one; returns the references picked, in their fixed order."""
    left, right = st.columns([6, 1], vertical_alignment="bottom")
    with left:
        picked = choose_several(
            st.pills,
            "models",
            word("embeddings.models"),
            [*models.names],
            models.first_picked,
            key=f"models_{len(models.names)}_{st.session_state.get(_ROUND, 0)}",
            wrap=True,
            format_func=lambda one: plain(told_with_download(one, models.names[one])),
            help=word("embeddings.models_help"),
        )
    with right, st.popover(word("compare.add"), icon=":material/add:", width="stretch"):
        _draw_adding(models.names, models.added, picked)
    if len(picked) > MOST:
        st.warning(word("embeddings.too_many", most=MOST), icon=":material/info:")
    return picked[:MOST]


def _draw_adding(names: Mapping[str, str], added: Sequence[str], picked: Sequence[str]) -> None:
    reference = st.text_input(word("embeddings.add_model"), help=word("compare.add_model_help"), key="add_encoder")
    reference = reference.strip()
    if st.button(word("compare.add_this"), type="primary", disabled=not reference, key="add_this_encoder"):
        _add(reference, picked)
    for one in added:
        left, right = st.columns([5, 1], vertical_alignment="center")
        left.markdown(plain(names[one]))
        if right.button("", icon=":material/delete:", key=f"remove_{one}", help=word("embeddings.remove_added")):
            remove(one)
            _pick(other for other in picked if other != one)


def _add(reference: str, picked: Sequence[str]) -> None:
    if _SEPARATOR in reference:
        st.error(word("embeddings.no_bar"), icon=":material/error:")
        return
    try:
        add(reference)
    except ModelError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return
    _pick([*picked, reference])


def _pick(references: Iterable[str]) -> None:
    st.query_params["models"] = _SEPARATOR.join(dict.fromkeys(references))
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    st.rerun()
