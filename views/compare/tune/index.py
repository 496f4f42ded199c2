"""The index lab: what faster or smaller indexes of the same vectors lose."""

from typing import Any

import pandas as pd
import streamlit as st

from retrieval.analysis.labs import index_lab
from retrieval.comparison.first_stage import DenseSpec
from retrieval.dense import IndexKind
from views.compare.charts import scattered
from views.compare.tune.bench import (
    Bench,
    LabResult,
    difference_columns,
    draw_table,
    draw_use,
    figure_columns,
    names_of,
    run,
)
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.state import choose
from views.ui.words import signed, word

_MEGABYTE = 1e6


def draw(bench: Bench) -> None:
    """Draw the choice of a dense retriever, and what was found of its indexes."""
    names = names_of(bench, DenseSpec)
    if not names:
        st.info(word("tune.needs_dense"), icon=":material/info:")
        return
    help_text = word("tune.vectors_help")
    present = choose(st.selectbox, "vectors", word("tune.vectors"), names, names[0], follows=True, help=help_text)
    found = run(bench, index_lab(bench.view.comparison.experiment, present))
    if found and "overlap" in found.table:
        _draw_found(bench, found)


def _draw_found(bench: Bench, found: LabResult) -> None:
    exact = found.table.set_index("name").loc[IndexKind.EXACT]
    table = found.table.assign(
        milliseconds=found.table["search_seconds"] / bench.questions * 1000,
        building=found.table["build_seconds"] - exact["build_seconds"],
        megabytes=found.table["memory_bytes"] / _MEGABYTE,
        title=[word(f"tune.index_{name}") for name in found.table["name"]],
    )
    sound = table[table["difference_high"] >= 0]  # not surely worse than the exact one, which is among them
    smallest = str(sound.sort_values("memory_bytes", kind="stable")["name"].iloc[0])
    answer = st.container()
    _draw_pictures(bench, table)
    k = bench.measure.cut
    name = draw_table(
        LabResult(found.experiment, found.opened, table),
        {
            "title": tables.text("tune.index", pinned=True),
            **figure_columns(bench),
            **difference_columns("tune.lost"),
            "overlap": st.column_config.NumberColumn(word("tune.overlap", k=k), help=word("tune.overlap_help", k=k)),
            "milliseconds": tables.number("tune.search_time", "%.3f"),
            "building": tables.number("tune.build_time", "%+.2f"),
            "megabytes": tables.number("tune.memory", "%.2f"),
        },
        smallest,
        key="index_table",
        smallest_first="memory_bytes",
        caption=word("tune.choose_an_index"),
    )
    with answer, st.container(border=True):
        _draw_in_words(bench, table.set_index("name"), name)
        draw_use(bench, found.experiment, name)


def _draw_in_words(bench: Bench, table: pd.DataFrame, name: str) -> None:
    rows: dict[str, dict[str, Any]] = table.to_dict("index")  # type: ignore[assignment]
    one, exact = rows[name], rows[IndexKind.EXACT]
    values = {
        "k": bench.measure.cut,
        "figure": bench.measure.long,
        "overlap": f"{one['overlap'] * 100:.1f}",
        "points": signed(one["difference"]),
        "low": signed(one["difference_low"]),
        "high": signed(one["difference_high"]),
        "megabytes": f"{one['megabytes']:.3g}",
        "exact_megabytes": f"{exact['megabytes']:.3g}",
        "milliseconds": f"{one['milliseconds']:.2g}",
        "exact_milliseconds": f"{exact['milliseconds']:.2g}",
    }
    key = "tune.index_is_exact" if name == IndexKind.EXACT else "tune.index_in_words"
    st.markdown(word(key, index=one["title"], **values))


def _draw_pictures(bench: Bench, table: pd.DataFrame) -> None:
    k = bench.measure.cut
    overlap = word("tune.overlap", k=k)
    left, right = st.columns(2)
    for place, column, cost in ((left, "milliseconds", "search_time"), (right, "megabytes", "memory")):
        with place:
            title = word(f"tune.{cost}")
            st.markdown(f"**{word(f'tune.against_{cost}')}**")
            points = table.assign(x=table[column], y=table["overlap"])
            detail = ("title", word("tune.index"))
            draw_chart(scattered, points, x=title, y=overlap, detail=detail, key=f"by_{column}")
