"""Everything that is known of a training: its curves, what was asked, what it was made of, and its log."""

import json
from dataclasses import asdict
from typing import Any

import pandas as pd
import streamlit as st

from retrieval.report.colours import PALETTE
from training.recipe import recipe_of
from training.runs.curves import MEASURES, curves
from training.runs.runs import Plan, Run, all_runs
from views.names import base_name, run_name, set_name
from views.runs.charts import best_by, draw_figure, draw_run_figure, pick_measure
from views.ui.job import draw_log
from views.ui.words import known, moment, word

_LOG_LINES = 200
_MOST_BESIDE = 5


def draw_settings(run: Run, plan: Plan) -> None:
    """Draw every option."""
    options = {name: value for name, value in asdict(plan.options).items() if name != "base"}
    _table(
        [
            (word("train.base"), base_name(plan.options.base, plan.kind)),
            (word("train.row_data"), set_name(plan.data_name)),
            *((_option(name), value) for name, value in options.items()),
            *((_option(name), value) for name, value in _split(asdict(plan.split)).items()),
            (word("train.row_folder"), str(run.folder)),
        ],
        word("train.row_option"),
    )


def draw_provenance(run: Run) -> None:
    """Draw one table of the single facts, then one for each group of them; all of it can be had as JSON."""
    made = run.provenance()
    if not made:
        st.caption(word("train.no_provenance"))
        return
    st.caption(word("train.provenance_about"))
    single = {name: value for name, value in made.items() if not isinstance(value, dict)}
    groups = {name: value for name, value in made.items() if isinstance(value, dict)}
    _table([(_fact(name), value) for name, value in single.items()], word("train.row_fact"))
    for name, facts in groups.items():
        st.markdown(f"**{_fact(name)}**")
        rows = _split(facts) if name == "split" else facts
        label = _option if name in ("split", "options", "settled") else _fact
        _table([(label(fact), value) for fact, value in rows.items()], word("train.row_fact"))
    st.download_button(
        word("train.provenance_json"),
        json.dumps(made, ensure_ascii=False, indent=2),
        f"{run.id}-provenance.json",
        "application/json",
        icon=":material/download:",
        on_click="ignore",
    )


def _split(facts: dict[str, Any]) -> dict[str, Any]:
    """A split's seed is called otherwise than that of the training."""
    return {"split_seed" if name == "seed" else name: value for name, value in facts.items()}


def _option(name: str) -> str:
    return next((word(key) for key in (f"option.{name}", f"train.{name}") if known(key)), name)


def _fact(name: str) -> str:
    return word(f"provenance.{name}") if known(f"provenance.{name}") else name


def _table(rows: list[tuple[str, Any]], heading: str) -> None:
    columns = [heading, word("train.row_value")]
    st.dataframe(pd.DataFrame([(name, _written(value)) for name, value in rows], columns=columns), hide_index=True)


def _written(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


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
