"""The table of what a training was measured by: a row for what was measured, of other questions by themselves."""

from typing import Any

import pandas as pd
import streamlit as st

from views.ui import tables
from views.ui.words import word

TESTED = ("before", "after", "bm25")  # on test questions, where these were asked
_WIDTH = 140  # pixels of a figure with its interval: the table fits beside the sidebar of a small screen


def draw_table(rows: dict[str, dict[str, float]], scores: dict[str, Any], names: dict[str, str], heading: str) -> None:
    """Draw the table of the measures named: `rows`, on what judges a training, and those on test questions if asked.

    `heading` is the key of the words over the names of the rows.
    """
    test, intervals = of_test(scores), _intervals(scores)
    every = rows | {_tested(name): test[name] for name in TESTED if name in test}
    table = pd.DataFrame(every, index=list(names)).T * 100
    table.insert(0, "row", [_row_name(name, scores) for name in every])
    width = _WIDTH if intervals else "small"
    columns = {of: tables.measure(of, label, width=width) for of, label in names.items()}
    compared = [list(rows), [name for name in every if name not in rows]]  # figures of other questions cannot be
    st.dataframe(
        _written(table, intervals, list(names), compared),
        hide_index=True,
        column_config={"row": tables.text(heading, width="medium"), **columns},
    )


def of_test(scores: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured on test questions; empty where nothing was."""
    test: dict[str, Any] = scores.get("test") or {}
    return test


def _written(table: pd.DataFrame, intervals: dict[str, Any], measures: list[str], compared: list[list[str]]) -> Any:
    """The table as it is read; underneath, figures stay numbers, so that columns sort by them."""
    style = table.style.format("{:.2f}", subset=pd.IndexSlice[:, measures])
    for rows in filter(None, compared):
        style = style.highlight_max(subset=pd.IndexSlice[rows, measures], props=tables.BOLD)
    for row in table.index:
        for measure, (low, high) in intervals.get(row, {}).items():
            if measure in measures:
                interval = f"{low * 100:.1f}–{high * 100:.1f}"
                style = style.format(f"{{:.2f}} [{interval}]", subset=pd.IndexSlice[[row], [measure]])
    return style


def _row_name(name: str, scores: dict[str, Any]) -> str:
    if name.endswith(_tested("")):
        return word("train.row_tested", row=word(f"train.row_{name.removesuffix(_tested(''))}"))
    if name == "interpolated":
        return word("train.row_interpolated", weight=f"{scores.get('weight', 0):g}")
    if scores.get("interpolated") and name in ("before", "after"):
        return word(f"train.row_{name}_alone")
    return word(f"train.row_{name}")


def _intervals(scores: dict[str, Any]) -> dict[str, Any]:
    """Those of every row of the table."""
    tested = of_test(scores).get("intervals") or {}
    return (scores.get("intervals") or {}) | {_tested(name): ends for name, ends in tested.items()}


def _tested(name: str) -> str:
    return f"{name}_tested"
