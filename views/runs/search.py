"""A search for settings: at work, and what it found, with its trials folded under it."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from retrieval.evaluation.measures import Measure
from training.runs.runs import Plan
from training.runs.sweeps import DEFAULTS, Findings, Search
from views.names import run_name
from views.runs.head import draw_parts
from views.ui import tables
from views.ui.words import plain, signed, word, word_or

Use = Callable[[Plan, Findings], None]  # fills what was found into the form; called as a callback


def draw_search(search: Search, use: Use) -> None:
    found, plan = search.found, search.plan()
    if found is not None:
        if search.done:
            st.markdown(_sentence(found))
        _table(plan, found)
        if search.done:
            st.button(
                word("settings.use"),
                on_click=use,
                args=(plan, found),
                icon=":material/check:",
                help=word("settings.use_help"),
                key=f"use_settings_{search.id}",
            )
    _trials(search)


def setting_words(changes: Mapping[str, Any]) -> str:
    said = {name: value_words(name, value) for name, value in changes.items()}
    labels = {name: "" if name == "objective" else word_or(f"option.{name}", name) + ": " for name in said}
    named = (labels[name] + told for name, told in said.items())  # an objective says by itself what it is
    return ", ".join(named) or word("settings.defaults")


def value_words(name: str, value: Any) -> str:
    if name == "objective":
        return word_or(f"objective.{value}", str(value))
    number = f"{value:.10f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return word_or(f"choice.{name}_{value}", number)


def draw_search_so_far(search: Search) -> None:
    st.caption(word("settings.minutes_at_most", minutes=f"{search.plan().minutes:g}"))
    if found := search.found:
        _table(search.plan(), found)
    _trials(search)


def _sentence(found: Findings) -> str:
    measure = Measure.parse(found.measure).long
    if found.best == DEFAULTS:
        return word("settings.defaults_best", measure=measure)
    best = next(one for one in found.tried if one.number == found.best)
    return word(
        "settings.better" if found.chosen != DEFAULTS else "settings.alike",
        setting=plain(setting_words(best.changed)),
        measure=measure,
        points=signed(best.difference),
        low=signed(best.difference_low),
        high=signed(best.difference_high),
    )


def _table(plan: Plan, found: Findings) -> None:
    """One row a trial, those that came furthest first; underneath, figures stay numbers, so columns sort by them."""
    tried = sorted(found.tried, key=lambda one: (-one.share, one.number != DEFAULTS, -one.value))
    rows = [
        {
            "chosen": "✓" if one.number == found.chosen else "",
            "setting": setting_words(one.changed),
            "value": one.value,
            "difference": one.difference,
            "p": one.p_family,
            "epochs": one.epochs,
            "steps": one.steps,
            "loss": one.loss,
        }
        for one in tried
    ]
    table = pd.DataFrame(rows)
    style = table.style.format("{:.2f}", subset=["epochs"]).format("{:.4f}", subset=["p", "loss"], na_rep="")
    for place, one in enumerate(tried):
        value = f"{100 * one.value:.2f} [{100 * one.low:.1f}–{100 * one.high:.1f}]"
        style = tables.write(style, place, "value", value)
        apart = f"{signed(one.difference)} [{signed(one.difference_low)}, {signed(one.difference_high)}]"
        is_reference = one.number == DEFAULTS  # it differs from itself in nothing
        style = tables.write(style, place, "difference", "" if is_reference else apart)
        style = tables.write(style, place, "p", "") if is_reference else style
        if one.number == found.chosen:
            style = style.map(lambda _: tables.BOLD, subset=pd.IndexSlice[[place], :])
    tables.draw(
        style,
        {
            "chosen": tables.text("settings.chosen", width=45),
            "setting": tables.text("settings.setting", width=250),
            "value": tables.measure(found.measure, Measure.parse(found.measure).long, width=130),
            "difference": tables.number("settings.difference", width=130),
            "p": tables.number("settings.p", "%.4f"),
            "epochs": tables.number("settings.epochs", width=55),
            "steps": tables.number("settings.steps", width=50),
            "loss": tables.number("settings.loss", width=65),
        },
    )
    _notes(plan, found)


def _notes(plan: Plan, found: Findings) -> None:
    values = {"questions": f"{found.questions:,}", "measure": Measure.parse(found.measure).long}
    notes = [word("settings.measured_on", **values, untrained=f"{100 * found.untrained:.2f}")]
    if found.failed:
        notes.append(word("settings.failed", numbers=", ".join(map(str, found.failed))))
    if found.untried:
        notes.append(word("settings.untried", numbers=", ".join(map(str, found.untried))))
    if plan.options.reranked:
        notes.append(word("train.measured_reranked", depth=plan.options.reranked))
    st.caption(" ".join(notes))


def _trials(search: Search) -> None:
    trials = search.parts()
    draw_parts(search, trials, word("settings.trials", count=len(trials)), lambda run: run_name(run.plan()))
