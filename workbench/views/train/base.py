"""The base model of a training, its availability and download size; its objective; and which options have an effect."""

from collections.abc import Mapping, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.pairs import PairKind
from mrc_workbench.data.pairs.store import StoredPairs
from mrc_workbench.data.workspace import run_as_current_user
from mrc_workbench.models.files import HubRevision, ModelError, hub_revision
from mrc_workbench.models.packaged import DEFAULT, PREFIX, installed_base
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, STARTER, find_model
from mrc_workbench.training import text_options
from mrc_workbench.training.options import NegativesFrom, OptionError, TrainingOptions
from mrc_workbench.training.ranker_options import (
    BI_ENCODER,
    CROSS_ENCODER,
    DISTILLATION_OBJECTIVES,
    LATE_INTERACTION,
    BiEncoderObjective,
    CrossEncoderObjective,
    LateObjective,
    QuestionSide,
    SparseEncoderObjective,
)
from mrc_workbench.training.recipes import compatible_base_kinds, default_base, get_recipe, ranking_kinds
from mrc_workbench.training.runs import Run, find_model_run
from mrc_workbench.training.text_options import LANGUAGE_MODEL, LanguageObjective, ReaderObjective, SentenceObjective
from mrc_workbench.workbench.views.choices import finished_runs
from mrc_workbench.workbench.views.names import base_name, is_a_starter, model_label
from mrc_workbench.workbench.views.study import TextSource
from mrc_workbench.workbench.views.ui.state import choose, offer, relabel, remember, remembered
from mrc_workbench.workbench.views.ui.words import failure_text, has_text, label_and_help, plain, word, word_or

FIRST = ("epochs", "batch_size", "learning_rate")
NEEDED = ("guide", "teacher")  # always visible: the objective requires them
NEGATIVES_SOURCE = ("negative_question_fraction", "negatives", "negatives_from", "negatives_model", "rounds")
NEGATIVES_SAMPLED = ("negatives_first", "negatives_last", "negatives_margin", "negatives_with_answer")
_GROUPS = {
    "common": "max_length pooling temperature patience lora_rank gradient_checkpointing title",
    "learning": "group_batches_by shared_passages mix_loss_weight warmup weight_decay seed",
    "loss": "positive_margin negative_margin triplet_margin teacher_temperature teacher_bm25 distillation_weight "
    "question_regularizer passage_regularizer concatenation scale dropout deletion pairs_weight",
    "model": "question_side dimensions overlap longest_answer windows frozen_layers lora_full_weights matryoshka",
    "memory": "mini_batch_size evaluation_batch_size precision attention_dropout embedding_table",
    "measuring": "best_by normalization evaluation_set depth evaluation_limit evaluation_steps logging_steps report_to",
    "saving": "save_steps save_minutes save_limit max_snapshots",
}
MORE = {group: tuple(names.split()) for group, names in _GROUPS.items()}
# other options, such as those of a registered kind, are drawn in the group "loss"
LISTED = {"base", "objective", *FIRST, *NEEDED, *NEGATIVES_SOURCE, *NEGATIVES_SAMPLED, *chain(*MORE.values())}
_NOT_OF_A_NEW_MODEL = {"frozen_layers", "lora_rank", "lora_full_weights", "embedding_table"}
_NOT_OF_A_STARTER = _NOT_OF_A_NEW_MODEL | {
    *("pooling", "max_length", "windows", "shared_passages", "mix_loss_weight"),
    *("gradient_checkpointing", "mini_batch_size", "precision", "attention_dropout"),
}
# options whose values decide which other options have an effect
DECIDING = ("negative_question_fraction", "negatives", "negatives_from", "distillation_weight", "question_side")
_KNOWN: set[StrEnum] = {
    *(*BiEncoderObjective, *CrossEncoderObjective, *SparseEncoderObjective, *LateObjective),
    *(*SentenceObjective, *text_options.CrossSentenceObjective, *ReaderObjective, *LanguageObjective),
}
_ALL_BUT_READERS = _KNOWN - {*ReaderObjective}
_ALL_BUT_TRIPLETS: set[StrEnum] = {*BiEncoderObjective, *SparseEncoderObjective} - {BiEncoderObjective.TRIPLET}
_ONLY_FOR: dict[str, Set[StrEnum]] = {
    "guide": {BiEncoderObjective.GIST},
    "teacher": {CrossEncoderObjective.MARGIN_MSE, *DISTILLATION_OBJECTIVES, SentenceObjective.DISTILLATION},
    "teacher_temperature": {*DISTILLATION_OBJECTIVES},
    "teacher_bm25": {*DISTILLATION_OBJECTIVES},
    "distillation_weight": {*DISTILLATION_OBJECTIVES},
    "positive_margin": {BiEncoderObjective.MEGA_BATCH_MARGIN},
    "negative_margin": {BiEncoderObjective.MEGA_BATCH_MARGIN},
    "triplet_margin": {BiEncoderObjective.TRIPLET, SentenceObjective.TRIPLET},
    "concatenation": {SentenceObjective.NLI_SOFTMAX},
    "scale": {SentenceObjective.COSENT},
    "dropout": {SentenceObjective.SIMCSE_UNSUPERVISED},
    "deletion": {SentenceObjective.TSDAE},
    "pairs_weight": {LanguageObjective.MLM_NSP},
    "group_batches_by": _ALL_BUT_TRIPLETS,
    "shared_passages": {BiEncoderObjective.MULTIPLE_NEGATIVES},
    "mix_loss_weight": {BiEncoderObjective.MULTIPLE_NEGATIVES},
    "temperature": {
        *(BiEncoderObjective.MULTIPLE_NEGATIVES, BiEncoderObjective.GIST),
        *(SparseEncoderObjective.SPLADE, *DISTILLATION_OBJECTIVES, *text_options.IN_BATCH_OBJECTIVES),
    },
    "mini_batch_size": _ALL_BUT_TRIPLETS,
    "title": _ALL_BUT_READERS,  # readers read passages without titles
    "evaluation_batch_size": _ALL_BUT_READERS,  # readers fill each pass
}


