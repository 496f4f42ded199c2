"""An ablation: at work, and what came of it, with its trainings folded under it."""

from functools import partial

import streamlit as st

from data.store import StoredSet, stored
from jobs.status import Status
from retrieval.comparison.experiment import write_experiment
from retrieval.comparison.kinds.first_stage import DenseSpec
from training.runs.ablations import UNTRAINED, Ablation
from training.runs.runs import Run, find_run
from views.choices import BM25_NAME, choices_for, model_place
from views.names import experiment_of, is_varied, kind_name, run_name, set_name, variant_stage_words
from views.navigation import open_page
from views.resources.sets import use_set
from views.runs.ablation_table import as_written, draw_table
from views.runs.ablation_words import conclusions
from views.runs.head import draw_parts
from views.ui import tables
from views.ui.job import follow
from views.ui.words import language, plain, word

_POLL_SECONDS = 1.5


def draw_ablation_at_work(ablation: Ablation) -> None:
    """Draw an ablation that goes on, until it has come to an end."""
    plan = ablation.plan()
    with st.container(border=True):
        st.markdown(f"**{plain(run_name(plan))}** · {kind_name(plan.kind)} · {plain(set_name(plan.data_name))}")
        follow(ablation, partial(variant_stage_words, plan), partial(_so_far, ablation), every=_POLL_SECONDS)


def draw_ablation(ablation: Ablation) -> None:
    """Draw what came of an ablation that ended, or what was known when it did, and its trainings."""
    if ablation.done and (table := ablation.table):
        for told in conclusions(table, varied=is_varied(ablation.plan())):
            st.markdown(told)
    _draw_known(ablation)


def draw_ablation_buttons(ablation: Ablation) -> None:
    """Draw the ways from an ablation that is done: to Compare, and as files."""
    table, experiment = ablation.table, experiment_of(ablation.plan())
    if ablation.done and table:
        tuned = [run for one in table.variants if one.tuned and (run := find_run(one.tuned))]
        _draw_way_to_compare(ablation, tuned)
        tables.draw_csv("ablation.csv", lambda: as_written(table), f"{ablation.id}.csv", f"csv_{ablation.id}")
    if experiment:
        st.download_button(
            word("ablation.file"),
            write_experiment(experiment),
            f"{ablation.id}.toml",
            "application/toml",
            key=f"file_{ablation.id}",
            help=word("ablation.file_help"),
            icon=":material/download:",
            on_click="ignore",
        )


def _so_far(ablation: Ablation, status: Status) -> None:
    del status
    st.caption(word("ablation.goes_on"))
    _draw_known(ablation)


def _draw_known(ablation: Ablation) -> None:
    plan = ablation.plan()
    if table := ablation.table:
        draw_table(table, ablation.id, plan.options.base, varied=is_varied(plan))
    parts = _trainings(ablation)
    draw_parts(ablation, parts, word("ablation.trainings", count=len(parts)), _part_name)


def _trainings(ablation: Ablation) -> list[Run]:
    """Those made for it, and those of before that it took as they were."""
    named = [name for one in ablation.table.variants for name in (one.model, one.tuned)] if ablation.table else []
    taken = [run for name in named if name and (run := find_run(name))]
    return list(dict.fromkeys([*taken, *ablation.parts()]))


def _part_name(run: Run) -> str:
    plan = run.plan()
    is_of_base = plan.trial is not None and plan.trial.whole and plan.trial.number == UNTRAINED
    return f"{word('ablation.untrained') if is_of_base else run_name(plan)} · {kind_name(plan.kind)}"


def _draw_way_to_compare(ablation: Ablation, tuned: list[Run]) -> None:
    """Draw the button that compares all of its fine-tuned models on the test questions."""
    if not tuned:
        return
    fingerprint = tuned[0].plan().fingerprint
    data = next((kept for kept in stored() if kept.fingerprint == fingerprint), None)
    help_text = word("ablation.compare_help" if data else "train.use_no_data")
    pressed = st.button(
        word("ablation.compare"),
        key=f"compare_{ablation.id}",
        icon=":material/leaderboard:",
        disabled=data is None,
        help=help_text,
    )
    if pressed and data:
        _compare(data, tuned)


def _compare(data: StoredSet, tuned: list[Run]) -> None:
    use_set(data.key)
    models = {model_place(run) for run in tuned}
    specs = choices_for(data).specs.values()
    names = [spec.name for spec in specs if isinstance(spec, DenseSpec) and spec.model in models]
    open_page("compare", data=data.key, retrievers="|".join([BM25_NAME, *names]), part="test", lang=language())
