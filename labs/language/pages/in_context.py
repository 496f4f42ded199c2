"""Views of words in context: a word's vectors in several sentences, and the targets of attention heads."""

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.labs.language import layers
from mrc_workbench.labs.language.layers import STATIC, AttentionTarget, WordVectors
from mrc_workbench.labs.language.pages.page import display_failures, draw_as_table
from mrc_workbench.labs.language.pages.resources import attention, word_contexts
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import cells, draw_chart, tooltips
from mrc_workbench.workbench.views.ui.state import choose, draw_text_field, lines_of
from mrc_workbench.workbench.views.ui.words import label_and_help, plain, word

WORD = "배"
SENTENCES_OF_WORD = ("항구에서 배를 탔다", "사과와 배를 먹었다", "배가 고프다")
_MAX_CHARACTERS = 500  # of a sentence
_MAX_MATRIX_ROWS = 30  # occurrences in the chart; more are only in the table
ATTENTION_EXAMPLES = (
    "항구에서 배를 탔다",
    "세종대왕은 집현전 학자들과 함께 한글을 창제했다",
    "비가 많이 와서 강물이 불어났다",
    "도서관은 월요일에 문을 닫지만 열람실은 열려 있다",
)
MAX_ATTENTION_SENTENCES = 20
_MAX_SENTENCE_CHARACTERS = 300
_MAX_MAP_PIECES = 40  # tokens in the chart; more are only in the table


def draw_contexts(model: str, _names: Mapping[str, str]) -> None:
    answer = st.container()
    left, right = st.columns([1, 3], vertical_alignment="top")
    label = label_and_help("inside.word")
    target_word = draw_text_field(left.text_input, "word", default=WORD, max_chars=50, **label)
    label = label_and_help("inside.sentences", most=layers.MAX_SENTENCES)
    default = "\n".join(SENTENCES_OF_WORD)
    text = draw_text_field(right.text_area, "contexts", default=default, height=110, **label)
    layer_container = left.container()
    with display_failures():
        word_vectors = word_contexts(model, target_word, tuple(lines_of(text, layers.MAX_SENTENCES, _MAX_CHARACTERS)))
        _draw_word(word_vectors, answer, layer_container)


def _draw_word(word_vectors: WordVectors, answer: DeltaGenerator, layer_container: DeltaGenerator) -> None:
    similarities = {layer: word_vectors.mean_cosine(layer) for layer in word_vectors.layer_numbers}
    model_layers = [layer for layer in word_vectors.layer_numbers if layer != STATIC]
    best_layer = model_layers[-1]
    if len(word_vectors.occurrences) > 1:
        best_layer = min(model_layers, key=similarities.__getitem__)
    answer.markdown(_word_answer(word_vectors, similarities, best_layer))
    options = [str(layer) for layer in word_vectors.layer_numbers]
    look = label_and_help("inside.layer") | {"format_func": layer_name, "follows": True}
    with layer_container:
        layer = int(choose(st.select_slider, "layer", options=options, default=str(best_layer), **look))
    left, right = st.columns(2)
    with left:
        _draw_plane(word_vectors, layer)
    with right:
        numbers = _numbers(word_vectors)
        sentences = [occurrence.sentence for occurrence in word_vectors.occurrences]
        table = grid_cells(word_vectors.cosines(layer), numbers, numbers, sentences, sentences)
        _draw_grid(table, numbers, _MAX_MATRIX_ROWS, "inside.cosine", "inside.cosine_help")
    _draw_occurrences(word_vectors)
    if len(word_vectors.occurrences) > 1:
        rows = [(layer_name(str(number)), similarity) for number, similarity in similarities.items()]
        table = pd.DataFrame(rows, columns=["layer", "value"])
        st.markdown(f"**{word('inside.likeness')}**")
        draw_chart(layer_chart, table, y=word("inside.mean_cosine"))
        columns = {"layer": tables.text("inside.layer", ""), "value": tables.number("inside.mean_cosine", "%.3f", "")}
        draw_as_table(table, columns)


def layer_name(layer: str) -> str:
    return word("inside.static") if int(layer) == STATIC else layer


