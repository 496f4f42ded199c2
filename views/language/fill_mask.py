"""The view of a masked place: what one model expects there, or several side by side, as before and after a training."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from data.problems import Failure
from language.inside.fill_mask import MASK, MOST_MASKS, Guess
from models.hub import ModelError
from models.sources import find_model
from views.language import charts
from views.language.inside import base_of, draw_way_to_training, is_open, language_runs, let_in, reason
from views.names import base_name
from views.resources.language import guesses, may_fill
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.state import choose_several
from views.ui.typed import typed
from views.ui.words import plain, word

TEXT = f"대한민국의 수도는 {MASK}이다."
_LETTERS = 500
_K = 10
_MOST_MODELS = 4
Told = Mapping[str, Sequence[Sequence[Guess]]]


def draw(model: str, names: Mapping[str, str]) -> None:
    """Draw what is likeliest at every masked place, a column a model."""
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
    answer.markdown(_answer(found, base, names))
    for place in range(len(next(iter(found.values())))):
        _draw_place(found, names, place)


def draw_text() -> str:
    """Draw the field of the text with masked places; returns it."""
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


def _answer(found: Told, base: str | None, names: Mapping[str, str]) -> str:
    first, places = next(iter(found.items()))
    told = word("inside.masked_answer", model=plain(names[first]), words=_likeliest(places))
    if base and base in found and base != first:
        told += " " + word("inside.masked_answer_before", words=_likeliest(found[base]))
    return told


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
