"""How long a training will take by what earlier ones took here, where one was alike; shown without being asked for."""

from dataclasses import asdict
from typing import Any

import streamlit as st

from training.runs.runs import Plan
from views.choices import finished_runs
from views.ui.words import duration, plain, word

# what a training's time does not depend on; it grows with the epochs
_FREE = {
    *("epochs", "learning_rate", "weight_decay", "warmup", "seed", "best_by", "patience"),
    *("temperature", "positive_margin", "negative_margin", "triplet_margin", "scale"),
    *("logging_steps", "save_limit", "save_minutes", "save_steps", "kept_models", "report_to"),
}


def draw_known_time(plan: Plan | None) -> None:
    """Tell it by the newest training of the same kind, base, data and settings, and the epochs; else nothing."""
    if plan is None:
        return
    decides = _decides(plan)
    for run in finished_runs():
        earlier, spent = run.plan(), run.status().spent
        if spent and _decides(earlier) == decides:
            seconds = spent * plan.options.epochs / earlier.options.epochs
            st.caption(word("train.known_time", time=duration(seconds), name=plain(earlier.name)), width="content")
            return


def _decides(plan: Plan) -> dict[str, Any]:
    options = {name: value for name, value in asdict(plan.options).items() if name not in _FREE}
    return options | {"kind": plan.kind, "data": plan.fingerprint, "split": plan.split}