@st.cache_resource(show_spinner=False)
def _hub_executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="hub")


@st.cache_resource(show_spinner=False, ttl=300, max_entries=64)
def hub_answer(hub_id: str) -> Future[HubRevision]:
    """Query the hub in the background, once for all users; if users sign in, without a token."""
    return _hub_executor().submit(run_as_current_user(hub_revision), hub_id)


@dataclass(frozen=True)
class Base:
    """The selected base model: its reference in the options, its run, if any, and whether it can be used."""

    reference: str
    run: Run | None = None
    usable: bool = False

    @property
    def is_starter(self) -> bool:
        return is_a_starter(self.reference)


def pick_base(kind: str) -> Base:
    """Draw the choice of a base model and its description. The page never waits for the hub."""
    left, right = st.columns(2, vertical_alignment="bottom")
    typed = [  # hub ids and folders
        text
        for text in (st.session_state.get("stored_base"), st.query_params.get("base"))
        if text and text.strip() and text != STARTER and not text.startswith(PREFIX) and find_model_run(text) is None
    ]
    choices = list(dict.fromkeys([*base_choices(kind), *typed]))
    kwargs: dict[str, Any] = {"format_func": partial(model_label, kind=kind), "help": word("train.base_help")}
    kwargs["accept_new_options"] = True
    with left:
        reference = choose(st.selectbox, "base", word("train.base_pick"), choices, default_base(kind), **kwargs).strip()
    base = Base(reference, _runs(kind).get(reference), usable=_draw_availability(kind, reference, right))
    if base.run is None:
        options = options_for_base(kind, base)
        objective = word_or(f"objective.{options.objective}", str(options.objective))
        values = {"epochs": f"{options.epochs:g}", "batch": f"{options.batch_size:,}"}
        right.caption(word("train.preset", objective=objective, **values))
    return base


def base_choices(kind: str) -> list[str]:
    """Return the bases in the list; a user can type any other."""
    recipe = get_recipe(kind)
    offered = recipe.options.available_bases()
    runs = [run for other_kind in compatible_base_kinds(kind) for run in _runs(other_kind)]
    fitting = runs if STARTER in offered else [run for run in runs if not is_a_starter(run)]
    first = [DEFAULT_BI_ENCODER] if DEFAULT_BI_ENCODER in (*offered, recipe.base) else []
    return list(dict.fromkeys([*first, *offered, recipe.base, *fitting]))