def _word_answer(word_vectors: WordVectors, similarities: Mapping[int, float], layer: int) -> str:
    count = len(word_vectors.occurrences)
    if count < 2:
        return word("inside.contexts_one", word=plain(word_vectors.word))
    cosines = word_vectors.cosines(layer)[np.triu_indices(count, 1)]
    has_same_pieces = len({occurrence.pieces for occurrence in word_vectors.occurrences}) == 1
    numbers = {"static": f"{similarities[STATIC]:.2f}", "layer": layer, "layers": len(word_vectors.layers) - 1}
    ends = {"low": f"{cosines.min():.2f}", "high": f"{cosines.max():.2f}"}
    key = "inside.contexts_answer" if has_same_pieces else "inside.contexts_answer_pieces"
    return word(key, word=plain(word_vectors.word), count=count, **numbers, **ends)


def _numbers(word_vectors: WordVectors) -> list[str]:
    return [str(index + 1) for index in range(len(word_vectors.occurrences))]


def _draw_plane(word_vectors: WordVectors, layer: int) -> None:
    planes = {item: layers.project_to_plane(word_vectors.layer_vectors(item)) for item in word_vectors.layer_numbers}
    limit = max(0.1, *(float(np.abs(item.points).max()) for item in planes.values()))
    projection = planes[layer]
    table = pd.DataFrame(projection.points, columns=["x", "y"]).assign(number=_numbers(word_vectors))
    table["label"] = _point_labels(projection.points, limit)
    table["sentence"] = [item.sentence for item in word_vectors.occurrences]
    draw_chart(points_chart, table, limit)
    first, second = (f"{fraction:.0%}" for fraction in projection.explained)
    st.caption(word("inside.plane_help", layer=layer_name(str(layer)), first=first, second=second))


def points_chart(table: pd.DataFrame, reach: float) -> alt.LayerChart:
    """Points "x", "y" with their "label", "number" and "sentence", on the same scales for every layer."""
    scale = alt.Scale(domain=[-1.1 * reach, 1.1 * reach], nice=False)
    axis = alt.Axis(tickCount=5, format=".2~f")
    base = alt.Chart(table).encode(
        x=alt.X("x:Q", title=word("inside.first_direction"), scale=scale, axis=axis),
        y=alt.Y("y:Q", title=word("inside.second_direction"), scale=scale, axis=axis),
        tooltip=tooltips(("number:N", word("inside.number")), ("sentence:N", word("inside.sentence"))),
    )
    marks = base.mark_point(filled=True, size=130, opacity=1, color=PALETTE[0])
    labels = base.mark_text(align="left", dx=9, dy=-7, fontWeight="bold", fontSize=13, color=PALETTE[4])
    rows = charts.coordinates(table, "number", ("x", "y"), (".2f", ".2f"))
    described = charts.describe(word("inside.plane"), rows)
    return (marks + labels.encode(text="label:N")).properties(height=320, description=described)


def _point_labels(points: np.ndarray, limit: float) -> list[str]:
    """Return numbers as labels; overlapping points share the label of the first."""
    together: dict[tuple[int, ...], list[int]] = {}
    for row, cell in enumerate(np.round(points / limit * 25).astype(int).tolist()):
        together.setdefault(tuple(cell), []).append(row)
    first = {rows[0]: ", ".join(str(row + 1) for row in rows) for rows in together.values()}
    return [first.get(row, "") for row in range(len(points))]


def _draw_grid(
    table: pd.DataFrame, labels: Sequence[str], max_rows: int, title: str, caption: str, *, is_fraction: bool = False
) -> None:
    """Draw the chart of a square matrix of at most `max_rows` rows, and its table; the texts are keys."""
    if len(labels) <= max_rows:
        draw_chart(grid_chart, table, labels, labels, title=word(title), is_fraction=is_fraction)
    st.caption(word(caption))
    with st.expander(word("inside.as_table"), expanded=len(labels) > max_rows):
        values = table["value"].to_numpy().reshape(len(labels), -1)
        st.dataframe(pd.DataFrame(values, index=[*labels], columns=[*labels]).style.format("{:.3f}"))


def grid_cells(
    values: np.ndarray, rows: Sequence[str], columns: Sequence[str], *details: Sequence[str]
) -> pd.DataFrame:
    """Return the cells of a `grid_chart`; `details` name rows and columns in tooltips, by default as in the chart."""
    first, second = details or (rows, columns)
    down, across = np.indices(values.shape).reshape(2, -1)
    axes = {"row": (rows, down), "column": (columns, across), "first": (first, down), "second": (second, across)}
    table = pd.DataFrame({name: [names[index] for index in indices] for name, (names, indices) in axes.items()})
    return table.assign(value=values.ravel().astype(float))


