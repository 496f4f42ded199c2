"""The Merges view: a word built by a BPE, merge by merge."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from language.morphemes import TokenizerKind
from language.prepared import Step
from language.text_file import LanguageError
from views.language import pieces
from views.language.tokenizers import TokenizersView
from views.resources.language import steps_of
from views.ui import tables
from views.ui.problems import failure_text
from views.ui.state import choose
from views.ui.typed import typed
from views.ui.words import plain, word

WORD = "도서관에서부터"
MOST_LETTERS = 40
_OF_MERGES = (TokenizerKind.BPE, TokenizerKind.BYTE_BPE)


def draw(view: TokenizersView) -> None:
    """Draw the choice of a BPE and of a word, and how far the word is built."""
    answer = st.container()
    able = {one.folder.name: one for one in view.kept.tokenizers if one.measured.trained.get("kind") in _OF_MERGES}
    if not able:
        answer.info(word("tokenizers.no_bpe"), icon=":material/info:")
        return
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        text = typed(st.text_input, "built", word("tokenizers.word"), WORD, max_chars=MOST_LETTERS).strip()
    with right:
        chosen = choose(
            st.selectbox,
            "merges_of",
            word("tokenizers.of_bpe"),
            [*able],
            next(iter(able)),
            follows=True,
            format_func=lambda one: view.name(able[one]) if one in able else one,
            help=word("tokenizers.of_bpe_help"),
        )
    if not text:
        answer.info(word("tokenizers.type_word"), icon=":material/info:")
        return
    try:
        found = steps_of(able[chosen], text)
    except LanguageError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return
    last = found[-1]
    told = {"word": plain(text), "merges": len(found) - 1, "letters": len(found[0].pieces), "pieces": len(last.pieces)}
    answer.markdown(word("tokenizers.built", **told))
    _draw_steps(found)


def _draw_steps(found: Sequence[Step]) -> None:
    at = _pick(found) if len(found) > 1 else 0
    pieces.draw_style()
    step = found[at]
    note = word("tokenizers.pieces_count", count=len(step.pieces))
    head = word("tokenizers.after_merges", merges=f"{step.merges:,}")
    st.html(pieces.names_html(head, note, step.pieces, step.joined))
    st.caption(word("tokenizers.merges_help"))
    if len(found) < 2:
        return
    rows = [
        {
            "number": one.merges,
            "first": pieces.seen(one.pair[0]),
            "second": pieces.seen(one.pair[1]),
            "pieces": " · ".join(map(pieces.seen, one.pieces)),
        }
        for one in found[1:]
    ]
    columns = {
        "number": tables.number("tokenizers.merge", "localized"),
        "first": tables.text("tokenizers.first", ""),
        "second": tables.text("tokenizers.second", ""),
        "pieces": tables.text("tokenizers.word_then", "", width="large"),
    }
    styled = pd.DataFrame(rows).style.apply(_done, at=at, axis=None)
    st.dataframe(styled, hide_index=True, column_config=columns)


def _pick(found: Sequence[Step]) -> int:
    """Draw the slider over the merges; it stops where one of them changes the word."""
    places = [str(place) for place in range(len(found))]
    chosen = choose(
        st.select_slider,
        "merges",
        word("tokenizers.merges"),
        places,
        places[-1],
        follows=True,
        format_func=lambda place: f"{found[int(place)].merges:,}" if int(place) < len(found) else place,
    )
    return int(chosen)


def _done(table: pd.DataFrame, at: int) -> pd.DataFrame:
    """The merges made so far are bold."""
    style = [tables.BOLD if row < at else "" for row in range(len(table))]
    return pd.DataFrame(dict.fromkeys(table.columns, style), index=table.index)
