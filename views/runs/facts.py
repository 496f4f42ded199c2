"""What a training was asked to do and what it was made of, as tables."""

import json
from dataclasses import asdict
from typing import Any

import pandas as pd
import streamlit as st

from training.runs.runs import Plan, Run
from views.names import base_name, set_name
from views.ui.words import known, word


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
