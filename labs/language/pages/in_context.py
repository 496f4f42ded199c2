"""The views of what a model makes of words in context: a word in several sentences, and what heads look at.

A word is one point before the layers, and apart after them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.labs.language.layers import (
    MOST_SENTENCES,
    STATIC,
    Heads,
    SentenceAttention,
    Target,
    WordVectors,
    heads_of,
    plane,
)
from mrc_workbench.labs.language.pages.page import display_failures, draw_as_table
from mrc_workbench.labs.language.pages.resources import attention, contexts
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import cells, draw_chart, tips
from mrc_workbench.workbench.views.ui.state import choose, lines_of, typed
from mrc_workbench.workbench.views.ui.words import plain, word

WORD = "배"
SENTENCES_OF_WORD = ("항구에서 배를 탔다", "사과와 배를 먹었다", "배가 고프다")
_LETTERS = 500  # of a sentence
_SHOWN = 30  # occurrences of a matrix that is drawn: more are a table alone


def draw_contexts(model: str, _names: Mapping[str, str]) -> None:
    answer = st.container()
    left, right = st.columns([1, 3], vertical_alignment="top")
    wanted = typed(left.text_input, "word", word("inside.word"), WORD, max_chars=50, help=word("inside.word_help"))
    look: dict[str, Any] = {"height": 110, "help": word("inside.sentences_help", most=MOST_SENTENCES)}
    default = "\n".join(SENTENCES_OF_WORD)
    text = typed(right.text_area, "contexts", word("inside.sentences"), default, **look)
    layer_place = left.container()
    with display_failures():
        found = contexts(model, wanted, tuple(lines_of(text, MOST_SENTENCES, _LETTERS)))
        _draw_word(found, answer, layer_place)


def _draw_word(found: WordVectors, answer: DeltaGenerator, layer_place: DeltaGenerator) -> None:
    likeness = {layer: found.likeness(layer) for layer in found.numbers}
    read = [layer for layer in found.numbers if layer != STATIC]
    apart = min(read, key=lambda one: likeness[one]) if len(found.occurrences) > 1 else read[-1]
    answer.markdown(_answer_of_word(found, likeness, apart))
    options, label = [str(layer) for layer in found.numbers], word("inside.layer")
    look: dict[str, Any] = {"format_func": layer_name, "help": word("inside.layer_help")}
    with layer_place:
        layer = int(choose(st.select_slider, "layer", label, options, str(apart), follows=True, **look))
    left, right = st.columns(2)
    with left:
        _draw_plane(found, layer)
    with right:
        _draw_cosines(found, layer)
    _draw_occurrences(found)
    if len(found.occurrences) > 1:
        _draw_likeness(likeness)


def layer_name(layer: str) -> str:
    return word("inside.static") if int(layer) == STATIC else layer


def _answer_of_word(found: WordVectors, likeness: Mapping[int, float], apart: int) -> str:
    count = len(found.occurrences)
    if count < 2:
        return word("inside.contexts_one", word=plain(found.word))
    cosines = found.cosines(apart)[np.triu_indices(count, 1)]
    one_vector = len({one.pieces for one in found.occurrences}) == 1
    layers = {"static": f"{likeness[STATIC]:.2f}", "layer": apart, "layers": len(found.layers) - 1}
    ends = {"low": f"{cosines.min():.2f}", "high": f"{cosines.max():.2f}"}
    key = "inside.contexts_answer" if one_vector else "inside.contexts_answer_pieces"
    return word(key, word=plain(found.word), count=count, **layers, **ends)


def _numbers(found: WordVectors) -> list[str]:
    return [str(place + 1) for place in range(len(found.occurrences))]


def _draw_plane(found: WordVectors, layer: int) -> None:
    planes = {one: plane(found.at(one)) for one in found.numbers}
    reach = max(0.1, *(float(np.abs(one.points).max()) for one in planes.values()))
    shown = planes[layer]
    table = pd.DataFrame(shown.points, columns=["x", "y"])
    sentences = [one.sentence for one in found.occurrences]
    table = table.assign(number=_numbers(found), label=_labels(shown.points, reach), sentence=sentences)
    draw_chart(points, table, reach)
    first, second = (f"{share:.0%}" for share in shown.explained)
    st.caption(word("inside.plane_help", layer=layer_name(str(layer)), first=first, second=second))


def points(table: pd.DataFrame, reach: float) -> alt.LayerChart:
    """Points "x", "y" with their "label", "number" and "sentence", on the same scales for every layer."""
    scale = alt.Scale(domain=[-1.1 * reach, 1.1 * reach], nice=False)
    axis = alt.Axis(tickCount=5, format=".2~f")
    base = alt.Chart(table).encode(
        x=alt.X("x:Q", title=word("inside.first_direction"), scale=scale, axis=axis),
        y=alt.Y("y:Q", title=word("inside.second_direction"), scale=scale, axis=axis),
        tooltip=tips(("number:N", word("inside.number")), ("sentence:N", word("inside.sentence"))),
    )
    marks = base.mark_point(filled=True, size=130, opacity=1, color=PALETTE[0])
    labels = base.mark_text(align="left", dx=9, dy=-7, fontWeight="bold", fontSize=13, color=PALETTE[4])
    rows = charts.coordinates(table, "number", ("x", "y"), (".2f", ".2f"))
    described = charts.describe(word("inside.plane"), rows)
    return (marks + labels.encode(text="label:N")).properties(height=320, description=described)


def _labels(points: np.ndarray, reach: float) -> list[str]:
    """Number the points; overlapping points share a label at the first of them."""
    together: dict[tuple[int, ...], list[int]] = {}
    for row, place in enumerate(np.round(points / reach * 25).astype(int).tolist()):
        together.setdefault(tuple(place), []).append(row)
    first = {rows[0]: ", ".join(str(row + 1) for row in rows) for rows in together.values()}
    return [first.get(row, "") for row in range(len(points))]


def _draw_cosines(found: WordVectors, layer: int) -> None:
    numbers, sentences = _numbers(found), [one.sentence for one in found.occurrences]
    table = grid_cells(found.cosines(layer), numbers, numbers, sentences, sentences)
    _draw_grid(table, numbers, _SHOWN, word("inside.cosine"), word("inside.cosine_help"))


def _draw_grid(
    table: pd.DataFrame, labels: Sequence[str], most: int, title: str, explanation: str, *, share: bool = False
) -> None:
    """Draw the cells of a square matrix, if there are at most `most` rows, and their table."""
    if len(labels) <= most:
        draw_chart(grid, table, labels, labels, title=title, share=share)
    st.caption(explanation)
    with st.expander(word("inside.as_table"), expanded=len(labels) > most):
        values = table["value"].to_numpy().reshape(len(labels), -1)
        st.dataframe(pd.DataFrame(values, index=[*labels], columns=[*labels]).style.format("{:.3f}"))


def grid_cells(
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    first: Sequence[str] | None = None,
    second: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the cells of a `grid`, in tooltips named `first` and `second`, else by their row and column."""
    down, across = np.indices(values.shape).reshape(2, -1)
    told = {"row": (rows, down), "column": (columns, across)}
    told |= {"first": (first or rows, down), "second": (second or columns, across)}
    table = pd.DataFrame({name: [names[place] for place in places] for name, (names, places) in told.items()})
    return table.assign(value=values.ravel().astype(float))


