"""What a set of sentence pairs is like: counts, labels or scores, lengths, shared sentences, its parts and its rows."""

from functools import partial

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from data.formats.columns import SENTENCES
from data.pairs.audit import PairAudit, part_to_measure
from data.pairs.records import PARTS, Label, PairKind, PairSet
from data.split import Part, SplitOptions
from retrieval.report.drawing import PALETTE
from views.data.audit import SHOWN_ROWS, draw_lengths, draw_ranges
from views.ui import tables
from views.ui.charts import draw_chart, range_bars, tips
from views.ui.words import word

_HEIGHT = 240
_A_LABEL = 44  # pixels


def score_bars(table: pd.DataFrame, *, x: str, y: str) -> alt.Chart:
    """Bars over ranges of the scale, columns "from", "to" and "count"; the last range holds the scale's end."""
    edges = [*table["from"], float(table["to"].iloc[-1])]
    axis = alt.Axis(values=edges, format="~g")
    return range_bars(table, (edges[0], edges[-1]), axis, x=x, y=y, form="~g").properties(height=_HEIGHT)


def label_bars(table: pd.DataFrame, *, x: str, y: str) -> alt.Chart:
    """One bar a "label" as long as its "count", in their order."""
    return (
        alt.Chart(table)
        .mark_bar(color=PALETTE[0])
        .encode(
            y=alt.Y("label:N", sort=[*table["label"]], title=None, axis=alt.Axis(labelLimit=220)),
            x=alt.X("count:Q", title=x, axis=alt.Axis(tickMinStep=1)),
            tooltip=tips(("label", y), ("count:Q", x, ","), ("share:Q", "%", ".1%")),
        )
        .properties(height=50 + _A_LABEL * len(table))
    )


_COUNT_WIDTH = 230  # pixels: three in a row on a wide screen
_SENTENCE = "sentence"


def draw(pairs: PairSet, rows: dict[Part, np.ndarray], figures: PairAudit) -> None:
    """Draw the audit of a set whose parts have these rows."""
    summary, parts, spread, all_rows = st.tabs(
        [word("data_page.look_summary"), word("data_page.split"), word("pairs_page.spread"), word("pairs_page.pairs")]
    )
    with summary:
        _draw_counts(pairs, rows, figures)
    with parts:
        _draw_parts(pairs, rows, figures)
        _draw_leaks(pairs, figures)
    with spread:
        if pairs.kind is PairKind.SCORED:
            _draw_scores(figures)
        if pairs.kind is PairKind.LABELLED:
            _draw_labels(figures)
        if len(pairs):
            draw_lengths(dict(zip(_names(pairs), figures.lengths, strict=True)))
    with all_rows:
        _draw_table(pairs, rows, np.arange(len(pairs)))


def _draw_counts(pairs: PairSet, rows: dict[Part, np.ndarray], figures: PairAudit) -> None:
    values = {
        "row_count": figures.row_count,
        "sentence_count": figures.sentence_count,
        "repeated": len(figures.repeated),
        **({"disputed": figures.disputed_count} if len(pairs.values) else {}),
        **({"equal": figures.equal_count} if pairs.kind.width > 1 else {}),
        "leaked": len(figures.leaks[Part.TRAIN, Part.TEST].rows),
    }
    with st.container(horizontal=True):
        for name, value in values.items():
            label, explained = word(f"pairs_page.{name}"), word(f"pairs_page.{name}_help")
            st.metric(label, f"{value:,}", help=explained, border=True, width=_COUNT_WIDTH)
    if len(figures.repeated):
        with st.expander(word("pairs_page.see_repeated", count=f"{len(figures.repeated):,}")):
            _draw_table(pairs, rows, figures.repeated)


def _draw_scores(figures: PairAudit) -> None:
    st.markdown(f"**{word('pairs_page.scores')}**")
    edges = figures.score_edges
    table = pd.DataFrame({"from": edges[:-1], "to": edges[1:], "count": figures.score_counts})
    draw_chart(score_bars, table, x=word("column.score"), y=word("pairs_page.row_count"))
    draw_ranges(table, "%g")


def _draw_labels(figures: PairAudit) -> None:
    st.markdown(f"**{word('pairs_page.labels')}**")
    counts = [*figures.labels.values()]
    table = pd.DataFrame({"label": [label_words(label) for label in figures.labels], "count": counts})
    table["share"] = table["count"] / max(1, sum(counts))
    draw_chart(label_bars, table, x=word("pairs_page.row_count"), y=word("column.label"))
    with st.expander(word("compare.as_table")):
        columns = {
            "label": tables.text("column.label"),
            "count": tables.number("pairs_page.row_count", "localized"),
            "share": tables.number("pairs_page.share", "percent"),
        }
        st.dataframe(table, hide_index=True, column_config=columns)


