"""Another round of a finished training: the form, filled in so that its model finds the hard negatives."""

from typing import Any

import streamlit as st

from training.options.bi_encoder import BiEncoderOptions
from training.runs.rounds import mined_by
from training.runs.runs import Run
from views.train.fields import field_key
from views.ui.state import remember


def fill_in_another_round(run: Run) -> None:
    """Fill in the form; only while no field is drawn, as in a callback."""
    plan = run.plan()
    if not isinstance(plan.options, BiEncoderOptions):
        return
    options = mined_by(run.id, plan.options)
    for name, chosen in {"train": plan.kind, "base": run.id, "objective": options.objective.value}.items():
        remember(name, chosen)
    entered: dict[str, Any] = {
        **{name: getattr(options, name).value for name in ("objective", "negatives_from")},
        **{name: getattr(options, name) for name in ("negatives", "negatives_model")},
        "rounds": 1,
    }
    for name, value in entered.items():
        st.session_state[field_key(plan.kind, name)] = value