def grid(
    table: pd.DataFrame, rows: Sequence[str], columns: Sequence[str], *, title: str, share: bool = False
) -> alt.LayerChart:
    """Cells "row", "column" with their "value"; a `share` is written in percent."""
    low, high = (0.0, float(table["value"].max()) or 1.0) if share else (float(table["value"].min()), 1.0)
    form = ".0%" if share else ".2f"
    angle = -50 if max(map(len, columns)) > 3 else 0  # names that stand on a narrow screen, too
    across = {"labelAngle": angle, "labelOverlap": False, "grid": False}
    base = alt.Chart(table).encode(
        x=alt.X("column:N", sort=list(columns), title=None, axis=alt.Axis(orient="top", labelLimit=70, **across)),
        y=alt.Y("row:N", sort=list(rows), title=None, axis=alt.Axis(labelLimit=120, grid=False)),
        tooltip=tips(("first:N", word("inside.from")), ("second:N", word("inside.to")), ("value:Q", title, form)),
    )
    written = len(columns) <= 13  # of more there is no room to write in the cells
    shaded = cells(base, "value", (min(low, high - 1e-6), high), form, written=written)
    cells_beside = table if share else table[table["row"] != table["column"]]  # a text and itself have cosine 1
    described = charts.extremes(title, cells_beside, ("first", "second"), "value", form)
    return shaded.properties(height=40 + (34 if written else 22) * len(rows), description=described)


