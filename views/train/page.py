"""Train: fine-tune a model of any kind, watch it, and keep what came of it.

What ranks or reads passages learns from the question set in use, an encoder of sentences from pairs picked here, and
a language model from its passages or from a text."""

import streamlit as st

from data.pairs.store import StoredPairs
from data.split import Part
from data.store import StoredSet
from retrieval.comparison.multistage import FEWEST, LearnedSpec
from retrieval.comparison.store import kept_comparisons, origin_of
from training.options.language_model import LANGUAGE_MODEL
from training.options.rankers import BI_ENCODER, CROSS_ENCODER
from training.recipe import RECIPES, recipe_of
from training.runs.sweeps import QUEUE, CompositeRun, all_jobs
from training.sentences.material import PAIRS
from views.names import kind_name, pair_set_name
from views.navigation import open_page
from views.resources.sets import chosen_set, parts_of, stored_pairs
from views.runs.at_work import draw_at_work, draw_queue
from views.runs.list import draw_runs
from views.texts import Learned, learned_name, pick_text
from views.train.ablation import draw_does_it_help
from views.train.base import Base, pick_base, suited_to
from views.train.form import draw_form, fill_in_another_round, use_settings
from views.train.options import objectives, usual_objective
from views.ui.state import choose, offer, relabel, remember, remembered, show_top
from views.ui.words import plain, word, word_or

_FIRST_KINDS = (BI_ENCODER, CROSS_ENCODER)
_MEASURE, _LEARNED = "ndcg@10", LearnedSpec.model_fields["kind"].default


def pick_objective(kind: str, base: Base, data: Learned | StoredPairs) -> str:
    """Draw the choice of what training makes smaller, with what that does and needs."""
    pairs = data.kind if isinstance(data, StoredPairs) else None
    choices, key = objectives(kind, starter=base.starter, pairs=pairs), f"train_{kind}_objective"
    if not choices:
        st.info(word("train.no_objective"), icon=":material/info:")
        st.stop()
    options = base.run.plan().options if base.run else suited_to(kind, base)
    usual = usual_objective(options.objective.value, choices)
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


def draw() -> None:
    QUEUE.keep_going()  # the machine may have been switched off while runs waited
    data = chosen_set()
    st.title(word("train.title"))
    at_work = QUEUE.at_work()
    if at_work:
        show_top(at_work.id)
        draw_at_work(at_work)
    draw_queue()
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
    jobs = sorted(all_jobs(), key=lambda job: job.id, reverse=True)
    wholes = {job.id for job in jobs if isinstance(job, CompositeRun)}
    parts = (job for job in jobs if (trial := job.plan().trial) is not None and trial.search in wholes)
    elsewhere = {at_work, *QUEUE.queued(), *parts}
    ended = [job for job in jobs if job not in elsewhere]
    draw_runs(ended, fill_in_another_round, use_settings, draw_does_it_help, at_work=bool(at_work))


def draw_untrained(data: StoredSet) -> None:
    """Draw what a mix that is learned in seconds reaches without any training: an hour has to add to that."""
    if data.questions - data.made >= FEWEST:
        reached = _without_training(data.fingerprint)
        said = word("train.untrained", **reached) if reached else word("train.untrained_unknown")
        st.caption(f":material/bolt: {said}")


def _without_training(fingerprint: str) -> dict[str, str]:
    """Return figures of the last comparison with a learned mix; empty where there is none.

    One that asked test questions tells nothing here: by those nothing is decided.
    """
    for kept in kept_comparisons():
        if kept.data_fingerprint != fingerprint or kept.part is Part.TEST:
            continue
        asked = origin_of(kept.folder).get("experiment", {}).get("retriever", ())
        reached = {name: told[_MEASURE] for name, told in kept.figures.items() if _MEASURE in told}
        compared = [one for one in asked if one.get("name") in reached]
        mixes = [one["name"] for one in compared if one.get("kind") == _LEARNED]
        single = [one["name"] for one in compared if not one.get("of") and not one.get("first")]
        if mixes and single:
            mix, best = (max(names, key=reached.__getitem__) for names in (mixes, single))
            return {
                "mix": f"{100 * reached[mix]:.1f}",
                "best": f"{100 * reached[best]:.1f}",
                "name": plain(best),
                "difference": f"{100 * (reached[mix] - reached[best]):+.1f}",
                "questions": f"{kept.questions:,}",
            }
    return {}


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