def options_for_base(kind: str, base: Base) -> TrainingOptions:
    """Return the default options for a base; if it cannot be trained, those for the default base of the kind."""
    suited = get_recipe(kind).options.defaults_for
    reference = STARTER if base.is_starter else base.reference
    try:
        return suited(reference or default_base(kind))
    except OptionError:
        return suited(default_base(kind))


def _runs(kind: str) -> dict[str, Run]:
    return {run.id: run for run, plan in finished_runs().items() if plan.kind == kind}


def _draw_availability(kind: str, reference: str, container: DeltaGenerator) -> bool:
    """Draw the location of the model in `container`, or an error below it; returns whether it can be used."""
    try:
        source = find_model(reference)
        get_recipe(kind).options.check_base(source)
    except ModelError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return False
    if reference == STARTER:
        new = kind == LANGUAGE_MODEL
        container.caption(word("train.about_new_model" if new else "train.about_starter"))
        if not (new or installed_base()):
            st.caption(word("train.no_packaged", model=DEFAULT.name, package=DEFAULT.requirement))
    elif source.packaged:
        packaged = source.packaged
        container.caption(word("train.about_packaged", origin=packaged.origin, licence=packaged.licence.upper()))
        if kind == CROSS_ENCODER:
            st.caption(word("train.about_pairs_read"))
    elif source.hub_id is None:
        container.caption(word("train.about_folder"))
    elif not hub_answer(source.hub_id).done():
        with container:
            _wait_for_the_hub(source.hub_id)
    elif refusal := hub_answer(source.hub_id).exception():
        _draw_hub_problem(kind, source.hub_id, refusal)
        return False
    else:
        with container.container(horizontal=True, vertical_alignment="center"):
            st.caption(_hub_words(hub_answer(source.hub_id).result()), width="content")
            _check_again(source.hub_id)
    return True


@st.fragment(run_every=0.5)
def _wait_for_the_hub(hub_id: str) -> None:
    if hub_answer(hub_id).done():
        st.rerun()
    st.caption(f":material/hourglass_empty: {word('train.hub_asking')}")


def _draw_hub_problem(kind: str, hub_id: str, error: BaseException) -> None:
    offers_starter = STARTER in get_recipe(kind).options.available_bases()
    key = f"model.{getattr(error, 'code', '')}"
    keys = [key, "model.hub_unknown"] if offers_starter else [f"{key}_no_starter", key, "model.hub_unknown"]
    st.warning(word(next(filter(has_text, keys)), model=plain(hub_id)), icon=":material/cloud_off:")
    with st.container(horizontal=True):
        for number, base in enumerate(get_recipe(kind).options.available_bases()):
            if base != STARTER and not base.startswith(PREFIX):  # another model of the hub
                continue
            icon = ":material/bolt:" if base == STARTER else ":material/check:"
            installed = word("train.use_installed", model=base_name(base, kind))
            label = word("train.use_starter") if base == STARTER else installed
            kwargs: dict[str, Any] = {"type": "primary" if number == 0 else "secondary", "key": f"train_use_{base}"}
            st.button(label, on_click=remember, args=("base", base), icon=icon, **kwargs)
        _check_again(hub_id)


def _check_again(hub_id: str) -> None:
    if st.button(word("train.check_again"), icon=":material/refresh:", type="tertiary"):
        hub_answer.clear(hub_id)
        st.rerun()


def _hub_words(revision: HubRevision) -> str:
    if revision.downloaded:
        return f":material/check_circle: {word('train.hub_here' if revision.online else 'train.hub_here_offline')}"
    size = f"{revision.size / 1e9:.1f} GB" if revision.size >= 1e9 else f"{revision.size / 1e6:,.0f} MB"
    text = word("train.hub_download", size=size) if revision.size else word("train.hub_download_unknown")
    return f":material/cloud_download: {text}"


