"""The hard negatives a training would use, to look at before it starts."""

from collections.abc import Hashable
from typing import Any

import pandas as pd
import streamlit as st

from data.split import Part
from training.runs.rehearsal import Task
from views.resources.sets import split_of
from views.train.rehearsal import Asked, draw_ask_button, is_answered
from views.ui import tables
from views.ui.words import plain, word

_SHOWN_ROWS = 500
_SHOWN_CHARACTERS = 200
_TEXTS = ("question", "positive", "passage")


def draw_negatives(asked: Asked | None) -> None:
    """Draw the button that looks for them and, once they are found, the table."""
    draw_ask_button(Task.NEGATIVES, asked, st.container())
    if asked is None or not is_answered(asked):
        return
    table = asked.rehearsal.negatives()
    split = asked.plan.split
    questions = len(split_of(asked.plan.data, split.validation, split.test, split.seed).rows[Part.TRAIN])
    counts = {"count": f"{len(table):,}", "with_some": f"{table['question_id'].nunique():,}", "all": f"{questions:,}"}
    st.markdown(word("train.negatives_found", **counts))
    if by_hand := int(table["marked"].sum()):
        st.caption(word("train.negatives_marked_by_hand", count=f"{by_hand:,}"))
    if table.empty:
        st.warning(word("train.negatives_none"), icon=":material/warning:")
        return
    _downloads(table)
    _browse(table)


def _downloads(table: pd.DataFrame) -> None:
    with st.container(horizontal=True):
        tables.draw_csv("train.negatives_csv", lambda: table, "hard-negatives.csv", "train_negatives_csv")
        st.download_button(
            word("train.negatives_jsonl"),
            # made when it is asked for: there may be a hundred thousand rows
            lambda: table.to_json(orient="records", lines=True, force_ascii=False).encode(),
            "hard-negatives.jsonl",
            "application/jsonl",
            on_click="ignore",
            icon=":material/download:",
            key="train_negatives_jsonl",
        )


@st.fragment
def _browse(table: pd.DataFrame) -> None:
    wanted = st.text_input(
        word("train.negatives_search"), key="train_negatives_search", type="search", max_chars=200
    ).strip()
    found = table[table["question"].str.contains(wanted, case=False, regex=False)] if wanted else table
    shown = found.head(_SHOWN_ROWS).reset_index(drop=True)
    if len(found) > len(shown):
        st.caption(word("train.negatives_first", shown=f"{len(shown):,}", all=f"{len(found):,}"))
    short = shown.assign(**{name: shown[name].str.slice(0, _SHOWN_CHARACTERS) for name in _TEXTS})
    short["rank"] = short["rank"].where(short["rank"] > 0)  # a passage marked by hand may lie past the ranking
    columns = {  # what counts first
        "question": tables.text("train.negatives_question", width="medium"),
        "passage": tables.text("train.negatives_passage", width="medium"),
        "marked": tables.checkbox("train.negatives_marked", width=70),
        "rank": tables.number("train.negatives_rank", width=60),
        "score": tables.number("train.negatives_score", "%.3f", width=90),
        "positive_score": tables.number("train.negatives_positive_score", "%.3f", width=90),
        "positive": tables.text("train.negatives_positive", width="medium"),
        "title": tables.text("train.negatives_title", width="small"),
    }
    if rows := tables.draw_choice(short, columns, "train_negatives_table"):
        _read(shown.to_dict("records")[rows[0]])
    else:
        st.caption(word("train.negatives_pick"))


def _read(row: dict[Hashable, Any]) -> None:
    """Draw one negative beside the question's own passage, whole."""
    st.markdown(f"**{plain(str(row['question']))}**")
    for column, name in zip(st.columns(2, border=True), ("positive", "passage"), strict=True):
        with column:
            st.caption(word(f"train.negatives_{name}"))
            st.text(str(row[name]))
