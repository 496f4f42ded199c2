"""The Figures view: how each tokenizer cuts text that it was not trained on, as a picture and as a table."""

import shlex
import zipfile
from io import BytesIO
from pathlib import Path

import pandas as pd
import streamlit as st

from language.morphemes import TokenizerKind
from views.language import tokenizer_charts
from views.language.tokenizers import MOST_UNKNOWN, TokenizersView, known_enough
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.state import choose
from views.ui.words import plain, word

SHARES = ("unknown_rate", "unknown_words", "whole_words", "longer_than_512")
MEASURES = ("tokens_per_word", "tokens_per_character", "f1", "whole_words", "unknown_words", "longer_than_512")
_HIGHER = ("whole_words", "f1")  # is better; of all others, lower
_OF_WHO_KNOWS = ("tokens_per_word", "tokens_per_character", "longer_than_512", "f1")  # unknown words would look cheap
_COLUMNS = (*MEASURES, "unknown_rate", "seconds")


def draw(view: TokenizersView) -> None:
    """Draw the picture of the measure chosen, the table of all, and what can be taken away."""
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
        trained, figures = one.measured.trained, one.figures.as_dict()
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
        tokenizer_charts.by_size,
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
        styled = styled.apply(_bold, subset=[name], rows=best_rows(table, name))
    tables.draw(styled, columns, placeholder="–")
    short = [
        view.name(one) for one in view.kept.tokenizers if one.figures.pieces < one.measured.trained.get("vocabulary", 0)
    ]
    if short:
        st.caption(word("tokenizers.fewer_pieces", names=", ".join(map(plain, short))))


def _bold(column: pd.Series, rows: pd.Series) -> list[str]:
    return [tables.BOLD if best else "" for best in rows.reindex(column.index)]


def _draw_downloads(view: TokenizersView) -> None:
    """Draw the way to take a tokenizer away, and the command that does the same."""
    trained = {one.folder.name: one for one in view.kept.tokenizers if one.is_trained}
    if trained:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            name = choose(
                st.selectbox,
                "tokenizer",
                word("tokenizers.take"),
                [*trained],
                next(iter(trained)),
                follows=True,
                format_func=lambda one: view.name(trained[one]) if one in trained else one,
                help=word("tokenizers.take_help"),
                width=320,
            )
            st.download_button(
                word("tokenizers.download"),
                lambda: zipped(trained[name].folder),
                f"{name}.zip",
                "application/zip",
                key="download_tokenizer",
                on_click="ignore",
                icon=":material/folder_zip:",
            )
    with st.expander(word("tokenizers.command")):
        st.code(command_of(view), language="bash", wrap_lines=True)


def zipped(folder: Path) -> bytes:
    """Return a tokenizer's folder as a zip."""
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"{folder.name}/{path.name}")
    return content.getvalue()


def command_of(view: TokenizersView) -> str:
    """Return the command that trains and compares the same."""
    asked = view.request.compared
    words = ["python", "-m", "language", "tokenizers", "--data", view.request.data]
    words += ["--kind", *asked.kinds, "--split", *asked.splits, "--vocabulary", *map(str, asked.vocabularies)]
    for reference in asked.against:
        words += ["--against", reference]
    return shlex.join([*map(str, words), "--out", "tokenizers"])
