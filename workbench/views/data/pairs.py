"""Sentence pairs: get a set, preview and store it; its counts, labels or scores, lengths, shared sentences, parts and
rows."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from mrc_workbench.data.formats.columns import SENTENCES as SENTENCE_COLUMNS
from mrc_workbench.data.pairs import Label, PairAudit, PairKind, PairSet, part_to_measure, sentence_set
from mrc_workbench.data.pairs.store import LEAST_ROWS, PAIR_CATALOG, PairEntry, PairOptions, StoredPairs, obtain_files
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.split import PARTS, Part, SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.text.marking import marked_sentences
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.training.text_options import SENTENCES
from mrc_workbench.workbench.views.data import pairs_preview as preview
from mrc_workbench.workbench.views.data.audit import SHOWN_ROWS, draw_lengths, draw_ranges
from mrc_workbench.workbench.views.data.pairs_preview import Preview, Read
from mrc_workbench.workbench.views.data.widgets import MEGABYTE, chosen_pairs, draw_pairs, following
from mrc_workbench.workbench.views.names import pairs_name, set_name
from mrc_workbench.workbench.views.navigation import translate_field, way_to
from mrc_workbench.workbench.views.resources.sets import pair_audit, pair_set, parts_of, question_set
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import draw_chart, range_bars, tips
from mrc_workbench.workbench.views.ui.state import show_top
from mrc_workbench.workbench.views.ui.words import errors_told, plain, word

_SAMPLES = [entry for entry in PAIR_CATALOG.values() if not entry.size]
_PUBLIC = [entry for entry in PAIR_CATALOG.values() if entry.size]
_HEIGHT = 240
_A_LABEL = 44  # pixels
_COUNT_WIDTH = 230  # pixels: three in a row on a wide screen
_SENTENCE = "sentence"


def draw(used: StoredSet) -> None:
    shown = preview.current()
    selected = chosen_pairs()
    is_new = selected is not None and preview.stored_last() == selected.key
    if selected is not None and shown is None and is_new:
        show_top(f"kept {selected.key}")
        st.success(word("pairs_page.kept_now", name=plain(pairs_name(selected.name))), icon=":material/check_circle:")
        _draw_next(selected)
    _draw_upload()
    _draw_others(used, is_open=shown is None)
    if shown is not None:
        preview.draw(shown)
        if (read := shown.read or (shown.before.read if shown.before else None)) is not None:
            _draw_audit(read.pairs, read.rows, read.audit)
        return
    draw_pairs(selected.key if selected is not None else "")
    if selected is not None:
        st.header(word("pairs_page.shown", name=plain(pairs_name(selected.name))), anchor=False)
        if not is_new:
            _draw_next(selected)
        with errors_told():
            with st.spinner(word("data_page.auditing"), show_time=True):
                pairs, rows, figures = pair_set(selected.key), parts_of(selected.key), pair_audit(selected.key)
            _draw_audit(pairs, rows, figures)


def _draw_next(kept: StoredPairs) -> None:
    with st.container(horizontal=True):
        way_to("embeddings", word("pairs_page.to_embeddings"), pairs=kept.key)
        way_to("train", word("pairs_page.to_train"), train=SENTENCES, pairs=kept.key)


def _draw_others(used: StoredSet, *, is_open: bool) -> None:
    key = f"pairs_others_{not is_open}"  # another key makes it another expander
    with st.expander(word("pairs_page.others"), icon=":material/library_add:", key=key):
        sample, public = st.columns(2, border=True)
        with sample:
            st.markdown(f"**{word('pairs_page.sample')}**")
            licence = word("data_page.licence", licence=_SAMPLES[0].licence)
            st.caption(f"{word('pairs_page.sample_about')}  \n{licence}")
            for entry in _SAMPLES:
                title = pairs_name(entry.title)
                if st.button(title, key=f"look_{entry.id}", icon=":material/visibility:", width="stretch"):
                    _look(entry)
        with public:
            st.markdown(f"**{word('pairs_page.public')}**")
            names = {entry.id: pairs_name(entry.title) for entry in _PUBLIC}
            look: dict[str, Any] = {"key": "public_pairs", "label_visibility": "collapsed"}
            name = st.selectbox(word("pairs_page.public"), [*names], format_func=names.__getitem__, **look)
            entry = PAIR_CATALOG[name or _PUBLIC[0].id]
            size = word("pairs_page.download_size", size=f"{entry.size / MEGABYTE:.1f}")
            licence = word("data_page.licence", licence=entry.licence)
            st.caption(f"{word(f'pair_set_about.{entry.id}')}  \n{size}  \n{licence}")
            if st.button(word("data_page.look"), key="look_public", icon=":material/visibility:"):
                _look(entry)
        _draw_sentences(used)


def _draw_upload() -> None:
    key = f"upload_pairs_{preview.upload_round()}"
    translate_field(key, is_large=preview.current() is None)
    help_text = word("pairs_page.upload_help")
    files = st.file_uploader(word("data_page.upload"), accept_multiple_files=True, key=key, help=help_text)
    st.caption(word("pairs_page.upload_about"))
    if files:
        contents = tuple((file.getvalue(), file.name) for file in files)
        preview.empty_field()
        preview.look_at(Preview(", ".join(file.name for file in files), files=contents), PairOptions())


def _draw_sentences(used: StoredSet) -> None:
    """Offer the sentences of the passages in use, not of its questions, which are for evaluation."""
    with st.container(border=True):
        about, place = st.columns([3, 1], vertical_alignment="center")
        about.caption(word("pairs_page.sentences_about", name=plain(set_name(used.name))))
        look: dict[str, Any] = {"icon": ":material/notes:", "width": "stretch"}
        if not place.button(word("pairs_page.sentences"), key="take_sentences", **look):
            return
    with errors_told():
        with st.spinner(word("pairs_page.taking_sentences"), show_time=True):
            title = word("pairs_page.sentences_of", name=set_name(used.name))
            texts = question_set(used.key).passages.texts
            pairs = sentence_set(title, (text[start:end] for text in texts for start, end in marked_sentences(text)))
            if len(pairs) < LEAST_ROWS:
                error = DataError.of(ProblemCode.TOO_FEW_ROWS, rows=len(pairs), least=LEAST_ROWS)
                preview.show(Preview(used.key, title, error=error))
            else:
                preview.show(Preview(used.key, title, read=Read.of(pairs)))
        st.rerun()


def _look(entry: PairEntry) -> None:
    bar = st.empty()
    with errors_told():
        try:
            files = tuple(obtain_files(entry, following(bar.progress)))
        except DataError as error:
            preview.show(Preview(entry.id, entry.title, error=error))
            st.rerun()
        bar.empty()
        preview.look_at(Preview(entry.id, entry.title, files=files), entry.options)


def _draw_audit(pairs: PairSet, rows: dict[Part, np.ndarray], figures: PairAudit) -> None:
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
            st.markdown(f"**{word('pairs_page.scores')}**")
            ends = {"from": figures.score_edges[:-1], "to": figures.score_edges[1:]}
            table = pd.DataFrame({**ends, "count": figures.score_counts})
            draw_chart(score_bars, table, x=word("column.score"), y=word("pairs_page.row_count"))
            draw_ranges(table, "%g")
        if pairs.kind is PairKind.LABELLED:
            st.markdown(f"**{word('pairs_page.labels')}**")
            table = _shares({_label_words(label): count for label, count in figures.labels.items()}, "label", "count")
            draw_chart(label_bars, table, x=word("pairs_page.row_count"), y=word("column.label"))
            with st.expander(word("compare.as_table")):
                _draw_shares(table, "column.label")
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


def _shares(counts: dict[str, int], name: str, number: str) -> pd.DataFrame:
    table = pd.DataFrame(list(counts.items()), columns=[name, number])
    return table.assign(share=table[number] / max(1, sum(counts.values())))


def _draw_shares(table: pd.DataFrame, first: str) -> None:
    """Draw a table of names, counts and fractions; `first` is the text key of the names."""
    name, number, share = table.columns
    columns = {
        name: tables.text(first),
        number: tables.number("pairs_page.row_count", "localized"),
        share: tables.number("pairs_page.share", "percent"),
    }
    st.dataframe(table, hide_index=True, column_config=columns)


def _draw_parts(pairs: PairSet, rows: dict[Part, np.ndarray], figures: PairAudit) -> None:
    drawn = [part for part in PARTS if part not in figures.published and figures.part_counts[part]]
    texts = []
    if figures.published:
        texts.append(word("pairs_page.published", parts=_named(figures.published)))
    if drawn:
        texts.append(word("pairs_page.drawn", parts=_named(drawn), seed=SplitOptions().seed))
    st.markdown(" ".join(texts))
    counts = figures.part_counts
    _draw_shares(
        _shares({word(f"part.{part}"): count for part, count in counts.items()}, "part", "rows"), "data_page.part"
    )
    if not counts[Part.TRAIN]:
        st.info(word("pairs_page.no_train"), icon=":material/info:")
    if not counts[Part.TEST]:
        measured = word(f"part.{part_to_measure(rows)}")
        st.info(word("pairs_page.no_test", part=measured), icon=":material/info:")
    whole = partial(_table, pairs, rows, np.arange(len(pairs)))
    tables.draw_csv("pairs_page.download", whole, f"{pairs.name}.csv")


def _draw_leaks(pairs: PairSet, figures: PairAudit) -> None:
    leaks = {parts: leak for parts, leak in figures.leaks.items() if leak.sentences}
    st.markdown(f"**{word('pairs_page.leaks')}**")
    if not leaks:
        st.success(word("pairs_page.no_leak"), icon=":material/check_circle:")
        return
    st.markdown(word("pairs_page.leaks_about"))
    columns = {
        "first": tables.text("pairs_page.leak_first"),
        "second": tables.text("pairs_page.leak_second"),
        "sentences": tables.number("pairs_page.leak_sentences", "localized"),
        "rows": tables.number("pairs_page.leak_rows", "localized"),
        "share": tables.number("pairs_page.leak_share", "percent"),
        "repeated": tables.number("pairs_page.leak_repeated", "localized"),
    }
    rows = []
    for (first, second), leak in leaks.items():
        share = len(leak.rows) / max(1, figures.part_counts[second])
        parts = (word(f"part.{first}"), word(f"part.{second}"))
        rows.append((*parts, leak.sentences, len(leak.rows), share, leak.repeated))
    tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)
    for (first, second), leak in leaks.items():
        names = {"first": word(f"part.{first}"), "second": word(f"part.{second}")}
        with st.expander(word("pairs_page.see_leak", count=f"{len(leak.rows):,}", **names)):
            _draw_table(pairs, {second: leak.rows}, leak.rows)


def _draw_table(pairs: PairSet, rows: dict[Part, np.ndarray], shown: np.ndarray) -> None:
    if len(shown) > SHOWN_ROWS:
        st.caption(word("data_page.first_rows", shown=f"{SHOWN_ROWS:,}"))
    table = _table(pairs, rows, shown[:SHOWN_ROWS])
    if "label" in table:
        table["label"] = [_label_words(Label[name.upper()]) for name in table["label"]]
    table["part"] = [word(f"part.{part}") for part in table["part"]]
    columns = {
        "part": tables.text("data_page.part", "", width="small"),
        "score": tables.number("column.score", "%.3g", "", width="small"),
        "label": tables.text("column.label", "", width="small"),
    }
    columns |= {name: tables.text(f"column.{name}", "", width="large") for name in (*SENTENCE_COLUMNS, _SENTENCE)}
    # what is short stands first: on a narrow screen a sentence leaves no room beside it
    order = [name for name in columns if name in table]
    st.dataframe(table, hide_index=True, column_order=order, column_config=columns)


def _table(pairs: PairSet, rows: dict[Part, np.ndarray], shown: np.ndarray) -> pd.DataFrame:
    """The shown rows: columns of sentences, "score" or "label", and "part"."""
    part_of_row = np.full(len(pairs), "", dtype=object)
    for part in PARTS:
        part_of_row[rows.get(part, [])] = part.value
    selected = pairs.at(shown)
    table = pd.DataFrame({name: list(texts) for name, texts in zip(_names(pairs), selected.texts, strict=True)})
    if pairs.kind is PairKind.SCORED:
        table["score"] = selected.values
    if pairs.kind is PairKind.LABELLED:
        table["label"] = [Label(value).name.lower() for value in selected.values]
    return table.assign(part=part_of_row[shown])


def _names(pairs: PairSet) -> tuple[str, ...]:
    """What the columns of sentences are called."""
    return (_SENTENCE,) if pairs.kind is PairKind.SENTENCES else SENTENCE_COLUMNS[: pairs.kind.width]


def _label_words(label: Label) -> str:
    return word(f"pair_label.{label.name.lower()}")


def _named(parts: Sequence[Part]) -> str:
    return ", ".join(word(f"part.{part}") for part in parts)


def score_bars(table: pd.DataFrame, *, x: str, y: str) -> alt.Chart:
    """Bars over ranges of the scale, columns "from", "to" and "count"; the last range holds the scale's end."""
    edges = [*table["from"], float(table["to"].iloc[-1])]
    axis = alt.Axis(values=edges, format="~g")
    ranges = [f"{low:g}–{high:g}" for low, high in zip(table["from"], table["to"], strict=True)]
    described = charts.describe(x, charts.values(ranges, [*table["count"]], ","))
    bars = range_bars(table, (edges[0], edges[-1]), axis, x=x, y=y, form="~g")
    return bars.properties(height=_HEIGHT, description=described)


def label_bars(table: pd.DataFrame, *, x: str, y: str) -> alt.Chart:
    """One bar a "label" as long as its "count", in their order."""
    described = charts.describe(x, charts.values([*table["label"]], [*table["count"]], ","))
    return (
        alt.Chart(table)
        .mark_bar(color=PALETTE[0])
        .encode(
            y=alt.Y("label:N", sort=[*table["label"]], title=None, axis=alt.Axis(labelLimit=220)),
            x=alt.X("count:Q", title=x, axis=alt.Axis(tickMinStep=1)),
            tooltip=tips(("label", y), ("count:Q", x, ","), ("share:Q", "%", ".1%")),
        )
        .properties(height=50 + _A_LABEL * len(table), description=described)
    )