def _draw_parts(pairs: PairSet, rows: dict[Part, np.ndarray], figures: PairAudit) -> None:
    drawn = [part for part in PARTS if part not in figures.published and figures.part_counts[part]]
    told = []
    if figures.published:
        told.append(word("pairs_page.published", parts=_named(figures.published)))
    if drawn:
        told.append(word("pairs_page.drawn", parts=_named(drawn), seed=SplitOptions().seed))
    st.markdown(" ".join(told))
    counts = figures.part_counts
    table = pd.DataFrame({"part": [word(f"part.{part}") for part in counts], "rows": [*counts.values()]})
    table["share"] = table["rows"] / max(1, figures.row_count)
    columns = {
        "part": tables.text("data_page.part"),
        "rows": tables.number("pairs_page.row_count", "localized"),
        "share": tables.number("pairs_page.share", "percent"),
    }
    st.dataframe(table, hide_index=True, column_config=columns)
    if not counts[Part.TRAIN]:
        st.info(word("pairs_page.no_train"), icon=":material/info:")
    if not counts[Part.TEST]:
        measured = word(f"part.{part_to_measure(rows)}")
        st.info(word("pairs_page.no_test", part=measured), icon=":material/info:")
    whole = partial(_table, pairs, rows, np.arange(len(pairs)))
    tables.draw_csv("pairs_page.download", whole, f"{pairs.name}.csv")


def _draw_leaks(pairs: PairSet, figures: PairAudit) -> None:
    found = {parts: leak for parts, leak in figures.leaks.items() if leak.sentences}
    st.markdown(f"**{word('pairs_page.leaks')}**")
    if not found:
        st.success(word("pairs_page.no_leak"), icon=":material/check_circle:")
        return
    st.markdown(word("pairs_page.leaks_about"))
    table = pd.DataFrame(
        [
            {
                "first": word(f"part.{first}"),
                "second": word(f"part.{second}"),
                "sentences": leak.sentences,
                "rows": len(leak.rows),
                "share": len(leak.rows) / max(1, figures.part_counts[second]),
                "repeated": leak.repeated,
            }
            for (first, second), leak in found.items()
        ]
    )
    columns = {
        "first": tables.text("pairs_page.leak_first"),
        "second": tables.text("pairs_page.leak_second"),
        "sentences": tables.number("pairs_page.leak_sentences", "localized"),
        "rows": tables.number("pairs_page.leak_rows", "localized"),
        "share": tables.number("pairs_page.leak_share", "percent"),
        "repeated": tables.number("pairs_page.leak_repeated", "localized"),
    }
    st.dataframe(table, hide_index=True, column_config=columns)
    for (first, second), leak in found.items():
        names = {"first": word(f"part.{first}"), "second": word(f"part.{second}")}
        with st.expander(word("pairs_page.see_leak", count=f"{len(leak.rows):,}", **names)):
            _draw_table(pairs, {second: leak.rows}, leak.rows)


def _draw_table(pairs: PairSet, rows: dict[Part, np.ndarray], shown: np.ndarray) -> None:
    if len(shown) > SHOWN_ROWS:
        st.caption(word("data_page.first_rows", shown=f"{SHOWN_ROWS:,}"))
    table = _table(pairs, rows, shown[:SHOWN_ROWS])
    if "label" in table:
        table["label"] = [label_words(Label[name.upper()]) for name in table["label"]]
    table["part"] = [word(f"part.{part}") for part in table["part"]]
    columns = {
        "part": tables.text("data_page.part", "", width="small"),
        "score": tables.number("column.score", "%.3g", "", width="small"),
        "label": tables.text("column.label", "", width="small"),
    }
    columns |= {name: tables.text(f"column.{name}", "", width="large") for name in (*SENTENCES, _SENTENCE)}
    # what is short stands first: on a narrow screen a sentence leaves no room beside it
    order = [name for name in columns if name in table]
    st.dataframe(table, hide_index=True, column_order=order, column_config=columns)


def _table(pairs: PairSet, rows: dict[Part, np.ndarray], shown: np.ndarray) -> pd.DataFrame:
    """The shown rows: columns of sentences, "score" or "label", and "part"."""
    part_of_row = np.full(len(pairs), "", dtype=object)
    for part in PARTS:
        part_of_row[rows.get(part, [])] = part.value
    found = pairs.at(shown)
    table = pd.DataFrame({name: list(texts) for name, texts in zip(_names(pairs), found.texts, strict=True)})
    if pairs.kind is PairKind.SCORED:
        table["score"] = found.values
    if pairs.kind is PairKind.LABELLED:
        table["label"] = [Label(value).name.lower() for value in found.values]
    return table.assign(part=part_of_row[shown])


def _names(pairs: PairSet) -> tuple[str, ...]:
    """What the columns of sentences are called."""
    return (_SENTENCE,) if pairs.kind is PairKind.SENTENCES else SENTENCES[: pairs.kind.width]


def label_words(label: Label) -> str:
    """Return what a label is called."""
    return word(f"pair_label.{label.name.lower()}")


def _named(parts: "list[Part] | tuple[Part, ...]") -> str:
    return ", ".join(word(f"part.{part}") for part in parts)
