"""The Pieces view: one sentence cut by all tokenizers, side by side."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from language.comparison import KeptTokenizer
from language.problems import LanguageError
from views.language import pieces_html
from views.language.tokenizers_view import TokenizersView
from views.language.typed import typed
from views.resources.language import CutPiece, cut_text
from views.ui import tables
from views.ui.problems import failure_text
from views.ui.words import plain, word

SENTENCE = "세종대왕께서는 집현전 학자들과 함께 훈민정음을 만드셨다고 배웠습니다."
MOST_LETTERS = 300
Cuts = Sequence[tuple[str, Sequence[CutPiece]]]


def draw(view: TokenizersView) -> None:
    """Draw a field for the sentence, and how each tokenizer cuts it."""
    answer = st.container()
    text = typed(
        st.text_input,
        "cut",
        word("tokenizers.sentence"),
        SENTENCE,
        max_chars=MOST_LETTERS,
        help=word("tokenizers.sentence_help"),
    ).strip()
    if not text:
        answer.info(word("tokenizers.type_sentence"), icon=":material/info:")
        return
    cuts = [(view.name(one), _cut(view, one, text)) for one in view.kept.tokenizers]
    found = [(name, pieces) for name, pieces in cuts if pieces]
    if not found:
        return
    answer.markdown(_answer(found))
    pieces_html.draw_style()
    st.html("".join(pieces_html.cut_html(name, _count(pieces), pieces) for name, pieces in found))
    st.caption(word("tokenizers.marks", documents=f"{view.kept.counted:,}"))
    _draw_table(found)


def _cut(view: TokenizersView, one: KeptTokenizer, text: str) -> Sequence[CutPiece]:
    try:
        return cut_text(one, text)
    except LanguageError as error:
        told = {"model": plain(view.name(one)), "reason": plain(failure_text(error))}
        st.error(word("tokenizers.model_failed", **told), icon=":material/error:")
        return []


def _count(pieces: Sequence[CutPiece]) -> str:
    return word("tokenizers.pieces_count", count=len(pieces))


def _answer(found: Cuts) -> str:
    """Who cuts it into how many pieces, of those that know all of it: one piece may be a whole word that is unknown."""
    able = [one for one in found if all(piece.known for piece in one[1])]
    ranked = able or found
    (least, few), (most, many) = (pick(ranked, key=lambda one: len(one[1])) for pick in (min, max))
    told = {"least": plain(least), "fewest": len(few), "most": plain(most), "count": len(many)}
    told["tokenizers"] = len(ranked)
    alike = "_alike" if len(few) == len(many) else ""
    key = f"sentence_answer{alike}" if len(ranked) > 1 else "sentence_answer_one"
    left_out = [word("tokenizers.sentence_unknown", count=len(found) - len(able))] if 0 < len(able) < len(found) else []
    return " ".join([word(f"tokenizers.{key}", **told), *left_out])


def _draw_table(found: Cuts) -> None:
    rows = [
        {
            "tokenizer": name,
            "piece": pieces_html.seen(one.name),
            "letters": one.letters,
            "number": one.number,
            "occurrences": one.occurrences,
        }
        for name, pieces in found
        for one in pieces
    ]
    columns = {
        "tokenizer": tables.text("tokenizers.tokenizer", "", width="medium"),
        "piece": tables.text("tokenizers.piece", ""),
        "letters": tables.text("tokenizers.letters", ""),
        "number": tables.number("tokenizers.number", "%d"),
        "occurrences": tables.number("tokenizers.occurrences", "localized"),
    }
    with st.expander(word("tokenizers.as_table")):
        st.dataframe(pd.DataFrame(rows), hide_index=True, column_config=columns)
