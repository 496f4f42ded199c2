"""Views of a language model: tokens predicted at a masked position, word probabilities by step, and layers compared."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.pairs import PairKind, evaluation_part
from mrc_workbench.data.problems import Failure
from mrc_workbench.labs.language.layers import MAX_PASSAGES, MAX_QUESTIONS, LayerScores, PoolingMode, best_layer
from mrc_workbench.labs.language.network import MASK, MAX_MASKS, CheckpointPredictions, TokenPrediction
from mrc_workbench.labs.language.pages import page, resources
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.retrieval.report.charts import PALETTE, TEXT_COLOUR, legend
from mrc_workbench.training.engine.checkpoints import model_snapshots
from mrc_workbench.training.runs import Run
from mrc_workbench.training.text_options import LANGUAGE_MODEL
from mrc_workbench.workbench.views.choices import finished_runs, model_reference
from mrc_workbench.workbench.views.names import base_name, pair_set_name, set_name
from mrc_workbench.workbench.views.navigation import open_page
from mrc_workbench.workbench.views.resources.sets import parts_of, selected_set, stored_pairs
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import color_and_shape, draw_chart, marked_lines, tooltips
from mrc_workbench.workbench.views.ui.state import choose, choose_named, choose_several, draw_text_field, remember
from mrc_workbench.workbench.views.ui.words import failure_text, label_and_help, plain, signed, word

TEXT = f"대한민국의 수도는 {MASK}이다."
_MAX_CHARACTERS = 500
_MAX_WORD_LIST_CHARACTERS = 200
_N_TOKENS = 10
_MAX_MODELS = 4
MAX_WORDS = 8  # the number of colours
_DEFAULT_WORDS = 3
_MAX_OFFERED_RUNS = 3
_NAME = "draw_checkpoints"
_HEIGHT = 320  # pixels of the curves
PredictionsByModel = Mapping[str, Sequence[Sequence[TokenPrediction]]]
_BY_PEOPLE = "measure_layers"
_BY_QUESTIONS = "search_layers"
_MEASURE = "nDCG@10"


def draw_masked_predictions(model: str, names: Mapping[str, str]) -> None:
    answer = st.container()
    text = _typed_text()
    runs = _language_runs()
    base = runs[model].plan().options.base if model in runs else STARTER
    if base != STARTER:
        name = names.get(base) or base_name(base)
        _draw_base(base, name)
        names = {**names, base: word("inside.before", model=name)}
    predictions: dict[str, list[list[TokenPrediction]]] = {}
    for reference in [model, *_pick_other_models(model, base, names)]:
        try:
            with st.spinner(word("inside.at_work"), show_time=True):
                predictions[reference] = resources.predict_masked(reference, text, _N_TOKENS)
        except Failure as error:
            st.warning(plain(page.reason(error)), icon=":material/info:")
            if error.code in ("no_mask", "many_masks"):
                return
    if not predictions:
        _draw_link_to_training(runs)
        return
    first, positions = next(iter(predictions.items()))
    sentences = [word("inside.masked_answer", model=plain(names[first]), words=_top_predictions(positions))]
    if base in predictions and base != first:
        sentences.append(word("inside.masked_answer_before", words=_top_predictions(predictions[base])))
    answer.markdown(" ".join(sentences))
    for position in range(len(positions)):
        _draw_position(predictions, names, position)


def _typed_text() -> str:
    label = label_and_help("inside.masked", mask=MASK, most=MAX_MASKS)
    return draw_text_field(st.text_input, "masked", default=TEXT, max_chars=_MAX_CHARACTERS, **label)


def _language_runs() -> Mapping[str, Run]:
    return {model_reference(run): run for run, plan in finished_runs().items() if plan.kind == LANGUAGE_MODEL}


def _draw_link_to_training(runs: Mapping[str, Run]) -> None:
    if not runs and st.button(word("inside.to_train"), icon=":material/model_training:", key="to_train"):
        open_page("train", train=LANGUAGE_MODEL)


def _pick_other_models(model: str, base: str, names: Mapping[str, str]) -> list[str]:
    local = [reference for reference in names if reference != model and page.may_load(reference)]
    others = [reference for reference in local if resources.may_fill_masks(reference)]
    others.sort(key=lambda reference: reference != base)
    if not others:
        return []
    look = label_and_help("inside.beside") | {"key": f"beside_{model}_{len(others)}"}
    look["format_func"] = lambda reference: plain(names[reference])
    return choose_several(st.pills, "beside", options=others, default=[base], **look)[: _MAX_MODELS - 1]


def _draw_base(base: str, name: str) -> None:
    try:
        find_model(base)
    except ModelError:
        st.caption(word("inside.base_gone", model=plain(name)))
        return
    if not resources.may_fill_masks(base):
        st.caption(word("inside.base_without_head", model=plain(name)))
    elif not page.may_load(base):
        label = word("inside.fetch_base", model=plain(name))
        if st.button(label, icon=":material/download:"):
            page.allow_download(base)


def _top_predictions(positions: Sequence[Sequence[TokenPrediction]]) -> str:
    return ", ".join(f"**{plain(candidates[0].token)}** ({candidates[0].probability:.0%})" for candidates in positions)


def _draw_position(predictions: PredictionsByModel, names: Mapping[str, str], position: int) -> None:
    if len(next(iter(predictions.values()))) > 1:
        st.markdown(f"**{word('inside.masked_position', position=position + 1)}**")
    at_position = {model: by_position[position] for model, by_position in predictions.items()}
    limit = max(candidates[0].probability for candidates in at_position.values())  # models share one scale
    for column, (model, candidates) in zip(st.columns(len(predictions)), at_position.items(), strict=True):
        rows = [(f"{rank}. {item.token}", item.probability) for rank, item in enumerate(candidates, 1)]
        table = pd.DataFrame(rows, columns=["piece", "probability"])
        with column:
            st.caption(plain(names[model]))
            draw_chart(prediction_chart, table, [*table["piece"]], limit)
            columns = {"piece": tables.text("inside.piece", "")}
            page.draw_as_table(table, columns | {"probability": tables.number("inside.probability", "%.4f", "")})


def prediction_chart(table: pd.DataFrame, order: Sequence[str], reach: float) -> alt.Chart:
    """One bar for the "probability" (0 to 1) of each "piece", on a scale up to `reach`."""
    title = word("inside.probability")
    scale = alt.Scale(domain=[0, reach], nice=False)
    axis = alt.Axis(format=".2~%", tickCount=4)
    base = alt.Chart(table).encode(
        y=alt.Y("piece:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=120)),
        x=alt.X("probability:Q", title=title, scale=scale, axis=axis),
        tooltip=tooltips(("piece:N", word("inside.piece")), ("probability:Q", title, ".2%")),
    )
    described = charts.describe(title, charts.values([*table["piece"]], [*table["probability"]], ".2%"))
    return base.mark_bar(color=PALETTE[0]).properties(height=60 + 24 * len(order), description=described)


def draw_checkpoint_predictions(model: str, names: Mapping[str, str]) -> None:
    runs = _language_runs()
    run = runs.get(model)
    folders = _intermediate_models(run) if run else {}
    if run is None or not folders:
        _draw_no_checkpoints(model, names, runs)
        return
    answer = st.container()
    text = _typed_text()
    look = label_and_help("inside.step_words", most=MAX_WORDS) | {"max_chars": _MAX_WORD_LIST_CHARACTERS}
    look["placeholder"] = word("inside.step_words_default", count=_DEFAULT_WORDS)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        words = draw_text_field(st.text_input, "step_words", default="", **look)
        is_started = page.start_button(_NAME, model, word("inside.draw_checkpoints"))
    if not is_started:
        answer.info(word("inside.steps_about", count=len(folders)), icon=":material/info:")
        return
    with page.display_failures(), page.progress_bar(_NAME, model) as report:
        predictions = resources.predict_checkpoints(names[model], tuple(folders.values()), text, report)
        selected_words = split_words(words) or predictions.top_words(_DEFAULT_WORDS)
        _draw_word_curves(predictions, selected_words, [*folders], run, answer)


def _intermediate_models(run: Run) -> Mapping[int, Path]:
    models = model_snapshots(run.folder)
    return models if len(models) > 1 else {}


def split_words(text: str) -> list[str]:
    return [*dict.fromkeys(part.strip() for part in text.split(",") if part.strip())][:MAX_WORDS]


def _draw_no_checkpoints(model: str, names: Mapping[str, str], runs: Mapping[str, Run]) -> None:
    st.info(word("inside.steps_none", model=plain(names.get(model, model))), icon=":material/info:")
    _draw_link_to_training(runs)
    others = [reference for reference, run in runs.items() if reference in names and _intermediate_models(run)]
    with st.container(horizontal=True):
        for reference in others[:_MAX_OFFERED_RUNS]:
            label = word("inside.steps_of", model=plain(names[reference]))
            st.button(label, key=f"steps_of_{reference}", on_click=remember, args=("network", reference))


def _draw_word_curves(
    predictions: CheckpointPredictions, words: Sequence[str], steps: Sequence[int], run: Run, answer: DeltaGenerator
) -> None:
    curves: dict[str, np.ndarray] = {}
    for key in words:
        try:
            curves[key] = predictions.word_probability(key)
        except Failure as error:
            st.warning(plain(failure_text(error)), icon=":material/info:")
    if not curves:
        return
    most_changed = max(curves, key=lambda key: abs(float(curves[key][-1] - curves[key][0])))
    first, last = (format_probability(float(curves[most_changed][index])) for index in (0, -1))
    last_step = f"{steps[-1]:,}"
    answer.markdown(word("inside.steps_answer", word=plain(most_changed), first=first, last=last, step=last_step))
    selected_step = int(run.scores().get("best_step", 0))
    wide = pd.DataFrame(curves, index=pd.Index([*steps], name="step"))
    table = wide.reset_index().melt("step", var_name="word", value_name="probability")
    draw_chart(step_chart, table, [*curves], selected_step)
    if selected_step:
        st.caption(word("inside.steps_help", step=f"{selected_step:,}", mask=MASK))
    with st.expander(word("inside.as_table")):
        st.dataframe(wide.rename_axis(index=word("inside.step")).style.format("{:.5f}"))
    tables.draw_csv("inside.steps_download", lambda: table, "over_steps.csv", "download_steps")


def format_probability(value: float) -> str:
    """Return a probability in percent, with two digits if it is small."""
    return f"{value:.1%}" if value >= 0.001 else f"{100 * value:.2g}%"


def step_chart(table: pd.DataFrame, order: Sequence[str], selected_step: int) -> alt.LayerChart:
    """One line for each "word" of "probability" (0 to 1) over "step"; a dashed line marks the selected step, if any."""
    x = word("inside.step")
    y = word("inside.probability")
    tint, mark = color_and_shape("word", order, order, legend(symbolOpacity=1))
    base = alt.Chart(table).encode(
        x=alt.X("step:Q", title=x, axis=alt.Axis(format=",d", tickCount=6, grid=False)),
        y=alt.Y("probability:Q", title=y, axis=alt.Axis(format=".2~%", tickCount=5)),
        color=tint,
        tooltip=tooltips(("word:N", word("inside.word")), ("step:Q", x, ","), ("probability:Q", y, ".3%")),
    )
    layers = marked_lines(base, mark, strokeWidth=2.5)
    if selected_step:
        rule = alt.Chart(pd.DataFrame({"step": [selected_step]})).mark_rule(strokeDash=[4, 4], color=TEXT_COLOUR)
        layers = [rule.encode(x="step:Q"), *layers]
    rows = charts.line_texts(table, "word", "step", "probability", ".2%")
    described = charts.describe(word("inside.view_over_steps"), rows)
    return alt.layer(*layers).properties(height=_HEIGHT, description=described)


def draw_layer_comparison(model: str, _names: Mapping[str, str]) -> None:
    views = {"people": _draw_by_people, "questions": _draw_by_questions}
    answer = st.container()
    controls = st.container(horizontal=True, vertical_alignment="bottom")
    look = label_and_help("inside.layers_by") | {"format_func": lambda name: word(f"inside.layers_by_{name}")}
    with controls:
        name = choose(st.segmented_control, "layers_by", options=[*views], default="people", width="content", **look)
    views[name](model, answer, controls)


def pooling_name(pooling: str) -> str:
    return word(f"inside.pooling_{pooling}")


def draw_layer_scores(scores: np.ndarray, *, y: str) -> None:
    """Draw scores `(n_layers + 1, 3)` from 0 to 1 in percent, with the axis title `y`."""
    names = [pooling_name(pooling) for pooling in PoolingMode]
    wide = pd.DataFrame(100 * scores, columns=names, index=pd.Index(map(str, range(len(scores))), name="layer"))
    long = wide.reset_index().melt("layer", var_name="pooling", value_name="value")
    draw_chart(pooling_chart, long.dropna(), names, y=y)


def pooling_chart(table: pd.DataFrame, order: Sequence[str], *, y: str) -> alt.LayerChart:
    """One line for each "pooling" of "value" over "layer"."""
    tint, mark = color_and_shape("pooling", order, order, legend(symbolOpacity=1))
    layers = [*dict.fromkeys(table["layer"])]
    base = alt.Chart(table).encode(
        x=alt.X("layer:N", sort=layers, title=word("inside.layer"), axis=alt.Axis(labelAngle=0)),
        y=alt.Y("value:Q", title=y, scale=alt.Scale(zero=False, padding=8), axis=alt.Axis(format=".0f", tickCount=5)),
        color=tint,
        tooltip=tooltips(
            ("pooling:N", word("inside.pooling")), ("layer:N", word("inside.layer")), ("value:Q", y, ".1f")
        ),
    )
    rows = charts.line_texts(table, "pooling", "layer", "value", ".1f")
    described = charts.describe(f"{word('inside.view_layers')}, {y}", rows)
    return alt.layer(*marked_lines(base, mark, strokeWidth=2.5)).properties(height=320, description=described)


def draw_layer_table(scores: np.ndarray) -> None:
    names = [pooling_name(pooling) for pooling in PoolingMode]
    table = pd.DataFrame(100 * scores, columns=names)
    columns = {"layer": tables.number("inside.layer", "%d", "")}
    columns |= {name: tables.labelled_number(name, "%.2f") for name in names}
    page.draw_as_table(table.reset_index(names="layer"), columns, placeholder="–")


def _draw_by_people(model: str, answer: DeltaGenerator, controls: DeltaGenerator) -> None:
    sets = {pair_set.key: pair_set for pair_set in stored_pairs() if pair_set.kind is PairKind.SCORED}
    if not sets:
        st.info(word("inside.no_scored"), icon=":material/info:")
        return
    with controls:
        names = {key: pair_set_name(pair_set) for key, pair_set in sets.items()}
        data = sets[choose_named("layer_pairs", word("embeddings.pairs"), names, next(iter(sets)), width=240)]
        is_started = page.start_button(_BY_PEOPLE, (model, data.key), word("inside.measure_layers"))
    if not is_started:
        answer.info(word("inside.layers_about", most=resources.MAX_PAIRS), icon=":material/info:")
        return
    part = evaluation_part(parts_of(data.key))
    with page.display_failures(), page.progress_bar(_BY_PEOPLE, (model, data.key)) as report:
        scores = resources.scores_by_layer(model, data.key, part, report)
        answer.markdown(_people_answer(scores))
        draw_layer_scores(scores.spearman, y=word("embeddings.spearman"))
        st.caption(word("inside.layers_help"))
        draw_layer_table(scores.spearman)


def _people_answer(scores: LayerScores) -> str:
    layer, pooling = best_layer(scores.spearman)
    best = f"{100 * np.nanmax(scores.spearman):.1f}"
    values = {"pooling": pooling_name(pooling), "best": best, "pairs": scores.pairs}
    last = scores.spearman[-1]
    if layer == len(scores.spearman) - 1:
        return word("inside.layers_answer_last", layer=layer, **values)
    best_last = int(np.nanargmax(last))
    last_best = f"{100 * last[best_last]:.1f}"
    last_pooling = pooling_name([*PoolingMode][best_last])
    return word("inside.layers_answer", layer=layer, last=last_best, default=last_pooling, **values)


def _draw_by_questions(model: str, answer: DeltaGenerator, controls: DeltaGenerator) -> None:
    data = selected_set()
    if not data.questions:
        st.info(word("inside.no_questions", data=plain(set_name(data.name))), icon=":material/info:")
        return
    with controls:
        is_started = page.start_button(_BY_QUESTIONS, (model, data.key), word("inside.search_layers"))
    if not is_started:
        limits = {"questions": MAX_QUESTIONS, "passages": MAX_PASSAGES}
        answer.info(word("inside.search_about", data=plain(set_name(data.name)), **limits), icon=":material/info:")
        return
    part = resources.part_to_search(data)
    with page.display_failures(), page.progress_bar(_BY_QUESTIONS, (model, data.key)) as report:
        findings = resources.search_by_layer(model, data, part, report)
        answer.markdown(_question_answer(findings))
        means = findings.search.means
        draw_layer_scores(means, y=_MEASURE)
        searched = findings.search.question_set
        counts = {"questions": len(searched.questions), "passages": len(searched.passages)}
        st.caption(word("inside.search_help", data=plain(set_name(data.name)), part=word(f"part.{part}"), **counts))
        draw_layer_table(means)
        tables.draw_csv("inside.layers_download", lambda: layer_table(findings), "layers.csv", "download_layers")


def _question_answer(findings: resources.LayerFindings) -> str:
    search = findings.search
    layer, pooling = best_layer(search.means)
    low, high = findings.intervals[layer, pooling]
    mean = search.means[layer, [*PoolingMode].index(pooling)]
    values = {"layer": layer, "pooling": pooling_name(pooling), "best": f"{100 * mean:.1f}"}
    values |= {"low": f"{100 * low:.1f}", "high": f"{100 * high:.1f}"}
    test = findings.tests.get((layer, pooling))
    if test is None:
        return word("inside.search_answer_default", **values)
    default_score = f"{100 * search.means[-1, [*PoolingMode].index(PoolingMode.MEAN)]:.1f}"
    ends = {"difference": signed(test.difference), "from_": signed(test.low), "to": signed(test.high)}
    key = "inside.search_answer_sure" if test.is_significant else "inside.search_answer_unsure"
    return word(key, **values, last=len(search.ndcg) - 1, default=default_score, **ends)


def layer_table(findings: resources.LayerFindings) -> pd.DataFrame:
    """Return a row for each layer and pooling: the mean, its interval, and the tested difference from the default."""
    means = findings.search.means
    rows = []
    for (layer, pooling), (low, high) in findings.intervals.items():
        mean = means[layer, [*PoolingMode].index(pooling)]
        row = {"layer": layer, "pooling": pooling.value, "ndcg@10": mean, "low": low, "high": high}
        if test := findings.tests.get((layer, pooling)):
            row |= {"difference": test.difference, "difference_low": test.low, "difference_high": test.high}
            row["p"] = test.p_family
        rows.append(row)
    return pd.DataFrame(rows)
