"""What a score is made of, word by word: both sums, the words as bars and as a table, both texts shaded."""

from typing import Any, Protocol

import pandas as pd
import streamlit as st

from retrieval.explain.duel import Duel
from text.located import Piece
from views.ui import tables
from views.ui.charts import draw_chart, term_bars
from views.ui.passages import weighed_html
from views.ui.words import word

_BARS = 12


class Shaded(Protocol):
    """An explanation that tells what the letters of a passage add to its score."""

    def title_pieces(self) -> list[Piece]:
        """Cut the title."""
        ...

    def text_pieces(self) -> list[Piece]:
        """Cut the passage's own text."""
        ...


def draw_sums(of: Duel, right: float, wrong: float, digits: int) -> None:
    """Draw both scores with their ranks, and the difference."""
    ranked = (of.right_rank, of.wrong_rank)
    ranks = [word("why.sums_rank", rank=rank) if rank else word("why.sums_no_rank") for rank in ranked]
    values = {"right": f"{right:.{digits}f}", "wrong": f"{wrong:.{digits}f}"}
    difference = f"{right - wrong:+.{digits}f}"
    st.markdown(word("why.sums", right_rank=ranks[0], wrong_rank=ranks[1], difference=difference, **values))


def draw_parts_of_words(table: pd.DataFrame) -> None:
    """Draw the words of most difference as bars, and all of them with the sum as a table."""
    sides = {"right": word("why.right"), "wrong": word("why.wrong")}
    shown = table.head(_BARS)
    labels = [_term(term, kind) for term, kind in zip(shown["term"], shown["kind"], strict=True)]
    long = pd.concat(
        [pd.DataFrame({"term": labels, "side": label, "value": shown[side].tolist()}) for side, label in sides.items()]
    )
    draw_chart(term_bars, long, labels, list(sides.values()), x=word("why.adds"), y=word("why.term"))
    with st.expander(word("compare.as_table")):
        _draw_word_table(table, sides)


def _term(text: str, kind: str) -> str:
    return f"{text} ({word(f'why.kind_{kind}')})" if kind in ("letters", "expansion", "added") else text


def _draw_word_table(table: pd.DataFrame, sides: dict[str, str]) -> None:
    total = {"term": word("why.sum"), **{side: table[side].sum() for side in (*sides, "difference")}}
    told = table.assign(kind=[word(f"why.kind_{kind}") for kind in table["kind"]])
    columns = {
        "term": tables.text("why.term", pinned=True),
        "kind": tables.text("why.term_kind"),
        "known": tables.checkbox("why.term_known"),
        "own": tables.checkbox("why.own"),
        "stands_as": tables.text("why.stands_as"),
        "in_question": tables.number("why.in_question"),
        "weight": tables.number("why.term_weight", "%.3f"),
        "sources": tables.text("why.sources"),
        "asked": tables.number("why.weight_asked", "%.3f"),
        "passages": tables.number("why.in_passages"),
        "idf": st.column_config.NumberColumn("idf", format="%.2f", help=word("why.idf_help")),
        "title_right": tables.number("why.title_right", explained_by=""),
        "text_right": tables.number("why.text_right", explained_by=""),
        "in_right": _held("right", table),
        "held_right": tables.number("why.weight_held", "%.3f"),
        "right": tables.number("why.right", "%.3f"),
        "title_wrong": tables.number("why.title_wrong", explained_by=""),
        "text_wrong": tables.number("why.text_wrong", explained_by=""),
        "in_wrong": _held("wrong", table),
        "held_wrong": tables.number("why.weight_held", "%.3f"),
        "wrong": tables.number("why.wrong", "%.3f"),
        "difference": tables.number("compare.difference", "%+.3f", ""),
    }
    shown = {name: column for name, column in columns.items() if name in table}
    st.dataframe(
        pd.concat([told.astype(object), pd.DataFrame([total])], ignore_index=True),
        hide_index=True,
        placeholder="",
        column_order=[*shown],
        column_config=shown,
    )


def _held(side: str, table: pd.DataFrame) -> Any:
    """The column of how often, or of whether, a term stands in a passage."""
    whether = pd.api.types.is_bool_dtype(table[f"in_{side}"]) if f"in_{side}" in table else False
    return tables.checkbox(f"why.stands_{side}") if whether else tables.number(f"why.in_{side}")


def draw_texts(right: Shaded, wrong: Shaded) -> None:
    """Draw both passages, their letters shaded by what they add."""
    st.caption(word("why.shades"))
    for place, explained, side in zip(st.columns(2), (right, wrong), ("right", "wrong"), strict=True):
        with place:
            st.markdown(f"**{word(f'why.{side}')}**")
            st.html(weighed_html(explained.title_pieces(), explained.text_pieces(), gold=side == "right"))
