"""The table of an ablation: its variants by every measure, and what can be told apart by one of them."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from training.runs.ablations import REFERENCE, Table, Variant
from views.runs.ablation_charts import variants
from views.runs.ablation_words import (
    OF_HIDDEN_TOKENS,
    PERPLEXITY,
    figure_words,
    in_units,
    is_comparable,
    measure_help,
    measure_name,
    variant_name,
)
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.problems import tell_training_failure
from views.ui.words import plain, signed, word

_OTHERS = "°"  # marks figures of other hidden tokens
_MISSING = "–"  # a variant has no such figure


def draw_table(table: Table, key: str, base: str, *, varied: bool) -> None:
    """Draw the choice of a measure, its picture, the table of all of them, and what must be known to read it."""
    measures = table.measures
    if not measures:
        _failures(table, base, varied=varied)
        return
    measure = _pick_measure(measures, key)
    figures = _figures(table, measure, varied=varied)
    if len(figures):
        draw_chart(variants, figures, x=measure_name(measure), y=word("ablation.variant"))
    _draw_numbers(table, measures, measure, varied=varied)
    st.caption(" ".join(_notes(table, measure, varied=varied)))
    _failures(table, base, varied=varied)


def as_written(table: Table) -> pd.DataFrame:
    """Return the table as figures: one row a variant, shares from 0 to 1, differences to the reference."""
    rows: list[dict[str, Any]] = []
    for one in table.variants:
        row: dict[str, Any] = {"variant": one.number, "same_hidden_tokens": one.alike, "failed": one.code}
        row |= {"changed": ", ".join(f"{name} = {value}" for name, value in one.changed.items())}
        for name in table.measures:
            if figure := (one.figures or {}).get(name):
                row |= {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}
            if apart := (one.differences or {}).get(name):
                row |= {f"{name}_difference_{end}": value for end, value in apart._asdict().items()}
        rows.append(row)
    return pd.DataFrame(rows)


def _pick_measure(measures: list[str], key: str) -> str:
    chosen = st.pills(
        word("ablation.measure"),
        measures,
        default=measures[-1],
        format_func=measure_name,
        key=f"ablation_measure_{key}_{len(measures)}",  # more of them are known at the end
        required=True,
        label_visibility="collapsed",
    )
    return str(chosen or measures[-1])


def _figures(table: Table, measure: str, *, varied: bool) -> pd.DataFrame:
    rows = [
        {
            "variant": variant_name(one, varied=varied),
            "reference": one.number == REFERENCE,
            "alike": is_comparable(one, measure),
            **{end: in_units(measure, value) for end, value in (one.figures or {})[measure]._asdict().items()},
        }
        for one in table.variants
        if measure in (one.figures or {})
    ]
    return pd.DataFrame(rows)


def _draw_numbers(table: Table, measures: list[str], measure: str, *, varied: bool) -> None:
    """Underneath, figures stay numbers, so that columns sort by them."""
    rows = [_row(one, measures, measure, varied=varied) for one in table.variants]
    numbers = pd.DataFrame(rows, columns=["variant", *measures, "difference", "p"])
    style = numbers.style.format("{:.4f}", subset=["p"], na_rep="")
    best = {name: _best(table, name) for name in measures}
    for place, one in enumerate(table.variants):
        for name in measures:
            cell = pd.IndexSlice[[place], [name]]
            style = style.format(_as(_cell(one, name)), subset=cell)
            if one.number == best[name]:
                style = style.set_properties(subset=cell, **{"font-weight": "700"})
        apart = (one.differences or {}).get(measure)
        told = f"{signed(apart.value)} [{signed(apart.low)}, {signed(apart.high)}]" if apart else ""
        style = style.format(_as(told), subset=pd.IndexSlice[[place], ["difference"]])
    known = any(measure in (one.differences or {}) for one in table.variants)
    columns = {"variant": tables.text("ablation.variant", pinned=True, width=150), measure: _column(measure)}
    if known:
        columns["difference"] = tables.number("ablation.difference", width=125)
        columns["p"] = tables.number("ablation.p", "%.4f", width=60)
    columns |= {name: _column(name) for name in measures if name != measure}
    order = [*columns]
    st.dataframe(style, hide_index=True, column_order=order, column_config=columns, placeholder=_MISSING)


def _column(measure: str) -> ColumnConfig:
    return st.column_config.NumberColumn(measure_name(measure), help=measure_help(measure), width=155)


def _row(one: Variant, measures: list[str], measure: str, *, varied: bool) -> dict[str, Any]:
    figures, apart = one.figures or {}, (one.differences or {}).get(measure)
    return {
        "variant": variant_name(one, varied=varied),
        **{name: in_units(name, figures[name].value) if name in figures else None for name in measures},
        "difference": 100 * apart.value if apart else None,
        "p": apart.p if apart else None,
    }


def _cell(one: Variant, name: str) -> str:
    figure = (one.figures or {}).get(name)
    if figure is None:
        return ""
    value, low, high = (figure_words(name, end) for end in figure)
    return f"{value} [{low}–{high}]{'' if is_comparable(one, name) else ' ' + _OTHERS}"


def _best(table: Table, name: str) -> int:
    """The number of the variant that is best by a measure, among those that are comparable."""
    known = {
        one.number: one.figures[name].value
        for one in table.variants
        if one.figures and name in one.figures and is_comparable(one, name)
    }
    sign = -1 if name == PERPLEXITY else 1
    return max(known, key=lambda number: sign * known[number], default=-1)


def _as(text: str) -> Callable[[object], str]:
    return lambda _: text


def _notes(table: Table, measure: str, *, varied: bool) -> list[str]:
    notes = [word("ablation.dashed", name=variant_name(Variant(REFERENCE, {}), varied=varied))]
    if varied and any(measure in (one.differences or {}) for one in table.variants):
        notes.append(word("ablation.tested_together"))
    others = [one for one in table.variants for name in OF_HIDDEN_TOKENS if name in (one.figures or {})]
    if any(not one.alike for one in others):
        notes.append(word("ablation.other_tokens", mark=_OTHERS))
    judges = [word("ablation.questions", count=f"{table.questions:,}")] if table.questions else []
    judges += [word("ablation.pairs", count=f"{table.pairs:,}")] if table.pairs else []
    if judges:
        notes.append(word("ablation.judged_on", judges=" · ".join(judges)))
    return [*notes, word("ablation.intervals_of")]


def _failures(table: Table, base: str, *, varied: bool) -> None:
    for one in table.variants:
        if one.code:
            st.markdown(word("ablation.failed", name=plain(variant_name(one, varied=varied))))
            tell_training_failure(one.code, one.message, base)