def _draw_occurrences(found: WordVectors) -> None:
    columns = {
        "number": tables.text("inside.number", "", width="small"),
        "sentence": tables.text("inside.sentence", "", width="medium"),
        "pieces": tables.text("inside.pieces"),
    }
    rows = [(str(row), one.sentence, " · ".join(one.pieces)) for row, one in enumerate(found.occurrences, 1)]
    tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)
    if glued := dict.fromkeys(one.letters for one in found.occurrences if one.letters != found.word):
        pieces = ", ".join(f"‘{plain(one)}’" for one in glued)
        st.warning(word("inside.glued", word=plain(found.word), pieces=pieces), icon=":material/info:")


def _draw_likeness(likeness: Mapping[int, float]) -> None:
    table = pd.DataFrame({"layer": [layer_name(str(one)) for one in likeness], "value": [*likeness.values()]})
    st.markdown(f"**{word('inside.likeness')}**")
    draw_chart(by_layer, table, y=word("inside.mean_cosine"))
    columns = {"layer": tables.text("inside.layer", ""), "value": tables.number("inside.mean_cosine", "%.3f", "")}
    draw_as_table(table, columns)


def by_layer(table: pd.DataFrame, *, y: str) -> alt.LayerChart:
    base = alt.Chart(table).encode(
        x=alt.X("layer:N", sort=[*table["layer"]], title=word("inside.layer"), axis=alt.Axis(labelAngle=0)),
        y=alt.Y("value:Q", title=y, scale=alt.Scale(zero=False, padding=8), axis=alt.Axis(format=".2f", tickCount=5)),
        tooltip=tips(("layer:N", word("inside.layer")), ("value:Q", y, ".3f")),
    )
    marks = base.mark_point(filled=True, size=60, opacity=1, color=PALETTE[0])
    rows = charts.courses(table.assign(name=y), "name", "layer", "value", ".3f")
    described = charts.describe(word("inside.likeness"), rows)
    return (base.mark_line(color=PALETTE[0], strokeWidth=2.5) + marks).properties(height=260, description=described)


ATTENDED = (
    "항구에서 배를 탔다",
    "세종대왕은 집현전 학자들과 함께 한글을 창제했다",
    "비가 많이 와서 강물이 불어났다",
    "도서관은 월요일에 문을 닫지만 열람실은 열려 있다",
)
MOST_ATTENDED = 20  # sentences that heads are told by
_LETTERS_ATTENDED = 300
_SHOWN_PIECES = 40  # pieces of a map that is drawn: more are a table alone


def draw_attention(model: str, _names: Mapping[str, str]) -> None:
    answer = st.container()
    look: dict[str, Any] = {"height": 120, "help": word("inside.attended_help", most=MOST_ATTENDED)}
    text = typed(st.text_area, "attended", word("inside.attended"), "\n".join(ATTENDED), **look)
    sentences = lines_of(text, MOST_ATTENDED, _LETTERS_ATTENDED)
    if not sentences:
        answer.info(word("inside.type_sentence"), icon=":material/info:")
        return
    controls = st.container(horizontal=True, vertical_alignment="bottom")
    with display_failures():
        found = [attention(model, sentence) for sentence in sentences]
        _draw_heads_of(found, sentences, answer, controls)


