"""The views of a masked place: what models expect there side by side, and how likely words became as one learned.

What is compared is one model with others, as before and after a training, or the models that a training kept."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.problems import Failure
from language.inside.network import MASK, MOST_MASKS, Course, Guess
from models.hub import ModelError
from models.sources import find_model
from training.runs.runs import Run
from views.language import charts
from views.language.inside import (
    asked,
    base_of,
    draw_way_to_training,
    is_open,
    language_runs,
    let_in,
    models_on_the_way,
    reason,
    told,
    watched,
)
from views.names import base_name
from views.resources.language import course_of, guesses, may_fill
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.problems import failure_text
from views.ui.state import choose_several, remember, typed
from views.ui.words import plain, word

TEXT = f"대한민국의 수도는 {MASK}이다."
_LETTERS, _LETTERS_OF_WORDS = 500, 200
_K = 10  # pieces
_MOST_MODELS = 4
MOST_WORDS = 8  # as many as there are colours
_USUAL = 3  # words, where none is typed
_OFFERED = 3  # other runs
_NAME = "draw_course"
Told = Mapping[str, Sequence[Sequence[Guess]]]


def draw_beside(model: str, names: Mapping[str, str]) -> None:
    answer = st.container()
    text = draw_text()
    if base := base_of(model):
        called = names.get(base) or base_name(base)
        _tell_of_base(base, called)
        names = {**names, base: word("inside.before", model=called)}
    found: dict[str, list[list[Guess]]] = {}
    for one in [model, *_others(model, base, names)]:
        try:
            with st.spinner(word("inside.at_work"), show_time=True):
                found[one] = guesses(one, text, _K)
        except Failure as error:
            st.warning(plain(reason(error)), icon=":material/info:")
            if error.code in ("no_mask", "many_masks"):
                return
    if not found:
        if not language_runs():
            draw_way_to_training()
        return
    answer.markdown(_answer_beside(found, base, names))
    for place in range(len(next(iter(found.values())))):
        _draw_place(found, names, place)


def draw_text() -> str:
    look = {"max_chars": _LETTERS, "help": word("inside.masked_help", mask=MASK, most=MOST_MASKS)}
    return typed(st.text_input, "masked", word("inside.masked"), TEXT, **look)


def _others(model: str, base: str | None, names: Mapping[str, str]) -> list[str]:
    """Draw the choice of models to compare with, of those that are here, the base first and picked; returns them."""
    others = [one for one in names if one != model and is_open(one) and may_fill(one)]
    others.sort(key=lambda one: one != base)
    if not others:
        return []
    picked = choose_several(
        st.pills,
        "beside",
        word("inside.beside"),
        others,
        [one for one in others if one == base],
        key=f"beside_{model}_{len(others)}",
        format_func=lambda one: plain(names[one]),
        help=word("inside.beside_help"),
    )
    return picked[: _MOST_MODELS - 1]


def _tell_of_base(base: str, name: str) -> None:
    """Draw why a base cannot be put beside, or the button that has it fetched."""
    try:
        find_model(base)
    except ModelError:
        st.caption(word("inside.base_gone", model=plain(name)))
        return
    if not may_fill(base):
        st.caption(word("inside.base_without_head", model=plain(name)))
    elif not is_open(base) and st.button(word("inside.fetch_base", model=plain(name)), icon=":material/download:"):
        let_in(base)


def _answer_beside(found: Told, base: str | None, names: Mapping[str, str]) -> str:
    first, places = next(iter(found.items()))
    said = word("inside.masked_answer", model=plain(names[first]), words=_likeliest(places))
    if base and base in found and base != first:
        said += " " + word("inside.masked_answer_before", words=_likeliest(found[base]))
    return said


def _likeliest(places: Sequence[Sequence[Guess]]) -> str:
    return ", ".join(f"**{plain(guessed[0].piece)}** ({guessed[0].probability:.0%})" for guessed in places)


def _draw_place(found: Told, names: Mapping[str, str], place: int) -> None:
    if len(next(iter(found.values()))) > 1:
        st.markdown(f"**{word('inside.masked_place', place=place + 1)}**")
    reach = max(places[place][0].probability for places in found.values())  # one scale, so that models compare
    for column, (model, places) in zip(st.columns(len(found)), found.items(), strict=True):
        table = pd.DataFrame(
            {
                "piece": [f"{rank + 1}. {one.piece}" for rank, one in enumerate(places[place])],
                "probability": [one.probability for one in places[place]],
            }
        )
        with column:
            st.caption(plain(names[model]))
            draw_chart(charts.guesses, table, [*table["piece"]], reach)
            with st.expander(word("inside.as_table")):
                columns = {
                    "piece": tables.text("inside.piece", ""),
                    "probability": tables.number("inside.probability", "%.4f", ""),
                }
                st.dataframe(table, hide_index=True, column_config=columns)


def draw_course(model: str, names: Mapping[str, str]) -> None:
    runs = language_runs()
    run = runs.get(model)
    folders = models_on_the_way(run) if run else {}
    if run is None or not folders:
        _draw_none(model, names, runs)
        return
    answer = st.container()
    text = draw_text()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        words = typed(
            st.text_input,
            "step_words",
            word("inside.step_words"),
            "",
            max_chars=_LETTERS_OF_WORDS,
            placeholder=word("inside.step_words_usual", count=_USUAL),
            help=word("inside.step_words_help", most=MOST_WORDS),
        )
        wanted = asked(_NAME, model, word("inside.draw_course"))
    if not wanted:
        answer.info(word("inside.steps_about", count=len(folders)), icon=":material/info:")
        return
    with told(), watched(_NAME, model) as tell:
        found = course_of(names[model], tuple(folders.values()), text, tell)
        _draw_found(found, words_of(words) or found.likeliest(_USUAL), [*folders], run, answer)


def words_of(text: str) -> list[str]:
    """Return the different words between commas, `MOST_WORDS` of them."""
    return [*dict.fromkeys(one.strip() for one in text.split(",") if one.strip())][:MOST_WORDS]


def _draw_none(model: str, names: Mapping[str, str], runs: Mapping[str, Run]) -> None:
    st.info(word("inside.steps_none", model=plain(names.get(model, model))), icon=":material/info:")
    if not runs:
        draw_way_to_training()
    others = [one for one, run in runs.items() if one in names and models_on_the_way(run)][:_OFFERED]
    with st.container(horizontal=True):
        for one in others:
            label = word("inside.steps_of", model=plain(names[one]))
            st.button(label, key=f"steps_of_{one}", on_click=remember, args=("network", one))


def _draw_found(found: Course, words: Sequence[str], steps: Sequence[int], run: Run, answer: DeltaGenerator) -> None:
    curves: dict[str, np.ndarray] = {}
    for one in words:
        try:
            curves[one] = found.of(one)
        except Failure as error:
            st.warning(plain(failure_text(error)), icon=":material/info:")
    if not curves:
        return
    most = max(curves, key=lambda one: abs(float(curves[one][-1] - curves[one][0])))
    first, last = (share(float(curves[most][place])) for place in (0, -1))
    answer.markdown(word("inside.steps_answer", word=plain(most), first=first, last=last, step=f"{steps[-1]:,}"))
    kept = int(run.scores().get("kept_step", 0))
    table = pd.concat(
        [pd.DataFrame({"step": [*steps], "word": one, "probability": curve}) for one, curve in curves.items()],
        ignore_index=True,
    )
    draw_chart(charts.over_steps, table, [*curves], kept, alt=word("inside.view_over_steps"))
    if kept:
        st.caption(word("inside.steps_help", step=f"{kept:,}", mask=MASK))
    with st.expander(word("inside.as_table")):
        wide = table.pivot_table(index="step", columns="word", values="probability", sort=False)
        st.dataframe(wide.rename_axis(index=word("inside.step"), columns=None).style.format("{:.5f}"))
    tables.draw_csv("inside.steps_download", lambda: table, "over_steps.csv", "download_steps")


def share(value: float) -> str:
    """Return a probability in percent, with as many digits as tell it from none."""
    return f"{value:.1%}" if value >= 0.001 else f"{100 * value:.2g}%"
