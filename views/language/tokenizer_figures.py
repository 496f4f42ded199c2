"""The Figures view: how each tokenizer cuts text that it was not trained on, as a picture and as a table."""

import shlex
import zipfile
from collections.abc import Sequence
from dataclasses import asdict
from io import BytesIO
from math import sqrt
from pathlib import Path

import altair as alt
import pandas as pd
import streamlit as st

from language.morphemes import TokenizerKind
from retrieval.report.charts import colour, legend, shape
from retrieval.report.drawing import READABLE
from views.language.tokenizers import MOST_UNKNOWN, TokenizersView, known_enough, pick_tokenizer
from views.ui import tables
from views.ui.charts import draw_chart, present, tips
from views.ui.state import choose
from views.ui.words import plain, word

SHARES = ("unknown_rate", "unknown_words", "whole_words", "longer_than_512")
MEASURES = ("tokens_per_word", "tokens_per_character", "f1", "whole_words", "unknown_words", "longer_than_512")
_HIGHER = ("whole_words", "f1")  # is better; of all others, lower
_OF_WHO_KNOWS = ("tokens_per_word", "tokens_per_character", "longer_than_512", "f1")  # unknown words would look cheap
_HEIGHT = 340
_DASHES = ([1, 0], [6, 4])  # of the first split and of the second
_COLUMNS = (*MEASURES, "unknown_rate", "seconds")


def draw(view: TokenizersView) -> None:
    table = figure_table(view)
    measure = choose(
        st.selectbox,
        "tokenizer_measure",
        word("tokenizers.measure"),
        [one for one in MEASURES if table[one].notna().any()],
        MEASURES[0],
        format_func=lambda one: word(f"tokenizers.{one}"),
        width=300,
    )
    _draw_picture(view, table, measure)
    _draw_table(view, table)
    _draw_downloads(view)


def figure_table(view: TokenizersView) -> pd.DataFrame:
    """One row a tokenizer, in the order of the comparison; `able` are those that know enough words."""
    rows = []
    for one in view.kept.tokenizers:
        trained, figures = one.measured.trained, asdict(one.figures)
        told = {name: figures[name] for name in (*SHARES, *MEASURES, "pieces")}
        names = {"name": view.name(one), "kind": view.name(one), "split": ""}
        if trained:
            names |= {
                "kind": word(f"tokenizers.kind_{trained['kind']}"),
                "split": word(f"tokenizers.split_{trained['split']}"),
            }
        more = {"seconds": figures["seconds_to_train"], "trained": bool(trained), "able": known_enough(one)}
        rows.append({**names, **told, **more})
    return pd.DataFrame(rows).astype(dict.fromkeys((*MEASURES, "seconds"), float))


def best_rows(table: pd.DataFrame, column: str) -> pd.Series:
    """Return which rows have the best figure of a column; none where all have the same."""
    values = table[column].where(table["able"]) if column in _OF_WHO_KNOWS else table[column]
    best = values.max() if column in _HIGHER else values.min()
    found: pd.Series = (values == best) & (table[column].nunique() > 1)
    return found


def _draw_picture(view: TokenizersView, table: pd.DataFrame, measure: str) -> None:
    drawn = table.dropna(subset=[measure]).assign(value=lambda rows: rows[measure])
    if measure not in _OF_WHO_KNOWS:
        drawn["able"] = True
    kinds = [word(f"tokenizers.kind_{kind}") for kind in TokenizerKind]
    splits = [word(f"tokenizers.split_{split}") for split in view.request.compared.splits]
    columns = ["name", "kind", "split", "pieces", "value", "able"]
    draw_chart(
        by_size,
        drawn.loc[drawn["trained"], columns].reset_index(drop=True),
        drawn.loc[~drawn["trained"], columns].reset_index(drop=True),
        kinds,
        splits,
        y=word(f"tokenizers.{measure}"),
        share=measure in SHARES,
        alt=word("tokenizers.picture", measure=word(f"tokenizers.{measure}")),
    )
    if not drawn["able"].all():
        st.caption(word("tokenizers.hollow", share=f"{MOST_UNKNOWN:.0%}"))


def _draw_table(view: TokenizersView, table: pd.DataFrame) -> None:
    columns = {"kind": tables.text("tokenizers.tokenizer", pinned=True, width=145)}
    if len(view.request.compared.splits) > 1:
        columns["split"] = tables.text("tokenizers.split")
    columns["pieces"] = tables.number("tokenizers.pieces")
    columns |= {name: tables.number(f"tokenizers.{name}") for name in _COLUMNS}
    forms = {name: "{:.1%}" if name in SHARES else "{:.2f}" for name in _COLUMNS}
    styled = table.style.format({**forms, "pieces": "{:,}", "seconds": "{:.1f}"}, na_rep="–")
    for name in set(_COLUMNS) - {"unknown_rate"}:  # which kinds count differently
        best = [tables.BOLD if one else "" for one in best_rows(table, name)]
        styled = styled.apply(lambda _, best=best: best, subset=[name])
    tables.draw(styled, columns, placeholder="–")
    short = [
        view.name(one) for one in view.kept.tokenizers if one.figures.pieces < one.measured.trained.get("vocabulary", 0)
    ]
    if short:
        st.caption(word("tokenizers.fewer_pieces", names=", ".join(map(plain, short))))