def _draw_heads_of(
    found: Sequence[SentenceAttention], sentences: Sequence[str], answer: DeltaGenerator, controls: DeltaGenerator
) -> None:
    heads = heads_of(found)
    look: dict[str, Any] = {"format_func": target_name, "help": word("inside.target_help"), "width": 200}
    with controls:
        target = Target(choose(st.selectbox, "target", word("inside.target"), [*Target], Target.PREVIOUS, **look))
        shares = np.nan_to_num(heads.shares[:, :, [*Target].index(target)])
        strongest = np.unravel_index(shares.argmax(), shares.shape)  # the first where none has anything to give
        best = int(strongest[0]), int(strongest[1])
        layer = _pick("attention_layer", "inside.layer", heads.shares.shape[0], best[0])
        head = _pick("attention_head", "inside.head", heads.shares.shape[1], best[1])
        places = [str(place) for place in range(len(sentences))]
        look = {"format_func": lambda one: sentences[int(one)] if int(one) < len(sentences) else one, "width": 320}
        shown = choose(st.selectbox, "attention_of", word("inside.sentence"), places, "0", **look)
    place = [*Target].index(target)
    share, even = heads.shares[*best, place], heads.even[place]
    values = {"layer": best[0] + 1, "head": best[1] + 1, "share": f"{share:.0%}", "even": f"{even:.0%}"}
    key = "inside.attention_none" if np.isnan(share) else "inside.attention_answer"
    answer.markdown(word(key, target=target_name(target), **values))
    left, right = st.columns([3, 2])
    with left:
        _draw_map(found[int(shown)], layer, head)
        of_head = zip(Target, heads.shares[layer, head], strict=True)
        told_of = " · ".join(f"{target_name(one)} {share:.0%}" for one, share in of_head if not np.isnan(share))
        st.caption(word("inside.head_shares", shares=plain(told_of)))
    with right:
        _draw_heads(heads, target)
    _draw_all_heads(heads, target)


def target_name(target: str) -> str:
    return word(f"inside.target_{target}")


def _pick(name: str, label: str, count: int, usual: int) -> int:
    """Draw the choice of a layer or a head, counted from 1; returns its index from 0."""
    options = [str(place + 1) for place in range(count)]
    return int(choose(st.selectbox, name, word(label), options, options[usual], follows=True, width=90)) - 1


def _draw_map(found: SentenceAttention, layer: int, head: int) -> None:
    labels = [f"{place + 1} {one.text}" for place, one in enumerate(found.pieces)]
    st.markdown(f"**{word('inside.map', layer=layer + 1, head=head + 1)}**")
    table = grid_cells(found.weights[layer, head], labels, labels)
    _draw_grid(table, labels, _SHOWN_PIECES, word("inside.attention"), word("inside.map_help"), share=True)


def _draw_heads(heads: Heads, target: Target) -> None:
    shares = heads.shares[:, :, [*Target].index(target)]
    if np.isnan(shares).any():
        return
    st.markdown(f"**{word('inside.heads_map', target=target_name(target))}**")
    layers, count = ([str(place + 1) for place in range(size)] for size in shares.shape)
    of_layers = [word("inside.layer_number", layer=name) for name in layers]
    of_heads = [word("inside.head_number", head=name) for name in count]
    table = grid_cells(shares, layers, count, of_layers, of_heads)
    draw_chart(grid, table, layers, count, title=target_name(target), share=True)
    st.caption(word("inside.heads_map_help"))


def _draw_all_heads(heads: Heads, target: Target) -> None:
    layers, count = heads.shares.shape[:2]
    rows, columns = np.indices((layers, count)).reshape(2, -1) + 1
    shares = 100 * heads.shares.reshape(-1, len(Target))
    table = pd.DataFrame({"layer": rows, "head": columns, **dict(zip(map(str, Target), shares.T, strict=True))})
    named = {name: tables.number(f"inside.{name}", "%d", "") for name in ("layer", "head")}
    for one, even in zip(Target, heads.even, strict=True):
        explained = word("inside.share_help", even=f"{100 * even:.1f}")
        named[one.value] = st.column_config.NumberColumn(target_name(one), format="%.1f", help=explained)
    with st.expander(word("inside.heads_table")):
        ranked = table.sort_values(target.value, ascending=False, ignore_index=True)
        st.dataframe(ranked, hide_index=True, placeholder="–", column_config=named)
        st.caption(word("inside.heads_help"))
