"""Views of a language model: tokens predicted at a masked position, word probabilities by step, and layers compared."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.pairs import PairKind, part_to_measure
from mrc_workbench.data.problems import Failure
from mrc_workbench.labs.language.layers import MOST_PASSAGES, MOST_QUESTIONS, LayerScores, Pooling
from mrc_workbench.labs.language.network import MASK, MOST_MASKS, Course, Guess
from mrc_workbench.labs.language.pages import page, resources
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.retrieval.report.charts import PALETTE, READABLE, legend
from mrc_workbench.training.engine.checkpoints import kept_models
from mrc_workbench.training.runs import Run
from mrc_workbench.training.text_options import LANGUAGE_MODEL
from mrc_workbench.workbench.views.choices import finished_runs, model_place
from mrc_workbench.workbench.views.names import base_name, pair_set_name, set_name
from mrc_workbench.workbench.views.navigation import open_page
from mrc_workbench.workbench.views.resources.sets import chosen_set, parts_of, stored_pairs
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import apart, draw_chart, marked_lines, tips
from mrc_workbench.workbench.views.ui.state import choose, choose_named, choose_several, remember, typed
from mrc_workbench.workbench.views.ui.words import failure_text, plain, signed, word

TEXT = f"대한민국의 수도는 {MASK}이다."
_LETTERS, _LETTERS_OF_WORDS = 500, 200
_K = 10  # pieces
_MOST_MODELS = 4
MOST_WORDS = 8  # as many as there are colours
_USUAL = 3  # words, where none is typed
_OFFERED = 3  # other runs
_NAME = "draw_course"
_HEIGHT = 320  # pixels of the curves
Told = Mapping[str, Sequence[Sequence[Guess]]]


def draw_beside(model: str, names: Mapping[str, str]) -> None:
    answer = st.container()
    text = _typed_text()
    runs = _language_runs()
    base = runs[model].plan().options.base if model in runs else STARTER
    if base != STARTER:
        name = names.get(base) or base_name(base)
        _draw_base(base, name)
        names = {**names, base: word("inside.before", model=name)}
    found: dict[str, list[list[Guess]]] = {}
    for one in [model, *_others(model, base, names)]:
        try:
            with st.spinner(word("inside.at_work"), show_time=True):
                found[one] = resources.guesses(one, text, _K)
        except Failure as error:
            st.warning(plain(page.reason(error)), icon=":material/info:")
            if error.code in ("no_mask", "many_masks"):
                return
    if not found:
        _draw_link_to_training(runs)
        return
    first, places = next(iter(found.items()))
    said = [word("inside.masked_answer", model=plain(names[first]), words=_likeliest(places))]
    if base in found and base != first:
        said.append(word("inside.masked_answer_before", words=_likeliest(found[base])))
    answer.markdown(" ".join(said))
    for place in range(len(places)):
        _draw_place(found, names, place)


def _typed_text() -> str:
    look = {"max_chars": _LETTERS, "help": word("inside.masked_help", mask=MASK, most=MOST_MASKS)}
    return typed(st.text_input, "masked", word("inside.masked"), TEXT, **look)


def _language_runs() -> Mapping[str, Run]:
    return {model_place(run): run for run, plan in finished_runs().items() if plan.kind == LANGUAGE_MODEL}


def _draw_link_to_training(runs: Mapping[str, Run]) -> None:
    if not runs and st.button(word("inside.to_train"), icon=":material/model_training:", key="to_train"):
        open_page("train", train=LANGUAGE_MODEL)


def _others(model: str, base: str, names: Mapping[str, str]) -> list[str]:
    others = [one for one in names if one != model and page.may_load(one) and resources.may_fill(one)]
    others.sort(key=lambda one: one != base)
    if not others:
        return []
    look: dict[str, Any] = {"format_func": lambda one: plain(names[one]), "help": word("inside.beside_help")}
    look["key"] = f"beside_{model}_{len(others)}"
    return choose_several(st.pills, "beside", word("inside.beside"), others, [base], **look)[: _MOST_MODELS - 1]


def _draw_base(base: str, name: str) -> None:
    try:
        find_model(base)
    except ModelError:
        st.caption(word("inside.base_gone", model=plain(name)))
        return
    if not resources.may_fill(base):
        st.caption(word("inside.base_without_head", model=plain(name)))
    elif not page.may_load(base) and st.button(
        word("inside.fetch_base", model=plain(name)), icon=":material/download:"
    ):
        page.allow_download(base)


def _likeliest(places: Sequence[Sequence[Guess]]) -> str:
    return ", ".join(f"**{plain(guessed[0].piece)}** ({guessed[0].probability:.0%})" for guessed in places)


def _draw_place(found: Told, names: Mapping[str, str], place: int) -> None:
    if len(next(iter(found.values()))) > 1:
        st.markdown(f"**{word('inside.masked_place', place=place + 1)}**")
    reach = max(places[place][0].probability for places in found.values())  # one scale, so that models compare
    for column, (model, places) in zip(st.columns(len(found)), found.items(), strict=True):
        rows = [(f"{rank}. {one.piece}", one.probability) for rank, one in enumerate(places[place], 1)]
        table = pd.DataFrame(rows, columns=["piece", "probability"])
        with column:
            st.caption(plain(names[model]))
            draw_chart(bars, table, [*table["piece"]], reach)
            columns = {"piece": tables.text("inside.piece", "")}
            page.draw_as_table(table, columns | {"probability": tables.number("inside.probability", "%.4f", "")})


def bars(table: pd.DataFrame, order: Sequence[str], reach: float) -> alt.Chart:
    """One bar a "piece" of its "probability" (0 to 1), on a scale up to `reach`."""
    title = word("inside.probability")
    scale, axis = alt.Scale(domain=[0, reach], nice=False), alt.Axis(format=".2~%", tickCount=4)
    base = alt.Chart(table).encode(
        y=alt.Y("piece:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=120)),
        x=alt.X("probability:Q", title=title, scale=scale, axis=axis),
        tooltip=tips(("piece:N", word("inside.piece")), ("probability:Q", title, ".2%")),
    )
    described = charts.describe(title, charts.values([*table["piece"]], [*table["probability"]], ".2%"))
    return base.mark_bar(color=PALETTE[0]).properties(height=60 + 24 * len(order), description=described)


def draw_course(model: str, names: Mapping[str, str]) -> None:
    runs = _language_runs()
    run = runs.get(model)
    folders = _models_on_the_way(run) if run else {}
    if run is None or not folders:
        _draw_none(model, names, runs)
        return
    answer = st.container()
    text = _typed_text()
    look: dict[str, Any] = {"max_chars": _LETTERS_OF_WORDS, "help": word("inside.step_words_help", most=MOST_WORDS)}
    look["placeholder"] = word("inside.step_words_usual", count=_USUAL)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        words = typed(st.text_input, "step_words", word("inside.step_words"), "", **look)
        wanted = page.start_button(_NAME, model, word("inside.draw_course"))
    if not wanted:
        answer.info(word("inside.steps_about", count=len(folders)), icon=":material/info:")
        return
    with page.display_failures(), page.progress_bar(_NAME, model) as tell:
        found = resources.course_of(names[model], tuple(folders.values()), text, tell)
        _draw_found(found, words_of(words) or found.likeliest(_USUAL), [*folders], run, answer)


def _models_on_the_way(run: Run) -> Mapping[int, Path]:
    found = kept_models(run.folder)
    return found if len(found) > 1 else {}


def words_of(text: str) -> list[str]:
    return [*dict.fromkeys(one.strip() for one in text.split(",") if one.strip())][:MOST_WORDS]


def _draw_none(model: str, names: Mapping[str, str], runs: Mapping[str, Run]) -> None:
    st.info(word("inside.steps_none", model=plain(names.get(model, model))), icon=":material/info:")
    _draw_link_to_training(runs)
    others = [one for one, run in runs.items() if one in names and _models_on_the_way(run)][:_OFFERED]
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
    wide = pd.DataFrame(curves, index=pd.Index([*steps], name="step"))
    table = wide.reset_index().melt("step", var_name="word", value_name="probability")
    draw_chart(over_steps, table, [*curves], kept)
    if kept:
        st.caption(word("inside.steps_help", step=f"{kept:,}", mask=MASK))
    with st.expander(word("inside.as_table")):
        st.dataframe(wide.rename_axis(index=word("inside.step")).style.format("{:.5f}"))
    tables.draw_csv("inside.steps_download", lambda: table, "over_steps.csv", "download_steps")


def share(value: float) -> str:
    """Return a probability in percent, with enough digits to tell it from 0."""
    return f"{value:.1%}" if value >= 0.001 else f"{100 * value:.2g}%"


def over_steps(table: pd.DataFrame, order: Sequence[str], kept: int) -> alt.LayerChart:
    """One line a "word" of "probability" (0 to 1) over "step"; a dashed line marks the step `kept`, if any."""
    x, y = word("inside.step"), word("inside.probability")
    tint, mark = apart("word", order, order, legend(symbolOpacity=1))
    base = alt.Chart(table).encode(
        x=alt.X("step:Q", title=x, axis=alt.Axis(format=",d", tickCount=6, grid=False)),
        y=alt.Y("probability:Q", title=y, axis=alt.Axis(format=".2~%", tickCount=5)),
        color=tint,
        tooltip=tips(("word:N", word("inside.word")), ("step:Q", x, ","), ("probability:Q", y, ".3%")),
    )
    layers = marked_lines(base, mark, strokeWidth=2.5)
    if kept:
        rule = alt.Chart(pd.DataFrame({"step": [kept]})).mark_rule(strokeDash=[4, 4], color=READABLE)
        layers = [rule.encode(x="step:Q"), *layers]
    rows = charts.courses(table, "word", "step", "probability", ".2%")
    described = charts.describe(word("inside.view_over_steps"), rows)
    return alt.layer(*layers).properties(height=_HEIGHT, description=described)


def draw_layers(model: str, _names: Mapping[str, str]) -> None:
    judges = {"people": _draw_by_people, "questions": _draw_by_questions}
    answer, controls = st.container(), st.container(horizontal=True, vertical_alignment="bottom")
    look: dict[str, Any] = {"format_func": lambda one: word(f"inside.layers_by_{one}"), "width": "content"}
    label, explained = word("inside.layers_by"), word("inside.layers_by_help")
    with controls:
        judge = choose(st.segmented_control, "layers_by", label, [*judges], "people", help=explained, **look)
    judges[judge](model, answer, controls)


def pooling_name(pooling: str) -> str:
    return word(f"inside.pooling_{pooling}")


def draw_figures(figures: np.ndarray, *, y: str) -> None:
    """Draw metrics `(n_layers + 1, 3)` by layer and `Pooling`, 0 to 1, in percent, with the axis title `y`."""
    names = [pooling_name(one) for one in Pooling]
    wide = pd.DataFrame(100 * figures, columns=names, index=pd.Index(map(str, range(len(figures))), name="layer"))
    long = wide.reset_index().melt("layer", var_name="pooling", value_name="value")
    draw_chart(poolings, long.dropna(), names, y=y)


def poolings(table: pd.DataFrame, order: Sequence[str], *, y: str) -> alt.LayerChart:
    """One line a "pooling" of "value" over "layer"."""
    tint, mark = apart("pooling", order, order, legend(symbolOpacity=1))
    layers = [*dict.fromkeys(table["layer"])]
    base = alt.Chart(table).encode(
        x=alt.X("layer:N", sort=layers, title=word("inside.layer"), axis=alt.Axis(labelAngle=0)),
        y=alt.Y("value:Q", title=y, scale=alt.Scale(zero=False, padding=8), axis=alt.Axis(format=".0f", tickCount=5)),
        color=tint,
        tooltip=tips(("pooling:N", word("inside.pooling")), ("layer:N", word("inside.layer")), ("value:Q", y, ".1f")),
    )
    rows = charts.courses(table, "pooling", "layer", "value", ".1f")
    described = charts.describe(f"{word('inside.view_layers')}, {y}", rows)
    return alt.layer(*marked_lines(base, mark, strokeWidth=2.5)).properties(height=320, description=described)


def draw_table(figures: np.ndarray) -> None:
    names = [pooling_name(one) for one in Pooling]
    table = pd.DataFrame(100 * figures, columns=names)
    columns = {"layer": tables.number("inside.layer", "%d", "")}
    columns |= {name: tables.figure(name, "%.2f") for name in names}
    page.draw_as_table(table.reset_index(names="layer"), columns, placeholder="–")


_BY_PEOPLE = "measure_layers"


def _draw_by_people(model: str, answer: DeltaGenerator, controls: DeltaGenerator) -> None:
    sets = {one.key: one for one in stored_pairs() if one.kind is PairKind.SCORED}
    if not sets:
        st.info(word("inside.no_scored"), icon=":material/info:")
        return
    with controls:
        names = {key: pair_set_name(one) for key, one in sets.items()}
        data = sets[choose_named("layer_pairs", word("embeddings.pairs"), names, next(iter(sets)), width=240)]
        wanted = page.start_button(_BY_PEOPLE, (model, data.key), word("inside.measure_layers"))
    if not wanted:
        answer.info(word("inside.layers_about", most=resources.MOST_PAIRS), icon=":material/info:")
        return
    part = part_to_measure(parts_of(data.key))
    with page.display_failures(), page.progress_bar(_BY_PEOPLE, (model, data.key)) as tell:
        found = resources.scores_by_layer(model, data.key, part, tell)
        answer.markdown(_answer_of_people(found))
        draw_figures(found.spearman, y=word("embeddings.spearman"))
        st.caption(word("inside.layers_help"))
        draw_table(found.spearman)


def _answer_of_people(found: LayerScores) -> str:
    layer, pooling = found.best
    values = {"pooling": pooling_name(pooling), "best": f"{100 * np.nanmax(found.spearman):.1f}", "pairs": found.pairs}
    last = found.spearman[-1]
    if layer == len(found.spearman) - 1:
        return word("inside.layers_answer_last", layer=layer, **values)
    usual = int(np.nanargmax(last))
    last_best, last_pooling = f"{100 * last[usual]:.1f}", pooling_name([*Pooling][usual])
    return word("inside.layers_answer", layer=layer, last=last_best, usual=last_pooling, **values)


_BY_QUESTIONS = "search_layers"
_MEASURE = "nDCG@10"


def _draw_by_questions(model: str, answer: DeltaGenerator, controls: DeltaGenerator) -> None:
    data = chosen_set()
    if not data.questions:
        st.info(word("inside.no_questions", data=plain(set_name(data.name))), icon=":material/info:")
        return
    with controls:
        wanted = page.start_button(_BY_QUESTIONS, (model, data.key), word("inside.search_layers"))
    if not wanted:
        limits = {"questions": MOST_QUESTIONS, "passages": MOST_PASSAGES}
        answer.info(word("inside.search_about", data=plain(set_name(data.name)), **limits), icon=":material/info:")
        return
    part = resources.part_to_search(data)
    with page.display_failures(), page.progress_bar(_BY_QUESTIONS, (model, data.key)) as tell:
        findings = resources.search_by_layer(model, data, part, tell)
        answer.markdown(_answer_of_questions(findings))
        means = findings.found.means
        draw_figures(means, y=_MEASURE)
        searched = findings.found.searched
        counts = {"questions": len(searched.questions), "passages": len(searched.passages)}
        st.caption(word("inside.search_help", data=plain(set_name(data.name)), part=word(f"part.{part}"), **counts))
        draw_table(means)
        tables.draw_csv("inside.layers_download", lambda: table_of(findings), "layers.csv", "download_layers")


def _answer_of_questions(findings: resources.LayerFindings) -> str:
    found = findings.found
    layer, pooling = found.best
    low, high = findings.intervals[layer, pooling]
    mean = found.means[layer, [*Pooling].index(pooling)]
    values = {"layer": layer, "pooling": pooling_name(pooling), "best": f"{100 * mean:.1f}"}
    values |= {"low": f"{100 * low:.1f}", "high": f"{100 * high:.1f}"}
    test = findings.tests.get((layer, pooling))
    if test is None:
        return word("inside.search_answer_usual", **values)
    usual = f"{100 * found.means[-1, [*Pooling].index(Pooling.MEAN)]:.1f}"
    ends = {"difference": signed(test.difference), "from_": signed(test.low), "to": signed(test.high)}
    key = "inside.search_answer_sure" if test.sure else "inside.search_answer_unsure"
    return word(key, **values, last=len(found.ndcg) - 1, usual=usual, **ends)


def table_of(findings: resources.LayerFindings) -> pd.DataFrame:
    """One row a layer and pooling: the mean, its interval, and the tested difference from the default."""
    means, rows = findings.found.means, []
    for (layer, pooling), (low, high) in findings.intervals.items():
        mean = means[layer, [*Pooling].index(pooling)]
        row = {"layer": layer, "pooling": pooling.value, "ndcg@10": mean, "low": low, "high": high}
        if test := findings.tests.get((layer, pooling)):
            row |= {"difference": test.difference, "difference_low": test.low, "difference_high": test.high}
            row["p"] = test.p_family
        rows.append(row)
    return pd.DataFrame(rows)
