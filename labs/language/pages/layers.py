"""The view of layers: which, pooled how, makes the best sentence vectors, as people's scores or questions judge it."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.pairs import PairKind, part_to_measure
from mrc_workbench.labs.language.layers import MOST_PASSAGES, MOST_QUESTIONS, LayerScores, Pooling
from mrc_workbench.labs.language.pages.inside import asked, told, watched
from mrc_workbench.labs.language.pages.resources import (
    MOST_PAIRS,
    LayerFindings,
    part_to_search,
    scores_by_layer,
    search_by_layer,
)
from mrc_workbench.retrieval.report.charts import legend
from mrc_workbench.workbench.views.names import pair_set_name, set_name
from mrc_workbench.workbench.views.resources.sets import chosen_set, parts_of, stored_pairs
from mrc_workbench.workbench.views.ui import findings, tables
from mrc_workbench.workbench.views.ui.charts import apart, draw_chart, marked_lines, tips
from mrc_workbench.workbench.views.ui.state import choose, choose_named
from mrc_workbench.workbench.views.ui.words import plain, signed, word


def draw(model: str, _names: Mapping[str, str]) -> None:
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
    """Draw figures `(n_layers + 1, 3)` by layer and `Pooling`, 0 to 1, a hundredfold; `y` is what they are called."""
    names = [pooling_name(one) for one in Pooling]
    rows = [
        {"layer": str(layer), "pooling": name, "value": 100 * value}
        for layer, values in enumerate(figures.tolist())
        for name, value in zip(names, values, strict=True)
    ]
    long = pd.DataFrame(rows)
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
    rows = findings.courses(table, "pooling", "layer", "value", ".1f")
    described = findings.describe(f"{word('inside.view_layers')}, {y}", rows)
    return alt.layer(*marked_lines(base, mark, strokeWidth=2.5)).properties(height=320, description=described)


def draw_table(figures: np.ndarray) -> None:
    names = [pooling_name(one) for one in Pooling]
    with st.expander(word("inside.as_table")):
        table = pd.DataFrame(100 * figures, columns=names)
        table.insert(0, "layer", range(len(table)))
        columns = {name: st.column_config.NumberColumn(name, format="%.2f") for name in names}
        columns["layer"] = tables.number("inside.layer", "%d", "")
        st.dataframe(table, hide_index=True, placeholder="–", column_config=columns)


_BY_PEOPLE = "measure_layers"


def _draw_by_people(model: str, answer: DeltaGenerator, controls: DeltaGenerator) -> None:
    sets = {one.key: one for one in stored_pairs() if one.kind is PairKind.SCORED}
    if not sets:
        st.info(word("inside.no_scored"), icon=":material/info:")
        return
    with controls:
        names = {key: pair_set_name(one) for key, one in sets.items()}
        data = sets[choose_named("layer_pairs", word("embeddings.pairs"), names, next(iter(sets)), width=240)]
        wanted = asked(_BY_PEOPLE, (model, data.key), word("inside.measure_layers"))
    if not wanted:
        answer.info(word("inside.layers_about", most=MOST_PAIRS), icon=":material/info:")
        return
    part = part_to_measure(parts_of(data.key))
    with told(), watched(_BY_PEOPLE, (model, data.key)) as tell:
        found = scores_by_layer(model, data.key, part, tell)
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
    """Draw nDCG@10 by layer and pooling, once a click had it measured on the question set in use."""
    data = chosen_set()
    if not data.questions:
        st.info(word("inside.no_questions", data=plain(set_name(data.name))), icon=":material/info:")
        return
    with controls:
        wanted = asked(_BY_QUESTIONS, (model, data.key), word("inside.search_layers"))
    if not wanted:
        limits = {"questions": MOST_QUESTIONS, "passages": MOST_PASSAGES}
        answer.info(word("inside.search_about", data=plain(set_name(data.name)), **limits), icon=":material/info:")
        return
    part = part_to_search(data)
    with told(), watched(_BY_QUESTIONS, (model, data.key)) as tell:
        findings = search_by_layer(model, data, part, tell)
        answer.markdown(_answer_of_questions(findings))
        means = findings.found.means
        draw_figures(means, y=_MEASURE)
        searched = findings.found.searched
        counts = {"questions": len(searched.questions), "passages": len(searched.passages)}
        st.caption(word("inside.search_help", data=plain(set_name(data.name)), part=word(f"part.{part}"), **counts))
        draw_table(means)
        tables.draw_csv("inside.layers_download", lambda: table_of(findings), "layers.csv", "download_layers")


def _answer_of_questions(findings: LayerFindings) -> str:
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


def table_of(findings: LayerFindings) -> pd.DataFrame:
    """One row a layer and pooling: the mean, its interval, and the difference from the usual with its test, shares."""
    means, rows = findings.found.means, []
    for (layer, pooling), (low, high) in findings.intervals.items():
        mean = means[layer, [*Pooling].index(pooling)]
        row = {"layer": layer, "pooling": pooling.value, "ndcg@10": mean, "low": low, "high": high}
        if test := findings.tests.get((layer, pooling)):
            row |= {"difference": test.difference, "difference_low": test.low, "difference_high": test.high}
            row["p"] = test.p_family
        rows.append(row)
    return pd.DataFrame(rows)
