"""Everything that is known of a training, in a dialog."""

from dataclasses import asdict

import pandas as pd
import streamlit as st

from training.runs import Plan, Run
from views.run_view import draw_run_curves
from views.train_base import base_name
from views.words import known, word

_LOG_LINES = 200


def show_details(run: Run) -> None:
    """Draw the curves, what was asked, and the end of the log."""
    plan = run.plan()
    curves, settings, log = st.tabs([word("train.tab_curves"), word("train.tab_settings"), word("train.tab_log")])
    with curves:
        draw_run_curves(run, plan.kind)
    with settings:
        st.dataframe(_settings(run, plan), hide_index=True)
    with log:
        text = "\n".join(run.log().splitlines()[-_LOG_LINES:])
        st.code(text or word("train.log_empty"), language=None, height=400, wrap_lines=True)


def _settings(run: Run, plan: Plan) -> pd.DataFrame:
    split = {"validation": plan.split.validation, "test": plan.split.test, "split_seed": plan.split.seed}
    options = {name: value for name, value in asdict(plan.options).items() if name != "base"}
    rows = [
        (word("train.base"), base_name(plan.options.base)),
        (word("train.row_data"), plan.data_name),
        *(
            (word(f"option.{name}") if known(f"option.{name}") else name, value)
            for name, value in (options | split).items()
        ),
        (word("train.row_folder"), str(run.folder)),
    ]
    return pd.DataFrame(
        [(name, f"{value:g}" if isinstance(value, float) else str(value)) for name, value in rows],
        columns=[word("train.row_option"), word("train.row_value")],
    )
