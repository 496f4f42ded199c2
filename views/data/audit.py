"""What a question set is like: counts, wording shared with the passages, doubtful questions; lengths, kinds, split."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import streamlit as st

from data.questions.audit import (
    OVERLAP_WIDTH,
    Audit,
    Overlap,
    histogram,
    kinds_table,
    overlap_level,
    parts_table,
    split_table,
)
from data.records import Question, QuestionSet
from data.split import Split
from views.names import kind_words
from views.ui import tables
from views.ui.charts import distribution, draw_chart
from views.ui.words import word

_SHOWN_ROWS = 1000
_COUNT_WIDTH = 160  # pixels: two beside each other on a telephone
_EXPLAINED = ("article_count", "overlap")  # of the counts; the others say it


def draw(questions: QuestionSet, figures: Audit) -> None:
    """Draw what a question set is like at first sight: its counts, what is doubtful, and what a search will find."""
    _counts(figures)
    if questions.questions:
        _overlap_words(figures.overlap)
    _doubtful(questions, figures)


def draw_figures(questions: QuestionSet, figures: Audit) -> None:
    """Draw how the figures of a question set are spread."""
    if questions.questions:
        _overlap(figures)
    _lengths(figures)
    if figures.kinds:
        _kinds(questions, figures)


def draw_split(questions: QuestionSet, found: Split) -> None:
    """Draw how the questions are split for training."""
    st.subheader(word("data_page.split"), anchor=False)
    options = found.options
    train = 1 - options.validation - options.test
    shares = {"train": f"{train:.0%}", "validation": f"{options.validation:.0%}", "test": f"{options.test:.0%}"}
    about = "data_page.split_about" if found.by_article else "data_page.split_about_passages"
    st.markdown(word(about, **shares, seed=options.seed))
    table = parts_table(found)
    if not table["questions"].all():
        small = "data_page.split_too_small" if found.by_article else "data_page.split_too_small_passages"
        st.warning(word(small), icon=":material/warning:")
    table["part"] = [word(f"part.{part}") for part in table["part"]]
    columns = {
        "part": tables.text("data_page.part"),
        "groups": tables.number("data_page.groups", "localized"),
        "share": tables.number("data_page.share", "percent"),
        "questions": tables.number("data_page.question_count", "localized"),
    }
    if not found.by_article:
        columns["groups"] = tables.number("data_page.split_passages", "localized")
        columns["share"] = tables.number("data_page.split_passages_share", "percent")
    st.dataframe(table, hide_index=True, column_config=columns)
    tables.draw_csv("data_page.download_split", lambda: split_table(questions, found), f"{questions.name}_split.csv")


def _counts(figures: Audit) -> None:
    overlap = "–" if math.isnan(figures.overlap.mean) else f"{figures.overlap.mean:.0%}"
    counts = {
        "passage_count": f"{figures.passage_count:,}",
        "question_count": f"{figures.question_count:,}",
        "article_count": f"{figures.article_count:,}" if figures.article_count else "–",
        "overlap": overlap,
    }
    with st.container(horizontal=True):
        for name, shown in counts.items():
            explained = word(f"data_page.{name}_help") if name in _EXPLAINED else None
            st.metric(word(f"data_page.{name}"), shown, help=explained, border=True, width=_COUNT_WIDTH)
    if not figures.question_count:
        return
    doubtful = {
        "passages_without_question": figures.passages_without_question,
        "unanswerable": figures.unanswerable_count,
        "duplicates": sum(map(len, figures.duplicate_questions.values())),
        "answers_not_found": len(figures.answers_not_found),
    }
    told = " · ".join(f"{word(f'data_page.{name}')} {count:,}" for name, count in doubtful.items())
    explained = "\n".join(f"- **{word(f'data_page.{name}')}**: {word(f'data_page.{name}_help')}" for name in doubtful)
    st.caption(told, help=explained)


def _doubtful(questions: QuestionSet, figures: Audit) -> None:
    by_id = {question.id: question for question in questions.questions}
    lists = {
        "unanswerable": [question for question in questions.questions if not question.relevant],
        "duplicates": [by_id[id_] for ids in figures.duplicate_questions.values() for id_ in ids],
        "answers_not_found": [by_id[id_] for id_ in figures.answers_not_found],
    }
    for name, found in lists.items():
        if found:
            with st.expander(word(f"data_page.see_{name}", count=f"{len(found):,}")):
                _questions(found)


def _questions(found: list[Question]) -> None:
    if len(found) > _SHOWN_ROWS:
        st.caption(word("data_page.first_rows", shown=f"{_SHOWN_ROWS:,}"))
    rows = [(question.id, question.text, " | ".join(question.answers)) for question in found[:_SHOWN_ROWS]]
    columns = {
        "id": tables.text("column.id", ""),
        "question": tables.text("column.question", "", width="large"),
        "answers": tables.text("column.answers", ""),
    }
    tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)


def _overlap_words(overlap: Overlap) -> None:
    level, unit = overlap_level(overlap), word(f"data_page.unit_{overlap.unit}")
    told = {"mean": f"{overlap.mean * 100:.0f}", "chance": f"{overlap.by_chance * 100:.0f}", "unit": unit}
    st.markdown(word(f"data_page.overlap_{level}", **told))


def _overlap(figures: Audit) -> None:
    table = histogram(figures.overlap.shares, OVERLAP_WIDTH)
    if len(table):
        st.markdown(f"**{word('data_page.overlap_title')}**")
        median = float(np.nanmedian(figures.overlap.shares))
        _draw_histogram(table, "overlap_axis", "questions_axis", median, percent=True)


def _lengths(figures: Audit) -> None:
    lengths = {"passages": figures.passage_lengths, "questions": figures.question_lengths}
    draw_lengths({name: values for name, values in lengths.items() if len(values)})


def draw_lengths(lengths: Mapping[str, np.ndarray]) -> None:
    """Draw how long texts are, each kind's in characters beside the next one's; none of them is empty."""
    for place, (name, values) in zip(st.columns(len(lengths)), lengths.items(), strict=True):
        with place:
            st.markdown(f"**{word(f'data_page.lengths_{name}')}**")
            spread = {"least": f"{values.min():,}", "median": f"{np.median(values):,.0f}", "most": f"{values.max():,}"}
            st.caption(word("data_page.lengths_spread", **spread))
            table = histogram(values)
            _draw_histogram(table, "characters", f"{name}_axis", float(np.median(values)))


def _draw_histogram(table: pd.DataFrame, x: str, y: str, median: float, *, percent: bool = False) -> None:
    shown = f"{median:.0%}" if percent else f"{median:,.0f}"
    draw_chart(
        distribution,
        table,
        x=word(f"data_page.{x}"),
        y=word(f"data_page.{y}"),
        median=median,
        label=word("data_page.median", median=shown),
        percent=percent,
    )
    with st.expander(word("compare.as_table")):
        form = "percent" if percent else "localized"
        columns = {end: tables.number(f"data_page.{end}", form) for end in ("from", "to")}
        columns["count"] = tables.number("data_page.count", "localized")
        st.dataframe(table, hide_index=True, column_config=columns)


def _kinds(questions: QuestionSet, figures: Audit) -> None:
    st.markdown(f"**{word('data_page.kinds')}**")
    columns = {
        "kind": tables.text("column.kind", ""),
        "count": tables.number("data_page.question_count", "localized"),
        "share": tables.number("data_page.kind_share", "percent"),
        "overlap": tables.number("data_page.overlap", "percent"),
    }
    table = kinds_table(questions, figures)
    st.dataframe(table.assign(kind=[*map(kind_words, table["kind"])]), hide_index=True, column_config=columns)