def pick_objective(kind: str, base: Base, data: TextSource | StoredPairs) -> str:
    pairs = data.kind if isinstance(data, StoredPairs) else None
    choices = objectives(kind, starter=base.is_starter, pairs=pairs)
    if not choices:
        st.info(word("train.no_objective"), icon=":material/info:")
        st.stop()
    key = f"train_{kind}_objective"
    options = base.run.plan().options if base.run else options_for_base(kind, base)
    suited = (options.objective.value, SentenceObjective.SIMCSE_SUPERVISED.value)  # for the base, or for the data
    default = next((objective for objective in suited if objective in choices), choices[0])
    if st.session_state.get(key) not in choices:
        st.session_state[key] = remembered("objective", default, choices)
    offer(key, default)
    relabel(key)
    left, right = st.columns(2, vertical_alignment="bottom")
    labels = {choice: word_or(f"objective.{choice}", choice) for choice in choices}
    kwargs: dict[str, Any] = {"format_func": labels.__getitem__, "key": key, "persist_state": "session"}
    selected = str(left.selectbox(**label_and_help("train.objective"), options=choices, **kwargs))
    remember("objective", selected)
    right.caption(word_or(f"objective_does.{selected}", ""))
    return selected


def objectives(kind: str, *, starter: bool, pairs: PairKind | None = None) -> list[str]:
    objective_class = type(get_recipe(kind).options.defaults_for().objective)
    if pairs is not None:
        return [known.value for known in objective_class if pairs in text_options.PAIR_KINDS_OF_OBJECTIVE[known]]
    # a starter has no tokenizer for a guide
    return [known.value for known in objective_class if not (starter and known is BiEncoderObjective.GIST)]


def starting_values(kind: str, options: TrainingOptions, objective: str, *, as_trained: bool = False) -> dict[str, Any]:
    """Return the initial values of the fields: the options for a base, with the objective's defaults and limits.

    `as_trained` keeps the settings of a finished training instead of the objective's defaults.
    """
    settings = {} if as_trained else options.defaults_for_objective(objective)
    values = asdict(options) | settings | {"objective": objective}
    if objective in DISTILLATION_OBJECTIVES:
        values["negatives"] = values["negatives"] or 4  # for the teacher to order
    for name, (low, high) in objective_limits(kind, objective).items():
        values[name] = min(max(values[name], low), high)
    return values


def affects_training(name: str, values: Mapping[str, Any], *, starter: bool) -> bool:
    """Whether an option has an effect in a training with these values, from a starter or a pretrained model."""
    objective = values["objective"]
    if name in (*NEGATIVES_SOURCE, *NEGATIVES_SAMPLED) and not _negatives_affect_training(name, values):
        return False
    # a teacher does not score the batch's other passages
    if name == "group_batches_by" and objective in DISTILLATION_OBJECTIVES and values["distillation_weight"] == 1:
        return False
    if name == "question_regularizer" and values["question_side"] == QuestionSide.IDF:
        return False
    if name in ("shared_passages", "mix_loss_weight") and values["negatives"] > 0:  # hard negatives differ by question
        return False
    is_new_model = objective in {*LanguageObjective}  # the starter of a language model is a transformer
    if starter and name in (_NOT_OF_A_NEW_MODEL if is_new_model else _NOT_OF_A_STARTER):
        return False
    # the objective of a registered kind may use any option
    return objective not in _KNOWN or objective in _ONLY_FOR.get(name, _KNOWN)


def _negatives_affect_training(name: str, values: Mapping[str, Any]) -> bool:
    if values["objective"] == BiEncoderObjective.MEGA_BATCH_MARGIN:
        return False  # this loss uses the hardest passages of the batch
    if name != "negative_question_fraction" and values.get("negative_question_fraction") == 0:
        return False
    if name == "negatives_model" and values["negatives_from"] == NegativesFrom.BM25:
        return False
    return bool(name == "negatives" or values["negatives"])


def objective_limits(kind: str, objective: str) -> dict[str, tuple[int, int]]:
    """Return the smallest and largest value of each option that an objective restricts."""
    if kind in ranking_kinds() and objective == BiEncoderObjective.MEGA_BATCH_MARGIN:
        return {"negatives": (0, 0)}
    if kind in ranking_kinds() and objective == BiEncoderObjective.TRIPLET:
        return {"negatives": (1, 20), "mini_batch_size": (0, 0)}
    if kind in (BI_ENCODER, LATE_INTERACTION) and objective in DISTILLATION_OBJECTIVES:
        return {"negatives": (1, 20)}
    return {}