def _draw_downloads(view: TokenizersView) -> None:
    trained = {one.folder.name: one for one in view.kept.tokenizers if one.is_trained}
    if trained:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            label, explained = word("tokenizers.take"), word("tokenizers.take_help")
            folder = pick_tokenizer(view, trained, "tokenizer", label, help=explained, width=320).folder
            st.download_button(
                word("tokenizers.download"),
                lambda: zipped(folder),
                f"{folder.name}.zip",
                "application/zip",
                key="download_tokenizer",
                on_click="ignore",
                icon=":material/folder_zip:",
            )
    with st.expander(word("tokenizers.command")):
        st.code(command_of(view), language="bash", wrap_lines=True)


def zipped(folder: Path) -> bytes:
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"{folder.name}/{path.name}")
    return content.getvalue()


def command_of(view: TokenizersView) -> str:
    asked = view.request.compared
    words = ["python", "-m", "language", "tokenizers", "--data", view.request.data]
    words += ["--kind", *asked.kinds, "--split", *asked.splits, "--vocabulary", *map(str, asked.vocabularies)]
    for reference in asked.against:
        words += ["--against", reference]
    return shlex.join([*map(str, words), "--out", "tokenizers"])


def by_size(
    table: pd.DataFrame, models: pd.DataFrame, kinds: Sequence[str], splits: Sequence[str], *, y: str, share: bool
) -> alt.LayerChart:
    """One line a "kind" and "split" of "value" over "pieces", and a dashed rule for each of the `models`.

    Both tables have the columns "name", "kind", "split", "pieces", "value" and "able"; what is not able has a hollow
    mark. `kinds` are all there are, in their fixed order. A `share` is written in percent.
    """
    axis = alt.Axis(format="%" if share else ".2~f", tickCount=5)
    up = alt.Y("value:Q", title=y, scale=alt.Scale(zero=False, padding=14), axis=axis)
    tooltip = tips(
        ("name:N", word("tokenizers.tokenizer")),
        ("pieces:Q", word("tokenizers.pieces"), ","),
        ("value:Q", y, ".1%" if share else ".2f"),
    )
    layers: list[alt.Chart] = []
    if len(models):
        rules = alt.Chart(models).encode(y=up, tooltip=tooltip)
        names = rules.mark_text(align="left", baseline="bottom", dx=4, dy=-2, color=READABLE, fontSize=12)
        layers = [rules.mark_rule(strokeDash=[2, 3], strokeWidth=2, color=READABLE)]
        layers += [names.encode(x=alt.value(0), text="name:N")]
    if len(table):
        base = alt.Chart(table).encode(x=_sizes(table), y=up, tooltip=tooltip)
        drawn = present(kinds, table["kind"])
        told = legend(columns=1, symbolType="stroke", symbolSize=600) if len(splits) > 1 else None
        of_split = alt.Scale(domain=list(splits), range=list(_DASHES[: len(splits)]))
        dashes = alt.StrokeDash("split:N", scale=of_split, legend=told)
        tint = colour("kind", drawn, kinds, legend(columns=2, symbolOpacity=1))
        mark = shape("kind", drawn, kinds, legend(columns=2))
        filled = base.transform_filter("datum.able").mark_point(filled=True, size=80, opacity=1)
        hollow = base.transform_filter("!datum.able").mark_point(size=80, strokeWidth=2)
        layers += [
            base.mark_line(strokeWidth=2.5).encode(color=tint, detail="split:N", strokeDash=dashes),
            filled.encode(color=tint, shape=mark),
            hollow.encode(color=tint, shape=mark),
        ]
    return alt.layer(*layers).properties(height=_HEIGHT)


def _sizes(table: pd.DataFrame) -> alt.X:
    """Vocabularies on a logarithmic scale, a tick at each that was found, but for those that would overlap.

    It reaches over a factor of four at least: sizes that hardly differ stand close together.
    """
    ticks: list[int] = []
    sizes = sorted(set(table["pieces"]))
    for size in sizes:
        if not ticks or size > 1.3 * ticks[-1]:
            ticks.append(size)
    axis = alt.Axis(values=ticks, format=",", labelAngle=0, grid=False)
    middle = sqrt(sizes[0] * sizes[-1])
    domain = [min(sizes[0], middle / 2), max(sizes[-1], middle * 2)]
    scale = alt.Scale(type="log", domain=domain, nice=False, padding=24)
    return alt.X("pieces:Q", title=word("tokenizers.pieces"), scale=scale, axis=axis)
