"""Sentence pairs on the Data page: sources and preview of a set, and its counts, labels, lengths, leaks and parts."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from mrc_workbench.data.formats.columns import SENTENCES as SENTENCE_COLUMNS
from mrc_workbench.data.pairs import Label, PairAudit, PairKind, PairSet, evaluation_part, sentence_set
from mrc_workbench.data.pairs.store import MIN_ROWS, PAIR_CATALOG, PairEntry, PairReadOptions, StoredPairs, obtain_files
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.split import PARTS, Part, SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.text.marking import marked_sentences
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.training.text_options import SENTENCES
from mrc_workbench.workbench.views.data import pairs_preview as preview
from mrc_workbench.workbench.views.data.audit import MAX_ROWS, draw_lengths, draw_ranges
from mrc_workbench.workbench.views.data.pairs_preview import AuditedPairs, PairsPreview
from mrc_workbench.workbench.views.data.widgets import MEGABYTE, download_progress, draw_pairs, selected_pairs
from mrc_workbench.workbench.views.names import pairs_name, set_name
from mrc_workbench.workbench.views.navigation import draw_page_link, translate_field
from mrc_workbench.workbench.views.resources.sets import pair_audit, pair_set, parts_of, question_set
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import draw_chart, range_bars, tooltips
from mrc_workbench.workbench.views.ui.state import scroll_to_top
from mrc_workbench.workbench.views.ui.words import label_and_help, plain, show_errors, word

_SAMPLES = [entry for entry in PAIR_CATALOG.values() if not entry.size]
_PUBLIC = [entry for entry in PAIR_CATALOG.values() if entry.size]
_HEIGHT = 240
_LABEL_HEIGHT = 44  # pixels
_COUNT_WIDTH = 230  # pixels: a wide screen has three in a row
_SENTENCE = "sentence"


def draw(used: StoredSet) -> None:
    current = preview.STATE.current()
    selected = selected_pairs()
    is_new = selected is not None and preview.STATE.stored_last() == selected.key
    if selected is not None and current is None and is_new:
        scroll_to_top(f"kept {selected.key}")
        st.success(word("pairs_page.kept_now", name=plain(pairs_name(selected.name))), icon=":material/check_circle:")
        _draw_next(selected)
    _draw_upload()
    _draw_others(used, is_open=current is None)
    if current is not None:
        preview.draw(current)
        if (read := current.read or (current.before.read if current.before else None)) is not None:
            _draw_audit(read)
        return
    draw_pairs(selected.key if selected is not None else "")
    if selected is not None:
        st.header(word("pairs_page.shown", name=plain(pairs_name(selected.name))), anchor=False)
        if not is_new:
            _draw_next(selected)
        with show_errors():
            with st.spinner(word("data_page.auditing"), show_time=True):
                stored = AuditedPairs(pair_set(selected.key), (), parts_of(selected.key), pair_audit(selected.key))
            _draw_audit(stored)


def _draw_next(pairs: StoredPairs) -> None:
    with st.container(horizontal=True):
        draw_page_link("embeddings", word("pairs_page.to_embeddings"), pairs=pairs.key)
        draw_page_link("train", word("pairs_page.to_train"), train=SENTENCES, pairs=pairs.key)


def _draw_others(used: StoredSet, *, is_open: bool) -> None:
    key = f"pairs_others_{not is_open}"  # a new key resets the expander
    with st.expander(word("pairs_page.others"), icon=":material/library_add:", key=key):
        sample, public = st.columns(2, border=True)
        with sample:
            st.markdown(f"**{word('pairs_page.sample')}**")
            licence = word("data_page.licence", licence=_SAMPLES[0].licence)
            st.caption(f"{word('pairs_page.sample_about')}  \n{licence}")
            for entry in _SAMPLES:
                title = pairs_name(entry.title)
                if st.button(title, key=f"look_{entry.id}", icon=":material/visibility:", width="stretch"):
                    _preview_entry(entry)
        with public:
            st.markdown(f"**{word('pairs_page.public')}**")
            names = {entry.id: pairs_name(entry.title) for entry in _PUBLIC}
            kwargs: dict[str, Any] = {"key": "public_pairs", "label_visibility": "collapsed"}
            name = st.selectbox(word("pairs_page.public"), [*names], format_func=names.__getitem__, **kwargs)
            entry = PAIR_CATALOG[name or _PUBLIC[0].id]
            size = word("pairs_page.download_size", size=f"{entry.size / MEGABYTE:.1f}")
            licence = word("data_page.licence", licence=entry.licence)
            st.caption(f"{word(f'pair_set_about.{entry.id}')}  \n{size}  \n{licence}")
            if st.button(word("data_page.look"), key="look_public", icon=":material/visibility:"):
                _preview_entry(entry)
        _draw_sentences(used)


def _draw_upload() -> None:
    key = f"upload_pairs_{preview.STATE.upload_round()}"
    translate_field(key, is_large=preview.STATE.current() is None)
    help_text = word("pairs_page.upload_help")
    files = st.file_uploader(word("data_page.upload"), accept_multiple_files=True, key=key, help=help_text)
    st.caption(word("pairs_page.upload_about"))
    if files:
        contents = tuple((file.getvalue(), file.name) for file in files)
        preview.STATE.empty_field()
        preview.read_and_show(PairsPreview(", ".join(file.name for file in files), files=contents), PairReadOptions())


def _draw_sentences(used: StoredSet) -> None:
    """Offer the sentences of the passages, but not the questions, which are for evaluation."""
    with st.container(border=True):
        about, button_column = st.columns([3, 1], vertical_alignment="center")
        about.caption(word("pairs_page.sentences_about", name=plain(set_name(used.name))))
        label = word("pairs_page.sentences")
        if not button_column.button(label, "take_sentences", icon=":material/notes:", width="stretch"):
            return
    with show_errors():
        with st.spinner(word("pairs_page.taking_sentences"), show_time=True):
            title = word("pairs_page.sentences_of", name=set_name(used.name))
            texts = question_set(used.key).passages.texts
            pairs = sentence_set(title, (text[start:end] for text in texts for start, end in marked_sentences(text)))
            if len(pairs) < MIN_ROWS:
                error = DataError.from_code(ProblemCode.TOO_FEW_ROWS, rows=len(pairs), least=MIN_ROWS)
                preview.show(PairsPreview(used.key, title, error=error))
            else:
                preview.show(PairsPreview(used.key, title, read=AuditedPairs.of(pairs)))
        st.rerun()


def _preview_entry(entry: PairEntry) -> None:
    bar = st.empty()
    with show_errors():
        try:
            files = tuple(obtain_files(entry, download_progress(bar.progress)))
        except DataError as error:
            preview.show(PairsPreview(entry.id, entry.title, error=error))
            st.rerun()
        bar.empty()
        preview.read_and_show(PairsPreview(entry.id, entry.title, files=files), entry.options)


def _draw_audit(result: AuditedPairs) -> None:
    pairs = result.pairs
    audit = result.audit
    tabs = ("data_page.look_summary", "data_page.split", "pairs_page.spread", "pairs_page.pairs")
    summary, parts, spread, all_rows = st.tabs([word(key) for key in tabs])
    with summary:
        _draw_counts(result)
    with parts:
        _draw_parts(result)
        _draw_leaks(pairs, audit)
    with spread:
        if pairs.kind is PairKind.SCORED:
            st.markdown(f"**{word('pairs_page.scores')}**")
            ends = {"from": audit.score_edges[:-1], "to": audit.score_edges[1:]}
            table = pd.DataFrame({**ends, "count": audit.score_counts})
            draw_chart(score_bars, table, x=word("column.score"), y=word("pairs_page.row_count"))
            draw_ranges(table, "%g")
        if pairs.kind is PairKind.LABELLED:
            st.markdown(f"**{word('pairs_page.labels')}**")
            counts = {_label_words(label): count for label, count in audit.labels.items()}
            table = _with_fractions(counts, "label", "count")
            draw_chart(label_bars, table, x=word("pairs_page.row_count"), y=word("column.label"))
            with st.expander(word("compare.as_table")):
                _draw_fractions(table, "column.label")
        if len(pairs):
            draw_lengths(dict(zip(_names(pairs), audit.lengths, strict=True)))
    with all_rows:
        _draw_table(pairs, result.rows, np.arange(len(pairs)))


def _draw_counts(result: AuditedPairs) -> None:
    pairs = result.pairs
    audit = result.audit
    values = {
        "row_count": audit.row_count,
        "sentence_count": audit.sentence_count,
        "repeated": len(audit.repeated),
        **({"disputed": audit.disputed_count} if len(pairs.values) else {}),
        **({"equal": audit.equal_count} if pairs.kind.width > 1 else {}),
        "leaked": len(audit.leaks[Part.TRAIN, Part.TEST].rows),
    }
    with st.container(horizontal=True):
        for name, value in values.items():
            st.metric(**label_and_help(f"pairs_page.{name}"), value=f"{value:,}", border=True, width=_COUNT_WIDTH)
    if len(audit.repeated):
        with st.expander(word("pairs_page.see_repeated", count=f"{len(audit.repeated):,}")):
            _draw_table(pairs, result.rows, audit.repeated)


def _with_fractions(counts: dict[str, int], name: str, number: str) -> pd.DataFrame:
    table = pd.DataFrame(list(counts.items()), columns=[name, number])
    return table.assign(share=table[number] / max(1, sum(counts.values())))


def _draw_fractions(table: pd.DataFrame, first: str) -> None:
    """Draw a table of names, counts and fractions; `first` is the text key of the names."""
    name, number, fraction = table.columns
    columns = {
        name: tables.text(first),
        number: tables.number("pairs_page.row_count", "localized"),
        fraction: tables.number("pairs_page.share", "percent"),
    }
    st.dataframe(table, hide_index=True, column_config=columns)


def _draw_parts(result: AuditedPairs) -> None:
    audit = result.audit
    sampled = [part for part in PARTS if part not in audit.published and audit.part_counts[part]]
    texts = []
    if audit.published:
        texts.append(word("pairs_page.published", parts=_part_names(audit.published)))
    if sampled:
        texts.append(word("pairs_page.drawn", parts=_part_names(sampled), seed=SplitOptions().seed))
    st.markdown(" ".join(texts))
    counts = audit.part_counts
    rows_by_part = {word(f"part.{part}"): count for part, count in counts.items()}
    _draw_fractions(_with_fractions(rows_by_part, "part", "rows"), "data_page.part")
    if not counts[Part.TRAIN]:
        st.info(word("pairs_page.no_train"), icon=":material/info:")
    if not counts[Part.TEST]:
        st.info(word("pairs_page.no_test", part=word(f"part.{evaluation_part(result.rows)}")), icon=":material/info:")
    whole = partial(_table, result.pairs, result.rows, np.arange(len(result.pairs)))
    tables.draw_csv("pairs_page.download", whole, f"{result.pairs.name}.csv")


def _draw_leaks(pairs: PairSet, audit: PairAudit) -> None:
    leaks = {parts: leak for parts, leak in audit.leaks.items() if leak.sentences}
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
        fraction = len(leak.rows) / max(1, audit.part_counts[second])
        parts = (word(f"part.{first}"), word(f"part.{second}"))
        rows.append((*parts, leak.sentences, len(leak.rows), fraction, leak.repeated))
    tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)
    for (first, second), leak in leaks.items():
        names = {"first": word(f"part.{first}"), "second": word(f"part.{second}")}
        with st.expander(word("pairs_page.see_leak", count=f"{len(leak.rows):,}", **names)):
            _draw_table(pairs, {second: leak.rows}, leak.rows)


def _draw_table(pairs: PairSet, rows: dict[Part, np.ndarray], indices: np.ndarray) -> None:
    if len(indices) > MAX_ROWS:
        st.caption(word("data_page.first_rows", count=f"{MAX_ROWS:,}"))
    table = _table(pairs, rows, indices[:MAX_ROWS])
    if "label" in table:
        table["label"] = [_label_words(Label[name.upper()]) for name in table["label"]]
    table["part"] = [word(f"part.{part}") for part in table["part"]]
    columns = {
        "part": tables.text("data_page.part", "", width="small"),
        "score": tables.number("column.score", "%.3g", "", width="small"),
        "label": tables.text("column.label", "", width="small"),
    }
    columns |= {name: tables.text(f"column.{name}", "", width="large") for name in (*SENTENCE_COLUMNS, _SENTENCE)}
    order = [name for name in columns if name in table]  # short columns first: a sentence fills a narrow screen
    st.dataframe(table, hide_index=True, column_order=order, column_config=columns)


def _table(pairs: PairSet, rows: dict[Part, np.ndarray], indices: np.ndarray) -> pd.DataFrame:
    """Return the rows at `indices`: columns of sentences, "score" or "label", and "part"."""
    part_of_row = np.full(len(pairs), "", dtype=object)
    for part in PARTS:
        part_of_row[rows.get(part, [])] = part.value
    selected = pairs.at(indices)
    table = pd.DataFrame({name: list(texts) for name, texts in zip(_names(pairs), selected.texts, strict=True)})
    if pairs.kind is PairKind.SCORED:
        table["score"] = selected.values
    if pairs.kind is PairKind.LABELLED:
        table["label"] = [Label(value).name.lower() for value in selected.values]
    return table.assign(part=part_of_row[indices])


def _names(pairs: PairSet) -> tuple[str, ...]:
    return (_SENTENCE,) if pairs.kind is PairKind.SENTENCES else SENTENCE_COLUMNS[: pairs.kind.width]


def _label_words(label: Label) -> str:
    return word(f"pair_label.{label.name.lower()}")


def _part_names(parts: Sequence[Part]) -> str:
    return ", ".join(word(f"part.{part}") for part in parts)


def score_bars(table: pd.DataFrame, *, x: str, y: str) -> alt.Chart:
    """Return a histogram of the columns "from", "to" and "count"; the last range includes the end of the scale."""
    edges = [*table["from"], float(table["to"].iloc[-1])]
    axis = alt.Axis(values=edges, format="~g")
    ranges = [f"{low:g}–{high:g}" for low, high in zip(table["from"], table["to"], strict=True)]
    described = charts.describe(x, charts.values(ranges, [*table["count"]], ","))
    bars = range_bars(table, (edges[0], edges[-1]), axis, x=x, y=y, form="~g")
    return bars.properties(height=_HEIGHT, description=described)


def label_bars(table: pd.DataFrame, *, x: str, y: str) -> alt.Chart:
    described = charts.describe(x, charts.values([*table["label"]], [*table["count"]], ","))
    bars = alt.Chart(table).mark_bar(color=PALETTE[0])
    bars = bars.encode(
        y=alt.Y("label:N", sort=[*table["label"]], title=None, axis=alt.Axis(labelLimit=220)),
        x=alt.X("count:Q", title=x, axis=alt.Axis(tickMinStep=1)),
        tooltip=tooltips(("label", y), ("count:Q", x, ","), ("share:Q", "%", ".1%")),
    )
    return bars.properties(height=50 + _LABEL_HEIGHT * len(table), description=described)
