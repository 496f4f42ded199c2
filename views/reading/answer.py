"""The answer of an evaluation in a sentence or two: how many questions are answered, and what holds that back."""

import pandas as pd
import streamlit as st

from reading.scores import EXACT
from views.reading.evaluation_view import ReadingView
from views.reading.figures import difference_table
from views.ui.words import plain, word


def draw(view: ReadingView) -> None:
    """Say what the best retriever's first passages are worth, and how sure it is that it is the best."""
    best = view.best()
    told, kind = view.shares(best), "exact" if view.measure == EXACT else "overlap"
    ends = [f"{100 * end:.0f}" if kind == "exact" else f"{100 * end:.1f}" for end in told["interval"][view.measure]]
    form = ".0f" if kind == "exact" else ".1f"
    values = {
        "name": plain(best),
        "k": view.k,
        "value": f"{100 * told[view.measure]:{form}}",
        "oracle": f"{100 * view.oracle[view.measure]:{form}}",
        "low": ends[0],
        "high": ends[1],
        "measure": word(f"answers.measure_{view.measure}"),
    }
    said = [word(f"answers.answer_{kind}_{'one' if view.k == 1 else 'many'}", **values)]
    st.markdown(" ".join([*said, *_apart(view, best)]))


def _apart(view: ReadingView, best: str) -> list[str]:
    """How sure it is that the best is above the next one and, where that is not sure, above which others it is."""
    table: pd.DataFrame = difference_table(view)
    of_best = table[table["a"] == best]
    if of_best.empty:
        return []
    next_one, sure = of_best.iloc[-1], of_best[of_best["sure"]]
    told = [next_one] if next_one["sure"] or sure.empty else [next_one, sure.iloc[0]]
    return [_told(view, best, row) for row in told]


def _told(view: ReadingView, best: str, row: pd.Series) -> str:
    ends = {name: f"{row[name]:+.1f}".replace("-", "−") for name in ("low", "high")}
    alike = not (row["low"] or row["high"])  # question by question
    key = f"answers.apart_{'not' if alike else 'sure' if row['sure'] else 'unsure'}"
    return word(key, name=plain(best), other=plain(row["b"]), points=f"{row['difference']:.1f}", k=view.tested, **ends)