def grid_chart(
    table: pd.DataFrame, rows: Sequence[str], columns: Sequence[str], *, title: str, is_fraction: bool = False
) -> alt.LayerChart:
    """Cells "row", "column" with their "value"; fractions are in percent."""
    low, high = (0.0, float(table["value"].max()) or 1.0) if is_fraction else (float(table["value"].min()), 1.0)
    form = ".0%" if is_fraction else ".2f"
    angle = -50 if max(map(len, columns)) > 3 else 0  # readable on a narrow screen
    across = {"labelAngle": angle, "labelOverlap": False, "grid": False}
    base = alt.Chart(table).encode(
        x=alt.X("column:N", sort=list(columns), title=None, axis=alt.Axis(orient="top", labelLimit=70, **across)),
        y=alt.Y("row:N", sort=list(rows), title=None, axis=alt.Axis(labelLimit=120, grid=False)),
        tooltip=tooltips(("first:N", word("inside.from")), ("second:N", word("inside.to")), ("value:Q", title, form)),
    )
    written = len(columns) <= 13  # more leave no room for numbers
    shaded = cells(base, "value", (min(low, high - 1e-6), high), form, written=written)
    # the cosine of a text with itself is 1
    described_cells = table if is_fraction else table[table["row"] != table["column"]]
    described = charts.extremes(title, described_cells, ("first", "second"), "value", form)
    return shaded.properties(height=40 + (34 if written else 22) * len(rows), description=described)


def _draw_occurrences(word_vectors: WordVectors) -> None:
    columns = {
        "number": tables.text("inside.number", "", width="small"),
        "sentence": tables.text("inside.sentence", "", width="medium"),
        "pieces": tables.text("inside.pieces"),
    }
    rows = [(str(row), item.sentence, " · ".join(item.pieces)) for row, item in enumerate(word_vectors.occurrences, 1)]
    tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)
    covered_texts = dict.fromkeys(item.covered_text for item in word_vectors.occurrences)
    merged_texts = [text for text in covered_texts if text != word_vectors.word]
    if merged_texts:
        pieces = ", ".join(f"‘{plain(text)}’" for text in merged_texts)
        st.warning(word("inside.glued", word=plain(word_vectors.word), pieces=pieces), icon=":material/info:")


def layer_chart(table: pd.DataFrame, *, y: str) -> alt.LayerChart:
    base = alt.Chart(table).encode(
        x=alt.X("layer:N", sort=[*table["layer"]], title=word("inside.layer"), axis=alt.Axis(labelAngle=0)),
        y=alt.Y("value:Q", title=y, scale=alt.Scale(zero=False, padding=8), axis=alt.Axis(format=".2f", tickCount=5)),
        tooltip=tooltips(("layer:N", word("inside.layer")), ("value:Q", y, ".3f")),
    )
    marks = base.mark_point(filled=True, size=60, opacity=1, color=PALETTE[0])
    rows = charts.line_texts(table.assign(name=y), "name", "layer", "value", ".3f")
    described = charts.describe(word("inside.likeness"), rows)
    return (base.mark_line(color=PALETTE[0], strokeWidth=2.5) + marks).properties(height=260, description=described)


def draw_attention(model: str, _names: Mapping[str, str]) -> None:
    answer = st.container()
    label = label_and_help("inside.attended", most=MAX_ATTENTION_SENTENCES)
    text = draw_text_field(st.text_area, "attended", default="\n".join(ATTENTION_EXAMPLES), height=120, **label)
    sentences = lines_of(text, MAX_ATTENTION_SENTENCES, _MAX_SENTENCE_CHARACTERS)
    if not sentences:
        answer.info(word("inside.type_sentence"), icon=":material/info:")
        return
    controls = st.container(horizontal=True, vertical_alignment="bottom")
    with display_failures():
        attentions = [attention(model, sentence) for sentence in sentences]
        _draw_attention_views(attentions, sentences, answer, controls)


