"""Notes on questions and passages marked as hard negatives: made beside a question, listed, downloaded, removed."""

import streamlit as st

from data.remarks import LONGEST_NOTE, Remarks, as_table, mark_negative, unmark_negative, write_note
from views.compare.scores import ComparisonView
from views.resources.sets import question_set
from views.ui import tables
from views.ui.words import plain, word

_SHOWN_CHARACTERS = 200


def draw_note(fingerprint: str, remarks: Remarks, question: str) -> None:
    """Draw the note of a question (an id); what is written is kept when the field is left."""
    key = f"note_{question}"
    st.text_area(
        word("why.note"),
        value=remarks.note(question),
        key=key,
        max_chars=LONGEST_NOTE,
        height=80,
        placeholder=word("why.note_placeholder"),
        on_change=lambda: write_note(fingerprint, question, st.session_state[key]),
    )


def draw_mark(fingerprint: str, remarks: Remarks, pair: tuple[str, str], label: str, key: str) -> None:
    """Draw the box that marks a pair of ids, a question and a passage, as a hard negative, or takes the mark away."""
    is_marked = pair in remarks.negatives
    key = f"mark_{key}"
    st.session_state[key] = is_marked  # the same passage may stand in several columns
    st.checkbox(
        plain(label),
        key=key,
        on_change=unmark_negative if is_marked else mark_negative,
        args=(fingerprint, *pair),
    )


def draw(view: ComparisonView, remarks: Remarks) -> None:
    """Draw everything that was remarked about the set, whatever questions are listed."""
    with st.expander(word("why.remarks", count=f"{len(remarks):,}"), icon=":material/edit_note:"):
        st.caption(word("why.remarks_help"))
        if not len(remarks):
            st.info(word("why.no_remarks"), icon=":material/info:")
            return
        table = as_table(remarks, question_set(view.data.key))
        short = table.assign(passage=table["passage"].str.slice(0, _SHOWN_CHARACTERS))
        columns = {name: tables.text(f"why.remarks_{name}") for name in ("question", "note", "title", "passage")}
        rows = tables.draw_choice(short, columns, f"why_remarks_{len(remarks)}", "multi-row")
        with st.container(horizontal=True):
            st.button(
                word("why.remove", count=len(rows)),
                icon=":material/delete:",
                disabled=not rows,
                on_click=_remove,
                args=(view.data.fingerprint, table.iloc[rows][["question_id", "passage_id"]].to_numpy().tolist()),
                key="why_remove",
            )
            tables.draw_csv("why.csv", lambda: table, "notes-and-hard-negatives.csv", "why_remarks_csv")


def _remove(fingerprint: str, pairs: list[list[str]]) -> None:
    for question, passage in pairs:
        if passage:
            unmark_negative(fingerprint, question, passage)
        else:
            write_note(fingerprint, question, "")
