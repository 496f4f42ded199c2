"""The view of a word in several sentences: one point before the layers, and apart after them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from language.inside.in_context import MOST_SENTENCES, STATIC, WordVectors, plane
from views.language import charts
from views.language.inside import told
from views.resources.language import contexts
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.state import choose
from views.ui.typed import lines_of, typed
from views.ui.words import plain, word

WORD = "배"
SENTENCES = ("항구에서 배를 탔다", "사과와 배를 먹었다", "배가 고프다")
_LETTERS = 500
_SHOWN = 30  # occurrences of a matrix that is drawn: more are a table alone


def draw(model: str, names: Mapping[str, str]) -> None:
    """Draw where a word's vectors lie, in the layer chosen."""
    del names
    answer = st.container()
    left, right = st.columns([1, 3], vertical_alignment="top")
    wanted = typed(left.text_input, "word", word("inside.word"), WORD, max_chars=50, help=word("inside.word_help"))
    text = typed(
        right.text_area, "contexts", word("inside.sentences"), "\n".join(SENTENCES), height=110, help=_sentences_help()
    )
    layer_place = left.container()
    with told():
        found = contexts(model, wanted, tuple(lines_of(text, MOST_SENTENCES, _LETTERS)))
        _draw_found(found, answer, layer_place)


def _sentences_help() -> str:
    return word("inside.sentences_help", most=MOST_SENTENCES)


def _draw_found(found: WordVectors, answer: DeltaGenerator, layer_place: DeltaGenerator) -> None:
    likeness = {layer: found.likeness(layer) for layer in found.numbers}
    read = [layer for layer in found.numbers if layer != STATIC]
    apart = min(read, key=lambda one: likeness[one]) if len(found.occurrences) > 1 else read[-1]
    answer.markdown(_answer(found, likeness, apart))
    options = [str(layer) for layer in found.numbers]
    with layer_place:
        layer = int(
            choose(
                st.select_slider,
                "layer",
                word("inside.layer"),
                options,
                str(apart),
                follows=True,
                format_func=layer_name,
                help=word("inside.layer_help"),
            )
        )
    left, right = st.columns(2)
    with left:
        _draw_plane(found, layer)
    with right:
        _draw_cosines(found, layer)
    _draw_occurrences(found)
    if len(found.occurrences) > 1:
        _draw_likeness(likeness)


def layer_name(layer: str) -> str:
    """Return what a layer is called."""
    return word("inside.static") if int(layer) == STATIC else layer


def _answer(found: WordVectors, likeness: Mapping[int, float], apart: int) -> str:
    count = len(found.occurrences)
    if count < 2:
        return word("inside.contexts_one", word=plain(found.word))
    cosines = found.cosines(apart)[np.triu_indices(count, 1)]
    one_vector = len({one.pieces for one in found.occurrences}) == 1
    return word(
        "inside.contexts_answer" if one_vector else "inside.contexts_answer_pieces",
        word=plain(found.word),
        count=count,
        static=f"{likeness[STATIC]:.2f}",
        layer=apart,
        layers=len(found.layers) - 1,
        low=f"{cosines.min():.2f}",
        high=f"{cosines.max():.2f}",
    )


def _numbers(found: WordVectors) -> list[str]:
    return [str(place + 1) for place in range(len(found.occurrences))]


def _draw_plane(found: WordVectors, layer: int) -> None:
    planes = {one: plane(found.at(one)) for one in found.numbers}
    reach = max(0.1, *(float(np.abs(one.points).max()) for one in planes.values()))
    shown = planes[layer]
    table = pd.DataFrame(
        {
            "number": _numbers(found),
            "label": _labels(shown.points, reach),
            "x": shown.points[:, 0],
            "y": shown.points[:, 1],
            "sentence": [one.sentence for one in found.occurrences],
        }
    )
    draw_chart(charts.plane, table, reach, alt=word("inside.plane"))
    first, second = (f"{share:.0%}" for share in shown.explained)
    st.caption(word("inside.plane_help", layer=layer_name(str(layer)), first=first, second=second))


def _labels(points: np.ndarray, reach: float) -> list[str]:
    """The numbers of the points, those of points that hide each other at the first of them."""
    together: dict[tuple[int, ...], list[int]] = {}
    for row, place in enumerate(np.round(points / reach * 25).astype(int).tolist()):
        together.setdefault(tuple(place), []).append(row)
    first = {rows[0]: ", ".join(str(row + 1) for row in rows) for rows in together.values()}
    return [first.get(row, "") for row in range(len(points))]


def _draw_cosines(found: WordVectors, layer: int) -> None:
    numbers, cosines = _numbers(found), found.cosines(layer)
    if len(numbers) <= _SHOWN:
        rows, columns = np.indices(cosines.shape).reshape(2, -1)
        cells = pd.DataFrame(
            {
                "row": [numbers[at] for at in rows],
                "column": [numbers[at] for at in columns],
                "first": [found.occurrences[at].sentence for at in rows],
                "second": [found.occurrences[at].sentence for at in columns],
                "value": cosines.ravel(),
            }
        )
        draw_chart(charts.grid, cells, numbers, numbers, title=word("inside.cosine"), alt=word("inside.cosine"))
    st.caption(word("inside.cosine_help"))
    with st.expander(word("inside.as_table"), expanded=len(numbers) > _SHOWN):
        st.dataframe(pd.DataFrame(cosines, index=numbers, columns=numbers).style.format("{:.3f}"))


def _draw_occurrences(found: WordVectors) -> None:
    table = pd.DataFrame(
        {
            "number": _numbers(found),
            "sentence": [one.sentence for one in found.occurrences],
            "pieces": [" · ".join(one.pieces) for one in found.occurrences],
        }
    )
    columns = {
        "number": tables.text("inside.number", "", width="small"),
        "sentence": tables.text("inside.sentence", "", width="medium"),
        "pieces": tables.text("inside.pieces"),
    }
    st.dataframe(table, hide_index=True, column_config=columns)
    glued: Sequence[str] = list(dict.fromkeys(one.letters for one in found.occurrences if one.is_glued(found.word)))
    if glued:
        told_of = ", ".join(f"‘{plain(one)}’" for one in glued)
        st.warning(word("inside.glued", word=plain(found.word), pieces=told_of), icon=":material/info:")


def _draw_likeness(likeness: Mapping[int, float]) -> None:
    table = pd.DataFrame({"layer": [layer_name(str(one)) for one in likeness], "value": [*likeness.values()]})
    st.markdown(f"**{word('inside.likeness')}**")
    draw_chart(charts.by_layer, table, y=word("inside.mean_cosine"), alt=word("inside.likeness"))
    with st.expander(word("inside.as_table")):
        columns = {
            "layer": tables.text("inside.layer", ""),
            "value": tables.number("inside.mean_cosine", "%.3f", ""),
        }
        st.dataframe(table, hide_index=True, column_config=columns)
