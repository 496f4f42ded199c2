"""Everything that is known of a training: its curves, what was asked, what it was made of, and its log."""

from typing import Any

import streamlit as st

from retrieval.report.colours import PALETTE
from training.recipe import recipe_of
from training.runs.curves import MEASURES, curves
from training.runs.runs import Plan, Run, all_runs
from views.names import run_name
from views.runs.charts import best_by, draw_figure, draw_run_figure, pick_measure
from views.runs.facts import draw_provenance, draw_settings
from views.ui.job import draw_log
from views.ui.words import moment, word

_LOG_LINES = 200
_MOST_BESIDE = 5


def draw_details(run: Run) -> None:
    """Draw the content of the dialog."""
    plan = run.plan()
    names = ("curves", "settings", "provenance", "log")
    curves_tab, settings, provenance, log = st.tabs([word(f"train.tab_{name}") for name in names])
    with curves_tab:
        _curves(run, plan)
    with settings:
        draw_settings(run, plan)
    with provenance:
        draw_provenance(run)
    with log:
        draw_log(run, _LOG_LINES)


def _curves(run: Run, plan: Plan) -> None:
    """Draw the curves of the run, and of those of its kind that are chosen to stand beside it."""
    labels = _labels(plan.kind)
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        beside = _pick_others(run, labels)
    with right:
        measure = pick_measure(f"details_measure_{run.id}", plan.kind, best_by(run, plan))
    if any(_asked(one.plan()) != _asked(plan) for one in beside):
        st.warning(word("train.other_questions"), icon=":material/warning:")
    shown = [run, *beside]
    names = ("loss", measure, "learning_rate", "grad_norm")
    found = {labels[one]: curves(one, names) for one in shown}
    bm25 = {one.bm25.get(measure) for one in found.values()}  # drawn where it is the same for all
    columns = st.columns(2)
    last_step = max(one.status().total_steps for one in shown)
    for number, name in enumerate(names):
        with columns[number % 2]:
            if not beside:
                kept, colour = run.scores().get("kept_step", 0), recipe_of(plan.kind).colour
                draw_run_figure(name, found[labels[run]], colour, last_step=last_step, kept_step=kept)
                continue
            draw_figure(
                name,
                {label: one.points[name] for label, one in found.items()},
                PALETTE[1 : len(shown) + 1],  # the first one is BM25's
                last_step=last_step,
                bm25=next(iter(bm25)) if name in MEASURES and len(bm25) == 1 else None,
            )


def _pick_others(run: Run, labels: dict[Run, str]) -> list[Run]:
    others = {one.id: one for one in labels if one != run and one.progress()}
    chosen = st.multiselect(
        word("train.beside"),
        list(others),
        format_func=lambda run_id: labels[others[run_id]],
        max_selections=_MOST_BESIDE,
        placeholder=word("train.beside_placeholder") if others else word("train.beside_none"),
        help=word("train.beside_help"),
        disabled=not others,
        key=f"beside_{run.id}",
    )
    return [others[run_id] for run_id in chosen]


def _labels(kind: str) -> dict[Run, str]:
    """The names of all runs of the kind, no two alike."""
    plans = {run: plan for run in all_runs() if (plan := run.plan()).kind == kind}
    names = {run: run_name(plan) for run, plan in plans.items()}
    often = list(names.values())
    return {
        run: name if often.count(name) == 1 else f"{name} · {moment(plans[run].created)} · {run.id[-4:]}"
        for run, name in names.items()
    }


def _asked(plan: Plan) -> tuple[Any, ...]:
    """What decides which questions were measured."""
    return plan.fingerprint, plan.split, plan.options.evaluation_limit
