"""The view of a training's steps: how likely words became at a masked place as a language model learned."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.problems import Failure
from language.inside.fill_mask import MASK, Course
from training.runs.runs import Run
from views.language import charts
from views.language.fill_mask import draw_text
from views.language.inside import asked, draw_way_to_training, language_runs, models_on_the_way, told, watched
from views.resources.language import course_of
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.problems import failure_text
from views.ui.state import remember
from views.ui.typed import typed
from views.ui.words import plain, word

MOST_WORDS = 8  # as many as there are colours
_USUAL = 3  # words, where none is typed
_LETTERS = 200
_OFFERED = 3  # other runs
_NAME = "draw_course"


def draw(model: str, names: Mapping[str, str]) -> None:
    """Draw the probability of each word over the steps of the run chosen, once a click had its models asked."""
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
            max_chars=_LETTERS,
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
    answer.markdown(_answer(curves, steps))
    kept = int(run.scores().get("kept_step", 0))
    table = pd.concat(
        [pd.DataFrame({"step": [*steps], "word": one, "probability": curve}) for one, curve in curves.items()],
        ignore_index=True,
    )
    draw_chart(charts.over_steps, table, [*curves], kept, alt=word("inside.view_over_steps"))
    if kept:
        st.caption(word("inside.steps_help", step=f"{kept:,}", mask=MASK))
    _draw_table(table)


def _answer(curves: Mapping[str, np.ndarray], steps: Sequence[int]) -> str:
    most = max(curves, key=lambda one: abs(float(curves[one][-1] - curves[one][0])))
    first, last = (share(float(curves[most][place])) for place in (0, -1))
    return word("inside.steps_answer", word=plain(most), first=first, last=last, step=f"{steps[-1]:,}")


def share(value: float) -> str:
    """Return a probability in percent, with as many digits as tell it from none."""
    return f"{value:.1%}" if value >= 0.001 else f"{100 * value:.2g}%"


def _draw_table(table: pd.DataFrame) -> None:
    with st.expander(word("inside.as_table")):
        wide = table.pivot_table(index="step", columns="word", values="probability", sort=False)
        st.dataframe(wide.rename_axis(index=word("inside.step"), columns=None).style.format("{:.5f}"))
    tables.draw_csv("inside.steps_download", lambda: table, "over_steps.csv", "download_steps")