def _draw_attention_views(
    attentions: Sequence[layers.SentenceAttention],
    sentences: Sequence[str],
    answer: DeltaGenerator,
    controls: DeltaGenerator,
) -> None:
    head_attention = layers.attention_by_head(attentions)
    look = label_and_help("inside.target") | {"format_func": target_name, "width": 200}
    default = AttentionTarget.PREVIOUS
    with controls:
        target = AttentionTarget(choose(st.selectbox, "target", options=[*AttentionTarget], default=default, **look))
        index = [*AttentionTarget].index(target)
        fractions = np.nan_to_num(head_attention.fractions[:, :, index])
        best = tuple(map(int, np.unravel_index(fractions.argmax(), fractions.shape)))
        layer = _pick("attention_layer", "inside.layer", fractions.shape[0], best[0])
        head = _pick("attention_head", "inside.head", fractions.shape[1], best[1])
        options = [str(index) for index in range(len(sentences))]
        look = {"format_func": lambda item: sentences[int(item)] if int(item) < len(sentences) else item, "width": 320}
        selected = choose(st.selectbox, "attention_of", word("inside.sentence"), options, "0", **look)
    fraction = head_attention.fractions[*best, index]
    uniform = head_attention.uniform[index]
    values = {"layer": best[0] + 1, "head": best[1] + 1, "fraction": f"{fraction:.0%}", "uniform": f"{uniform:.0%}"}
    key = "inside.attention_none" if np.isnan(fraction) else "inside.attention_answer"
    answer.markdown(word(key, target=target_name(target), **values))
    left, right = st.columns([3, 2])
    with left:
        sentence_attention = attentions[int(selected)]
        labels = [f"{number} {piece.text}" for number, piece in enumerate(sentence_attention.pieces, start=1)]
        st.markdown(f"**{word('inside.map', layer=layer + 1, head=head + 1)}**")
        table = grid_cells(sentence_attention.weights[layer, head], labels, labels)
        _draw_grid(table, labels, _MAX_MAP_PIECES, "inside.attention", "inside.map_help", is_fraction=True)
        by_target = zip(AttentionTarget, head_attention.fractions[layer, head], strict=True)
        texts = [f"{target_name(item)} {fraction:.0%}" for item, fraction in by_target if not np.isnan(fraction)]
        st.caption(word("inside.head_shares", shares=plain(" · ".join(texts))))
    with right:
        _draw_head_map(head_attention, target)
    _draw_head_table(head_attention, target)


def target_name(target: str) -> str:
    return word(f"inside.target_{target}")


def _pick(name: str, label: str, count: int, default: int) -> int:
    """Draw the choice of a layer or a head, counted from 1; returns its index from 0."""
    options = [str(index + 1) for index in range(count)]
    return int(choose(st.selectbox, name, word(label), options, options[default], follows=True, width=90)) - 1


def _draw_head_map(head_attention: layers.HeadAttention, target: AttentionTarget) -> None:
    fractions = head_attention.fractions[:, :, [*AttentionTarget].index(target)]
    if np.isnan(fractions).any():
        return
    st.markdown(f"**{word('inside.heads_map', target=target_name(target))}**")
    rows, columns = ([str(number + 1) for number in range(size)] for size in fractions.shape)
    layer_names = [word("inside.layer_number", layer=name) for name in rows]
    head_names = [word("inside.head_number", head=name) for name in columns]
    table = grid_cells(fractions, rows, columns, layer_names, head_names)
    draw_chart(grid_chart, table, rows, columns, title=target_name(target), is_fraction=True)
    st.caption(word("inside.heads_map_help"))


def _draw_head_table(head_attention: layers.HeadAttention, target: AttentionTarget) -> None:
    rows, columns = np.indices(head_attention.fractions.shape[:2]).reshape(2, -1) + 1
    shares = 100 * head_attention.fractions.reshape(-1, len(AttentionTarget))
    by_target = dict(zip(map(str, AttentionTarget), shares.T, strict=True))
    table = pd.DataFrame({"layer": rows, "head": columns, **by_target})
    column_config = {name: tables.number(f"inside.{name}", "%d", "") for name in ("layer", "head")}
    for kind, uniform in zip(AttentionTarget, head_attention.uniform, strict=True):
        explained = word("inside.share_help", uniform=f"{100 * uniform:.1f}")
        column_config[kind.value] = st.column_config.NumberColumn(target_name(kind), format="%.1f", help=explained)
    with st.expander(word("inside.heads_table")):
        ranked = table.sort_values(target.value, ascending=False, ignore_index=True)
        st.dataframe(ranked, hide_index=True, placeholder="–", column_config=column_config)
        st.caption(word("inside.heads_help"))
